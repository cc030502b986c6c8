"""Exact optimal transport between many histograms under one shared cost (docs/method.md §8).

For a metric cost the mass that two histograms share on an anchor stays where it is, so only the differences are
shipped: p sources and q sinks with p + q ≤ k. For any other cost, and for histograms on two different sets of anchors,
all masses are shipped by the same simplex.

Floats become the integers of the simplex, and lose nothing that a float64 answer could show. Masses are int64 that sum
to exactly 2^60; a unit is 1e-18 of the total, below float64's own rounding. Costs are int64 with as many bits as the
longest path of a tree allows: 52 at ten anchors, 40 at two thousand. They only steer the simplex; values are summed
from the unrounded costs. So a basis that is optimal for the integers is optimal for the floats up to 2^-40 of the
largest cost. Costs that mean "never" do not count: pairs that use none of them are solved again without them
(``native/exact/digits.hpp``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.exact.price import PricedSolver, shared_cost_seconds
from asot.exact.workspace import LANES, MASS_BITS
from asot.native import Double, Doubles, Int, Ints, Record, ShortInts, Tile, entry, tile_of
from asot.results.plans import Transport
from asot.run.executors import alone
from asot.run.protocols import IN_FLOAT64, Solution, Status, TilePlans, all_ended, identity_of

OFFSET_WEIGHT = 0.85
"""Share of a node's mean cost that the greedy start subtracts; measured best between 0.7 and 1."""


def quantize_masses(histograms: Float) -> NDArray[np.int64]:
    """Rows (N, k) of total 1 to int64 rows that sum to exactly 2^60; the largest entry absorbs the rounding."""
    total = 1 << MASS_BITS
    masses = np.ascontiguousarray(np.rint(histograms * float(total)), dtype=np.int64)
    masses[np.arange(len(masses)), masses.argmax(axis=1)] += total - masses.sum(axis=1)
    return masses


def index_bits_for(n_sources: int, n_sinks: int) -> int:
    """Bits that hold a row or a (padded) column index of a cost block."""
    return max(4, int(max(n_sources, n_sinks) + LANES - 1).bit_length())


def cost_bits_for(index_bits: int) -> int:
    """Bits left for a cost: a potential is a sum along a path, and the column index sits below it."""
    return 62 - 2 * index_bits


class SharedCost(Record, k=Int, l=Int, integer=Ints, unit=Doubles, row_offset=Ints, column_offset=Ints, index_bits=Int):
    """A quantized cost (``native/exact/shared_cost.hpp``): ``unit`` holds the costs divided by a power of two, so that
    they are at most 1 and sums of them cannot overflow."""


def quantize_cost(cost: Float) -> tuple[SharedCost, int]:
    """Prepare a finite cost (k, l) ≥ 0, once for all pairs; also the exponent of the power that its units are of."""
    index_bits = index_bits_for(*cost.shape)
    exponent = int(np.frexp(cost.max())[1])
    unit = np.ldexp(np.ascontiguousarray(cost), -exponent)
    scale = 2.0 ** cost_bits_for(index_bits)

    def packed(values: Float) -> NDArray[np.int64]:
        return np.rint(values * scale).astype(np.int64) << index_bits

    row_offset, column_offset = (packed(OFFSET_WEIGHT * unit.mean(axis=axis)) for axis in (1, 0))
    return SharedCost(
        k=len(cost), l=cost.shape[1], integer=packed(unit), unit=unit, row_offset=row_offset,
        column_offset=column_offset, index_bits=index_bits,
    ), exponent  # fmt: skip


class Histograms(Record, A=Ints, B=Ints, cancel=Int):
    """Quantized masses (``native/exact/histograms.hpp``)."""


class TreesOut(
    Record, start=Ints, source=ShortInts, sink=ShortInts, mass=Ints, potential=Doubles, size=Double, more_size=Double
):
    """Where flows and potentials go (``native/exact/shared_cost.cpp``)."""


class PlansOut(Record, source=Ints, sink=Ints, mass=Ints, f=Doubles, g=Doubles):
    """Where plans and potentials go (``native/exact/shared_cost.cpp``)."""


_solve_tile = entry("shared_cost_tile", Histograms, SharedCost, Tile)
_solve_trees = entry("shared_cost_trees", Histograms, SharedCost, Tile, TreesOut)
_solve_plans = entry("shared_cost_plans", Histograms, SharedCost, Tile, PlansOut)


class ExactSharedCost(PricedSolver):
    """Prepared once from histograms and their cost; then solves tiles of pairs.

    Parameters
    ----------
    A : (N, k) float64, rows of total 1
    B : (M, l) float64 or None for pairs within A
    cost : (k, l) float64, finite and ≥ 0
    cancel : bool
        Cancel common mass. Only for a metric cost; see `asot.exact.cost_check`.
    """

    _most_pairs = 2**16

    def __init__(self, A: Float, B: Float | None, cost: Float, *, cancel: bool) -> None:
        self._cost, self._exponent = quantize_cost(cost)
        self._cancel = cancel
        self._A = quantize_masses(A)
        self._B = self._A if B is None else quantize_masses(B)
        self._histograms = Histograms(A=self._A, B=self._B, cancel=int(cancel))
        self._nodes = self.count_nodes(cost, cancel)
        self._seconds = shared_cost_seconds(self._nodes)
        self.info = describe(cancel)

    @staticmethod
    def count_nodes(cost: Float, cancel: bool) -> int:
        """The most sources and sinks that a pair can have."""
        return cost.shape[0] if cancel else sum(cost.shape)

    def identity(self) -> Identity:
        B = None if self._B is self._A else self._B
        cost = {"unit": self._cost.arrays()["unit"], "exponent": self._exponent}
        return identity_of("shared cost, 1", A=self._A, B=B, cost=cost, cancel=self._cancel)

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        tile, values, pivots = tile_of(rows, columns, stop)
        _solve_tile(self._histograms, self._cost, tile)
        status = np.full(len(rows), Status.OPTIMAL, dtype=np.int8)
        return Solution(np.ldexp(values, self._exponent - MASS_BITS), status, pivots)

    def solve_trees(self, rows: Indices, columns: Indices, stop: Indices) -> Trees:
        """Like `solve`, with the optimal flows and potentials of every pair. Only where common mass is canceled."""
        if not self._cancel:
            raise ValueError("trees only exist for metric costs, where common mass is canceled")
        n, k = len(rows), self._nodes
        tile, values, pivots = tile_of(rows, columns, stop)
        start = np.zeros(n + 1, dtype=np.int64)
        source, sink = np.empty(n * (k - 1), dtype=np.int32), np.empty(n * (k - 1), dtype=np.int32)
        mass, potential = np.empty(n * (k - 1), dtype=np.int64), np.empty((n, k))
        half = self._exponent // 2  # 2^exponent itself may be out of range
        out = TreesOut(
            start=start, source=source, sink=sink, mass=mass, potential=potential,
            size=2.0**half, more_size=2.0 ** (self._exponent - half),
        )  # fmt: skip
        _solve_trees(self._histograms, self._cost, tile, out)
        values = np.ldexp(values, self._exponent - MASS_BITS)
        return Trees(values, pivots, start, source, sink, mass, potential)

    def solve_plans(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        """Like `solve`, with plans and potentials. All masses are shipped, so it is slower."""
        n, k, l = len(rows), self._cost.k, self._cost.l
        tile, values, pivots = tile_of(rows, columns, stop)
        source, sink, mass = (np.zeros((n, k + l - 1), dtype=np.int64) for _ in range(3))
        f, g = np.zeros((n, k)), np.zeros((n, l))
        out = PlansOut(source=source, sink=sink, mass=mass, f=f, g=g)
        _solve_plans(self._histograms, self._cost, tile, out)
        values = np.ldexp(values, self._exponent - MASS_BITS)
        entry = np.nonzero(mass)
        plans = TilePlans(
            entry[0], source[entry], sink[entry], np.ldexp(mass[entry].astype(np.float64), -MASS_BITS),
            np.ldexp(f, self._exponent), np.ldexp(g, self._exponent),
        )  # fmt: skip
        return all_ended(Status.OPTIMAL, values, pivots, plans=plans)

    def bytes_per_tree(self) -> int:
        """Memory that `solve_trees` takes for each pair of its tile."""
        return 24 * self._nodes + 32


def describe(cancel: bool) -> Info:
    """For ``info`` of a result."""
    return {"solver": "network simplex", "common_mass_canceled": cancel, **IN_FLOAT64}


class AnchorPlans(
    Record, k=Int, start=Ints, source=ShortInts, sink=ShortInts, mass=Ints, potential=Doubles, scale=Double,
    more_scale=Double,
):  # fmt: skip
    """`Trees`, as what makes brackets and estimates of them sees them (``native/bounds/records.hpp``)."""


class Trees(NamedTuple):
    """The optimal flows and potentials of the P pairs of a tile, with common mass canceled.

    Pair t ships ``mass[start[t]:start[t + 1]]`` (in units of 2^-60) from anchors ``source`` to anchors ``sink``. What
    both histograms have on an anchor stays there and is not listed.
    """

    values: Float  # (P,)
    pivots: NDArray[np.int32]  # (P,)
    start: Indices  # (P + 1,)
    source: NDArray[np.int32]  # (arcs,)
    sink: NDArray[np.int32]  # (arcs,)
    mass: NDArray[np.int64]  # (arcs,)
    potential: Float  # (P, k) f, 1-Lipschitz for the cost: ⟨f, a⟩ - ⟨f, b⟩ is the value

    def at_unit(self, exponent: int) -> AnchorPlans:
        """The plans of the tile, with potentials in units of 2^exponent."""
        half = -exponent // 2  # 2^-exponent itself may be out of range
        k, scales = self.potential.shape[1], {"scale": 2.0**half, "more_scale": 2.0 ** (-exponent - half)}
        return AnchorPlans.of(self, k=k, **scales)


def solve_one(a: Float, b: Float, cost: Float) -> Transport:
    """Value, plan and potentials of one pair of histograms (k,) and (l,) of total 1, any cost ≥ 0."""
    from scipy import sparse

    one = np.zeros(1, dtype=np.int64)
    solver = ExactSharedCost(a[None], b[None], cost, cancel=False)
    found = alone(lambda stop: solver.solve_plans(one, one, stop), solver.expected_seconds(1))
    assert found.plans is not None
    _, source, sink, mass, f, g = found.plans
    return Transport(float(found.values[0]), sparse.csr_array((mass, (source, sink)), shape=cost.shape), (f[0], g[0]))
