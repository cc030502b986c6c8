"""What an exact solve of points costs, in seconds of one reference core: one formula for the strategy of `pairwise`,
for searches, for the choice of a device, and for the size of tiles.

It counts what can be known before anything is solved: p sources and q sinks that are left after common mass is
canceled, and the coordinates in use (``width``). The constants were measured once; ``python -m benchmarks strategy``
and ``… documents`` show prices beside the clock. A choice by these prices is the same on every run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distinct import SparseHistograms
from asot.ground.metrics import CITYBLOCK, EUCLIDEAN

MICRO = 1e-6

SOLVE = 0.5
"""Microseconds of a pair with nothing to ship."""

LAY_OUT = 0.5
"""Microseconds to find out what a pair ships, where that is not known before."""

PRODUCT, DIFFERENCE, OTHER = 1e-4, 6e-4, 1e-3
"""Microseconds for one coordinate of one distance: a multiplication, a difference, anything else."""

IN_PLACE, GATHERED = 5e-4, 4e-3
"""Microseconds to read one coordinate of a point, where all of them are in use, and where some are."""

Counts = NDArray[np.float64] | float


def pair_seconds(p: Counts, q: Counts, width: Counts, *, each: float = PRODUCT, reading: Counts = IN_PLACE) -> Any:
    """Seconds of pairs that ship between p and q points in ``width`` coordinates."""
    return MICRO * (SOLVE + p * q * (0.0135 * (1 + (p + q) / 700) + each * width) + reading * (p + q) * width)


def table_seconds(p: Counts, q: Counts, n_points: int) -> Any:
    """The same, where distances are in a table of n points: a row of a large one is a page of memory by itself."""
    return pair_seconds(p, q, 0.0) + MICRO * 0.2 * p * min(1.0, n_points / 2000)


def any_cost_seconds(nodes: float, dim: int) -> float:
    """The same for so many sources and sinks together, where costs are powers, or mass may stay unmatched."""
    return MICRO * (1.0 + nodes**2 * (0.01 + 1e-4 * dim) + 5e-6 * nodes**3)


def line_seconds(p: Counts, q: Counts) -> Any:
    """Seconds of pairs on a line, by sorting."""
    return MICRO * (0.5 + 0.02 * (p + q))


def mean_seconds(histograms: SparseHistograms, dim: int, column_start: int = 0) -> float:
    """Seconds of a pair with as many points as distributions have on average, none of them shared."""
    offsets, n = histograms.offsets, len(histograms.offsets) - 1
    rows = float(offsets[column_start]) / column_start if column_start else float(offsets[n]) / n
    columns = float(offsets[n] - offsets[column_start]) / (n - column_start)
    return float(pair_seconds(rows, columns, dim)) + MICRO * LAY_OUT


def per_coordinate(code: int) -> float:
    """Microseconds that a distance under a metric takes for each coordinate."""
    if code == EUCLIDEAN:
        return PRODUCT
    return DIFFERENCE if code == CITYBLOCK else OTHER


# ------------------------------------------------------------------------------------------------ of histograms


def shared_cost_seconds(nodes: int) -> float:
    """Seconds of a pair of histograms under a shared cost, with so many sources and sinks at most."""
    return 4e-7 + 1e-9 * nodes**2 + 5e-12 * nodes**3


def sparse_rows_seconds(sources: float, sinks: float) -> float:
    """The same for rows with so many anchors, each solved by itself (`asot.exact.cancel_and_check`)."""
    both = sources * sinks
    return 6e-7 + 1.2e-8 * both + 2e-11 * both * min(sources, sinks)


def graph_seconds(k: int) -> float:
    """The same on the graph of a cost between k points (`asot.exact.graph_flow`)."""
    return 3e-8 * k**1.6


FINDING_A_GRAPH = 4e-9
"""Seconds for each of the k² costs that it takes to find a graph."""


def graph_pays(k: int, seconds: float, n_pairs: int) -> bool:
    """Whether pairs that take so many seconds with all arcs are worth a graph of k points, all of which count."""
    return n_pairs * (seconds - graph_seconds(k)) > FINDING_A_GRAPH * k**2
