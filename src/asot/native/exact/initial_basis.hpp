// A good first basis for the simplex: ship along the cheapest arc that is still open, again and again.
//
// Costs are compared after each node's typical distance is subtracted, so that a far node is served before its only near
// partner is gone.
#pragma once
#include "workspace.hpp"

// Fill `child`, `hung_on` and `flow` with a feasible basis: ship along the cheapest open arc, close a node.
//
// A key holds (shifted cost | row | column), so one integer minimum names the next arc; the least key of every open row is
// kept up to date, always in whole Lanes, since a wide read right after a narrow write waits for the cache. Open rows are
// numbered by slot: a closed row hands its slot to the last one. A closed column is barred. Each step closes one node, a
// leaf of the tree that the simplex builds in reverse. Ties close the sink: zero flows then point to the root (strongly
// feasible).
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
