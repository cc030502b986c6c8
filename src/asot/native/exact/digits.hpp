// A cost that means "never" takes no digits from the others: plans that use none of the large costs are solved again with
// these clipped.
//
// Integers reach as far as the largest cost. An optimum that uses no clipped cost is one of the costs that were given, since
// none of these is below its clipped one.
#pragma once
#include "distance_block.hpp"

constexpr double FIRST_TOP = 4.0, NEXT_TOP = 0x1p8;  // of what is in use; of the top before

// If a plan uses only costs below this share of the largest one, integers of so many index bits may miss 2^-40 of what it
// uses; where costs have few bits, only a share that is out of the ordinary is worth another solve.
INLINE double coarse_share(int64_t index_bits) {
    const int64_t missing = 40 - (62 - 2 * index_bits);
    return std::ldexp(1.0, int(missing < -12 ? -12 : missing > -6 ? -6 : missing));
}

// The largest cost that ships something, above `low`.
INLINE double reach_of(const Workspace& ws, const double* cost, int64_t stride, int64_t p, int64_t q, double low) {
    const int64_t first = first_sink(p);
    double reach = 0.0;
    for (int64_t node = 0; node < first + q; node++) {
        const int64_t up = ws.parent[node];
        if (up == node || ws.flow[node] == 0) continue;
        const int64_t row = ws.source[node < p ? node : up], column = ws.sink[(node < p ? up : node) - first];
        const double each = cost[row * stride + column] - low;
        reach = each > reach ? each : reach;
    }
    return reach;
}

// Whether more of the costs ≥ 0 between the nodes of a pair lack digits than a plan needs. `found` has `reach`, the largest
// cost in use, and `spread`, the largest of all.
template <class Found>
INLINE bool lacks_digits(const Found& found, const Workspace& ws, const double* cost, int64_t stride, int64_t p, int64_t q,
                         double share) {
    if (found.steps < 0 || !(found.reach > 0.0 && found.reach < share * found.spread)) return false;
    int64_t fine = 0;
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j < q; j++) fine += cost[ws.source[i] * stride + ws.sink[j]] < share * found.spread;
    return fine > p && fine > q;
}

// What was found with all digits of the costs that matter. `solve(top)` solves the problem again, with costs that count as
// `top` where they are above it, and `is_coarse` says whether a plan lacks digits.
template <class Found, class IsCoarse, class Solve>
INLINE Found with_all_digits(Found found, IsCoarse is_coarse, Solve solve) {
    double top = INFINITY;
    while (is_coarse(found)) {
        const double spread = found.spread;
        double above = FIRST_TOP * found.reach;
        for (; above < spread; above *= NEXT_TOP) {
            const int64_t before = found.steps;
            found = solve(above);
            if (found.steps < 0) return found;
            found.steps += before;
            if (found.reach <= above) break;
        }
        if (above >= spread) return solve(top);
        top = above;
    }
    return found;
}
