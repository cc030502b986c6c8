"""Sliced Wasserstein as the paper's tables have it: directions that all pairs share, or fresh ones for every pair.

Shared directions are `asot.baselines.sliced`. With fresh ones, as in a loop over pairs that calls a library, every pair
draws, projects and sorts for itself. The errors of different pairs are then independent of each other, and it takes
much longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from asot import baselines
from asot.baselines.arguments import read, run
from asot.baselines.sliced_wasserstein import sliced_info
from asot.data.distributions import Distributions
from asot.native import Tile
from asot.results.distances import Distances
from asot.run.executors import ProgressLike
from asot.run.protocols import TILE_SECONDS, Solution, Solver, Status, all_ended
from asot.validation import as_positive_int
from asot_paper.baselines.checks import as_truth
from asot_paper.baselines.fresh_kernel import solve_fresh
from asot_paper.baselines.merged import MergedPoints, merged_points


def sliced(
    D: Distributions,
    E: Distributions | None = None,
    *,
    pairs: ArrayLike | None = None,
    n_projections: int | None = None,
    shared: bool = True,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
) -> Distances:
    """Sliced Wasserstein distances: the mean of W_1 along random directions.

    Parameters
    ----------
    D, E, pairs, n_projections, random_state, n_jobs, memory, progress
        As in `asot.baselines.sliced`.
    shared : bool
        One set of directions for all pairs. False draws fresh directions for every pair. They depend on `random_state`,
        on the two indices of the pair (those of E are counted on from D) and on the coordinates in which it is 0, not
        on other pairs.

    Examples
    --------
    >>> from asot_paper.baselines import sliced
    >>> sliced([[[0.0], [1.0]], [[1.0], [3.0]], [[2.0]]], shared=False, random_state=0).values
    array([1.5, 1.5, 1. ])
    """
    common: dict[str, Any] = {"n_jobs": n_jobs, "memory": memory, "progress": progress}
    if as_truth(shared, "shared"):
        return baselines.sliced(D, E, pairs=pairs, n_projections=n_projections, random_state=random_state, **common)
    asked = read(D, E, pairs)
    count = asked.D.dim if n_projections is None else as_positive_int(n_projections, "n_projections")
    seed = int(check_random_state(random_state).randint(2**31))
    return run(asked, FreshDirections(merged_points(asked.both), count, seed, asked.column_start), "SW", **common)


class FreshDirections(Solver):
    """Prepared once from merged points; then solves tiles of pairs, each along its own directions."""

    def __init__(self, points: MergedPoints, n_projections: int, seed: int, column_start: int = 0) -> None:
        self._points, self._count, self._seed, self._column_start = points, n_projections, seed, column_start
        self._sizes = points.sizes
        self.info: dict[str, Any] = sliced_info("sliced, fresh directions for every pair", n_projections)

    def pairs_per_tile(self, memory: int) -> int:
        n = 2.0 * float(self._sizes.mean())
        used = 2.0 * float(np.diff(self._points.used_offsets).mean())
        seconds = 1e-6 + self._count * (1e-8 * used + 1e-10 * n * used + 1e-9 * n * np.log2(n))
        return int(np.clip(min(TILE_SECONDS / seconds, memory / 64), 1, 2**14))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        columns = columns + self._column_start
        values = np.zeros(len(rows))
        most = int(self._sizes[rows].max() + self._sizes[columns].max())
        tile = Tile(n=len(rows), rows=rows, columns=columns, values=values, stop=stop)
        solve_fresh(self._points, tile, self._count, self._seed, most)
        return all_ended(Status.OPTIMAL, values * (self._points.unit / self._count))
