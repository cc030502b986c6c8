// A cost that means "never" takes no digits from the others: plans that use none of the large costs are solved again with
// these clipped.
//
// Integers reach as far as the largest cost. An optimum that uses no clipped cost is one of the costs that were given, since
// none of these is below its clipped one.
#pragma once
#include <cmath>
#include <cstring>
#include <utility>

#include "distance_block.hpp"

constexpr double FIRST_TOP = 4.0, NEXT_TOP = 0x1p8;  // of what is in use; of the top before
// Of the largest cost: the others have too few digits if a plan uses only these; and hardly any.
constexpr double COARSE = 0x1p-12, VERY_COARSE = 0x1p-24;

// 2^e for an ordinary e, at once.
INLINE double two_to(int64_t e) {
    const int64_t bits = (e + 1023) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof power);
    return power;
}

// Integers of so many index bits may miss 1e-12 of what a plan uses if that is below this share of the largest cost.
INLINE double coarse_share(int64_t index_bits) {
    const int64_t missing = 41 - (62 - 2 * index_bits);
    return two_to(missing < -12 ? -12 : missing > -5 ? -5 : missing);
}

// The largest cost that ships more than `crumbs`, above `low`.
INLINE double reach_of(const Workspace& ws, const double* cost, int64_t stride, int64_t p, int64_t q, double low,
                       int64_t crumbs = 0) {
    const int64_t first = first_sink(p);
    double reach = 0.0;
    for (int64_t node = 0; node < first + q; node++) {
        const int64_t up = ws.parent[node];
        if (up == node || ws.flow[node] <= crumbs) continue;
        const int64_t row = ws.source[node < p ? node : up], column = ws.sink[(node < p ? up : node) - first];
        const double each = cost[row * stride + column] - low;
        reach = each > reach ? each : reach;
    }
    return reach;
}

// Units of mass that masses of total 2^60 may be off by, since float64 masses are rounded; and what is far more than that.
constexpr int64_t CRUMBS = 1024, MANY_CRUMBS = CRUMBS << 20;

// The least number of parts of their `total` of which masses (n,) are whole numbers, but for crumbs, as those of counts are;
// masses that are all the same are one part each. 0 if there is none, or a part is hardly more than crumbs.
inline int64_t parts_of(const int64_t* mass, int64_t n, int64_t total) {
    const double most = std::fmin(double(total) / double(MANY_CRUMBS), 0.5 * std::sqrt(double(total)));
    int64_t parts = 1;
    for (int64_t i = 0; i < n; i++) {  // a convergent of a continued fraction has the least denominator
        const double part = double(total) / double(parts), share = std::fmod(double(mass[i]), part) / part;
        int64_t before = 0, now = 1;
        for (double rest = share;; rest -= std::floor(rest)) {
            const double off = share * double(now) - std::nearbyint(share * double(now));
            if (std::fabs(off) * part <= double(CRUMBS) * double(now)) break;
            rest = 1.0 / rest;
            if (!(rest * double(now) * double(parts) <= most)) return 0;
            const int64_t next = int64_t(rest) * now + before;
            before = now, now = next;
        }
        parts *= now;
        if (double(parts) > most) return 0;
    }
    return parts;
}

// Of how many parts a mass is.
INLINE int64_t count_of(int64_t mass, int64_t total, int64_t parts) {
    const int64_t part = total / parts;
    return (mass + part / 2) / part;
}

// Whether masses (n,) are whole numbers of so many parts of their total.
inline bool are_whole(const int64_t* mass, int64_t n, int64_t total, int64_t parts) {
    const int64_t part = total / parts, more = total % parts;
    int64_t left = parts;
    for (int64_t i = 0; i < n; i++) {
        const int64_t count = count_of(mass[i], total, parts), off = mass[i] - count * part - count * more / parts;
        if (off > CRUMBS || off < -CRUMBS) return false;
        left -= count;
    }
    return left == 0;
}

// Masses (n,) and their names as whole numbers of parts of `part` units, without those that are crumbs; how many stay.
inline int64_t lay_evenly(int64_t* mass, int32_t* name, int64_t n, int64_t total, int64_t parts, int64_t part) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t count = count_of(mass[i], total, parts);
        mass[kept] = count * part, name[kept] = name[i];
        kept += count > 0;
    }
    return kept;
}

// If the masses of either side are whole numbers of parts of their total, but for crumbs, they become whole numbers of parts
// of both, which integers hold exactly: crumbs would have to go where nobody sent them. Returns by how much values grow with
// the units that are left out, or 0 where nothing changed.
inline double even_out(const Workspace& ws, int64_t& p, int64_t& q) {
    int64_t total = 0;
    for (int64_t i = 0; i < p; i++) total += ws.supply[i];
    const int64_t rows = parts_of(ws.supply, p, total), columns = rows == 0 ? 0 : parts_of(ws.demand, q, total);
    if (columns == 0 || !are_whole(ws.supply, p, total, rows) || !are_whole(ws.demand, q, total, columns)) return 0.0;
    int64_t common = rows, rest = columns;
    while (rest != 0) common %= rest, std::swap(common, rest);
    const int64_t parts = rows / common * columns, part = total / parts;
    if (part < MANY_CRUMBS) return 0.0;
    p = lay_evenly(ws.supply, ws.source, p, total, rows, parts / rows * part);
    q = lay_evenly(ws.demand, ws.sink, q, total, columns, parts / columns * part);
    return double(total) / double(part * parts);
}

// Lays a pair out again, masses of whole parts without crumbs. `grown`: what that makes values larger by.
template <class Place>
struct EvenLayout {
    const Workspace& ws;
    const Place& place;
    double grown = 1.0;

    bool operator()(int64_t& p, int64_t& q) {
        place(p, q);
        const double more = even_out(ws, p, q);
        grown = more > 0.0 ? more : 1.0;
        return more > 0.0;
    }
};

// What was found, or, where only crumbs use costs from `limit` on, what is found without them. `reach(crumbs)` is the
// largest cost that ships more than that, `lay_out` says whether there is another layout, and `solve` solves it.
template <class Found, class Reach, class LayOut, class Solve>
INLINE Found without_crumbs(Found found, double limit, Reach reach, LayOut lay_out, Solve solve) {
    if (found.steps < 0 || found.reach < limit || reach(CRUMBS) >= limit || !lay_out()) return found;
    Found again = solve();
    if (again.steps >= 0) again.steps += found.steps;
    return again;
}

// Which of the octaves least · [2^t, 2^(t + 1)) have costs, as bits t + 1; the last one stands for all beyond.
struct Octaves {
    double least;
    uint64_t taken = 1;  // what is below

    INLINE void add(double cost) {
        const double above = cost / least;
        if (above >= 1.0) taken |= uint64_t(2) << (above < 0x1p62 ? std::ilogb(above) : 62);
    }
    // Whether there are three empty ones in a row below others.
    INLINE bool have_gap() const { return (taken & ~(taken << 1 | taken << 2 | taken << 3) & ~uint64_t(1)) != 0; }
};

// Whether more of the costs ≥ 0 between the nodes of a pair lack digits than a plan needs. `found` has `reach`, the largest
// cost in use, and `spread`, the largest of all. Costs of ordinary sizes, such as squares of distances, merge into one
// another; those that mean "never" lie apart.
template <class Found>
INLINE bool lacks_digits(const Found& found, const Workspace& ws, const double* cost, int64_t stride, int64_t p, int64_t q,
                         double share) {
    const double reach = found.reach, spread = found.spread;
    if (found.steps < 0 || !(reach > 0.0 && reach < share * spread)) return false;
    int64_t fine = 0;
    Octaves octaves = {FIRST_TOP * reach};
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j < q; j++) {
            const double each = cost[ws.source[i] * stride + ws.sink[j]];
            fine += each < share * spread;
            octaves.add(each);
        }
    return fine > p && fine > q && (octaves.have_gap() || reach < VERY_COARSE * spread);
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
