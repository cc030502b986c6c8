// Exact optimal transport between distributions on their points: a pair per block, for pairs that have more points left
// than points_narrow.cu takes (docs/method.md §8).
//
// Defines (asot.exact.cuda.points_plan): ROWS, COLUMNS and THREADS of block_tree.cuh, COST_BITS, BLOCK_BYTES of shared
// memory, BLOCKS per multiprocessor, TABLE, METRIC and BOUNDED.

#include "points_pair.cuh"
#include "block_simplex.cuh"

static_assert(COLUMNS % 32 == 0, "rows of costs are padded to whole warps");
static_assert(24 * COLUMNS <= 20 * NODES, "lists of points and masses fit behind the flows");
static_assert(BLOCK_BYTES == (TREE_BYTES + 15) / 16 * 16 + 32 * WARPS + 16, "the host counts otherwise");

// Points, masses and distances of both sides. Masses go to the flows of the tree, lists lie where the rest of it is later.
DEVICE Problem lay_out(const Collection& c, int i, int j, Tables& tables, const Tree& tree, int* counts) {
    i64* masses = tree.potential;
    int* points = (int*)(masses + 2 * COLUMNS);
    const int warp = threadIdx.x >> 5;
    if (warp == 0) {
        const int count = surplus(c, i, j, points, masses);
        if (lane_id() == 0) counts[0] = count;
    }
    if (warp == WARPS - 1) {
        const int count = surplus(c, j, i, points + COLUMNS, masses + COLUMNS);
        if (lane_id() == 0) counts[1] = count;
    }
    meet();
    const bool swapped = counts[0] > counts[1];
    Problem problem = {counts[swapped], counts[!swapped], 0};
    tables.stride = (problem.n_columns + 31) & ~31;
    const int rows_at = swapped ? COLUMNS : 0, columns_at = COLUMNS - rows_at;
    for (int node = threadIdx.x; node < problem.n_rows + problem.n_columns; node += THREADS)
        tree.flow[node] = masses[node < problem.n_rows ? rows_at + node : columns_at + node - problem.n_rows];
    int largest = 0;
    const auto row = [&](int r) { return points[rows_at + r]; };
    const auto column = [&](int k) { return points[columns_at + k]; };
    const auto keep = [&](int r, int k, double far) {
        const i64 bits = __double_as_longlong(far);
        tables.high[r * tables.stride + k] = high_word(bits);
        tables.low[r * tables.stride + k] = (u32)bits;
        largest = max(largest, high_word(bits));
    };
    if (BY_WARPS && c.n_coordinates >= LONG)
        long_distances(c, problem.n_rows, row, problem.n_columns, column, keep);
    else
        for (int r = warp; r < problem.n_rows; r += WARPS)
            for (int k = lane_id(); k < problem.n_columns; k += 32)
                keep(r, k, swapped ? distance(c, column(k), row(r)) : distance(c, row(r), column(k)));
    meet();
    problem.unit = -largest;
    return problem;
}

// Distances to integer costs; `problem.unit` comes as the largest high word of this thread, negative.
DEVICE void integer_costs(Problem& problem, const Tables& tables, Board& board) {
    problem.unit = unit_exponent(-(int)block_least({problem.unit, 0}, board).value);
    const double scale = ldexp(1.0, COST_BITS - problem.unit);
    for (int r = threadIdx.x >> 5; r < problem.n_rows; r += WARPS)
        for (int k = lane_id(); k < problem.n_columns; k += 32) {
            const int at = r * tables.stride + k;
            const i64 cost = integer_cost(tables.high[at], tables.low[at], scale);
            tables.high[at] = high_word(cost);
            tables.low[at] = (u32)cost;
        }
    meet();
}

#if BOUNDED
// The better of two lower bounds, with least costs of the columns first, and of the rows: masses times high words.
DEVICE double lower_bound(const Problem& problem, const Tables& tables, const Tree& tree, Board& board) {
    int *row_least = (int*)tree.path, *column_least = row_least + problem.n_rows;
    const int warp = threadIdx.x >> 5;
    double rows_first = 0, columns_first = 0;
    for (int r = warp; r < problem.n_rows; r += WARPS) {
        int least = NOTHING;
        for (int k = lane_id(); k < problem.n_columns; k += 32) least = min(least, tables.high[r * tables.stride + k]);
        least = warp_least(least);
        if (lane_id() == 0) {
            row_least[r] = least;
            rows_first += (double)tree.flow[r] * (double)least;
        }
    }
    meet();
    for (int k = threadIdx.x; k < problem.n_columns; k += THREADS) {
        int least = NOTHING, left = NOTHING;
        for (int r = 0; r < problem.n_rows; r++) {
            const int cost = tables.high[r * tables.stride + k];
            least = min(least, cost);
            left = min(left, cost - row_least[r]);
        }
        column_least[k] = least;
        columns_first += (double)tree.flow[problem.n_rows + k] * (double)least;
        rows_first += (double)tree.flow[problem.n_rows + k] * (double)left;
    }
    meet();
    for (int r = warp; r < problem.n_rows; r += WARPS) {
        int left = NOTHING;
        for (int k = lane_id(); k < problem.n_columns; k += 32)
            left = min(left, tables.high[r * tables.stride + k] - column_least[k]);
        left = warp_least(left);
        if (lane_id() == 0) columns_first += (double)tree.flow[r] * (double)left;
    }
    rows_first = block_sum(rows_first, board);
    return larger(rows_first, block_sum(columns_first, board));
}
#endif

// Cost of the tree's flows, in integer units.
DEVICE double total_cost(const Problem& problem, const Tables& tables, const Tree& tree, Board& board) {
    double total = 0;
    for (int node = threadIdx.x; node < problem.n_rows + problem.n_columns; node += THREADS)
        if (tree.parent[node] != node)
            total += (double)tree.flow[node] * (double)cost_above(problem, tables, tree, node);
    return block_sum(total, board);
}

// As points_narrow; `far` has room for the costs of all blocks.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) points_block(
    const i64* __restrict__ offsets, const int* __restrict__ point, const i64* __restrict__ mass,
    const double* __restrict__ distances, int n_points, int n_coordinates, double order, int exponent, int kind,
    i64 n_rows, i64 n_columns, const i64* __restrict__ listed, i64 start, int column_start,
    const int* __restrict__ list, const int* __restrict__ n_listed, int* __restrict__ taken, u32* far,
    const double* __restrict__ row_limits, const double* __restrict__ column_limits, double* __restrict__ values,
    i8* __restrict__ status, int* __restrict__ n_iter, u64* __restrict__ n_solved
) {
    DYNAMIC_SHARED(shared);
    char* behind = shared + (TREE_BYTES + 15) / 16 * 16;
    const Tree tree = tree_at(shared);
    Board board = {(Least*)behind, 0};
    int* slots = (int*)(behind + 32 * WARPS);
    const int count = *n_listed;
    const i64 plane = (i64)ROWS * COLUMNS;
    u32* own_far = far + (i64)blockIdx.x * 2 * plane;
    const Collection collection = {offsets, point, mass, distances, n_points, n_coordinates, order};
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    u64 solved = 0;
    for (int next = blockIdx.x; next < count; next = next_of_block(taken, slots + 2)) {
        const int t = list[next];
        int i, j;
        pair_at(pairs, start, t, &i, &j);
        Tables tables = {(int*)own_far, own_far + plane, 0};
        Problem problem = lay_out(collection, i, j + column_start, tables, tree, slots);
        integer_costs(problem, tables, board);
#if BOUNDED
        if (is_above(lower_bound(problem, tables, tree, board), problem.unit, exponent,
                     larger(row_limits[i], column_limits[j]))) {
            if (threadIdx.x == 0) leave_out(t, values, status, n_iter);
            continue;
        }
        meet();
#endif
        const int pivots = solve_block(problem, tables, tree, board);
        const double total = total_cost(problem, tables, tree, board);
        if (threadIdx.x == 0) {
            values[t] = value_of(total, problem.unit, exponent);
            status[t] = pivots == MOST_PIVOTS ? MAX_ITER : OPTIMAL;
            n_iter[t] = pivots;
            solved++;
        }
    }
    if (solved) atomicAdd(n_solved, solved);
}
