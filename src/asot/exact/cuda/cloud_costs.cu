// Costs between the points of pairs of clouds, where points are long: a block makes a tile of 32 × 32 of them for one
// pair, and reads the coordinates of its points once. They are read as they are and summed in float64, in one order.
//
// Defines (asot.exact.cuda.cloud_costs): METRIC, and REAL, the type of coordinates.

#include "points_metric.cuh"

constexpr int SIDE = 32, DEPTH = 16;   // of a tile; and of coordinates at a time
constexpr int STEP = 8, EACH_WAY = 4;  // threads and, of a thread, costs along each side of a tile
constexpr int THREADS = STEP * STEP;

// Coordinates of a side's points from `start` on, times `shrink`, into shared memory (DEPTH, SIDE + 1).
DEVICE void stage(
    const REAL* __restrict__ points, int start, int n, int first, int dim, double shrink, double* __restrict__ staged
) {
    for (int t = threadIdx.x; t < DEPTH * SIDE; t += THREADS) {
        const int own = t / DEPTH, c = t % DEPTH;
        const bool inside = first + c < dim && start + own < n;
        staged[c * (SIDE + 1) + own] = inside ? (double)points[(i64)(start + own) * dim + first + c] * shrink : 0.0;
    }
}

// Entry (i, j) of problem t goes to out[t · rows · columns + i · columns + j]; `rows` and `columns` are the most of any.
extern "C" __global__ void __launch_bounds__(THREADS) price_clouds(
    const REAL* __restrict__ x, const REAL* __restrict__ y, int dim, const i64* __restrict__ rows_at,
    const i64* __restrict__ row_sizes, const i64* __restrict__ columns_at, const i64* __restrict__ column_sizes,
    const double* __restrict__ shrink, double power, int rows, int columns, double* __restrict__ out
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
    Gap gap[EACH_WAY][EACH_WAY] = {};
    for (int first = 0; first < dim; first += DEPTH) {
        __syncthreads();
        stage(from, i0, n, first, dim, factor, own);
        stage(to, j0, m, first, dim, factor, other);
        __syncthreads();
        if (i0 + row >= n || j0 + column >= m) continue;  // nothing of this thread's is inside
#pragma unroll 4
        for (int c = 0; c < DEPTH; c++)
#pragma unroll
            for (int a = 0; a < EACH_WAY; a++)
#pragma unroll
                for (int b = 0; b < EACH_WAY; b++)
                    widen(gap[a][b], own[c * (SIDE + 1) + row + STEP * a], other[c * (SIDE + 1) + column + STEP * b], 2.0);
    }
    double* table = out + (i64)pair * rows * columns;
#pragma unroll
    for (int a = 0; a < EACH_WAY; a++)
#pragma unroll
        for (int b = 0; b < EACH_WAY; b++) {
            const int i = i0 + row + STEP * a, j = j0 + column + STEP * b;
            if (i < n && j < m) table[(i64)i * columns + j] = raised(gap[a][b], power);
        }
}
