// How a pair lies in memory in exact_lanes.cu, and the tree that its simplex starts from.

#if NODES <= 32
typedef u32 Set;
#else
typedef u64 Set;
#endif

constexpr int COLUMNS = (NODES + LANES - 1) / LANES;  // nodes whose potentials a lane holds
constexpr int PLACES = LANES * COLUMNS;
constexpr int PAIRS = 32 / LANES;   // pairs per warp
constexpr int STRIDE = PLACES | 1;  // of a row of costs
constexpr int COARSE_WORDS = (COLUMNS + 1) / 2;
constexpr int COARSE_STRIDE = (LANES * COARSE_WORDS) | 1;
constexpr int CHUNK = LANES * ARC_WORDS;
constexpr int ARC_STRIDE = (ARC_CHUNKS * CHUNK) | 1;
constexpr int PARENT_BITS = 8;
constexpr i64 PARENT_MASK = (1 << PARENT_BITS) - 1;
constexpr u32 NO_ARC = 0xffffu;

// The tables in shared memory, in 32-bit words. Low words and unit costs stay in global memory where trees need the
// room.
constexpr bool ALL_NEAR = NODES <= 32;
constexpr int UNIT_AT = 0;
constexpr int HIGH_AT = UNIT_AT + (ALL_NEAR ? 2 * NODES * NODES : 0);
constexpr int LOW_AT = HIGH_AT + NODES * STRIDE;
constexpr int COARSE_AT = LOW_AT + (ALL_NEAR ? NODES * STRIDE : 0);
constexpr int MASKS_AT = COARSE_AT + NODES * COARSE_STRIDE;
constexpr int ENDS_AT = MASKS_AT + NODES * ARC_STRIDE;
static_assert(TABLE_BYTES == (ENDS_AT + 16 * ARC_CHUNKS * CHUNK + 3) / 4 * 16, "the host counts otherwise");

// A pair's bytes: its arcs, and then potentials while the start is built, where later subtrees and row potentials are.
constexpr int BELOW_AT = 8 * PLACES;
constexpr int ROW_POTENTIAL_AT = BELOW_AT + (int)sizeof(Set) * PLACES;
constexpr int PAIR_BYTES = NODES <= 32 ? 16 * PLACES : ROW_POTENTIAL_AT + 8 * MOST_ROWS;
static_assert(WARP_BYTES == PAIRS * PAIR_BYTES, "the host counts otherwise");

struct Tables {
    const double* unit;  // (NODES, NODES) unrounded costs
    const int* high;     // (NODES, STRIDE) words of the integer cost
    const u32* low;      // (NODES, STRIDE)
    const u32* coarse;   // (NODES, COARSE_STRIDE) the upper bits of two costs, less 2^COARSE_BITS
    const u32* masks;    // (NODES, ARC_STRIDE) the arcs of a node
    const u16* ends;     // (arcs,) one end | the other << 8
};

// An array of a pair, interleaved with those of the other pairs of the warp.
template <typename T>
struct Interleaved {
    T* first;
    DEVICE T& operator[](int x) const { return first[x * PAIRS]; }
};

struct Tree {
    Interleaved<i64> arc;            // (PLACES,) flow << PARENT_BITS | parent; the root is its own parent
    Interleaved<i64> potential;      // (PLACES,) while the start is built
    Interleaved<Set> below;          // (PLACES,) each node's subtree
    Interleaved<i64> row_potential;  // (MOST_ROWS,) by rank among the rows
};

// Which lanes solve a pair, and which of its columns are this lane's.
struct Team {
    int lane, half, first_column;
    u32 mask;
};

struct Problem {
    Set rows, columns;
    int n_rows, n_columns;
    bool swapped;  // the rows are the sinks
};

DEVICE Set bit(int x) { return (Set)1 << x; }
DEVICE bool has(Set set, int x) { return (set >> x) & 1; }
DEVICE Set without_first(Set set) { return set & (set - 1); }
DEVICE int parent_of(i64 arc) { return (int)(arc & PARENT_MASK); }
DEVICE int rank_of(const Problem& problem, int row) { return count_set((Set)(problem.rows & (bit(row) - 1))); }
DEVICE i64 cost_of(const Tables& tables, int x, int y) {
    return ((i64)tables.high[x * STRIDE + y] << 32) | tables.low[x * STRIDE + y];
}

DEVICE void sync(const Team& team) {
    if (LANES == 2) __syncwarp(team.mask);
}
template <typename T>
DEVICE T of_partner(const Team& team, T value) {
    return __shfl_xor_sync(team.mask, value, 1);
}
DEVICE Set share(const Team& team) {  // the nodes for which this lane is responsible
    if (LANES == 1) return ~(Set)0;
    return team.half ? ~(bit(COLUMNS) - 1) : bit(COLUMNS) - 1;
}

// Nodes, last in first out, in registers.
struct Stack {
    static constexpr int BITS = NODES <= 32 ? 5 : 6;
    static constexpr int WORDS = (BITS * (NODES - 1) + 31) / 32;
    u32 word[WORDS];
    DEVICE void clear() {
#pragma unroll
        for (int w = 0; w < WORDS; w++) word[w] = 0;
    }
    DEVICE void push(int x) {
#pragma unroll
        for (int w = WORDS - 1; w > 0; w--) word[w] = (word[w] << BITS) | (word[w - 1] >> (32 - BITS));
        word[0] = (word[0] << BITS) | (u32)x;
    }
    DEVICE int pop() {
        const int x = word[0] & ((1 << BITS) - 1);
#pragma unroll
        for (int w = 0; w < WORDS; w++)
            word[w] = (word[w] >> BITS) | (w + 1 < WORDS ? word[w + 1 < WORDS ? w + 1 : w] << (32 - BITS) : 0);
        return x;
    }
};

// Masses of the pair's histograms, which lie transposed: (NODES, count). Leaves |surplus| in the arcs.
DEVICE Problem place_masses(
    const Team& team, const i64* first, i64 first_count, const i64* second, i64 second_count, bool live,
    const Tree& tree
) {
    Set sources = 0, sinks = 0;
    first += team.first_column * first_count;
    second += team.first_column * second_count;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++, first += first_count, second += second_count) {
        const int x = team.first_column + c;
        const i64 surplus = live && x < NODES ? *first - *second : 0;
        if (surplus > 0) sources |= bit(c);
        if (surplus < 0) sinks |= bit(c);
        tree.arc[x] = surplus < 0 ? -surplus : surplus;
    }
    if (LANES == 2) {
        sources <<= team.first_column;
        sinks <<= team.first_column;
        sources |= of_partner(team, sources);
        sinks |= of_partner(team, sinks);
    }
    const int p = count_set(sources), q = count_set(sinks);
    sync(team);
    return p > q ? Problem{sinks, sources, q, p, true} : Problem{sources, sinks, p, q, false};
}

// The arcs that are open, as far as this lane holds them: they join an open row and an open column.
DEVICE void open_arcs(const u32* masks, Set rows, Set columns, u32 (&open)[ARC_WORDS]) {
    u32 of_columns[ARC_WORDS];
#pragma unroll
    for (int w = 0; w < ARC_WORDS; w++) open[w] = of_columns[w] = 0;
    for (Set r = rows; r; r = without_first(r)) {
        const u32* mask = masks + first_set(r) * ARC_STRIDE;
#pragma unroll
        for (int w = 0; w < ARC_WORDS; w++) open[w] |= mask[w];
    }
    for (Set r = columns; r; r = without_first(r)) {
        const u32* mask = masks + first_set(r) * ARC_STRIDE;
#pragma unroll
        for (int w = 0; w < ARC_WORDS; w++) of_columns[w] |= mask[w];
    }
#pragma unroll
    for (int w = 0; w < ARC_WORDS; w++) open[w] &= of_columns[w];
}

// Position of the first open arc of the team within the chunk, or NO_ARC.
DEVICE u32 next_arc(const Team& team, const u32 (&open)[ARC_WORDS]) {
    u32 word = 0;
    int at = 0;
#pragma unroll
    for (int w = ARC_WORDS - 1; w >= 0; w--)
        if (open[w]) {
            word = open[w];
            at = w;
        }
    const u32 found = word ? (team.half * ARC_WORDS + at) * 32 + first_set(word) : NO_ARC;
    return LANES == 2 ? min(found, of_partner(team, found)) : found;
}

// A feasible basis: ship along the first open arc, close the end that is done, and hang it on the other. Ties close the
// column: arcs without flow then point to the root. Returns the root, the last node; the others are on the stack.
DEVICE int greedy_start(
    const Team& team, const Tables& tables, const Problem& problem, const Tree& tree, Stack& closed
) {
    Set rows = problem.rows, columns = problem.columns;
    int rows_left = problem.n_rows, columns_left = problem.n_columns, root = 0;
    bool unfinished = rows_left > 0;
    closed.clear();
    for (int chunk = 0; chunk < ARC_CHUNKS; chunk++) {
        const u32* masks = tables.masks + chunk * CHUNK + team.half * ARC_WORDS;
        u32 open[ARC_WORDS];
        open_arcs(masks, unfinished ? rows : 0, unfinished ? columns : 0, open);
        while (unfinished) {
            const u32 arc = next_arc(team, open);
            if (arc == NO_ARC) break;
            const u32 ends = tables.ends[chunk * CHUNK * 32 + arc];
            const int one = ends & 255, two = ends >> 8;
            const bool ordered = has(problem.rows, one);
            const int row = ordered ? one : two, column = ordered ? two : one;
            const i64 supply = tree.arc[row], demand = tree.arc[column];
            const bool last = rows_left == 1 && columns_left == 1;
            const bool close_column = !last && (rows_left == 1 || (columns_left > 1 && demand <= supply));
            const int child = close_column ? column : row, parent = close_column ? row : column;
            const i64 shipped = close_column ? demand : supply, mass = close_column ? supply : demand;
            sync(team);  // both have read the masses
            if (team.half == 0) {
                tree.arc[child] = shipped | parent;
                tree.arc[parent] = last ? (i64)parent : mass - shipped;
            }
            sync(team);
            closed.push(child);
            if (last) {
                root = parent;
                unfinished = false;
                break;
            }
            if (close_column) {
                columns_left--;
                columns &= ~bit(child);
            } else {
                rows_left--;
                rows &= ~bit(child);
            }
            const u32* mask = masks + child * ARC_STRIDE;
#pragma unroll
            for (int w = 0; w < ARC_WORDS; w++) open[w] &= ~mask[w];
        }
        __syncwarp();
    }
    return root;
}

// Potentials (row - column = cost on tree arcs), those of the columns into registers, and subtrees. What was closed
// last hangs nearest to the root.
DEVICE void plant_tree(
    const Team& team, const Tables& tables, const Problem& problem, int root, Stack& closed, const Tree& tree,
    i64 (&potential)[COLUMNS]
) {
    const int steps = problem.n_rows ? problem.n_rows + problem.n_columns - 1 : 0;
    Stack nearest;
    nearest.clear();
    if (team.half == 0) {
        tree.potential[root] = 0;
        for (int step = 0; step < steps; step++) {
            const int x = closed.pop(), y = parent_of(tree.arc[x]);
            const i64 cost = cost_of(tables, x, y);
            tree.potential[x] = tree.potential[y] + (has(problem.rows, x) ? cost : -cost);
            nearest.push(x);
        }
    }
    __syncwarp();
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) potential[c] = tree.potential[team.first_column + c];
    __syncwarp();
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) tree.below[team.first_column + c] = bit(team.first_column + c);
    __syncwarp();
    if (team.half == 0)
        for (int step = 0; step < steps; step++) {
            const int x = nearest.pop(), y = parent_of(tree.arc[x]);
            tree.below[y] |= tree.below[x];
        }
    __syncwarp();
    int rank = rank_of(problem, team.first_column);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        if (has(problem.rows >> team.first_column, c)) tree.row_potential[rank++] = potential[c];
        if (!has(problem.columns >> team.first_column, c)) potential[c] = NEVER;
    }
    __syncwarp();
}
