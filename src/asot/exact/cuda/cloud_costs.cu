// Costs between the points of pairs of clouds, where points are long: a block makes a tile of up to 64 × 64 of them for one
// pair, and reads the coordinates of its points once. They are read as they are and summed in float64, in one order. What
// is smaller takes less: of the costs that a thread has room for, it works on as many along each side as the tile needs.
//
// Defines (asot.exact.cuda.cloud_costs): METRIC, and REAL, the type of coordinates.

#include "points_metric.cuh"

constexpr int SIDE = 64, DEPTH = 16;   // of a tile; and of coordinates at a time
constexpr int STEP = 8, EACH_WAY = 8;  // threads and, of a thread, costs along each side of a tile
constexpr int THREADS = STEP * STEP;

// What a thread has seen of coordinates.
struct Seen {
    REAL most;  // ordinary sizes are below
    REAL largest;
    bool wild;  // whether a size was not, or was not a number
};

// Coordinates of `count` points, times `shrink`, into shared memory (DEPTH, SIDE + 1); zeros up to a multiple of `STEP`.
DEVICE void stage(
    const REAL* __restrict__ points, int count, int first, int dim, double shrink, double* __restrict__ staged, Seen& seen
) {
    const int c = threadIdx.x % DEPTH, room = (count + STEP - 1) / STEP * STEP;
#pragma unroll 4
    for (int own = threadIdx.x / DEPTH; own < room; own += THREADS / DEPTH) {
        const REAL value = first + c < dim && own < count ? points[(i64)own * dim + first + c] : (REAL)0;
        const REAL size = value < (REAL)0 ? -value : value;
        seen.wild |= !(size < seen.most);
        seen.largest = size > seen.largest ? size : seen.largest;
        staged[c * (SIDE + 1) + own] = (double)value * shrink;
    }
}

// Widens `down` × ACROSS costs of a thread by all staged coordinates.
template <int ACROSS>
DEVICE void widen_all(
    Gap (&gap)[EACH_WAY][EACH_WAY], int down, const double* __restrict__ own, const double* __restrict__ other
) {
    for (int c = 0; c < DEPTH; c++) {
        double there[ACROSS];
#pragma unroll
        for (int b = 0; b < ACROSS; b++) there[b] = other[c * (SIDE + 1) + STEP * b];
#pragma unroll
        for (int a = 0; a < EACH_WAY; a++) {
            if (a >= down) continue;
            const double here = own[c * (SIDE + 1) + STEP * a];
#pragma unroll
            for (int b = 0; b < ACROSS; b++) widen(gap[a][b], here, there[b], 2.0);
        }
    }
}

// The same, of `down` × `across`.
template <int MOST>
DEVICE void widen_some(
    Gap (&gap)[EACH_WAY][EACH_WAY], int down, int across, const double* __restrict__ own, const double* __restrict__ other
) {
    if (across == MOST) widen_all<MOST>(gap, down, own, other);
    else if constexpr (MOST > 1) widen_some<MOST - 1>(gap, down, across, own, other);
}

// Entry (i, j) of problem t goes to out[t · rows · columns + i · columns + j]; `rows` and `columns` are the most of any.
// Sets `refused`, if it is not null, where a coordinate is not finite or of a size of `most` or more, and where all that
// some thread reads are below `least`, but not 0: what it says of sizes may be too much, but is never too little.
extern "C" __global__ void __launch_bounds__(THREADS) price_clouds(
    const REAL* __restrict__ x, const REAL* __restrict__ y, int dim, const i64* __restrict__ rows_at,
    const i64* __restrict__ row_sizes, const i64* __restrict__ columns_at, const i64* __restrict__ column_sizes,
    const double* __restrict__ shrink, double power, int rows, int columns, double least, double most,
    int* __restrict__ refused, double* __restrict__ out
) {
    DYNAMIC_SHARED(shared);
    double *own = (double*)shared, *other = own + DEPTH * (SIDE + 1);
    const int across = (columns + SIDE - 1) / SIDE, tiles = (rows + SIDE - 1) / SIDE * across;
    const int pair = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    const int i0 = tile / across * SIDE, j0 = tile % across * SIDE;
    const int n = (int)row_sizes[pair], m = (int)column_sizes[pair];
    if (i0 >= n || j0 >= m) return;
    const REAL *from = x + rows_at[pair] * dim, *to = y + columns_at[pair] * dim;
    const double factor = shrink ? shrink[pair] : 1.0;
    const int row = threadIdx.x / STEP, column = threadIdx.x % STEP;
    const int n_own = min(SIDE, n - i0), n_other = min(SIDE, m - j0);
    const int down = (n_own + STEP - 1) / STEP, steps_across = (n_other + STEP - 1) / STEP;
    Seen seen = {(REAL)most, (REAL)0, false};
    Gap gap[EACH_WAY][EACH_WAY] = {};
    for (int first = 0; first < dim; first += DEPTH) {
        __syncthreads();
        stage(from + (i64)i0 * dim, n_own, first, dim, factor, own, seen);
        stage(to + (i64)j0 * dim, n_other, first, dim, factor, other, seen);
        __syncthreads();
        if (row < n_own && column < n_other)
            widen_some<EACH_WAY>(gap, down, steps_across, own + row, other + column);
    }
    if (refused && (seen.wild || (seen.largest > (REAL)0 && (double)seen.largest < least))) *refused = 1;
    double* table = out + (i64)pair * rows * columns;
#pragma unroll
    for (int a = 0; a < EACH_WAY; a++)
#pragma unroll
        for (int b = 0; b < EACH_WAY; b++) {
            const int i = i0 + row + STEP * a, j = j0 + column + STEP * b;
            if (i < n && j < m) table[(i64)i * columns + j] = raised(gap[a][b], power);
        }
}
