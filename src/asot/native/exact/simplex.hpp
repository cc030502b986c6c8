// The exact transportation simplex on integer data: greedy start, strongly feasible trees with bitset subtrees.
#pragma once
#include "workspace.hpp"

// Fill `child`, `hung_on` and `flow` with a feasible basis: ship along the cheapest open arc, close a node.
INLINE void greedy_start(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits) {
    const int64_t first = first_sink(p), stride = stride_of(q);
    const int64_t index_mask = (int64_t(1) << index_bits) - 1;
    const int64_t cost_mask = ~((int64_t(1) << (2 * index_bits)) - 1);
    int64_t* row_least = ws.pi;  // by slot; the potentials are not needed yet
    for (int64_t j = 0; j < stride; j += LANES) store(ws.barred + j, spread(BOTTOM));
    for (int64_t j = q; j < stride; j++) ws.column_offset[j] = 0;
    for (int64_t i = 0; i < p; i++) {
        ws.slot[i] = ws.owner[i] = int32_t(i);
        Lanes offset = spread(ws.row_offset[i]), row = spread(i << index_bits) + count_up(), row_best = spread(TOP);
        for (int64_t j = 0; j < stride; j += LANES) {
            Lanes shifted = load(ws.cost + i * stride + j) - offset - load(ws.column_offset + j);
            Lanes key = (shifted & spread(cost_mask)) | (row + spread(j));
            store(ws.keys + i * stride + j, key);
            row_best = lesser(key, row_best);
        }
        row_least[i] = least(row_best);
    }
    store(row_least + p, spread(TOP));
    int64_t rows = p, columns = q;
    for (int64_t step = 0;; step++) {
        Lanes bests = load(row_least);
        for (int64_t t = LANES; t < rows; t += LANES) bests = lesser(bests, load(row_least + t));
        const int64_t best = least(bests), i = (best >> index_bits) & index_mask, j = best & index_mask;
        if (rows == 1 && columns == 1) {
            ws.child[step] = int32_t(i);
            ws.hung_on[step] = int32_t(first + j);
            ws.flow[i] = ws.supply[i];
            return;
        }
        if (rows == 1 || (columns > 1 && ws.demand[j] <= ws.supply[i])) {
            ws.child[step] = int32_t(first + j);
            ws.hung_on[step] = int32_t(i);
            ws.flow[first + j] = ws.demand[j];
            ws.supply[i] -= ws.demand[j];
            columns--;
            ws.barred[j] = TOP;
            for (int64_t t = 0; t < rows; t += LANES) {
                Lanes leasts = load(row_least + t);
                int64_t orphaned = where_equal(leasts & spread(index_mask), spread(j));
                if (orphaned == 0) continue;  // these rows have their least key elsewhere
                while (orphaned != 0) {
                    const int64_t lane = lowest_bit(orphaned);
                    orphaned &= orphaned - 1;
                    const int64_t o = ws.owner[t + lane] * stride;
                    Lanes row_best = spread(TOP);
                    for (int64_t c = 0; c < stride; c += LANES)
                        row_best = lesser(row_best, larger(load(ws.keys + o + c), load(ws.barred + c)));
                    leasts = put(leasts, lane, least(row_best));
                }
                store(row_least + t, leasts);
            }
        } else {
            ws.child[step] = int32_t(i);
            ws.hung_on[step] = int32_t(first + j);
            ws.flow[i] = ws.supply[i];
            ws.demand[j] -= ws.supply[i];
            rows--;
            const int64_t hole = ws.slot[i];
            const int32_t last = ws.owner[rows];
            ws.slot[last] = int32_t(hole);
            ws.owner[hole] = last;
            const int64_t key = row_least[rows];
            int64_t lane = hole & (LANES - 1);
            store(row_least + hole - lane, put(load(row_least + hole - lane), lane, key));
            lane = rows & (LANES - 1);
            store(row_least + rows - lane, put(load(row_least + rows - lane), lane, TOP));
        }
    }
}

// The least reduced cost of four rows, with its column in the low bits. Four at a time share the potentials of the sinks
// and the minimum across the lanes, the slowest part of a short row.
INLINE int64_t least_of_four(const Workspace& ws, int64_t r0, int64_t r1, int64_t r2, int64_t r3, int64_t first,
                             int64_t stride) {
    Lanes least0 = spread(TOP), least1 = least0, least2 = least0, least3 = least0;
    const int64_t *c0 = ws.cost + r0 * stride, *c1 = ws.cost + r1 * stride, *c2 = ws.cost + r2 * stride,
                  *c3 = ws.cost + r3 * stride;
    for (int64_t j = 0; j < stride; j += LANES) {
        const Lanes pi = load(ws.pi + first + j);
        least0 = lesser(least0, load(c0 + j) + pi);
        least1 = lesser(least1, load(c1 + j) + pi);
        least2 = lesser(least2, load(c2 + j) + pi);
        least3 = lesser(least3, load(c3 + j) + pi);
    }
    least0 = least0 - spread(ws.pi[r0]);
    least1 = least1 - spread(ws.pi[r1]);
    least2 = least2 - spread(ws.pi[r2]);
    least3 = least3 - spread(ws.pi[r3]);
    return least(lesser(lesser(least0, least1), lesser(least2, least3)));
}

// Trees whose bitsets take W words that stand together: 1 if there is only one, else LANES.
template <int64_t W>
struct Tree {
    const Workspace& ws;
    const int64_t p, q, index_bits, first, n, stride, groups, group_size;

    INLINE Tree(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits)
        : ws(ws), p(p), q(q), index_bits(index_bits), first(first_sink(p)), n(first + q), stride(stride_of(q)),
          groups(groups_of(n)), group_size(ws.m * LANES) {}

    INLINE int64_t word_of(int64_t x) const { return W == 1 ? 0 : (x / GROUP) * group_size + ((x >> 6) & (LANES - 1)); }

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

// Solve the problem laid out in `ws`; the optimal basis is then in ws.parent and ws.flow.
__attribute__((noinline)) static int64_t solve_block(
    const Workspace& ws, int64_t p, int64_t q, int64_t index_bits, Stop stop) {
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
