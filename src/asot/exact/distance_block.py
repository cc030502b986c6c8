"""From a block of distances to a problem of the simplex, and from its flows back to a value.

Solvers that know distances only pair by pair fill ``Scratch.distance``; here they become integers with the offsets of
the greedy start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.exact.workspace import PAD, first_sink, stride_of
from asot.jit.compiled import at, called, inlined
from asot.jit.spans import doubles, integers, short_integers

OFFSET_WEIGHT = 1.05
"""Share of a node's mean distance that the greedy start subtracts; measured best between 0.95 and 1.2."""


class Scratch(NamedTuple):
    """Memory of one thread for the distances of a pair, in addition to the simplex's `Workspace`.

    In kernels all but the first of these arrays are spans (`asot.jit.spans`).
    """

    memory: NDArray[np.int64]  # what all others are parts of
    x: NDArray[np.float64]  # (p, width) sources, flat
    y: NDArray[np.float64]  # (width, stride) sinks, transposed, flat
    distance: NDArray[np.float64]  # (p, stride), flat
    distance_bits: NDArray[np.int64]  # the same memory
    column_sum: NDArray[np.float64]  # (stride,)
    demand: NDArray[np.float64]  # (stride,) masses of the sinks
    place_a: NDArray[np.int32]  # (dim,) place of each used coordinate of the first distribution in the union
    place_b: NDArray[np.int32]  # (dim,) and of the second
    largest: NDArray[np.float64]  # (1,)
    largest_bits: NDArray[np.int64]  # the same memory


@called
def make_scratch(most_sources, most_sinks, dim):  # type: ignore[no-untyped-def]
    stride = stride_of(most_sinks)
    even = most_sources + 1  # the distance kernel takes two rows at a time
    y = stride_of(even * (dim + 3))
    distance = y + (dim + 3) * stride
    sums = distance + even * stride
    places = sums + 2 * stride
    last = places + 2 * dim
    memory = np.empty(last + 1, np.int64)
    return Scratch(
        memory,
        doubles(memory, 0),
        doubles(memory, y),
        doubles(memory, distance),
        integers(memory, distance),
        doubles(memory, sums),
        doubles(memory, sums + stride),
        short_integers(memory, places),
        short_integers(memory, places + dim),
        doubles(memory, last),
        integers(memory, last),
    )


@inlined
def place_distances(ws, scratch, p, q, index_bits, cost_scale):  # type: ignore[no-untyped-def]
    """Integer costs of the block of distances, scaled by its largest one, and the offsets of the greedy start.

    A node's offset is its mean distance to the other side, weighted by mass: the first step of Sinkhorn's iteration
    in the limit of large ε, and the best of those tried: it leaves fewer pivots than plain means do.
    """
    stride = stride_of(q)
    # Distances are ≥ 0, so their bit patterns are ordered as they are, and an integer maximum vectorizes.
    largest = np.int64(0)
    for i in range(p):
        o = i * stride
        for j in range(q):
            bits = scratch.distance_bits[at(o, j)]
            largest = bits if bits > largest else largest
    scratch.largest_bits[0] = largest
    scale = cost_scale / scratch.largest[0] if largest > 0 else 0.0
    total = np.int64(0)
    for i in range(p):
        total += ws.supply[i]
    weight = OFFSET_WEIGHT * scale / total
    for j in range(stride):
        scratch.column_sum[j] = 0.0
        scratch.demand[j] = 0.0
    for j in range(q):
        scratch.demand[j] = ws.demand[j]
    for i in range(p):
        o = i * stride
        supply = np.float64(ws.supply[i])
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0  # four sums, since one would wait for itself
        for j in range(0, stride, 4):
            s0 += scratch.demand[at(j, 0)] * scratch.distance[at(o + j, 0)]
            s1 += scratch.demand[at(j, 1)] * scratch.distance[at(o + j, 1)]
            s2 += scratch.demand[at(j, 2)] * scratch.distance[at(o + j, 2)]
            s3 += scratch.demand[at(j, 3)] * scratch.distance[at(o + j, 3)]
        ws.row_offset[i] = np.int64(((s0 + s1) + (s2 + s3)) * weight) << index_bits
        for j in range(stride):
            scratch.column_sum[j] += supply * scratch.distance[at(o, j)]
        for j in range(q):
            ws.cost[at(o, j)] = (np.int64(scratch.distance[at(o, j)] * scale + 0.5) << index_bits) | j
        for j in range(q, stride):
            ws.cost[o + j] = PAD
    for j in range(q):
        ws.column_offset[j] = np.int64(scratch.column_sum[j] * weight) << index_bits


@inlined
def value_of_flows(ws, scratch, p, q):  # type: ignore[no-untyped-def]
    """What the flows of the optimal tree cost, in units of 2^-60 of the distances."""
    total = 0.0
    stride = stride_of(q)
    first = first_sink(p)
    for node in range(first + q):
        up = ws.parent[node]
        if up != node:
            arc = node * stride + up - first if node < p else up * stride + node - first
            total += ws.flow[node] * scratch.distance[arc]
    return total
