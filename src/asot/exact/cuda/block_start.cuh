// The tree that a block's simplex starts from: ship along the cheapest open arc, close a node, again and again.
//
// Costs are compared less the mean cost of both ends, so that a far node is served before its only near partner is gone.
// The best arc of every row is at hand. Where its column is closed since, what the row has at hand is a lower bound, and
// the row looks for another arc only when that bound is about to win. A warp looks for some rows at a time, because it
// waits for global memory.

constexpr float OFFSET_WEIGHT = 1.05f;
constexpr int CLOSED = -0x3fffffff;  // offset of a column that takes no more
constexpr int ROWS_TOGETHER = 4;     // that a warp looks at

#define EACH_ROW(t) _Pragma("unroll") for (int t = 0; t < ROWS_TOGETHER; t++)

// High and low words of the integer costs, in global memory: (n_rows, stride).
struct Tables {
    int* high;
    u32* low;
    int stride;
};

DEVICE i64 cost_of(const Tables& tables, int row, int column) {
    const int at = row * tables.stride + column;
    return (i64)tables.high[at] << 32 | tables.low[at];
}

// The cost of the arc between a node and its parent.
DEVICE i64 cost_above(const Problem& problem, const Tables& tables, const Tree& tree, int node) {
    const int up = tree.parent[node];
    return node < problem.n_rows ? cost_of(tables, node, up - problem.n_rows)
                                 : cost_of(tables, up, node - problem.n_rows);
}

// What the start keeps, where the tree has its potentials and its path later.
struct Start {
    int *key, *column;  // (n_rows,) the best open arc of a row: cost less both offsets, and where it leads
    int* row_offset;    // (n_rows,) a node's mean cost, weighted by the masses of the other side
    int* column_offset; // (n_columns,)
};
static_assert(12 * ROWS <= 8 * NODES, "keys, columns and offsets of rows fit where potentials are later");

DEVICE Start start_in(const Tree& tree) {
    int* words = (int*)tree.potential;
    return {words, words + ROWS, words + 2 * ROWS, (int*)tree.path};
}

DEVICE float warp_total(float value) {
    for (int far = 16; far > 0; far /= 2) value += __shfl_xor_sync(ALL_LANES, value, far);
    return value;
}

// The offsets; masses are in the flows.
DEVICE void find_offsets(const Problem& problem, const Tables& tables, const Tree& tree, const Start& start) {
    const i64* demand = tree.flow + problem.n_rows;
    float total = 0;
    for (int c = lane_id(); c < problem.n_columns; c += 32) total += (float)demand[c];
    const float per_mass = OFFSET_WEIGHT / warp_total(total);
    for (int r = threadIdx.x >> 5; r < problem.n_rows; r += WARPS) {
        float sum = 0;
        for (int c = lane_id(); c < problem.n_columns; c += 32)
            sum += (float)demand[c] * (float)tables.high[r * tables.stride + c];
        sum = warp_total(sum);
        if (lane_id() == 0) start.row_offset[r] = (int)(sum * per_mass);
    }
    for (int c = threadIdx.x; c < problem.n_columns; c += THREADS) {
        float sum = 0;
        for (int r = 0; r < problem.n_rows; r++) sum += (float)tree.flow[r] * (float)tables.high[r * tables.stride + c];
        start.column_offset[c] = (int)(sum * per_mass);
    }
    meet();
}

// The best open arcs of some rows, which all lanes of a warp look for. A row may be there more than once.
DEVICE void find_best(
    const Problem& problem, const Tables& tables, const Start& start, const int (&rows)[ROWS_TOGETHER]
) {
    int best[ROWS_TOGETHER], column[ROWS_TOGETHER];
    EACH_ROW(t) best[t] = column[t] = NOTHING;
    for (int c = lane_id(); c < problem.n_columns; c += 32) {
        const int offset = start.column_offset[c];
        EACH_ROW(t) {
            const int key = tables.high[rows[t] * tables.stride + c] - offset;
            column[t] = key < best[t] ? c : column[t];
            best[t] = min(best[t], key);
        }
    }
    EACH_ROW(t) {
        const int best_of_all = warp_least(best[t]);
        const int its_column = warp_least(best[t] == best_of_all ? column[t] : NOTHING);
        if (lane_id() == 0) {
            start.key[rows[t]] = best_of_all - start.row_offset[rows[t]];
            start.column[rows[t]] = its_column;
        }
    }
}

DEVICE bool is_outdated(const Start& start, int row) { return start.column_offset[start.column[row]] == CLOSED; }

// Open rows whose bound is at most `limit` and whose best arc is closed look for another.
DEVICE void look_again(const Problem& problem, const Tables& tables, const Start& start, i64 limit) {
    for (int first = 32 * (threadIdx.x >> 5); first < problem.n_rows; first += THREADS) {
        const int row = min(first + lane_id(), problem.n_rows - 1);
        const bool looks = first + lane_id() < problem.n_rows && start.key[row] != NOTHING && start.key[row] <= limit &&
                           is_outdated(start, row);
        u32 lanes = __ballot_sync(ALL_LANES, looks);
        __syncwarp();  // all have looked
        while (lanes) {
            int rows[ROWS_TOGETHER];
            EACH_ROW(t) {
                rows[t] = lanes ? first + first_set(lanes) : rows[max(t - 1, 0)];
                lanes &= lanes - 1;
            }
            find_best(problem, tables, start, rows);
        }
    }
    meet();
}

// The open row with the least key, and the key; or of those only whose best arc is open.
DEVICE Least least_row(const Problem& problem, const Start& start, bool only_sure, Board& board) {
    Least best = {TOP, NOTHING};
    for (int r = threadIdx.x; r < problem.n_rows; r += THREADS)
        if (start.key[r] < best.value && start.key[r] != NOTHING && !(only_sure && is_outdated(start, r)))
            best = {start.key[r], r};
    return block_least(best, board);
}

// A basis, from masses in the flows: parents, flows and sizes of subtrees. Nodes are closed leaves first; `order` lists
// them, the root last.
DEVICE void greedy_start(const Problem& problem, const Tables& tables, const Tree& tree, Board& board) {
    const Start start = start_in(tree);
    find_offsets(problem, tables, tree, start);
    for (int first = (threadIdx.x >> 5) * ROWS_TOGETHER; first < problem.n_rows; first += WARPS * ROWS_TOGETHER) {
        int rows[ROWS_TOGETHER];
        EACH_ROW(t) rows[t] = min(first + t, problem.n_rows - 1);
        find_best(problem, tables, start, rows);
    }
    for (int node = threadIdx.x; node < problem.n_rows + problem.n_columns; node += THREADS) tree.size[node] = 1;
    meet();
    int rows_left = problem.n_rows, columns_left = problem.n_columns;
    for (int step = 0;; step++) {
        int row = least_row(problem, start, false, board).tag;
        while (is_outdated(start, row)) {
            look_again(problem, tables, start, least_row(problem, start, true, board).value);
            row = least_row(problem, start, false, board).tag;
        }
        const int column = start.column[row], node = problem.n_rows + column;
        const i64 supply = tree.flow[row], demand = tree.flow[node];
        const bool last = rows_left == 1 && columns_left == 1;
        const bool close_column = !last && (rows_left == 1 || (columns_left > 1 && demand <= supply));
        meet();  // all have read
        if (threadIdx.x == 0) {
            const int child = close_column ? node : row, parent = close_column ? row : node;
            tree.flow[parent] = last ? 0 : close_column ? supply - demand : demand - supply;
            tree.parent[child] = parent;
            tree.size[parent] += tree.size[child];
            tree.order[step] = child;
            if (close_column) start.column_offset[column] = CLOSED;
            else start.key[row] = NOTHING;
            if (last) {
                tree.parent[parent] = parent;
                tree.order[step + 1] = parent;
            }
        }
        meet();
        if (last) return;
        rows_left -= !close_column;
        columns_left -= close_column;
    }
}

// Places and potentials from the parents: row - column = cost on tree arcs.
DEVICE void plant(const Problem& problem, const Tables& tables, const Tree& tree) {
    const int n = problem.n_rows + problem.n_columns;
    for (int node = threadIdx.x; node < n; node += THREADS) {
        const i64 cost = tree.parent[node] == node ? 0 : cost_above(problem, tables, tree, node);
        tree.potential[node] = node < problem.n_rows ? cost : -cost;
    }
    meet();
    if (threadIdx.x == 0) {
        const int root = tree.order[n - 1];
        tree.place[root] = 0;
        tree.path[root] = 1;  // the next place that is free below a node
        for (int step = n - 2; step >= 0; step--) {
            const int node = tree.order[step], up = tree.parent[node], at = tree.path[up];
            tree.place[node] = at;
            tree.path[node] = at + 1;
            tree.path[up] = at + tree.size[node];
            tree.potential[node] += tree.potential[up];
        }
    }
    meet();
    for (int node = threadIdx.x; node < n; node += THREADS) tree.order[tree.place[node]] = node;
    meet();
}
