// An exact transportation simplex on integer data (docs/method.md §8).
//
// Every exact solver of the package ends here: p sources with masses, q sinks with masses, a p × q cost block, and the
// cheapest way to ship everything. Three ideas make it fast and free of tolerances:
//
// * Integers. Masses are int64 and balance exactly, so flows are exact. Costs are int64 whose lowest `index_bits` bits
//   hold the column, so that a plain integer minimum over a row finds the cheapest arc and its position, eight columns at
//   a time, and "no arc improves" is an exact statement.
// * A good start. A greedy least-cost basis, on costs from which each node's typical distance is subtracted.
// * Small trees. The basis is a spanning tree kept as parent, flow to the parent and the set of descendants of each node
//   as a bitset, so that "is the sink below this node?" and "shift the potentials below" are word operations. Trees are
//   kept strongly feasible (zero flows point to the root), hence the method cannot cycle.
//
// Potentials satisfy pi[i] - pi[first+j] == cost(i, j) on tree arcs.
#include "simplex.hpp"

#include "initial_basis.hpp"

namespace {

// Trees whose bitsets take W words that stand together: 1 if there is only one, else LANES.
template <int64_t W>
struct Tree {
    const Workspace& ws;
    const int64_t p, q, index_bits, first, n, stride, groups, group_size;

    INLINE Tree(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits)
        : ws(ws), p(p), q(q), index_bits(index_bits), first(first_sink(p)), n(first + q), stride(stride_of(q)),
          groups(groups_of(n)), group_size(ws.m * LANES) {}

    // Where, in the bitset of node 0, the word with the bit of x stands.
    INLINE int64_t word_of(int64_t x) const { return W == 1 ? 0 : (x / GROUP) * group_size + ((x >> 6) & (LANES - 1)); }

    // Parents, potentials and subtree bitsets from the steps of the greedy start.
    INLINE void plant() const {
        const int64_t steps = p + q - 1, value_mask = ~((int64_t(1) << index_bits) - 1);
        for (int64_t x = 0; x < n; x++) {
            const int64_t bit = int64_t(uint64_t(1) << (x & 63));
            if (W == 1) {
                ws.below[x] = bit;
            } else {
                for (int64_t g = 0; g < groups; g++) store(ws.below + g * group_size + x * LANES, spread(0));
                ws.below[word_of(x) + x * LANES] = bit;
            }
        }
        store(ws.pi + n, spread(0));
        for (int64_t x = p; x < first; x++) ws.parent[x] = int32_t(x);  // no node: like the root, no arc to a parent
        const int32_t root = ws.hung_on[steps - 1];
        ws.parent[root] = root;
        ws.pi[root] = 0;
        for (int64_t step = steps - 1; step >= 0; step--) {
            const int64_t x = ws.child[step], y = ws.hung_on[step];
            ws.parent[x] = int32_t(y);
            if (x < p)
                ws.pi[x] = ws.pi[y] + (ws.cost[x * stride + y - first] & value_mask);
            else
                ws.pi[x] = ws.pi[y] - (ws.cost[y * stride + x - first] & value_mask);
        }
        for (int64_t step = 0; step < steps; step++) {
            const int64_t x = ws.child[step], y = ws.hung_on[step];
            if (W == 1) {
                ws.below[y] |= ws.below[x];
            } else {
                for (int64_t g = 0; g < groups; g++) {
                    int64_t* o = ws.below + g * group_size;
                    store(o + y * LANES, load(o + y * LANES) | load(o + x * LANES));
                }
            }
        }
    }

    // Take the moved subtree from the descendants of y, or add it to them.
    INLINE void toggle_moved(int64_t y) const {
        if (W == 1) {
            ws.below[y] ^= ws.moved[0];
        } else {
            for (int64_t g = 0; g < groups; g++) {
                int64_t* o = ws.below + g * group_size + y * LANES;
                store(o, load(o) ^ load(ws.moved + g * LANES));
            }
        }
    }

    // Bring the arc source -> sink (reduced cost < 0) into the tree and drop the arc that blocks its cycle.
    INLINE void pivot(int64_t source, int64_t sink, int64_t reduced_cost) const {
        const int64_t word = word_of(sink), bit = sink & 63;
        // Climb from both ends to the join. Shipping more along the new arc takes flow from arcs child-source -> parent on
        // the source's side and parent -> child-sink on the sink's side; '<=' picks the last blocking arc of the cycle.
        int64_t delta = TOP, leaving = -1, x = source;
        bool on_source_side = true;
        while (((ws.below[word + x * W] >> bit) & 1) == 0) {
            const int64_t flow = ws.flow[x];
            if (x < p && flow < delta) delta = flow, leaving = x;
            x = ws.parent[x];
        }
        const int64_t join = x;
        int64_t y = sink;
        while (y != join) {
            const int64_t flow = ws.flow[y];
            if (y >= p && flow <= delta) delta = flow, leaving = y, on_source_side = false;
            y = ws.parent[y];
        }
        // The subtree under the leaving arc moves. From its old and new ancestors it is taken away and added; along the
        // cycle every second arc loses delta and the others gain it.
        if (W == 1) {
            ws.moved[0] = ws.below[leaving];
            ws.passed[0] = 0;
        } else {
            for (int64_t g = 0; g < groups; g++) {
                store(ws.moved + g * LANES, load(ws.below + g * group_size + leaving * LANES));
                store(ws.passed + g * LANES, spread(0));
            }
        }
        const int64_t end = on_source_side ? source : sink, other_end = on_source_side ? sink : source;
        const int64_t shift = on_source_side ? reduced_cost : -reduced_cost;
        int64_t change = -delta;
        for (y = other_end; y != join; y = ws.parent[y]) {
            ws.flow[y] += change;
            change = -change;
            toggle_moved(y);
        }
        // Re-hang it from `end`, reversing the path end .. leaving.
        change = -delta;
        y = end;
        int64_t new_parent = other_end, new_flow = delta;
        do {
            const int64_t old_parent = ws.parent[y], old_flow = ws.flow[y] + change;
            change = -change;
            if (W == 1) {
                const int64_t old = ws.below[y];
                ws.below[y] = ws.moved[0] ^ ws.passed[0];
                ws.passed[0] = old;
            } else {
                for (int64_t g = 0; g < groups; g++) {
                    int64_t* o = ws.below + g * group_size + y * LANES;
                    const Lanes olds = load(o);
                    store(o, load(ws.moved + g * LANES) ^ load(ws.passed + g * LANES));
                    store(ws.passed + g * LANES, olds);
                }
            }
            ws.parent[y] = int32_t(new_parent);
            ws.flow[y] = new_flow;
            new_parent = y;
            new_flow = old_flow;
            y = old_parent;
        } while (new_parent != leaving);
        for (; y != join; y = ws.parent[y]) {
            ws.flow[y] += change;
            change = -change;
            toggle_moved(y);
        }
        for (int64_t o = 0; o < n; o += 64) {
            int64_t members = ws.moved[o >> 6];
            if (members == 0) continue;
            const int64_t end_of_word = o + 64 < n ? o + 64 : n;
            for (int64_t b = o; b < end_of_word; b += LANES) {
                store(ws.pi + b, plus_where(members, load(ws.pi + b), spread(shift)));
                members >>= LANES;
            }
        }
    }

    // Pivot until no arc improves. The number of pivots, or -1 if `stop` was raised in the meantime.
    INLINE int64_t improve(Stop stop) const {
        const int64_t index_mask = (int64_t(1) << index_bits) - 1;
        int64_t row = 0, pivots = 0;
        while (true) {
            // The best arc of four rows, cyclic; a full round without one proves optimality.
            int64_t scanned = 0, best = 0, r0 = row, r1 = row, r2 = row, r3 = row;
            while (scanned < p && best >= 0) {
                r0 = row;
                r1 = r0 + 1 < p ? r0 + 1 : 0;
                r2 = r1 + 1 < p ? r1 + 1 : 0;
                r3 = r2 + 1 < p ? r2 + 1 : 0;
                row = r3 + 1 < p ? r3 + 1 : 0;
                best = least_of_four(ws, r0, r1, r2, r3, first, stride);
                scanned += 4;
            }
            if (best >= 0) return pivots;
            const int64_t column = best & index_mask;
            const int64_t pi = ws.pi[first + column] - best;  // the row is the one whose reduced cost is the best
            int64_t source = r0;
            source = ws.cost[r1 * stride + column] + pi == ws.pi[r1] ? r1 : source;
            source = ws.cost[r2 * stride + column] + pi == ws.pi[r2] ? r2 : source;
            source = ws.cost[r3 * stride + column] + pi == ws.pi[r3] ? r3 : source;
            pivot(source, first + column, best - column);
            pivots++;
            if ((pivots & 255) == 0 && *stop != 0) return -1;
        }
    }
};

}  // namespace

int64_t solve_block(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits, Stop stop) {
    greedy_start(ws, p, q, index_bits);
    if (first_sink(p) + q <= 64) {
        Tree<1> tree(ws, p, q, index_bits);
        tree.plant();
        return tree.improve(stop);
    }
    Tree<LANES> tree(ws, p, q, index_bits);
    tree.plant();
    return tree.improve(stop);
}
