// A pivot of exact_lanes.cu: one arc enters the tree, another leaves it, and a subtree hangs elsewhere.
//
// Shipping more along the new arc takes flow from every second arc of its cycle: on the row's side from those that
// join a row to its parent, on the column's side from those that join a column to its parent. Rows and columns
// alternate on the way up, so signs do too. Of the arcs that lose all flow, the last one of the cycle leaves, which
// keeps the tree strongly feasible: hence '<' on the row's side and '<=' on the column's.

constexpr i64 UNBOUNDED = 1ll << 62;  // more than any flow << PARENT_BITS

// What a pivot moves: a subtree, and on which side of the cycle it hung.
struct Moved {
    Set nodes;
    bool on_column_side;
};

// The arc that blocks first on the way from one end of a new arc to the first node above both ends.
struct Climb {
    i64 flow;  // of the blocking arc, without a parent in the low bits
    int leaving, join;
};

// Climb from `end` to the first node that has `other_end` below. An arc blocks if its word is less than flow + slack.
DEVICE Climb climb(const Tree& tree, int end, int other_end, i64 flow, i64 slack) {
    int leaving = -1, x = end;
    bool loses = true;
    for (;;) {
        const i64 word = tree.arc[x];
        if (has(tree.below[x], other_end)) return {flow, leaving, x};
        if (loses && word < flow + slack) {
            flow = word & ~PARENT_MASK;
            leaving = x;
        }
        loses = !loses;
        x = parent_of(word);
    }
}

// Turn the path from `end` to `leaving` around, so that its nodes hang on `other_end` by an arc with the given flow.
// Returns the old parent of `leaving`; `change` is then what the arc from there gains.
DEVICE int reverse_path(const Tree& tree, int end, int leaving, int other_end, i64 flow, Set moved, i64& change) {
    Set passed = 0;
    i64 new_word = flow | other_end;
    change = -flow;
    for (int y = end;;) {
        const i64 word = tree.arc[y];
        const Set below = tree.below[y];
        tree.arc[y] = new_word;
        tree.below[y] = moved ^ passed;
        passed = below;
        new_word = ((word & ~PARENT_MASK) + change) | y;
        change = -change;
        if (y == leaving) return parent_of(word);
        y = parent_of(word);
    }
}

// Ancestors from `y` on, below the join: their subtrees lose or gain the moved one, their arcs gain `change` in turns.
DEVICE void update_ancestors(const Tree& tree, int y, int join, Set moved, i64 change) {
    while (y != join) {
        const i64 word = tree.arc[y];
        tree.arc[y] = word + change;
        tree.below[y] ^= moved;
        change = -change;
        y = parent_of(word);
    }
}

DEVICE Moved pivot_alone(const Tree& tree, const Arc& arc) {
    const Climb of_row = climb(tree, arc.row, arc.column, UNBOUNDED, 0);
    const Climb of_column = climb(tree, arc.column, arc.row, of_row.flow, PARENT_MASK + 1);
    const bool on_column_side = of_column.leaving >= 0;
    const int leaving = on_column_side ? of_column.leaving : of_row.leaving;
    const int end = on_column_side ? arc.column : arc.row, other_end = on_column_side ? arc.row : arc.column;
    const Set moved = tree.below[leaving];
    i64 change;
    const int above = reverse_path(tree, end, leaving, other_end, of_column.flow, moved, change);
    update_ancestors(tree, above, of_row.join, moved, change);
    update_ancestors(tree, other_end, of_row.join, moved, -of_column.flow);
    return {moved, on_column_side};
}

// The same by two lanes: each climbs one side of the cycle.
DEVICE Moved pivot_together(const Team& team, const Tree& tree, const Arc& arc) {
    const bool column_side = team.half == 1;
    const int end = column_side ? arc.column : arc.row, other_end = column_side ? arc.row : arc.column;
    const Climb own = climb(tree, end, other_end, UNBOUNDED, column_side ? PARENT_MASK + 1 : 0);
    const i64 flow_of_partner = of_partner(team, own.flow);
    const int leaving_of_partner = of_partner(team, own.leaving);
    const bool mine = column_side ? own.flow <= flow_of_partner : own.flow < flow_of_partner;
    const int leaving = mine ? own.leaving : leaving_of_partner;
    const i64 flow = mine ? own.flow : flow_of_partner;
    const Set moved = tree.below[leaving];
    sync(team);  // both have read what they need of the old tree
    i64 change = -flow;
    const int above = mine ? reverse_path(tree, end, leaving, other_end, flow, moved, change) : end;
    update_ancestors(tree, above, own.join, moved, change);
    return {moved, mine == column_side};
}

// One predicated addition; compilers rather select between two sums, which takes more registers.
DEVICE void add_where(u32 word, u32 bit, i64 amount, i64& value) {
#ifdef __CUDA_ARCH__
    asm("{.reg .pred p; .reg .b32 t; and.b32 t, %2, %3; setp.ne.u32 p, t, 0; @p add.s64 %0, %0, %1;}"
        : "+l"(value)
        : "l"(amount), "r"(word), "r"(bit));
#else
    if (word & bit) value += amount;
#endif
}

// Shift the potentials of a moved subtree, so that the new arc costs nothing.
DEVICE void shift_potentials(
    const Team& team, const Problem& problem, const Tree& tree, const Moved& moved, i64 reduced_cost,
    i64 (&potential)[COLUMNS]
) {
    const i64 shift = moved.on_column_side ? -reduced_cost : reduced_cost;
    const Set columns = (moved.nodes & problem.columns) >> team.first_column;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) add_where((u32)columns, 1u << c, shift, potential[c]);
    for (Set r = moved.nodes & problem.rows & share(team); r; r = without_first(r))
        tree.row_potential[rank_of(problem, first_set(r))] += shift;
    sync(team);
}
