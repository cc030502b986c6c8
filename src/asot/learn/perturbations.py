"""Which distributions differ from a control: every one of them tested by exchanging points (docs/method.md §19).

Two bags of n and m cells: if both are samples of one distribution, every split of the n + m cells into n and m is as
likely as the observed one. All splits of a pair share their points, so that their distances are a list of pairs over
one set of points. p = (1 + #{permuted ≥ observed}) / (1 + B) for each, and q-values because there are many.

A split is drawn and written as sparse histograms by a kernel, from a random stream of its own: it depends on the seed,
on which distribution is tested and on its number, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices, Parameters
from asot.anchors.kmeans import KMeansAnchors
from asot.data.distinct import SparseHistograms, numbered_histograms
from asot.data.distributions import Distributions, as_distributions, check_mass
from asot.data.reading import factorized, read_points
from asot.distances import pairwise_exact
from asot.exact.auto import points_work
from asot.ground.costs import Metric
from asot.ground.metrics import TRANSFORMED, prepare_metric
from asot.histograms import emd_many
from asot.learn.anova import check_strata_vary, members_of, q_values, share_as_large
from asot.native import Doubles, Int, Ints, Record, entry
from asot.request import Distance, as_order
from asot.results.frames import ShownAsFrame, need_pandas
from asot.results.sinks import default_sink
from asot.run import devices
from asot.run.engine import Resources, solve_work
from asot.run.executors import Progress, ProgressLike
from asot.run.pairs import ListedPairs
from asot.run.protocols import Notes
from asot.validation import FloatArray, as_positive_int, as_seed

Run = tuple[int, int, int]
"""A distribution, and its splits from one to another."""

ROOM = 2**22
"""Points of splits that are solved at once: what a GPU is busy with for some time, in some tens of megabytes."""

OF_THE_PAIR = {"hamming", *TRANSFORMED}
"""Metrics whose solver or scale is chosen from the points of both bags alone."""

_SEEDS = 2**63
"""Seeds that a kernel takes."""


@dataclass(frozen=True, eq=False)
class PerturbationTest(ShownAsFrame):
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
        names = ("distance", "null_mean", "excess", "p_value", "q_value")
        pandas, order = need_pandas("to_frame"), np.lexsort([-self.excess, self.p_value])
        index = pandas.Index(self.ids, name="id")
        frame = pandas.DataFrame({name: getattr(self, name) for name in names}, index=index)
        return frame.iloc[order[~self.is_control[order]]]

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
    {'strong': 0.005, 'no effect': 0.745}
    """
    D = as_distributions(D)
    check_mass(D)
    count = as_positive_int(n_permutations, "n_permutations")
    labels = None if strata is None else factorized(strata, len(D.masses), "strata")[1]
    if isinstance(control, (str, int, np.integer)):
        place = D.place(control, "control")
        words = repr(str(D.ids[place])) if D.given_ids is not None else f"distribution {place}"
    else:
        if strata is not None:
            raise ValueError("strata name the points of D, and so the control must be one of its distributions")
        D, place, words = _joined(D, control), len(D), "the control"
    devices.parse(device)
    distance_asked = Distance(as_order(p), metric, metric_params)
    screen = _Screen(D, place, labels, count, as_seed(random_state), distance_asked, n_anchors)
    others = [i for i in range(len(D)) if i != place]
    n = len(D) if isinstance(control, (str, int, np.integer)) else len(D) - 1
    distance, mean, p_value = np.zeros(n), np.zeros(n), np.ones(n)
    with Progress(progress, len(others), "permutation tests", unit="distribution") as shown:
        for i, values in screen.values(others, device, Resources(n_jobs, None, False)):
            distance[i], mean[i] = values[0], values[1:].mean()
            p_value[i] = share_as_large(values[1:], values[0], values.max())
            shown.advance(1)
    q_value, is_control = np.ones(n), np.arange(n) == place
    q_value[~is_control] = q_values(p_value[~is_control])
    return PerturbationTest(D.ids[:n], distance, mean, p_value, q_value, count, words, is_control)


class _Screen:
    """Splits of every distribution and the control, some distributions at a time: observed ones, and random ones."""

    def __init__(
        self, D: Distributions, control: int, labels: Indices | None, count: int, seed: int, distance: Distance,
        n_anchors: int | None,
    ) -> None:  # fmt: skip
        self.D, self.control, self.labels, self.count, self.seed = D, control, labels, count, seed
        self.distance, self.space = distance, None
        if n_anchors is not None:
            if distance.p != 1 or distance.metric != "euclidean":
                raise ValueError("distances on anchors are the Euclidean W_1; leave out n_anchors for other distances")
            self.space = KMeansAnchors(as_positive_int(n_anchors, "n_anchors"), random_state=0).fit(D).space_

    @property
    def has_kernel(self) -> bool:
        """Whether histograms go straight to the solver of points, of several distributions at a time."""
        alone = self.distance.is_sorted(self.D.dim) or self.distance.metric in OF_THE_PAIR
        return self.space is None and self.distance.has_kernel and not alone

    def calls(self, others: list[int], together: bool) -> list[list[Run]]:
        """Which splits are solved at once: at most `ROOM` points of them, of one distribution unless ``together``."""
        calls: list[list[Run]] = []
        left = 0
        for i in others:
            size = int(self.D.sizes[i] + self.D.sizes[self.control])
            step = max(1, ROOM // size)
            for low in range(0, 1 + self.count, step):
                run = (i, low, min(low + step, 1 + self.count))
                points = size * (run[2] - low)
                if together and calls and points <= left:
                    calls[-1].append(run)
                else:
                    calls.append([run])
                    left = ROOM
                left -= points
        return calls

    def prepared(self, call: list[Run]) -> SparseHistograms:
        """Both sides of all splits of a call, over its distinct points or over anchors."""
        part = self.D[[*(run[0] for run in call), self.control]]
        if self.space is None:
            histograms, place = numbered_histograms(part)
            points = histograms.points
        else:
            points = self.space.anchors
            place = np.where(part.masses > 0, self.space.assign(np.asarray(part.points), device="cpu")[0], -1)
        weights = part.masses * np.repeat(part.sizes, part.sizes)  # 1 where masses are equal, whatever the sizes
        bags = []
        for t, (i, low, high) in enumerate(call):
            both = np.concatenate([np.arange(*part.offsets[[at, at + 1]]) for at in (t, len(call))])
            first, name = int(part.sizes[t]), self.D.label(i)
            bags.append(TwoBags(i, name, first, place[both], weights[both], low, high, self._strata(i)))
        return split_histograms(points, bags, self.seed)

    def _strata(self, i: int) -> Indices | None:
        if self.labels is None:
            return None
        offsets, pair = self.D.offsets, (i, self.control)
        both = np.concatenate([self.labels[offsets[at] : offsets[at + 1]] for at in pair])
        strata = np.unique(both, return_inverse=True)[1]
        check_strata_vary(
            np.repeat([0, 1], self.D.sizes[list(pair)]), members_of(strata), f"{self.D.label(i)} and the control"
        )
        return np.asarray(strata, dtype=np.int64)

    def solved(self, histograms: SparseHistograms, device: str, resources: Resources) -> Float:
        """Distances between the two sides of every split."""
        n = len(histograms.offsets) - 1
        pairs = np.arange(n).reshape(-1, 2)
        asked = self.distance
        if self.has_kernel:
            ground = prepare_metric(histograms.points, str(asked.metric), asked.metric_params)
            listed = ListedPairs(pairs, n, n, symmetric=True)
            work = points_work(listed, histograms, ground, 0, device, resources, Notes())
            return np.asarray(solve_work(work, default_sink(None), resources).values)
        from scipy import sparse

        shape = n, len(histograms.points)
        rows = sparse.csr_array((histograms.masses, histograms.index, histograms.offsets), shape=shape)
        how: dict[str, Any] = {"device": device, "n_jobs": resources.n_jobs, "progress": False}
        if self.space is not None:
            dense = rows.toarray()
            own = np.repeat(np.arange(n // 2)[:, None], 2, axis=1)
            return np.asarray(emd_many(dense[::2], dense[1::2], cost=self.space.cost, pairs=own, **how).values)
        splits = Distributions.from_weights(rows, histograms.points)
        how |= {"p": asked.p, "metric": asked.metric, "metric_params": asked.metric_params}
        return np.asarray(pairwise_exact(splits, pairs=pairs, **how).values)

    def values(self, others: list[int], device: str, resources: Resources) -> Iterator[tuple[int, Float]]:
        """Every distribution with its distances (1 + B,). A thread prepares the next call while one is solved."""
        together = self.has_kernel and devices.parse(device)[0] != "cpu" and devices.gpu_count() > 0
        calls = self.calls(others, together)
        found: list[Float] = []
        with ThreadPoolExecutor(1) as beside:
            ahead = [beside.submit(self.prepared, call) for call in calls[:1]]
            for t, call in enumerate(calls):
                histograms = ahead.pop().result()
                ahead += [beside.submit(self.prepared, more) for more in calls[t + 1 : t + 2]]
                solved, ends = self.solved(histograms, device, resources), np.cumsum([b - a for _, a, b in call])
                for (i, _, high), own in zip(call, np.split(solved, ends[:-1]), strict=True):
                    found.append(own)
                    if high == 1 + self.count:
                        yield i, np.concatenate(found)
                        found = []


def _joined(D: Distributions, control: Any) -> Distributions:
    """D with the points of a control as its last distribution."""
    points = read_points(control, "control")
    if points.shape[1] != D.dim:
        raise ValueError(f"the control is in {points.shape[1]} dimensions, but the collection in {D.dim}")
    return D + Distributions.from_list([points], ids=["control"] if D.given_ids is not None else None)


# -------------------------------------------------------------------------------------------------------------- splits


class Splits(
    Record, n=Int, n_kept=Int, n_strata=Int, place=Ints, weights=Doubles, order=Ints, starts=Ints, members=Ints,
    taken=Ints, seed=Int, own=Int, low=Int, high=Int,
):  # fmt: skip
    """Two bags, and which of their splits are wanted (``native/learn/splits.cpp``)."""


class SplitsOut(Record, offsets=Ints, index=Ints, masses=Doubles, empty=Ints):
    """Where histograms go (``native/learn/splits.cpp``)."""


_split_histograms = entry("split_histograms", Splits, SplitsOut)


@dataclass(frozen=True)
class TwoBags:
    """The n points of a distribution, followed by the m of the control, and which of their splits are wanted."""

    own: int
    """Which distribution it is: every one has random splits of its own."""
    name: str
    n_first: int
    place: Indices
    """(n + m,) Column of every point in the histograms; -1 for points without mass, which only change places."""
    weights: Float
    """(n + m,) Travel with their points. 1 where masses are equal, whatever the sizes."""
    low: int
    """Splits ``low`` to ``high``; split 0 is the observed one."""
    high: int
    strata: Indices | None = None
    """(n + m,) Numbers of strata within which points change places, from 0 on."""

    def record(self, seed: int) -> Splits:
        n = len(self.place)
        strata = np.zeros(n, dtype=np.int64) if self.strata is None else self.strata
        is_second = np.arange(n) >= self.n_first
        order = np.argsort(self.place, kind="stable")[np.count_nonzero(self.place < 0) :]
        sizes = np.bincount(strata)
        return Splits(
            n=n, n_kept=len(order), n_strata=len(sizes), place=np.ascontiguousarray(self.place, dtype=np.int64),
            weights=np.ascontiguousarray(self.weights), order=order, starts=np.concatenate([[0], np.cumsum(sizes)]),
            members=np.lexsort([is_second, strata]), taken=sizes - np.bincount(strata[is_second], minlength=len(sizes)),
            seed=seed % _SEEDS, own=self.own, low=self.low, high=self.high,
        )  # fmt: skip


def split_histograms(points: FloatArray, bags: list[TwoBags], seed: int) -> SparseHistograms:
    """Histograms 2t and 2t + 1 over points (V, d) are the two sides of the t-th of all splits that are wanted."""
    counts = [own.high - own.low for own in bags]
    offsets = np.zeros(1 + 2 * sum(counts), dtype=np.int64)
    room = sum(n * int(np.count_nonzero(own.place >= 0)) for n, own in zip(counts, bags, strict=True))
    index, masses, empty = np.empty(room, dtype=np.int64), np.empty(room), np.zeros(1, dtype=np.int64)
    first = 0
    for own, n in zip(bags, counts, strict=True):
        out = SplitsOut(offsets=offsets[first:], index=index, masses=masses, empty=empty)
        _split_histograms(own.record(seed), out)
        if empty[0]:
            raise ValueError(f"{own.name} or the control has so few points with mass that a split can have none")
        first += 2 * n
    used = int(offsets[-1])
    return SparseHistograms(points, offsets, index[:used], masses[:used])
