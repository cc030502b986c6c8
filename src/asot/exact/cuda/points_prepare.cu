// What happens before pairs of distributions are solved on their points: distances between all points, if they fit
// into memory, and which kernel takes which pair.
//
// Defines: METRIC; BOUNDED (0 or 1).

#include "points_metric.cuh"

constexpr int SHARES = 8;  // of the mass, along a sorted axis
constexpr int SIDE = 32, DEPTH = 16;  // of a tile of distances; and of coordinates at a time

// Distances (n, n) between points (n, d). A block of 256 threads makes a tile and its mirror image: 4 distances each.
extern "C" __global__ void __launch_bounds__(256) fill_table(
    const double* __restrict__ points, int n, int d, double order, double* __restrict__ table
) {
    DYNAMIC_SHARED(shared);
    double* x = (double*)shared;                 // (DEPTH, SIDE + 1)
    double* y = x + DEPTH * (SIDE + 1);
    const int tiles = (n + SIDE - 1) / SIDE, column = threadIdx.x & 15, row = threadIdx.x >> 4;
    for (i64 tile = blockIdx.x; tile < (i64)tiles * tiles; tile += gridDim.x) {
        const int i0 = (int)(tile / tiles) * SIDE, j0 = (int)(tile % tiles) * SIDE;
        if (j0 < i0) continue;
        Gap gap[2][2] = {};
        for (int first = 0; first < d; first += DEPTH) {
            __syncthreads();
            for (int t = threadIdx.x; t < DEPTH * SIDE; t += 256) {
                const int own = t / DEPTH, c = t % DEPTH;
                const bool inside = first + c < d;
                x[c * (SIDE + 1) + own] = inside && i0 + own < n ? points[(i64)(i0 + own) * d + first + c] : 0.0;
                y[c * (SIDE + 1) + own] = inside && j0 + own < n ? points[(i64)(j0 + own) * d + first + c] : 0.0;
            }
            __syncthreads();
#pragma unroll 4
            for (int c = 0; c < DEPTH; c++)
#pragma unroll
                for (int a = 0; a < 2; a++)
#pragma unroll
                    for (int b = 0; b < 2; b++)
                        widen(gap[a][b], x[c * (SIDE + 1) + row + 16 * a], y[c * (SIDE + 1) + column + 16 * b], order);
        }
        __syncthreads();
        double* out = (double*)shared;  // (SIDE, SIDE + 1), where the coordinates were
#pragma unroll
        for (int a = 0; a < 2; a++)
#pragma unroll
            for (int b = 0; b < 2; b++) out[(row + 16 * a) * (SIDE + 1) + column + 16 * b] = length(gap[a][b], order);
        __syncthreads();
        for (int t = threadIdx.x; t < SIDE * SIDE; t += 256) {
            const int a = t / SIDE, b = t % SIDE;
            if (i0 + a < n && j0 + b < n) table[(i64)(i0 + a) * n + j0 + b] = out[a * (SIDE + 1) + b];
            if (i0 + b < n && j0 + a < n) table[(i64)(j0 + a) * n + i0 + b] = out[b * (SIDE + 1) + a];
        }
        __syncthreads();
    }
}

// The norm of the one-dimensional distances between two distributions, given their columns of `profiles` (see below).
DEVICE double projected(
    const float* x, const float* y, int n_sorted, int n_means, i64 n_distributions, double order
) {
    Gap gap = {0.0, 0.0};
    for (int c = 0; c < n_sorted; c++) {
        float apart = 0.0f;
#pragma unroll
        for (int s = 0; s < SHARES; s++, x += n_distributions, y += n_distributions) apart += fabsf(*x - *y);
        widen(gap, apart, 0.0, order);
    }
#pragma unroll 4
    for (int c = 0; c < n_means; c++, x += n_distributions, y += n_distributions)
        widen(gap, fabsf(*x - *y), 0.0, order);
    return length(gap, order);
}

// Count what is left of each pair after cancellation, and put the pair on the list (count,) of the first class that has
// room for it, by its most_rows and most_columns (n_classes,), one list after another. Pairs without anything left are done; those that no class has room for stay
// OPEN. Every thread has pairs of its own.
//
// Where limits are given (BOUNDED), pairs that are certainly above the limit of their row, and of their column within
// one set, are left out: their value is infinite. For a norm no distance is less than the norm of the one-dimensional
// distances along axes (asot.search.projections). `profiles` (n_sorted * SHARES + n_means, n_distributions) has
// what is needed of every distribution: means of shares of its sorted coordinates along some axes, and plain means
// along others. A bound from them in float32 is certain after bound * (1 - relative) - absolute.
extern "C" __global__ void classify_pairs(
    const i64* __restrict__ offsets, const int* __restrict__ point, const i64* __restrict__ mass, int kind, i64 n_rows,
    i64 n_columns, const i64* __restrict__ listed, i64 start, int count, int column_start,
    const int* __restrict__ most_rows, const int* __restrict__ most_columns, int n_classes, int* __restrict__ lists,
    int* __restrict__ n_listed, const float* __restrict__ profiles, int n_sorted, int n_means, i64 n_distributions,
    double relative, double absolute, double order, int exponent, const double* __restrict__ row_limits,
    const double* __restrict__ column_limits,
    double* __restrict__ values, i8* __restrict__ status, int* __restrict__ n_iter
) {
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    const int step = gridDim.x * blockDim.x, lane = threadIdx.x & 31;
    for (int base = blockIdx.x * blockDim.x; base < count; base += step) {
        const int t = base + threadIdx.x;
        int sources = 0, sinks = 0;
        bool far = false;
        if (t < count) {
            int i, j;
            pair_at(pairs, start, t, &i, &j);
#if BOUNDED
            const double limit = larger(row_limits[i], column_limits[j]);
#endif
            j += column_start;
#if BOUNDED
            const double bound = projected(profiles + i, profiles + j, n_sorted, n_means, n_distributions, order);
            far = ldexp(bound * (1.0 - relative) - absolute, exponent) > limit;
#endif
            i64 a = offsets[i], b = offsets[j];
            const i64 a_end = offsets[i + 1], b_end = offsets[j + 1];
            const int none = 0x7fffffff;
            int x = a < a_end ? point[a] : none, y = b < b_end ? point[b] : none;
            while (!far && (a < a_end || b < b_end)) {
                if (x == y) {
                    const i64 left = mass[a] - mass[b];
                    sources += left > 0;
                    sinks += left < 0;
                }
                sources += x < y;
                sinks += y < x;
                const bool from_a = x <= y, from_b = y <= x;
                a += from_a;
                b += from_b;
                if (from_a) x = a < a_end ? point[a] : none;
                if (from_b) y = b < b_end ? point[b] : none;
            }
        }
        const int rows = min(sources, sinks), columns = max(sources, sinks);
        int own = n_classes;
        for (int c = n_classes - 1; c >= 0; c--)
            if (rows <= most_rows[c] && columns <= most_columns[c]) own = c;
        const bool solved = t < count && rows == 0, open = t < count && !solved && own == n_classes;
        if (solved || open) {
            values[t] = open ? nan("") : far ? __longlong_as_double(0x7ff0000000000000ll) : 0.0;
            status[t] = open ? OPEN : OPTIMAL;
            n_iter[t] = 0;
        }
        for (int c = 0; c < n_classes; c++) {  // one atomic per warp: its lanes take consecutive places
            const bool mine = t < count && !solved && own == c;
            const u32 votes = __ballot_sync(ALL_LANES, mine);
            if (votes == 0) continue;
            int place = 0;
            if (lane == 0) place = atomicAdd(n_listed + c, count_set(votes));
            place = __shfl_sync(ALL_LANES, place, 0) + count_set(votes & ((1u << lane) - 1));
            if (mine) lists[(i64)c * count + place] = t;
        }
    }
}
