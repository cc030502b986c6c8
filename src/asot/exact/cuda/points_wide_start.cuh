// How a pair lies in memory in points_wide.cu, and the tree that its simplex starts from.

constexpr int WORDS = ROW_WORDS + COLUMN_WORDS;
constexpr int NODES = 32 * WORDS;        // row r is node r, column c is node FIRST_COLUMN + c
constexpr int FIRST_COLUMN = 32 * ROW_WORDS;
constexpr int BELOW_STRIDE = WORDS | 1;  // odd: lanes that look at different nodes read different banks
constexpr int NOTHING = 0x7fffffff;
constexpr int NOBODY = 0xffff;
constexpr float OFFSET_WEIGHT = 1.05f;

// A warp's bytes in shared memory. While a problem is laid out, its lists of points and masses lie where subtrees are
// later; while potentials are found, the row above each row lies in the list of rows.
constexpr int BELOW_AT = 8 * NODES;
constexpr int ROW_POTENTIAL_AT = BELOW_AT + (4 * BELOW_STRIDE * NODES + 7) / 8 * 8;
constexpr int PARENT_AT = ROW_POTENTIAL_AT + 8 * FIRST_COLUMN;
constexpr int ROW_AT = PARENT_AT + 2 * NODES;
static_assert(WARP_BYTES == (ROW_AT + 2 * FIRST_COLUMN + 15) / 16 * 16, "the host counts otherwise");
static_assert(2 * 12 * 32 * COLUMN_WORDS <= 4 * BELOW_STRIDE * NODES, "lists fit where subtrees are later");

// High and low words of the costs, in global memory: rows (n_rows, stride).
struct Tables {
    int* high;
    u32* low;
    int stride;
};

struct Tree {
    i64* flow;           // (NODES,) on the arc to the parent
    u16* parent;         // (NODES,) the root, a column, is its own parent
    u32* below;          // (NODES, BELOW_STRIDE) each node's subtree
    i64* row_potential;  // (FIRST_COLUMN,)
    u16* row;            // (FIRST_COLUMN,) the rows: 0, 1, 2, …
};

// Sets of nodes: lane w has word w. Of the nodes in its own care, lane + 32 s is bit s.
struct Problem {
    u32 own_columns;
    int n_rows, n_columns;
    int unit;  // costs are in units of 2^(unit - COST_BITS)
};

#define EACH_ROW_WORD(s) _Pragma("unroll") for (int s = 0; s < ROW_WORDS; s++)
#define EACH_WORD(s) _Pragma("unroll") for (int s = 0; s < COLUMN_WORDS; s++)

DEVICE bool has(u32 set, int x) { return (__shfl_sync(ALL_LANES, set, x >> 5) >> (x & 31)) & 1; }
DEVICE i64 cost_of(const Tables& tables, int row, int column) {
    const int at = row * tables.stride + column;
    return (i64)tables.high[at] << 32 | tables.low[at];
}
DEVICE float warp_total(float value) {
    for (int far = 16; far > 0; far /= 2) value += __shfl_xor_sync(ALL_LANES, value, far);
    return value;
}

// Points, masses and distances of both sides. Masses go to the flows of the tree.
DEVICE Problem lay_out(const Collection& c, int i, int j, Tables& tables, const Tree& tree) {
    const int lane = lane_id(), room = 32 * COLUMN_WORDS;
    i64* masses = (i64*)tree.below;
    int* points = (int*)(masses + 2 * room);
    const int sources = surplus(c, i, j, points, masses), sinks = surplus(c, j, i, points + room, masses + room);
    const bool swapped = sources > sinks;
    Problem problem = {0, swapped ? sinks : sources, swapped ? sources : sinks, 0};
    tables.stride = (problem.n_columns + 31) & ~31;
    __syncwarp();
    const int rows_at = swapped ? room : 0, columns_at = room - rows_at;
    EACH_ROW_WORD(s) {
        const int r = 32 * s + lane;
        tree.flow[r] = r < problem.n_rows ? masses[rows_at + r] : 0;
        tree.row[r] = r;
    }
    EACH_WORD(s) {
        const int k = 32 * s + lane;
        tree.flow[FIRST_COLUMN + k] = k < problem.n_columns ? masses[columns_at + k] : 0;
        problem.own_columns |= (u32)(k < problem.n_columns) << (ROW_WORDS + s);
    }
    int largest = 0;
    for (int r = 0; r < problem.n_rows; r++) {
        const int row = points[rows_at + r];
        double far[COLUMN_WORDS];
        EACH_WORD(s) {
            const int column = points[columns_at + min(32 * s + lane, problem.n_columns - 1)];
            far[s] = swapped ? distance(c, column, row) : distance(c, row, column);
        }
        EACH_WORD(s) {
            const int k = 32 * s + lane;
            const i64 bits = __double_as_longlong(far[s]);
            if (k >= problem.n_columns) continue;
            tables.high[r * tables.stride + k] = high_word(bits);
            tables.low[r * tables.stride + k] = (u32)bits;
            largest = max(largest, high_word(bits));
        }
    }
    problem.unit = unit_exponent(warp_most(largest));
    __syncwarp();
    return problem;
}

// What the start keeps of this lane's rows and columns.
struct Start {
    int row_offset[ROW_WORDS];  // a node's mean cost, weighted by the masses of the other side
    int column_offset[COLUMN_WORDS];
    u32 open_columns;
    int key[ROW_WORDS];  // of the best arc of a row: cost less both offsets
    int column[ROW_WORDS];
};

// Distances to integer costs, and the offsets of the start.
DEVICE void integer_costs(const Problem& problem, const Tables& tables, const Tree& tree, Start& start) {
    const int lane = lane_id();
    const double scale = ldexp(1.0, COST_BITS - problem.unit);
    float total = 0, weight[COLUMN_WORDS], sum[COLUMN_WORDS];
    EACH_WORD(s) {
        weight[s] = (float)tree.flow[FIRST_COLUMN + 32 * s + lane];
        total += weight[s];
        sum[s] = 0;
    }
    const float per_mass = OFFSET_WEIGHT / warp_total(total);
    EACH_ROW_WORD(s) start.row_offset[s] = 0;
    for (int r = 0; r < problem.n_rows; r++) {
        const float row_weight = (float)tree.flow[r];
        float row_sum = 0;
        const int begin = r * tables.stride + lane;
        int high[COLUMN_WORDS];
        u32 low[COLUMN_WORDS];
        EACH_WORD(s) high[s] = tables.high[begin + 32 * s];
        EACH_WORD(s) low[s] = tables.low[begin + 32 * s];
        EACH_WORD(s) {
            const i64 cost = integer_cost(high[s], low[s], scale);
            if (32 * s + lane >= problem.n_columns) continue;
            tables.high[begin + 32 * s] = high_word(cost);
            tables.low[begin + 32 * s] = (u32)cost;
            row_sum += weight[s] * (float)high_word(cost);
            sum[s] += row_weight * (float)high_word(cost);
        }
        const int offset = (int)(warp_total(row_sum) * per_mass);
        EACH_ROW_WORD(s) if (r == 32 * s + lane) start.row_offset[s] = offset;
    }
    EACH_WORD(s) start.column_offset[s] = (int)(sum[s] * per_mass);
    __syncwarp();
}

#if BOUNDED
// The better of two lower bounds, with least costs of the columns first, and of the rows: masses times high words.
DEVICE double lower_bound(const Problem& problem, const Tables& tables, const Tree& tree) {
    const int lane = lane_id();
    int least[COLUMN_WORDS], left[COLUMN_WORDS];
    EACH_WORD(s) least[s] = left[s] = NOTHING;
    double rows_first = 0, columns_first = 0;
    for (int r = 0; r < problem.n_rows; r++) {
        const int* cost = tables.high + r * tables.stride + lane;
        int row_least = NOTHING;
        EACH_WORD(s) {
            if (32 * s + lane >= problem.n_columns) continue;
            row_least = min(row_least, cost[32 * s]);
            least[s] = min(least[s], cost[32 * s]);
        }
        row_least = warp_least(row_least);
        EACH_WORD(s) if (32 * s + lane < problem.n_columns) left[s] = min(left[s], cost[32 * s] - row_least);
        if (lane == 0) rows_first += (double)tree.flow[r] * (double)row_least;
    }
    for (int r = 0; r < problem.n_rows; r++) {
        const int* cost = tables.high + r * tables.stride + lane;
        int row_left = NOTHING;
        EACH_WORD(s) if (32 * s + lane < problem.n_columns) row_left = min(row_left, cost[32 * s] - least[s]);
        row_left = warp_least(row_left);
        if (lane == 0) columns_first += (double)tree.flow[r] * (double)row_left;
    }
    EACH_WORD(s) if (32 * s + lane < problem.n_columns) {
        columns_first += (double)tree.flow[FIRST_COLUMN + 32 * s + lane] * (double)least[s];
        rows_first += (double)tree.flow[FIRST_COLUMN + 32 * s + lane] * (double)left[s];
    }
    return larger(warp_sum(columns_first), warp_sum(rows_first));
}
#endif

// The best open arc of a row, which all lanes look for.
DEVICE void find_best(const Problem& problem, const Tables& tables, int row, Start& start) {
    const int lane = lane_id(), *cost = tables.high + row * tables.stride + lane;
    int best = NOTHING, column = 0, own[COLUMN_WORDS];
    EACH_WORD(s) own[s] = cost[32 * s];
    EACH_WORD(s) {
        const int key = own[s] - start.column_offset[s];
        const bool better = (start.open_columns >> s & 1) && key < best;
        best = better ? key : best;
        column = better ? 32 * s + lane : column;
    }
    const int best_of_all = warp_least(best);
    column = __shfl_sync(ALL_LANES, column, first_set(__ballot_sync(ALL_LANES, best == best_of_all)));
    EACH_ROW_WORD(s) if (row == 32 * s + lane) {
        start.key[s] = best_of_all - start.row_offset[s];
        start.column[s] = column;
    }
}

// The start is that of points_narrow.cu, with the best arc of every row at hand: where a column is closed, the rows that
// had their best arc there look for another.
DEVICE void greedy_start(const Problem& problem, const Tables& tables, Start& start, const Tree& tree) {
    const int lane = lane_id();
    start.open_columns = problem.own_columns >> ROW_WORDS;
    EACH_ROW_WORD(s) start.key[s] = NOTHING;
    for (int r = 0; r < problem.n_rows; r++) find_best(problem, tables, r, start);
    for (int t = lane; t < BELOW_STRIDE * NODES; t += 32) tree.below[t] = 0;
    __syncwarp();
#pragma unroll
    for (int s = 0; s < WORDS; s++)
        if (s < ROW_WORDS ? 32 * s + lane < problem.n_rows : problem.own_columns >> s & 1)
            tree.below[(32 * s + lane) * BELOW_STRIDE + s] = 1u << lane;
    __syncwarp();
    int rows_left = problem.n_rows, columns_left = problem.n_columns;
    for (;;) {
        int best = NOTHING, word = 0, column = 0;
        EACH_ROW_WORD(s) if (start.key[s] < best) {
            best = start.key[s];
            word = s;
            column = start.column[s];
        }
        const int winner = first_set(__ballot_sync(ALL_LANES, best == warp_least(best)));
        const int row = 32 * __shfl_sync(ALL_LANES, word, winner) + winner;
        column = __shfl_sync(ALL_LANES, column, winner);
        const i64 supply = tree.flow[row], demand = tree.flow[FIRST_COLUMN + column];
        const bool last = rows_left == 1 && columns_left == 1;
        const bool close_column = !last && (rows_left == 1 || (columns_left > 1 && demand <= supply));
        const int child = close_column ? FIRST_COLUMN + column : row, parent = close_column ? row : FIRST_COLUMN + column;
        __syncwarp();  // all have read the masses
        if (lane == 0) {
            tree.flow[parent] = last ? 0 : close_column ? supply - demand : demand - supply;
            tree.parent[child] = parent;
            if (last) tree.parent[parent] = parent;
        }
        if (lane < WORDS) tree.below[parent * BELOW_STRIDE + lane] |= tree.below[child * BELOW_STRIDE + lane];
        __syncwarp();
        if (last) return;
        rows_left -= !close_column;
        columns_left -= close_column;
        if (!close_column) {
            EACH_ROW_WORD(s) if (row == 32 * s + lane) start.key[s] = NOTHING;
            continue;
        }
        if (lane == (column & 31)) start.open_columns &= ~(1u << (column >> 5));
        for (int s = 0; s < ROW_WORDS; s++) {
            bool orphaned = false;
            EACH_ROW_WORD(w) orphaned |= w == s && start.key[w] != NOTHING && start.column[w] == column;
            for (u32 lanes = __ballot_sync(ALL_LANES, orphaned); lanes; lanes &= lanes - 1)
                find_best(problem, tables, 32 * s + first_set(lanes), start);
        }
    }
}

// Potentials from the tree: row - column = cost on tree arcs. A row first learns its height above the next row up, and
// then, in a few rounds, above the root.
DEVICE void find_potentials(
    const Problem& problem, const Tables& tables, const Tree& tree, i64 (&potential)[WORDS]
) {
    const int lane = lane_id();
    bool waiting = false;
    EACH_ROW_WORD(s) {
        const int r = 32 * s + lane;
        if (r >= problem.n_rows) continue;
        const int up = tree.parent[r], above = tree.parent[up];
        i64 height = cost_of(tables, r, up - FIRST_COLUMN);
        if (above != up) height -= cost_of(tables, above, up - FIRST_COLUMN);
        tree.row_potential[r] = height;
        tree.row[r] = above != up ? above : NOBODY;
        waiting |= above != up;
    }
    while (__any_sync(ALL_LANES, waiting)) {
        __syncwarp();
        i64 more[ROW_WORDS];
        int further[ROW_WORDS];
        EACH_ROW_WORD(s) {
            const int r = 32 * s + lane, next = r < problem.n_rows ? tree.row[r] : NOBODY;
            more[s] = next != NOBODY ? tree.row_potential[next] : 0;
            further[s] = next != NOBODY ? tree.row[next] : NOBODY;
        }
        __syncwarp();
        waiting = false;
        EACH_ROW_WORD(s) {
            const int r = 32 * s + lane;
            if (r >= problem.n_rows) continue;
            tree.row_potential[r] += more[s];
            tree.row[r] = further[s];
            waiting |= further[s] != NOBODY;
        }
    }
    __syncwarp();
    EACH_ROW_WORD(s) {
        tree.row[32 * s + lane] = 32 * s + lane;
        potential[s] = 0;
    }
    EACH_WORD(s) {
        const int node = FIRST_COLUMN + 32 * s + lane;
        potential[ROW_WORDS + s] = 0;
        if (!(problem.own_columns >> (ROW_WORDS + s) & 1)) continue;
        const int up = tree.parent[node];
        if (up != node) potential[ROW_WORDS + s] = tree.row_potential[up] - cost_of(tables, up, 32 * s + lane);
    }
    __syncwarp();
}
