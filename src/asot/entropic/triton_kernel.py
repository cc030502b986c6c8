# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
"""The fused Sinkhorn kernels: a block of pairs from histograms to values, all iterations inside (docs/method.md §2).

`resident_kernel` is for up to 128 anchors. The scalings u and v of its pairs stay in registers and the kernel matrix
K = exp(-C/ε) stays in shared memory. `streamed_kernel` is for any number: scalings lie in memory that the second-level
cache holds, and an update is an ordinary blocked matrix product.

*Tensor cores in float32.* A number is split into a leading and a trailing part of 11 bits each, which TF32 holds, and a
product is three ("tf32x3"): leading · leading and the two mixed ones. K is split once, on the host. "tf32" takes the
leading parts only; "float64" needs no parts.

*No data moves between two products.* A matrix product leaves its result spread over the threads in one order and wants
its input in another. The sum over anchors may run in any order, so the resident kernel has K's rows in the order that
makes the two agree: the result of one product is the input of the next as it lies in registers.

Padded anchors have no mass and kernel entries of 1, so that nothing is ever divided by 0. Capitals are constants of a
compilation; K and L are the padded numbers of rows and columns. ``numbers`` holds ε, the tolerance, max C/ε, rounding
and noise, in float64.
"""

from __future__ import annotations

import triton
import triton.language as tl

from asot.entropic import options
from asot.run.protocols import OPEN as LEFT_OPEN
from asot.run.protocols import Status

FIRST_LOOK, LOOK_EVERY = tl.constexpr(options.FIRST_LOOK), tl.constexpr(options.LOOK_EVERY)
CONVERGED, FIXED_ITERATIONS, MAX_ITER, OPEN = (
    tl.constexpr(int(status)) for status in (Status.CONVERGED, Status.FIXED_ITERATIONS, Status.MAX_ITER, LEFT_OPEN)
)

COUNTS = ["start", "count", "n_rows", "n_columns", "n_anchors", "max_iter", "patience", "kind", "at_target"]
"""Numbers that the kernels are not compiled for one by one."""


@triton.jit
def pair_at(start, t, n_rows, n_columns, listed, kind):
    """Row and column of the pairs at positions start + t. Kind 0: all i < j, 1: all rows and columns, 2: listed."""
    position = start + t
    row = tl.load(listed + 2 * t, mask=kind == 2, other=0)
    column = tl.load(listed + 2 * t + 1, mask=kind == 2, other=0)
    if kind == 1:
        row = position // n_columns
        column = position - row * n_columns
    if kind == 0:
        # Row i begins at i (2n - i - 1) / 2. The root is exact to 1e-8 for n ≤ 2^25, so one step corrects it.
        middle = n_rows.to(tl.float64) - 0.5
        row = (middle - tl.sqrt(tl.maximum(middle * middle - 2.0 * position.to(tl.float64), 0.0))).to(tl.int64)
        row += (((row + 1) * (2 * n_rows - row - 2)) // 2 <= position).to(tl.int64)
        row -= ((row * (2 * n_rows - row - 1)) // 2 > position).to(tl.int64)
        column = position - (row * (2 * n_rows - row - 1)) // 2 + row + 1
    return row, column


@triton.jit
def block_of(base, first_row, first_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STRIDE: tl.constexpr):
    """Pointers at a block of a matrix."""
    rows = first_row + tl.arange(0, ROWS)
    columns = first_column + tl.arange(0, COLUMNS)
    return base + rows[:, None] * STRIDE + columns[None, :]


@triton.jit
def _leading(x):
    """x rounded to the 11 bits of TF32."""
    bits = x.to(tl.int32, bitcast=True) + (1 << 12)
    return ((bits >> 13) << 13).to(tl.float32, bitcast=True)


@triton.jit
def multiply(x, high, low, total, MODE: tl.constexpr):
    """total + x times a block of a matrix, given in its parts; ``total`` may be None.

    The trailing part may be pointers: it is then read when the leading part needs no shared memory any more.
    """
    if MODE == "float64":
        total = tl.dot(x, high, total, out_dtype=tl.float64)
    else:
        lead = _leading(x)
        if MODE == "tf32":
            total = tl.dot(lead, high, total, input_precision="tf32")
        else:
            total = tl.dot(x - lead, high, total, input_precision="tf32")
            total = tl.dot(lead, high, total, input_precision="tf32")
            if low.dtype.is_ptr():
                low = tl.load(low)
            total = tl.dot(lead, low, total, input_precision="tf32")
    return total


@triton.jit
def quotient(x, y, FAST: tl.constexpr):
    """x / y, off by an ulp or two where it is fast (which the interpreter cannot do)."""
    if not FAST:
        r = 1.0 / y
    elif x.dtype == tl.float32:
        r = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=r,r", [y], dtype=tl.float32, is_pure=True, pack=1)
    else:  # twenty bits from the chip's table, doubled twice by Newton
        r = tl.inline_asm_elementwise("rcp.approx.ftz.f64 $0, $1;", "=d,d", [y], dtype=tl.float64, is_pure=True, pack=1)
        r = tl.fma(r, tl.fma(-y, r, 1.0), r)
        r = tl.fma(r, tl.fma(-y, r, 1.0), r)
    return x * r


@triton.jit
def weighted_logs(masses, scaling):
    """Σ mass · log scaling of every pair, (pairs,) in float64, with 0 log 0 = 0."""
    logs = tl.log(tl.where(scaling > 0, scaling, 1.0).to(tl.float64))
    return tl.sum(masses.to(tl.float64) * logs, axis=1)


@triton.jit
def total_of(x, y):
    """The sum of each row (x, y), in two pieces, (pairs,) in float64."""
    return (tl.sum(x, axis=1) + tl.sum(y, axis=1)).to(tl.float64)


@triton.jit
def judge(value, error, previous, steps, done, max_iter, numbers, patience):
    """Status (pairs,) and who leaves, by the rules of `asot.entropic.options`. ``value`` is ⟨T, C⟩ / ε."""
    tol = tl.load(numbers + 1)
    goal = tol * tl.minimum(tl.maximum(value / tl.load(numbers + 2), 1e-4), 1.0)
    goal = tl.maximum(goal, tl.load(numbers + 3))
    rate = tl.exp(tl.log(tl.maximum(error / tl.maximum(previous, 1e-300), 1e-300)) / steps)
    remaining = tl.where(error < tl.load(numbers + 4), error, error / tl.maximum(1.0 - rate, 1e-12))
    converged = (error <= goal) & (remaining <= goal)
    bounded = tl.minimum(tl.maximum(rate, 1e-9), 0.999999)  # a bound nearer to 1 would be 1: it is a float32 here
    needed = tl.log(tl.maximum(goal / tl.maximum(remaining, 1e-300), 1e-300)) / tl.log(bounded)
    bearable = (done + needed < patience) & (error < float("inf"))  # False where the error is not a number
    last = done == max_iter
    finished = tl.where(last, error <= 0.01 * goal, converged)
    status = tl.where(finished, CONVERGED, tl.where(last, MAX_ITER, OPEN))
    return status, last | ((converged | (bearable == 0)) & (done > FIRST_LOOK))


@triton.jit
def keep(leaving, status, done, value, error, t, numbers, values, statuses, iterations, errors):
    """Write down the answers of pairs that leave; what is not finite is left to another solver."""
    finite = (tl.abs(value) < float("inf")) & (error < float("inf"))
    tl.store(values + t, tl.where(finite, tl.load(numbers) * value, 0.0), mask=leaving)
    tl.store(errors + t, tl.where(finite, error, 2.0), mask=leaving)
    tl.store(statuses + t, tl.where(finite, status, OPEN).to(tl.int8), mask=leaving)
    tl.store(iterations + t, tl.zeros_like(status) + done, mask=leaving)


# ---------------------------------------------------------------------------------------------------------- resident


@triton.jit
def _product(x, high, low, PAIRS: tl.constexpr, WIDTH: tl.constexpr, MODE: tl.constexpr):
    """x times a matrix whose rows are ordered so that of every 8 columns a thread needs the two that it holds."""
    x = tl.reshape(tl.permute(tl.reshape(x, (PAIRS, WIDTH // 8, 4, 2)), (0, 1, 3, 2)), (PAIRS, WIDTH))
    return multiply(x, high, low, None, MODE)


@triton.jit
def _iterate(
    u, v, a, b, high, low, high_t, low_t, steps,
    PAIRS: tl.constexpr, K: tl.constexpr, L: tl.constexpr, MODE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Sinkhorn iterations: u ← a ⊘ (K v), v ← b ⊘ (Kᵀ u)."""
    for _ in range(steps):
        u = quotient(a, _product(v, high_t, low_t, PAIRS, L, MODE), FAST)
        v = quotient(b, _product(u, high, low, PAIRS, K, MODE), FAST)
    return u, v


@triton.jit(do_not_specialize=COUNTS)
def resident_kernel(
    A, B, to_columns_high, to_columns_low, to_rows_high, to_rows_low, costs_high, costs_low, numbers, listed,
    values, statuses, iterations, errors,
    start: tl.int64, count: tl.int64, n_rows: tl.int64, n_columns: tl.int64,
    n_anchors: tl.int32, max_iter: tl.int32, patience: tl.int32, kind: tl.int32, at_target: tl.int32, zero: tl.int32,
    PAIRS: tl.constexpr, K: tl.constexpr, L: tl.constexpr, MODE: tl.constexpr, SYMMETRIC: tl.constexpr,
    JUDGED: tl.constexpr, REGULARIZED: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """One block of PAIRS pairs. ``zero`` is 0: an address that contains it is not kept in shared memory."""
    t = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    waiting = t < count
    t = tl.minimum(t, count - 1)  # the last block is filled up with its last pair
    i, j = pair_at(start, t, n_rows, n_columns, listed, kind)
    a = tl.load(A + i[:, None] * K + tl.arange(0, K)[None, :])
    b = tl.load(B + j[:, None] * L + tl.arange(0, L)[None, :])
    high = tl.load(block_of(to_columns_high, 0, 0, K, L, L))
    low = tl.load(block_of(to_columns_low, 0, 0, K, L, L))
    high_t = high
    low_t = low
    if not SYMMETRIC:
        high_t = tl.load(block_of(to_rows_high, 0, 0, L, K, K))
        low_t = tl.load(block_of(to_rows_low, 0, 0, L, K, K))
    u = a
    v = tl.where(at_target != 0, b, (tl.arange(0, L) < n_anchors)[None, :].to(b.dtype))
    if JUDGED:
        previous = tl.full((PAIRS,), float("inf"), tl.float64)
        done = 0
        while done < max_iter:
            steps = tl.minimum(tl.where(done < LOOK_EVERY, FIRST_LOOK, LOOK_EVERY), max_iter - done)
            u, v = _iterate(u, v, a, b, high, low, high_t, low_t, steps, PAIRS, K, L, MODE, FAST)
            done += steps
            row_sums = u * _product(v, high_t, low_t, PAIRS, L, MODE)
            error = tl.sum(tl.abs(row_sums - a), axis=1).to(tl.float64)
            costs = tl.load(block_of(costs_high + done * zero, 0, 0, L, K, K))
            costs_rest = block_of(costs_low + done * zero, 0, 0, L, K, K)
            value = tl.sum(u * _product(v, costs, costs_rest, PAIRS, L, MODE), axis=1).to(tl.float64)
            status, leaving = judge(value, error, previous, steps, done, max_iter, numbers, patience)
            leaving = leaving & waiting
            previous = error
            if tl.max(leaving.to(tl.int32), axis=0) > 0:
                if REGULARIZED:
                    value = weighted_logs(row_sums, u) + weighted_logs(b, v) - tl.sum(row_sums, axis=1)
                keep(leaving, status, done, value, error, t, numbers, values, statuses, iterations, errors)
            waiting = waiting & (leaving == 0)
            if tl.max(waiting.to(tl.int32), axis=0) == 0:
                done = max_iter
    else:
        u, v = _iterate(u, v, a, b, high, low, high_t, low_t, max_iter, PAIRS, K, L, MODE, FAST)
        row_sums = u * _product(v, high_t, low_t, PAIRS, L, MODE)
        error = tl.sum(tl.abs(row_sums - a), axis=1).to(tl.float64)
        if REGULARIZED:
            value = weighted_logs(row_sums, u) + weighted_logs(b, v) - tl.sum(row_sums, axis=1)
        else:
            costs = tl.load(block_of(costs_high, 0, 0, L, K, K))
            costs_rest = block_of(costs_low, 0, 0, L, K, K)
            value = tl.sum(u * _product(v, costs, costs_rest, PAIRS, L, MODE), axis=1).to(tl.float64)
        status = tl.full((PAIRS,), FIXED_ITERATIONS, tl.int32)
        keep(waiting, status, max_iter, value, error, t, numbers, values, statuses, iterations, errors)


# ---------------------------------------------------------------------------------------------------------- streamed


@triton.jit
def _sums(
    x, high, low, first, n_from, PAIRS: tl.constexpr, STRIDE: tl.constexpr,
    BLOCK_INTO: tl.constexpr, BLOCK_FROM: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    """Columns first.. of x times a matrix: [pairs, BLOCK_INTO]. ``x`` (pairs, 1) points at rows.

    The matrix is stored transposed: that is how the tensor cores read it, 16 bytes at a time.
    """
    total = tl.zeros((PAIRS, BLOCK_INTO), tl.float64 if MODE == "float64" else tl.float32)
    for start in range(0, n_from, BLOCK_FROM):
        part = tl.load(x + (start + tl.arange(0, BLOCK_FROM))[None, :])
        block = tl.trans(tl.load(block_of(high, first, start, BLOCK_INTO, BLOCK_FROM, STRIDE)))
        rest = block
        if MODE == "tf32x3":
            rest = tl.trans(tl.load(block_of(low, first, start, BLOCK_INTO, BLOCK_FROM, STRIDE)))
        total = multiply(part, block, rest, total, MODE)
    return total


@triton.jit
def _update_block(
    x, y, masses, high, low, first, n_from, PAIRS: tl.constexpr, STRIDE: tl.constexpr,
    BLOCK_INTO: tl.constexpr, BLOCK_FROM: tl.constexpr, MODE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    total = _sums(x, high, low, first, n_from, PAIRS, STRIDE, BLOCK_INTO, BLOCK_FROM, MODE)
    columns = first + tl.arange(0, BLOCK_INTO)
    tl.store(y + columns[None, :], quotient(tl.load(masses + columns[None, :]), total, FAST))


@triton.jit
def _update(
    x, y, masses, high, low, n_from, PAIRS: tl.constexpr, INTO: tl.constexpr, STRIDE: tl.constexpr,
    BLOCK: tl.constexpr, REST: tl.constexpr, BLOCK_FROM: tl.constexpr, MODE: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """y ← masses ⊘ (x K), one block of columns after another; the last may have REST columns only."""
    for first in range(0, INTO - REST, BLOCK):
        _update_block(x, y, masses, high, low, first, n_from, PAIRS, STRIDE, BLOCK, BLOCK_FROM, MODE, FAST)
    if REST > 0:
        _update_block(x, y, masses, high, low, INTO - REST, n_from, PAIRS, STRIDE, REST, BLOCK_FROM, MODE, FAST)
    tl.debug_barrier()  # what one thread has written, another will read


@triton.jit
def _start_block(v, b, first, n_anchors, at_target, BLOCK: tl.constexpr):
    """v ← 1, or the target."""
    columns = first + tl.arange(0, BLOCK)
    masses = tl.load(b + columns[None, :])
    ones = (columns < n_anchors)[None, :].to(masses.dtype)
    tl.store(v + columns[None, :], tl.where(at_target != 0, masses, ones))


@triton.jit
def _look_block(
    u, v, a, to_rows_high, to_rows_low, costs_high, costs_low, first, sum_l, PAIRS: tl.constexpr, L: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_FROM: tl.constexpr, MODE: tl.constexpr, PRICED: tl.constexpr, REGULARIZED: tl.constexpr,
):  # fmt: skip
    """What the rows first.. add to value, entropy and error of each pair, (pairs,)."""
    columns = first + tl.arange(0, BLOCK)
    scaling = tl.load(u + columns[None, :])
    total = _sums(v, to_rows_high, to_rows_low, first, sum_l, PAIRS, L, BLOCK, BLOCK_FROM, MODE)
    row_sums = scaling * total
    error = tl.sum(tl.abs(row_sums - tl.load(a + columns[None, :])), axis=1).to(tl.float64)
    value = tl.zeros((PAIRS,), tl.float64)
    entropy = tl.zeros((PAIRS,), tl.float64)
    if PRICED:
        total = _sums(v, costs_high, costs_low, first, sum_l, PAIRS, L, BLOCK, BLOCK_FROM, MODE)
        value = tl.sum(scaling * total, axis=1).to(tl.float64)
    if REGULARIZED:
        entropy = weighted_logs(row_sums, scaling) - tl.sum(row_sums, axis=1)
    return value, entropy, error


@triton.jit(do_not_specialize=[*COUNTS, "sum_k", "sum_l"])
def streamed_kernel(
    A, B, to_columns_high, to_columns_low, to_rows_high, to_rows_low, costs_high, costs_low, numbers, listed,
    values, statuses, iterations, errors,
    start: tl.int64, count: tl.int64, n_rows: tl.int64, n_columns: tl.int64,
    n_anchors: tl.int32, max_iter: tl.int32, patience: tl.int32, kind: tl.int32, at_target: tl.int32,
    sum_k: tl.int32, sum_l: tl.int32, scratch_u, scratch_v,
    PAIRS: tl.constexpr, K: tl.constexpr, L: tl.constexpr, MODE: tl.constexpr, JUDGED: tl.constexpr,
    BLOCK: tl.constexpr, REST_K: tl.constexpr, REST_L: tl.constexpr, BLOCK_FROM: tl.constexpr,
    REGULARIZED: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """One block of PAIRS pairs after another. Sums run over sum_k ≤ K and sum_l ≤ L anchors, the rest is padding."""
    place = (tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS))[:, None]
    u = scratch_u + place * K
    v = scratch_v + place * L
    n_blocks = (count + PAIRS - 1) // PAIRS
    for block in range(tl.program_id(0), n_blocks, tl.num_programs(0)):
        t = block * PAIRS + tl.arange(0, PAIRS).to(tl.int64)
        waiting = t < count
        t = tl.minimum(t, count - 1)  # the last block is filled up with its last pair
        i, j = pair_at(start, t, n_rows, n_columns, listed, kind)
        a = A + i[:, None] * K
        b = B + j[:, None] * L
        for first in range(0, L - REST_L, BLOCK):
            _start_block(v, b, first, n_anchors, at_target, BLOCK)
        if REST_L > 0:
            _start_block(v, b, L - REST_L, n_anchors, at_target, REST_L)
        tl.debug_barrier()
        previous = tl.full((PAIRS,), float("inf"), tl.float64)
        done = 0
        while done < max_iter:
            steps = max_iter
            if JUDGED:
                steps = tl.minimum(tl.where(done < LOOK_EVERY, FIRST_LOOK, LOOK_EVERY), max_iter - done)
            for _ in range(steps):
                _update(v, u, a, to_rows_high, to_rows_low, sum_l, PAIRS, K, L, BLOCK, REST_K, BLOCK_FROM, MODE, FAST)
                _update(
                    u, v, b, to_columns_high, to_columns_low, sum_k, PAIRS, L, K, BLOCK, REST_L, BLOCK_FROM, MODE, FAST
                )
            done += steps
            value = tl.zeros((PAIRS,), tl.float64)
            entropy = tl.zeros((PAIRS,), tl.float64)
            error = tl.zeros((PAIRS,), tl.float64)
            PRICED: tl.constexpr = JUDGED or not REGULARIZED
            for first in range(0, K - REST_K, BLOCK):
                more = _look_block(
                    u, v, a, to_rows_high, to_rows_low, costs_high, costs_low, first, sum_l,
                    PAIRS, L, BLOCK, BLOCK_FROM, MODE, PRICED, REGULARIZED,
                )  # fmt: skip
                value, entropy, error = value + more[0], entropy + more[1], error + more[2]
            if REST_K > 0:
                more = _look_block(
                    u, v, a, to_rows_high, to_rows_low, costs_high, costs_low, K - REST_K, sum_l,
                    PAIRS, L, REST_K, BLOCK_FROM, MODE, PRICED, REGULARIZED,
                )  # fmt: skip
                value, entropy, error = value + more[0], entropy + more[1], error + more[2]
            leaving = waiting
            status = tl.full((PAIRS,), FIXED_ITERATIONS, tl.int32)
            if JUDGED:
                status, leaving = judge(value, error, previous, steps, done, max_iter, numbers, patience)
                leaving = leaving & waiting
                previous = error
            if REGULARIZED:
                for first in range(0, L - REST_L, BLOCK):
                    columns = first + tl.arange(0, BLOCK)
                    entropy += weighted_logs(tl.load(b + columns[None, :]), tl.load(v + columns[None, :]))
                if REST_L > 0:
                    columns = L - REST_L + tl.arange(0, REST_L)
                    entropy += weighted_logs(tl.load(b + columns[None, :]), tl.load(v + columns[None, :]))
                value = entropy
            keep(leaving, status, done, value, error, t, numbers, values, statuses, iterations, errors)
            tl.debug_barrier()  # all have read before the next iteration writes
            waiting = waiting & (leaving == 0)
            if tl.max(waiting.to(tl.int32), axis=0) == 0:
                done = max_iter
