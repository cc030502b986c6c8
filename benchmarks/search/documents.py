"""Certain nearest neighbors of documents in 100 dimensions, against brute force: what the relaxed bound is for.

Beside them stand collections whose pairs no bound excludes, where a search must not take longer than brute force.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import asot
from benchmarks.common import Options, Report, Table, race, ratio

NEEDS = {"tweets"}

OURS, BRUTE = "kneighbors", "brute force"
NEVER_SLOWER = 0.952  # 1 / 1.05
TARGETS = {"tweets": 2.5, "long documents": 1.5}
N_NEIGHBORS = 10


def run(options: Options) -> Report:
    """Measure both collections and make the report."""
    assert options.data is not None
    tweets, long_ones = (300, 80) if options.quick else (1500, 400)
    collections = {
        "tweets": read_tweets(options.data, tweets),
        "long documents": join_tweets(options.data, long_ones),
        **{f"equally far, {n} × {size}": equally_far(n, size) for n, size in ((long_ones, 40), (60, 120))},
    }
    measured = [_row(name, D) for name, D in collections.items()]
    columns = ["collection", "N", "words", "brute force", "kneighbors", "times faster", "pairs solved", "bounds"]
    return Report(
        "documents",
        "Certain nearest neighbors of documents",
        f"The {N_NEIGHBORS} nearest documents of each under the word mover's distance (W₁, GloVe in 100 dimensions). "
        "One thread, seconds of the processor.",
        [
            Table("Time:", columns, [row for row, _ in measured]),
            Table(
                "What the search counted before it began, beside the clock:",
                ["collection", "a solve, counted", "by the clock", "share of brute force, counted", "by the clock"],
                [row for _, row in measured],
            ),
        ],
        (
            "Tweets: the twitter documents of Kusner et al. (2015). Long documents: tweets of one class joined to 10 "
            "to 110 different words. Equally far: distributions of standard normal points, which no bound tells apart.",
            "Brute force: `pairwise_exact(D, sink=TopK(10))`. The answers are identical, or the benchmark fails.",
        ),
    )


def _read(data: Path) -> Any:
    return np.load(data / "more" / "wmd_twitter.npz", allow_pickle=False)


def read_tweets(data: Path, n: int) -> asot.Distributions:
    """The first n tweets."""
    file = _read(data)
    stop = file["doc_ptr"][n]
    return asot.Distributions(
        file["vectors"][file["word_index"][:stop]], file["doc_ptr"][: n + 1], file["count"][:stop].astype(float)
    )


def join_tweets(data: Path, n: int) -> asot.Distributions:
    """n documents of 10 to 110 different words, each of tweets of one class."""
    file, rng = _read(data), np.random.default_rng(0)
    start, words, counts, labels = (file[name] for name in ("doc_ptr", "word_index", "count", "label"))
    points, masses = [], []
    for _ in range(n):
        pool, target = np.flatnonzero(labels == rng.choice(np.unique(labels))), rng.integers(10, 111)
        bag: dict[int, float] = {}
        while len(bag) < target:
            tweet = rng.choice(pool)
            for t in range(start[tweet], start[tweet + 1]):
                bag[words[t]] = bag.get(words[t], 0.0) + counts[t]
        points.append(file["vectors"][list(bag)])
        masses.append(np.array(list(bag.values())))
    return asot.Distributions.from_list(points, masses)


def equally_far(n: int, size: int) -> asot.Distributions:
    """n distributions of points from one normal distribution: all are about equally far from each other."""
    return asot.Distributions.from_list(np.random.default_rng(0).normal(size=(n, size, 100)))


def _row(name: str, D: asot.Distributions) -> tuple[list[str], list[str]]:
    common: dict[str, Any] = {"n_jobs": 1, "progress": False}
    asot.kneighbors(D[:60], None, 2, **common)  # compile
    asot.kneighbors(D[:60], None, 2, prune="all", **common)
    ours = _Metered(partial(asot.kneighbors, D, None, N_NEIGHBORS, **common))
    brute = _Metered(partial(asot.pairwise_exact, D, sink=asot.sinks.TopK(N_NEIGHBORS), **common))
    outcome = race({OURS: ours, BRUTE: brute}, _deviations, repeats=2, tolerance=0.0)
    found = outcome.answers[OURS]
    share, n_pairs = found.n_exact / found.info["n_pairs"], found.info["n_pairs"]
    print(f"{name}: {ours.seconds:.2f} s and {brute.seconds:.2f} s, {100 * share:.1f} percent solved", flush=True)
    bounds, rehearsal = found.info["bounds"], found.info["rehearsal"]
    expected = [plan["share_of_brute_force"] for plan in rehearsal["plans"] if plan["bounds"] == bounds]
    times = [
        name,
        f"{len(D):,}",
        f"{D.sizes.min()}-{D.sizes.max()}",
        f"{brute.seconds:.2f} s",
        f"{ours.seconds:.2f} s",
        ratio(brute.seconds / ours.seconds, TARGETS.get(name, NEVER_SLOWER)),
        f"{100 * share:.1f}%",
        " and ".join(bounds) or "none",
    ]
    counted = [
        name,
        f"{rehearsal['solve_microseconds']:.1f} µs",
        f"{1e6 * brute.seconds / n_pairs:.1f} µs",
        f"{100 * expected[0]:.0f}%" if expected else "100%",
        f"{100 * ours.seconds / brute.seconds:.0f}%",
    ]
    return times, counted


class _Metered:
    """A call that also reads how long the processor worked for it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self.seconds = call, np.inf

    def __call__(self) -> Any:
        started = time.process_time()
        answer = self._call()
        self.seconds = min(self.seconds, time.process_time() - started)
        return answer


def _deviations(answers: dict[str, Any]) -> dict[str, float]:
    ours, brute = answers[OURS], answers[BRUTE]
    return {
        "indices": float(np.sum(ours.indices != brute.indices)),
        "distances": float(np.abs(ours.distances - brute.distances).max()),
    }
