"""Searches where others are strong: neighbors in many dimensions, and k-means of a million points.

Both have answers of more than one quality, so quality stands beside the time: which share of the true neighbors was
found, and how far the points are from their centers. The rival of the search gets the number of candidates that it
needs for its share as a gift, from the true neighbors; ours measures that, within its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asot
from benchmarks.common import Options, Report, Table, race, ratio
from benchmarks.exact.edges_rivals import faiss_kmeans, needs, sliced_candidates

NEEDS: set[str] = set()

RECALL, K = 0.98, 10
Float = NDArray[np.float64]
Indices = NDArray[np.int64]


def run(options: Options) -> Report:
    """Race every case and make the report."""
    return Report(
        "edges_search",
        "The edges of the field: searches",
        "Each case beside the strongest rivals we know for it, one thread each, best of interleaved repeats. Times are "
        "those that the processor worked for the whole call.",
        [_neighbors(options.quick), _kmeans(options.quick)],
        NOTES,
    )


NOTES = (
    f"Neighbors: the {K} nearest of every distribution, `kneighbors(D, {K}, recall={RECALL})`. Recall: the share of "
    "the true neighbors that was found, known from brute force.",
    "sliced + faiss: 64 directions × 16 quantiles, `faiss.IndexFlatL2`, and the nearest candidates solved exactly by "
    "`asot.pairwise_exact(D, pairs=...)`, each pair once. The number of candidates is the smallest multiple of 10 that "
    f"finds a share of {RECALL}; it is not part of the time to find this number.",
    "brute force: `pairwise_exact(D, sink=TopK(10))`, once; certain neighbors cost about as much here.",
    "k-means: `KMeansAnchors(30).fit(D)` beside `faiss.Kmeans(45, 30, niter=25)`, with all points and with its "
    "default, a sample of 256 points per center. Inertia: the mean squared distance of all points to their center, "
    "over that of asot.",
)


# --------------------------------------------------------------------------------------------------------- neighbors


def mixtures(rng: Any, n: int, dim: int) -> asot.Distributions:
    """Clouds of 20 to 60 points from twelve shared clusters, each cloud with proportions of its own."""
    centers = rng.normal(size=(12, dim))
    arrays = []
    for _ in range(n):
        own = rng.choice(12, rng.integers(20, 60), p=rng.dirichlet(np.full(12, 0.3)))
        arrays.append(centers[own] + 0.5 * rng.normal(size=(len(own), dim)))
    return asot.Distributions.from_list(arrays)


def documents(rng: Any, n: int, dim: int, n_words: int = 2000) -> asot.Distributions:
    """Bags of 15 to 50 words from a few of twenty topics each, frequent words first."""
    topics = rng.normal(size=(20, dim))
    topic = rng.integers(0, 20, n_words)
    words = topics[topic] + rng.normal(size=(n_words, dim))
    weights = np.zeros((n, n_words))
    for row in weights:
        share = rng.dirichlet(np.full(20, 0.1))[topic] / np.arange(1, n_words + 1)
        np.add.at(row, rng.choice(n_words, rng.integers(15, 50), p=share / share.sum()), 1.0)
    return asot.Distributions.from_weights(weights, words)


def _neighbors(quick: bool) -> Table:
    rng = np.random.default_rng(0)
    makers: tuple[tuple[str, Callable[..., asot.Distributions], int, int], ...] = (
        ("mixtures, d = 10", mixtures, 600, 10),
        ("mixtures, d = 100", mixtures, 500, 100),
        ("documents, d = 100", documents, 600, 100),
    )
    rows = [_neighbors_row(label, make(rng, 150 if quick else n, d), quick) for label, make, n, d in makers]
    columns = ["case", "N", "asot", "its recall", "rival", "its time", "its recall", "times faster"]
    return Table(f"Neighbors, a share of {RECALL} of them:", columns, rows)


def _neighbors_row(label: str, D: asot.Distributions, quick: bool) -> list[str]:
    asot.kneighbors(D[:60], 3, recall=0.5, n_jobs=1)  # compiled before the clock starts
    started = time.process_time()
    truth = asot.pairwise_exact(D, sink=asot.sinks.TopK(K), n_jobs=1, progress=False).indices
    brute = time.process_time() - started
    contestants: dict[str, Callable[[], Indices]] = {
        "asot": lambda: asot.kneighbors(D, K, recall=RECALL, n_jobs=1, progress=False).indices
    }
    if needs("faiss"):
        count = _enough(D, truth)
        contestants[f"sliced + faiss, {count} candidates"] = lambda: _reranked(D, count)

    def deviations(answers: dict[str, Any]) -> dict[str, float]:
        return {name: abs(_share(found, truth) - RECALL) for name, found in answers.items()}

    outcome = race(contestants, deviations, repeats=1 if quick else 2, tolerance=0.05, clock=time.process_time)
    seconds = {**outcome.seconds, "brute force": brute}
    shares = {name: _share(found, truth) for name, found in outcome.answers.items()} | {"brute force": 1.0}
    ours = seconds["asot"]
    rivals = sorted((name for name in seconds if name != "asot"), key=lambda name: seconds[name])
    return [
        label,
        f"{len(D):,}",
        f"{ours:.2f} s",
        f"{shares['asot']:.3f}",
        " / ".join(rivals),
        " / ".join(f"{seconds[name]:.2f} s" for name in rivals),
        " / ".join(f"{shares[name]:.3f}" for name in rivals),
        " / ".join(ratio(seconds[name] / ours, 1.0 if name == rivals[0] else None) for name in rivals),
    ]


def _share(found: Indices, truth: Indices) -> float:
    return float(np.mean([np.isin(true, own).mean() for own, true in zip(found, truth, strict=True)]))


def _enough(D: asot.Distributions, truth: Indices) -> int:
    """The smallest multiple of 10 that holds the stated share of the true neighbors."""
    most = min(400, len(D) - 1)
    order = sliced_candidates(D, most)
    for count in range(10, most + 1, 10):
        if _share(order[:, :count], truth) >= RECALL:
            return count
    return most


def _reranked(D: asot.Distributions, count: int) -> Indices:
    columns = sliced_candidates(D, count)
    rows = np.broadcast_to(np.arange(len(D))[:, None], columns.shape)
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    keys, place = np.unique(low * len(D) + high, return_inverse=True)
    pairs = np.stack(np.divmod(keys, len(D)), axis=1)
    values = asot.pairwise_exact(D, pairs=pairs, n_jobs=1, progress=False).values[place.reshape(columns.shape)]
    order = np.argsort(values, axis=1)[:, :K]
    return np.take_along_axis(columns, order, axis=1)


# ----------------------------------------------------------------------------------------------------------- k-means


def _kmeans(quick: bool) -> Table:
    n, d, k = (20_000 if quick else 1_000_000), 45, 30
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(60, d))[rng.integers(0, 60, n)] + 0.7 * rng.normal(size=(n, d))).astype(np.float32)
    D = asot.Distributions(points, np.arange(0, n + 1, 20))
    asot.KMeansAnchors(5, random_state=0, n_jobs=1).fit(D[:1000])  # compiled before the clock starts
    contestants: dict[str, Callable[[], Any]] = {
        "asot": lambda: asot.KMeansAnchors(k, random_state=0, n_jobs=1).fit(D).space_.anchors,
        "asot, all points": lambda: (
            asot.KMeansAnchors(k, random_state=0, n_jobs=1, batch_size=None).fit(D).space_.anchors
        ),
    }
    if needs("faiss"):
        contestants["faiss, all points"] = lambda: faiss_kmeans(points, k, len(points))
        contestants["faiss, its sample"] = lambda: faiss_kmeans(points, k, 256)
    outcome = race(contestants, lambda _: {}, repeats=1, tolerance=0.0, clock=time.process_time)
    seconds = outcome.seconds
    inertia = {name: _inertia(points, found) for name, found in outcome.answers.items()}
    rows = [
        [
            name,
            f"{seconds[name]:.2f} s",
            f"{inertia[name] / inertia['asot']:.4f}",
            ratio(seconds[name] / seconds["asot"], 1.0 if name == "faiss, all points" else None),
        ]
        for name in contestants
    ]
    return Table(f"k-means of {n:,} points in {d} dimensions, {k} centers:", ["", "time", "inertia", "asot is"], rows)


def _learned(D: asot.Distributions, k: int, batch_size: str | None) -> Float:
    return asot.KMeansAnchors(k, batch_size=batch_size, random_state=0, n_jobs=1).fit(D).space_.anchors


def _inertia(points: NDArray[np.float32], centers: Any) -> float:
    total = 0.0
    for part in np.array_split(points, max(1, len(points) // 20_000)):
        squares = (part**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1) - 2.0 * part @ centers.T
        total += float(squares.min(axis=1).sum())
    return total / len(points)
