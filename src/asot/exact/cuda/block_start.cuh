// The tree that a block's simplex starts from: ship along the cheapest open arc, close a node, again and again.
//
// Costs are compared less the mean cost of both ends, so that a far node is served before its only near partner is gone.
// The best arc of every row is at hand: where a column is closed, the rows that had their best arc there look for
// another. A warp looks for some rows at a time, because it waits for global memory.

constexpr float OFFSET_WEIGHT = 1.05f;
constexpr int CLOSED = -0x3fffffff;  // offset of a column that takes no more
constexpr int ROWS_TOGETHER = 4;     // that a warp looks at

#define EACH_OF(N, t) _Pragma("unroll") for (int t = 0; t < (N); t++)

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

// The best open arcs of N rows, which all lanes of a warp look for. A row may be there more than once.
template <int N>
DEVICE void find_best(const Problem& problem, const Tables& tables, const Start& start, const int (&rows)[N]) {
    int best[N], column[N];
    EACH_OF(N, t) best[t] = column[t] = NOTHING;
    for (int c = lane_id(); c < problem.n_columns; c += 32) {
        const int offset = start.column_offset[c];
        EACH_OF(N, t) {
            const int key = tables.high[rows[t] * tables.stride + c] - offset;
            column[t] = key < best[t] ? c : column[t];
            best[t] = min(best[t], key);
        }
    }
    EACH_OF(N, t) {
        const int best_of_all = warp_least(best[t]);
        const int its_column = warp_least(best[t] == best_of_all ? column[t] : NOTHING);
        if (lane_id() == 0) {
            start.key[rows[t]] = best_of_all - start.row_offset[rows[t]];
            start.column[rows[t]] = its_column;
        }
    }
}

// Rows that lost their best arc with a column look for another.
DEVICE void look_again(const Problem& problem, const Tables& tables, const Start& start, int closed) {
    for (int first = 32 * (threadIdx.x >> 5); first < problem.n_rows; first += THREADS) {
        const int row = first + lane_id();
        const bool orphaned = row < problem.n_rows && start.key[row] != NOTHING && start.column[row] == closed;
        u32 orphans = __ballot_sync(ALL_LANES, orphaned);
        __syncwarp();  // all have looked
        if (count_set(orphans) == 1) {
            const int only[1] = {first + first_set(orphans)};
            find_best(problem, tables, start, only);
            continue;
        }
        while (orphans) {
            int rows[ROWS_TOGETHER];
            EACH_OF(ROWS_TOGETHER, t) {
                rows[t] = orphans ? first + first_set(orphans) : rows[max(t - 1, 0)];
                orphans &= orphans - 1;
            }
            find_best(problem, tables, start, rows);
        }
    }
}

// A basis, from masses in the flows: parents, flows and sizes of subtrees. Nodes are closed leaves first; `order` lists
// them, the root last.
DEVICE void greedy_start(const Problem& problem, const Tables& tables, const Tree& tree, Board& board) {
    const Start start = start_in(tree);
    find_offsets(problem, tables, tree, start);
    for (int first = (threadIdx.x >> 5) * ROWS_TOGETHER; first < problem.n_rows; first += WARPS * ROWS_TOGETHER) {
        int rows[ROWS_TOGETHER];
        EACH_OF(ROWS_TOGETHER, t) rows[t] = min(first + t, problem.n_rows - 1);
        find_best(problem, tables, start, rows);
    }
    for (int node = threadIdx.x; node < problem.n_rows + problem.n_columns; node += THREADS) tree.size[node] = 1;
    meet();
    int rows_left = problem.n_rows, columns_left = problem.n_columns;
    for (int step = 0;; step++) {
        Least best = {TOP, NOTHING};
        for (int r = threadIdx.x; r < problem.n_rows; r += THREADS)
            if (start.key[r] < best.value) best = {start.key[r], r};
        const int row = block_least(best, board).tag;
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
        if (close_column) {
            look_again(problem, tables, start, column);
            meet();
        }
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
