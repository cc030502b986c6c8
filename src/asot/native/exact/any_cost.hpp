// Pairs of points under any cost, for callers that prepared them.
#pragma once
#include "points.hpp"

struct AnyCost {
    int64_t code;              // of the metric
    double order;              // its parameter
    int64_t transform;         // what is taken of its distances
    double power;              // to which costs are raised
    int64_t n;                 // distinct points
    const double* table;       // (n, n) of costs, or null
    const double* prices;      // (n,) of mass that stays unmatched, in the unit of the kernel, or null
    const int64_t* exponents;  // (N,) masses of a distribution are in units of 2^exponent; null if of all alike
    double share;              // of the smaller total that must be moved
    int64_t cancels;           // whether common mass may be left out
};

struct AnyCostOut {
    double* units;  // (n,) the distance that a pair's costs are powers of
    double* reach;  // (n,) the largest distance between two of its points
};

// The values, units and steps of all pairs of a tile.
int32_t solve_any_cost(const PackedPoints& h, const AnyCost& cost, const PointsSizes& sizes, const Tile& tile,
                       const AnyCostOut& out);
