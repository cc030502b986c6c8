// Exact optimal transport: a network simplex per block, for problems of any size that fit into shared memory.
//
// Costs lie in global memory, so they are looked at seldom: a look at some rows leaves a candidate for every column, and
// pivots take the best candidate as long as it improves by a quarter of what the best one did after the look: a sixth
// fewer pivots than with all that improve, for a few more looks. Looks compare high words. When looks at all rows leave
// no candidate that improves, they compare all 64 bits from then on; when these find none either, the tree is optimal.
//
// Costs are at most 2^COST_BITS. A potential is a sum along a path of the tree, in which rows and columns alternate, so
// none exceeds 2^COST_BITS times the number of rows.

#include "block_tree.cuh"
#include "block_start.cuh"

constexpr int MOST_PIVOTS = 1 << 30;
constexpr int OWN_COLUMNS = (COLUMNS + THREADS - 1) / THREADS;
constexpr int ROWS_AT_A_TIME = 4;
constexpr int ROWS_PER_LOOK = 32;
constexpr int ENOUGH_SHIFT = 2;

#define EACH_OWN(s) _Pragma("unroll") for (int s = 0; s < OWN_COLUMNS; s++)

// Of each of a thread's columns, threadIdx.x + s THREADS, the row whose arc was the best when it was looked at.
struct Candidates {
    int row[OWN_COLUMNS];
    i64 cost[OWN_COLUMNS];
};

DEVICE int own_column(const Problem& problem, int s) { return min((int)threadIdx.x + s * THREADS, problem.n_columns - 1); }

// Look at some rows, from `turn` on; a candidate that is still better stays.
DEVICE void look(const Problem& problem, const Tables& tables, const Tree& tree, int& turn, Candidates& candidates) {
    const int* height = (const int*)tree.potential + 1;  // high words
    int best[OWN_COLUMNS], high[OWN_COLUMNS];
    EACH_OWN(s) {
        high[s] = high_word(candidates.cost[s]);
        best[s] = high[s] - height[2 * candidates.row[s]];
    }
#pragma unroll 1
    for (int t0 = 0; t0 < ROWS_PER_LOOK; t0 += ROWS_AT_A_TIME) {
        int cost[ROWS_AT_A_TIME][OWN_COLUMNS], rows[ROWS_AT_A_TIME];
#pragma unroll
        for (int t = 0; t < ROWS_AT_A_TIME; t++) {
            rows[t] = turn;
            turn = turn + 1 == problem.n_rows ? 0 : turn + 1;
            EACH_OWN(s) cost[t][s] = tables.high[rows[t] * tables.stride + own_column(problem, s)];
        }
#pragma unroll
        for (int t = 0; t < ROWS_AT_A_TIME; t++) {
            const int own = height[2 * rows[t]];
            EACH_OWN(s) {
                const bool better = cost[t][s] - own < best[s];
                best[s] = better ? cost[t][s] - own : best[s];
                high[s] = better ? cost[t][s] : high[s];
                candidates.row[s] = better ? rows[t] : candidates.row[s];
            }
        }
    }
    EACH_OWN(s) {
        const u32 low = tables.low[candidates.row[s] * tables.stride + own_column(problem, s)];
        candidates.cost[s] = (i64)high[s] << 32 | low;
    }
}

// The same by all bits.
DEVICE void look_exactly(
    const Problem& problem, const Tables& tables, const Tree& tree, int& turn, Candidates& candidates
) {
#pragma unroll 1
    for (int t = 0; t < ROWS_PER_LOOK; t++) {
        const i64 own = tree.potential[turn];
        EACH_OWN(s) {
            const i64 cost = cost_of(tables, turn, own_column(problem, s));
            const bool better = cost - own < candidates.cost[s] - tree.potential[candidates.row[s]];
            candidates.cost[s] = better ? cost : candidates.cost[s];
            candidates.row[s] = better ? turn : candidates.row[s];
        }
        turn = turn + 1 == problem.n_rows ? 0 : turn + 1;
    }
}

// The best of all candidates: its reduced cost, negative if it improves, and its row and column.
DEVICE Least price(const Problem& problem, const Tree& tree, const Candidates& candidates, Board& board) {
    Least best = {0, NOTHING};
    EACH_OWN(s) {
        const int column = own_column(problem, s), row = candidates.row[s];
        const i64 reduced = candidates.cost[s] + tree.potential[problem.n_rows + column] - tree.potential[row];
        if (reduced < best.value) best = {reduced, row << 16 | column};
    }
    return block_least(best, board);
}

// Pivot until no arc improves. Returns the number of pivots; MOST_PIVOTS, out of reach, would be too few.
DEVICE int improve(const Problem& problem, const Tables& tables, const Tree& tree, Board& board) {
    Candidates candidates;
    EACH_OWN(s) {
        candidates.row[s] = 0;
        candidates.cost[s] = cost_of(tables, 0, own_column(problem, s));
    }
    bool by_all_bits = false;
    int turn = 0;
    i64 enough = -1;  // a reduced cost that needs no new look
    for (int pivots = 0; pivots < MOST_PIVOTS; pivots++) {
        Least arc = price(problem, tree, candidates, board);
        const bool looks = arc.value > enough;
        for (int seen = 0; arc.value >= 0 || (looks && seen == 0); seen += ROWS_PER_LOOK) {
            if (seen >= problem.n_rows) {
                if (by_all_bits) return pivots;
                by_all_bits = true;
                seen = 0;
            }
            if (by_all_bits) look_exactly(problem, tables, tree, turn, candidates);
            else look(problem, tables, tree, turn, candidates);
            arc = price(problem, tree, candidates, board);
        }
        if (looks) enough = arc.value >> ENOUGH_SHIFT;
        pivot(problem, tree, arc.tag >> 16, problem.n_rows + (arc.tag & 0xffff), arc.value, board);
    }
    return MOST_PIVOTS;
}

// The next problem of a block that is done with one; the first ones were given away at the start.
DEVICE int next_of_block(int* taken, int* slot) {
    meet();
    if (threadIdx.x == 0) *slot = gridDim.x + atomicAdd(taken, 1);
    meet();
    return *slot;
}

// Solve what is laid out: masses in the flows, integer costs in the tables. Returns the number of pivots.
DEVICE int solve_block(const Problem& problem, const Tables& tables, const Tree& tree, Board& board) {
    greedy_start(problem, tables, tree, board);
    plant(problem, tables, tree);
    return improve(problem, tables, tree, board);
}
