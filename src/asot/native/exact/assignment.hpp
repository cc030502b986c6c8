// Equal sizes and equal masses: an assignment, solved by bids and shortest augmenting paths.
//
// If every source has the mass of every sink, the cheapest plan is a matching, and there is no need for a tree. This is
// the method of Jonker and Volgenant (1987) on the integers of the simplex: sources bid for sinks in turn, and those that
// are left without one find the cheapest chain of swaps to a free sink. In the end, no arc costs less than the prices of
// its ends, exactly. Prices begin with the mean distances of distance_block.hpp; where costs may be anything, with the
// least cost of each column instead, if these prove more.
//
// In few dimensions, chains are long and many, and the simplex is faster. That shows after the bids: if too many sources
// are left, everything is as it was, and the simplex takes over.
//
// A cost holds its column in its lowest bits, so a plain minimum finds the arc, too, eight columns at a time.
#pragma once
#include "workspace.hpp"

constexpr int64_t UNFIT = -3;          // what `assign` returns if the simplex should solve the problem
constexpr int64_t FEW_SOURCES = 64;    // up to this many, chains are always short enough
constexpr int32_t NOBODY = -1;

// Whether all masses are equal, up to what their rounding to integers leaves.
INLINE bool is_assignment(const Workspace& ws, int64_t p, int64_t q) {
    if (p != q) return false;
    int64_t low = ws.supply[0], high = low;
    for (int64_t i = 0; i < p; i++) {
        for (const int64_t mass : {ws.supply[i], ws.demand[i]}) {
            low = mass < low ? mass : low;
            high = mass > high ? mass : high;
        }
    }
    return high - low <= 2 * p;
}

struct Assignment {
    const Workspace& ws;
    const int64_t n, stride, index_mask;
    int64_t* price;             // of each sink
    int32_t *owner, *partner;   // the source of each sink, and the sink of each source
    int32_t* free;              // sources without a sink

    INLINE Assignment(const Workspace& ws, int64_t n, int64_t index_bits)
        : ws(ws), n(n), stride(stride_of(n)), index_mask((int64_t(1) << index_bits) - 1), price(ws.keys),
          owner(ws.owner), partner(ws.slot), free(ws.child) {
        for (int64_t j = 0; j < stride; j++) price[j] = j < n ? ws.column_offset[j] : 0;
        for (int64_t i = 0; i < n; i++) {
            owner[i] = partner[i] = NOBODY;
            free[i] = int32_t(i);
        }
    }

    // Begin with the least cost of each column as its price, if that proves more. Means suit clouds in many dimensions;
    // minima suit independent costs, whose means are all the same, and clouds in few dimensions. Prices prove that the
    // value is at least their sum and that of each source's best offer, in units of the costs.
    INLINE bool begin_with_minima() const {
        int64_t* low = ws.barred;
        for (int64_t j = 0; j < stride; j += LANES) store(low + j, spread(TOP));
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < stride; j += LANES)
                store(low + j, lesser(load(low + j), load(ws.cost + i * stride + j)));
        for (int64_t j = 0; j < stride; j++) low[j] = j < n ? low[j] & ~index_mask : 0;
        double by_means = 0.0, by_minima = 0.0;
        for (int64_t j = 0; j < n; j++) by_means += double(price[j]), by_minima += double(low[j]);
        for (int64_t i = 0; i < n; i++) {
            Lanes of_means = spread(TOP), of_minima = of_means;
            for (int64_t j = 0; j < stride; j += LANES) {
                const Lanes cost = load(ws.cost + i * stride + j);
                of_means = lesser(of_means, cost - load(price + j));
                of_minima = lesser(of_minima, cost - load(low + j));
            }
            by_means += double(least(of_means)), by_minima += double(least(of_minima));
        }
        if (by_minima <= by_means) return false;
        for (int64_t j = 0; j < n; j++) price[j] = low[j];
        return true;
    }

    // Each free source takes its best sink, at a price at which the second best is as good. Who loses a sink bids next.
    // After `most` bids, losers wait. Returns how many sources are free; adds the number of bids.
    INLINE int64_t bid(int64_t left, int64_t most, int64_t& all_bids, Stop stop) const {
        int64_t later = 0, bids = 0;
        for (int64_t t = 0; t < left && *stop == 0; t++) {
            int64_t i = free[t];
            while (true) {
                Lanes best = spread(TOP), second = best;
                for (int64_t j = 0; j < stride; j += LANES) {
                    const Lanes key = load(ws.cost + i * stride + j) - load(price + j);
                    second = lesser(second, larger(best, key));
                    best = lesser(best, key);
                }
                int64_t first_key, second_key;
                least_two(best, second, first_key, second_key);
                int64_t j = first_key & index_mask;
                const int64_t gap = (second_key & ~index_mask) - (first_key & ~index_mask);
                if (n > 1 && gap > 0)
                    price[j] -= gap;
                else if (n > 1 && owner[j] != NOBODY)
                    j = second_key & index_mask;
                const int32_t loser = owner[j];
                partner[i] = int32_t(j);
                owner[j] = int32_t(i);
                bids++;
                if (loser == NOBODY || *stop != 0) break;
                partner[loser] = NOBODY;
                if (gap == 0 || bids >= most) {
                    free[later++] = loser;
                    break;
                }
                i = loser;
            }
        }
        all_bids += bids;
        return later;
    }

    // The cheapest chain of swaps from a free source to a free sink (Dijkstra), and the prices that keep it so.
    INLINE void augment(int64_t start) const {
        int64_t *distance = ws.row_offset, *done = ws.barred, *before = ws.flow;
        int32_t* scanned = ws.hung_on;
        for (int64_t j = 0; j < stride; j += LANES) {
            store(distance + j, spread(TOP));
            store(done + j, spread(BOTTOM));
        }
        int64_t count = 0, i = start, ahead = 0, key, j;
        while (true) {
            Lanes best = spread(TOP);
            const Lanes row = spread(i), added = spread(ahead);
            for (int64_t o = 0; o < stride; o += LANES) {
                const Lanes now = load(ws.cost + i * stride + o) - load(price + o) + added, old = load(distance + o);
                store(before + o, select_less(now, old, row, load(before + o)));
                const Lanes nearer = lesser(now, old);
                store(distance + o, nearer);
                best = lesser(best, larger(nearer, load(done + o)));
            }
            key = least(best);
            j = key & index_mask;
            if (owner[j] == NOBODY) break;
            done[j] = TOP;
            scanned[count++] = int32_t(j);
            i = owner[j];
            ahead = (key & ~index_mask) - ((ws.cost[i * stride + j] & ~index_mask) - price[j]);
        }
        const int64_t reach = key & ~index_mask;
        for (int64_t t = 0; t < count; t++) price[scanned[t]] += (distance[scanned[t]] & ~index_mask) - reach;
        do {
            i = before[j];
            owner[j] = int32_t(i);
            const int64_t taken = partner[i];
            partner[i] = int32_t(j);
            j = taken;
        } while (i != start);
    }

    // Every source hangs on its sink; potentials as in the simplex.
    INLINE void leave_forest() const {
        const int64_t first = first_sink(n);
        int64_t total = 0;
        for (int64_t i = 0; i < n; i++) total += ws.supply[i];
        for (int64_t x = n; x < first + n; x++) ws.parent[x] = int32_t(x);
        for (int64_t j = 0; j < n; j++) ws.pi[first + j] = -price[j];
        for (int64_t i = 0; i < n; i++) {
            const int64_t j = partner[i];
            ws.parent[i] = int32_t(first + j);
            ws.flow[i] = (total + n / 2) / n;
            ws.pi[i] = (ws.cost[i * stride + j] & ~index_mask) - price[j];
        }
    }
};

// How to bid, which decides what a tie ends in, and so belongs to a call: from how many sources on prices may begin with
// minima, and whether the second round is as brief as the first. Brief is faster where costs may be anything.
struct Bidding {
    int64_t minima_from;
    bool brief;
};
constexpr Bidding FOR_DISTANCES{INT64_MAX, false}, FOR_COSTS{FEW_SOURCES + 1, false}, BRIEFLY{0, true};

// Solve the n × n problem in `ws`, whose masses are equal; the matching is left as a forest. Returns the number of bids and
// chains, -1 if *stop was raised in the meantime, or UNFIT.
__attribute__((noinline)) inline int64_t assign(const Workspace& ws, int64_t n, int64_t index_bits, Stop stop,
                                                Bidding how) {
    const Assignment market(ws, n, index_bits);
    const bool from_minima = n >= how.minima_from && market.begin_with_minima();
    int64_t left = n, bids = 0, most = n, allowed = 3 * n / 10;
    for (int round = 0; round < 2; round++) {
        left = market.bid(left, most, bids, stop);
        if (*stop != 0) return -1;
        if (n > FEW_SOURCES && left > allowed) return UNFIT;
        if (!how.brief) most = from_minima ? 8 * n : 3 * n + n * n / 100, allowed = 16 + n / 10;
    }
    for (int64_t t = 0; t < left; t++) {
        if (*stop != 0) return -1;
        market.augment(market.free[t]);
    }
    market.leave_forest();
    return bids + left;
}
