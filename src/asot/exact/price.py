"""What an exact solve of points costs, in seconds of one reference core, and on a GPU: one formula for the strategy of
`pairwise`, for searches, for the choice of a device, and for the size of tiles.

It counts what can be known before anything is solved: p sources and q sinks that are left after common mass is
canceled, and the coordinates in use (``width``). The constants were measured once; ``python -m benchmarks strategy``
and ``… documents`` show prices beside the clock. A choice by these prices is the same on every run.

A GPU is fast with many small pairs and slow with large ones, and a collection may have both. So where ``device="auto"``
may take one, pairs are counted by the sizes of their two distributions, and the best split is looked for: pairs up to
some size on the GPU, larger ones on the CPU. Nothing here needs a GPU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from asot._typing import Float, Indices
from asot.data.distinct import SparseHistograms
from asot.ground.metrics import CITYBLOCK, EUCLIDEAN
from asot.run.protocols import TILE_SECONDS, Solver

MICRO = 1e-6

SOLVE = 0.5
"""Microseconds of a pair with nothing to ship."""

LAY_OUT = 0.5
"""Microseconds to find out what a pair ships, where that is not known before."""

PRODUCT, DIFFERENCE, OTHER = 1e-4, 6e-4, 1e-3
"""Microseconds for one coordinate of one distance: a multiplication, a difference, anything else."""

IN_PLACE, GATHERED = 5e-4, 4e-3
"""Microseconds to read one coordinate of a point, where all of them are in use, and where some are."""

Counts = Float | float


def pair_seconds(p: Counts, q: Counts, width: Counts, *, each: float = PRODUCT, reading: Counts = IN_PLACE) -> Any:
    """Seconds of pairs that ship between p and q points in ``width`` coordinates."""
    return MICRO * (SOLVE + p * q * (0.0135 * (1 + (p + q) / 700) + each * width) + reading * (p + q) * width)


def laid_out_seconds(p: Counts, q: Counts, width: Counts) -> Any:
    """The same, where it has to be found out what they ship."""
    return pair_seconds(p, q, width) + MICRO * LAY_OUT


def table_seconds(p: Counts, q: Counts, n_points: int) -> Any:
    """The same, where distances are in a table of n points: a row of a large one is a page of memory by itself."""
    return pair_seconds(p, q, 0.0) + MICRO * 0.2 * p * min(1.0, n_points / 2000)


def saved_by_table(n_points: int, dim: int, n_pairs: int, size: float) -> float:
    """Seconds of one thread that a table of all distances between long points saves, less what it takes to make. Points
    of a pair are laid out for each pair, which is more of the work the fewer they are."""
    return 1e-9 * (n_pairs * size**2 * dim * (0.02 + 0.5 / size) - n_points**2 * (1.9 + 8.5e-3 * dim))


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
    return float(laid_out_seconds(rows, columns, dim))


def per_coordinate(code: int) -> float:
    """Microseconds that a distance under a metric takes for each coordinate."""
    if code == EUCLIDEAN:
        return PRODUCT
    return DIFFERENCE if code == CITYBLOCK else OTHER


class PricedSolver(Solver):
    """A solver that knows what its pairs cost, and cuts tiles by that."""

    _seconds: float
    """Of a pair, on one thread."""

    _most_pairs = 2**14
    """Of a tile."""

    def expected_seconds(self, n_pairs: int) -> float:
        return n_pairs * self._seconds

    def pairs_per_tile(self, memory: int) -> int:
        return int(max(1, min(TILE_SECONDS / self._seconds, memory / 64, self._most_pairs)))


# ------------------------------------------------------------------------------------------------ of histograms


def shared_cost_seconds(nodes: int) -> float:
    """Seconds of a pair of histograms under a shared cost, with so many sources and sinks at most."""
    return 4e-7 + 1e-9 * nodes**2 + 5e-12 * nodes**3


def sparse_rows_seconds(sources: float, sinks: float) -> float:
    """The same for rows with so many anchors, each solved by itself (`asot.exact.cancel_and_check`)."""
    both = sources * sinks
    return 6e-7 + 1.2e-8 * both + 2e-11 * both * min(sources, sinks)


def graph_seconds(k: int) -> float:
    """The same on the graph of a cost between k points (`asot.exact.graph_metric`). Between photos and digits of 400
    pixels, all arcs take 0.8 (where a step is a king's) to 1.4 of the time, and of 576 pixels 1.1 to 2.6; between noise
    they are faster."""
    return 3e-8 * k**1.6


FINDING_A_GRAPH = 4e-9
"""Seconds for each of the k² costs that it takes to find a graph."""


def graph_pays(k: int, seconds: float, n_pairs: int) -> bool:
    """Whether pairs that take so many seconds with all arcs are worth a graph of k points, all of which count."""
    return n_pairs * (seconds - graph_seconds(k)) > FINDING_A_GRAPH * k**2


# ------------------------------------------------------------------------------------------------ on a GPU

RATES = (
    (8, 1.1e8), (16, 5.5e7), (32, 2.7e7), (64, 3.5e6), (100, 8.3e5), (150, 4.3e5), (250, 1.55e5), (400, 5.8e4),
    (700, 1.5e4), (1000, 6e3), (1448, 1.6e3), (2048, 420.0),
)  # fmt: skip
"""Pairs per second of an H200, by the points of both distributions: `python -m benchmarks gpu_sizes` prints them. In
many dimensions they are lower, and so are those of the CPU."""

CALL_SECONDS, CALL_SECONDS_PER_POINT = 0.003, 2e-7
"""A call with a few pairs takes this long, and this for each pair of points of its largest distributions: however few
they are, one of them is solved by one part of the chip."""

THREADS_SECONDS = 0.01
"""What it costs to share a job among threads of the CPU."""

MOST_BINS = 16
"""Sizes of a collection that are told apart."""


class Split(NamedTuple):
    """How long a call takes, by the clock."""

    cpu: float
    """Seconds of all pairs on the CPU."""
    gpu: float
    """Seconds with a GPU that is awake and solves pairs of at most ``most_points``; the CPU solves the others."""
    most_points: int


def best_split(rows: Indices, columns: Indices, n_pairs: float, dim: int, jobs: int, most: int) -> Split:
    """The best use of a GPU for ``n_pairs`` between distributions of ``rows`` (N,) and ``columns`` (M,) points
    in ``dim`` coordinates, beside ``jobs`` threads; its kernels have room for ``most`` points on either side."""
    if n_pairs == 0:
        return Split(0.0, np.inf, most)
    first = _bins(rows)
    (n_rows, p, most_rows), (n_columns, q, most_columns) = first, first if columns is rows else _bins(columns)
    p, larger = p[:, None], np.maximum(most_rows[:, None], most_columns)
    weight = n_rows[:, None] * n_columns * (n_pairs / (len(rows) * len(columns)))  # pairs of each two sizes
    one_thread = weight * laid_out_seconds(p, q, dim)
    on_gpu = weight / gpu_rate(np.sqrt(p * q))
    all_on_cpu = threads_seconds(float(one_thread.sum()), jobs)
    best = Split(all_on_cpu, np.inf, 0)
    for bound in np.unique(larger[larger <= most]):
        taken = larger <= bound
        call = call_seconds(float(bound))
        rest = float(one_thread[~taken].sum())
        seconds = call + float(on_gpu[taken].sum()) + (threads_seconds(rest, jobs) if rest else 0.0)
        if seconds < best.gpu:
            best = Split(all_on_cpu, seconds, int(bound))
    return best


def call_seconds(size: float) -> float:
    """Seconds of a call on a GPU with few pairs, the largest of them with so many points on both sides."""
    return CALL_SECONDS + CALL_SECONDS_PER_POINT * size**2


def gpu_rate(size: Float) -> Float:
    """Pairs per second of pairs of so many points on both sides: between the measured sizes, and on in the same way."""
    known, rate = np.log(np.array(RATES)).T
    x = np.log(np.maximum(size, RATES[0][0]))
    beyond = np.maximum(x - known[-1], 0.0) * (rate[-1] - rate[-2]) / (known[-1] - known[-2])
    return np.exp(np.interp(x, known, rate) + beyond)


def shared_cost_gpu_seconds(nodes: int, *, cancel: bool) -> float:
    """Seconds of a pair of histograms under a shared cost (`asot.exact.cuda.solver`), of many; ``cancel``: a metric."""
    if nodes <= 32:
        seconds = 1.5e-12 * nodes**2
    else:
        seconds = (5e-14 if nodes <= 64 else 3e-14) * nodes**3
    return seconds if cancel else 4 * seconds  # all masses are shipped


def threads_seconds(one_thread: float, jobs: int) -> float:
    """Seconds of the clock of what takes so many on one core."""
    return min(one_thread, one_thread / jobs + THREADS_SECONDS)


def _bins(sizes: Indices) -> tuple[Float, Float, Indices]:
    """Distributions of about the same size: how many there are, their mean size, and the largest."""
    found, count = np.unique(sizes, return_counts=True)
    own = np.arange(len(found))
    if len(found) > MOST_BINS:
        edges = np.geomspace(found[0], found[-1], MOST_BINS + 1)[1:-1]
        own = np.unique(np.searchsorted(edges, found, side="right"), return_inverse=True)[1]
    total = np.bincount(own, count).astype(np.float64)
    last = np.flatnonzero(np.diff(own, append=own[-1] + 1))
    return total, np.bincount(own, count * found) / total, found[last]
