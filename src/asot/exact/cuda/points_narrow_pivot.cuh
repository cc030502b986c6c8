// A pivot of points_narrow.cu: one arc enters the tree, another leaves it, and a subtree hangs elsewhere.
//
// Nobody climbs: each lane asks for its own nodes whether the ends of the new arc are below them. A node that is above
// one end only is on that end's side of the cycle. Shipping more along the new arc takes flow from the arcs that join a
// row to its parent on the row's side, and a column to its parent on the column's side; the others gain. Of the arcs
// that lose all flow, the last one of the cycle leaves, which keeps the tree strongly feasible: the highest on the
// column's side or, if there is none, the lowest on the row's side.

// Which of a lane's nodes are on the cycle, on which side.
struct Cycle {
    bool row_on_row_side, row_on_column_side;
    u32 columns_on_row_side, columns_on_column_side;  // bit s: column lane + 32 s
};

DEVICE Cycle find_cycle(const Tree& tree, const Arc& arc) {
    const bool above_row = tree.below_row.rows >> arc.row & 1, above_column = has_column(tree.below_row, arc.column);
    Cycle cycle = {above_row && !above_column, above_column && !above_row, 0, 0};
    EACH_WORD(s) {
        const u32 to_row = tree.below_column[s].rows >> arc.row & 1;
        const u32 to_column = has_column(tree.below_column[s], arc.column);
        cycle.columns_on_row_side |= (to_row & ~to_column) << s;
        cycle.columns_on_column_side |= (to_column & ~to_row) << s;
    }
    return cycle;
}

// The node whose arc leaves (columns count from 32), and its flow.
DEVICE int find_leaving(const Tree& tree, const Cycle& cycle, i64& delta) {
    const int lane = lane_id();
    i64 least = cycle.row_on_row_side ? tree.row_flow : TOP;
    EACH_WORD(s) if (cycle.columns_on_column_side >> s & 1) least = min(least, tree.column_flow[s]);
    delta = warp_least(least);
    int best = NOTHING, node = lane;  // the size of a node's subtree tells how high it is
    if (cycle.row_on_row_side && tree.row_flow == delta) best = NODES + size_of(tree.below_row);
    EACH_WORD(s) if ((cycle.columns_on_column_side >> s & 1) && tree.column_flow[s] == delta) {
        const int last = NODES - size_of(tree.below_column[s]);
        if (last < best) {
            best = last;
            node = 32 + 32 * s + lane;
        }
    }
    const int best_of_all = warp_least(best);
    return __shfl_sync(ALL_LANES, node, first_set(__ballot_sync(ALL_LANES, best == best_of_all)));
}

// The subtree of a node, to all lanes.
DEVICE Set subtree(const Tree& tree, int node) {
    Set set = pick(tree.below_column, (node >> 5) - 1);
    set.rows = node < 32 ? tree.below_row.rows : set.rows;
    EACH_WORD(s) set.columns[s] = node < 32 ? tree.below_row.columns[s] : set.columns[s];
    return shared_set(set, node & 31);
}

// A node of the path that is turned hangs on the one that was below it, with the flow between them; the end of the path
// hangs on the other end of the new arc. Below it is all that moves, without what was below its new parent.
DEVICE void turn_node(
    int node, int end, int other_end, i64 delta, const Memory& memory, const Set& moved, const Set& below_parent,
    int& parent, i64& flow, Set& below
) {
    below = moved;
    if (node == end) {
        parent = other_end;
        flow = delta;
    } else {
        parent = memory.lower[node];
        flow = memory.flow[node];
        differ(below, below_parent);
    }
}

// Bring an arc into the tree, and shift the potentials of the subtree that it moves.
DEVICE void pivot(const Problem& problem, const Memory& memory, const Arc& arc, Tree& tree) {
    const int lane = lane_id();
    const Cycle cycle = find_cycle(tree, arc);
    i64 delta;
    const int leaving = find_leaving(tree, cycle, delta);
    const Set moved = subtree(tree, leaving);
    const bool on_column_side = has_column(moved, arc.column);
    const int end = on_column_side ? 32 + arc.column : arc.row;
    const int other_end = on_column_side ? arc.row : arc.column;  // among the rows, or among the columns
    const bool row_moves = moved.rows >> lane & 1;
    u32 columns_move = 0;
    EACH_WORD(s) columns_move |= (moved.columns[s] >> lane & 1) << s;
    const bool row_turns = row_moves && (on_column_side ? cycle.row_on_column_side : cycle.row_on_row_side);
    const u32 columns_turn = columns_move & (on_column_side ? cycle.columns_on_column_side : cycle.columns_on_row_side);
    // Along the cycle flows change, and on the path that is turned they go to the parent, which will hang on the node.
    if (cycle.row_on_row_side) tree.row_flow -= delta;
    if (cycle.row_on_column_side) tree.row_flow += delta;
    if (row_turns && lane != leaving) {
        memory.flow[32 + tree.row_parent] = tree.row_flow;
        memory.lower[32 + tree.row_parent] = lane;
    }
    EACH_WORD(s) {
        if (cycle.columns_on_column_side >> s & 1) tree.column_flow[s] -= delta;
        if (cycle.columns_on_row_side >> s & 1) tree.column_flow[s] += delta;
        if ((columns_turn >> s & 1) && 32 + 32 * s + lane != leaving) {
            memory.flow[tree.column_parent[s]] = tree.column_flow[s];
            memory.lower[tree.column_parent[s]] = 32 * s + lane;
        }
    }
    __syncwarp();
    const bool row_learns = row_turns && lane != end;
    const int row_lower = row_learns ? memory.lower[lane] : 0;
    Set below_lower = {};  // of the column below this lane's row
    EACH_WORD(s) {
        Set set;
        set.rows = __shfl_sync(ALL_LANES, tree.below_column[s].rows, row_lower & 31);
        EACH_WORD(w) set.columns[w] = __shfl_sync(ALL_LANES, tree.below_column[s].columns[w], row_lower & 31);
        below_lower.rows = s == row_lower >> 5 ? set.rows : below_lower.rows;
        EACH_WORD(w) below_lower.columns[w] = s == row_lower >> 5 ? set.columns[w] : below_lower.columns[w];
    }
    EACH_WORD(s) {
        const int node = 32 + 32 * s + lane;
        const bool turns = columns_turn >> s & 1;
        const int lower = turns && node != end ? memory.lower[node] : 0;
        Set below;
        below.rows = __shfl_sync(ALL_LANES, tree.below_row.rows, lower);
        EACH_WORD(w) below.columns[w] = __shfl_sync(ALL_LANES, tree.below_row.columns[w], lower);
        if (turns) {
            turn_node(node, end, other_end, delta, memory, moved, below, tree.column_parent[s], tree.column_flow[s],
                      tree.below_column[s]);
        } else if ((cycle.columns_on_row_side | cycle.columns_on_column_side) >> s & 1) {
            differ(tree.below_column[s], moved);
        }
    }
    if (row_turns) {
        turn_node(lane, end, other_end, delta, memory, moved, below_lower, tree.row_parent, tree.row_flow,
                  tree.below_row);
    } else if (cycle.row_on_row_side || cycle.row_on_column_side) {
        differ(tree.below_row, moved);
    }
    const i64 shift = on_column_side ? -arc.reduced_cost : arc.reduced_cost;
    if (row_moves) {
        tree.row_potential += shift;
        memory.row_key[lane] = -(high_word(tree.row_potential) << ROW_BITS);
    }
    EACH_WORD(s) if (columns_move >> s & 1) tree.column_potential[s] += shift;
    __syncwarp();
}
