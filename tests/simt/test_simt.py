"""The emulator itself, and what all kernels share: a tool that looks for mistakes must be seen to find them."""

from __future__ import annotations

import numpy as np
import pytest

from asot.run.pairs import AllPairs, CrossPairs, ListedPairs
from tests.simt import host

pytestmark = host.needs_compiler

every_order = pytest.mark.parametrize("order", host.ORDERS)

WARP = np.arange(32)

KERNELS = """
extern "C" __global__ void shuffles(const int* x, int* out) {
    const int lane = threadIdx.x;
    out[lane] = __shfl_sync(~0u, x[lane], 5);
    out[32 + lane] = __shfl_xor_sync(~0u, x[lane], 3);
    out[64 + lane] = __shfl_down_sync(~0u, x[lane], 4);
    out[96 + lane] = __shfl_up_sync(~0u, x[lane], 4);
    out[128 + lane] = __shfl_sync(~0u, x[lane], lane + 1, 8);
    out[160 + lane] = (int)__ballot_sync(~0u, x[lane] % 3 == 0);
    out[192 + lane] = __any_sync(~0u, x[lane] == 7) + 2 * __all_sync(~0u, x[lane] >= 0);
}
extern "C" __global__ void sums_of_pairs_of_lanes(const double* x, double* out) {
    const int lane = threadIdx.x;
    const u32 two = 3u << (lane & 30);
    double total = x[lane];
    for (int t = 0; t < lane / 2; t++) total += __shfl_xor_sync(two, total, 1);
    out[lane] = total;
}
extern "C" __global__ void reverse_block(int* x) {
    DYNAMIC_SHARED(memory);
    int* copy = (int*)memory;
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    copy[threadIdx.x] = x[t];
    __syncthreads();
    x[t] = copy[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void rotate(int* x, int with_barrier) {
    const int lane = threadIdx.x;
    const int value = x[(lane + 1) % 32];
    if (with_barrier) __syncwarp();
    x[lane] = value;
}
extern "C" __global__ void leave_early(double* x, int staying) {
    if ((int)threadIdx.x >= staying) return;
    __syncthreads();
    __syncwarp();
    x[threadIdx.x] = 1.0;
}
extern "C" __global__ void wrong(int how, int* x) {
    const int lane = threadIdx.x;
    if (how == 0) { if (lane < 16) __syncwarp(); else __syncthreads(); }
    if (how == 1) { if (lane < 16) { __syncwarp(0xffffu); __syncthreads(); } else __syncwarp(); }
    if (how == 2) { if (lane < 16) __syncwarp(); else __any_sync(~0u, 1); }
    if (how == 3) __syncwarp(1u);
    if (how == 4) while (x[0] == 0) __syncwarp();
    if (how == 5) x[32] = 1;
    if (how == 7) { DYNAMIC_SHARED(memory); x[lane] = ((int*)memory)[lane]; }
    if (how == 6) { if (lane < 16) x[lane] = __shfl_sync(0xffffu, 1, lane + 16); }
}
extern "C" __global__ void count(u64* total, double* sum, int* largest) {
    atomicAdd(total, (u64)threadIdx.x);
    atomicAdd(sum, 0.5);
    atomicMax(largest, (int)threadIdx.x);
}
extern "C" __global__ void over_the_warp(const double* x, double* sum, double* largest) {
    sum[threadIdx.x] = warp_sum(x[threadIdx.x]);
    largest[threadIdx.x] = warp_max(x[threadIdx.x]);
}
extern "C" __global__ void bits(u32 word, u64 longer, int* out) {
    out[0] = first_set(word); out[1] = count_set(word); out[2] = first_set(longer); out[3] = count_set(longer);
}
extern "C" __global__ void pairs_at(
    int kind, i64 n_rows, i64 n_columns, const i64* listed, i64 start, i64 count, int* found) {
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    for (i64 t = threadIdx.x; t < count; t += blockDim.x) pair_at(pairs, start, t, found + 2 * t, found + 2 * t + 1);
}
"""


def launch(kernel, *args, grid=1, block=32, shared_bytes=0, order=host.FORWARD, **limits):
    host.launch(host.compile_text(KERNELS, {}), kernel, args, grid, block, shared_bytes, order, **limits)


# ------------------------------------------------------------------------------------------- what works on a GPU


@every_order
def test_shuffles_and_votes_are_cudas(order):
    x = np.random.default_rng(0).permutation(32).astype(np.int32)
    out = np.empty((7, 32), np.int32)
    launch("shuffles", x, out, order=order)
    np.testing.assert_array_equal(out[0], x[5])
    np.testing.assert_array_equal(out[1], x[WARP ^ 3])
    np.testing.assert_array_equal(out[2], x[np.where(WARP < 28, WARP + 4, WARP)])
    np.testing.assert_array_equal(out[3], x[np.where(WARP >= 4, WARP - 4, WARP)])
    np.testing.assert_array_equal(out[4], x[WARP // 8 * 8 + (WARP + 1) % 8])
    np.testing.assert_array_equal(out[5].view(np.uint32), np.sum((x % 3 == 0) << WARP.astype(np.uint64)))
    np.testing.assert_array_equal(out[6], 3)


@every_order
def test_parts_of_a_warp_go_their_own_ways(order):
    x, out = np.arange(32.0), np.empty(32)
    launch("sums_of_pairs_of_lanes", x, out, order=order)
    both = np.repeat(x.reshape(16, 2).sum(axis=1), 2)
    rounds = WARP // 2
    np.testing.assert_array_equal(out[2:], (both * 2.0 ** (rounds - 1))[2:])


@every_order
def test_threads_of_a_block_meet_and_share_memory(order):
    x = np.arange(200, dtype=np.int32)
    launch("reverse_block", x, grid=2, block=100, shared_bytes=400, order=order)
    np.testing.assert_array_equal(x.reshape(2, 100), np.arange(200).reshape(2, 100)[:, ::-1])


@every_order
def test_barriers_do_not_wait_for_threads_that_have_left(order):
    x = np.zeros(64)
    launch("leave_early", x, np.int32(40), block=64, order=order)
    np.testing.assert_array_equal(x, np.arange(64) < 40)


def test_atomics_add_up():
    total, sum_, largest = np.zeros(1, np.uint64), np.zeros(1), np.zeros(1, np.int32)
    launch("count", total, sum_, largest, grid=3, block=64, order=1)
    assert (total[0], sum_[0], largest[0]) == (3 * 63 * 32, 96.0, 63)


# ------------------------------------------------------------------------------------------- what does not


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (0, r"cannot go on; from lane 0 .*: __syncwarp\(ffffffff\); from lane 16 .*: __syncthreads"),
        (1, r"cannot go on; from lane 0 .*: __syncthreads; from lane 16 .*: __syncwarp\(ffffffff\)"),
        (2, "meet at .* and at"),
        (3, r"calls __syncwarp\(00000001\): not one of its lanes"),
        (4, "did not end in time"),
        (5, "argument 1 of wrong was written outside of its 32 elements"),
    ],
)
@every_order
def test_a_wrong_use_ends_with_a_message(how, message, order):
    with pytest.raises(host.SimtError, match=message):
        launch("wrong", np.int32(how), np.zeros(32, np.int32), order=order, most_switches=10**5)


def test_an_absent_lane_gives_poison():
    x = np.zeros(32, np.int32)
    launch("wrong", np.int32(6), x)
    np.testing.assert_array_equal(x.view(np.uint32)[:16], 0xDBDBDBDB)


def test_a_look_beyond_shared_memory_is_caught():
    launch("wrong", np.int32(7), np.zeros(32, np.int32), shared_bytes=32 * 4)
    with pytest.raises(host.SimtError, match="lane 28 of warp 0 looks 0 bytes beyond its shared memory"):
        launch("wrong", np.int32(7), np.zeros(32, np.int32), shared_bytes=28 * 4)


def test_a_failed_launch_leaves_no_trace():
    with pytest.raises(host.SimtError):
        launch("wrong", np.int32(0), np.zeros(32, np.int32))
    x = np.arange(32, dtype=np.int32)
    launch("rotate", x, np.int32(1))
    np.testing.assert_array_equal(x, (WARP + 1) % 32)


def test_a_missing_barrier_is_found_by_the_order_of_threads():
    def rotated(order, with_barrier):
        x = np.arange(32, dtype=np.int32)
        launch("rotate", x, np.int32(with_barrier), order=order)
        return np.array_equal(x, (WARP + 1) % 32)

    assert all(rotated(order, with_barrier=1) for order in range(-1, 20))
    assert not any(rotated(order, with_barrier=0) for order in range(-1, 20))


def test_arguments_have_the_types_of_the_kernel():
    x, total = np.zeros(1), np.zeros(1, np.uint64)
    with pytest.raises(host.SimtError, match="takes 3 arguments, not 1"):
        launch("count", total)
    with pytest.raises(host.SimtError, match=r"argument 1 of count is a contiguous array of f8, not dtype.'float32'"):
        launch("count", total, x.astype(np.float32), np.zeros(1, np.int32))
    with pytest.raises(host.SimtError, match=r"argument 0 of wrong is a i4, not 0 .int64"):
        launch("wrong", 0, np.zeros(32, np.int32))


# ------------------------------------------------------------------------------------------- common.cuh


def test_warps_sum_and_compare():
    x = np.random.default_rng(0).normal(size=32)
    total, largest = np.empty(32), np.empty(32)
    launch("over_the_warp", x, total, largest)
    np.testing.assert_allclose(total, x.sum(), rtol=0, atol=1e-14)
    assert len(np.unique(total)) == 1
    np.testing.assert_array_equal(largest, x.max())


@pytest.mark.parametrize("word", [0, 1, 0x80000000, 0x80000000_00000000, 0xF0F0_0000_0000, 2**64 - 1])
def test_bits_are_found_and_counted(word):
    def expected(w):
        return [(w & -w).bit_length() - 1, w.bit_count()]

    out = np.empty(4, np.int32)
    launch("bits", np.uint32(word & 0xFFFFFFFF), np.uint64(word), out)
    np.testing.assert_array_equal(out, expected(word & 0xFFFFFFFF) + expected(word))


def pairs_on_the_device(pairs, start, stop):
    kind = (AllPairs, CrossPairs, ListedPairs).index(type(pairs))
    listed = np.stack(pairs.indices(start, stop), axis=1) if kind == 2 else np.empty(0, np.int64)
    found = np.empty((stop - start, 2), np.int32)
    launch("pairs_at", np.int32(kind), pairs.n_rows, pairs.n_columns, listed, start, stop - start, found)
    return tuple(found.T)


@pytest.mark.parametrize("n_rows", [2, 3, 7, 100])
def test_positions_of_all_pairs_are_scipys(n_rows):
    pairs = AllPairs(n_rows)
    np.testing.assert_array_equal(pairs_on_the_device(pairs, 0, len(pairs)), pairs.indices(0, len(pairs)))
    np.testing.assert_array_equal(pairs_on_the_device(pairs, len(pairs) - 1, len(pairs)), [[n_rows - 2], [n_rows - 1]])


@pytest.mark.parametrize("n_rows", [2**31, 2**31 - 1, 2**31 - 4567, 94906266, 250_000, 65537])
def test_positions_of_the_largest_sets_are_exact(n_rows):
    rng = np.random.default_rng(n_rows)
    row = np.concatenate([rng.integers(0, n_rows - 1, 200), [0, 1, n_rows - 2, n_rows - 3], n_rows - 2 - np.arange(50)])
    begin = row * (2 * n_rows - row - 1) // 2
    for i, first in zip(row.tolist(), begin.tolist(), strict=True):
        length = n_rows - 1 - i
        for offset in {0, length - 1, int(rng.integers(length))}:
            found = pairs_on_the_device(AllPairs(n_rows), first + offset, first + offset + 1)
            assert (int(found[0][0]), int(found[1][0])) == (i, i + 1 + offset)


@pytest.mark.parametrize(("n_rows", "n_columns"), [(3, 5), (1, 9), (9, 1), (2**31, 2**31 - 1)])
def test_positions_of_cross_pairs_are_row_major(n_rows, n_columns):
    pairs = CrossPairs(n_rows, n_columns)
    for start in {0, n_rows * n_columns // 2, n_rows * n_columns - 3}:
        stop = min(start + 40, n_rows * n_columns)
        np.testing.assert_array_equal(pairs_on_the_device(pairs, start, stop), pairs.indices(start, stop))


def test_listed_pairs_are_those_of_the_tile():
    listed = np.random.default_rng(0).integers(0, 50, (90, 2))
    for symmetric in (False, True):
        pairs = ListedPairs(listed, 50, 50, symmetric)
        np.testing.assert_array_equal(pairs_on_the_device(pairs, 30, 77), pairs.indices(30, 77))
