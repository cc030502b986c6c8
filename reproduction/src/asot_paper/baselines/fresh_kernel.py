"""One-dimensional transport along directions that every pair draws for itself, compiled.

The random numbers of a pair depend on the seed and on the two indices, and on nothing else: not on threads, tiles or
other pairs. Directions are made, projected on and sorted eight at a time, one in each lane of a vector.

A direction is a vector of normal numbers, divided by its length. Of those numbers a pair needs the ones in coordinates
where some point of it is not 0. The squares of all others enter the length, and their sum is drawn at once, as one
number of the χ² distribution: the directions have the law they should have, for a fraction of the work.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.baselines.lane_sort import bits_for, make_keys, sort_lanes
from asot.entropic.own_kernel import padded
from asot.exact.points import merge_used
from asot.jit.compiled import at, compiled, inlined, reordered
from asot.jit.lanes import LANES


@inlined
def _mixed(z):  # type: ignore[no-untyped-def]
    """The output function of SplitMix64: scatters the bits of a counter."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
def _uniform(state):  # type: ignore[no-untyped-def]
    """In [0, 1); advances the state."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return np.float64(_mixed(state[0]) >> np.uint64(11)) * 2.0**-53


@inlined
def _begin_stream(state, seed, a, b):  # type: ignore[no-untyped-def]
    """The random numbers of the pair (a, b)."""
    key = _mixed(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    key = _mixed(key ^ (np.uint64(a) + np.uint64(0xD1B54A32D192ED03)))
    state[0] = _mixed(key ^ (np.uint64(b) + np.uint64(0x8CB92BA72F3D8DD7)))


@inlined
def _two_normals(state):  # type: ignore[no-untyped-def]
    """Two independent standard normal numbers (Marsaglia's polar method)."""
    while True:
        p = 2.0 * _uniform(state) - 1.0
        q = 2.0 * _uniform(state) - 1.0
        s = p * p + q * q
        if 0.0 < s < 1.0:
            factor = np.sqrt(-2.0 * np.log(s) / s)
            return p * factor, q * factor


@inlined
def _chi_square(state, k):  # type: ignore[no-untyped-def]
    """The sum of k squares of standard normal numbers (Marsaglia and Tsang's method for the gamma distribution)."""
    if k == 0:
        return 0.0
    if k == 1:
        p, _ = _two_normals(state)
        return p * p
    d = 0.5 * k - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    while True:
        p, _ = _two_normals(state)
        root = 1.0 + c * p
        if root > 0.0:
            cube = root * root * root
            if np.log(1.0 - _uniform(state)) < 0.5 * p * p + d * (1.0 - cube + np.log(cube)):
                return 2.0 * d * cube


@inlined
def _draw_directions(state, used, dim, directions):  # type: ignore[no-untyped-def]
    """Eight directions in ``dim`` dimensions, restricted to ``used`` of them: (used, LANES), flat."""
    for lane in range(LANES):
        square = _chi_square(state, dim - used)
        for c in range(0, used, 2):
            p, q = _two_normals(state)
            directions[c * LANES + lane] = p
            square += p * p
            if c + 1 < used:
                directions[(c + 1) * LANES + lane] = q
                square += q * q
        scale = 1.0 / np.sqrt(square)
        for c in range(used):
            directions[c * LANES + lane] *= scale


@compiled
def directions_of_pair(seed, a, b, used, dim, count):  # type: ignore[no-untyped-def]
    """The first ``count`` directions (used, count) of the pair (a, b) with that many used coordinates."""
    state = np.empty(1, np.uint64)
    _begin_stream(state, seed, a, b)
    drawn = np.empty((used, padded(count, LANES)))
    eight = np.empty(used * LANES)
    for first in range(0, count, LANES):
        _draw_directions(state, used, dim, eight)
        drawn[:, first : first + LANES] = eight.reshape(used, LANES)
    return drawn[:, :count]


@reordered
def _project(packed, start, first, last, used, place, directions, projected):  # type: ignore[no-untyped-def]
    """Projections of a distribution on eight directions, into the rows first..last-1 of projected, flat."""
    for i in range(last - first):
        o = (first + i) * LANES
        for lane in range(LANES):
            projected[at(o, lane)] = 0.0
        for c in range(used):
            x = packed[start + i * used + c]
            if x != 0.0:
                direction = place[c] * LANES
                for lane in range(LANES):
                    projected[at(o, lane)] += x * directions[at(direction, lane)]


@inlined
def _put_in_order(work, n, place_bits):  # type: ignore[no-untyped-def]
    """Points and signed masses in the order of each lane."""
    make_keys(work.projected, n, place_bits, work.grid, work.grid_bits, work.keys)
    sort_lanes(work.keys, 0, LANES, n)
    places = (1 << place_bits) - 1
    for k in range(n):
        for lane in range(LANES):
            o = k * LANES + lane
            i = work.keys[o] & places
            work.z[o] = work.projected[i * LANES + lane]
            work.weight[o] = work.signed[i]


@reordered
def _sum_of_gaps(z, weight, n, cumulative, lanes):  # type: ignore[no-untyped-def]
    """Σ |F - G| · gap over the first ``lanes`` lanes of sorted points z with signed masses, both (n, LANES), flat."""
    for lane in range(LANES):
        cumulative[lane] = 0.0
        cumulative[LANES + lane] = 0.0
    for k in range(n - 1):
        o = k * LANES
        for lane in range(LANES):
            cumulative[at(0, lane)] += weight[at(o, lane)]
            step = z[at(o + LANES, lane)] - z[at(o, lane)]
            cumulative[at(LANES, lane)] += abs(cumulative[at(0, lane)]) * step
    total = 0.0
    for lane in range(lanes):
        total += cumulative[LANES + lane]
    return total


class _Work(NamedTuple):
    """Memory of one thread for two distributions together: (points, LANES), flat, but for the masses."""

    projected: NDArray[np.float64]
    signed: NDArray[np.float64]  # (points,) masses, negative for the second distribution
    grid: NDArray[np.float64]
    grid_bits: NDArray[np.int64]  # the same memory
    keys: NDArray[np.int64]
    z: NDArray[np.float64]
    weight: NDArray[np.float64]
    sums: NDArray[np.float64]  # (2, LANES)


@inlined
def _make_work(most):  # type: ignore[no-untyped-def]
    size = most * LANES
    grid = np.empty(size)
    return _Work(
        np.empty(size), np.empty(most), grid, grid.view(np.int64), np.empty(size, np.int64), np.empty(size),
        np.empty(size), np.empty(2 * LANES),
    )  # fmt: skip


@compiled
def solve_fresh(points, rows, columns, n_projections, seed, most, values, stop):  # type: ignore[no-untyped-def]
    """Sum over fresh directions of W_1 of every pair, in units of ``points.unit``. ``most``: points of two together."""
    state = np.empty(1, np.uint64)
    place_a, place_b = np.empty(points.dim, np.int32), np.empty(points.dim, np.int32)
    directions = np.empty(points.dim * LANES)
    work = _make_work(most)
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        a = rows[t]
        b = columns[t]
        _begin_stream(state, seed, a, b)
        used = merge_used(points.used_offsets, points.used, a, b, place_a, place_b)
        used_a = points.used_offsets[a + 1] - points.used_offsets[a]
        used_b = points.used_offsets[b + 1] - points.used_offsets[b]
        n, both = _join_masses(points.offsets, points.masses, a, b, work.signed)
        place_bits = bits_for(both)
        total = 0.0
        for first in range(0, n_projections if used > 0 else 0, LANES):
            _draw_directions(state, used, points.dim, directions)
            _project(points.packed, points.packed_offsets[a], 0, n, used_a, place_a, directions, work.projected)
            _project(points.packed, points.packed_offsets[b], n, both, used_b, place_b, directions, work.projected)
            _put_in_order(work, both, place_bits)
            total += _sum_of_gaps(work.z, work.weight, both, work.sums, min(LANES, n_projections - first))
        values[t] = total


@inlined
def _join_masses(offsets, masses, a, b, signed):  # type: ignore[no-untyped-def]
    """Masses of a, then those of b with a minus; how many there are of a, and of both."""
    n = offsets[a + 1] - offsets[a]
    both = n + offsets[b + 1] - offsets[b]
    for i in range(n):
        signed[i] = masses[offsets[a] + i]
    for i in range(n, both):
        signed[i] = -masses[offsets[b] + i - n]
    return n, both
