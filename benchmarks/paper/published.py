"""The errors of `asot paper` as published, beside plain loops that were written for nothing else.

The loops do what the paper's public program does, step by step and pair by pair, with POT, NumPy and scikit-learn: they
read the files themselves, leave row 0 out where that program does, and iterate in float32. Options that it leaves open
are those of the paper's text: k is the mean size, and a batch has 500 graphs. Nothing of this package is in the loops.
If both sides agree, an error of the report is that of the procedure and not of our fast code.
"""

from __future__ import annotations

import gzip
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from asot_paper.methods import Hardware
from asot_paper.names import PUBLISHED
from asot_paper.runner import run_cells
from asot_paper.scale import FULL, Scale
from asot_paper.store import open_results
from asot_paper.tables import plan
from asot_paper.workshop import Workshop
from numpy.typing import NDArray

from benchmarks.common import DisagreementError, Options, Report, Table
from benchmarks.peers.peers import pot

NEEDS = {"graphs", "images", "pot"}

Float = NDArray[np.float64]
Clouds = list[NDArray[np.float32]]
Errors = dict[str, dict[int, list[float]]]  # by method and fold; several where directions were drawn several times

TOLERANCE = 1e-5
"""Largest difference of two errors of one run. SW draws at random: means may differ by four standard errors more."""

GRAPHS = ("MUTAG", "PTC_MR", "ENZYMES", "BZR", "COX2")
DIGITS = "MNIST"
N_DIGITS, N_IMAGES = 100, 10_000
EPSILON, ITERATIONS = 0.1, 50
GRAPHS_AT_A_TIME, BLOCK = 500, 2048
METHODS = ("SW", "eOT", "BDS-eOT", "ASOT-k", "eASOT-k")
FOLDS, SEEDS = 2, 20
"""Folds, or subsets of digits; and how often we draw the directions of SW, which tells how much they change its error.
The loops are slow: they draw as often as there are folds."""


def run(options: Options) -> Report:
    """Run the loops and `asot paper` on the same sets, and compare."""
    assert options.data is not None
    scale = replace(FULL, folds=FOLDS, digits=20 if options.quick else N_DIGITS)
    rows = []
    for name in (*(GRAPHS[:1] if options.quick else GRAPHS), DIGITS):
        ours = _ours(name, scale, options.data)
        plain = _plain(name, scale, options.data)
        rows += [_compare(name, method, plain[method], ours[method]) for method in METHODS]
    return Report(
        "published",
        "The errors as published, twice",
        "Root mean square errors as published, row-0 rule on: by plain loops over pairs (POT's `emd2` and "
        "`sliced_wasserstein_distance`, Sinkhorn's iteration in NumPy and float32, scikit-learn's `MiniBatchKMeans`), "
        f"and by `asot paper`. Every run of both sides agrees within {TOLERANCE:.0e}; for SW, whose directions are "
        "drawn at random, the means do within four standard errors more.",
        [_table(rows)],
        (
            f"Means of {FOLDS} folds (digits: subsets) where something is learned, with the same seeds on both sides. "
            f"SW is the mean of {FOLDS} draws of the loops and {SEEDS} of ours (digits: of each subset). The "
            "difference is the largest of all runs, for SW that of the means.",
            "The loops read the TU archives themselves: a one-hot column for every number from the least label to the "
            "greatest, written five times.",
            f"MNIST: {scale.digits} digits in place of 500, since the loops take milliseconds a pair.",
        ),
    )


# ------------------------------------------------------------------------------------------------------------- ours


def _ours(name: str, scale: Scale, folder: Path) -> Errors:
    """Errors of the command's own cells."""
    hardware = Hardware("cpu", -1)
    others = tuple(method for method in METHODS if method != "SW")
    cells = plan((PUBLISHED,), (name,), others, scale, hardware)
    cells += plan((PUBLISHED,), (name,), ("SW",), scale, hardware, seeds=SEEDS)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "results.json"
        with open_results(path) as results:
            outcome = run_cells(cells, results, Workshop.beside(path, scale, hardware, str(folder), download=False))
            records = results.records
    if outcome.failed:
        raise RuntimeError(f"{outcome.failed[0][0]}: {outcome.failed[0][1]}")
    found: Errors = {method: {} for method in METHODS}
    for record in records:
        found[record["method"]].setdefault(record["fold"], []).append(float(record["rmse"]))
    return found


# ------------------------------------------------------------------------------------------------------------- loops


def _plain(name: str, scale: Scale, folder: Path) -> Errors:
    """The same errors by plain loops."""
    found: Errors = {method: {} for method in METHODS}
    if name == DIGITS:
        images = _read_images(folder / "mnist" / "t10k-images-idx3-ubyte.gz")
        for subset in range(scale.folds):
            chosen = np.sort(np.random.default_rng(subset).choice(N_IMAGES, scale.digits, replace=False))
            clouds = [_pixels(image) for image in images[chosen]]
            exact = _matrix(clouds, _emd)
            _add_errors(found, subset, clouds, exact, projections=clouds[0].shape[1], seeds=[subset])
            _add_anchor_errors(found, subset, clouds, clouds, exact)
        return found
    clouds, classes = _read_archive(folder / "tu" / f"{name}.zip")
    exact = _matrix(clouds, _emd)
    _add_errors(found, 0, clouds, exact, projections=clouds[0].shape[1] // 5, seeds=range(scale.folds))
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(10, shuffle=True, random_state=0).split(np.zeros(len(classes)), classes)
    for fold, (training, _) in zip(range(scale.folds), folds, strict=False):
        _add_anchor_errors(found, fold, [clouds[i] for i in training], clouds, exact)
    return found


def _add_errors(
    found: Errors, fold: int, clouds: Clouds, exact: Float, *, projections: int, seeds: Iterable[int]
) -> None:
    """Of the methods on the original points. Stacking pairs changes no number, so BDS-eOT is eOT here."""
    found["SW"][fold] = [_error(_matrix(clouds, _sliced(projections, seed)), exact) for seed in seeds]
    found["eOT"][fold] = found["BDS-eOT"][fold] = [_error(_matrix(clouds, _sinkhorn, whole=True), exact)]


def _add_anchor_errors(found: Errors, fold: int, training: Clouds, clouds: Clouds, exact: Float) -> None:
    """Of the methods on anchors: one pass of mini-batch k-means, then shares of nearest centers."""
    from sklearn.cluster import MiniBatchKMeans

    k = round(float(np.mean([len(cloud) for cloud in clouds])))
    learner = MiniBatchKMeans(k, batch_size=BLOCK, random_state=fold)
    for first in range(0, len(training), GRAPHS_AT_A_TIME):
        points = np.concatenate(training[first : first + GRAPHS_AT_A_TIME])
        for start in range(0, len(points), BLOCK):
            learner.partial_fit(points[start : start + BLOCK])
    centers = np.asarray(learner.cluster_centers_, dtype=np.float64)
    cost = np.linalg.norm(centers[:, None] - centers[None], axis=2)
    shares = [np.bincount(learner.predict(cloud), minlength=k) / len(cloud) for cloud in clouds]
    near = cost.astype(np.float32)
    found["ASOT-k"][fold] = [_error(_matrix(shares, lambda a, b: pot().emd2(a, b, cost)), exact)]
    found["eASOT-k"][fold] = [_error(_matrix(shares, lambda a, b: _iterate(a, b, near), whole=True), exact)]


def _read_archive(path: Path) -> tuple[Clouds, NDArray[np.int64]]:
    """The nodes of every graph as published, and the classes of the graphs."""
    with zipfile.ZipFile(path) as archive:

        def read(ending: str) -> NDArray[np.int64]:
            member = next(entry for entry in archive.namelist() if entry.endswith(ending))
            return np.array(archive.read(member).split(), dtype=np.int64)

        graph, label, classes = (read(f"_{what}.txt") for what in ("graph_indicator", "node_labels", "graph_labels"))
    one_hot = np.eye(label.max() - label.min() + 1, dtype=np.float32)[label - label.min()]
    features = np.tile(one_hot, 5)
    return [features[graph == g] for g in range(1, graph.max() + 1)], classes


def _read_images(path: Path) -> NDArray[np.uint8]:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(N_IMAGES, 28, 28)


def _pixels(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """[row/28, column/28, ink/256] of the pixels with ink."""
    row, column = np.nonzero(image)
    return np.stack([row / 28, column / 28, image[row, column] / 256], axis=1).astype(np.float32)


def _matrix(items: Sequence[Any], distance: Callable[[Any, Any], float], *, whole: bool = False) -> Float:
    """All distances (N, N). Unless ``whole``, row 0, column 0 and the diagonal stay empty, as in the public program."""
    n = len(items)
    matrix = np.zeros((n, n))
    for i in range(0 if whole else 1, n):
        for j in range(i if whole else i + 1, n):
            matrix[i, j] = matrix[j, i] = distance(items[i], items[j])
    return matrix


def _error(estimate: Float, exact: Float) -> float:
    return float(np.sqrt(np.mean((estimate - exact) ** 2)))


def _emd(x: Any, y: Any) -> float:
    return float(pot().emd2([], [], pot().dist(x.astype(np.float64), y.astype(np.float64), metric="euclidean")))


def _sliced(projections: int, seed: int) -> Callable[[Any, Any], float]:
    generator = np.random.RandomState(seed)

    def distance(x: Any, y: Any) -> float:
        return float(pot().sliced_wasserstein_distance(x, y, n_projections=projections, p=1, seed=generator))

    return distance


def _sinkhorn(x: Any, y: Any) -> float:
    a, b = (np.full(len(points), 1.0 / len(points)) for points in (x, y))
    return _iterate(a, b, np.sqrt(np.maximum(((x[:, None] - y[None]) ** 2).sum(axis=2), 0.0)))


def _iterate(a: Any, b: Any, cost: NDArray[np.float32]) -> float:
    """⟨T, C⟩ after 50 iterations from V = B, in float32."""
    a, b = (np.asarray(masses, dtype=np.float32) for masses in (a, b))
    K = np.exp(-cost / np.float32(EPSILON))
    v = b
    for _ in range(ITERATIONS):
        u = a / (K @ v)
        v = b / (K.T @ u)
    return float(u @ (K * cost) @ v)


# ------------------------------------------------------------------------------------------------------------- table


@dataclass(frozen=True)
class Compared:
    name: str
    method: str
    plain: float
    ours: float
    difference: float


def _compare(name: str, method: str, plain: dict[int, list[float]], ours: dict[int, list[float]]) -> Compared:
    """Run by run; SW by its means, with what chance may do to them."""
    x, y = ([np.asarray(found[fold]) for fold in sorted(found)] for found in (plain, ours))
    means = [float(np.mean([fold.mean() for fold in side])) for side in (x, y)]
    if method == "SW":
        difference = abs(means[0] - means[1])
        variance = np.mean([fold.var(ddof=1) for fold in y]) * sum(1 / sum(map(len, side)) for side in (x, y))
        allowed = TOLERANCE + 4.0 * float(np.sqrt(variance))
    else:
        difference, allowed = max(float(np.abs(a - b).max()) for a, b in zip(x, y, strict=True)), TOLERANCE
    if not difference <= allowed:
        raise DisagreementError(f"{name} {method}: plain loops give {plain}, asot paper {ours}")
    return Compared(name, method, means[0], means[1], difference)


def _table(rows: list[Compared]) -> Table:
    return Table(
        "Errors as published.",
        ("set", "method", "plain loops", "asot paper", "difference"),
        [(row.name, row.method, f"{row.plain:.6f}", f"{row.ours:.6f}", f"{row.difference:.1e}") for row in rows],
    )
