// One transport problem with a cost of its own: masses and costs as the integers of the simplex, and whichever solver suits.
#pragma once
#include "assignment.hpp"
#include "digits.hpp"
#include "large.hpp"
#include "shortlists.hpp"

// The sum of masses (n,) without what rounding loses of it.
inline double sum_of(const double* mass, int64_t n) {
    double total = 0.0, lost = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double sum = total + mass[i];
        lost += mass[i] < total ? (total - sum) + mass[i] : (mass[i] - sum) + total;
        total = sum;
    }
    return total + lost;
}

// The masses of one side as integers of total 2^60, where there are any: `mass` and `name` of the n nodes that have
// mass, and the total that they stand for. The largest takes what rounding leaves, which is less if one is `careful`.
inline double place_side(const double* given, int64_t size, int64_t* mass, int32_t* name, int64_t& n, bool careful) {
    double total = 0.0;
    n = 0;
    for (int64_t i = 0; i < size; i++) total += given != nullptr ? given[i] : 1.0 / double(size);
    if (careful && given != nullptr) total = sum_of(given, size);
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

// Whether n masses are all the same, or null: uniform.
inline bool are_equal(const double* mass, int64_t n) {
    for (int64_t i = 1; mass != nullptr && i < n; i++)
        if (mass[i] != mass[0]) return false;
    return true;
}

// Both sides of a problem, masses a (n,) and b (m,), or null: uniform. p sources and q sinks, and what 2^60 units of mass are
// worth, or 0 where nothing is to be shipped: a single one may be worth less than any number.
INLINE double place_both(const Workspace& ws, const double* a, int64_t n, const double* b, int64_t m, int64_t& p,
                         int64_t& q, bool careful = false) {
    if (n == 0 || m == 0) return 0.0;
    if (are_equal(a, n) && are_equal(b, m)) {
        const double total = a != nullptr ? double(n) * a[0] : 1.0;
        if (!(total > 0.0) || (b != nullptr && !(b[0] > 0.0))) return 0.0;
        place_uniform(ws, n, m);
        p = n, q = m;
        return total / (double(n) * double(ws.supply[0]) * MASS_UNIT);
    }
    const double total = place_side(a, n, ws.supply, ws.source, p, careful);
    return place_side(b, m, ws.demand, ws.sink, q, careful) <= 0.0 ? 0.0 : total;
}

// The costs of a problem in units of 2^exponent, less the least of them if that is negative: sums stay in range. And the
// largest of them then.
struct Units {
    int exponent;
    double low, most;
    bool finite;  // whether all of them are numbers; else nothing is said of them
};

// The least and the largest size of some costs. Differences with themselves add up to 0, unless one is not finite.
struct Extent {
    Doubles low_lanes = spread(double(INFINITY)), size_lanes = spread(0.0), gap_lanes = spread(0.0);
    double low_rest = INFINITY, size_rest = 0.0, gap_rest = 0.0;

    INLINE double low() const { return least(low_lanes) < low_rest ? least(low_lanes) : low_rest; }
    INLINE double size() const { return largest(size_lanes) > size_rest ? largest(size_lanes) : size_rest; }
    INLINE bool finite() const { return total(gap_lanes) + gap_rest == 0.0; }
};

// Whether all costs of n rows of m are finite.
inline bool all_finite(const double* cost, int64_t stride, int64_t n, int64_t m) {
    const int64_t whole = m & ~(LANES - 1);
    Doubles gaps = spread(0.0);
    double rest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double* row = cost + i * stride;
        for (int64_t j = 0; j < whole; j += LANES) gaps = gaps + (load(row + j) - load(row + j));
        for (int64_t j = whole; j < m; j++) rest += row[j] - row[j];
    }
    return total(gaps) + rest == 0.0;
}

// Copy the costs of a row to the sinks with mass. Most problems have no sink without mass.
INLINE void copy_row(const double* row, const int32_t* sink, int64_t q, double* out, Extent& extent) {
    const int64_t whole = sink[q - 1] == q - 1 ? q & ~(LANES - 1) : 0;
    for (int64_t j = 0; j < whole; j += LANES) {
        const Doubles each = load(row + j);
        store(out + j, each);
        extent.low_lanes = lesser(each, extent.low_lanes);
        extent.size_lanes = larger(size_of(each), extent.size_lanes);
        extent.gap_lanes = extent.gap_lanes + (each - each);
    }
    for (int64_t j = whole; j < q; j++) {
        out[j] = row[sink[j]];
        extent.low_rest = out[j] < extent.low_rest ? out[j] : extent.low_rest;
        extent.size_rest = std::fabs(out[j]) > extent.size_rest ? std::fabs(out[j]) : extent.size_rest;
        extent.gap_rest += out[j] - out[j];
    }
}

// Costs of the nodes with mass, no larger than `top`, into the block of distances. Only costs of extreme size get a unit
// other than 1.
inline Units read_costs(const Workspace& ws, const Scratch& scratch, const double* cost, int64_t cost_stride, int64_t p,
                        int64_t q, Stop stop, double top = INFINITY) {
    const int64_t stride = stride_of(q);
    Extent extent;
    for (int64_t i = 0; i < p; i++) {
        double* out = scratch.distance + i * stride;
        copy_row(cost + ws.source[i] * cost_stride, ws.sink, q, out, extent);
        for (int64_t j = q; j < stride; j++) out[j] = 0.0;
        for (int64_t j = 0; j < q && top < INFINITY; j++) out[j] = out[j] < top ? out[j] : top;
    }
    const double low = extent.low(), size = std::fmax(-low, std::fmin(extent.size(), top));
    Units units{0, 0.0, size, extent.finite()};
    if (!units.finite) return units;
    std::frexp(size, &units.exponent);
    if (size == 0.0 || (units.exponent > -400 && units.exponent < 400)) units.exponent = 0;
    units.low = low < 0.0 ? std::ldexp(low, -units.exponent) : 0.0;
    if (units.exponent == 0 && low >= 0.0) return units;
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j < q; j++) {
            double& each = scratch.distance[i * stride + j];
            each = (units.exponent == 0 ? each : std::ldexp(each, -units.exponent)) - units.low;
        }
    units.most = largest_distance(scratch.distance, p, q, stride, stop);
    return units;
}

inline int64_t solve_placed(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits, Stop stop,
                            Bidding how = FOR_COSTS) {
    if (is_assignment(ws, p, q)) {
        const int64_t steps = assign(ws, p, index_bits, stop, how);
        if (steps != UNFIT) return steps;
    }
    return solve_any(ws, p, q, index_bits, stop);
}

constexpr int64_t NO_NUMBER = -5;  // instead of steps, where a cost is not finite

// What was found: steps as of the solvers, the value, what a unit of the potentials is worth, by how much the dearest arc in
// use, and the dearest of all, are above the least cost of nodes with mass or 0, and that.
struct Found {
    int64_t steps;
    double value = 0.0, height = 0.0, reach = 0.0, spread = 0.0, low = 0.0;
};

// Solve the placed problem of p sources and q sinks with masses, out of n rows and m columns, at costs in rows of `stride`
// that count as `top` where they are above it. `total`: the mass of a side.
inline Found solve_own(const Workspace& ws, const Scratch& scratch, const double* cost, int64_t stride, int64_t n,
                       int64_t m, int64_t p, int64_t q, double total, Stop stop, double top = INFINITY) {
    const CostBits bits(n, m);
    int64_t mass = 0;
    for (int64_t i = 0; i < p; i++) mass += ws.supply[i];
    const bool from_lists = p == n && q == m && n >= MANY_SOURCES && !(top < INFINITY) && is_assignment(ws, p, q);
    if (from_lists && !all_finite(cost, stride, n, m)) return {NO_NUMBER};
    if (from_lists) {
        Shortlists lists(cost, stride, n, bits.index);
        if (lists.failed()) return {NO_MEMORY};
        double shipped = 0.0;
        const int64_t steps = assign_given(ws, lists, bits.largest, shipped, stop);
        const double low = lists.given.low, most = lists.given.most;
        if (steps < 0 && steps != UNFIT) return {steps};
        if (steps != UNFIT)
            return {steps, shipped * MASS_UNIT * total + low * (double(mass) * MASS_UNIT * total), bits.unit(most),
                    reach_of(ws, cost, stride, p, q, low), most, low};
    }
    const Units units = read_costs(ws, scratch, cost, stride, p, q, stop, top);
    if (!units.finite) return {NO_NUMBER};
    const bool never_greedy = p <= FEW_SOURCES && is_assignment(ws, p, q);
    place_distances_up_to(units.most, ws, scratch, p, q, bits, !never_greedy, stop);
    const int64_t steps =
        from_lists ? solve_any(ws, p, q, bits.index, stop) : solve_placed(ws, p, q, bits.index, stop, BRIEFLY);
    if (steps < 0) return {steps};
    const double shipped =
        value_of_flows(ws, scratch, p, q) * MASS_UNIT * total + units.low * (double(mass) * MASS_UNIT * total);
    const double low = std::ldexp(units.low, units.exponent);
    return {steps, std::ldexp(shipped, units.exponent), std::ldexp(bits.unit(units.most), units.exponent),
            reach_of(ws, cost, stride, p, q, low), std::ldexp(units.most, units.exponent), low};
}

// Whether a plan uses only costs below a share of the largest one, which may mean "never", and there are more of them between
// nodes with mass than a plan needs.
INLINE bool is_coarse(const Found& found, const Workspace& ws, const double* cost, int64_t stride, int64_t p, int64_t q) {
    if (found.steps < 0 || !(found.reach > 0.0 && found.reach < COARSE * found.spread)) return false;
    int64_t fine = 0;
    for (int64_t i = 0; i < p; i++) {
        const double* row = cost + ws.source[i] * stride;
        for (int64_t j = 0; j < q; j++) fine += row[ws.sink[j]] - found.low < COARSE * found.spread;
    }
    return fine > p && fine > q;
}

// `solve_own` of a problem with all digits of the costs that matter, which `place` lays out again: then nodes of a unit of mass
// may come or go, and `total`, the mass of a side, grows where units are left out.
template <class Place>
inline Found solve_finely(const Workspace& ws, const Scratch& scratch, const double* cost, int64_t stride, int64_t n,
                          int64_t m, int64_t& p, int64_t& q, double& total, Stop stop, Place place) {
    EvenLayout<Place> lay_out = {ws, place};
    const auto solved = [&](double top) {
        return solve_own(ws, scratch, cost, stride, n, m, p, q, total * lay_out.grown, stop, top);
    };
    Found found = solved(INFINITY);
    const double low = found.low, limit = COARSE * found.spread;
    if (found.value < (low + 2.0 * limit) * total)  // a mean of costs
        found = without_crumbs(
            found, limit, [&](int64_t crumbs) { return reach_of(ws, cost, stride, p, q, low, crumbs); },
            [&] { return lay_out(p, q), true; }, [&] { return solved(INFINITY); });
    found = with_all_digits(
        found, [&](const Found& each) { return is_coarse(each, ws, cost, stride, p, q); },
        [&](double above) {
            lay_out(p, q);
            return solved(low + above);
        });
    total *= lay_out.grown;
    return found;
}
