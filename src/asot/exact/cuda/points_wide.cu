// Exact optimal transport between distributions on their points: a network simplex per warp, for pairs that have more
// points left than points_narrow.cu takes (docs/method.md §8).
//
// The tree lies in shared memory, node x in the care of lane x mod 32, and pivots are those of exact_warp.cu. The costs
// of the pair lie in global memory, so they are looked at seldom: a look at some rows leaves a candidate for every
// column, and pivots take the best candidate as long as one improves. When looks at all rows, by high words, show no
// arc that certainly improves, a pass over all 64 bits finds one or proves the optimum.
//
// Defines (asot.exact.cuda.points_plan): ROW_WORDS and COLUMN_WORDS, 32 rows or columns each, WARP_BYTES of shared
// memory for each warp, THREADS of a block at most, BLOCKS per multiprocessor, TABLE, METRIC and BOUNDED.

#include "points_pair.cuh"
#include "points_wide_start.cuh"
#include "exact_warp_pivot.cuh"

constexpr int MOST_PIVOTS = 64 * NODES * NODES;
constexpr int ROWS_AT_A_TIME = COLUMN_WORDS <= 4 ? 4 : COLUMN_WORDS <= 8 ? 2 : 1;
constexpr int ROWS_PER_LOOK = 32;  // a short problem looks at some rows twice
constexpr int CERTAIN = -2;  // a sum of high words up to it improves, whatever the low words are

// Of each of a lane's columns, the row whose arc was the best when all rows were last looked at.
struct Candidates {
    int row[COLUMN_WORDS];
    int cost[COLUMN_WORDS];  // high word
};

// Look at some rows, from `turn` on, by high words; a candidate that is still better stays. What a row has beyond its
// columns is read too, and not looked at: a load behind a branch would wait for the one before.
DEVICE void find_candidates(
    const Tables& tables, const Problem& problem, const Tree& tree, int& turn, Candidates& candidates
) {
    const int* potential = (const int*)tree.row_potential + 1;  // high words
    int best[COLUMN_WORDS];
    EACH_WORD(s) best[s] = candidates.cost[s] - potential[2 * candidates.row[s]];
#pragma unroll 1
    for (int t0 = 0; t0 < ROWS_PER_LOOK; t0 += ROWS_AT_A_TIME) {
        int cost[ROWS_AT_A_TIME][COLUMN_WORDS], rows[ROWS_AT_A_TIME];
#pragma unroll
        for (int t = 0; t < ROWS_AT_A_TIME; t++) {
            rows[t] = turn;
            turn = turn + 1 == problem.n_rows ? 0 : turn + 1;
            EACH_WORD(s) cost[t][s] = tables.high[rows[t] * tables.stride + 32 * s + lane_id()];
        }
#pragma unroll
        for (int t = 0; t < ROWS_AT_A_TIME; t++) {
            const int height = potential[2 * rows[t]];
            EACH_WORD(s) {
                const bool better = cost[t][s] - height < best[s];
                best[s] = better ? cost[t][s] - height : best[s];
                candidates.row[s] = better ? rows[t] : candidates.row[s];
                candidates.cost[s] = better ? cost[t][s] : candidates.cost[s];
            }
        }
    }
}

// The best of the candidates; false if it may not improve.
DEVICE bool price(
    const Tables& tables, const Problem& problem, const Tree& tree, const i64 (&potential)[WORDS],
    const Candidates& candidates, Arc& arc
) {
    const int lane = lane_id();
    int best = 0, row = 0, column = 0;
    i64 column_potential = 0;
    EACH_WORD(s) {
        const i64 own = potential[ROW_WORDS + s];
        const int reduced = candidates.cost[s] + high_word(own) - high_word(tree.row_potential[candidates.row[s]]);
        if ((problem.own_columns >> (ROW_WORDS + s) & 1) && reduced < best) {
            best = reduced;
            row = candidates.row[s];
            column = 32 * s + lane;
            column_potential = own;
        }
    }
    const int best_of_all = warp_least(best);
    if (best_of_all > CERTAIN) return false;
    const int winner = first_set(__ballot_sync(ALL_LANES, best == best_of_all));
    row = __shfl_sync(ALL_LANES, row, winner);
    column = __shfl_sync(ALL_LANES, column, winner);
    column_potential = __shfl_sync(ALL_LANES, column_potential, winner);
    arc = {row, FIRST_COLUMN + column, cost_of(tables, row, column) + column_potential - tree.row_potential[row]};
    return true;
}

// The best arc by all 64 bits; false if none improves.
DEVICE bool price_exactly(
    const Tables& tables, const Problem& problem, const Tree& tree, const i64 (&potential)[WORDS], Arc& arc
) {
    const int lane = lane_id();
    arc = {0, 0, 0};
    for (int row = 0; row < problem.n_rows; row++) {
        const i64 row_potential = tree.row_potential[row];
        i64 cost[COLUMN_WORDS];
        EACH_WORD(s) cost[s] = cost_of(tables, row, 32 * s + lane);
        EACH_WORD(s) {
            const i64 reduced = cost[s] + potential[ROW_WORDS + s] - row_potential;
            const bool better = (problem.own_columns >> (ROW_WORDS + s) & 1) && reduced < arc.reduced_cost;
            if (better) arc = {row, FIRST_COLUMN + 32 * s + lane, reduced};
        }
    }
    const i64 least = warp_least(arc.reduced_cost);
    if (least == 0) return false;
    const int winner = first_set(__ballot_sync(ALL_LANES, arc.reduced_cost == least));
    arc = {__shfl_sync(ALL_LANES, arc.row, winner), __shfl_sync(ALL_LANES, arc.column, winner), least};
    return true;
}

// Pivot until no arc improves. Returns the number of pivots; MOST_PIVOTS, out of reach, would be too few.
DEVICE int improve(const Tables& tables, const Problem& problem, const Tree& tree, i64 (&potential)[WORDS]) {
    Candidates candidates;
    EACH_WORD(s) {
        candidates.row[s] = 0;
        candidates.cost[s] = tables.high[32 * s + lane_id()];
    }
    int turn = 0;
    for (int pivots = 0; pivots < MOST_PIVOTS; pivots++) {
        Arc arc;
        bool found = price(tables, problem, tree, potential, candidates, arc);
        for (int seen = 0; seen < problem.n_rows && !found; seen += ROWS_PER_LOOK) {
            find_candidates(tables, problem, tree, turn, candidates);
            found = price(tables, problem, tree, potential, candidates, arc);
        }
        if (!found && !price_exactly(tables, problem, tree, potential, arc)) return pivots;
        pivot(problem, tree, arc, potential);
    }
    return MOST_PIVOTS;
}

// Cost of the tree's flows, in integer units.
DEVICE double total_cost(const Tables& tables, const Problem& problem, const Tree& tree) {
    double total = 0;
    EACH_ROW_WORD(s) {
        const int r = 32 * s + lane_id();
        if (r < problem.n_rows)
            total += (double)tree.flow[r] * (double)cost_of(tables, r, tree.parent[r] - FIRST_COLUMN);
    }
    EACH_WORD(s) {
        const int node = FIRST_COLUMN + 32 * s + lane_id();
        if (problem.own_columns >> (ROW_WORDS + s) & 1 && tree.parent[node] != node)
            total += (double)tree.flow[node] * (double)cost_of(tables, tree.parent[node], 32 * s + lane_id());
    }
    return warp_sum(total);
}

// As points_narrow; `far` has room for the costs of all warps.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) points_wide(
    const i64* __restrict__ offsets, const int* __restrict__ point, const i64* __restrict__ mass,
    const double* __restrict__ distances, int n_points, int n_coordinates, double order, int exponent, int kind,
    i64 n_rows, i64 n_columns, const i64* __restrict__ listed, i64 start, int column_start,
    const int* __restrict__ list, const int* __restrict__ n_listed, int* __restrict__ taken, u32* far,
    const double* __restrict__ row_limits, const double* __restrict__ column_limits, double* __restrict__ values,
    i8* __restrict__ status, int* __restrict__ n_iter, u64* __restrict__ n_solved
) {
    DYNAMIC_SHARED(shared);
    const int lane = lane_id(), warp = threadIdx.x >> 5, count = *n_listed;
    constexpr int PLANE = FIRST_COLUMN * 32 * COLUMN_WORDS;
    char* own = shared + warp * WARP_BYTES;
    u32* own_far = far + (i64)(blockIdx.x * (blockDim.x >> 5) + warp) * 2 * PLANE;
    const Tree tree = {(i64*)own, (u16*)(own + PARENT_AT), (u32*)(own + BELOW_AT), (i64*)(own + ROW_POTENTIAL_AT),
                       (u16*)(own + ROW_AT)};
    const Collection collection = {offsets, point, mass, distances, n_points, n_coordinates, order};
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    int next = warp * gridDim.x + blockIdx.x;  // few pairs: one to each block before any gets a second
    u64 solved = 0;
    while (next < count) {
        const int t = list[next];
        int i, j;
        pair_at(pairs, start, t, &i, &j);
        Tables tables = {(int*)own_far, own_far + PLANE, 0};
        const Problem problem = lay_out(collection, i, j + column_start, tables, tree);
        i64 potential[WORDS];
        Start initial;
        integer_costs(problem, tables, tree, initial);
#if BOUNDED
        if (is_above(lower_bound(problem, tables, tree), problem.unit, exponent,
                     larger(row_limits[i], column_limits[j]))) {
            if (lane == 0) leave_out(t, values, status, n_iter);
            next = next_pair(taken, (blockDim.x >> 5) * gridDim.x);
            continue;
        }
#endif
        greedy_start(problem, tables, initial, tree);
        find_potentials(problem, tables, tree, potential);
        const int pivots = improve(tables, problem, tree, potential);
        const double total = total_cost(tables, problem, tree);
        if (lane == 0) {
            values[t] = value_of(total, problem.unit, exponent);
            status[t] = pivots == MOST_PIVOTS ? MAX_ITER : OPTIMAL;
            n_iter[t] = pivots;
            solved++;
        }
        next = next_pair(taken, (blockDim.x >> 5) * gridDim.x);
    }
    if (solved) atomicAdd(n_solved, solved);
}
