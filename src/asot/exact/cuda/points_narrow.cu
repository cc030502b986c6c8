// Exact optimal transport between distributions on their points: a network simplex per warp, for pairs that have at
// most 32 points left on one side and 32 COLUMN_WORDS on the other (docs/method.md §8).
//
// The method is that of exact_warp.cu. Here all 32 lanes work on a tree that lies in their registers: lane x has row x
// and the columns x + 32 s. Costs are those of the pair alone.
//
//  * The low bits of a key hold the row, so that the least key names its arc: an addition and a minimum for every row
//    and 32 columns. Such a pass leaves a candidate for every column, and pivots take the best of them as long as one
//    improves.
//  * Keys are made of high words, as in exact.cuh. When they show no arc that certainly improves, a pass over all 64
//    bits finds one or proves the optimum. So the basis is optimal for the integers, without a tolerance.
//
// Defines (asot.exact.cuda.points): COLUMN_WORDS, LOW_IS_NEAR (0 or 1): whether the low words of the costs lie in
// shared memory, WARP_BYTES of it for each warp, THREADS of a block at most, BLOCKS per multiprocessor, TABLE, METRIC and BOUNDED.

#include "points_pair.cuh"
#include "points_narrow_start.cuh"
#include "points_narrow_pivot.cuh"

constexpr int MOST_PIVOTS = 64 * NODES * NODES;
constexpr int CERTAIN = -(1 << ROW_BITS);  // a key below it improves, whatever the low words are

// The arc of least key among one candidate for each column: its row is in the low bits of `candidate`. False if it may
// not improve.
DEVICE bool price(
    const Problem& problem, const Memory& memory, const Tree& tree, const int (&candidate)[COLUMN_WORDS], Arc& arc
) {
    const int lane = lane_id();
    int best = NOTHING, word = 0;
    EACH_WORD(s) {
        if (32 * s + lane >= problem.n_columns) continue;
        const int row = candidate[s] & 31;
        const int key = memory.high[row * STRIDE + 32 * s + lane] + memory.row_key[row] +
                        (high_word(tree.column_potential[s]) << ROW_BITS);
        if (key < best) {
            best = key;
            word = s;
        }
    }
    const int best_of_all = warp_least(best);
    if (best_of_all >= CERTAIN) return false;
    const int winner = first_set(__ballot_sync(ALL_LANES, best == best_of_all));
    word = COLUMN_WORDS == 1 ? 0 : __shfl_sync(ALL_LANES, word, winner);
    arc.row = best_of_all & 31;
    arc.column = 32 * word + winner;
    arc.reduced_cost = cost_of(memory, arc.row, arc.column) +
                       __shfl_sync(ALL_LANES, pick(tree.column_potential, word), winner) -
                       __shfl_sync(ALL_LANES, tree.row_potential, arc.row);
    return true;
}

// The best arc by all 64 bits; false if none improves.
DEVICE bool price_exactly(const Problem& problem, const Memory& memory, const Tree& tree, Arc& arc) {
    const int lane = lane_id();
    arc = {0, 0, 0};
    for (int r = 0; r < problem.n_rows; r++) {
        const i64 row_potential = __shfl_sync(ALL_LANES, tree.row_potential, r);
        EACH_WORD(s) {
            if (32 * s + lane >= problem.n_columns) continue;
            const i64 reduced = cost_of(memory, r, 32 * s + lane) + tree.column_potential[s] - row_potential;
            if (reduced < arc.reduced_cost) arc = {r, 32 * s + lane, reduced};
        }
    }
    const i64 least = warp_least(arc.reduced_cost);
    if (least == 0) return false;
    const int winner = first_set(__ballot_sync(ALL_LANES, arc.reduced_cost == least));
    arc = {__shfl_sync(ALL_LANES, arc.row, winner), __shfl_sync(ALL_LANES, arc.column, winner), least};
    return true;
}

// Pivot until no arc improves. Returns the number of pivots; MOST_PIVOTS, out of reach, would be too few.
DEVICE int improve(const Problem& problem, const Memory& memory, Tree& tree) {
    memory.row_key[lane_id()] = -(high_word(tree.row_potential) << ROW_BITS);
    __syncwarp();
    int candidate[COLUMN_WORDS];
    find_least(problem, memory, candidate);
    for (int pivots = 0; pivots < MOST_PIVOTS; pivots++) {
        Arc arc;
        if (!price(problem, memory, tree, candidate, arc)) {
            find_least(problem, memory, candidate);
            if (!price(problem, memory, tree, candidate, arc) && !price_exactly(problem, memory, tree, arc))
                return pivots;
        }
        pivot(problem, memory, arc, tree);
    }
    return MOST_PIVOTS;
}

// Cost of the tree's flows, in integer units.
DEVICE double total_cost(const Problem& problem, const Memory& memory, const Tree& tree) {
    const int lane = lane_id();
    double total = 0;
    if (lane < problem.n_rows) total = (double)tree.row_flow * (double)cost_of(memory, lane, tree.row_parent);
    EACH_WORD(s) if (32 * s + lane < problem.n_columns && tree.column_parent[s] >= 0)
        total += (double)tree.column_flow[s] * (double)cost_of(memory, tree.column_parent[s], 32 * s + lane);
    return warp_sum(total);
}

// Values, status and pivots of the pairs on a list: positions in the tile that begins at `start`. Columns are counted
// from distribution column_start on. Distances are 2^exponent times those of the table or of the coordinates. `far` has
// room for the low words of all warps. Every warp begins with a pair of its own and then takes others, until none is
// left; `taken`, 0 at first, counts those.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) points_narrow(
    const i64* __restrict__ offsets, const int* __restrict__ point, const i64* __restrict__ mass,
    const double* __restrict__ distances, int n_points, int n_coordinates, double order, int exponent, int kind,
    i64 n_rows, i64 n_columns, const i64* __restrict__ listed, i64 start, int column_start,
    const int* __restrict__ list, const int* __restrict__ n_listed, int* __restrict__ taken, u32* far,
    const double* __restrict__ row_limits, const double* __restrict__ column_limits, double* __restrict__ values,
    i8* __restrict__ status, int* __restrict__ n_iter, u64* __restrict__ n_solved
) {
    DYNAMIC_SHARED(shared);
    const int lane = lane_id(), warp = threadIdx.x >> 5, count = *n_listed;
    char* own = shared + warp * WARP_BYTES;
    u32* own_far = far + (i64)(blockIdx.x * (blockDim.x >> 5) + warp) * PLANE;
    const Memory memory = {(int*)own, LOW_IS_NEAR ? (u32*)own + PLANE : own_far, (int*)(own + ROW_KEY_AT),
                           (int*)(own + WEIGHT_AT), (i64*)(own + FLOW_AT), (int*)(own + LOWER_AT)};
    const Collection collection = {offsets, point, mass, distances, n_points, n_coordinates, order};
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    int next = warp * gridDim.x + blockIdx.x;  // few pairs: one to each block before any gets a second
    u64 solved = 0;
    while (next < count) {
        const int t = list[next];
        int i, j;
        pair_at(pairs, start, t, &i, &j);
        Tree tree;
        const Problem problem = lay_out(collection, i, j + column_start, memory, tree);
        int column_key[COLUMN_WORDS];
        const int row_key = integer_costs(problem, memory, tree, column_key);
#if BOUNDED
        if (is_above(lower_bound(problem, memory, tree), problem.unit, exponent,
                     larger(row_limits[i], column_limits[j]))) {
            if (lane == 0) leave_out(t, values, status, n_iter);
            next = next_pair(taken, (blockDim.x >> 5) * gridDim.x);
            continue;
        }
#endif
        greedy_start(problem, memory, row_key, column_key, tree);
        find_potentials(problem, memory, tree);
        const int pivots = improve(problem, memory, tree);
        const double total = total_cost(problem, memory, tree);
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
