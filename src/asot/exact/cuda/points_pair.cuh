// The transport problem of a pair of distributions: common mass canceled, and the integer costs of what is left.
//
// The rows of a problem are the side with fewer points, sources or sinks; the problem is the same either way. Integer
// costs are at most 2^COST_BITS, with a power of two of its own as the unit of each pair. They lie in two planes of
// 32-bit words: rows are priced by the high ones. A potential is a sum along a path of the tree, in which rows and
// columns alternate, so none exceeds 2^COST_BITS times the number of rows.
//
// Defines: COST_BITS, 52 unless there are too many rows for that; TABLE (0 or 1): whether distances are given, (n_points, n_points), or coordinates, (n_points, n_coordinates);
// BOUNDED (0 or 1): whether pairs that are above a limit need no value. Feasible potentials for the high words, which
// are never above the costs, bound the value from below: the least cost of every node of one side, and what that leaves
// to the other side.

#include "points_metric.cuh"

#ifndef COST_BITS
#define COST_BITS 52
#endif
constexpr int MASS_BITS = 60;
constexpr i64 TOP = 0x7fffffffffffffffll;
constexpr int DEPTH = 8;  // coordinates at a time; their number is a multiple of it, filled up with zeros
constexpr int LEAST_EXPONENT = -900;  // of a unit: where all distances are 0, or almost, its inverse stays in range

struct Collection {
    const i64* offsets;       // (N + 1,)
    const int* point;         // (nnz,) ascending within a distribution
    const i64* mass;          // (nnz,) of total 2^MASS_BITS within a distribution
    const double* distances;  // or coordinates
    int n_points, n_coordinates;
    double order;
};

struct Arc {
    int row, column;
    i64 reduced_cost;
};

DEVICE int lane_id() { return threadIdx.x & 31; }
DEVICE int high_word(i64 value) { return (int)(value >> 32); }

// Over the warp: one instruction since Ampere.
DEVICE int warp_least(int value) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    return __reduce_min_sync(ALL_LANES, value);
#else
    for (int far = 16; far > 0; far /= 2) value = min(value, __shfl_xor_sync(ALL_LANES, value, far));
    return value;
#endif
}
DEVICE u32 warp_least(u32 value) { return (u32)warp_least((int)(value ^ 0x80000000u)) ^ 0x80000000u; }
DEVICE int warp_most(int value) { return -1 - warp_least(-1 - value); }
DEVICE i64 warp_least(i64 value) {
    const int high = warp_least(high_word(value));
    const u32 low = warp_least(high_word(value) == high ? (u32)value : ~0u);
    return (i64)high << 32 | low;
}

// The least of x + y and a bound: one instruction on Hopper.
DEVICE int add_min(int x, int y, int bound) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    return __viaddmin_s32(x, y, bound);
#else
    return min(x + y, bound);
#endif
}

DEVICE double distance(const Collection& c, int one, int two) {
#if TABLE
    return c.distances[(i64)one * c.n_points + two];
#else
    const double* x = c.distances + (i64)one * c.n_coordinates;
    const double* y = c.distances + (i64)two * c.n_coordinates;
    Gap gap = {0.0, 0.0};
#pragma unroll 4
    for (int t = 0; t < c.n_coordinates; t++) widen(gap, x[t], y[t], c.order);
    return length(gap, c.order);
#endif
}

// Long points are measured by a whole warp, whose lanes share the coordinates: they read neighbors. What the point x
// differs by from eight others; lanes 4c … 4c + 3 get it for the c-th. Coordinates are multiplied by a factor.
constexpr int LONG = 32;
constexpr bool BY_WARPS = !TABLE && HAS_ONE_SUM;

DEVICE Gap eight_gaps(const double* x, const double* const (&y)[8], int width, double factor, double order) {
    double sum[8];
    EACH(c) sum[c] = 0.0;
    for (int t = lane_id(); t < width; t += 32) {
        const double own = x[t] * factor;
        EACH(c) {
            Gap gap = {sum[c], 0.0};
            widen(gap, own, y[c][t] * factor, order);
            sum[c] = gap.sum;
        }
    }
    return {METRIC == CHEBYSHEV ? fold_max(sum, lane_id()) : fold_sum(sum, lane_id()), 0.0};
}

// The same for four points and four others, which reads half as many coordinates: lanes 4c … 4c + 3 get what points
// 2h + c / 4 and other c % 4 differ by, for h = 0 and 1. Points lie DEPTH x and DEPTH y coordinates behind the first.
constexpr int POINTS_TOGETHER = 4;
#define EACH_POINT(a) _Pragma("unroll") for (int a = 0; a < POINTS_TOGETHER; a++)

DEVICE void sixteen_gaps(
    const Collection& c, const u32 (&x)[POINTS_TOGETHER], const u32 (&y)[POINTS_TOGETHER], Gap (&gaps)[2]
) {
    double sum[2][8];
    EACH(s) sum[0][s] = sum[1][s] = 0.0;
    for (int t = lane_id(); t < c.n_coordinates; t += 32) {
        double own[POINTS_TOGETHER], other[POINTS_TOGETHER];
        EACH_POINT(a) own[a] = c.distances[(i64)x[a] * DEPTH + t];
        EACH_POINT(b) other[b] = c.distances[(i64)y[b] * DEPTH + t];
        EACH_POINT(a) EACH_POINT(b) {
            double& total = sum[a / 2][4 * (a % 2) + b];
            Gap gap = {total, 0.0};
            widen(gap, own[a], other[b], c.order);
            total = gap.sum;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++)
        gaps[h] = {METRIC == CHEBYSHEV ? fold_max(sum[h], lane_id()) : fold_sum(sum[h], lane_id()), 0.0};
}

// Distances of a collection, by the warps of a block: of rows to columns, which are named; names below 0 are no points.
template <typename Row, typename Column, typename Keep>
DEVICE void long_distances(const Collection& c, int n_rows, Row row, int n_columns, Column column, Keep keep) {
    const auto at = [&](int point) { return (u32)max(point, 0) * (u32)(c.n_coordinates / DEPTH); };
    const int warp = threadIdx.x >> 5, n_warps = blockDim.x >> 5;
    for (int top = POINTS_TOGETHER * warp; top < n_rows; top += POINTS_TOGETHER * n_warps) {
        u32 x[POINTS_TOGETHER], y[POINTS_TOGETHER];
        EACH_POINT(a) x[a] = at(row(min(top + a, n_rows - 1)));
        for (int first = 0; first < n_columns; first += POINTS_TOGETHER) {
            EACH_POINT(b) y[b] = at(column(min(first + b, n_columns - 1)));
            Gap gaps[2];
            sixteen_gaps(c, x, y, gaps);
            const int own = lane_id() / 4, k = first + own % 4;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = top + 2 * h + own / 4;
                if (lane_id() % 4 == 0 && r < n_rows && k < n_columns) keep(r, k, length(gaps[h], c.order));
            }
        }
    }
}

// The mass on a point, found among the places from..to-1 of a distribution.
DEVICE i64 mass_on(const Collection& c, int point, i64 from, i64 to) {
    i64 low = from, high = to;
    while (low < high) {
        const i64 middle = (low + high) / 2;
        if (c.point[middle] < point) low = middle + 1;
        else high = middle;
    }
    return low < to && c.point[low] == point ? c.mass[low] : 0;
}

// What one distribution has more of than another: points and masses. The whole warp works on it; returns how many.
DEVICE int surplus(const Collection& c, int own, int other, int* points, i64* masses) {
    const int lane = lane_id();
    const i64 begin = c.offsets[own], end = c.offsets[own + 1], from = c.offsets[other], to = c.offsets[other + 1];
    int count = 0;
    for (i64 first = begin; first < end; first += 32) {
        const i64 at = first + lane;
        int point = 0;
        i64 mass = 0;
        if (at < end) {
            point = c.point[at];
            mass = c.mass[at] - mass_on(c, point, from, to);
        }
        const u32 kept = __ballot_sync(ALL_LANES, mass > 0);
        if (mass > 0) {
            const int place = count + count_set(kept & ((1u << lane) - 1));
            points[place] = point;
            masses[place] = mass;
        }
        count += count_set(kept);
    }
    return count;
}

// The exponent e of a unit: 2^e is above every distance whose high word (of the float64) is at most `largest`.
DEVICE int unit_exponent(int largest) { return max((largest >> 20) - 1022, LEAST_EXPONENT); }

// The nearest integer to a distance in units of 2^(e - COST_BITS), read off the bits of a sum. Given 2^(COST_BITS - e).
DEVICE i64 integer_cost(int high, u32 low, double scale) {
    const double distance = __longlong_as_double((i64)high << 32 | low);
    return __double_as_longlong(fma(distance, scale, 4503599627370496.0)) - 0x4330000000000000ll;
}

// A value from a sum of masses times integer costs.
DEVICE double value_of(double total, int unit, int exponent) {
    return ldexp(ldexp(total, unit - COST_BITS - MASS_BITS), exponent);
}

// Whether a lower bound on a value, from a sum of masses times high words of costs, is above a limit.
constexpr double ALMOST = 1.0 - 1e-11;  // what rounding may take from it
DEVICE bool is_above(double total, int unit, int exponent, double limit) {
    return value_of(ldexp(total * ALMOST, 32), unit, exponent) > limit;
}

// A pair that is above its limits.
DEVICE void leave_out(int t, double* values, i8* status, int* n_iter) {
    values[t] = __longlong_as_double(0x7ff0000000000000ll);
    status[t] = OPTIMAL;
    n_iter[t] = 0;
}

// The next pair of a warp that is done with one; `first` of them were given away at the start.
DEVICE int next_pair(int* taken, int first) {
    int next = 0;
    __syncwarp();
    if (lane_id() == 0) next = first + atomicAdd(taken, 1);
    return __shfl_sync(ALL_LANES, next, 0);
}
