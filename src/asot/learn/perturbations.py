"""Which distributions differ from a control: every one of them tested by exchanging points (docs/method.md §19).

Two bags of n and m cells: if both are samples of one distribution, every split of the n + m cells into n and m is as
likely as the observed one. All splits of a pair share their points, so that their distances are a list of pairs over
one set of points. p = (1 + #{permuted ≥ observed}) / (1 + B) for each, and q-values because there are many.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices, Parameters
from asot.anchors.kmeans import KMeansAnchors
from asot.data.distributions import Distributions, as_distributions
from asot.data.reading import factorized, read_points
from asot.distances import pairwise_exact
from asot.ground.costs import Metric
from asot.histograms import emd_many
from asot.learn.shuffles import check_strata_vary, members_of, q_values, share_as_large, shuffled
from asot.results.frames import need_pandas
from asot.run.executors import Progress, ProgressLike
from asot.validation import as_positive_int, as_seed


@dataclass(frozen=True, eq=False)
class PerturbationTest:
    """How far every distribution is from a control, and whether that may be chance.

    Attributes
    ----------
    ids : (N,)
        Names of the distributions. The control itself, if it is one of them, has distance 0 and p = 1.
    distance : (N,) float64
        W_p from the control.
    null_mean : (N,) float64
        Mean W_p of permuted samples: what noise alone makes of it. ``excess`` is the distance less this.
    p_value, q_value : (N,) float64
        By permutation, and adjusted for the number of tests (Benjamini and Hochberg's false discovery rate).
    n_permutations : int
    control : str
        What was compared with.
    """

    ids: NDArray[Any]
    distance: Float
    null_mean: Float
    p_value: Float
    q_value: Float
    n_permutations: int
    control: str
    is_control: NDArray[np.bool_] = field(repr=False)

    @property
    def excess(self) -> Float:
        """(N,): how much farther each is than permuted samples of it are on average."""
        return self.distance - self.null_mean

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row per distribution other than the control, those with small p first."""
        columns = {
            "distance": self.distance, "null_mean": self.null_mean, "excess": self.excess, "p_value": self.p_value,
            "q_value": self.q_value,
        }  # fmt: skip
        order = np.lexsort([-self.excess, self.p_value])
        order = order[~self.is_control[order]]
        index = need_pandas("to_frame").Index(self.ids[order], name="id")
        return need_pandas("to_frame").DataFrame({name: own[order] for name, own in columns.items()}, index=index)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        found = int((self.q_value[~self.is_control] <= 0.05).sum())
        tested = int((~self.is_control).sum())
        return (
            f"PerturbationTest: {found:,} of {tested:,} distributions differ from {self.control} (q ≤ 0.05, "
            f"{self.n_permutations:,} permutations)"
        )


def perturbation_test(
    D: Distributions,
    control: Any,
    *,
    n_permutations: int = 1000,
    strata: Any = None,
    p: float = 1,
    metric: Metric = "euclidean",
    metric_params: Parameters | None = None,
    n_anchors: int | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    progress: ProgressLike = None,
    random_state: Any = None,
) -> PerturbationTest:
    """Whether each distribution differs from a control, by permutation of points.

    Cells of one donor are no replicates of donors: a small p-value says that these two bags of cells differ, and where
    donors matter, not that others would. Give donors as `strata`, or compare donors with `group_differences`.

    Parameters
    ----------
    D : Distributions (N)
        Masses travel with their points.
    control : str, int, or array-like (m, d)
        The id or index of the distribution of D to compare with, or the points of a control.
    n_permutations : int
        For every distribution; the smallest p-value is 1 / (n_permutations + 1).
    strata : array-like (n,), optional
        A donor or batch for every point of D, in its order: points only change places within them. The control must
        be in D.
    p, metric, metric_params
        Which distance, as in `pairwise_exact`.
    n_anchors : int, optional
        For samples of many hundred points: distances on so many anchors, learned from all points. The same estimate
        serves the observed split and the permuted ones, so that p-values stay valid. p = 1, Euclidean.
    device, n_jobs, progress
        As in `pairwise_exact`.
    random_state : int, RandomState or None
        Seed of the permutations; None is a fixed one.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(1)
    >>> cells = {"control": 0.0, "no effect": 0.0, "strong": 1.5}
    >>> D = asot.Distributions.from_list([rng.normal(x, 1.0, size=(40, 3)) for x in cells.values()], ids=list(cells))
    >>> found = asot.perturbation_test(D, "control", n_permutations=199)
    >>> found
    PerturbationTest: 1 of 2 distributions differ from 'control' (q ≤ 0.05, 199 permutations)
    >>> found.to_frame().p_value.to_dict()
    {'strong': 0.005, 'no effect': 0.73}
    """
    D = as_distributions(D)
    count = as_positive_int(n_permutations, "n_permutations")
    labels = None if strata is None else factorized(strata, len(D.masses), "strata")[1]
    if isinstance(control, (str, int, np.integer)):
        place = D.place(control, "control")
        words = repr(str(D.ids[place])) if D.given_ids is not None else f"distribution {place}"
    else:
        if strata is not None:
            raise ValueError("strata name the points of D, and so the control must be one of its distributions")
        D, place, words = _joined(D, control), len(D), "the control"
    asked = Distance(p, metric, metric_params, n_anchors, device, n_jobs)
    rng = np.random.default_rng(as_seed(random_state))
    split = _Splits(D, place, asked, labels, count)
    others = [i for i in range(len(D)) if i != place]
    n = len(D) if isinstance(control, (str, int, np.integer)) else len(D) - 1
    distance, mean, p_value = np.zeros(n), np.zeros(n), np.ones(n)
    with Progress(progress, len(others), "permutation tests", unit="distribution") as shown:
        for i in others:
            values = split.values(i, rng)
            distance[i], mean[i] = values[0], values[1:].mean()
            p_value[i] = share_as_large(values[1:], values[0], values.max())
            shown.advance(1)
    q_value, is_control = np.ones(n), np.arange(n) == place
    q_value[~is_control] = q_values(p_value[~is_control])
    return PerturbationTest(D.ids[:n], distance, mean, p_value, q_value, count, words, is_control)


@dataclass(frozen=True)
class Distance:
    """Which distance, and on what it is computed."""

    p: float
    metric: Metric
    metric_params: Parameters | None
    n_anchors: int | None
    device: str
    n_jobs: int | None


class _Splits:
    """Splits of a distribution and the control: the observed one, and random ones of the same sizes."""

    def __init__(self, D: Distributions, control: int, asked: Distance, labels: Indices | None, count: int) -> None:
        self.D, self.control, self.asked, self.labels, self.count = D, control, asked, labels, count
        self.space: Any = None
        if asked.n_anchors is not None:
            if asked.p != 1 or asked.metric != "euclidean":
                raise ValueError("distances on anchors are the Euclidean W_1; leave out n_anchors for other distances")
            self.space = KMeansAnchors(as_positive_int(asked.n_anchors, "n_anchors"), random_state=0).fit(D).space_

    def values(self, i: int, rng: np.random.Generator) -> Float:
        """Distances (1 + B,) of the observed split and of the random ones."""
        pair = self.D[[i, self.control]]
        n, total = int(pair.sizes[0]), len(pair.masses)
        weights = pair.masses * np.repeat(pair.sizes, pair.sizes)  # 1 where masses are equal, whatever the sizes
        strata = None
        if self.labels is not None:
            both = np.concatenate([self.labels[self._own(i)], self.labels[self._own(self.control)]])
            strata = members_of(np.unique(both, return_inverse=True)[1])
            check_strata_vary(np.repeat([0, 1], pair.sizes), strata, f"{pair.label(0)} and the control")
        orders = [np.arange(total), *(shuffled(rng, total, strata) for _ in range(self.count))]
        first = np.array([order[:n] for order in orders])
        second = np.array([order[n:] for order in orders])
        if not all(weights[side].any(axis=1).all() for side in (first, second)):
            raise ValueError(f"{pair.label(0)} or the control has so few points with mass that a split can have none")
        if self.space is not None:
            return self._on_anchors(pair, first, second, weights)
        return self._exactly(pair, first, second, weights)

    def _own(self, i: int) -> slice:
        return slice(int(self.D.offsets[i]), int(self.D.offsets[i + 1]))

    def _exactly(self, pair: Distributions, first: Indices, second: Indices, weights: Float) -> Float:
        from scipy import sparse

        points, asked = np.asarray(pair.points), self.asked
        rows = [np.sort(side, axis=1) for side in (first, second)]
        starts = np.cumsum([0, *(side.shape[1] for side in rows for _ in range(len(side)))])
        index = np.concatenate([side.ravel() for side in rows])
        shape = (2 * len(first), len(points))
        splits = Distributions.from_weights(sparse.csr_array((weights[index], index, starts), shape=shape), points)
        pairs = np.arange(shape[0]).reshape(2, -1).T
        return pairwise_exact(
            splits, pairs=pairs, p=asked.p, metric=asked.metric, metric_params=asked.metric_params,
            device=asked.device, n_jobs=asked.n_jobs, progress=False,
        ).values  # fmt: skip

    def _on_anchors(self, pair: Distributions, first: Indices, second: Indices, weights: Float) -> Float:
        cell, _ = self.space.assign(np.asarray(pair.points), device="cpu")
        k = self.space.n_anchors
        sides = []
        for side in (first, second):
            at = cell[side] + k * np.arange(len(side))[:, None]
            sides.append(np.bincount(at.ravel(), weights[side].ravel(), minlength=k * len(side)).reshape(-1, k))
        pairs = np.repeat(np.arange(len(first))[:, None], 2, axis=1)
        return emd_many(
            *sides,
            cost=self.space.cost,
            pairs=pairs,
            device=self.asked.device,
            n_jobs=self.asked.n_jobs,
            progress=False,
        ).values


def _joined(D: Distributions, control: Any) -> Distributions:
    """D with the points of a control as its last distribution."""
    points = read_points(control)
    if points.shape[1] != D.dim:
        raise ValueError(f"the control is in {points.shape[1]} dimensions, but the collection in {D.dim}")
    return D + Distributions.from_list([points], ids=["control"] if D.given_ids is not None else None)
