// The exact transportation simplex on integer data, behind every exact solver of problems of up to a thousand nodes.
#pragma once
#include "workspace.hpp"

// Solve the problem laid out in `ws`: cost, supply, demand and offsets of p sources and q sinks. The optimal basis is then
// in ws.parent and ws.flow, its potentials in ws.pi. The number of pivots, or -1 if `stop` was raised in the meantime.
int64_t solve_block(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits, Stop stop);

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
