// Costs between the points of pairs of clouds, where points are long: a block makes a tile of up to 64 × 64 of them for one
// pair, and reads the coordinates of its points once. They are read as they are and summed in float64, in one order. What
// is smaller takes less: of the costs that threads have room for, a warp works on as many along each side as it needs.
//
// Defines (asot.exact.cuda.cloud_costs): METRIC, and REAL, the type of coordinates.

#include "points_metric.cuh"

constexpr int SIDE = 64, DEPTH = 16;            // of a tile; and of coordinates at a time
constexpr int STEP_DOWN = 16, STEP_ACROSS = 8;  // threads along the sides of a tile; those of a warp are a block of it
constexpr int MOST_DOWN = SIDE / STEP_DOWN, MOST_ACROSS = SIDE / STEP_ACROSS;  // costs of a thread
constexpr bool AHEAD = sizeof(REAL) < sizeof(double);  // coordinates come while others are worked on: registers suffice
constexpr int THREADS = STEP_DOWN * STEP_ACROSS, ROWS_OF_WARP = 32 / STEP_ACROSS;

// Up to SIDE points of one side, of which each thread moves some coordinates into shared memory.
struct Points {
    static constexpr int APART = THREADS / DEPTH, EACH_THREAD = SIDE / APART;
    const REAL* first;
    int count, dim;
    REAL value[EACH_THREAD];

    // Asks for the coordinates from `at` on.
    DEVICE void fetch(int at) {
        const int c = at + threadIdx.x % DEPTH, own = threadIdx.x / DEPTH;
#pragma unroll
        for (int k = 0; k < EACH_THREAD; k++) {
            const int point = own + APART * k;
            value[k] = c < dim && point < count ? first[(i64)point * dim + c] : (REAL)0;
        }
    }
    // Puts them, times `shrink`, to (DEPTH, SIDE + 1), and zeros behind the last point, up to a multiple of STEP_ACROSS.
    DEVICE void put(double shrink, double* staged) const {
        const int c = threadIdx.x % DEPTH, own = threadIdx.x / DEPTH;
#pragma unroll
        for (int k = 0; k < EACH_THREAD; k++)
            if (APART * k < count) staged[c * (SIDE + 1) + own + APART * k] = (double)value[k] * shrink;
    }
};
static_assert(Points::APART == STEP_ACROSS && STEP_ACROSS % ROWS_OF_WARP == 0, "what is read was put there");

// What a thread has seen of coordinates.
struct Seen {
    REAL most;  // ordinary sizes are below
    REAL largest;
    bool wild;  // whether a size was not, or was not a number
    DEVICE void look(const Points& points) {
#pragma unroll
        for (int k = 0; k < Points::EACH_THREAD; k++) {
            const REAL size = points.value[k] < (REAL)0 ? -points.value[k] : points.value[k];
            wild |= !(size < most);
            largest = size > largest ? size : largest;
        }
    }
};

typedef Gap Gaps[MOST_DOWN][MOST_ACROSS];

// Widens DOWN × ACROSS costs of a thread by all staged coordinates.
template <int DOWN, int ACROSS>
DEVICE void widen_all(Gaps& gap, const double* __restrict__ own, const double* __restrict__ other) {
    for (int c = 0; c < DEPTH; c++) {
        double here[DOWN], there[ACROSS];
#pragma unroll
        for (int a = 0; a < DOWN; a++) here[a] = own[c * (SIDE + 1) + STEP_DOWN * a];
#pragma unroll
        for (int b = 0; b < ACROSS; b++) there[b] = other[c * (SIDE + 1) + STEP_ACROSS * b];
#pragma unroll
        for (int a = 0; a < DOWN; a++)
#pragma unroll
            for (int b = 0; b < ACROSS; b++) widen(gap[a][b], here[a], there[b], 2.0);
    }
}

// The same for `across` ≤ MOST, and for `down` ≤ MOST.
template <int DOWN, int MOST>
DEVICE void widen_across(Gaps& gap, int across, const double* own, const double* other) {
    if (across == MOST) widen_all<DOWN, MOST>(gap, own, other);
    else if constexpr (MOST > 1) widen_across<DOWN, MOST - 1>(gap, across, own, other);
}
template <int MOST>
DEVICE void widen_some(Gaps& gap, int down, int across, const double* own, const double* other) {
    if (down == MOST) widen_across<MOST, MOST_ACROSS>(gap, across, own, other);
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
    const double factor = shrink ? shrink[pair] : 1.0;
    const int row = threadIdx.x / STEP_ACROSS, column = threadIdx.x % STEP_ACROSS;
    const int n_own = min(SIDE, n - i0), n_other = min(SIDE, m - j0);
    const int first_row = row / ROWS_OF_WARP * ROWS_OF_WARP;
    const int down = (max(n_own - first_row, 0) + STEP_DOWN - 1) / STEP_DOWN;
    const int steps_across = (n_other + STEP_ACROSS - 1) / STEP_ACROSS;
    Points from = {x + (rows_at[pair] + i0) * dim, n_own, dim}, to = {y + (columns_at[pair] + j0) * dim, n_other, dim};
    Seen seen = {(REAL)most, (REAL)0, false};
    if (AHEAD) from.fetch(0), to.fetch(0);
    Gaps gap = {};
    for (int first = 0; first < dim; first += DEPTH) {
        if (!AHEAD) from.fetch(first), to.fetch(first);
        __syncthreads();
        from.put(factor, own);
        to.put(factor, other);
        __syncthreads();
        seen.look(from);
        seen.look(to);
        if (AHEAD) from.fetch(first + DEPTH), to.fetch(first + DEPTH);  // after the last one, zeros
        widen_some<MOST_DOWN>(gap, down, steps_across, own + row, other + column);
    }
    if (refused && (seen.wild || (seen.largest > (REAL)0 && (double)seen.largest < least))) *refused = 1;
    double* table = out + (i64)pair * rows * columns;
#pragma unroll
    for (int a = 0; a < MOST_DOWN; a++)
#pragma unroll
        for (int b = 0; b < MOST_ACROSS; b++) {
            const int i = row + STEP_DOWN * a, j = column + STEP_ACROSS * b;
            if (i < n_own && j < n_other) table[(i64)(i0 + i) * columns + j0 + j] = raised(gap[a][b], power);
        }
}
