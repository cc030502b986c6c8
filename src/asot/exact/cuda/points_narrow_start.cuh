// How a pair lies in memory in points_narrow.cu, and the tree that its simplex starts from.

constexpr int STRIDE = 32 * COLUMN_WORDS + 1;  // odd: lanes that look at different rows read different banks
constexpr int NODES = 32 + 32 * COLUMN_WORDS;  // rows first, then columns
constexpr int PLANE = 32 * STRIDE;
constexpr int ROW_BITS = 5;

// A warp's bytes in shared memory: high words, low words if they are near, keys of rows, and what nodes hand over.
// While a problem is laid out, its lists of points and masses lie where the high words will be.
constexpr int ROW_KEY_AT = 4 * PLANE * (LOW_IS_NEAR ? 2 : 1);
constexpr int WEIGHT_AT = ROW_KEY_AT + 4 * 32;
constexpr int FLOW_AT = (WEIGHT_AT + 4 * 32 * COLUMN_WORDS + 7) / 8 * 8;
constexpr int LOWER_AT = FLOW_AT + 8 * NODES;
static_assert(WARP_BYTES == (LOWER_AT + 4 * NODES + 15) / 16 * 16, "the host counts otherwise");

// Weights of the start's offsets, of total 2^WEIGHT_BITS times OFFSET_WEIGHT; times a high word of a cost they fit.
constexpr int WEIGHT_BITS = 10;
constexpr float OFFSET_WEIGHT = 1.05f;
constexpr int CLOSED = 1 << 30;  // key of a row that is closed; any sum with a cost is above every open one
constexpr int NOTHING = 0x7fffffff;

struct Memory {
    int* high;     // (32, STRIDE) high word of a cost << ROW_BITS | row
    u32* low;      // (32, STRIDE)
    int* row_key;  // (32,) what is added to the costs of a row when rows are compared
    int* weight;   // (32 * COLUMN_WORDS,)
    i64* flow;     // (NODES,) what a node hands over to its parent when a path is turned
    int* lower;    // (NODES,) and who it is
};

struct Problem {
    int n_rows, n_columns;
    int unit;  // costs are in units of 2^(unit - COST_BITS)
};

// A set of nodes.
struct Set {
    u32 rows, columns[COLUMN_WORDS];
};

// The tree, as a lane has it: of row `lane` and of the columns lane + 32 s. The root is a column; its parent is -1.
struct Tree {
    int row_parent, column_parent[COLUMN_WORDS];
    i64 row_flow, column_flow[COLUMN_WORDS];  // on the arc to the parent
    Set below_row, below_column[COLUMN_WORDS];
    i64 row_potential, column_potential[COLUMN_WORDS];
};

#define EACH_WORD(s) _Pragma("unroll") for (int s = 0; s < COLUMN_WORDS; s++)

// Element s of an array in registers.
template <typename T>
DEVICE T pick(const T (&array)[COLUMN_WORDS], int s) {
    T value = array[0];
#pragma unroll
    for (int t = 1; t < COLUMN_WORDS; t++)
        if (t == s) value = array[t];
    return value;
}
// Selects words, never sets: a choice between sets would put them into local memory.
DEVICE Set pick(const Set (&array)[COLUMN_WORDS], int s) {
    Set set = array[0];
#pragma unroll
    for (int t = 1; t < COLUMN_WORDS; t++) {
        set.rows = t == s ? array[t].rows : set.rows;
        EACH_WORD(w) set.columns[w] = t == s ? array[t].columns[w] : set.columns[w];
    }
    return set;
}
// The set of one lane's node, to all lanes.
DEVICE Set shared_set(const Set& own, int lane) {
    Set set;
    set.rows = __shfl_sync(ALL_LANES, own.rows, lane);
    EACH_WORD(s) set.columns[s] = __shfl_sync(ALL_LANES, own.columns[s], lane);
    return set;
}
DEVICE void join_if(bool condition, Set& set, const Set& other) {
    set.rows |= condition ? other.rows : 0;
    EACH_WORD(s) set.columns[s] |= condition ? other.columns[s] : 0;
}
// What is in one of two sets only.
DEVICE void differ(Set& set, const Set& other) {
    set.rows ^= other.rows;
    EACH_WORD(s) set.columns[s] ^= other.columns[s];
}
DEVICE bool has_column(const Set& set, int column) { return pick(set.columns, column >> 5) >> (column & 31) & 1; }
DEVICE int size_of(const Set& set) {
    int size = count_set(set.rows);
    EACH_WORD(s) size += count_set(set.columns[s]);
    return size;
}

DEVICE i64 cost_of(const Memory& memory, int row, int column) {
    const int at = row * STRIDE + column;
    return (i64)(memory.high[at] >> ROW_BITS) << 32 | memory.low[at];
}

// Distances between rows and columns into the planes, as the words of float64. Returns the largest high word of this
// lane's columns.
DEVICE int fetch_distances(
    const Collection& c, const Problem& problem, int row_point, const int (&column_point)[COLUMN_WORDS], bool swapped,
    const Memory& memory
) {
    const int lane = lane_id();
    int largest = 0;
#pragma unroll 4
    for (int r = 0; r < problem.n_rows; r++) {
        const int row = __shfl_sync(ALL_LANES, row_point, r);
        EACH_WORD(s) {
            if (32 * s + lane >= problem.n_columns) continue;
            const int one = swapped ? column_point[s] : row, two = swapped ? row : column_point[s];
            const i64 bits = __double_as_longlong(distance(c, one, two));
            memory.high[r * STRIDE + 32 * s + lane] = high_word(bits);
            memory.low[r * STRIDE + 32 * s + lane] = (u32)bits;
            largest = max(largest, high_word(bits));
        }
    }
    return largest;
}

// The same from coordinates, a few of them at a time: those of the columns stay in registers, and the sums so far wait
// in the planes.
DEVICE int sum_distances(
    const Collection& c, const Problem& problem, int row_point, const int (&column_point)[COLUMN_WORDS],
    const Memory& memory
) {
    const int lane = lane_id();
    int largest = 0;
    for (int first = 0; first < c.n_coordinates; first += DEPTH) {
        double y[COLUMN_WORDS][DEPTH];
        EACH_WORD(s) for (int t = 0; t < DEPTH; t++)
            y[s][t] = c.distances[(i64)column_point[s] * c.n_coordinates + first + t];
        for (int r = 0; r < problem.n_rows; r++) {
            const double* x = c.distances + (i64)__shfl_sync(ALL_LANES, row_point, r) * c.n_coordinates + first;
            EACH_WORD(s) {
                const int at = r * STRIDE + 32 * s + lane;
                Gap gap = {0.0, 0.0};
                if (first > 0) gap.sum = __longlong_as_double((i64)memory.high[at] << 32 | memory.low[at]);
#pragma unroll
                for (int t = 0; t < DEPTH; t++) widen(gap, x[t], y[s][t], c.order);
                if (first + DEPTH >= c.n_coordinates) gap.sum = length(gap, c.order);
                const i64 bits = __double_as_longlong(gap.sum);
                memory.high[at] = high_word(bits);
                memory.low[at] = (u32)bits;
                if (32 * s + lane < problem.n_columns) largest = max(largest, high_word(bits));
            }
        }
    }
    return largest;
}

// Points and masses of both sides, and their distances. Masses go to the flows of the tree.
DEVICE Problem lay_out(const Collection& c, int i, int j, const Memory& memory, Tree& tree) {
    const int lane = lane_id(), room = 32 * COLUMN_WORDS;
    i64* masses = (i64*)memory.high;
    int* points = (int*)(masses + 2 * room);
    const int sources = surplus(c, i, j, points, masses), sinks = surplus(c, j, i, points + room, masses + room);
    const bool swapped = sources > sinks;
    Problem problem = {swapped ? sinks : sources, swapped ? sources : sinks, 0};
    __syncwarp();
    const int rows_at = swapped ? room : 0, columns_at = room - rows_at;
    int row_point = 0, column_point[COLUMN_WORDS];
    tree.row_flow = 0;
    if (lane < problem.n_rows) {
        row_point = points[rows_at + lane];
        tree.row_flow = masses[rows_at + lane];
    }
    EACH_WORD(s) {
        const bool is_column = 32 * s + lane < problem.n_columns;
        column_point[s] = is_column ? points[columns_at + 32 * s + lane] : 0;
        tree.column_flow[s] = is_column ? masses[columns_at + 32 * s + lane] : 0;
    }
    __syncwarp();
    const int largest = !TABLE && HAS_ONE_SUM ? sum_distances(c, problem, row_point, column_point, memory)
                                              : fetch_distances(c, problem, row_point, column_point, swapped, memory);
    problem.unit = unit_exponent(warp_most(largest));
    return problem;
}

// Distances to integer costs. A node's offset in the start is its mean cost, weighted by the masses of the other side:
// given as keys, for the row of this lane and for its columns.
DEVICE int integer_costs(
    const Problem& problem, const Memory& memory, const Tree& tree, int (&column_key)[COLUMN_WORDS]
) {
    const int lane = lane_id();
    const double scale = ldexp(1.0, COST_BITS - problem.unit);
    float total = (float)tree.row_flow;
    for (int far = 16; far > 0; far /= 2) total += __shfl_xor_sync(ALL_LANES, total, far);
    const float per_mass = OFFSET_WEIGHT * (float)(1 << WEIGHT_BITS) / total;
    const int row_weight = (int)((float)tree.row_flow * per_mass + 0.5f);
    u32 sum[COLUMN_WORDS];
    EACH_WORD(s) {
        memory.weight[32 * s + lane] = (int)((float)tree.column_flow[s] * per_mass + 0.5f);
        sum[s] = 0;
    }
#pragma unroll 4
    for (int r = 0; r < problem.n_rows; r++) {
        const u32 weight = __shfl_sync(ALL_LANES, row_weight, r);
        EACH_WORD(s) {
            if (32 * s + lane >= problem.n_columns) continue;
            const int at = r * STRIDE + 32 * s + lane;
            const i64 cost = integer_cost(memory.high[at], memory.low[at], scale);
            memory.high[at] = high_word(cost) << ROW_BITS | r;
            memory.low[at] = (u32)cost;
            sum[s] += weight * (u32)high_word(cost);
        }
    }
    EACH_WORD(s) column_key[s] = -(int)(sum[s] >> WEIGHT_BITS << ROW_BITS);
    __syncwarp();
    u32 row_sum = 0;
    if (lane < problem.n_rows)
#pragma unroll 4
        for (int t = 0; t < problem.n_columns; t++)
            row_sum += (u32)memory.weight[t] * (u32)(memory.high[lane * STRIDE + t] >> ROW_BITS);
    return -(int)(row_sum >> WEIGHT_BITS << ROW_BITS);
}

// The least key of each of this lane's columns among the open rows.
DEVICE void find_least(const Problem& problem, const Memory& memory, int (&least)[COLUMN_WORDS]) {
    const int lane = lane_id();
    EACH_WORD(s) least[s] = NOTHING;
#pragma unroll 4
    for (int r = 0; r < problem.n_rows; r++) {
        const int key = memory.row_key[r];
        EACH_WORD(s) least[s] = add_min(memory.high[r * STRIDE + 32 * s + lane], key, least[s]);
    }
}

#if BOUNDED
// The better of two lower bounds, with least costs of the columns first, and of the rows: masses times high words.
DEVICE double lower_bound(const Problem& problem, const Memory& memory, const Tree& tree) {
    const int lane = lane_id();
    int least[COLUMN_WORDS], row_least = NOTHING, row_left = NOTHING;
    memory.row_key[lane] = 0;
    __syncwarp();
    find_least(problem, memory, least);
    EACH_WORD(s) memory.weight[32 * s + lane] = least[s] >> ROW_BITS;
    __syncwarp();
    if (lane < problem.n_rows)
        for (int t = 0; t < problem.n_columns; t++) {
            const int cost = memory.high[lane * STRIDE + t] >> ROW_BITS;
            row_least = min(row_least, cost);
            row_left = min(row_left, cost - memory.weight[t]);
        }
    memory.row_key[lane] = -(row_least << ROW_BITS);
    __syncwarp();
    int left[COLUMN_WORDS];
    find_least(problem, memory, left);
    double columns_first = 0, rows_first = 0;
    if (lane < problem.n_rows) {
        columns_first = (double)tree.row_flow * (double)row_left;
        rows_first = (double)tree.row_flow * (double)row_least;
    }
    EACH_WORD(s) if (32 * s + lane < problem.n_columns) {
        columns_first += (double)tree.column_flow[s] * (double)(least[s] >> ROW_BITS);
        rows_first += (double)tree.column_flow[s] * (double)(left[s] >> ROW_BITS);
    }
    __syncwarp();
    return larger(warp_sum(columns_first), warp_sum(rows_first));
}
#endif

// A feasible basis: ship along the open arc of least key (cost less both ends' offsets), close the end that is done,
// and hang it on the other. Ties close the column: arcs without flow then point to the root. The last column is the
// root. What is below a node is known when the node is closed.
DEVICE void greedy_start(
    const Problem& problem, const Memory& memory, int row_key, const int (&column_key)[COLUMN_WORDS], Tree& tree
) {
    const int lane = lane_id();
    int least[COLUMN_WORDS];
    memory.row_key[lane] = row_key;
    __syncwarp();
    find_least(problem, memory, least);
    __syncwarp();  // all have read the keys
    u32 open = 0;  // this lane's columns
    tree.row_parent = -1;
    tree.below_row.rows = lane < problem.n_rows ? 1u << lane : 0;
    EACH_WORD(s) {
        tree.below_row.columns[s] = 0;
        tree.column_parent[s] = -1;
        tree.below_column[s].rows = 0;
        const bool is_column = 32 * s + lane < problem.n_columns;
        open |= (u32)is_column << s;
        EACH_WORD(w) tree.below_column[s].columns[w] = w == s && is_column ? 1u << lane : 0;
    }
    int rows_left = problem.n_rows, columns_left = problem.n_columns;
    for (;;) {
        int best = NOTHING, word = 0;
        EACH_WORD(s) {
            const int key = least[s] + column_key[s];
            if ((open >> s & 1) && key < best) {
                best = key;
                word = s;
            }
        }
        const int best_of_all = warp_least(best), row = best_of_all & 31;
        const int winner = first_set(__ballot_sync(ALL_LANES, best == best_of_all));
        word = COLUMN_WORDS == 1 ? 0 : __shfl_sync(ALL_LANES, word, winner);
        const i64 supply = __shfl_sync(ALL_LANES, tree.row_flow, row);
        const i64 demand = __shfl_sync(ALL_LANES, pick(tree.column_flow, word), winner);
        const bool last = rows_left == 1 && columns_left == 1;
        if (!last && (rows_left == 1 || (columns_left > 1 && demand <= supply))) {
            join_if(lane == row, tree.below_row, shared_set(pick(tree.below_column, word), winner));
            if (lane == row) tree.row_flow -= demand;
            if (lane == winner) open &= ~(1u << word);
            EACH_WORD(s) tree.column_parent[s] = lane == winner && s == word ? row : tree.column_parent[s];
            columns_left--;
            continue;
        }
        const Set child = shared_set(tree.below_row, row);
        EACH_WORD(s) {
            const bool mine = lane == winner && s == word;
            tree.column_flow[s] -= mine ? supply : 0;
            join_if(mine, tree.below_column[s], child);
        }
        if (lane == row) {
            tree.row_parent = 32 * word + winner;
            memory.row_key[row] = CLOSED;
        }
        if (last) return;
        rows_left--;
        bool orphaned = false;
        EACH_WORD(s) orphaned |= (open >> s & 1) && (least[s] & 31) == row;
        __syncwarp();
        if (__any_sync(ALL_LANES, orphaned)) find_least(problem, memory, least);
        __syncwarp();
    }
}

// Potentials from the tree: row - column = cost on tree arcs. A row first learns its height above the next row up, and
// then, in a few rounds, above the root.
DEVICE void find_potentials(const Problem& problem, const Memory& memory, Tree& tree) {
    const int lane = lane_id();
    const int up = max(tree.row_parent, 0);
    int next = -1;
    EACH_WORD(s) {
        const int above = __shfl_sync(ALL_LANES, tree.column_parent[s], up & 31);
        if (s == up >> 5) next = above;
    }
    i64 height = 0;
    if (lane < problem.n_rows) {
        height = cost_of(memory, lane, up);
        if (next >= 0) height -= cost_of(memory, next, up);
    } else {
        next = -1;
    }
    while (__any_sync(ALL_LANES, next >= 0)) {
        const i64 more = __shfl_sync(ALL_LANES, height, max(next, 0));
        const int further = __shfl_sync(ALL_LANES, next, max(next, 0));
        if (next >= 0) {
            height += more;
            next = further;
        }
    }
    tree.row_potential = height;
    EACH_WORD(s) {
        const int parent = tree.column_parent[s];
        const i64 above = __shfl_sync(ALL_LANES, height, max(parent, 0));
        tree.column_potential[s] = parent >= 0 ? above - cost_of(memory, parent, 32 * s + lane) : 0;
    }
}
