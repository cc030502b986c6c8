"""Which distance an index is about, and what is proven about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distinct import in_own_order, sparse_histograms
from asot.data.distributions import Distributions, check_mass
from asot.exact.auto import exact_solver, read_prices
from asot.ground.costs import prepare_cost
from asot.ground.metrics import FROM_POINTS, KERNELS, NORMS
from asot.request import Distance, as_order
from asot.run.executors import alone
from asot.run.protocols import Solver
from asot.search.choose import HIGHEST_ORDER
from asot.search.relaxed import Relaxed, relax
from asot.search.sweep import Shape
from asot.validation import as_seed

_ALSO_METRICS = ("angular", "haversine", "great_circle", "periodic")
_KNOWN = ("sqeuclidean", "cosine", "angular", "haversine", "great_circle")


@dataclass(frozen=True)
class Settings(Distance):
    """The words of `asot.kneighbors` that say which distance is meant, and a seed."""

    seed: int = 0

    @property
    def has_norm(self) -> bool:
        """Whether projections bound the distance: the metric is a norm, and all mass has a partner."""
        return isinstance(self.metric, str) and self.metric in NORMS and self.unmatched is None

    @property
    def is_metric(self) -> bool:
        """Whether W_p is proven to obey the triangle inequality, which distances to landmarks rest on.

        With unmatched mass, it is for p = 1: prices that are a distance to the diagonal, or constant and large enough
        (smaller ones are refused by the solver), make the reservoir one more point of the metric.
        """
        ground = isinstance(self.metric, str) and (self.metric in KERNELS or self.metric in _ALSO_METRICS)
        return ground and (self.unmatched is None or self.p == 1)

    @property
    def is_computed(self) -> bool:
        """Whether distances are computed and not looked up in a table, which takes longer than a solve saves."""
        return isinstance(self.metric, str) and self.metric in (*KERNELS, *_KNOWN)

    def problem(self, pooled: Distributions, memory: int, relaxes: bool) -> tuple[Solver, Relaxed | None]:
        """What solves the pairs of the first distribution with the others, and a bound for each if it ``relaxes``.

        Members that are solved at different times must not differ in the last digit if they are equal. Tables of
        distances are too large for points that are listed several times.
        """
        histograms = in_own_order(pooled) if self.is_computed else sparse_histograms(pooled)
        solver = exact_solver(pooled, self, 1, memory, histograms=histograms)
        shape = Shape(1, len(pooled) - 1, 1, False)
        on_line = pooled.dim == 1 and self.has_norm
        if not relaxes or on_line or not self.is_computed or self.p > HIGHEST_ORDER:
            return solver, None
        cost = prepare_cost(histograms.points, self.metric, self.metric_params, memory)
        prices = None if self.unmatched is None else read_prices(self.unmatched, pooled, cost)
        return solver, relax(histograms, cost, shape, self.p, prices)

    def check(self, D: Distributions) -> None:
        """Refuse what has no distances, before it is a member."""
        if self.matches_all:
            check_mass(D)
        points = np.asarray(D.points, dtype=np.float64)
        if self.metric == "precomputed":
            places = np.unique(points[:, :1])
            odd = places[places != np.rint(places)][:1]
            points = np.concatenate([places[:1], places[-1:], odd])[:, None] if D.dim == 1 else points[:1]
        elif not self.is_computed:
            points = points[:1]
        prepare_cost(points, self.metric, self.metric_params)
        if self.unmatched is not None and self.metric in KERNELS:
            read_prices(self.unmatched, D, prepare_cost(sparse_histograms(D).points, self.metric, self.metric_params))

    def distances(self, rows: Distributions, columns: Distributions, memory: int) -> NDArray[np.float64]:
        """All exact distances (N, M)."""
        solver = exact_solver(rows + columns, self, len(rows), memory)
        first, second = np.divmod(np.arange(len(rows) * len(columns)), len(columns))
        found = alone(lambda stop: solver.solve(first, second, stop), solver.expected_seconds(len(first)))
        return np.asarray(found.values.reshape(len(rows), len(columns)))


def read_settings(p: Any, metric: Any, metric_params: Any, unmatched: Any, random_state: Any) -> Settings:
    """Check the words of a new index; what depends on all members at once has no place in one."""
    order = as_order(p)
    if metric_params is not None and not isinstance(metric_params, dict):
        raise TypeError(f"metric_params must be a dictionary; found {type(metric_params).__name__}")
    parameters = dict(metric_params or {})
    needed = FROM_POINTS.get(metric) if isinstance(metric, str) else None
    if needed is not None and parameters.get(needed) is None:
        raise ValueError(
            f"metric {metric!r} takes its spread from all members, which change: pass "
            f"metric_params={{{needed!r}: ...}} to an index"
        )
    if not isinstance(metric, str) and not callable(metric):
        raise TypeError(f"metric must be a name or a function of two points; found {type(metric).__name__}")
    if unmatched is not None and not isinstance(unmatched, str) and not np.isscalar(unmatched):
        raise ValueError("an index takes unmatched= as a number or 'diagonal'; prices by point have no place in one")
    settings = Settings(order, metric, parameters or None, unmatched, as_seed(random_state))
    _try(settings)
    return settings


def _try(settings: Settings) -> None:
    """Let the metric, its parameters and the price be refused now and not when members are there."""
    if callable(settings.metric) or settings.metric == "precomputed":
        return
    if settings.metric_params and settings.metric not in ("minkowski", "haversine", "great_circle"):
        return  # read with the points they are about
    two = np.array([[0.0, 1.0], [1.0, 0.0]])
    cost = prepare_cost(two, settings.metric, settings.metric_params)
    if settings.unmatched is not None:
        read_prices(settings.unmatched, Distributions(two, [0, 1, 2]), cost)
