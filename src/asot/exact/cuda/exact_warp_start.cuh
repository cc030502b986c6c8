// How a pair lies in memory in exact_warp.cu, and the tree that its simplex starts from.

constexpr int WORDS = (NODES + 31) / 32;
constexpr int BELOW_STRIDE = WORDS | 1;  // odd: lanes that look at different nodes read different banks
constexpr int CHUNK = 32;                // words of the arc bitset that a warp holds at a time

// High words of the cost, and what a lane may read beyond the last row.
static_assert(TABLE_BYTES == 0 || TABLE_BYTES == (NODES * NODES + 32 + 3) / 4 * 16, "the host counts otherwise");

// A warp's bytes. Potentials while the start is built lie where subtrees are later, and the order in which the start
// closed the nodes where the potentials of the rows are.
constexpr int BELOW_AT = 8 * NODES;
constexpr int ROW_POTENTIAL_AT = BELOW_AT + (4 * BELOW_STRIDE * NODES + 7) / 8 * 8;
constexpr int PARENT_AT = ROW_POTENTIAL_AT + 8 * MOST_ROWS;
constexpr int ROW_AT = PARENT_AT + 2 * NODES;
static_assert(WARP_BYTES == (ROW_AT + 2 * MOST_ROWS + 15) / 16 * 16, "the host counts otherwise");

struct Tables {
    const int* high;     // (NODES, NODES) words of the integer cost
    const u32* low;      // (NODES, NODES)
    const u32* masks;    // (NODES, arc_chunks * CHUNK) the arcs of a node
    const u32* ends;     // (arcs,) one end | the other << 16
    const double* unit;  // (NODES, NODES) unrounded costs
    int arc_chunks;
};

struct Tree {
    i64* flow;           // (NODES,) on the arc to the parent
    u16* parent;         // (NODES,) the root is its own parent
    u32* below;          // (NODES, BELOW_STRIDE) each node's subtree
    i64* potential;      // (NODES,) while the start is built
    i64* row_potential;  // (MOST_ROWS,) by rank among the rows
    u16* row;            // (MOST_ROWS,) the rows
    u16* order;          // (NODES,) nodes in the order in which the start closed them
};

// Sets of nodes: lane w has word w. Of the nodes in its own care, lane + 32 s is bit s.
struct Problem {
    u32 rows, columns;
    u32 own_columns;
    int n_rows, n_columns;
    bool swapped;  // the rows are the sinks
};

DEVICE int lane_id() { return threadIdx.x & 31; }
DEVICE bool has(u32 set, int x) { return (__shfl_sync(ALL_LANES, set, x >> 5) >> (x & 31)) & 1; }
DEVICE i64 cost_of(const Tables& tables, int x, int y) {
    return ((i64)tables.high[x * NODES + y] << 32) | tables.low[x * NODES + y];
}

// Masses of the pair's histograms, (NODES,) each. Leaves |surplus| in the flows, and lists the rows.
DEVICE Problem place_masses(const i64* first, const i64* second, const Tree& tree) {
    const int lane = lane_id();
    u32 sources = 0, sinks = 0, own_sources = 0, own_sinks = 0;
    int p = 0, q = 0;
#pragma unroll
    for (int s = 0; s < WORDS; s++) {
        const int x = 32 * s + lane;
        const i64 surplus = x < NODES ? first[x] - second[x] : 0;
        if (x < NODES) tree.flow[x] = surplus < 0 ? -surplus : surplus;
        const u32 source_word = __ballot_sync(ALL_LANES, surplus > 0);
        const u32 sink_word = __ballot_sync(ALL_LANES, surplus < 0);
        if (lane == s) {
            sources = source_word;
            sinks = sink_word;
        }
        own_sources |= (u32)(surplus > 0) << s;
        own_sinks |= (u32)(surplus < 0) << s;
        p += count_set(source_word);
        q += count_set(sink_word);
    }
    const bool swapped = p > q;
    const Problem problem = swapped ? Problem{sinks, sources, own_sources, q, p, true}
                                    : Problem{sources, sinks, own_sinks, p, q, false};
    const u32 own_rows = swapped ? own_sinks : own_sources;
    int rank = 0;
#pragma unroll 1  // unrolled, it wants more predicates than there are (ptxas 13.0, sm_90, 11 to 14 words)
    for (int s = 0; s < WORDS; s++) {
        const u32 word = __shfl_sync(ALL_LANES, problem.rows, s);
        if (own_rows >> s & 1) tree.row[rank + count_set(word & ((1u << lane) - 1))] = 32 * s + lane;
        rank += count_set(word);
    }
    __syncwarp();
    return problem;
}

// This lane's word of the union of the arcs of all nodes of a set. Four loads at a time are under way.
DEVICE u32 arcs_of(u32 set, const u32* masks, int stride) {
    u32 arcs = 0;
#pragma unroll
    for (int s = 0; s < WORDS; s++) {
        u32 word = __shfl_sync(ALL_LANES, set, s);
        while (word) {
            int x[4];
#pragma unroll
            for (int t = 0; t < 4; t++) {
                x[t] = word ? 32 * s + first_set(word) : x[0];
                word &= word - 1;
            }
            arcs |= masks[x[0] * stride] | masks[x[1] * stride] | masks[x[2] * stride] | masks[x[3] * stride];
        }
    }
    return arcs;
}

// A feasible basis: ship along the first open arc, close the end that is done, and hang it on the other. Ties close the
// column: arcs without flow then point to the root. The last node is the root, which is returned.
DEVICE int greedy_start(const Tables& tables, const Problem& problem, const Tree& tree) {
    const int lane = lane_id(), stride = tables.arc_chunks * CHUNK;
    u32 rows = problem.rows, columns = problem.columns;
    int rows_left = problem.n_rows, columns_left = problem.n_columns, step = 0;
    for (int chunk = 0; chunk < tables.arc_chunks; chunk++) {
        const u32* masks = tables.masks + chunk * CHUNK + lane;
        u32 open = arcs_of(rows, masks, stride) & arcs_of(columns, masks, stride);
        for (u32 where; (where = __ballot_sync(ALL_LANES, open != 0)) != 0;) {
            const int word = first_set(where);
            const int arc = 32 * (chunk * CHUNK + word) + first_set(__shfl_sync(ALL_LANES, open, word));
            const u32 ends = tables.ends[arc];
            const int one = ends & 0xffff, two = ends >> 16;
            const bool ordered = has(problem.rows, one);
            const int row = ordered ? one : two, column = ordered ? two : one;
            const i64 supply = tree.flow[row], demand = tree.flow[column];
            const bool last = rows_left == 1 && columns_left == 1;
            const bool close_column = !last && (rows_left == 1 || (columns_left > 1 && demand <= supply));
            const int child = close_column ? column : row, parent = close_column ? row : column;
            __syncwarp();  // all have read the masses
            if (lane == 0) {
                tree.flow[parent] = last ? 0 : close_column ? supply - demand : demand - supply;
                tree.flow[child] = close_column ? demand : supply;
                tree.parent[child] = parent;
                tree.order[step] = child;
                if (last) tree.parent[parent] = parent;
            }
            __syncwarp();
            if (last) return parent;
            step++;
            rows_left -= !close_column;
            columns_left -= close_column;
            if (lane == child >> 5) {
                rows &= ~(1u << (child & 31));
                columns &= ~(1u << (child & 31));
            }
            open &= ~masks[child * stride];
        }
    }
    return 0;
}

// Potentials (row - column = cost on tree arcs), those of this lane's columns into registers, and subtrees.
DEVICE void plant_tree(
    const Tables& tables, const Problem& problem, int root, const Tree& tree, i64 (&potential)[WORDS]
) {
    const int lane = lane_id(), steps = problem.n_rows + problem.n_columns - 1;
    if (lane == 0) tree.potential[root] = 0;
    for (int top = steps; top > 0; top -= 32) {  // 32 costs are fetched side by side, then summed one after another
        const int step = top - 1 - lane;
        const int x = step >= 0 ? tree.order[step] : root, y = tree.parent[x];
        const i64 cost = cost_of(tables, x, y);
        const u32 word = __shfl_sync(ALL_LANES, problem.rows, x >> 5);
        const i64 rise = (word >> (x & 31)) & 1 ? cost : -cost;
        for (int t = 0; t < min(32, top); t++) {
            __syncwarp();
            if (lane == t) tree.potential[x] = tree.potential[y] + rise;
        }
    }
    __syncwarp();
    i64 row_potential[WORDS];
#pragma unroll
    for (int s = 0; s < WORDS; s++) {
        const bool is_column = problem.own_columns >> s & 1;
        potential[s] = is_column ? tree.potential[32 * s + lane] : NEVER;
        const int rank = 32 * s + lane;
        row_potential[s] = rank < problem.n_rows ? tree.potential[tree.row[rank]] : 0;
    }
    __syncwarp();
    for (int t = lane; t < BELOW_STRIDE * NODES; t += 32) {
        const int x = t / BELOW_STRIDE, w = t % BELOW_STRIDE;
        tree.below[t] = x >> 5 == w ? 1u << (x & 31) : 0;
    }
    __syncwarp();
    for (int step = 0; step < steps; step++) {  // lane w joins word w: no other lane reads it
        const int x = tree.order[step], y = tree.parent[x];
        if (lane < WORDS) tree.below[y * BELOW_STRIDE + lane] |= tree.below[x * BELOW_STRIDE + lane];
    }
    __syncwarp();
#pragma unroll
    for (int s = 0; s < WORDS; s++) {
        const int rank = 32 * s + lane;
        if (rank < problem.n_rows) tree.row_potential[rank] = row_potential[s];
    }
    __syncwarp();
}
