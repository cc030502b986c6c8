// A pivot of exact_warp.cu: one arc enters the tree, another leaves it, and a subtree hangs elsewhere.
//
// Nobody climbs: each lane asks for the nodes in its own care whether the ends of the new arc are below them. A node
// that is above one end only is on that end's side of the cycle. Shipping more along the new arc takes flow from the
// arcs that join a row to its parent on the row's side, and a column to its parent on the column's side; the others
// gain. Of the arcs that lose all flow, the last one of the cycle leaves, which keeps the tree strongly feasible: the
// highest on the column's side or, if there is none, the lowest on the row's side.

template <typename T>
DEVICE T warp_min(T value) {
    for (int far = 16; far > 0; far /= 2) value = min(value, __shfl_xor_sync(ALL_LANES, value, far));
    return value;
}

// What a lane knows of the nodes in its own care, lane + 32 s, on the cycle; sets have bit s.
struct Cycle {
    u32 on_row_side, on_column_side, losing;
    i64 flow[WORDS];  // on the arc to the parent
    int parent[WORDS];
};

DEVICE Cycle find_cycle(const Problem& problem, const Tree& tree, const Arc& arc) {
    const int lane = lane_id();
    Cycle cycle = {0, 0, 0};
#pragma unroll
    for (int s = 0; s < WORDS; s++) {
        const int y = min(32 * s + lane, NODES - 1);
        const u32* below = tree.below + y * BELOW_STRIDE;
        const u32 above_row = below[arc.row >> 5] >> (arc.row & 31);
        const u32 above_column = below[arc.column >> 5] >> (arc.column & 31);
        const u32 is_node = 32 * s + lane < NODES;
        cycle.on_row_side |= (above_row & ~above_column & is_node) << s;
        cycle.on_column_side |= (above_column & ~above_row & is_node) << s;
        cycle.flow[s] = tree.flow[y];
        cycle.parent[s] = tree.parent[y];
    }
    cycle.losing = (cycle.on_row_side & ~problem.own_columns) | (cycle.on_column_side & problem.own_columns);
    return cycle;
}

// The node whose arc leaves, and its flow.
DEVICE int find_leaving(const Tree& tree, const Cycle& cycle, i64& delta) {
    const int lane = lane_id();
    i64 least = TOP;
#pragma unroll
    for (int s = 0; s < WORDS; s++)
        if (cycle.losing >> s & 1) least = min(least, cycle.flow[s]);
    delta = warp_min(least);
    int best = 2 * NODES + 1, node = 0;  // the size of a node's subtree tells how high it is
#pragma unroll
    for (int s = 0; s < WORDS; s++)
        if ((cycle.losing >> s & 1) && cycle.flow[s] == delta) {
            int size = 0;
            for (int w = 0; w < WORDS; w++) size += count_set(tree.below[(32 * s + lane) * BELOW_STRIDE + w]);
            const int last = cycle.on_column_side >> s & 1 ? NODES - size : NODES + size;
            if (last < best) {
                best = last;
                node = 32 * s + lane;
            }
        }
    const int best_of_all = warp_min(best);
    return __shfl_sync(ALL_LANES, node, first_set(__ballot_sync(ALL_LANES, best == best_of_all)));
}

// Flows and parents along the cycle. The path from `end` to the leaving node is turned around: each of its nodes
// hands its flow to its parent, which will hang on it.
DEVICE void redirect(const Tree& tree, const Cycle& cycle, u32 turned, int leaving, int end, int other_end, i64 delta) {
    const int lane = lane_id();
    const u32 on_cycle = cycle.on_row_side | cycle.on_column_side;
    __syncwarp();  // all have read the old tree
#pragma unroll
    for (int s = 0; s < WORDS; s++) {
        const int y = 32 * s + lane;
        const i64 flow = cycle.flow[s] + (cycle.losing >> s & 1 ? -delta : delta);
        if (turned >> s & 1) {
            if (y != leaving) {
                tree.flow[cycle.parent[s]] = flow;
                tree.parent[cycle.parent[s]] = y;
            }
            if (y == end) {
                tree.flow[y] = delta;
                tree.parent[y] = other_end;
            }
        } else if (on_cycle >> s & 1) {
            tree.flow[y] = flow;
        }
    }
    __syncwarp();
}

// Bring an arc into the tree, and shift the potentials of the subtree that it moves.
DEVICE void pivot(const Problem& problem, const Tree& tree, const Arc& arc, i64 (&potential)[WORDS]) {
    const int lane = lane_id(), word = min(lane, WORDS - 1);
    const Cycle cycle = find_cycle(problem, tree, arc);
    i64 delta;
    const int leaving = find_leaving(tree, cycle, delta);
    const u32 moved = tree.below[leaving * BELOW_STRIDE + word];
    u32 own_moved = 0;
#pragma unroll
    for (int s = 0; s < WORDS; s++) own_moved |= (__shfl_sync(ALL_LANES, moved, s) >> lane & 1) << s;
    const bool on_column_side = has(moved, arc.column);
    const int end = on_column_side ? arc.column : arc.row, other_end = on_column_side ? arc.row : arc.column;
    const u32 turned = (on_column_side ? cycle.on_column_side : cycle.on_row_side) & own_moved;
    redirect(tree, cycle, turned, leaving, end, other_end, delta);
    // Subtrees: old ancestors lose the moved one, new ones gain it. On the path that was turned, from above: below a
    // node is now all that is moved, without what was below its lower neighbor.
    const u32 ancestors = (cycle.on_row_side | cycle.on_column_side) & ~turned;
    for (int s = 0; s < WORDS; s++)
        for (u32 lanes = __ballot_sync(ALL_LANES, ancestors >> s & 1); lanes; lanes &= lanes - 1)
            if (lane < WORDS) tree.below[(32 * s + first_set(lanes)) * BELOW_STRIDE + lane] ^= moved;
    for (int y = leaving; y != end;) {
        const int lower = tree.parent[y];
        if (lane < WORDS) tree.below[y * BELOW_STRIDE + lane] = moved ^ tree.below[lower * BELOW_STRIDE + lane];
        y = lower;
    }
    if (lane < WORDS) tree.below[end * BELOW_STRIDE + lane] = moved;
    const i64 shift = on_column_side ? -arc.reduced_cost : arc.reduced_cost;
#pragma unroll
    for (int s = 0; s < WORDS; s++)
        if (own_moved & problem.own_columns & 1u << s) potential[s] += shift;
    for (int first = 0; first < problem.n_rows; first += 32) {
        const int rank = min(first + lane, problem.n_rows - 1), row = tree.row[rank];
        const u32 members = __shfl_sync(ALL_LANES, moved, row >> 5);
        if (first + lane < problem.n_rows && (members >> (row & 31)) & 1) tree.row_potential[rank] += shift;
    }
    __syncwarp();
}
