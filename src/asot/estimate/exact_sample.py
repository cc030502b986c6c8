"""Pairs that are solved exactly, chosen so that their errors represent all pairs.

A few distributions may cause nearly all of the error: the large ones among many small ones, or a cluster far away.
Pairs drawn uniformly then miss them, and an error measured on such pairs is many times too small. So pairs are drawn
where the uncertainty is large, and each is weighted by the inverse of its probability (importance sampling):

1. *candidates*: half of them evenly, half with ends chosen in proportion to r², the squared mean distance of a
  distribution to its anchors, which bounds the error they can cause;
2. *the sample*: a third of it evenly among the candidates, a third in proportion to how uncertain the anchors leave a
  candidate and to how far it alone can move the fit (`leverage`), a third in equal parts among the kinds of pairs
  (`kinds`), so that each kind is judged by its own pairs. Within each kind it is spread evenly over the range of
  distances.

Sums over the sample, with its weights, estimate the same sums over all pairs without bias.

How sure such a sum is comes from resampling (bootstrap-t of the logarithm of a mean square, which stays valid when a
few errors dominate). Resampling alone is too sure of itself. A sample of 64 rarely holds the largest errors, so it
looks less spread than the pairs are; residuals of a cross-validated fit have lost a degree of freedom for each
coefficient; and what is to be covered is the error of the pairs that are left, which vary by themselves where they are
few. All three widen the interval (`rms_interval`). An estimate that was chosen because its error looked small enough
has one more reason to be worse than it looks (`end_after_choice`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.data.distributions import Distributions
from asot.estimate.pair_features import Features
from asot.exact.auto import euclidean_solver
from asot.run import engine
from asot.run.engine import Resources
from asot.run.executors import Progress, meanwhile
from asot.run.pairs import AllPairs, CrossPairs, ListedPairs, PairSet, at_places
from asot.run.protocols import Solver

EXACT_PAIRS = 64
"""How many pairs are solved exactly to fit and validate the estimate."""

CANDIDATES = 2048
"""Pairs from which they are chosen."""

LEVELS = 8
"""Radii smaller than the largest by more than this power of two count as one kind."""

DRAWS = 1000

LEAST_KURTOSIS = 3.5
"""Of errors, whatever the sample shows. Errors of all pairs of a collection have 3 (normal) to 40; samples of 64 mostly
show 3, since they do not hold the largest."""

LEAST_SHARE = 1e-9
"""Of the largest eigenvalue: directions with less of it are rounding."""

MOST_DEVIATIONS = 3.0
"""How far an error that decided a choice is moved up at most, in standard deviations."""


class Drawn(NamedTuple):
    """Places in a list of pairs, and how many pairs each of them represents, up to a common factor."""

    places: Indices  # (M,) ascending in candidates, in order of kind and distance in a sample
    weights: Float  # (M,)


def draw_candidates(
    pairs: AllPairs | CrossPairs, radii: Float, column_start: int, size: int, rng: np.random.Generator
) -> Drawn:
    """About ``size`` of all pairs, all of them if there are no more; ``radii`` are those of rows and columns."""
    if len(pairs) <= size:
        return Drawn(np.arange(len(pairs)), np.ones(len(pairs)))
    radii = radii / (radii.max() or 1.0)  # so that no square leaves the range
    rows, columns = radii[: pairs.n_rows] ** 2, radii[column_start : column_start + pairs.n_columns] ** 2
    if rows.sum() <= 0 or columns.sum() <= 0:
        return Drawn(np.sort(rng.choice(len(pairs), size, replace=False)), np.ones(size))
    p, q = rows / rows.sum(), columns / columns.sum()
    # Without a number per pair: ends are drawn one by one. Within one set, a pair of equal ends is drawn again.
    n, m, symmetric = pairs.n_rows, pairs.n_columns, isinstance(pairs, AllPairs)
    meet = float(p @ q) if symmetric else 0.0
    both_share = 0.25 if meet < 0.99 else 0.0  # a single distribution has no partner
    kind = rng.choice(4, size, p=[0.75 - both_share, 0.125, 0.125, both_share])
    i, j = rng.integers(n, size=size), rng.integers(m, size=size)
    todo = np.arange(size)
    while len(todo):
        i[todo], j[todo] = rng.integers(n, size=len(todo)), rng.integers(m, size=len(todo))
        first, second = todo[np.isin(kind[todo], (1, 3))], todo[kind[todo] >= 2]
        i[first], j[second] = rng.choice(n, len(first), p=p), rng.choice(m, len(second), p=q)
        todo = todo[i[todo] == j[todo]] if symmetric else todo[:0]
    if symmetric:
        i, j = np.minimum(i, j), np.maximum(i, j)
    places = AllPairs(n).row_start(i) + j - i - 1 if symmetric else i * m + j

    unique, first, count = np.unique(places, return_index=True, return_counts=True)
    i, j = i[first], j[first]
    even = (0.75 - both_share) / len(pairs)
    if symmetric:  # an unordered pair can be drawn in either order
        chance = even + 0.25 * (p[i] + p[j]) / (n - 1)
        if both_share > 0.0:
            chance += both_share * 2 * p[i] * p[j] / (1 - meet)
    else:
        chance = even + 0.125 * (p[i] / m + q[j] / n) + both_share * p[i] * q[j]
    weights = count / chance
    return Drawn(unique, np.asarray(weights / weights.mean(), dtype=np.float64))


def kinds(radii: Float, rows: Indices, columns: Indices) -> Indices:
    """A number (P,) for the kind of each pair: the sizes of its two radii relative to the largest, to a power of two.

    Pairs within a few wide distributions, pairs of these with the many narrow ones, and pairs of narrow ones have
    errors of their own.
    """
    share = np.maximum(radii / (radii.max() or 1.0), 2.0**-LEVELS)
    level = np.frexp(0.99 * share)[1].astype(np.int64)  # 0 for the largest ones, down to -LEVELS
    return np.minimum(level[rows], level[columns]) * (LEVELS + 1) + np.maximum(level[rows], level[columns])


def draw_sample(
    weights: Float, width: Float, pull: Float, value: Float, kind: Indices, size: int, rng: np.random.Generator
) -> Drawn:
    """About ``size`` of the M candidates by weight, ``width``, ``pull`` and ``kind``; all of them if M ≤ ``size``.

    They are put in order of kind and ``value``, and the sample is taken at equal steps through that order (systematic
    sampling).
    """
    order = np.lexsort((value, kind))
    if len(weights) <= size:
        return Drawn(order, weights[order])
    _, kind = np.unique(kind, return_inverse=True)
    parts = [weights, weights / np.bincount(kind, weights)[kind]]
    doubtful = [weights * part / (weights @ part) for part in (width, pull) if part.any()]
    if doubtful:
        parts.append(np.mean(doubtful, axis=0))
    share: Float = np.mean([part / part.sum() for part in parts], axis=0)
    chance = _inclusion(share, size)
    reached = np.cumsum(chance[order]) - rng.random()
    taken = order[np.diff(np.floor(np.concatenate([[-1.0], reached]))) > 0]
    return Drawn(taken, weights[taken] / chance[taken])


def leverage(features: Float, directions: Float, weights: Float) -> Float:
    """How far each pair (M,) alone can move a fit: much if its features are unlike those of all others."""
    x = features @ directions
    x = x / np.maximum(np.sqrt((x**2).mean(axis=0)), np.finfo(np.float64).tiny)
    size, turns = np.linalg.eigh((x * weights[:, None]).T @ x)
    known = size > LEAST_SHARE * size[-1]
    return np.asarray(((x @ turns[:, known]) ** 2 / size[known]).sum(axis=1), dtype=np.float64)


def pool(draws: list[Drawn]) -> Drawn:
    """Independent samples of the same candidates as one: the mean of what each of them estimates."""
    places = np.concatenate([one.places for one in draws])
    unique, first, which = np.unique(places, return_index=True, return_inverse=True)
    weights = np.bincount(which, np.concatenate([one.weights for one in draws])) / len(draws)
    order = np.argsort(first)
    return Drawn(unique[order], np.asarray(weights[order]))


def _inclusion(share: Float, size: int) -> Float:
    """Chances in proportion to ``share`` that sum to ``size``, none above 1."""
    certain = np.zeros(len(share), dtype=bool)
    while True:
        left = share * ~certain
        total = float(left.sum())
        chance = np.where(certain, 1.0, (size - certain.sum()) * left / total if total > 0 else 0.0)
        if (chance <= 1.0).all():
            return np.asarray(chance, dtype=np.float64)
        certain |= chance > 1.0


# ------------------------------------------------------------------------------------------------ solving them


@dataclass(frozen=True)
class ExactSample:
    """Pairs of a set that were solved exactly, and how many pairs each represents, itself included."""

    pairs: ListedPairs
    exact: Float  # (S,)
    weights: Float  # (S,)
    n_kinds: int = 1
    """How many kinds of pairs there are (`kinds`)."""

    @property
    def left_open(self) -> Float:
        """Of the pairs that each represents: the share (S,) that is estimated, not solved."""
        return np.maximum(1.0 - 1.0 / self.weights, 0.0)

    def look_up(self, rows: Indices, columns: Indices) -> tuple[Float, NDArray[np.bool_]]:
        """Distances (P,) of some pairs, as far as they are here, and which of them (P,) are not."""
        own, asked = pair_keys(*self.pairs.indices(0, len(self.pairs))), pair_keys(rows, columns)
        order = np.argsort(own)
        place = order[np.minimum(np.searchsorted(own, asked, sorter=order), len(own) - 1)]
        return self.exact[place], own[place] != asked


def pair_keys(rows: Indices, columns: Indices) -> Indices:
    """A number (P,) for each pair, in the order of rows and columns."""
    return np.asarray((rows << 32) + columns)


@dataclass
class Sampler:
    """Chooses pairs by how uncertain ``features`` leave them, and solves them by ``solve(rows, columns)``.

    Its columns count from the beginning of the first collection. Candidates are measured once: a larger sample begins
    with the same draws of ``n_exact`` pairs each, and only new pairs are solved.
    """

    features: Features
    pairs: AllPairs | CrossPairs
    n_exact: int
    seed: int
    resources: Resources
    solve: Callable[[Indices, Indices], Float]
    beside: Callable[[], object] | None = None
    """Called while threads measure the candidates."""
    _draws: list[Drawn] = field(default_factory=list)
    _known: ExactSample | None = None

    def sample(self, n_draws: int = 1) -> ExactSample:
        """The pairs of so many draws, or of more that were made before."""
        if self._known is not None and len(self._draws) >= n_draws:
            return self._known
        listed, draw, n_kinds = self._candidates
        while len(self._draws) < n_draws:
            self._draws.append(draw())
        drawn = pool(self._draws)
        chosen = at_places(listed, drawn.places)
        rows, columns = chosen.indices(0, len(chosen))
        exact, fresh = np.empty(len(rows)), np.ones(len(rows), dtype=np.bool_)
        if self._known is not None:
            exact, fresh = self._known.look_up(rows, columns)
        if fresh.any():
            exact[fresh] = self.solve(rows[fresh], columns[fresh] + self.features.column_start)
        weights = drawn.weights * (len(self.pairs) / drawn.weights.sum())
        self._known = ExactSample(chosen, exact, weights, n_kinds)
        return self._known

    @functools.cached_property
    def _candidates(self) -> tuple[ListedPairs, Callable[[], Drawn], int]:
        """Pairs from which samples are drawn, what draws the next one, and how many kinds of pairs there are."""
        own, rng = self.features, np.random.default_rng(self.seed)
        found = draw_candidates(self.pairs, own.radii, own.column_start, CANDIDATES, rng)
        listed = at_places(self.pairs, found.places)
        measured = self._measured(listed)
        rows, columns = listed.indices(0, len(listed))
        kind = kinds(own.radii, rows, columns + own.column_start)
        pull = leverage(measured, own.directions, found.weights)
        uncertain = own.width(measured), pull, measured[:, 0].copy(), kind
        draw = functools.partial(draw_sample, found.weights, *uncertain, self.n_exact, rng)
        return listed, draw, len(np.unique(kind))

    def _measured(self, listed: PairSet) -> Float:
        """Features of the candidates."""
        if self.beside is None:
            return features_of(listed, self.features, self.resources)
        measured = meanwhile(functools.partial(features_of, listed, self.features, self.resources), with_loops=True)
        self.beside()
        return measured()


def features_of(pairs: PairSet, features: Features, resources: Resources) -> Float:
    """Features (P, F) of every pair."""
    return _of_every_pair("features", pairs, features, resources, "measuring")


def solve_exactly(pairs: PairSet, solver: Solver, resources: Resources) -> Float:
    """Exact distances (P,)."""
    return _of_every_pair("values", pairs, solver, resources, solver.stage)


def _of_every_pair(field: str, pairs: PairSet, solver: Solver, resources: Resources, stage: str) -> Float:
    """One field of the answers."""
    parts: list[Float] = []
    with Progress(resources.progress, len(pairs), stage) as shown:
        for tile in engine.solved_tiles(pairs, solver, resources.jobs, resources.budget):
            parts.append(getattr(tile.solution, field))
            shown.advance(len(parts[-1]))
    return np.concatenate(parts)


def exact_distances(D: Distributions, rows: Indices, columns: Indices, resources: Resources) -> Float:
    """W_1 (P,) of a few pairs, looking only at the distributions they name."""
    named, index = np.unique(np.stack([rows, columns]), return_inverse=True)
    solver = euclidean_solver(D[named])
    few = ListedPairs(index.reshape(2, -1).T, len(named), len(named), symmetric=True)
    return solve_exactly(few, solver, resources)


# ------------------------------------------------------------------------------------------------ how sure it is


def rms_interval(
    residual: Float, weights: Float, n_fitted: float = 0.0, n_left: float = np.inf
) -> tuple[float, float, float]:
    """Root of the weighted mean square, and both ends of its 95 percent interval.

    Parameters
    ----------
    residual, weights : (S,)
    n_fitted
        How many coefficients the pairs decided of the fit that the residuals are held out from.
    n_left
        Pairs whose error is asked for. The interval covers what these happen to have, not only what is expected.
    """
    from scipy.special import stdtrit

    n, size = len(residual), float(np.abs(residual).max())
    if size == 0.0 or n < 2:
        return size, size, size
    squares = weights * (residual / size) ** 2  # at the scale of 1: fourth powers follow
    mean = float(squares.sum() / weights.sum())
    counts = _draws(n)
    means = counts @ squares / (counts @ weights)
    deviations = _deviation(counts, squares, weights, means)
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(means, tiny)) - np.log(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(deviations > 0, logs * means / deviations, 0.0)
    low, high = np.quantile(t, [0.025, 0.975])
    free = max(n - n_fitted - 1, 1)
    least = float(stdtrit(free, 0.975))
    relative = float(_deviation(np.ones((1, n)), squares, weights, np.array([mean]))[0]) / mean
    alike = float(weights.sum() ** 2 / (weights**2).sum())  # pairs of equal weight that would say as much (Kish)
    relative = max(relative, float(np.sqrt((LEAST_KURTOSIS - 1.0) / alike)))
    relative *= float(np.sqrt((n / free) * (1.0 + n / max(n_left, 1.0))))
    factors = np.exp(0.5 * relative * np.clip([-max(high, least), -min(low, -least)], -6.0, 6.0))
    root = size * float(np.sqrt(mean))
    return root, root * float(factors[0]), root * float(factors[1])


def end_after_choice(root: float, high: float, allowed: float) -> float:
    """The upper end of the interval of an error that was chosen because it is small enough.

    Of many errors near what is ``allowed``, those are chosen that the sample shows too small. So the end is the error
    beyond which less than 2.5 percent *of those that would have been chosen* were seen as small as this one: with x the
    logarithm of the error that was seen, s its standard deviation and c the largest that would have been accepted, it
    solves Φ((x - θ)/s) = 0.025 Φ((c - θ)/s). Far below c, it is the end that it was.
    """
    from scipy.special import log_ndtr

    if not 0.0 < root < high:
        return high
    s, reach = np.log(high / root) / 1.96, np.log(allowed / root)
    spare = max(0.0, reach / s - (1.96 if high <= allowed else 0.98))  # (c - x) / s
    below, above = 1.96, MOST_DEVIATIONS
    while above - below > 1e-6:
        middle = 0.5 * (below + above)
        rarer = log_ndtr(-middle) - log_ndtr(spare - middle) <= np.log(0.025)
        below, above = (below, middle) if rarer else (middle, above)
    return max(high, root * float(np.exp(s * below)))


@functools.lru_cache(maxsize=4)
def _draws(n: int) -> Float:
    """How often each of n pairs is drawn (B, n) in B resamples of size n."""
    draws = np.random.default_rng(0).integers(n, size=(DRAWS, n))
    counts = np.bincount((draws + n * np.arange(DRAWS)[:, None]).ravel(), minlength=DRAWS * n)
    return counts.reshape(DRAWS, n).astype(np.float64)


def _deviation(counts: Float, squares: Float, weights: Float, means: Float) -> Float:
    """Standard deviation (B,) of Σ squares / Σ weights, by linearization; ``counts`` (B, n) say what is drawn."""
    n = counts.shape[1]
    influence = counts @ squares**2 - 2 * means * (counts @ (squares * weights)) + means**2 * (counts @ weights**2)
    return np.asarray(np.sqrt(np.maximum(influence, 0.0) * n / (n - 1)) / (counts @ weights), dtype=np.float64)
