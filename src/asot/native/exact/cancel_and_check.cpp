// Sparse rows under one cost: cancel common mass first and prove afterwards that this was valid, or ship everything. See
// src/asot/exact/cancel_and_check.py.
#include "cancel_and_check.hpp"

#include "own_cost.hpp"

namespace {

struct Row {
    const int64_t *index, *masses;
    int64_t n;

    Row(const SparseRows& rows, int64_t i)
        : index(rows.index + rows.offsets[i]), masses(rows.masses + rows.offsets[i]),
          n(rows.offsets[i + 1] - rows.offsets[i]) {}
};

struct CheckedPair {
    int64_t steps;
    double value;          // in units of 2^-60
    double reach, spread;  // the largest cost in use, if that matters, and of the pair's block
};

// What is left of two rows after canceling; whether there was anything to cancel.
INLINE bool place_left(const Workspace& ws, const Row& a, const Row& b, int64_t& p, int64_t& q) {
    int64_t s = 0, t = 0;
    bool canceled = false;
    p = q = 0;
    while (s < a.n || t < b.n) {
        const bool from_a = t == b.n || (s < a.n && a.index[s] <= b.index[t]);
        const bool from_b = s == a.n || (t < b.n && b.index[t] <= a.index[s]);
        const int64_t surplus = (from_a ? a.masses[s] : 0) - (from_b ? b.masses[t] : 0);
        if (surplus > 0) {
            ws.supply[p] = surplus;
            ws.source[p++] = int32_t(a.index[s]);
        } else if (surplus < 0) {
            ws.demand[q] = -surplus;
            ws.sink[q++] = int32_t(b.index[t]);
        }
        canceled |= from_a & from_b;
        s += from_a;
        t += from_b;
    }
    return canceled;
}

INLINE void place_whole(const Workspace& ws, const Row& a, const Row& b, int64_t& p, int64_t& q) {
    for (p = 0; p < a.n; p++) ws.supply[p] = a.masses[p], ws.source[p] = int32_t(a.index[p]);
    for (q = 0; q < b.n; q++) ws.demand[q] = b.masses[q], ws.sink[q] = int32_t(b.index[q]);
}

// Solve what was placed, p sources and q sinks; the optimal tree stays in `ws`. Costs count as `top` where they are above it,
// and are then measured in it: they may be next to nothing.
INLINE CheckedPair solve_placed(const CheckedCost& c, const Workspace& ws, const Scratch& scratch, int64_t p, int64_t q,
                                const CostBits& bits, double top, Stop stop) {
    const int64_t stride = stride_of(q);
    int exponent = 0;
    if (top < INFINITY) std::frexp(top, &exponent);
    for (int64_t i = 0; i < p; i++) {
        const double* row = c.cost + ws.source[i] * c.l;
        double* distance = scratch.distance + i * stride;
        for (int64_t j = 0; j < q; j++) distance[j] = row[ws.sink[j]];
        for (int64_t j = 0; j < q && top < INFINITY; j++)
            distance[j] = std::ldexp(distance[j] < top ? distance[j] : top, -exponent);
        for (int64_t j = q; j < stride; j++) distance[j] = 0.0;
    }
    CheckedPair pair = {-1, 0.0, 0.0, place_distances(ws, scratch, p, q, bits, stop)};
    if (*stop == 0) pair.steps = solve_placed(ws, p, q, bits.index, stop);
    if (pair.steps >= 0) pair.value = value_of_flows(ws, scratch, p, q);
    if (top < INFINITY) pair.value = std::ldexp(pair.value, exponent), pair.spread = std::ldexp(pair.spread, exponent);
    return pair;
}

// What was found of what `place` lays out again, with all digits of the costs that matter.
template <class Place>
__attribute__((noinline)) CheckedPair with_digits(const CheckedCost& c, const Workspace& ws, const Scratch& scratch,
                                                  int64_t& p, int64_t& q, CheckedPair pair, const CostBits& bits,
                                                  Stop stop, Place place) {
    EvenLayout<Place> lay_out = {ws, place};
    const double share = coarse_share(bits.index);
    const auto reach = [&](int64_t crumbs) { return reach_of(ws, c.cost, c.l, p, q, 0.0, crumbs); };
    const auto solved = [&](double top) {
        CheckedPair each = solve_placed(c, ws, scratch, p, q, bits, top, stop);
        if (each.steps >= 0) each.reach = reach(0), each.value *= lay_out.grown;
        return each;
    };
    pair.reach = reach(0);
    pair = without_crumbs(
        pair, share * pair.spread, reach, [&] { return lay_out(p, q); }, [&] { return solved(INFINITY); });
    return with_all_digits(
        pair, [&](const CheckedPair& each) { return lacks_digits(each, ws, c.cost, c.l, p, q, share); },
        [&](double top) {
            lay_out(p, q);
            return solved(top);
        });
}

// Solve what `place` lays out, as p sources and q sinks.
template <class Place>
INLINE CheckedPair solve_pair(const CheckedCost& c, const Workspace& ws, const Scratch& scratch, int64_t& p, int64_t& q,
                              const CostBits& bits, Stop stop, Place place) {
    place(p, q);
    if (p == 0) return {0, 0.0, 0.0, 0.0};
    const CheckedPair pair = solve_placed(c, ws, scratch, p, q, bits, INFINITY, stop);
    const double coarse = two_to(60) * coarse_share(bits.index) * pair.spread;
    return pair.steps >= 0 && pair.value > 0.0 && pair.value < coarse
               ? with_digits(c, ws, scratch, p, q, pair, bits, stop, place)
               : pair;
}

// The potential that the sinks of the tree in `ws` have at the anchors of a row.
INLINE void carry(const CheckedCost& c, const Workspace& ws, int64_t p, int64_t q, double unit, const Row& to,
                  double* height) {
    const int64_t first = first_sink(p);
    for (int64_t s = 0; s < to.n; s++) {
        const double* row = c.cost + to.index[s] * c.l;
        double least = INFINITY;
        for (int64_t j = 0; j < q; j++) {
            const double reached = row[ws.sink[j]] + double(ws.pi[first + j]) * unit;
            least = reached < least ? reached : least;
        }
        height[s] = least;
    }
}

// Whether the potential f of the tree in `ws` satisfies f_u - f_v ≤ C_uv for all u of a and v of b, up to a share of the
// `largest` cost that counts.
bool is_proven(const CheckedCost& c, const Workspace& ws, int64_t p, int64_t q, const CostBits& bits, double largest,
               const Row& a, const Row& b, double* from, double* to) {
    const double unit = bits.unit(largest), slack = c.slack * largest;
    carry(c, ws, p, q, unit, a, from);
    carry(c, ws, p, q, unit, b, to);
    for (int64_t s = 0; s < a.n; s++) {
        const double* row = c.cost + a.index[s] * c.l;
        int64_t broken = 0;
        for (int64_t t = 0; t < b.n; t++) broken |= from[s] - to[t] > row[b.index[t]] + slack;
        if (broken != 0) return false;
    }
    return true;
}

}  // namespace

ENTRY asot_cancel_and_check(const SparseRows* A, const SparseRows* B, const CheckedCost* cost, const Tile* tile) {
    const CheckedCost& c = *cost;
    Workspace ws(c.most_sources, c.most_sinks, c.most_sources + c.most_sinks);
    Scratch scratch(c.most_sources, c.most_sinks, 0);
    Memory memory(Memory::bytes_of<double>(c.most_sources) + Memory::bytes_of<double>(c.most_sinks));
    if (ws.failed() || scratch.failed() || memory.failed()) return OUT_OF_MEMORY;
    double *from = memory.take<double>(c.most_sources), *to = memory.take<double>(c.most_sinks);
    for (int64_t t = 0; t < tile->n; t++) {
        tile->values[t] = 0.0;
        tile->steps[t] = 0;
        if (*tile->stop != 0) return DONE;
        const Row a(*A, tile->rows[t]), b(*B, tile->columns[t]);
        const CostBits bits(a.n, b.n);
        int64_t p = 0, q = 0;
        bool canceled = false;
        CheckedPair pair = {0, 0.0, 0.0, 0.0};
        if (c.cancel)
            pair = solve_pair(c, ws, scratch, p, q, bits, tile->stop,
                              [&](int64_t& n, int64_t& m) { canceled = place_left(ws, a, b, n, m); });
        if (!c.cancel || (canceled && p > 0 && pair.steps >= 0 &&
                          !is_proven(c, ws, p, q, bits, pair.spread, a, b, from, to)))
            pair = solve_pair(c, ws, scratch, p, q, bits, tile->stop,
                              [&](int64_t& n, int64_t& m) { place_whole(ws, a, b, n, m); });
        if (pair.steps == NO_MEMORY) return OUT_OF_MEMORY;
        if (pair.steps < 0) continue;
        tile->steps[t] = int32_t(pair.steps);
        tile->values[t] = pair.value;
    }
    return DONE;
}
