"""Exact optimal transport between many histograms under one shared cost, on an NVIDIA GPU (docs/method.md §8).

The same integer simplex as on the CPU, with one pair per lane of the GPU while a set of nodes fits into a machine word,
and one pair per warp beyond that. The host prepares integers and tables once (`asot.exact.cuda.tables`); the kernels
find the pairs of a tile by themselves, so that a tile costs one launch and nothing is copied but the answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices, Info
from asot.exact.cuda.tables import (
    MOST_LANES_NODES,
    KernelPlan,
    Launch,
    compiled_plans,
    lanes_plan,
    node_cost,
    node_masses,
    warp_plan,
)
from asot.exact.price import shared_cost_gpu_seconds
from asot.gpu import cupy
from asot.gpu.cuda import Variant, load
from asot.run.gpu_transfer import pair_arguments
from asot.run.pairs import PairSet
from asot.run.protocols import IN_FLOAT64, DeviceSolution, DeviceSolver, OnDevice, TilePlans, empty_on_device

MAX_NODES = 512
"""Largest number of nodes: anchors for a metric cost, sources and sinks together for any other."""

TILE_SECONDS = 0.02
BYTES_PER_PAIR = 32  # value, status, pivots; and two indices where pairs are listed
MOST_PAIRS, LEAST_PAIRS = 2**24, 2**12


def variants(shared_memory: int) -> Iterator[Variant]:
    """Kernels that are compiled ahead (`asot.gpu.cuda.Variant`)."""
    for plan in compiled_plans():
        if plan.fits(shared_memory):
            for trees in (0, 1):
                yield plan.name, plan.geometry(shared_memory).defines | {"TREES": trees}


class DeviceTrees(NamedTuple):
    """Optimal trees of the P pairs of a tile, one row per pair and one column per node; CuPy or NumPy arrays.

    For a metric cost a node is an anchor; otherwise the sources come first, and then the sinks.
    """

    flow: Any
    """(P, nodes) float64: mass on the arc between a node and its parent. It goes from the source to the sink."""
    parent: Any
    """(P, nodes) int16: a node's own number where it is the root or not in the tree."""
    potential: Any
    """(P, nodes) float64, in units of 2^exponent: source less sink is the cost of a tree arc. NaN outside the tree."""


class ExactCuda(DeviceSolver):
    """Prepared once from histograms and their cost; copies itself to GPUs.

    Parameters are those of `asot.exact.shared_cost.ExactSharedCost`, for costs of at most `MAX_NODES` nodes.
    """

    def __init__(self, A: Float, B: Float | None, cost: Float, *, cancel: bool) -> None:
        self._A, self._B = A, A if B is None else B
        self._cancel = cancel
        self._shape = cost.shape
        self._cost = node_cost(cost, cancel=cancel)
        self.unit = self._cost.unit
        self.exponent = self._cost.exponent
        self._follow(lanes_plan(self._cost) if self._cost.n_nodes <= MOST_LANES_NODES else warp_plan(self._cost))
        self.info: Info = {"solver": "network simplex", "common_mass_canceled": cancel, **IN_FLOAT64, "device": "cuda"}

    def pairs_per_tile(self, memory: int) -> int:
        seconds = shared_cost_gpu_seconds(self.plan.n_nodes, cancel=self._cancel)
        return int(np.clip(TILE_SECONDS / seconds, LEAST_PAIRS, max(1, min(MOST_PAIRS, memory // BYTES_PER_PAIR))))

    def on(self, device: int) -> ExactOnDevice:
        return ExactOnDevice(self, device)

    def geometry(self, shared_memory: int) -> Launch:
        """How to launch the kernel, given the bytes of shared memory that a block may have on a GPU.

        If they are too few for the planned kernel, the masses are laid out again for the other one.
        """
        if not self.plan.fits(shared_memory):
            self._follow(warp_plan(self._cost))
        return self.plan.geometry(shared_memory)

    def _follow(self, plan: KernelPlan) -> None:
        """Lay out the masses as a kernel expects."""
        self.plan = plan
        self.row_masses = self.column_masses = node_masses(self._A, plan, first=0)
        if self._B is not self._A or not self._cancel:
            self.column_masses = node_masses(self._B, plan, first=0 if self._cancel else self._shape[0])

    def plans_and_potentials(self, rows: Indices, columns: Indices, trees: DeviceTrees) -> TilePlans:
        """Plans and potentials of the pairs (rows[t], columns[t]) from their trees (NumPy arrays).

        Potentials are known on the tree; a c-transform carries them to all nodes and keeps them feasible.
        """
        k, l = self._shape
        first_sink = 0 if self._cancel else k
        cost = self.unit[:k, first_sink : first_sink + l]
        a, b = self._masses(self.row_masses, rows), self._masses(self.column_masses, columns)  # (P, nodes)
        level = np.where(a < b, trees.potential, np.inf)[:, first_sink : first_sink + l]  # of the sinks
        f = _least_sums(cost, level)
        f[(a == b).all(axis=1)] = 0.0
        g = -f if self._cancel else _least_sums(cost.T, -f)
        lowest = f.min(axis=1, keepdims=True)  # any constant may go from f to g; this one keeps both near 0

        node = np.broadcast_to(np.arange(a.shape[1]), a.shape)
        parent = trees.parent.astype(np.int64)
        mass, source, sink = trees.flow, np.where(a > b, node, parent), np.where(a > b, parent, node) - first_sink
        if self._cancel:
            stays = np.ldexp(np.minimum(a, b) >> self.plan.mass_shift, -self.plan.mass_bits)
            mass, source, sink = (np.hstack(both) for both in ((mass, stays), (source, node), (sink, node)))
        entry = np.nonzero(mass)
        return TilePlans(
            entry[0], source[entry], sink[entry], mass[entry],
            np.ldexp(f - lowest, self.exponent), np.ldexp(g + lowest, self.exponent),
        )  # fmt: skip

    def _masses(self, masses: NDArray[np.int64], which: NDArray[np.int64]) -> NDArray[np.int64]:
        """Masses (P, nodes) of the histograms named."""
        return masses[:, which].T if self.plan.nodes_first else masses[which]


def _least_sums(cost: Float, level: Float) -> Float:
    """min_j cost_ij + level_j for every row (P, l) of levels, (P, k); column by column, to stay small in memory."""
    least = np.full((len(level), len(cost)), np.inf)
    for j in range(cost.shape[1]):
        np.minimum(least, cost[:, j] + level[:, j, None], out=least)
    return least


class ExactOnDevice(OnDevice):
    """What all pairs share, on one GPU, with the kernel that solves them."""

    def __init__(self, host: ExactCuda, device: int) -> None:
        attributes = cupy.cuda.Device(device).attributes
        self._geometry = host.geometry(attributes["MaxSharedMemoryPerBlockOptin"])
        self._n_blocks = attributes["MultiProcessorCount"]
        self._plan = host.plan
        self._exponent = np.int32(host.exponent)
        self._row_masses = cupy.asarray(host.row_masses)
        same = host.column_masses is host.row_masses
        self._column_masses = self._row_masses if same else cupy.asarray(host.column_masses)
        tables = (*host.plan.tables, host.unit)
        self._tables = [table if isinstance(table, np.int32) else cupy.asarray(table) for table in tables]
        self._no_trees = _room_for_trees(1, 1)  # a placeholder if the kernel writes nothing

    def solve(self, pairs: PairSet, start: int, stop: int) -> DeviceSolution:
        return self._solve(pairs, start, stop, self._no_trees)

    def solve_with_trees(self, pairs: PairSet, start: int, stop: int) -> tuple[DeviceSolution, DeviceTrees]:
        """As `solve`, and the optimal trees, from which `ExactCuda.plans_and_potentials` reads what they say."""
        trees = _room_for_trees(stop - start, self._plan.n_nodes)
        return self._solve(pairs, start, stop, trees), trees

    def masses(self) -> tuple[Any, ...]:
        """Of rows and of columns: integer masses, and the strides between two nodes and between two histograms."""
        described: list[Any] = []
        for masses in (self._row_masses, self._column_masses):
            nodes_first, m = self._plan.nodes_first, masses.shape[1]
            described += [masses, np.int64(m if nodes_first else 1), np.int64(1 if nodes_first else m)]
        return tuple(described)

    def _solve(self, pairs: PairSet, start: int, stop: int, trees: DeviceTrees) -> DeviceSolution:
        count = stop - start
        threads, shared_bytes, defines = self._geometry
        defines = defines | {"TREES": int(trees is not self._no_trees)}
        function = load(self._plan.name, defines).get_function(self._plan.name)
        function.max_dynamic_shared_size_bytes = shared_bytes
        solution = empty_on_device(count)
        arguments = (
            self._row_masses, self._column_masses, *pair_arguments(pairs, start, stop), np.int64(start),
            np.int32(count), *self._tables, self._exponent, cupy.zeros(1, dtype=np.int32),
            solution.values, solution.status, solution.n_iter, *trees,
        )  # fmt: skip
        function((self._n_blocks,), (threads,), arguments, shared_mem=shared_bytes)
        return solution


def _room_for_trees(n_pairs: int, n_nodes: int) -> DeviceTrees:
    shape = (n_pairs, n_nodes)
    return DeviceTrees(cupy.empty(shape), cupy.empty(shape, dtype=np.int16), cupy.empty(shape))
