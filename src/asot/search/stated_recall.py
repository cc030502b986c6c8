"""A search that finds a stated share of the neighbors: candidates by vectors, exact solves of those, a measurement.

Where no lower bound rules out a pair, certainty means brute force. Here each row looks only at the columns whose
vectors are nearest (`energy`), and solves those exactly: distances are always right, but a neighbor may be missing. How
many candidates it takes is found on some rows that are solved against all columns: their true neighbors say how far
down the list of candidates one has to look. The lists end where the lower end of a 95 percent interval of the share,
as these rows show it, reaches the stated one. So the share of all rows is below it about once in forty times.

What was found is measured on other rows, which had no part in that. Rows of either part have all of their neighbors,
and within a collection they give themselves to the rows whose neighbors they are; so the measurement is of what the
other rows find, and its interval of the finite number of these.

All that is only worth it where it takes less work than certainty does: a rehearsal has counted what that would take
(`rehearse`), and once the number of candidates is known, the cheaper of the two is carried out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from asot._typing import Float, Indices, Info
from asot.run.executors import Stop, in_threads, one_thread_per_product
from asot.run.pairs import tiles
from asot.search.choose import Rehearsed
from asot.search.sweep import Best, Search, Shape
from asot.validation import is_number

_MISSED = 8  # neighbors of the rows of one part that a search with the stated share would miss, or more
_FEWEST = 16  # rows of a part
_LOOKS = 2**20  # pairs that one piece of work of a thread looks at
_SOLVES = 2**16  # pairs that are collected before they are solved
NORMAL = 1.96  # two-sided, 95 %
_IN_VAIN = 0.1  # the part of a certain search's work that finding the number of candidates may take


def as_recall(recall: Any, prune: Any, space: Any, sink: Any) -> float:
    """``recall=`` of a call, and a refusal of what does not go with it."""
    if not is_number(recall) or not 0 < recall < 1:
        raise ValueError(
            f"recall is the share of the neighbors to find, a number between 0 and 1; found {recall!r}. "
            "Leave it out to find all of them"
        )
    if space is not None or prune != "auto":
        raise ValueError("recall= looks for candidates without bounds; leave out prune= and space=, or recall=")
    if sink is not None:
        raise ValueError("a store keeps certain neighbors; leave out recall=, or sink=")
    return float(recall)


class HeldOut(NamedTuple):
    """Rows (n,), ascending, that are solved against all columns: to find the number of candidates, and to measure."""

    tuning: Indices
    measuring: Indices

    @property
    def n_rows(self) -> int:
        return len(self.tuning) + len(self.measuring)


def choose_held_out(shape: Shape, n_neighbors: int, recall: float, seed: int) -> HeldOut | None:
    """Two parts of the rows; None if there are too few rows or columns for anything but a certain search."""
    count = int(max(_FEWEST, np.ceil(_MISSED / ((1.0 - recall) * n_neighbors) - 1e-9)))
    if 4 * count > shape.n_rows or shape.n_columns < 8 * n_neighbors:
        return None
    rows = np.random.default_rng(seed).choice(shape.n_rows, 2 * count, replace=False)
    return HeldOut(np.sort(rows[:count]), np.sort(rows[count:]))


def may_pay(held_out: HeldOut, shape: Shape, certain: Rehearsed) -> bool:
    """Whether to look for the number of candidates at all, beside what a certain search takes.

    Brute force solves these pairs anyway. Where bounds rule out pairs, they would be solved in vain.
    """
    each = shape.n_columns * certain.solve
    if certain.look is not None and len(held_out.tuning) * each > _IN_VAIN * certain.work:
        return False
    return held_out.n_rows * each < certain.work


class Candidates:
    """Columns in the order of how near their vectors are; equally near ones in order of index."""

    def __init__(self, vectors: Float, shape: Shape, n_jobs: int) -> None:
        self._rows = vectors[: shape.n_rows]
        self._columns = vectors[shape.column_start : shape.column_start + shape.n_columns]
        self._squares = np.einsum("ij,ij->i", self._columns, self._columns)
        self._within, self._jobs = shape.within, n_jobs
        self._piece = max(1, _LOOKS // shape.n_columns)

    def nearest(self, start: int, stop: int, count: int) -> Indices:
        """The first ``count`` columns (stop - start, count) of each of the rows start..stop-1, in any order."""
        found = np.empty((stop - start, count), dtype=np.int64)

        def piece(own: tuple[int, int], _: Stop) -> None:
            found[own[0] - start : own[1] - start] = _smallest(self._gaps(np.arange(*own)), count)

        with one_thread_per_product():
            in_threads(piece, tiles(stop, self._piece, start), self._jobs)
        return found

    def ranks(self, rows: Indices, columns: Indices) -> Indices:
        """How many columns are nearer to rows[t] than columns[t] is (P,)."""
        ranks = np.empty(len(rows), dtype=np.int64)

        def piece(own: tuple[int, int], _: Stop) -> None:
            part = slice(*own)
            gaps, column = self._gaps(rows[part]), columns[part, None]
            value = np.take_along_axis(gaps, column, axis=1)
            before = (gaps == value) & (np.arange(gaps.shape[1]) < column)
            ranks[part] = np.count_nonzero((gaps < value) | before, axis=1)

        with one_thread_per_product():
            in_threads(piece, tiles(len(rows), self._piece), self._jobs)
        return ranks

    def _gaps(self, rows: Indices) -> Float:
        """|x - y|² - |x|² of some rows to all columns (R, M): integers, without rounding."""
        gaps = self._rows[rows] @ self._columns.T
        gaps *= -2.0
        gaps += self._squares
        if self._within:
            gaps[np.arange(len(rows)), rows] = np.inf
        return np.asarray(gaps)


def _smallest(values: Float, count: int) -> Indices:
    """Places (R, count) of the smallest values of each row; of equal ones the first."""
    last = np.partition(values, count - 1, axis=1)[:, count - 1, None]
    chosen = values <= last
    for row in np.flatnonzero(np.count_nonzero(chosen, axis=1) > count):
        equal = np.flatnonzero(values[row] == last[row])
        chosen[row, equal[count - np.count_nonzero(chosen[row]) :]] = False
    return np.asarray(np.nonzero(chosen)[1].reshape(len(values), count))


def search_with_recall(
    search: Search, candidates: Candidates, held_out: HeldOut, best: Best, recall: float, certain: Rehearsed
) -> Info | None:
    """Fill ``best`` and tell what was measured; None, with some pairs solved, if a ``certain`` search is no dearer."""
    shape, n_neighbors = search.shape, best.distances.shape[1]
    rehearsed = search.solved()
    _solve_rows(search, held_out.tuning, best)
    ranks = _ranks_of_neighbors(candidates, held_out.tuning, best.indices[held_out.tuning], shape.within)
    count, design = _tuned(ranks, recall)
    pairs = shape.n_rows * count + len(held_out.measuring) * shape.n_columns
    if 2 * count >= shape.n_columns or pairs * certain.solve >= certain.work:
        return None
    _solve_rows(search, held_out.measuring, best)
    found = _found_by_others(search, candidates, held_out, best, count, rehearsed)
    for start, stop in tiles(shape.n_rows, max(1, _SOLVES // count)):
        columns = candidates.nearest(start, stop, count)
        search.solve_new(np.repeat(np.arange(start, stop), count), columns.ravel(), best)
    search.shown.advance(max(0, shape.n_pairs - search.n_exact))
    record = {"asked": recall, "certain": False, "candidates": count, "tuning_queries": len(held_out.tuning)}
    measured = _measured_of_others(found, n_neighbors, design, shape.n_rows - held_out.n_rows)
    solved = held_out.n_rows / shape.n_rows  # the share of rows that have all of their neighbors
    low, share, high = (solved + (1.0 - solved) * each for each in measured)
    return record | {"held_out_queries": len(held_out.measuring), "measured": share, "interval": (low, high)}


def all_were_found(recall: float, n_candidates: int) -> Info:
    """What to tell where every pair was solved, or ruled out for certain."""
    exact = {"measured": 1.0, "interval": (1.0, 1.0)}
    queries = {"tuning_queries": 0, "held_out_queries": 0}
    return {"asked": recall, "certain": True, "candidates": n_candidates, **queries, **exact}


def _solve_rows(search: Search, chosen: Indices, best: Best) -> None:
    """Solve some rows against all columns."""
    shape = search.shape
    every = np.arange(shape.n_columns)
    for start, stop in tiles(len(chosen), max(1, _SOLVES // shape.n_columns)):
        rows = np.repeat(chosen[start:stop], shape.n_columns)
        columns = np.tile(every, stop - start)
        other = rows != columns if shape.within else slice(None)
        search.solve_new(rows[other], columns[other], best)


def _tuned(ranks: Indices, recall: float) -> tuple[int, float]:
    """The number of candidates by the ranks (n, K) of true neighbors, and how far these are from independent."""
    n_neighbors, ordered = ranks.shape[1], np.sort(ranks, axis=None)
    middle = int(ordered[int(np.ceil(recall * (ranks.size + 1))) - 1]) + 1
    design = design_effect(np.count_nonzero(ranks < middle, axis=1) / n_neighbors, n_neighbors)
    counts = np.unique(np.maximum(ordered + 1, n_neighbors))
    for count in counts:
        if interval_of(np.count_nonzero(ranks < count, axis=1) / n_neighbors, n_neighbors, design)[0] >= recall:
            return int(count), design
    return 2 * int(counts[-1]), design  # none of these rows misses any, and yet they are too few to be sure


def _ranks_of_neighbors(candidates: Candidates, rows: Indices, neighbors: Indices, within: bool) -> Indices:
    """Ranks (n, K) of the true neighbors of some rows; within a collection, a pair is found from both of its ends."""
    near = neighbors.ravel()
    own = np.repeat(rows, neighbors.shape[1])
    ranks = candidates.ranks(own, near)
    if within:
        ranks = np.minimum(ranks, candidates.ranks(near, own))
    return ranks.reshape(neighbors.shape)


def _found_by_others(
    search: Search, candidates: Candidates, held_out: HeldOut, best: Best, count: int, rehearsed: Indices
) -> Indices:
    """How many neighbors each measuring row (n,) would have found, had it not been held out.

    They are among its candidates, or it is among theirs; within a collection, a neighbor may be held out itself; and
    the pairs with the keys ``rehearsed`` were solved before.
    """
    rows, neighbors = held_out.measuring, best.indices[held_out.measuring]
    found = _ranks_of_neighbors(candidates, rows, neighbors, search.shape.within) < count
    found |= np.isin(search.keys(np.repeat(rows, neighbors.shape[1]), neighbors.ravel()), rehearsed).reshape(
        found.shape
    )
    if search.shape.within:
        found |= np.isin(neighbors, np.concatenate(held_out))
    return np.asarray(np.count_nonzero(found, axis=1))


def design_effect(shares: Float, n_neighbors: int) -> float:
    """By how much the mean of shares (n,) varies more than that of n K independent neighbors; at least 1."""
    share = float(shares.mean())
    alone = share * (1.0 - share) / n_neighbors
    return max(1.0, float(shares.var(ddof=1)) / alone) if alone > 0 else 1.0


def interval_of(shares: Float, n_neighbors: int, design: float = 1.0) -> tuple[float, float]:
    """Wilson's 95 % interval of the share of neighbors that were found, from those of each row (n,).

    Neighbors of one row are missed together, so they count as fewer independent ones: as the spread between rows tells,
    and at least by the factor ``design``, for rows that miss too few to tell.
    """
    n = shares.size * n_neighbors / max(design, design_effect(shares, n_neighbors))
    return wilson(float(shares.mean()), n, NORMAL)


def _measured_of_others(found: Indices, n_neighbors: int, design: float, n_others: int) -> tuple[float, float, float]:
    """Low, middle and high share of the neighbors that ``n_others`` rows have found, of which (n,) were drawn.

    Wilson's interval is of all rows, drawn and others, with the correction for a finite number of them; what is left of
    it after the drawn ones is that of the others. The spread between a few rows is uncertain itself, hence Student's t.
    """
    from scipy.special import stdtrit

    shares = found / n_neighbors
    share, drawn = float(shares.mean()), found.size / (found.size + n_others)
    n = found.size * n_neighbors / max(design, design_effect(shares, n_neighbors)) / (1.0 - drawn)
    low, high = (
        min(1.0, max(0.0, (end - drawn * share) / (1.0 - drawn)))
        for end in wilson(share, n, float(stdtrit(found.size - 1, 0.975)))
    )
    return low, share, high


def wilson(share: float, n: float, quantile: float) -> tuple[float, float]:
    """Wilson's interval of a share of n."""
    scale = 1.0 + quantile**2 / n
    middle = (share + quantile**2 / (2.0 * n)) / scale
    half = quantile / scale * float(np.sqrt(share * (1.0 - share) / n + quantile**2 / (4.0 * n**2)))
    return max(0.0, middle - half), min(1.0, middle + half)
