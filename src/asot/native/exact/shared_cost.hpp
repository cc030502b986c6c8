// Pairs of histograms under one shared cost: how a pair is laid out for the simplex, and what its optimal tree is worth.
#pragma once
#include "../common/records.hpp"
#include "digits.hpp"
#include "histograms.hpp"

struct SharedCost {
    int64_t k, l;
    const int64_t* integer;                    // (k, l) quantized costs, shifted left by index_bits
    const double* unit;                        // (k, l) the same as floats, at most 1
    const int64_t *row_offset, *column_offset;  // (k,), (l,)
    int64_t index_bits;
};

ENTRY asot_shared_cost_tile(const Histograms* h, const SharedCost* c, const Tile* tile);

// Sources and sinks of a pair, without branches: every entry is written, and the count advances where it stays.
template <bool cancel>
INLINE void place_masses(const Workspace& ws, const int64_t* a, int64_t k, const int64_t* b, int64_t l, int64_t& p,
                         int64_t& q) {
    int64_t sources = 0, sinks = 0;
    if (cancel) {
        for (int64_t x = 0; x < k; x++) {
            const int64_t surplus = a[x] - b[x];
            ws.supply[sources] = surplus;
            ws.source[sources] = int32_t(x);
            sources += surplus > 0;
            ws.demand[sinks] = -surplus;
            ws.sink[sinks] = int32_t(x);
            sinks += surplus < 0;
        }
    } else {
        for (int64_t x = 0; x < k; x++) {
            ws.supply[sources] = a[x];
            ws.source[sources] = int32_t(x);
            sources += a[x] > 0;
        }
        for (int64_t x = 0; x < l; x++) {
            ws.demand[sinks] = b[x];
            ws.sink[sinks] = int32_t(x);
            sinks += b[x] > 0;
        }
    }
    p = sources, q = sinks;
}

constexpr int FINE = 4;  // costs of a pair keep all bits but so many, however large the costs of other pairs are

// The largest cost between the nodes of a pair.
INLINE double largest_between(const Workspace& ws, int64_t p, int64_t q, const SharedCost& c) {
    double most = 0.0;
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j < q; j++) {
            const double each = c.unit[ws.source[i] * c.l + ws.sink[j]];
            most = each > most ? each : most;
        }
    return most;
}

// The cost block again, with the largest cost of the pair as its unit, or `top`, which larger ones count as: costs that are
// not used have left the others few digits. Returns that unit.
__attribute__((noinline)) static double place_finely(const Workspace& ws, int64_t p, int64_t q, const SharedCost& c,
                                                     int64_t index_bits, double most, double top = INFINITY) {
    const int64_t stride = stride_of(q);
    most = most < top ? most : top;
    int exponent;
    std::frexp(most, &exponent);
    const int bits = 62 - 2 * int(index_bits) - exponent;
    for (int64_t j = 0; j < q; j++) ws.column_offset[j] = 0;
    for (int64_t i = 0; i < p; i++) {
        const double* row = c.unit + ws.source[i] * c.l;
        int64_t* o = ws.cost + i * stride;
        ws.row_offset[i] = 0;
        for (int64_t j = 0; j < q; j++) {
            const double each = row[ws.sink[j]] < top ? row[ws.sink[j]] : top;
            o[j] = (int64_t(std::nearbyint(std::ldexp(each, bits))) << index_bits) | j;
        }
        for (int64_t j = q; j < stride; j++) o[j] = PAD;
    }
    return std::ldexp(1.0, exponent);
}

// The cost block of a pair's sources and sinks, each cost with its column in the low bits. Returns the unit of its costs,
// the largest of which is at most 1 of it.
INLINE double place_costs(const Workspace& ws, int64_t p, int64_t q, const SharedCost& c) {
    const int64_t stride = stride_of(q);
    int64_t bits = 0;  // the highest one is that of the largest cost
    for (int64_t i = 0; i < p; i++) {
        const int64_t s = ws.source[i];
        const int64_t* row = c.integer + s * c.l;
        int64_t* o = ws.cost + i * stride;
        ws.row_offset[i] = c.row_offset[s];
        for (int64_t j = 0; j < q; j++) {
            const int64_t each = row[ws.sink[j]];
            o[j] = each | j;
            bits |= each;
        }
        for (int64_t j = q; j < stride; j++) o[j] = PAD;
    }
    for (int64_t j = 0; j < q; j++) ws.column_offset[j] = c.column_offset[ws.sink[j]];
    const double most = bits >> (62 - c.index_bits - FINE) == 0 ? largest_between(ws, p, q, c) : 0.0;
    return most > 0.0 ? place_finely(ws, p, q, c, c.index_bits, most) : 1.0;
}

// The arcs of the optimal tree in the order of their lower nodes: visit(source, sink, flow), by the caller's names.
template <class Visit>
INLINE void each_arc(const Workspace& ws, int64_t p, int64_t q, Visit visit) {
    const int64_t first = first_sink(p);
    for (int64_t x = 0; x < first + q; x++) {
        const int64_t y = ws.parent[x];
        if (y == x) continue;
        if (x < p)
            visit(int64_t(ws.source[x]), int64_t(ws.sink[y - first]), ws.flow[x]);
        else
            visit(int64_t(ws.source[y]), int64_t(ws.sink[x - first]), ws.flow[x]);
    }
}

// What the flows of the optimal tree cost, in units of `unit`.
INLINE double value_of_tree(const Workspace& ws, int64_t p, int64_t q, const SharedCost& c) {
    double total = 0.0;
    each_arc(ws, p, q, [&](int64_t u, int64_t v, int64_t flow) { total += double(flow) * c.unit[u * c.l + v]; });
    return total;
}

// What was found of a pair, in units of `unit`: pivots, the value for total mass 2^60, what the potentials are in units of,
// and what costs above it counted as. Of coarse ones also the largest cost in use, and the largest of all that count.
struct SharedFound {
    int64_t steps;
    double value, height, top, reach, spread;
};

// The pair that was placed, solved with costs that count as `top` where they are above it.
__attribute__((noinline)) static SharedFound solve_below(const Workspace& ws, int64_t p, int64_t q, const SharedCost& c,
                                                         double top, Stop stop) {
    const int64_t index_bits = CostBits(p, q).index;
    const double unit = place_finely(ws, p, q, c, index_bits, largest_between(ws, p, q, c), top);
    SharedFound found = {solve_block(ws, p, q, index_bits, stop), 0.0, unit * two_to(index_bits - 62), top, 0.0, top};
    if (found.steps < 0) return found;
    found.value = value_of_tree(ws, p, q, c);
    found.reach = reach_of(ws, c.unit, c.l, p, q, 0.0);
    return found;
}

// What was found of a pair that `place` lays out again, with all digits of the costs that matter.
template <class Place>
__attribute__((noinline)) static SharedFound with_digits(const Workspace& ws, int64_t& p, int64_t& q, const SharedCost& c,
                                                         SharedFound found, Stop stop, Place place) {
    const double share = coarse_share(c.index_bits);
    EvenLayout<Place> lay_out = {ws, place};
    const auto reach = [&](int64_t crumbs) { return reach_of(ws, c.unit, c.l, p, q, 0.0, crumbs); };
    const auto solved = [&](double top) {
        SharedFound again = solve_below(ws, p, q, c, top, stop);
        again.value *= lay_out.grown;
        return again;
    };
    found.reach = reach(0);
    found = without_crumbs(found, share, reach, [&] { return lay_out(p, q); }, [&] { return solved(INFINITY); });
    if (found.steps < 0 || found.reach >= share) return found;
    found.spread = largest_between(ws, p, q, c);
    return with_all_digits(
        found, [&](const SharedFound& f) { return lacks_digits(f, ws, c.unit, c.l, p, q, share); },
        [&](double top) {
            lay_out(p, q);
            return solved(top);
        });
}

// Solve a pair that `place` has laid out, and lays out again: then nodes that hold crumbs may go.
template <class Place>
INLINE SharedFound solve_shared(const Workspace& ws, int64_t& p, int64_t& q, const SharedCost& c, Stop stop, Place place) {
    const double unit = place_costs(ws, p, q, c);
    SharedFound found = {solve_block(ws, p, q, c.index_bits, stop), 0.0, unit * two_to(c.index_bits - 62), INFINITY, 0.0, 0.0};
    found.value = value_of_tree(ws, p, q, c);
    if (found.value < two_to(60) * coarse_share(c.index_bits) && found.value > 0.0 && found.steps >= 0)  // a mean of costs
        return with_digits(ws, p, q, c, found, stop, place);
    return found;
}
