"""`asot.kneighbors`: certain nearest neighbors, beside brute force over `asot.pairwise_exact` (METHOD §9).

Both sides run on the same number of threads, and every index and every bit of every distance is compared. A last table
shows a use: classification of graphs with a kernel of distances.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

import asot
from benchmarks.common import Options, Race, Report, Table, race, ratio
from benchmarks.data import mnist_collection, tu_collection, tu_labels

NEEDS = {"graphs", "images"}

JOBS = 2
OVER_BRUTE_FORCE = 4.0
MOST_SOLVED = 0.10
OURS, BRUTE = "kneighbors", "brute force"


@dataclass(frozen=True)
class Case:
    """The neighbors of every distribution of a collection, within it."""

    name: str
    size: int | None = None
    n_neighbors: int = 10
    metric: str = "euclidean"

    def collection(self, data: Path) -> asot.Distributions:
        if self.name == "MNIST":
            assert self.size is not None
            return mnist_collection(data, self.size)
        everything = tu_collection(data, self.name)
        return everything if self.size is None else everything[: self.size]


CASES = (
    Case("NCI1"),
    Case("MNIST", 2000),
    Case("NCI1", 1000, metric="canberra"),
    Case("ENZYMES"),
    Case("COX2"),
)
QUICK_CASES = (Case("MNIST", 150), Case("ENZYMES", 300), Case("MUTAG", metric="canberra"))


def run(options: Options) -> Report:
    """Measure every collection and make the report."""
    assert options.data is not None
    measured = [_measure(case, options.data) for case in (QUICK_CASES if options.quick else CASES)]
    uses = [_classified(options.data, name) for name in (("MUTAG",) if options.quick else ("MUTAG", "PTC_MR", "BZR"))]
    return Report(
        "neighbors",
        "Certain nearest neighbors under the exact W₁",
        f"The {CASES[0].n_neighbors} nearest neighbors of every distribution in its collection, on {JOBS} threads. "
        "Graphs are bags of node features (see exact_points), MNIST digits are bags of pixels with the ink as mass.",
        [_times(measured), _work(measured), _accuracies(uses)],
        NOTES,
    )


NOTES = (
    "kneighbors: the whole call, with the preparation of the bounds.",
    "Brute force: `pairwise_exact(D, sink=TopK(10))`, all pairs.",
    "Processor: seconds that the processor worked for the call, on all threads together. Other programs that run at "
    "the same time change it less than they change the wall-clock time.",
    "Identical: all indices are equal, and all distances bit for bit, or the benchmark fails.",
    "Floor: the share of pairs that nobody can leave out, since they are at most as far apart as the 10th neighbor of "
    "one of the two. The K-th best distance is known only when they are solved.",
    "Norms are bounded by sorted projections, other metrics (canberra) by a pool of dual potentials.",
    "Accuracy: stratified 10-fold cross-validation with five seeds, `SVC(kernel='precomputed', C=10)` on "
    "`asot.kernel`, γ = 1 / median distance, from exact distances and from anchors (k = mean size).",
)


@dataclass(frozen=True)
class Measured:
    case: Case
    collection: asot.Distributions
    outcome: Race
    processor: dict[str, float]  # seconds of all threads
    floor: float

    @property
    def found(self) -> asot.Neighbors:
        return self.outcome.answers[OURS]

    @property
    def n_pairs(self) -> int:
        return len(self.collection) * (len(self.collection) - 1) // 2

    @property
    def solved(self) -> float:
        assert self.found.n_exact is not None
        return self.found.n_exact / self.n_pairs


def _measure(case: Case, data: Path) -> Measured:
    collection = case.collection(data)
    common: dict[str, Any] = {"metric": case.metric, "n_jobs": JOBS, "progress": False}
    asot.kneighbors(collection[:40], None, 2, **common)  # compile
    asot.pairwise_exact(collection[:40], **common)
    contestants = {
        OURS: _Metered(asot.kneighbors, collection, None, case.n_neighbors, **common),
        BRUTE: _Metered(asot.pairwise_exact, collection, sink=_Sorted(case.n_neighbors), **common),
    }
    outcome = race(dict(contestants), _deviations, repeats=1, tolerance=0.0)
    brute = outcome.answers[BRUTE]
    reach, n = brute.distances[:, -1], len(collection)
    needed = sum(int(np.sum(v <= np.maximum(reach[i], reach[j]))) for i, j, v in brute.info.pop("tiles"))
    processor = {name: contestant.seconds for name, contestant in contestants.items()}
    measured = Measured(case, collection, outcome, processor, needed / (n * (n - 1) // 2))
    print(f"{case}: {outcome.seconds}, {100 * measured.solved:.2f} percent solved", flush=True)
    return measured


class _Metered:
    """A call that also reads how long the processor worked for it, on all threads together."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        self._call = partial(function, *arguments, **options)
        self.seconds = np.inf

    def __call__(self) -> Any:
        started = time.process_time()
        answer = self._call()
        self.seconds = min(self.seconds, time.process_time() - started)
        return answer


class _Sorted(asot.sinks.TopK):
    """The nearest neighbors, and all values, to see how many of them are within the K-th distance of an end."""

    def open(self, pairs: Any, info: dict[str, Any]) -> None:
        super().open(pairs, info)
        self._tiles: list[Any] = []

    def accept(self, tile: Any) -> None:
        super().accept(tile)
        rows, columns = tile.indices()
        self._tiles.append((rows.astype(np.int32), columns.astype(np.int32), tile.solution.values))

    def close(self, info: dict[str, Any]) -> asot.Neighbors:
        return super().close({**info, "tiles": self._tiles})


def _deviations(answers: dict[str, Any]) -> dict[str, float]:
    ours, brute = answers[OURS], answers[BRUTE]
    return {
        "indices": float(np.sum(ours.indices != brute.indices)),
        "distances": float(np.abs(ours.distances - brute.distances).max()),
    }


# ---------------------------------------------------------------------------------------------------------- a use


@dataclass(frozen=True)
class Classified:
    name: str
    n: int
    exact: NDArray[np.float64]  # accuracies of the seeds
    anchors: NDArray[np.float64]
    done: str


def _classified(data: Path, name: str) -> Classified:
    collection, labels = tu_collection(data, name), tu_labels(data, name)
    exact = asot.kernel(asot.pairwise_exact(collection, n_jobs=JOBS, progress=False))
    anchors = asot.kernel(asot.pairwise(collection, random_state=0, n_jobs=JOBS, progress=False, estimate="anchor"))
    accuracies = [_accuracy(K.matrix, labels) for K in (exact, anchors)]
    return Classified(name, len(labels), accuracies[0], accuracies[1], exact.done)


def _accuracy(matrix: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    means = []
    for seed in range(5):
        right = 0
        for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(matrix, labels):
            model = SVC(kernel="precomputed", C=10.0).fit(matrix[np.ix_(train, train)], labels[train])
            right += int(np.sum(model.predict(matrix[np.ix_(test, train)]) == labels[test]))
        means.append(right / len(labels))
    return np.array(means)


# ---------------------------------------------------------------------------------------------------------- tables


def _times(measured: list[Measured]) -> Table:
    rows = [
        [
            f"{m.case.name}, {m.case.metric}",
            f"{len(m.collection):,}",
            f"{m.outcome.seconds[BRUTE]:.1f} s",
            f"{m.outcome.seconds[OURS]:.1f} s",
            ratio(m.outcome.seconds[BRUTE] / m.outcome.seconds[OURS], OVER_BRUTE_FORCE if _promised(m.case) else None),
            f"{m.processor[BRUTE]:.1f} s",
            f"{m.processor[OURS]:.1f} s",
            ratio(m.processor[BRUTE] / m.processor[OURS]),
            "identical",
        ]
        for m in measured
    ]
    columns = [
        "collection", "N", "brute force", "kneighbors", "times faster", "brute force, processor",
        "kneighbors, processor", "times less", "answers",
    ]  # fmt: skip
    return Table("Time, and the target where there is one:", columns, rows)


def _work(measured: list[Measured]) -> Table:
    rows = []
    for m in measured:
        verdict = "met:" if m.solved <= MOST_SOLVED else "missed:"
        target = f" ({verdict} ≤ {100 * MOST_SOLVED:.0f}%)" if _promised(m.case) else ""
        rows.append(
            [
                f"{m.case.name}, {m.case.metric}",
                f"{m.n_pairs:,}",
                f"{m.found.n_exact:,}",
                f"{100 * m.solved:.2f}%{target}",
                f"{100 * m.floor:.2f}%",
                " and ".join(m.found.info["bounds"]),
            ]
        )
    columns = ["collection", "pairs", "solved exactly", "share", "floor", "bounds"]
    return Table("Pairs that were solved exactly, and the target where there is one:", columns, rows)


def _promised(case: Case) -> bool:
    return (case.name, case.size, case.metric) in (("NCI1", None, "euclidean"), ("MNIST", 2000, "euclidean"))


def _accuracies(uses: list[Classified]) -> Table:
    def shown(values: NDArray[np.float64]) -> str:
        return f"{100 * values.mean():.1f} ± {100 * values.std():.1f}%"

    rows = [[use.name, f"{use.n:,}", shown(use.exact), shown(use.anchors), use.done] for use in uses]
    columns = ["collection", "N", "exact W₁", "on anchors", "kernel of exact W₁"]
    return Table("A use: accuracy of graph classification.", columns, rows)
