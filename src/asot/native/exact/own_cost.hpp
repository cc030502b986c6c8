// One transport problem with a cost of its own: masses and costs as the integers of the simplex, and whichever solver suits.
#pragma once
#include "assignment.hpp"
#include "distance_block.hpp"
#include "large.hpp"

// The masses of one side as integers of total 2^60, where there are any: `mass` and `name` of the n nodes that have
// mass, and the total that they stand for. The largest takes what rounding leaves.
inline double place_side(const double* given, int64_t size, int64_t* mass, int32_t* name, int64_t& n) {
    double total = 0.0;
    n = 0;
    for (int64_t i = 0; i < size; i++) total += given != nullptr ? given[i] : 1.0 / double(size);
    if (total <= 0.0) return 0.0;
    const double whole = double(int64_t(1) << MASS_BITS);
    int64_t left = int64_t(1) << MASS_BITS, largest = 0;
    for (int64_t i = 0; i < size; i++) {
        const double share = given != nullptr ? given[i] / total : 1.0 / double(size);
        const int64_t units = int64_t(std::nearbyint(share * whole));
        if (units == 0) continue;
        mass[n] = units;
        name[n] = int32_t(i);
        left -= units;
        if (units > mass[largest]) largest = n;
        n++;
    }
    mass[largest] += left;
    return given != nullptr ? total : 1.0;
}

// Uniform masses on both sides are ratios of sizes, which integers hold exactly: no crumbs of rounding travel.
inline void place_uniform(const Workspace& ws, int64_t n, int64_t m) {
    const int64_t part = (int64_t(1) << MASS_BITS) / (n == m ? n : n * m);
    for (int64_t i = 0; i < n; i++) ws.supply[i] = n == m ? part : part * m, ws.source[i] = int32_t(i);
    for (int64_t j = 0; j < m; j++) ws.demand[j] = n == m ? part : part * n, ws.sink[j] = int32_t(j);
}

constexpr double MASS_UNIT = 0x1p-60;  // one of 2^60

// Both sides of a problem, masses a (n,) and b (m,), or null: uniform. p sources and q sinks, and what 2^60 units of mass are
// worth, or 0 where nothing is to be shipped: a single one may be worth less than any number.
INLINE double place_both(const Workspace& ws, const double* a, int64_t n, const double* b, int64_t m, int64_t& p,
                         int64_t& q) {
    if (n == 0 || m == 0) return 0.0;
    if (a == nullptr && b == nullptr) {
        place_uniform(ws, n, m);
        p = n, q = m;
        return 1.0 / (double(n) * double(ws.supply[0]) * MASS_UNIT);
    }
    const double total = place_side(a, n, ws.supply, ws.source, p);
    return place_side(b, m, ws.demand, ws.sink, q) <= 0.0 ? 0.0 : total;
}

// The costs of a problem in units of 2^exponent, less the least of them if that is negative: sums stay in range.
struct Units {
    int exponent;
    double low;
};

// Copy the costs of a row to the sinks with mass; lowers `low`, raises `size`. Most problems have no sink without mass.
INLINE void copy_row(const double* row, const int32_t* sink, int64_t q, double* out, double& low, double& size) {
    const bool all = sink[q - 1] == q - 1;
    const int64_t whole = all ? q & ~(LANES - 1) : 0;
    if (whole > 0) {
        Doubles least_cost = spread(low), largest_cost = spread(size);
        for (int64_t j = 0; j < whole; j += LANES) {
            const Doubles each = load(row + j);
            store(out + j, each);
            least_cost = lesser(each, least_cost);
            largest_cost = larger(size_of(each), largest_cost);
        }
        low = least(least_cost), size = largest(largest_cost);
    }
    for (int64_t j = whole; j < q; j++) {
        out[j] = row[sink[j]];
        low = out[j] < low ? out[j] : low;
        size = std::fabs(out[j]) > size ? std::fabs(out[j]) : size;
    }
}

// Costs of the nodes with mass, into the block of distances. Only costs of extreme size get a unit other than 1.
inline Units read_costs(const Workspace& ws, const Scratch& scratch, const double* cost, int64_t cost_stride, int64_t p,
                        int64_t q) {
    const int64_t stride = stride_of(q);
    double low = INFINITY, size = 0.0;
    for (int64_t i = 0; i < p; i++) {
        double* out = scratch.distance + i * stride;
        copy_row(cost + ws.source[i] * cost_stride, ws.sink, q, out, low, size);
        for (int64_t j = q; j < stride; j++) out[j] = 0.0;
    }
    Units units{0, 0.0};
    std::frexp(size, &units.exponent);
    if (size == 0.0 || (units.exponent > -400 && units.exponent < 400)) units.exponent = 0;
    units.low = low < 0.0 ? std::ldexp(low, -units.exponent) : 0.0;
    if (units.exponent == 0 && low >= 0.0) return units;
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j < q; j++) {
            double& each = scratch.distance[i * stride + j];
            each = (units.exponent == 0 ? each : std::ldexp(each, -units.exponent)) - units.low;
        }
    return units;
}

inline int64_t solve_placed(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits, Stop stop) {
    if (is_assignment(ws, p, q)) {
        const int64_t steps = assign(ws, p, index_bits, stop, true);
        if (steps != UNFIT) return steps;
    }
    return solve_any(ws, p, q, index_bits, stop);
}
