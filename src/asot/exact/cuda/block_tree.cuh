// The spanning tree of a block's problem, in shared memory, and a pivot of it.
//
// The tree is kept in preorder: a subtree is a stretch of neighboring places, so one comparison tells whether a node is
// above another. Nobody climbs, however deep the tree is: every thread asks for its places whether they are on the
// cycle. A subtree that moves is put into its new order at once, each node by itself (see `new_place`).
//
// Shipping more along the new arc takes flow from the arcs that join a row to its parent on the row's side of the cycle,
// and a column to its parent on the column's side; the others gain. Of the arcs that lose all flow, the last one of the
// cycle leaves, which keeps the tree strongly feasible: the highest on the column's side or, if there is none, the
// lowest on the row's side.
//
// Defines: ROWS and COLUMNS, the most of them; THREADS of a block, a multiple of 32; FAR_FLOW (0 or 1, 0 if it is not
// there): whether flows lie in global memory, for problems whose tree would not fit otherwise.

#ifndef FAR_FLOW
#define FAR_FLOW 0
#endif

constexpr int WARPS = THREADS / 32;
constexpr int NODES = ROWS + COLUMNS;
constexpr int PLACES_PER_THREAD = (NODES + THREADS - 1) / THREADS;
constexpr int GROUPS = (NODES + 31) / 32;  // of neighboring places
constexpr int NOTHING = 0x7fffffff;
static_assert(PLACES_PER_THREAD <= 32, "a thread marks its places in one word");

struct Tree {
    i64* flow;       // (NODES,) on the arc to the parent
    i64* potential;  // (NODES,)
    u32* path;       // (NODES,) the nodes that a pivot turns around: place, and size of the subtree in the upper half
    u16* parent;     // (NODES,) the root is its own parent
    u16* order;      // (NODES,) which node is where
    u16* place;      // (NODES,) and the other way around
    u16* size;       // (NODES,) of each node's subtree
    u32* turned;     // (GROUPS,) which places of a group are on the path
};

constexpr int TREE_BYTES = (FAR_FLOW ? 20 : 28) * NODES + 4 * GROUPS;

DEVICE Tree tree_at(char* memory, i64* far_flow = nullptr) {
    Tree tree;
    tree.flow = FAR_FLOW ? far_flow : (i64*)memory;
    tree.potential = (i64*)memory + (FAR_FLOW ? 0 : NODES);
    tree.path = (u32*)(tree.potential + NODES);
    tree.turned = tree.path + NODES;
    tree.parent = (u16*)(tree.turned + GROUPS);
    tree.order = tree.parent + NODES;
    tree.place = tree.order + NODES;
    tree.size = tree.place + NODES;
    return tree;
}

// Row r is node r, column c is node n_rows + c.
struct Problem {
    int n_rows, n_columns;
    int unit;  // costs are in units of 2^(unit - COST_BITS)
};

// All threads of the block wait for each other.
DEVICE void meet() {
    if (WARPS == 1) __syncwarp();
    else __syncthreads();
}

// ------------------------------------------------------------------------------------------------ over the block

struct Least {
    i64 value;
    int tag;
};

// Where warps tell each other: in turns, so that nobody overwrites what another one has not read yet.
struct Board {
    Least* of_warps;  // (2, WARPS)
    int turn;
};

DEVICE Least warp_least(Least own) {
    const i64 value = warp_least(own.value);
    return {value, warp_least(own.value == value ? own.tag : NOTHING)};
}

// The least value of all threads, and the least tag of those that have it.
DEVICE Least block_least(Least own, Board& board) {
    own = warp_least(own);
    if (WARPS == 1) return own;
    Least* slots = board.of_warps + board.turn * WARPS;
    board.turn ^= 1;
    if (lane_id() == 0) slots[threadIdx.x >> 5] = own;
    meet();
    return warp_least(lane_id() < WARPS ? slots[lane_id()] : Least{TOP, NOTHING});
}

// The largest of numbers that are not negative: their bits have the same order.
DEVICE double block_most(double own, Board& board) {
    return __longlong_as_double(-block_least({-__double_as_longlong(own), 0}, board).value);
}

DEVICE double block_sum(double own, Board& board) {
    own = warp_sum(own);
    if (WARPS == 1) return own;
    Least* slots = board.of_warps + board.turn * WARPS;
    board.turn ^= 1;
    if (lane_id() == 0) slots[threadIdx.x >> 5].value = __double_as_longlong(own);
    meet();
    return warp_sum(lane_id() < WARPS ? __longlong_as_double(slots[lane_id()].value) : 0.0);
}

// ------------------------------------------------------------------------------------------------ a pivot

// The arc that enters, and how its cycle lies in the preorder.
struct Cycle {
    int row_at, column_at, last;  // places of its ends, and the later of them
};

// Whether the node at a place is above the row's end only (1), the column's end only (-1), or neither.
DEVICE int side_of(const Cycle& cycle, int at, int size) {
    const bool above_row = (u32)(cycle.row_at - at) < (u32)size;
    const bool above_column = (u32)(cycle.column_at - at) < (u32)size;
    return (int)above_row - (int)above_column;
}

// Which of a thread's places are on the cycle, and which of them on the row's side: place threadIdx.x + k THREADS is bit k.
struct OwnPlaces {
    u32 on_cycle, on_row_side;
};

// The least flow that the cycle would take all of, and who leaves: columns' side by place, rows' side from 2 NODES down.
DEVICE Least find_leaving(
    const Problem& problem, const Tree& tree, const Cycle& cycle, OwnPlaces& own, Board& board
) {
    Least least = {TOP, NOTHING};
    own = {0, 0};
    for (int at = threadIdx.x, k = 0; at <= cycle.last; at += THREADS, k++) {
        const int node = tree.order[at], side = side_of(cycle, at, tree.size[node]);
        if (side == 0) continue;
        own.on_cycle |= 1u << k;
        own.on_row_side |= (u32)(side > 0) << k;
        if ((side > 0) != (node < problem.n_rows)) continue;
        const i64 flow = tree.flow[node];
        const int tag = side > 0 ? 2 * NODES - at : at;
        if (flow < least.value || (flow == least.value && tag < least.tag)) least = {flow, tag};
    }
    return block_least(least, board);
}

// The subtree that moves: `size` places from `at` on. It will hang from `end`, an end of the new arc, on the other one.
struct Moved {
    int at, size, end_at, onto_at;
    bool on_column_side;
    i64 flow;  // of the new arc
};

// How many places of the path lie before a place; none lies before `first`.
DEVICE int rank_of(const Tree& tree, int first, int at) {
    int rank = count_set(tree.turned[at >> 5] & ((1u << (at & 31)) - 1));
    for (int g = first >> 5; g < at >> 5; g++) rank += count_set(tree.turned[g]);
    return rank;
}

// Flows and sizes of the cycle outside of the moved subtree; and the path from `end` up to its root, root first. Returns
// where on the path the end is.
DEVICE int ship(const Problem& problem, const Tree& tree, const Moved& moved, const OwnPlaces& own) {
    const int lane = threadIdx.x & 31, first_round = moved.at / THREADS, last_round = moved.end_at / THREADS;
    const u32 moved_side = own.on_cycle & (moved.on_column_side ? ~own.on_row_side : own.on_row_side);
    const int from = first_round + ((int)threadIdx.x < moved.at % THREADS);
    const u32 turned = from < 32 ? moved_side & (~0u << from) : 0;
    for (u32 left = own.on_cycle & ~turned; left; left &= left - 1) {
        const u32 bit = left & (0u - left);
        const int node = tree.order[first_set(left) * THREADS + threadIdx.x];
        const bool is_on_row_side = own.on_row_side & bit;
        tree.flow[node] += is_on_row_side == (node < problem.n_rows) ? -moved.flow : moved.flow;
        tree.size[node] += moved_side & bit ? -moved.size : moved.size;
    }
    if (WARPS == 1) {
        int rank = 0;
        for (int k = first_round; k <= last_round; k++) {
            const bool is_turned = turned >> k & 1;
            const u32 votes = __ballot_sync(ALL_LANES, is_turned);
            if (is_turned) {
                const int at = k * THREADS + threadIdx.x;
                tree.path[rank + count_set(votes & ((1u << lane) - 1))] = at | (u32)tree.size[tree.order[at]] << 16;
            }
            rank += count_set(votes);
        }
        meet();
        return rank - 1;
    }
    for (int k = first_round; k <= last_round; k++) {
        const u32 votes = __ballot_sync(ALL_LANES, turned >> k & 1);
        const int at = k * THREADS + threadIdx.x;
        if (lane == 0 && at < NODES) tree.turned[at >> 5] = votes;
    }
    meet();
    for (u32 left = turned; left; left &= left - 1) {
        const int at = first_set(left) * THREADS + threadIdx.x;
        tree.path[rank_of(tree, moved.at, at)] = at | (u32)tree.size[tree.order[at]] << 16;
    }
    const int last = rank_of(tree, moved.at, moved.end_at);
    meet();
    return last;
}

// Turn the path around: each of its nodes will hang on the one below it, with that one's flow. `last` is the end's.
DEVICE void turn_path(const Problem& problem, const Tree& tree, const Moved& moved, int last) {
    for (int first = 0; first <= last; first += THREADS) {
        const int t = first + threadIdx.x;
        int below = 0, below_size = 0;
        i64 flow = moved.flow;
        if (t < last) {
            below = tree.order[tree.path[t + 1] & 0xffffu];
            below_size = tree.path[t + 1] >> 16;
            flow = tree.flow[below] + ((below < problem.n_rows) != moved.on_column_side ? -moved.flow : moved.flow);
        }
        meet();  // all have read
        if (t <= last) {
            const int node = tree.order[tree.path[t] & 0xffffu];
            tree.flow[node] = flow;
            tree.parent[node] = t < last ? below : tree.order[moved.onto_at];
            tree.size[node] = moved.size - below_size;
        }
    }
}

// Where a node of the moved subtree comes to stand in it: first all that was below the end, and then, ring by ring, what
// was below the next node of the path and not below the one before.
DEVICE int new_place(const Tree& tree, int at, int last) {
    int low = 0, high = last;  // the deepest node of the path that is above
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        const u32 step = tree.path[middle];
        if ((u32)(at - (int)(step & 0xffffu)) < step >> 16) low = middle;
        else high = middle - 1;
    }
    const int within = at - (int)(tree.path[low] & 0xffffu);
    if (low == last) return within;
    const int inner_at = tree.path[low + 1] & 0xffffu, inner_size = tree.path[low + 1] >> 16;
    return within + (at < inner_at ? inner_size : 0);
}

// The new preorder, and the potentials of what moved.
DEVICE void reorder(const Tree& tree, const Moved& moved, int last, i64 shift) {
    const bool forward = moved.onto_at < moved.at;
    const int from = forward ? moved.onto_at + 1 : moved.at, to = forward ? moved.at + moved.size : moved.onto_at + 1;
    const int first = forward ? from : to - moved.size, others = forward ? moved.size : -moved.size;
    u32 step[PLACES_PER_THREAD];
#pragma unroll
    for (int k = 0; k < PLACES_PER_THREAD; k++) {
        const int at = from + k * THREADS + threadIdx.x;
        if (at >= to) break;
        const int node = tree.order[at];
        int next = at + others;
        if ((u32)(at - moved.at) < (u32)moved.size) {
            next = first + new_place(tree, at, last);
            tree.potential[node] += shift;
        }
        step[k] = (u32)node | (u32)next << 16;
    }
    meet();  // all have read
#pragma unroll
    for (int k = 0; k < PLACES_PER_THREAD; k++) {
        if (from + k * THREADS + (int)threadIdx.x >= to) break;
        const int node = step[k] & 0xffffu, next = step[k] >> 16;
        tree.order[next] = node;
        tree.place[node] = next;
    }
    meet();
}

// Bring an arc between a row and a column's node into the tree.
DEVICE void pivot(const Problem& problem, const Tree& tree, int row, int column, i64 reduced_cost, Board& board) {
    const int row_at = tree.place[row], column_at = tree.place[column];
    const Cycle cycle = {row_at, column_at, max(row_at, column_at)};
    OwnPlaces own;
    const Least least = find_leaving(problem, tree, cycle, own, board);
    Moved moved;
    moved.on_column_side = least.tag < NODES;
    moved.at = moved.on_column_side ? least.tag : 2 * NODES - least.tag;
    moved.size = tree.size[tree.order[moved.at]];
    moved.end_at = moved.on_column_side ? column_at : row_at;
    moved.onto_at = moved.on_column_side ? row_at : column_at;
    moved.flow = least.value;
    const int last = ship(problem, tree, moved, own);
    turn_path(problem, tree, moved, last);
    reorder(tree, moved, last, moved.on_column_side ? -reduced_cost : reduced_cost);
}
