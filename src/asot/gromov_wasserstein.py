"""`gromov`: Gromov–Wasserstein distances of a collection of spaces, with a proven bound beside each."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asot._typing import Float, Info
from asot.data.spaces.quantiles import default_bins
from asot.data.spaces.reading import Spaces, as_gromov_order, chosen_spaces, joined_spaces, place_of, read_spaces
from asot.plans import TransportPlan
from asot.request import Accuracy, as_error
from asot.results.distances import named
from asot.results.sinks import Condensed, Kept, TopK, default_sink
from asot.run import devices
from asot.run.engine import Ready, Resources, Work, solve_work
from asot.run.executors import ProgressLike, alone
from asot.run.gpu_engine import IN_FLIGHT
from asot.run.pairs import PairSet, make_pairs
from asot.run.protocols import Notes, Sink, SinkBase
from asot.spaces.cuda import MOST_POINTS, GromovCuda
from asot.spaces.estimate import STEPS, Fit, GromovEstimate, solved_sample
from asot.spaces.nearest import nearest
from asot.spaces.solver import FROM_BOUND, FROM_PRODUCT, Gromov
from asot.spaces.third_bound import CenteredBounds, Estimates, FromThirdBound, third_bound_work
from asot.validation import check_sink, is_number


def gromov(
    X: Any,
    Y: Any = None,
    *,
    p: float = 2,
    masses: Any = None,
    features: Any = None,
    alpha: float = 1.0,
    error: float | str | None = None,
    bounds: bool = True,
    pairs: ArrayLike | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
    sink: Sink[Kept] | None = None,
) -> Kept:
    """Gromov–Wasserstein distances between spaces that are known by their distances only.

    Finding the best plan is NP-hard, so no value is called exact. A value is the price of the best plan that descents
    from two starts found, which is an upper bound; ``lower`` is proven. Together they are an interval.

    Parameters
    ----------
    X : list of (n_i, n_i) matrices, of graphs (networkx, PyTorch Geometric: shortest paths), or a Distributions
        Spaces of any sizes; a dictionary gives them names. The points of a `Distributions` are compared by their
        Euclidean distances within each distribution, with its masses.
    Y : the same, optional
        A second collection; every space of X with every space of Y.
    p : float from 1 to 16
        ``GW_p = ½ (min Σ |d_X(i, i') - d_Y(j, j')|^p T_ij T_i'j')^(1/p)``. For p = 2 a step is a product of matrices;
        other orders cost n times more.
    masses : list of vectors (n_i,), optional
        Masses of the points of X (a pair of lists for X and Y); default: uniform.
    features : list of (n_i, d) arrays, optional
        Features of the points, for fused distances (a pair of lists for X and Y).
    alpha : float in (0, 1]
        Share of the distances in a fused energy; less than 1 needs features.
    error : float or "5%", optional
        Accept estimates: a fit of the bounds to solved pairs, if held-out pairs show that it is this good. Otherwise,
        and for few pairs, plans are searched as without it.
    bounds : bool
        Keep ``lower`` and ``upper`` with every pair.
    pairs, n_jobs, memory, progress, sink
        As in `asot.pairwise_exact`. With ``sinks.TopK``, pairs that a bound rules out are not solved.
    device : {"auto", "cpu", "cuda", "cuda:N"}
        GPUs take p = 2 without features, and spaces of up to 1,024 points. Where steps of a descent tie, it may end at
        another plan than on the CPU.
    random_state : int or None
        Of the sample for ``error``; None is a fixed one.

    Returns
    -------
    Distances, or what the sink returns. ``error`` of a pair is how far its two starts disagree (or, for estimates, the
    measured error); ``info["convention"]`` says which number it is.

    Examples
    --------
    >>> import numpy as np, asot
    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> r = asot.gromov([line, 2 * line, line[::-1, ::-1]])
    >>> r.values.round(6)
    array([0.790569, 0.      , 0.790569])
    >>> bool((r.lower <= r.values).all())
    True
    """
    order, share = as_gromov_order(p), _as_alpha(alpha, features)
    spaces, (row_ids, column_ids) = _read(X, Y, masses, features)
    column_start = 0 if Y is None else len(row_ids)
    pair_set = make_pairs(len(row_ids), None if Y is None else len(column_ids), pairs)
    check_sink(sink)
    if not isinstance(bounds, (bool, np.bool_)):
        raise ValueError(f"bounds must be True or False; found {bounds!r}")
    if isinstance(sink, TopK):
        sink.open(pair_set, {})  # what it refuses, it should refuse before hours of work
    resources = Resources(n_jobs, memory, progress)
    request = _Request(pair_set, spaces, order, share, column_start, bool(bounds), pairs, device, resources)
    return named(request.answered(as_error(error), random_state, sink), row_ids, column_ids)


def gromov_plan(
    X: Any,
    i: int | str,
    j: int | str,
    *,
    Y: Any = None,
    p: float = 2,
    masses: Any = None,
    features: Any = None,
    alpha: float = 1.0,
) -> TransportPlan:
    """Which points of two spaces belong together: the best plan that `gromov` found for them.

    Parameters
    ----------
    X, Y, p, masses, features, alpha
        As in `gromov`.
    i, j : int or str
        Two spaces of X; with a second collection Y, a space of X and one of Y.

    Returns
    -------
    TransportPlan
        A scipy.sparse.csr_array (n_i, n_j) whose row sums are the masses of i. ``cost`` is the value that `gromov`
        reports, ``lower`` its proven bound.

    Examples
    --------
    >>> import numpy as np, asot
    >>> triangle = np.array([[0.0, 3.0, 4.0], [3.0, 0.0, 5.0], [4.0, 5.0, 0.0]])
    >>> turned = triangle[[2, 0, 1]][:, [2, 0, 1]]
    >>> T = asot.gromov_plan([triangle, turned], 0, 1)
    >>> T.cost, T.toarray().argmax(axis=1)
    (0.0, array([1, 2, 0]))
    """
    order, share = as_gromov_order(p), _as_alpha(alpha, features)
    spaces, (row_ids, column_ids) = _read(X, Y, masses, features)
    first, second = place_of(i, row_ids, "i"), place_of(j, column_ids, "j")
    pair = chosen_spaces(spaces, [first, second + (0 if Y is None else len(row_ids))])
    dense = np.zeros(tuple(pair.sizes.tolist()))
    solver = Gromov(pair, order, share, FROM_BOUND + FROM_PRODUCT, bins=default_bins(spaces))  # those of `gromov`
    ends = np.array([0]), np.array([1])
    found = alone(lambda stop: solver.energies(*ends, stop, dense), solver.expected_seconds(1))
    result = TransportPlan(dense)
    result.cost, result.ids = float(solver.bounds.distance(found.energy)[0]), (row_ids[first], column_ids[second])
    result.lower = min(float(solver.bounds.of(*ends, found.third).max()), result.cost)
    return result


def _as_alpha(alpha: Any, features: Any) -> float:
    if not is_number(alpha) or not 0 < float(alpha) <= 1:
        raise ValueError(f"alpha must be a number in (0, 1]; found {alpha!r}. Features alone are asot.pairwise_exact")
    if float(alpha) == 1 and features is not None:
        raise ValueError("features count for nothing where alpha is 1; give alpha < 1, such as 0.5, or leave them out")
    if float(alpha) < 1 and features is None:
        raise ValueError(f"alpha={alpha} shares the energy with features; pass features=, or leave alpha at 1")
    return float(alpha)


def _read(X: Any, Y: Any, masses: Any, features: Any) -> tuple[Spaces, tuple[Any, Any]]:
    """All spaces, those of X first, and the names of rows and columns."""
    if Y is None:
        spaces = read_spaces(X, masses, features)
        return spaces, (spaces.ids, spaces.ids)
    both = []
    for name, given in (("masses", masses), ("features", features)):
        if given is not None and len(given) != 2:
            raise ValueError(f"with two collections, {name} must be a pair: ({name} of X, {name} of Y)")
        both.append((None, None) if given is None else given)
    first = read_spaces(X, both[0][0], both[1][0], "X")
    second = read_spaces(Y, both[0][1], both[1][1], "Y")
    return joined_spaces(first, second), (first.ids, second.ids)


INFO = {"distance": "Gromov–Wasserstein", "rooted": True}


@dataclass(frozen=True)
class _Request:
    """What was asked for, checked, and the way to an answer."""

    pairs: PairSet
    spaces: Spaces
    p: float
    alpha: float
    column_start: int
    bounds: bool
    listed: Any
    device: str
    resources: Resources

    @functools.cached_property
    def solver(self) -> Gromov:
        """Descents from both starts."""
        both = FROM_BOUND + FROM_PRODUCT
        return Gromov(self.spaces, self.p, self.alpha, both, self.column_start, self.bounds)

    def answered(self, aim: Accuracy | None, random_state: Any, sink: Sink[Any] | None) -> Any:
        """Estimates, if they were asked for and measure as good as that; else descents, of the pairs that need them."""
        kept = default_sink(sink, ("lower", "upper", "error") if self.bounds else ("error",))
        obstacle = self._obstacle(kept)
        wants_bounds = aim is not None or isinstance(sink, TopK)
        bounded = self._bounds_on_gpus(centered=aim is None) if wants_bounds and obstacle is None else None
        fit, why = (None, {}) if aim is None else self._measured(aim, random_state, on_gpu=bounded is not None)
        if fit is not None and fit.steps is None and bounded is not None:
            estimates = Estimates(self.solver, fit)
            return solve_work(bounded, FromThirdBound(kept, estimates, {**estimates.info, **why}), self.resources)
        if fit is not None:
            estimate = Ready(GromovEstimate(self.solver, fit))
            return solve_work(Work(self.pairs, estimate, notes=Notes({**INFO, **why})), kept, self.resources)
        descents = self._descents(obstacle, why)
        if isinstance(sink, TopK):
            return nearest(descents, self._all_lower(bounded, is_centered=aim is None), sink, self.resources)
        return solve_work(descents, kept, self.resources)

    def _descents(self, obstacle: str | None, why: Info) -> Work:
        """On GPUs if these take them and there is enough to do."""
        solver, resources, count = self.solver, self.resources, len(self.pairs)
        if int(self.spaces.sizes.max()) > MOST_POINTS:
            obstacle = f"spaces of more than {MOST_POINTS} points are left to the CPU"
        memory = None if resources.memory is None else resources.budget // IN_FLIGHT
        on_gpu = GromovCuda(solver, memory=memory, n_jobs=resources.jobs)
        cpu_seconds, gpu_seconds = solver.expected_seconds(count) / resources.jobs, on_gpu.expected_seconds(count)
        choice = devices.choose(self.device, unfit=obstacle, cpu_seconds=cpu_seconds, gpu_seconds=gpu_seconds)
        return Work(self.pairs, Ready(solver), Ready(on_gpu), choice, Notes({**INFO, **why}))

    def _obstacle(self, sink: SinkBase[Any]) -> str | None:
        """Why GPUs do not take the call; refuses it if they were named."""
        is_usual = self.p == 2 and self.alpha == 1
        if is_usual and not sink.takes_work:
            return None
        obstacle = "a store is filled by the CPU" if is_usual else "GPUs take p=2 without features"
        devices.choose(self.device, needs=(), unfit=obstacle, cpu_seconds=0.0)
        return obstacle

    def _all_lower(self, bounded: Work | None, *, is_centered: bool) -> Float:
        """Lower bounds (P,) of all pairs; ``bounded``: third or centered ones, if GPUs compute them."""
        if self.p != 2 or self.alpha != 1:  # all bounds, and no descents
            look = Work(self.pairs, Ready(self.solver.near_bound(0)), notes=Notes(INFO))
            found = solve_work(look, Condensed(extras=("lower",)), self.resources)
            assert found.lower is not None
            return found.lower
        if bounded is None or not is_centered:
            bounded = self._third_bounds("cpu" if bounded is None else self.device, centered=True)
        kept = FromThirdBound(Condensed(), CenteredBounds(self.spaces))
        return np.asarray(solve_work(bounded, kept, self.resources).values)

    def _bounds_on_gpus(self, *, centered: bool) -> Work | None:
        """Third or centered lower bounds on GPUs, if there are any and there is enough to do."""
        if devices.parse(self.device)[0] != "cuda" and (self.device == "cpu" or devices.gpu_count() == 0):
            return None
        work = self._third_bounds(self.device, centered)
        return work if work.choice.gpus else None

    def _third_bounds(self, device: str, centered: bool) -> Work:
        given = self.column_start, self.listed, device, self.resources, Notes(INFO), centered
        return third_bound_work(self.spaces, *given)

    def _measured(self, aim: Accuracy, random_state: Any, *, on_gpu: bool) -> tuple[Fit | None, Info]:
        """The cheapest fit that meets the aim, or None, and what there is to say about it."""
        sample = solved_sample(self.pairs, self.solver, random_state, replace(self.resources, progress=False))
        if sample is None:
            return None, {"why": "few pairs: searching their plans costs no more than a fit"}
        required = devices.parse(self.device)[0] == "cuda"
        for steps in (None, *STEPS) if on_gpu and not required else (None,) if on_gpu else STEPS:
            fit = sample.fit(steps)
            said = f"estimates are {100 * fit.relative(fit.interval[1]):.1f} percent off at most (95 percent sure)"
            if aim.met(fit.interval[1], fit.mean):
                return fit, {"why": f"{said}; asked for was {aim}"}
        return None, {"why": f"{said}, which is more than {aim}"}
