"""`asot.Index` beside what finds candidates and re-ranks them, on equal answers: recall and time in one table.

Every query comes alone. Seconds are of the processor, one thread, the median of the queries.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import Options, Report, Table, require
from benchmarks.index.rivals import FlatCandidates, Slices, centroids, gensim_distances, muvera
from benchmarks.search.documents import join_tweets, read_tweets

NEEDS = {"tweets"}

NEIGHBORS, RECALL = 10, 0.98
LADDER = (10, 20, 50, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10_000)
_BY_GENSIM = 2  # queries: it takes all pairs

Candidates = Callable[[NDArray[np.float32], int], NDArray[np.int64]]


def run(options: Options) -> Report:
    """One table for each collection."""
    assert options.data is not None
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        peers = options.peers or Path(folder)
        tables = [_table(*given, peers) for given in _collections(options.data, options.quick)]
    return Report(
        "index_rivals",
        "An index beside candidates that are re-ranked",
        f"The {NEIGHBORS} nearest members under W₁. " + (__doc__ or "").split("\n\n", 1)[1].strip(),
        tables,
        (
            "Candidates are solved by `asot.pairwise_exact`. Their number is the smallest of a list with which these "
            f"very queries find {RECALL:.0%} of the neighbors, or all, so it is chosen in favor of the rivals; a user "
            "does not know it. `asot.Index` is certain without knowing, and with `recall=` chooses on other queries.",
            "Sliced: 8 quantiles along each of 64 directions, in a flat index of faiss, L2. Centroids: the same. "
            "MUVERA: encodings by pymuvera 0.4.2 (16 partitions, 16 coordinates, 20 repetitions, 8 for the "
            "molecules), of points centered and lifted to the sphere, by inner product; the time to encode a query is "
            "that of this implementation, in Python.",
            f"gensim's `wmdistance` with all members, by {_BY_GENSIM} queries; its answers are compared, too.",
        ),
    )


def _collections(data: Path, quick: bool) -> list[tuple[str, asot.Distributions, asot.Distributions]]:
    tweets = read_tweets(data, 400 if quick else 3108)
    order, n = np.random.default_rng(0).permutation(len(tweets)), 10 if quick else 30
    documents = join_tweets(data, 320 if quick else 5020)
    found = [("tweets", tweets[np.sort(order[n:])], tweets[order[:n]])]
    found.append(("documents of 10–110 words", documents[20:], documents[:20]))
    if (data / "zinc").is_dir() and not quick:
        from asot_paper.datasets import load_zinc

        drawn = np.random.default_rng(0).permutation(249_456)[:20_020]
        D = load_zinc("all", atoms="elements", graphs=drawn, folder=data, download=False)[0]
        found.append(("molecules of ZINC", D[:20_000], D[20_000:]))
    return found


def _table(name: str, members: asot.Distributions, queries: asot.Distributions, peers: Path) -> Table:
    single = [queries[i : i + 1] for i in range(len(queries))]
    brute = [_timed(lambda q=q: asot.pairwise_exact(q, members, sink=asot.sinks.TopK(NEIGHBORS))) for q in single]
    limits = np.array([found.distances[0, -1] for found, _ in brute])
    rows = [["brute force, `pairwise_exact`", *_both(f"{len(members):,}", [seconds for _, seconds in brute])]]
    index = asot.Index()
    index.add(members)
    rows.append(_asked(index, single, brute))
    slices = Slices(members.dim)
    for word, encode in (("sliced", slices), ("centroids", centroids)):
        encoding = float(np.median([_timed(lambda q=q, e=encode: e(q))[1] for q in single]))
        candidates = FlatCandidates(encode(members), by_product=False)
        rows.append(_reranked(f"{word} + faiss", candidates, encode(queries), encoding, members, single, limits))
    encoded = muvera(members, queries, peers)
    if isinstance(encoded, str):
        rows.append(["MUVERA + faiss", encoded, "–", "–", "–", "–"])
    else:
        theirs, ours, encoding = encoded
        candidates = FlatCandidates(theirs, by_product=True)
        rows.append(_reranked("MUVERA + faiss", candidates, ours, encoding, members, single, limits))
    if "words" in name or name == "tweets":
        rows.append(_by_gensim(members, single, brute))
    columns = ["method", "solved for 98 %", "recall", "ms", "solved for all", "ms for all"]
    return Table(f"{len(members):,} {name}, {len(single)} queries:", columns, rows)


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    answer = call()
    return answer, time.process_time() - started


def _ms(seconds: Any) -> str:
    return f"{1e3 * float(np.median(seconds)):.1f}"


def _both(solved: str, seconds: Any) -> list[str]:
    """Cells of a method that finds all."""
    return [solved, "1", _ms(seconds), solved, _ms(seconds)]


def _share(distances: NDArray[np.float64], limit: float) -> float:
    """Which share of the nearest was found; a tie with the last is as good."""
    return float(np.count_nonzero(np.sort(distances)[:NEIGHBORS] <= limit * (1 + 1e-9) + 1e-12)) / NEIGHBORS


def _asked(index: asot.Index, single: list[asot.Distributions], brute: list[Any]) -> list[str]:
    index.query(single[0], NEIGHBORS, recall=RECALL, n_jobs=1)  # a rehearsal is not a query
    some = [_timed(lambda q=q: index.query(q, NEIGHBORS, recall=RECALL, n_jobs=1)) for q in single]
    every = [_timed(lambda q=q: index.query(q, NEIGHBORS, n_jobs=1)) for q in single]
    for (found, _), (truth, _) in zip(every, brute, strict=True):
        require("the index", float(np.abs(found.distances - truth.distances).max()), 1e-9)
    shares = [_share(a.distances[0], truth.distances[0, -1]) for (a, _), (truth, _) in zip(some, brute, strict=True)]
    solved = [f"{np.mean([answer.n_exact for answer, _ in group]):.0f}" for group in (some, every)]
    times = [_ms([seconds for _, seconds in group]) for group in (some, every)]
    return ["`asot.Index`", solved[0], f"{np.mean(shares):.3f}", times[0], solved[1], times[1]]


def _reranked(
    name: str, candidates: Candidates, vectors: NDArray[np.float32], encoding: float, members: asot.Distributions,
    single: list[asot.Distributions], limits: NDArray[np.float64],
) -> list[str]:  # fmt: skip
    cells: list[str] = []
    counts = iter((*(c for c in LADDER if c < len(members)), len(members)))
    shares: list[float] = [0.0]
    for wanted in (RECALL, 1.0):
        while np.mean(shares) < wanted:
            count = next(counts)
            shares, seconds = _tried(candidates, vectors, members, single, limits, count)
        cells += [f"{count:,}", *([f"{np.mean(shares):.3f}"] if wanted < 1.0 else []), _ms(seconds + encoding)]
    print(name, cells, flush=True)
    return [name, *cells]


def _tried(
    candidates: Candidates, vectors: NDArray[np.float32], members: asot.Distributions,
    single: list[asot.Distributions], limits: NDArray[np.float64], count: int,
) -> tuple[list[float], NDArray[np.float64]]:  # fmt: skip
    """Shares of the neighbors found among some candidates of each query, and seconds without encoding."""

    def answer(i: int) -> NDArray[np.float64]:
        chosen = members[candidates(vectors[i], count)]
        return asot.pairwise_exact(single[i], chosen, n_jobs=1, progress=False).values

    timed = [_timed(lambda i=i: answer(i)) for i in range(len(single))]
    shares = [_share(values, limit) for (values, _), limit in zip(timed, limits, strict=True)]
    return shares, np.array([seconds for _, seconds in timed])


def _by_gensim(members: asot.Distributions, single: list[asot.Distributions], brute: list[Any]) -> list[str]:
    distances = gensim_distances(members)
    if isinstance(distances, str):
        return ["gensim", distances, "–", "–", "–", "–"]
    distances(single[-1])  # load what it calls
    timed = [_timed(lambda q=q: distances(q)) for q in single[:_BY_GENSIM]]
    for (values, _), (truth, _) in zip(timed, brute, strict=False):
        require("gensim", float(np.abs(np.sort(values)[:NEIGHBORS] - truth.distances[0]).max()), 1e-4)
    return ["gensim, `wmdistance`", *_both(f"{len(members):,}", [seconds for _, seconds in timed])]
