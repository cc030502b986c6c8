"""Sliced Wasserstein (SW): the mean of one-dimensional W_1 over random directions.

All pairs share the directions: every distribution is projected and sorted once. On a line the best plan keeps the
order: W_1 = ∫ |F⁻¹(q) - G⁻¹(q)| dq. With sorted points this is a walk through both lists, of at most n + m steps.

Where all points of a distribution have the same mass, the walk is the same along every direction: only n and m decide
which ranks meet, and for how much mass. So it is done once for all directions, and a step compares two rows of sorted
points, one entry for each direction, in vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot._typing import Float, Info
from asot.baselines.arguments import read, run
from asot.data.distributions import Distributions
from asot.native import Doubles, Int, Ints, Record, Tile, entry
from asot.results.distances import Distances
from asot.run.executors import ProgressLike, in_threads
from asot.run.pairs import tiles
from asot.run.protocols import TILE_SECONDS, Solution, Solver, Status, all_ended
from asot.validation import as_n_jobs, as_positive_int, refuse_what_cannot_fit

SORTED_AT_A_TIME = 2**20
"""Numbers that a thread sorts before it looks up."""

LANES = 8
"""Directions that are sorted side by side; their number is padded to a multiple of this."""


class SlicedPoints(
    Record, offsets=Ints, n_points=Int, count=Int, width=Int, projected=Doubles, masses=Doubles, z=Doubles,
    cumulative=Doubles,
):  # fmt: skip
    """Projections of a collection, and what becomes of them (``native/baselines/sliced_shared.cpp``)."""


sort_uniform = entry("sort_uniform", SlicedPoints, Int, Int)
sort_weighted = entry("sort_weighted", SlicedPoints, Int, Int)
solve_uniform = entry("sliced_uniform", SlicedPoints, Tile)
solve_weighted = entry("sliced_weighted", SlicedPoints, Tile)


def sliced(
    D: Distributions,
    E: Distributions | None = None,
    *,
    pairs: ArrayLike | None = None,
    n_projections: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
) -> Distances:
    """Sliced Wasserstein distances: the mean of W_1 along random directions.

    Parameters
    ----------
    D, E, pairs, n_jobs, memory, progress
        As in `asot.pairwise_exact`.
    n_projections : int, optional
        Number of directions. Default: the dimension of the points.
    random_state : int, RandomState or None
        Seed of the directions. They are those that ``ot.sliced_wasserstein_distance`` draws from the same seed.

    Returns
    -------
    Distances
        The status is ``Status.OPTIMAL``: the one-dimensional problems are solved exactly.

    Examples
    --------
    >>> from asot.baselines import sliced
    >>> sliced([[[0.0], [1.0]], [[1.0], [3.0]], [[2.0]]], random_state=0).values
    array([1.5, 1.5, 1. ])
    """
    from sklearn.utils import check_random_state

    asked = read(D, E, pairs)
    count = asked.D.dim if n_projections is None else as_positive_int(n_projections, "n_projections")
    directions = random_directions(asked.D.dim, count, check_random_state(random_state))
    solver = SharedDirections(asked.both, directions, asked.column_start, n_jobs=as_n_jobs(n_jobs))
    return run(asked, solver, "SW", n_jobs=n_jobs, memory=memory, progress=progress)


def random_directions(dim: int, count: int, rng: np.random.RandomState) -> Float:
    """Unit vectors (dim, count), uniform on the sphere."""
    normal = rng.standard_normal((dim, count))
    return np.asarray(normal / np.linalg.norm(normal, axis=0), dtype=np.float64)


class SharedDirections(Solver):
    """Prepared once: every distribution projected on all directions (d, L) and sorted; then solves tiles of pairs.

    ``column_start`` is added to column indices; ``n_jobs`` threads sort.
    """

    def __init__(self, D: Distributions, directions: Float, column_start: int = 0, n_jobs: int = 1) -> None:
        self._column_start, self._count = column_start, directions.shape[1]
        has_mass = D.masses > 0
        owner = np.repeat(np.arange(len(D)), D.sizes)[has_mass]
        self._offsets = np.searchsorted(owner, np.arange(len(D) + 1))
        points = np.asarray(D.points[has_mass], dtype=np.float64)
        exponent = self._exponent = int(np.frexp(np.abs(points).max())[1])  # so that no product overflows
        masses = D.masses[has_mass]
        starts = self._offsets[:-1]
        self._uniform = bool((np.maximum.reduceat(masses, starts) == np.minimum.reduceat(masses, starts)).all())
        self._sort(np.ldexp(points, -exponent), masses, directions, n_jobs)
        self.info: Info = sliced_info("sliced, shared directions", self._count)

    def _sort(self, points: Float, masses: Float, directions: Float, n_jobs: int) -> None:
        """Sorted points as (points, directions) where all masses are equal, else as (directions, points)."""
        self._width = -(-self._count // LANES) * LANES
        refuse_what_cannot_fit(
            8 * len(points) * (self._width if self._uniform else 3 * self._width),
            f"{len(points):,} points along {self._count:,} shared directions",
            "use fewer directions (n_projections)",
        )
        projected = np.zeros((len(points), self._width))
        np.matmul(points, directions, out=projected[:, : self._count])
        given = {} if self._uniform else {"masses": masses}
        if not self._uniform:
            given["z"], given["cumulative"] = np.empty((2, self._count, len(points)))
        self._record = SlicedPoints(
            offsets=self._offsets, n_points=len(points), count=self._count, width=self._width, projected=projected,
            **given,
        )  # fmt: skip
        sort = sort_uniform if self._uniform else sort_weighted
        per_piece = max(1, SORTED_AT_A_TIME * (len(self._offsets) - 1) // max(1, len(points) * self._width))
        pieces = tiles(len(self._offsets) - 1, per_piece)
        in_threads(lambda own, stop: sort(self._record, *own), pieces, n_jobs)

    def pairs_per_tile(self, memory: int) -> int:
        steps = 2.0 * float(np.diff(self._offsets).mean()) * self._width
        seconds = 1e-7 + steps * (1e-10 if self._uniform else 4e-9)
        return int(np.clip(min(TILE_SECONDS / seconds, memory / 64), 1, 2**15))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        # Rows of a tile are few and columns many: column by column, each one is fetched from memory once.
        order = np.argsort(columns, kind="stable")
        rows, columns = rows[order], columns[order] + self._column_start
        totals = np.zeros(len(rows))
        solve = solve_uniform if self._uniform else solve_weighted
        solve(self._record, Tile(n=len(rows), rows=rows, columns=columns, values=totals, stop=stop))
        values = np.empty_like(totals)
        values[order] = np.ldexp(totals / self._count, self._exponent)
        return all_ended(Status.OPTIMAL, values)


def sliced_info(solver: str, n_projections: int) -> Info:
    """What a result says about its solver."""
    return {"solver": solver, "device": "cpu", "precision": "float64", "reg": None, "n_projections": n_projections}
