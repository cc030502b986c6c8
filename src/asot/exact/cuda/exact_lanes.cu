// Exact optimal transport on at most 64 nodes under one shared cost, a network simplex per lane (docs/method.md §8).
//
// A pair is solved by LANES lanes: one (NODES <= 32), or two that share the columns and climb the two sides of a
// cycle (NODES <= 64). Where its masses differ, a node is a row or a column; the rows are the smaller side.
//
//  * A set of nodes (rows, columns, a subtree) is one machine word.
//  * The potentials of the columns stay in registers, at fixed places; nodes that are no columns have one that never
//    wins. A row is priced without lists. What bounds the speed is shared memory: rows are priced by 16 bits of each
//    cost, two to a word. Strides are odd, so that lanes which price different rows read different banks.
//  * When 16 bits show no improvement, 32 bits certify the optimum by counting, or show an arc; where costs tie, a
//    pass over all 64 bits decides. So the basis is optimal for the integers, without a tolerance.
//  * The arcs are sorted once, for all pairs. The greedy start keeps a bitset of the arcs that are open, in that
//    order: the next arc is the first bit, and closing a node clears the bits of its arcs.
//  * A tree lies in shared memory, interleaved with those of the other pairs of the warp: any index, no bank
//    conflict.
//
// Trees are strongly feasible (arcs without flow point to the root), so the simplex cannot cycle. With two lanes,
// every word of a tree has one writer at a time, and a barrier of the two lanes stands between a write and another
// lane's read.
//
// Defines (asot.exact.cuda.tables): NODES, LANES, ARC_WORDS (32-bit words of the arc bitset that a lane holds at a
// time), ARC_CHUNKS (how many such portions there are), MASS_BITS, COST_BITS, COARSE_BITS, TABLE_BYTES and WARP_BYTES
// of shared memory, THREADS per block, and TREES (0 or 1): whether to write the optimal trees too.

#include "exact.cuh"
#include "exact_lanes_start.cuh"
#include "exact_lanes_pivot.cuh"

constexpr int COARSE_SHIFT = COST_BITS - 32 - COARSE_BITS;  // from a high word
constexpr int ROW_BITS = 6;  // of a reduced cost with its row
constexpr int UNCERTAIN = (CERTAIN + 1) * (1 << ROW_BITS);
constexpr u32 NOTHING_FOUND = 0x7fff7fffu;
constexpr u32 SOME_HALF = (1u << COARSE_WORDS) - 1 + (((1u << COLUMNS / 2) - 1) << 16);  // bit w: a column in word w

// Where cyclic pricing stands: the rows still to come in this round, and the rank of the first of them.
struct Turn {
    Set to_come;
    int rank;
};

// Two numbers of 16 bits in a word. Numbers beyond 16 bits become the nearest that fits.
DEVICE u32 packed(int low, int high) {
#if __CUDA_ARCH__ >= 720
    u32 word;
    asm("cvt.pack.sat.s16.s32 %0, %1, %2;" : "=r"(word) : "r"(high), "r"(low));
    return word;
#else
    return (u32)(min(max(low, -32768), 32767) & 0xffff) | (u32)min(max(high, -32768), 32767) << 16;
#endif
}
DEVICE u32 add_min_packed(u32 x, u32 y, u32 bound) {
#ifdef __CUDA_ARCH__
    return __viaddmin_s16x2(x, y, bound);
#else
    const int low = (short)(x + y), high = (short)((x >> 16) + (y >> 16));
    return packed(min(low, (int)(short)bound), min(high, (int)bound >> 16));
#endif
}
// For each half, whether x + y is not 0.
DEVICE u32 sums_not_zero(u32 x, u32 y) {
#ifdef __CUDA_ARCH__
    return __viaddmin_u16x2(x, y, 0x00010001u);
#else
    return (u32)((x + y & 0xffff) != 0) | (u32)((x >> 16) + (y >> 16) & 0xffff ? 1 << 16 : 0);
#endif
}
DEVICE int coarse_level(i64 row_potential) { return (high_word(row_potential) >> COARSE_SHIFT) - (1 << COARSE_BITS); }
DEVICE int lesser_half(u32 word) { return min((int)(short)word, (int)word >> 16); }

// The upper bits of this lane's potentials. Costs have 2^COARSE_BITS subtracted, so that no sum is too large for 16
// bits.
DEVICE void pack_potentials(const i64 (&potential)[COLUMNS], u32 (&coarse)[COARSE_WORDS]) {
#pragma unroll
    for (int w = 0; w < COARSE_WORDS; w++) {
        const i64 next = 2 * w + 1 < COLUMNS ? potential[2 * w + 1 < COLUMNS ? 2 * w + 1 : 0] : NEVER;
        coarse[w] = packed(high_word(potential[2 * w]) >> COARSE_SHIFT, high_word(next) >> COARSE_SHIFT);
    }
}

// The arc of a row and a column that the better of the team's lanes has found, with its reduced cost. A column hangs
// on a row, and so its potential is found without a look into registers; that of the root is 0 always.
DEVICE Arc arc_of(
    const Team& team, const Tables& tables, const Problem& problem, const Tree& tree, int row, int column, bool mine
) {
    column += team.first_column;
    if (LANES == 2) {
        const int winner = (team.lane & 30) | (mine ? team.half : 1 - team.half);
        row = __shfl_sync(team.mask, row, winner);
        column = __shfl_sync(team.mask, column, winner);
    }
    const int parent = parent_of(tree.arc[column]);
    i64 reduced_cost = cost_of(tables, row, column) - tree.row_potential[rank_of(problem, row)];
    if (has(problem.rows, parent))
        reduced_cost += tree.row_potential[rank_of(problem, parent)] - cost_of(tables, parent, column);
    return {row, column, reduced_cost};
}

// The best arc of a block of rows by 16 bits, then of the next block, until one improves; false after all rows.
DEVICE bool price(
    const Team& team, const Tables& tables, const Problem& problem, const Tree& tree, const i64 (&potential)[COLUMNS],
    Turn& turn, Arc& arc
) {
    u32 coarse[COARSE_WORDS];
    pack_potentials(potential, coarse);
    int scanned = 0, own = UNCERTAIN, other = UNCERTAIN, best = UNCERTAIN;  // reduced costs, with rows in the low bits
    while (scanned < problem.n_rows && best >= UNCERTAIN) {
        const int count = min(problem.n_rows - scanned, ROWS_PER_BLOCK);
        for (int t = 0; t < count; t++) {
            if (!turn.to_come) turn = {problem.rows, 0};
            const int x = first_set(turn.to_come);
            const u32* cost = tables.coarse + x * COARSE_STRIDE + team.half * COARSE_WORDS;
            u32 leasts[2] = {NOTHING_FOUND, NOTHING_FOUND};
#pragma unroll
            for (int w = 0; w < COARSE_WORDS; w++) leasts[w & 1] = add_min_packed(cost[w], coarse[w], leasts[w & 1]);
            const int least = lesser_half(add_min_packed(leasts[0], 0, leasts[1]));
            own = min(own, (least - coarse_level(tree.row_potential[turn.rank])) * (1 << ROW_BITS) + x);
            turn = {without_first(turn.to_come), turn.rank + 1};
        }
        scanned += count;
        if (LANES == 2) other = of_partner(team, own);
        best = LANES == 2 ? min(own, other) : own;
    }
    if (best >= UNCERTAIN) return false;
    const int row = own & ((1 << ROW_BITS) - 1);
    const int sum = (own >> ROW_BITS) + coarse_level(tree.row_potential[rank_of(problem, row)]);
    const u32* cost = tables.coarse + row * COARSE_STRIDE + team.half * COARSE_WORDS;
    const u32 less_sum = (u32)(-sum & 0xffff) * 0x00010001u;
    u32 others = 0;  // bit w: column 2 w has another sum; bit 16 + w: column 2 w + 1
#pragma unroll
    for (int w = 0; w < COARSE_WORDS; w++)
        others |= sums_not_zero(add_min_packed(cost[w], coarse[w], NOTHING_FOUND), less_sum) << w;
    const int at = max(first_set(~others & SOME_HALF), 0);
    const bool mine = own < other || (own == other && team.half == 0);
    arc = arc_of(team, tables, problem, tree, row, at < 16 ? 2 * at : 2 * at - 31, mine);
    return has(problem.columns, arc.column) && arc.reduced_cost < 0;  // not so only if potentials are beyond 16 bits
}

// Look at all arcs by 32 bits. True if no arc but the tree's has a reduced cost <= 0: their high words sum to <= 0,
// and so do those of any other such arc. Otherwise `arc` is one that improves, if there is a certain one.
DEVICE bool certify(
    const Team& team, const Tables& tables, const Problem& problem, const Tree& tree, const i64 (&potential)[COLUMNS],
    Arc& arc
) {
    int count = 0, rank = 0, best = 0, row = 0, best_level = 0, other = 0, column = 0;
    for (Set r = problem.rows; r; r = without_first(r), rank++) {
        const int x = first_set(r), level = ~high_word(tree.row_potential[rank]);  // -potential - 1
        const int* cost = tables.high + x * STRIDE + team.first_column;
        int least = 0;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const int sum = cost[c] + high_word(potential[c]) + level;
            count += (u32)sum >> 31;
            least = min(least, sum);
        }
        if (least < best) {
            best = least;
            row = x;
            best_level = level;
        }
    }
    if (LANES == 2) {
        count += of_partner(team, count);
        other = of_partner(team, best);
    }
    if (count == problem.n_rows + problem.n_columns - 1) return true;
    arc.reduced_cost = 0;
    if (min(best, other) >= CERTAIN) return false;  // (the sums are one too low)
    const int* cost = tables.high + row * STRIDE + team.first_column;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
        if (cost[c] + high_word(potential[c]) + best_level == best) column = c;
    arc = arc_of(team, tables, problem, tree, row, column, best < other || (best == other && team.half == 0));
    return false;
}

// The best arc by all 64 bits; its reduced cost is 0 if none improves.
DEVICE Arc price_exactly(
    const Team& team, const Tables& tables, const Problem& problem, const Tree& tree, const i64 (&potential)[COLUMNS]
) {
    Arc best = {0, 0, 0};
    int rank = 0;
    for (Set r = problem.rows; r; r = without_first(r), rank++) {
        const int row = first_set(r), at = row * STRIDE + team.first_column;
        i64 least = TOP;
        int column = 0;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const i64 sum = (((i64)tables.high[at + c] << 32) | tables.low[at + c]) + potential[c];
            if (sum < least) {
                least = sum;
                column = c;
            }
        }
        least -= tree.row_potential[rank];
        if (least < best.reduced_cost) best = {row, team.first_column + column, least};
    }
    if (LANES == 2) {
        const i64 other = of_partner(team, best.reduced_cost);
        const bool mine = best.reduced_cost < other || (best.reduced_cost == other && team.half == 0);
        const int winner = (team.lane & 30) | (mine ? team.half : 1 - team.half);
        best.row = __shfl_sync(team.mask, best.row, winner);
        best.column = __shfl_sync(team.mask, best.column, winner);
        best.reduced_cost = __shfl_sync(team.mask, best.reduced_cost, winner);
    }
    return best;
}

// Pivot until no arc improves. Lanes that see no improvement wait for the others: what comes then is the same long
// straight code for all of them. Returns the number of pivots; MOST_PIVOTS, out of reach, would be too few.
DEVICE int improve(
    const Team& team, const Tables& tables, const Problem& problem, const Tree& tree, i64 (&potential)[COLUMNS]
) {
    int pivots = 0;
    Turn turn = {problem.rows, 0};
    Arc arc = {0, 0, 0};
    bool busy = problem.n_rows > 0, found = false;
    while (__any_sync(ALL_LANES, busy)) {
        while (busy) {
            if (!found && !price(team, tables, problem, tree, potential, turn, arc)) break;
            found = false;
            const Moved moved = LANES == 2 ? pivot_together(team, tree, arc) : pivot_alone(tree, arc);
            shift_potentials(team, problem, tree, moved, arc.reduced_cost, potential);
            if (++pivots == MOST_PIVOTS) busy = false;
        }
        __syncwarp();
        if (busy && certify(team, tables, problem, tree, potential, arc)) busy = false;
        __syncwarp();
        if (busy && arc.reduced_cost == 0) arc = price_exactly(team, tables, problem, tree, potential);
        busy = found = busy && arc.reduced_cost < 0;
    }
    return pivots;
}

// Cost of the tree's flows, summed in float64 from the unrounded costs.
DEVICE double total_cost(const Team& team, const Tables& tables, const Problem& problem, const Tree& tree) {
    double total = 0;
    for (Set r = (problem.rows | problem.columns) & share(team); r; r = without_first(r)) {
        const int x = first_set(r);
        const i64 word = tree.arc[x];
        total += (double)(word >> PARENT_BITS) * tables.unit[x * NODES + parent_of(word)];  // 0 at the root
    }
    if (LANES == 2) total += of_partner(team, total);
    return total;
}

#if TREES
// Mass on the arc to the parent, parent, and potential (source - sink = unit cost on tree arcs) of a lane's nodes.
DEVICE void write_tree(
    const Team& team, const Problem& problem, const Tree& tree, const i64 (&potential)[COLUMNS], double* flow,
    short* parent, double* potentials
) {
    const Set nodes = problem.rows | problem.columns;
    int rank = rank_of(problem, team.first_column);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int x = team.first_column + c;
        if (x >= NODES) continue;
        const bool is_row = has(problem.rows, x), is_node = has(nodes, x);
        const i64 value = is_row ? tree.row_potential[rank] : potential[c];
        rank += is_row;
        flow[x] = is_node ? ldexp((double)(tree.arc[x] >> PARENT_BITS), -MASS_BITS) : 0.0;
        parent[x] = is_node ? parent_of(tree.arc[x]) : x;
        const double height = ldexp((double)value, -COST_BITS);
        potentials[x] = !is_node ? nan("") : problem.swapped ? -height : height;
    }
}
#endif

// Values, status and pivots (count,) of the pairs at start..start+count-1. Histograms are (NODES, n_rows) and (NODES,
// n_columns) masses, shifted by PARENT_BITS. The cost is 2^exponent times the unit cost. Every warp begins with a
// batch of pairs of its own and then takes others, until none is left; `taken`, 0 at first, counts those.
extern "C" __global__ void __launch_bounds__(THREADS, 1) exact_lanes(
    const i64* __restrict__ row_masses, const i64* __restrict__ column_masses, int kind, i64 n_rows, i64 n_columns,
    const i64* __restrict__ listed, i64 start, int count, const u32* __restrict__ tables, const u32* __restrict__ low,
    const double* __restrict__ unit, int exponent, int* __restrict__ taken, double* __restrict__ values,
    i8* __restrict__ status, int* __restrict__ n_iter, double* __restrict__ flow, short* __restrict__ parent,
    double* __restrict__ potentials
) {
    DYNAMIC_SHARED(shared);
    u32* words = (u32*)shared;
    for (int t = threadIdx.x; t < TABLE_BYTES / 4; t += THREADS) words[t] = tables[t];
    __syncthreads();
    const Tables near = {ALL_NEAR ? (const double*)(words + UNIT_AT) : unit,
                         (const int*)(words + HIGH_AT),
                         ALL_NEAR ? words + LOW_AT : low,
                         words + COARSE_AT,
                         words + MASKS_AT,
                         (const u16*)(words + ENDS_AT)};
    const int lane = threadIdx.x & 31, half = lane % LANES, slot = lane / LANES, warp = threadIdx.x >> 5;
    const Team team = {lane, half, half * COLUMNS, LANES == 2 ? 3u << (lane & 30) : 1u << lane};
    char* memory = shared + TABLE_BYTES + warp * WARP_BYTES;
    const Tree tree = {{(i64*)memory + slot},
                       {(i64*)(memory + BELOW_AT * PAIRS) + slot},
                       {(Set*)(memory + BELOW_AT * PAIRS) + slot},
                       {(i64*)(memory + ROW_POTENTIAL_AT * PAIRS) + slot}};
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    int batch = warp * gridDim.x + blockIdx.x;  // few batches: one to each block before any gets a second
    while (batch * PAIRS < count) {
        const int t = batch * PAIRS + slot;
        int i, j;
        pair_at(pairs, start, min(t, count - 1), &i, &j);
        const Problem problem =
            place_masses(team, row_masses + i, n_rows, column_masses + j, n_columns, t < count, tree);
        i64 potential[COLUMNS];
        Stack closed;
        const int root = greedy_start(team, near, problem, tree, closed);
        plant_tree(team, near, problem, root, closed, tree, potential);
        const int pivots = improve(team, near, problem, tree, potential);
        __syncwarp();
        const double total = total_cost(team, near, problem, tree);
        if (t < count && half == 0) {
            values[t] = ldexp(total, exponent - MASS_BITS);
            status[t] = pivots == MOST_PIVOTS ? MAX_ITER : OPTIMAL;
            n_iter[t] = pivots;
        }
#if TREES
        const i64 first = (i64)t * NODES;
        if (t < count)
            write_tree(team, problem, tree, potential, flow + first, parent + first, potentials + first);
#endif
        if (lane == 0) batch = (THREADS / 32) * gridDim.x + atomicAdd(taken, 1);
        batch = __shfl_sync(ALL_LANES, batch, 0);
    }
}
