# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
"""The fused Sinkhorn kernel for numbers of anchors a little above a power of two: 128 + 32 instead of 256.

A block of a Triton program has a power of two of columns. Here scalings and kernel matrix are cut in two pieces, WIDE
and REST columns, so that 150 anchors are padded to 160, and the matrix (200 KB in all its parts) fits into the shared
memory of a Hopper chip. Otherwise this is `asot.entropic.triton_kernel.resident_kernel` for symmetric costs: all
iterations of a block of pairs, scalings in registers, K in shared memory.

A look at the error needs the costs in shared memory too, where there is no room for them beside K: K is read again
after every look. Names are those of `asot.entropic.triton_kernel`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from asot.entropic.triton_kernel import (
    COUNTS,
    FIRST_LOOK,
    FIXED_ITERATIONS,
    LOOK_EVERY,
    block_of,
    judge,
    keep,
    multiply,
    pair_at,
    quotient,
    total_of,
    weighted_logs,
)


@triton.jit
def _in_order(x, PAIRS: tl.constexpr, WIDTH: tl.constexpr):
    """Columns in the order in which the rows of the matrices are stored (see `summation_order`)."""
    return tl.reshape(tl.permute(tl.reshape(x, (PAIRS, WIDTH // 8, 4, 2)), (0, 1, 3, 2)), (PAIRS, WIDTH))


@triton.jit
def blocks_of(matrix, K: tl.constexpr, WIDE: tl.constexpr, REST: tl.constexpr):
    """Pointers at the blocks of a matrix (K, K): wide × wide, wide × rest, rest × wide, rest × rest."""
    return (
        block_of(matrix, 0, 0, WIDE, WIDE, K),
        block_of(matrix, 0, WIDE, WIDE, REST, K),
        block_of(matrix, WIDE, 0, REST, WIDE, K),
        block_of(matrix, WIDE, WIDE, REST, REST, K),
    )


@triton.jit
def read(blocks):
    """The blocks themselves."""
    return tl.load(blocks[0]), tl.load(blocks[1]), tl.load(blocks[2]), tl.load(blocks[3])


@triton.jit
def _products(x, y, high, low, PAIRS: tl.constexpr, WIDE: tl.constexpr, REST: tl.constexpr, MODE: tl.constexpr):
    """The row (x, y) times a symmetric matrix, in its two pieces."""
    x = _in_order(x, PAIRS, WIDE)
    y = _in_order(y, PAIRS, REST)
    wide = multiply(x, high[0], low[0], None, MODE)
    rest = multiply(x, high[1], low[1], None, MODE)
    wide = multiply(y, high[2], low[2], wide, MODE)
    rest = multiply(y, high[3], low[3], rest, MODE)
    return wide, rest


@triton.jit
def _iterate(
    v, w, a, a_rest, b, b_rest, high, low, steps,
    PAIRS: tl.constexpr, WIDE: tl.constexpr, REST: tl.constexpr, MODE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Sinkhorn iterations on the scalings (v, w) of the columns; those of the rows (u, r) come with them."""
    u = a
    r = a_rest
    for _ in range(steps):
        sums, sums_rest = _products(v, w, high, low, PAIRS, WIDE, REST, MODE)
        u = quotient(a, sums, FAST)
        r = quotient(a_rest, sums_rest, FAST)
        sums, sums_rest = _products(u, r, high, low, PAIRS, WIDE, REST, MODE)
        v = quotient(b, sums, FAST)
        w = quotient(b_rest, sums_rest, FAST)
    return u, r, v, w


@triton.jit(do_not_specialize=COUNTS)
def pieces_kernel(
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
    a = tl.load(A + i[:, None] * K + wide)
    a_rest = tl.load(A + i[:, None] * K + rest)
    b = tl.load(B + j[:, None] * K + wide)
    b_rest = tl.load(B + j[:, None] * K + rest)
    v = tl.where(at_target != 0, b, (wide < n_anchors).to(b.dtype))
    w = tl.where(at_target != 0, b_rest, (rest < n_anchors).to(b.dtype))
    previous = tl.full((PAIRS,), float("inf"), tl.float64)
    PRICED: tl.constexpr = JUDGED or not REGULARIZED
    done = 0
    while done < max_iter:
        steps = max_iter
        if JUDGED:
            steps = tl.minimum(tl.where(done < LOOK_EVERY, FIRST_LOOK, LOOK_EVERY), max_iter - done)
        high = read(blocks_of(kernel_high + done * zero, K, WIDE, REST))
        low = read(blocks_of(kernel_low + done * zero, K, WIDE, REST))
        u, r, v, w = _iterate(v, w, a, a_rest, b, b_rest, high, low, steps, PAIRS, WIDE, REST, MODE, FAST)
        done += steps
        sums, sums_rest = _products(v, w, high, low, PAIRS, WIDE, REST, MODE)
        row_sums = u * sums
        row_sums_rest = r * sums_rest
        error = total_of(tl.abs(row_sums - a), tl.abs(row_sums_rest - a_rest))
        value = tl.zeros((PAIRS,), tl.float64)
        if PRICED:
            prices = read(blocks_of(costs_high + done * zero, K, WIDE, REST))
            prices_low = blocks_of(costs_low + done * zero, K, WIDE, REST)
            priced, priced_rest = _products(v, w, prices, prices_low, PAIRS, WIDE, REST, MODE)
            value = total_of(u * priced, r * priced_rest)
        leaving = waiting
        status = tl.full((PAIRS,), FIXED_ITERATIONS, tl.int32)
        if JUDGED:
            status, leaving = judge(value, error, previous, steps, done, max_iter, numbers, patience)
            leaving = leaving & waiting
            previous = error
        if REGULARIZED:
            value = weighted_logs(row_sums, u) + weighted_logs(row_sums_rest, r) - total_of(row_sums, row_sums_rest)
            value += weighted_logs(b, v) + weighted_logs(b_rest, w)
        keep(leaving, status, done, value, error, t, numbers, values, statuses, iterations, errors)
        waiting = waiting & (leaving == 0)
        if tl.max(waiting.to(tl.int32), axis=0) == 0:
            done = max_iter
