// What the bounds of this folder share: anchor plans, and pairs with both ends of their intervals.
#pragma once
#include "../common/entry.hpp"

// The optimal flows and potentials of the pairs of a tile on the anchors, with common mass canceled.
struct AnchorPlans {
    int64_t k;              // anchors
    const int64_t* start;   // (n + 1,) where the arcs of each pair begin
    int32_t *source, *sink;  // (arcs,) anchors
    int64_t* mass;          // (arcs,) in units of 2^-60
    const double* potential;  // (n, k)
    double scale, more_scale;  // by which potentials are multiplied, in two factors: their product may be out of range
};

struct BoundedPairs {
    int64_t n;
    const int64_t *rows, *columns;  // (n,)
    double *lower, *upper;          // (n,)
    Stop stop;                      // (1,)
};

// The most points that one of some distributions (n,) has.
inline int64_t most_of(const int64_t* offsets, const int64_t* chosen, int64_t n) {
    int64_t most = 0;
    for (int64_t t = 0; t < n; t++) {
        const int64_t size = offsets[chosen[t] + 1] - offsets[chosen[t]];
        most = size > most ? size : most;
    }
    return most;
}
