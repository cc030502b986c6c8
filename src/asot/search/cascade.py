"""The cascade: bounds from cheap to expensive, each computed only if the ones before have not ruled out the pair.

It answers two questions. Which columns look nearest to a row (`nearest_by_bound`)? And which pairs can still be within
a limit (`pairs_within`)? Both are compiled loops over all pairs of some rows, in threads, and neither keeps a number
per pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.ground.metrics import Ground
from asot.run.executors import Stop, in_threads
from asot.run.pairs import tiles
from asot.search.kernels import BoundTables, NearestLists, PossiblePairs, nearest, search_limits, within_limits
from asot.search.projections import SHARES, WIDTH, Projections
from asot.search.sweep import NANO, Left, Shape

_ROWS = 16  # of a piece of work of one thread


@dataclass(frozen=True)
class DualPool:
    """Means of M potentials under every distribution, in the units of ``ground.points``.

    A bound computed from them in float32 is certain after ``bound · (1 - relative) - absolute``.
    """

    values: NDArray[np.float32]  # (N, M)
    relative: float
    absolute: float


def no_pool(n: int) -> DualPool:
    return DualPool(np.empty((n, 0), dtype=np.float32), 0.0, 0.0)


@dataclass(frozen=True)
class Cascade:
    """Everything that bounds the pairs of a collection from below; see `Look`."""

    ground: Ground
    projections: Projections
    pool: DualPool
    shape: Shape

    @property
    def unit(self) -> float:
        """Bounds are computed in this unit, so that no square leaves the range of its type."""
        return float(2.0**self.ground.exponent)

    @property
    def _has_projections(self) -> bool:
        return self.projections.fine.size > 0

    def _tables(self) -> BoundTables:
        p, pool = self.projections, self.pool
        sorted_means = {"coarse": p.coarse, "fine": p.fine, "mixed": p.mixed} if self._has_projections else {}
        return BoundTables(
            n=len(p.fine), tail=p.tail, pool=pool.values, n_groups=len(p.mixed), n_mixed=p.n_mixed,
            n_tail=p.tail.shape[1], n_pool=pool.values.shape[1], code=self.ground.code, order=self.ground.order,
            relative=p.relative, absolute=p.absolute, pool_relative=pool.relative, pool_absolute=pool.absolute,
            group_stride=len(p.fine) * SHARES * WIDTH, row_stride=SHARES * WIDTH, **sorted_means,
        )  # fmt: skip

    def nearest_by_bound(self, start: int, stop: int, count: int, n_jobs: int) -> tuple[Indices, Float]:
        columns, bounds = np.full((stop - start, count), -1), np.full((stop - start, count), np.inf)
        tables, lists = self._tables(), NearestLists(top=start, count=count, columns=columns, bounds=bounds)

        def piece(rows: tuple[int, int], raised: Stop) -> None:
            nearest(tables, search_limits(self.shape, raised), lists, self.shape.n_columns, *rows)

        in_threads(piece, tiles(stop, _ROWS, start), n_jobs)
        return columns, self.unit * bounds

    def pairs_within(self, start: int, stop: int, limits: Float, settled: Indices, n_jobs: int) -> Left:
        tables, scaled = self._tables(), limits / self.unit
        first, n_columns = start + 1 if self.shape.within else 0, self.shape.n_columns
        possible = np.empty((stop - start, max(0, n_columns - first)), dtype=np.bool_)
        out = PossiblePairs(start=start, first=first, n_columns=n_columns, possible=possible.view(np.int8))

        def piece(rows: tuple[int, int], raised: Stop) -> None:
            within_limits(tables, search_limits(self.shape, raised, scaled, settled), out, *rows)

        in_threads(piece, tiles(stop, _ROWS, start), n_jobs)
        rows, columns = np.nonzero(possible)
        return Left(rows + start, columns + first)

    def prices(self, doubted: float) -> tuple[float, float]:
        """The fine look is for the pairs that the coarse one leaves, about four fifths and half of them."""
        coarse, fine = 20.0, 0.5 * self.pool.values.shape[1]
        if self._has_projections:
            tail = 4.0 * self.projections.tail.shape[1]
            coarse, fine = coarse + tail, fine + (tail + 65.0 * (1 + len(self.projections.mixed)))
        return NANO * (coarse + 0.8 * fine), NANO * (coarse + 0.5 * fine)

    def from_one_end(self) -> Cascade:
        return replace(self, shape=self.shape._replace(within=False))
