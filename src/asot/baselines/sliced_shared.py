"""One-dimensional transport along directions that all pairs share, compiled: one quantile function minus the other.

On a line the best plan keeps the order: W_1 = ∫ |F⁻¹(q) - G⁻¹(q)| dq. With sorted points this is a walk through both
lists, of at most n + m steps.

Where all points of a distribution have the same mass, the walk is the same along every direction: only n and m decide
which ranks meet, and for how much mass. So it is done once for all directions, and a step compares two rows of sorted
points, one entry for each direction, in vector instructions.
"""

from __future__ import annotations

import numpy as np

from asot.baselines.lane_sort import bits_for, make_keys, ordered_bits, sort_lanes
from asot.jit.compiled import at, compiled, reordered
from asot.jit.lanes import LANES


@compiled
def sort_uniform(projected_bits, width, offsets, begin, end):  # type: ignore[no-untyped-def]
    """Sort every column of each of the distributions begin..end-1, in place.

    ``projected_bits``: projections (points, width), flat, seen as int64; ``width`` is a multiple of LANES.
    """
    for i in range(begin, end):
        first = offsets[i] * width
        n = offsets[i + 1] - offsets[i]
        ordered_bits(projected_bits, first, n * width)
        for c in range(0, width, LANES):
            sort_lanes(projected_bits, first + c, width, n)
        ordered_bits(projected_bits, first, n * width)


@compiled
def sort_weighted(projected, width, masses, offsets, begin, end, z, cumulative):  # type: ignore[no-untyped-def]
    """Sorted points z and the masses up to each of them, which end at exactly 1: both (directions, points).

    ``projected``: projections (points, width), flat; ``width`` is a multiple of LANES.
    """
    longest = np.max(np.diff(offsets))
    values = np.empty(longest * LANES)
    grid = np.empty(longest * LANES)
    keys = np.empty(longest * LANES, np.int64)
    for i in range(begin, end):
        first = offsets[i]
        n = offsets[i + 1] - first
        place_bits = bits_for(n)
        for c in range(0, width, LANES):
            for t in range(n):
                for lane in range(LANES):
                    values[t * LANES + lane] = projected[(first + t) * width + c + lane]
            make_keys(values, n, place_bits, grid, grid.view(np.int64), keys)
            sort_lanes(keys, 0, LANES, n)
            for lane in range(min(LANES, z.shape[0] - c)):
                total = 0.0
                for t in range(n):
                    place = keys[t * LANES + lane] & ((1 << place_bits) - 1)
                    total += masses[first + place]
                    z[c + lane, first + t] = values[place * LANES + lane]
                    cumulative[c + lane, first + t] = min(total, 1.0)
                cumulative[c + lane, first + n - 1] = 1.0


@reordered
def _gap(sorted_points, i, j, width):  # type: ignore[no-untyped-def]
    """Σ |x - y| over two rows."""
    x = i * width
    y = j * width
    total = 0.0
    for c in range(width):
        total += abs(sorted_points[at(x, c)] - sorted_points[at(y, c)])
    return total


@compiled
def solve_uniform(sorted_points, width, offsets, rows, columns, values, stop):  # type: ignore[no-untyped-def]
    """Sum over all directions of W_1, for distributions of equal masses: sorted_points (points, width), flat."""
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        x = offsets[rows[t]]
        y = offsets[columns[t]]
        n = offsets[rows[t] + 1] - x
        m = offsets[columns[t] + 1] - y
        # Masses in units of 1 / (n m): m for each point of the one, n for each point of the other.
        left_x = m
        left_y = n
        last = x + n
        total = 0.0
        while x < last:
            moved = min(left_x, left_y)
            total += moved * _gap(sorted_points, x, y, width)
            left_x -= moved
            left_y -= moved
            if left_x == 0:
                x += 1
                left_x = m
            if left_y == 0:
                y += 1
                left_y = n
        values[t] = total / (np.float64(n) * np.float64(m))


@compiled
def solve_weighted(z, cumulative, offsets, rows, columns, values, stop):  # type: ignore[no-untyped-def]
    """Sum over all directions of W_1, for any masses: z and cumulative are (directions, points)."""
    for t in range(len(rows)):
        if stop[0] != 0:
            return
        x_end = offsets[rows[t] + 1]
        y_end = offsets[columns[t] + 1]
        total = 0.0
        for c in range(z.shape[0]):
            point = z[c]
            mass = cumulative[c]
            x = offsets[rows[t]]
            y = offsets[columns[t]]
            before = 0.0
            while x < x_end and y < y_end:
                mass_x = mass[at(x, 0)]
                mass_y = mass[at(y, 0)]
                now = min(mass_x, mass_y)
                total += (now - before) * abs(point[at(x, 0)] - point[at(y, 0)])
                before = now
                x += mass_x <= now
                y += mass_y <= now
        values[t] = total
