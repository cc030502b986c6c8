"""eOT: entropic transport between the original distributions, pair by pair.

Each pair has its own cost and kernel. Nothing is shared, so a pair is one compiled call that keeps its kernel in the
cache for all of its iterations (``native/entropic/own_kernel.hpp``). Threads work on different pairs.

**Merged points.** Points that occur more than once in a distribution are merged before the iteration, which then does
the same on fewer points. Let columns j and j' be the same point. Their columns of K are equal, so KV depends on V only
through V_j + V_j'. And V_j = b_j / (KᵀU)_j, V_j' = b_j' / (KᵀU)_j' have the same denominator, so their sum is
(b_j + b_j') / (KᵀU)_j: what one point with both masses would have. This goes on from iteration to iteration if it is so
at the start, for which the merged point has to start at b_j + b_j' where V = B, and at 2, the number of points, where
V = 1. The same holds for rows. The value Σ U_i K_ij C_ij V_j and the marginal error are sums over such groups.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.baselines.arguments import read, run
from asot.data.distributions import Distributions
from asot.entropic.options import INITS, LOOK_EVERY, SinkhornOptions
from asot.native import Double, Doubles, Int, Record, Tile, entry
from asot.results.distances import Distances
from asot.run.executors import ProgressLike
from asot.run.protocols import TILE_SECONDS, Solution, Solver, Status
from asot.validation import as_choice, as_n_jobs, as_positive_int, as_tol
from asot_paper.baselines.checks import as_reg_of_points, refuse_large_pairs
from asot_paper.baselines.merged import MergedCollection, MergedPoints, merged_points


class EntropicRuns(
    Record, most_rows=Int, most_columns=Int, scale=Double, at_target=Int, max_iter=Int, look_every=Int, tol=Double,
    error=Doubles,
):  # fmt: skip
    """How the pairs of a tile are iterated (``native/baselines/eot.cpp``)."""


_solve_tile = entry("entropic_tile", MergedCollection, EntropicRuns, Tile)


def entropic(
    D: Distributions,
    E: Distributions | None = None,
    *,
    reg: float,
    pairs: ArrayLike | None = None,
    max_iter: int = 50,
    tol: float | None = None,
    init: str = "ones",
    device: str = "auto",
    n_jobs: int | None = None,
    memory: int | str | None = None,
    progress: ProgressLike = None,
) -> Distances:
    """Entropic transport (eOT) of every pair, by Sinkhorn's iteration on its own points, Euclidean cost.

    The value is ⟨T, C⟩ of the plan T that the iteration ends with. For every ε it is a number: where exp(-C/ε) or the
    scalings would leave the range of float64, a pair continues in logarithms, with the same number of iterations. An ε
    that float64 cannot resolve beside the distances, below 1e-8 of the largest, is refused.

    Parameters
    ----------
    D, E, pairs, n_jobs, memory, progress
        As in `asot.pairwise_exact`. Pairs (i, i) have a value that is not 0: the entropic plan is spread out.
    reg : float
        ε > 0, in the units of the distance.
    max_iter : int
        Number of iterations; their limit where `tol` is given.
    tol : float or None
        Marginal error, in total mass, at which a pair is finished. None runs exactly `max_iter` iterations.
    init : {"ones", "target"}
        Scaling of the columns before the first iteration: 1, or the masses of the second distribution, as in the
        paper's code. Matters only where iterations are few.
    device : {"auto", "cpu"}
        Always the CPU; `block_diagonal` of asot-paper runs the same iterations on a GPU.

    Returns
    -------
    Distances
        ``marginal_error``, ``n_iter`` and ``status`` (FIXED_ITERATIONS, CONVERGED or MAX_ITER) are per pair.

    Examples
    --------
    >>> from asot.baselines import entropic
    >>> r = entropic([[[0.0], [1.0]], [[1.0], [3.0]], [[2.0]]], reg=0.01)
    >>> r.values.round(6)
    array([1.5, 1.5, 1. ])
    """
    if device not in ("auto", "cpu"):
        raise ValueError(
            f"entropic runs on the CPU; found device={device!r}. block_diagonal runs the same iterations on a GPU"
        )
    asked = read(D, E, pairs)
    points = merged_points(asked.both)
    refuse_large_pairs(asked, points.sizes, BYTES_PER_ENTRY * as_n_jobs(n_jobs))
    options = SinkhornOptions(
        as_reg_of_points(reg, points.largest),
        as_positive_int(max_iter, "max_iter"),
        as_tol(tol),
        init=as_choice(init, "init", INITS),
    )
    solver = Entropic(points, options, column_start=asked.column_start)
    return run(asked, solver, "eOT", n_jobs=n_jobs, memory=memory, progress=progress)


BYTES_PER_ENTRY = 16
"""Of a pair's matrix, while it is solved: distances and kernel."""


class Entropic(Solver):
    """Prepared once from merged points; then solves tiles of pairs. ``column_start`` is added to column indices."""

    def __init__(self, points: MergedPoints, options: SinkhornOptions, *, column_start: int = 0) -> None:
        self._points, self._options, self._column_start = points, options, column_start
        self._sizes = points.sizes
        self.info = options.info("Sinkhorn, a kernel for each pair", "cpu", "float64") | {"init": options.init}

    def pairs_per_tile(self, memory: int) -> int:
        n = float(self._sizes.mean())
        options = self._options
        iterations = options.max_iter if options.tol is None else min(options.max_iter, 200)
        seconds = 3e-7 + n * n * (1e-8 + 2e-10 * iterations)
        return int(np.clip(min(TILE_SECONDS / seconds, memory / 64), 1, 2**14))

    def solve(self, rows: NDArray[np.int64], columns: NDArray[np.int64], stop: NDArray[np.int64]) -> Solution:
        options, columns, size = self._options, columns + self._column_start, len(rows)
        values, error, n_iter = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int32)
        most_rows, most_columns = int(self._sizes[rows].max()), int(self._sizes[columns].max())
        per_unit, tol = self._points.unit / options.reg, -1.0 if options.tol is None else options.tol
        runs = EntropicRuns(
            most_rows=most_rows, most_columns=most_columns, scale=per_unit, at_target=int(options.start_at_target),
            max_iter=options.max_iter, look_every=LOOK_EVERY, tol=tol, error=error,
        )  # fmt: skip
        tile = Tile(n=size, rows=rows, columns=columns, values=values, steps=n_iter, stop=stop)
        _solve_tile(self._points.record, runs, tile)
        status = np.full(size, Status.FIXED_ITERATIONS, dtype=np.int8)
        if options.tol is not None:
            status[:] = np.where(error <= options.tol, Status.CONVERGED, Status.MAX_ITER)
        return Solution(self._points.unit * values, status, n_iter, error)
