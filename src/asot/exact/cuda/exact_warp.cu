// Exact optimal transport on up to 512 nodes under one shared cost, a network simplex per warp (docs/method.md §8).
//
// The method is that of exact_lanes.cu, for problems whose sets of nodes do not fit into a machine word. All 32 lanes
// work on one pair, with the same control flow:
//
//  * Node x is in the care of lane x mod 32. When a row is priced, each lane looks at its own columns, whose
//    potentials it keeps in registers; when an arc enters, each lane finds out which of its own nodes are on the
//    cycle.
//  * A set of nodes is WORDS words, and lane w has word w: of the sets of a whole pair in a register, of a subtree in
//    shared memory.
//  * The sorted arcs come in chunks of 1,024. Lane w has the 32 arcs of word w of a chunk.
//
// Costs and potentials are int64, priced by their high words and certified as in exact_lanes.cu. The high words of
// the cost lie in shared memory if there is room. Along any path of the tree rows and columns alternate.
//
// Defines (asot.exact.cuda.tables): NODES, MASS_BITS, COST_BITS, TABLE_BYTES of shared memory for the high words (0: they
// stay in global memory), WARP_BYTES of it for each warp, THREADS per block, and TREES (0 or 1): whether to write the
// optimal trees too.

#include "exact.cuh"
#include "exact_warp_start.cuh"
#include "exact_warp_pivot.cuh"

DEVICE int warp_count(int value) {
    for (int far = 16; far > 0; far /= 2) value += __shfl_xor_sync(ALL_LANES, value, far);
    return value;
}

// The best arc of a block of rows, then of the next block, until one certainly improves; false after all rows.
DEVICE bool price(
    const Tables& tables, const Problem& problem, const Tree& tree, const i64 (&potential)[WORDS], int& turn, Arc& arc
) {
    const int lane = lane_id();
    int best = 0, rank = 0, best_of_all = 0;
    for (int scanned = 0; scanned < problem.n_rows && best_of_all > CERTAIN; scanned += ROWS_PER_BLOCK) {
#pragma unroll
        for (int t = 0; t < ROWS_PER_BLOCK; t++) {  // a short problem prices some rows twice
            const int* cost = tables.high + tree.row[turn] * NODES + lane;
            int least = 0x7fffffff;
#pragma unroll
            for (int s = 0; s < WORDS; s++) least = add_min(cost[32 * s], high_word(potential[s]), least);
            const int reduced = least - high_word(tree.row_potential[turn]);
            if (reduced < best) {
                best = reduced;
                rank = turn;
            }
            turn = turn + 1 == problem.n_rows ? 0 : turn + 1;
        }
        best_of_all = warp_min(best);
    }
    if (best_of_all > CERTAIN) return false;
    const int winner = first_set(__ballot_sync(ALL_LANES, best == best_of_all));
    rank = __shfl_sync(ALL_LANES, rank, winner);
    const int row = tree.row[rank];
    const i64 row_potential = tree.row_potential[rank];
    const int* cost = tables.high + row * NODES + lane;
    int column = lane;
    i64 column_potential = 0;
#pragma unroll
    for (int s = 0; s < WORDS; s++)
        if (cost[32 * s] + high_word(potential[s]) - high_word(row_potential) == best_of_all) {
            column = 32 * s + lane;
            column_potential = potential[s];
        }
    column = __shfl_sync(ALL_LANES, column, winner);
    column_potential = __shfl_sync(ALL_LANES, column_potential, winner);
    arc = {row, column, cost_of(tables, row, column) + column_potential - row_potential};
    return true;
}

// Whether no arc but the tree's has a reduced cost <= 0, judged by high words: those sum to <= 0 for all such arcs.
DEVICE bool only_tree_arcs_cost_nothing(
    const Tables& tables, const Problem& problem, const Tree& tree, const i64 (&potential)[WORDS]
) {
    int count = 0;
    for (int rank = 0; rank < problem.n_rows; rank++) {
        const int* cost = tables.high + tree.row[rank] * NODES + lane_id();
        const int row_potential = high_word(tree.row_potential[rank]);
#pragma unroll
        for (int s = 0; s < WORDS; s++) count += cost[32 * s] + high_word(potential[s]) <= row_potential;
    }
    return warp_count(count) == problem.n_rows + problem.n_columns - 1;
}

// The best arc by all 64 bits; its reduced cost is 0 if none improves.
DEVICE Arc price_exactly(
    const Tables& tables, const Problem& problem, const Tree& tree, const i64 (&potential)[WORDS]
) {
    const int lane = lane_id();
    Arc best = {0, 0, 0};
    for (int rank = 0; rank < problem.n_rows; rank++) {
        const int row = tree.row[rank];
        const i64 row_potential = tree.row_potential[rank];
#pragma unroll
        for (int s = 0; s < WORDS; s++) {
            const int column = 32 * s + lane;
            if (!(problem.own_columns >> s & 1)) continue;
            const i64 reduced = cost_of(tables, row, column) + potential[s] - row_potential;
            if (reduced < best.reduced_cost) best = {row, column, reduced};
        }
    }
    const i64 least = warp_min(best.reduced_cost);
    const int winner = first_set(__ballot_sync(ALL_LANES, best.reduced_cost == least));
    return {__shfl_sync(ALL_LANES, best.row, winner), __shfl_sync(ALL_LANES, best.column, winner), least};
}

// Pivot until no arc improves. Returns the number of pivots; MOST_PIVOTS, out of reach, would be too few.
DEVICE int improve(const Tables& tables, const Problem& problem, const Tree& tree, i64 (&potential)[WORDS]) {
    int turn = 0;
    for (int pivots = 0; pivots < MOST_PIVOTS; pivots++) {
        Arc arc;
        if (!price(tables, problem, tree, potential, turn, arc)) {
            if (only_tree_arcs_cost_nothing(tables, problem, tree, potential)) return pivots;
            arc = price_exactly(tables, problem, tree, potential);
            if (arc.reduced_cost == 0) return pivots;
        }
        pivot(problem, tree, arc, potential);
    }
    return MOST_PIVOTS;
}

// Cost of the tree's flows, summed in float64 from the unrounded costs.
DEVICE double total_cost(const Tables& tables, const Problem& problem, const Tree& tree) {
    double total = 0;
#pragma unroll
    for (int s = 0; s < WORDS; s++) {
        const int x = 32 * s + lane_id();
        const u32 nodes = __shfl_sync(ALL_LANES, problem.rows | problem.columns, s);
        if (nodes >> lane_id() & 1) total += (double)tree.flow[x] * tables.unit[x * NODES + tree.parent[x]];
    }
    return warp_sum(total);  // (the unit cost from the root to itself is 0)
}

#if TREES
// Mass on the arc to the parent, parent, and potential (source - sink = unit cost on tree arcs) of every node.
DEVICE void write_tree(
    const Problem& problem, const Tree& tree, const i64 (&potential)[WORDS], double* flow, short* parent,
    double* potentials
) {
    const int lane = lane_id();
    int rank = 0;
#pragma unroll
    for (int s = 0; s < WORDS; s++) {
        const int x = 32 * s + lane;
        const u32 rows = __shfl_sync(ALL_LANES, problem.rows, s);
        const bool is_row = rows >> lane & 1, is_node = is_row || (problem.own_columns >> s & 1);
        const i64 value = is_row ? tree.row_potential[rank + count_set(rows & ((1u << lane) - 1))] : potential[s];
        rank += count_set(rows);
        if (x >= NODES) continue;
        flow[x] = is_node ? ldexp((double)tree.flow[x], -MASS_BITS) : 0.0;
        parent[x] = is_node ? tree.parent[x] : x;
        const double height = ldexp((double)value, -COST_BITS);
        potentials[x] = !is_node ? nan("") : problem.swapped ? -height : height;
    }
}
#endif

// Values, status and pivots (count,) of the pairs at start..start+count-1. Histograms are (n_rows, NODES) and
// (n_columns, NODES) masses. The cost is 2^exponent times the unit cost. Every warp begins with a pair of its own and
// then takes others, until none is left; `taken`, 0 at first, counts those.
extern "C" __global__ void __launch_bounds__(THREADS, 1) exact_warp(
    const i64* __restrict__ row_masses, const i64* __restrict__ column_masses, int kind, i64 n_rows, i64 n_columns,
    const i64* __restrict__ listed, i64 start, int count, const int* __restrict__ high, const u32* __restrict__ low,
    const u32* __restrict__ masks, const u32* __restrict__ ends, int arc_chunks, const double* __restrict__ unit,
    int exponent, int* __restrict__ taken, double* __restrict__ values, i8* __restrict__ status,
    int* __restrict__ n_iter, double* __restrict__ flow, short* __restrict__ parent, double* __restrict__ potentials
) {
    DYNAMIC_SHARED(shared);
    for (int t = threadIdx.x; t < TABLE_BYTES / 4; t += THREADS) ((int*)shared)[t] = high[t];
    __syncthreads();
    const Tables tables = {TABLE_BYTES ? (const int*)shared : high, low, masks, ends, unit, arc_chunks};
    const int lane = lane_id(), warp = threadIdx.x >> 5;
    char* memory = shared + TABLE_BYTES + warp * WARP_BYTES;
    const Tree tree = {(i64*)memory, (u16*)(memory + PARENT_AT), (u32*)(memory + BELOW_AT), (i64*)(memory + BELOW_AT),
                       (i64*)(memory + ROW_POTENTIAL_AT), (u16*)(memory + ROW_AT), (u16*)(memory + ROW_POTENTIAL_AT)};
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    int t = warp * gridDim.x + blockIdx.x;  // few pairs: one to each block before any gets a second
    while (t < count) {
        int i, j;
        pair_at(pairs, start, t, &i, &j);
        const Problem problem = place_masses(row_masses + (i64)i * NODES, column_masses + (i64)j * NODES, tree);
        int pivots = 0;
        i64 potential[WORDS];
        if (problem.n_rows > 0) {
            const int root = greedy_start(tables, problem, tree);
            plant_tree(tables, problem, root, tree, potential);
            pivots = improve(tables, problem, tree, potential);
        }
        const double total = total_cost(tables, problem, tree);
        if (lane == 0) {
            values[t] = ldexp(total, exponent - MASS_BITS);
            status[t] = pivots == MOST_PIVOTS ? MAX_ITER : OPTIMAL;
            n_iter[t] = pivots;
        }
#if TREES
        const i64 first = (i64)t * NODES;
        write_tree(problem, tree, potential, flow + first, parent + first, potentials + first);
#endif
        __syncwarp();
        if (lane == 0) t = (THREADS / 32) * gridDim.x + atomicAdd(taken, 1);
        t = __shfl_sync(ALL_LANES, t, 0);
    }
}
