"""What the exact kernels of a GPU read, made once from the cost that all pairs share.

Both kernels work on a symmetric cost between nodes. A metric cost is that already: common mass is canceled, and a node
is a source of one pair and a sink of another. Any other cost, k × l, becomes the corner of a cost between k + l nodes,
the first k of them always sources and the others always sinks. Either way, the difference of two rows of masses
describes a pair completely.

The greedy start takes arcs in the order of their costs less each end's typical cost. The order does not depend
on the pair, so the arcs are sorted here, and every node gets the set of its arcs as a bitset over that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.native import Doubles, Int, Ints, Record, entry

OFFSET_WEIGHT = 1.1
"""Factor of a node's typical cost, its root mean square, in the order of the greedy start; fewest pivots near 1.1."""

LEAST_NODES = 2
NODE_STEPS = ((32, 1), (64, 2), (256, 8), (512, 16))
"""Up to so many nodes, their number is padded to a multiple of this, with nodes that never have mass: kernels are
compiled ahead for these numbers. The steps are so small that they cost no warps worth speaking of, and none crosses a
power of two, which costs are rounded by (`_cost_bits`)."""

MOST_LANES_NODES = 64
"""Beyond that, a warp takes a pair."""

LANES_MASS_BITS = 54
"""Masses of ``exact_lanes.cu`` share a word with the number of a node."""

WARP_MASS_BITS = 60

COARSE_BITS = 14
"""Of the 16 bits by which ``exact_lanes.cu`` prices arcs, those of a cost. Potentials may be a few times larger."""

MOST_LANES_WARPS, MOST_WARP_WARPS = 20, 24
"""Warps of a block, at most: more would have too few registers for ``exact_lanes.cu`` and for ``exact_warp.cu``."""

ENOUGH_WARPS = 8
"""A table moves to shared memory if this many warps remain."""


class NodeMasses(
    Record, n=Int, k=Int, histograms=Doubles, bits=Int, shift=Int, masses=Ints, first=Int, row_step=Int, step=Int
):
    """Histograms, and where their masses go (``native/exact/node_masses.cpp``)."""


_place_masses = entry("place_node_masses", NodeMasses)


@dataclass(frozen=True)
class NodeCost:
    """A cost between nodes (n, n), symmetric and zero on the diagonal, divided by 2^exponent to be at most 1."""

    unit: NDArray[np.float64]  # (n, n)
    exponent: int
    first_end: NDArray[np.int64]  # (arcs,) in the order in which the greedy start takes them
    second_end: NDArray[np.int64]  # (arcs,)
    most_arcs: int
    """Arcs that a cost of as many nodes may have."""

    @property
    def n_nodes(self) -> int:
        return len(self.unit)


def node_cost(cost: NDArray[np.float64], *, cancel: bool) -> NodeCost:
    """Prepare a finite cost (k, l) ≥ 0; with ``cancel`` it must be a metric."""
    k, l = cost.shape
    exponent = int(np.frexp(cost.max())[1])
    scaled = np.ldexp(cost, -exponent)
    if cancel:
        first_end, second_end = np.triu_indices(k, 1)
        corner = 0
    else:
        first_end, second_end = np.divmod(np.arange(k * l), l)
        corner = k
    typical = [np.sqrt((scaled**2).mean(axis=axis, keepdims=True)) for axis in (1, 0)]  # (k, 1), (1, l)
    shifted = scaled - OFFSET_WEIGHT * (typical[0] + typical[1])
    order = np.argsort(shifted[first_end, second_end], kind="stable")
    n = padded_nodes(k + (0 if cancel else l))
    unit = np.zeros((n, n))
    unit[:k, corner : corner + l] = scaled
    if not cancel:
        unit[corner : corner + l, :k] = scaled.T
    most_arcs = n * (n - 1) // 2 if cancel else k * l
    return NodeCost(unit, exponent, first_end[order], second_end[order] + corner, most_arcs)


def padded_nodes(n: int) -> int:
    """The number of nodes that a kernel works with."""
    step = next((step for most, step in NODE_STEPS if n <= most), 1)
    return max(LEAST_NODES, -(-n // step) * step)


def compiled_plans() -> Iterator[KernelPlan]:
    """Plans of kernels that are compiled ahead: those of a metric cost of any number of nodes."""
    for n in range(LEAST_NODES, NODE_STEPS[-1][0] + 1):
        if n == padded_nodes(n):
            cost = node_cost(np.ones((n, n)), cancel=True)
            yield lanes_plan(cost) if n <= MOST_LANES_NODES else warp_plan(cost)


def node_masses(histograms: NDArray[np.float64], plan: KernelPlan, first: int) -> NDArray[np.int64]:
    """Histograms (N, k) of total 1 to masses (nodes, N) or (N, nodes), from node ``first`` on, of total 2^mass_bits.

    The largest entry absorbs the rounding.
    """
    shape = (plan.n_nodes, len(histograms)) if plan.nodes_first else (len(histograms), plan.n_nodes)
    masses = np.zeros(shape, dtype=np.int64)
    n, k = histograms.shape
    step, row_step = (n, 1) if plan.nodes_first else (1, plan.n_nodes)
    _place_masses(
        NodeMasses(
            n=n, k=k, histograms=np.ascontiguousarray(histograms, dtype=np.float64), bits=plan.mass_bits,
            shift=plan.mass_shift, masses=masses, first=first * step, row_step=row_step, step=step,
        )
    )  # fmt: skip
    return masses


def integer_cost(cost: NodeCost, bits: int) -> NDArray[np.int64]:
    """Costs (n, n) as int64, the largest at most 2^bits."""
    return np.rint(np.ldexp(cost.unit, bits)).astype(np.int64)


def words_of(integers: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """High and low 32-bit words."""
    return (integers >> 32).astype(np.uint32), integers.astype(np.uint32)


def coarse_costs(cost: NodeCost, bits: int, lanes: int) -> NDArray[np.uint32]:
    """The upper bits of integer costs less 2^COARSE_BITS, two columns to a word: (n, stride) words, flat.

    A lane has ⌈n / lanes⌉ columns, from a new word on; the stride is odd.
    """
    n = cost.n_nodes
    columns = -(-n // lanes)
    words = -(-columns // 2)
    halves = np.zeros((n, 2 * ((lanes * words) | 1)), dtype=np.int16)
    coarse = (integer_cost(cost, bits) >> (bits - COARSE_BITS)) - (1 << COARSE_BITS)
    for lane in range(lanes):
        part = coarse[:, lane * columns : (lane + 1) * columns]
        halves[:, 2 * words * lane : 2 * words * lane + part.shape[1]] = part
    return halves.view(np.uint32).ravel()


def arc_masks(cost: NodeCost, n_words: int) -> NDArray[np.uint32]:
    """The arcs of every node, (n, n_words): bit t of the words is set where the node is an end of arc t."""
    at = np.tile(np.arange(len(cost.first_end)), 2)
    word = np.concatenate([cost.first_end, cost.second_end]) * n_words + at // 32
    masks = np.bincount(word, weights=2.0 ** (at % 32), minlength=cost.n_nodes * n_words)  # sums of different bits
    return masks.astype(np.uint32).reshape(cost.n_nodes, n_words)


class Launch(NamedTuple):
    """How a kernel is compiled and launched on a GPU: one block for each of its multiprocessors."""

    threads: int
    shared_bytes: int
    defines: dict[str, int]


@dataclass(frozen=True)
class KernelPlan:
    """A kernel with what it reads, ready for any GPU."""

    name: str
    defines: dict[str, int]
    mass_bits: int
    mass_shift: int
    """Masses are handed over shifted left by this."""
    nodes_first: bool
    """Masses are (nodes, N), so that neighboring pairs read neighbors; or (N, nodes), since a warp reads them all."""
    tables: tuple[NDArray[Any] | np.int32, ...]
    """Arguments that follow the pairs: arrays, and numbers."""
    table_bytes: int
    """Shared memory of a block for tables."""
    needs_table: bool
    """Whether the tables must lie in shared memory."""
    warp_bytes: int
    """Shared memory of a warp."""
    most_warps: int

    @property
    def n_nodes(self) -> int:
        return self.defines["NODES"]

    def fits(self, shared_memory: int) -> bool:
        """Whether a block can have a warp, given the bytes of shared memory that a block may have."""
        return (self.table_bytes if self.needs_table else 0) + self.warp_bytes <= shared_memory

    def geometry(self, shared_memory: int) -> Launch:
        """As many warps as fit."""
        near = self.needs_table or shared_memory - self.table_bytes >= ENOUGH_WARPS * self.warp_bytes
        table_bytes = self.table_bytes if near else 0
        warps = min(self.most_warps, (shared_memory - table_bytes) // self.warp_bytes)
        defines = self.defines | {"TABLE_BYTES": table_bytes, "WARP_BYTES": self.warp_bytes, "THREADS": 32 * warps}
        return Launch(32 * warps, table_bytes + warps * self.warp_bytes, defines)


def lanes_plan(cost: NodeCost) -> KernelPlan:
    """``exact_lanes.cu``: one pair per lane, or per two lanes beyond 32 nodes; at most 64 nodes."""
    n = cost.n_nodes
    lanes = 1 if n <= 32 else 2
    words = -(-cost.most_arcs // 32) or 1
    # Up to 512 arcs stay in the registers of one lane; beyond that they come in portions of 256.
    words_per_lane = -(-(words if words <= 16 else 8) // lanes)
    chunks = -(-words // (lanes * words_per_lane))
    all_words = chunks * lanes * words_per_lane
    columns = -(-n // lanes)
    stride = (lanes * columns) | 1  # odd: rows begin in different banks
    cost_bits = _cost_bits(n)
    high, low = (_padded(words, stride) for words in words_of(integer_cost(cost, cost_bits)))
    masks = _padded(arc_masks(cost, all_words), all_words | 1)
    ends = np.zeros(32 * all_words, dtype=np.uint16)
    ends[: len(cost.first_end)] = cost.first_end | (cost.second_end << 8)
    near = [high.ravel(), coarse_costs(cost, cost_bits, lanes), masks.ravel(), ends.view(np.uint32)]
    if lanes == 1:
        near = [cost.unit.view(np.uint32).ravel(), near[0], low.ravel(), *near[1:]]
    table = np.concatenate([*near, np.zeros(-sum(map(len, near)) % 4, np.uint32)])
    places = lanes * columns
    pair_bytes = 16 * places + (0 if lanes == 1 else 8 * (n // 2))
    return KernelPlan(
        name="exact_lanes",
        defines={
            "NODES": n,
            "LANES": lanes,
            "ARC_WORDS": words_per_lane,
            "ARC_CHUNKS": chunks,
            "MASS_BITS": LANES_MASS_BITS,
            "COST_BITS": cost_bits,
            "COARSE_BITS": COARSE_BITS,
        },
        mass_bits=LANES_MASS_BITS,
        mass_shift=8,
        nodes_first=True,
        tables=(table, low),
        table_bytes=table.nbytes,
        needs_table=True,
        warp_bytes=32 // lanes * pair_bytes,
        most_warps=MOST_LANES_WARPS,
    )


def warp_plan(cost: NodeCost) -> KernelPlan:
    """``exact_warp.cu``: one pair per warp; 33 to 512 nodes."""
    n = cost.n_nodes
    chunks = -(-len(cost.first_end) // 1024)
    cost_bits = _cost_bits(n)
    high, low = words_of(integer_cost(cost, cost_bits))
    near = np.concatenate([high.ravel(), np.zeros(32 + -n * n % 4, np.uint32)])  # lanes read beyond the last row
    ends = np.zeros(1024 * chunks, dtype=np.uint32)
    ends[: len(cost.first_end)] = cost.first_end | (cost.second_end << 16)
    words = -(-n // 32) | 1  # of a subtree; odd, so that they begin in different banks
    row_potential_at = 8 * n + -(-4 * words * n // 8) * 8
    warp_bytes = row_potential_at + 8 * (n // 2) + 2 * n + 2 * (n // 2)
    return KernelPlan(
        name="exact_warp",
        defines={"NODES": n, "MASS_BITS": WARP_MASS_BITS, "COST_BITS": cost_bits},
        mass_bits=WARP_MASS_BITS,
        mass_shift=0,
        nodes_first=False,
        tables=(near.view(np.int32), low, arc_masks(cost, 32 * chunks), ends, np.int32(chunks)),
        table_bytes=near.nbytes,
        needs_table=False,
        warp_bytes=-(-warp_bytes // 16) * 16,
        most_warps=MOST_WARP_WARPS,
    )


def _cost_bits(n_nodes: int) -> int:
    """Bits of a cost: a potential is a sum along a path of fewer than n arcs and must stay below 2^60."""
    return 60 - max(5, (n_nodes - 1).bit_length())


def _padded(words: NDArray[np.uint32], stride: int) -> NDArray[np.uint32]:
    """Rows (n, w) filled up with zeros to (n, stride)."""
    return np.pad(words, ((0, 0), (0, stride - words.shape[1])))
