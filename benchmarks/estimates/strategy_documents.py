"""Documents: the default call beside exact solves of all pairs.

Documents share words, which anchors do not see, and their exact pairs are cheap. One kind is real: tweets of one mood,
put together until a document has as many different words as an article has. The others are generated, in 100
dimensions. Seconds are CPU seconds of one thread.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import Options, Report, Table
from benchmarks.estimates.strategy import Collection, prepare, timed, warm_up

NEEDS = {"tweets"}

SHARE = 0.25
"""Of what exact solves take, that the call may take."""


def joined_tweets(data: Path, n: int) -> asot.Distributions:
    """Tweets of one of three moods, drawn until a document has 90 to 140 different words of Word2vec."""
    rng = np.random.default_rng(0)
    with np.load(data / "more" / "wmd_twitter.npz", allow_pickle=False) as file:
        vectors, words, counts, offsets, mood = (
            file[name] for name in ("vectors", "word_index", "count", "doc_ptr", "label")
        )
    weights = np.zeros((n, len(vectors)))
    for row in weights:
        pool, length = np.flatnonzero(mood == rng.choice(np.unique(mood))), rng.integers(90, 140)
        while np.count_nonzero(row) < length:
            tweet = rng.choice(pool)
            own = slice(offsets[tweet], offsets[tweet + 1])
            np.add.at(row, words[own], counts[own])
    return asot.Distributions.from_weights(weights, vectors.astype(np.float64))


def topics(n: int, tokens: tuple[int, int]) -> asot.Distributions:
    """Twenty topics over 3,000 words with Zipf's frequencies; the hundred most frequent ones are in every topic."""
    rng = np.random.default_rng(0)
    topic, frequency = rng.integers(0, 20, 3000), 1.0 / np.arange(1, 3001)
    words = rng.normal(size=(20, 100))[topic] + rng.normal(size=(3000, 100))
    return _drawn(rng, n, words, ((topic == np.arange(20)[:, None]) + (np.arange(3000) < 100)) * frequency, 0.1, tokens)


def nested(n: int) -> asot.Distributions:
    """Words in clusters of clusters with falling variances, as word vectors are, and 25 topics that prefer some."""
    rng = np.random.default_rng(0)
    inner = rng.normal(size=(10, 100))[rng.integers(0, 10, 60)] + 0.8 * rng.normal(size=(60, 100))
    cluster = rng.integers(0, 60, 4000)
    words = (inner[cluster] + 0.8 * rng.normal(size=(4000, 100))) * np.arange(1, 101) ** -0.35
    liked = rng.dirichlet(np.full(60, 0.08), size=25)[:, cluster]
    return _drawn(rng, n, words, liked / (np.arange(1, 4001) + 2.7), 0.15, (130, 240))


def unlike(n: int) -> asot.Distributions:
    """Clouds of 115 points that are all different."""
    rng = np.random.default_rng(0)
    return asot.Distributions.from_list([rng.normal(0.3 * rng.normal(size=100), 1.0, (115, 100)) for _ in range(n)])


def _drawn(
    rng: np.random.Generator,
    n: int,
    words: np.ndarray,
    frequencies: np.ndarray,
    evenness: float,
    tokens: tuple[int, int],
) -> asot.Distributions:
    """Documents of so many words, drawn from mixtures of topics by their ``frequencies`` (topics, words)."""
    frequencies = frequencies / frequencies.sum(axis=1, keepdims=True)
    weights = np.zeros((n, len(words)))
    for row in weights:
        own = rng.dirichlet(np.full(len(frequencies), evenness)) @ frequencies
        np.add.at(row, rng.choice(len(words), rng.integers(*tokens), p=own / own.sum()), 1.0)
    return asot.Distributions.from_weights(weights, words)


def run(options: Options) -> Report:
    """Time the call on every collection and check its error."""
    assert options.data is not None
    kinds: dict[str, Callable[[int], asot.Distributions]] = {
        "tweets, joined": partial(joined_tweets, options.data),
        "nested clusters": nested,
        "topics": partial(topics, tokens=(450, 650)),
        "short, topics": partial(topics, tokens=(130, 240)),
        "nothing in common": unlike,
    }
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up()
        for name, make in kinds.items():
            for n in (60,) if options.quick else (300, 500, 700):
                rows.append(_row(prepare(name, partial(make, n))))
    columns = ["documents", "N", "words", "way", "true, %", "seconds", "exact", "share of exact"]
    notes = ["*true* is the error on random pairs, relative to their mean. The aim is 2 %, with 10 % grace."]
    return Report("strategy_documents", "Documents by default", __doc__ or "", [Table("", columns, rows)], notes)


def _row(one: Collection) -> list[str]:
    seconds, r = timed(partial(asot.pairwise, one.D, n_jobs=1, progress=False))
    share, off = seconds / one.exact_seconds, one.off(r.values)
    assert off < 2.2, f"{one.name}: {off:.2f} % off"
    verdict = "met" if share <= SHARE else "missed"
    return [
        one.name, f"{len(one.D):,}", f"{one.D.sizes.mean():.0f}", r.info["strategy"]["why"].partition(":")[0],
        f"{off:.2f}", f"{seconds:.2f} s", f"{one.exact_seconds:.2f} s", f"{share:.2f} ({verdict}: ≤ {SHARE})",
    ]  # fmt: skip
