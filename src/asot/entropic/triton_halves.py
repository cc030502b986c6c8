# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
"""The fused Sinkhorn kernel in half-precision parts: half of the work of TF32, where max C/ε is moderate.

A float16 has the 11 bits of TF32, and tensor cores multiply it twice as fast, but its exponent ends early. So a number
is split into a leading part and a trailing one, stored 2¹¹ times as large. K is multiplied by `MATRIX_SCALE`, and
a row of scalings by a power of two of its own, such that its largest entry is near the end of the range.
`asot.entropic.halves` says what that is good for.

Powers of two of rows need not be taken back: a row of u that is s times too large gives a v that is s times too small.
The sum of the mixed products is divided by 2¹¹ before leading · leading is added to it, so one accumulator is enough.

*Registers are scarce.* Scalings and sums fill them, so masses are read again in every update: they lie in the
first-level cache. What one product leaves is in the order that the next one needs. As in `asot.entropic.triton_pieces`,
scalings and kernel matrix are cut in two pieces, WIDE and REST columns, so that 150 anchors are padded to 160. Other
names are those of `asot.entropic.triton_kernel`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from asot.entropic.halves import LOW_SCALE, MATRIX_SCALE
from asot.entropic.triton_kernel import (
    COUNTS,
    FIRST_LOOK,
    FIXED_ITERATIONS,
    LOOK_EVERY,
    judge,
    keep,
    pair_at,
    quotient,
    total_of,
    weighted_logs,
)
from asot.entropic.triton_pieces import blocks_of, read

LOW, LOW_INVERSE, FACTOR = tl.constexpr(LOW_SCALE), tl.constexpr(1 / LOW_SCALE), tl.constexpr(MATRIX_SCALE)


@triton.jit
def _masses(base, FIRST: tl.constexpr, WIDTH: tl.constexpr, FAST: tl.constexpr):
    """Masses (pairs, WIDTH) from ``base`` (pairs, 1), each read by the thread that needs it, two at a time."""
    if not FAST:
        return tl.load(base + FIRST + tl.arange(0, WIDTH)[None, :])
    two = base.to(tl.pointer_type(tl.int64)) + FIRST // 2 + tl.arange(0, WIDTH // 2)[None, :]
    words = tl.inline_asm_elementwise("ld.global.b64 $0, [$1];", "=l,l", [two], dtype=tl.int64, is_pure=False, pack=1)
    even, odd = words.to(tl.int32), (words >> 32).to(tl.int32)
    return tl.reshape(tl.join(even, odd), (base.shape[0], WIDTH)).to(tl.float32, bitcast=True)


@triton.jit
def _scale(x, y):
    """For each row (x, y), the power of two that brings its largest entry to between 2¹⁴ and 2¹⁵."""
    largest = tl.maximum(tl.max(x, axis=1), tl.max(y, axis=1))
    exponent = largest.to(tl.int32, bitcast=True) >> 23
    return (tl.minimum(tl.maximum(268 - exponent, 1), 254) << 23).to(tl.float32, bitcast=True)


@triton.jit
def _parts(x, scale):
    x = x * scale[:, None]
    high = x.to(tl.float16)
    return high, ((x - high.to(tl.float32)) * LOW).to(tl.float16)


@triton.jit
def _products(x, y, high, low):
    """The row (x, y) times a symmetric matrix, in its two pieces, and the power of two that is left in them."""
    scale = _scale(x, y)
    x_high, x_low = _parts(x, scale)
    y_high, y_low = _parts(y, scale)
    wide = tl.dot(x_low, high[0])
    rest = tl.dot(x_low, high[1])
    wide = tl.dot(y_low, high[2], wide)
    rest = tl.dot(y_low, high[3], rest)
    wide = tl.dot(x_high, low[0], wide)
    rest = tl.dot(x_high, low[1], rest)
    wide = tl.dot(y_high, low[2], wide) * LOW_INVERSE
    rest = tl.dot(y_high, low[3], rest) * LOW_INVERSE
    wide = tl.dot(x_high, high[0], wide)
    rest = tl.dot(x_high, high[1], rest)
    wide = tl.dot(y_high, high[2], wide)
    rest = tl.dot(y_high, high[3], rest)
    return wide, rest, scale


@triton.jit(do_not_specialize=COUNTS)
def halves_kernel(
    A, B, kernel_high, kernel_low, _rows_high, _rows_low, costs_high, costs_low, numbers, listed,
    values, statuses, iterations, errors,
    start: tl.int64, count: tl.int64, n_rows: tl.int64, n_columns: tl.int64,
    n_anchors: tl.int32, max_iter: tl.int32, patience: tl.int32, kind: tl.int32, at_target: tl.int32, zero: tl.int32,
    PAIRS: tl.constexpr, K: tl.constexpr, WIDE: tl.constexpr, REST: tl.constexpr, MODE: tl.constexpr,
    JUDGED: tl.constexpr, REGULARIZED: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """One block of PAIRS pairs. ``zero`` is 0: an address that contains it is read again in every round."""
    t = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    waiting = t < count
    t = tl.minimum(t, count - 1)  # the last block is filled up with its last pair
    i, j = pair_at(start, t, n_rows, n_columns, listed, kind)
    wide = tl.arange(0, WIDE)[None, :]
    rest = WIDE + tl.arange(0, REST)[None, :]
    a = A + i[:, None] * K
    b = B + j[:, None] * K
    v = (wide < n_anchors).to(tl.float32) + tl.zeros((PAIRS, 1), tl.float32)
    w = (rest < n_anchors).to(tl.float32) + tl.zeros((PAIRS, 1), tl.float32)
    if at_target != 0:
        v = tl.load(b + wide)
        w = tl.load(b + rest)
    previous = tl.full((PAIRS,), float("inf"), tl.float64)
    PRICED: tl.constexpr = JUDGED or not REGULARIZED
    done = 0
    while done < max_iter:
        steps = max_iter
        if JUDGED:
            steps = tl.minimum(tl.where(done < LOOK_EVERY, FIRST_LOOK, LOOK_EVERY), max_iter - done)
        high = read(blocks_of(kernel_high + done * zero, K, WIDE, REST))
        low = read(blocks_of(kernel_low + done * zero, K, WIDE, REST))
        u = v
        r = w
        left = tl.zeros((PAIRS,), tl.float32)
        for _ in range(steps):
            sums, sums_rest, left = _products(v, w, high, low)
            u = quotient(_masses(a, 0, WIDE, FAST), sums, FAST)
            r = quotient(_masses(a, WIDE, REST, FAST), sums_rest, FAST)
            sums, sums_rest, left = _products(u, r, high, low)
            v = quotient(_masses(b, 0, WIDE, FAST), sums, FAST)
            w = quotient(_masses(b, WIDE, REST, FAST), sums_rest, FAST)
        done += steps
        sums, sums_rest, scale = _products(v, w, high, low)
        u *= (left / FACTOR)[:, None]  # whose largest entry is nearly 1 now
        r *= (left / FACTOR)[:, None]
        unscale = (1.0 / scale * FACTOR)[:, None]  # to these belong v and w times the factor of the matrix twice
        row_sums = u * (sums * unscale)
        row_sums_rest = r * (sums_rest * unscale)
        error = total_of(tl.abs(row_sums - tl.load(a + wide)), tl.abs(row_sums_rest - tl.load(a + rest)))
        value = tl.zeros((PAIRS,), tl.float64)
        if PRICED:
            costs = read(blocks_of(costs_high + done * zero, K, WIDE, REST))
            costs_rest = read(blocks_of(costs_low + done * zero, K, WIDE, REST))
            priced, priced_rest, scale = _products(v, w, costs, costs_rest)
            value = total_of(u * (priced * unscale), r * (priced_rest * unscale))
        leaving = waiting
        status = tl.full((PAIRS,), FIXED_ITERATIONS, tl.int32)
        if JUDGED:
            status, leaving = judge(value, error, previous, steps, done, max_iter, numbers, patience)
            leaving = leaving & waiting
            previous = error
        if REGULARIZED:
            value = weighted_logs(row_sums, u) + weighted_logs(row_sums_rest, r) - total_of(row_sums, row_sums_rest)
            value += weighted_logs(tl.load(b + wide), v * FACTOR * FACTOR)
            value += weighted_logs(tl.load(b + rest), w * FACTOR * FACTOR)
        keep(leaving, status, done, value, error, t, numbers, values, statuses, iterations, errors)
        waiting = waiting & (leaving == 0)
        if tl.max(waiting.to(tl.int32), axis=0) == 0:
            done = max_iter
