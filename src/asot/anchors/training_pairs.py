"""Pairs of distributions with their exact W_1, for training and validating a learned space.

Exact distances are cheap here, so a few thousand of them are computed before training begins. A batch is a set of
distributions with pairs among them: its points are encoded once, no matter how many pairs they are in. Validation pairs
come from distributions that are in no batch, if the collection is large enough to set some aside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asot.data.distinct import sparse_histograms
from asot.data.distributions import Distributions
from asot.exact.auto import points_work
from asot.ground.metrics import prepare_metric
from asot.results.sinks import Condensed
from asot.run.engine import Resources, solve_work
from asot.run.pairs import AllPairs, make_pairs
from asot.run.protocols import Notes

MOST_HELD_OUT = 256
"""At most this many distributions are set aside; their pairs measure the error well enough."""

FEWEST_HELD_OUT = 32
"""Below this many, pairs are held out rather than distributions: a dozen distributions would be too noisy."""

HELD_OUT_PAIRS = 1000

PAIRS_PER_DISTRIBUTION = 2
"""Pairs in a batch, for each of its distributions."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Distributions of a collection, and pairs of them with their exact W_1."""

    members: NDArray[np.int64]  # (B,) indices in the collection
    pairs: NDArray[np.int64]  # (P, 2) indices in members
    distances: NDArray[np.float64]  # (P,)


@dataclass(frozen=True, eq=False)
class PairExamples:
    """Batches for training, one for validation, and the mean distance of the former."""

    batches: list[Batch]
    held_out: Batch
    mean_distance: float


def draw_examples(
    D: Distributions, *, n_pairs: int, batch_size: int, fraction: float, rng: np.random.RandomState
) -> PairExamples:
    """Draw pairs of a collection of at least two distributions and solve them.

    Parameters
    ----------
    n_pairs : pairs to learn from, at most
    batch_size : distributions in a batch
    fraction : share of the collection to hold out
    """
    order = rng.permutation(len(D))
    n_held = min(round(fraction * len(D)), MOST_HELD_OUT)
    if n_held >= FEWEST_HELD_OUT:
        held, rest = order[:n_held], order[n_held:]
        held_out = _solved(D, held, _random_pairs(n_held, HELD_OUT_PAIRS, rng))
        batches = _draw_batches(D, rest, n_pairs, batch_size, rng)
    else:
        pairs = _random_pairs(len(D), n_pairs, rng)
        cut = min(max(1, round(fraction * len(pairs))), HELD_OUT_PAIRS)
        held_out = _solved(D, order, pairs[:cut])
        learned = pairs[cut:] if len(pairs) > cut else pairs  # two distributions have a single pair
        per_batch = PAIRS_PER_DISTRIBUTION * batch_size
        batches = [_solved(D, order, learned[i : i + per_batch]) for i in range(0, len(learned), per_batch)]
    return PairExamples(batches, held_out, float(np.concatenate([b.distances for b in batches]).mean()))


def _draw_batches(
    D: Distributions, candidates: NDArray[np.int64], n_pairs: int, batch_size: int, rng: np.random.RandomState
) -> list[Batch]:
    size = min(batch_size, len(candidates))
    per_batch = min(PAIRS_PER_DISTRIBUTION * size, size * (size - 1) // 2)
    wanted = min(n_pairs, len(AllPairs(len(candidates))))
    batches = []
    for _ in range(-(-wanted // per_batch)):
        members = rng.choice(candidates, size, replace=False)
        batches.append(_solved(D, members, _random_pairs(size, per_batch, rng)))
    return batches


def _random_pairs(n: int, count: int, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Up to ``count`` distinct pairs i < j of n, in random order."""
    everything = AllPairs(n)
    if count * 4 >= len(everything):
        first, second = everything.indices(0, len(everything))
        chosen = rng.permutation(len(everything))[:count]
        return np.stack([first[chosen], second[chosen]], axis=1)
    drawn = np.sort(rng.randint(n, size=(2 * count, 2)), axis=1)
    drawn = np.unique(drawn[drawn[:, 0] < drawn[:, 1]], axis=0)
    return np.asarray(rng.permutation(drawn)[:count], dtype=np.int64)


def _solved(D: Distributions, members: NDArray[np.int64], pairs: NDArray[np.int64]) -> Batch:
    histograms = sparse_histograms(D[members])
    ground = prepare_metric(histograms.points, "euclidean")
    wanted = make_pairs(len(members), None, pairs)
    resources = Resources(n_jobs=-1, progress=False)
    work = points_work(wanted, histograms, ground, 0, "auto", resources, Notes())
    distances = solve_work(work, Condensed(), resources).values
    return Batch(members, pairs, distances)
