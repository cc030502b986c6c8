// Assignments of many sources whose costs stay where they were given: each source bids from a short list.
//
// `assign` turns all n² costs into integers and reads those of a source for each of its bids and for each step of a chain.
// Large matrices are too big for that: writing them once more takes longer than all bids. Here a source keeps the few arcs
// that were its best when the list was made, and a floor that no other arc is below, nor will ever be, since prices only
// fall. A bid that would go past the floor makes the list anew, and a chain that passes the floor of a source on its way
// looks at all arcs of that source. So the matching is optimal for all arcs, on the same integers, without a tolerance.
#pragma once
#include "../common/sorting.hpp"
#include "assignment.hpp"
#include "distance_block.hpp"

constexpr int64_t MANY_SOURCES = 256;  // from which short lists pay
constexpr int64_t LISTED = 96;         // the most arcs of a list
constexpr int64_t GROUPS = 4;          // columns fall into so many times LANES groups
constexpr int64_t WANTED = 16;         // the best arcs of so many groups are in a list,
constexpr int64_t FOR_CHAINS = 28;     // and of so many in one that a chain went past
constexpr int64_t ASKED = 64;          // rows that decide with which prices to begin

// The costs of a problem as they were given, and how they become integers.
struct GivenCosts {
    const double* cost;
    int64_t stride, n;
    double low, most, scale;  // the least cost if that is negative; the largest cost less that; units of integers per cost
    int64_t index_bits, index_mask;

    INLINE double above_low(int64_t i, int64_t j) const { return cost[i * stride + j] - low; }
    INLINE int64_t integer(int64_t i, int64_t j) const { return int64_t(above_low(i, j) * scale + 0.5) << index_bits; }
};

struct Shortlists {
  private:
    Memory memory_;

  public:
    GivenCosts given;
    const int64_t n;
    double *height, *reduced, *sum;  // (stride,) prices as numbers; costs less prices of a row; of each column
    int64_t* price;                  // of each sink
    int64_t *arcs, *order;           // (n, LISTED) costs with their columns; less prices when the list was made, ascending
    int64_t* floor;                  // (n,)
    int64_t *open, *bound, *ahead;   // of a chain: sinks to go to; floors of sources passed, and what led to these
    int64_t *keys, *reached;         // (n,) scratch; how far each sink is that was passed
    int32_t *owner, *partner, *free, *listed, *made, *slot, *before, *waits;
    int32_t version = 0;             // grows with every change of prices by a chain
    int64_t n_open = 0, n_bounds = 0, nearest_free = TOP, nearest_bound = TOP;

    static int64_t bytes(int64_t n) {
        const int64_t wide = stride_of(n) + LANES;
        return 10 * Memory::bytes_of<int64_t>(wide) + 2 * Memory::bytes_of<int64_t>(n * LISTED) +
               8 * Memory::bytes_of<int32_t>(wide);
    }
    Shortlists(const double* cost, int64_t cost_stride, int64_t n, int64_t index_bits)
        : memory_(bytes(n)), given{cost, cost_stride, n, 0.0, 0.0, 0.0, index_bits, (int64_t(1) << index_bits) - 1}, n(n) {
        if (memory_.failed()) return;
        const int64_t wide = stride_of(n) + LANES;
        for (double** each : {&height, &reduced, &sum}) *each = memory_.take<double>(wide);
        for (int64_t** each : {&price, &floor, &open, &bound, &ahead, &keys, &reached})
            *each = memory_.take<int64_t>(wide);
        for (int32_t** each : {&owner, &partner, &free, &listed, &made, &slot, &before, &waits})
            *each = memory_.take<int32_t>(wide);
        arcs = memory_.take<int64_t>(n * LISTED), order = memory_.take<int64_t>(n * LISTED);
        for (int64_t i = 0; i < n; i++) {
            owner[i] = partner[i] = slot[i] = NOBODY;
            made[i] = -1;
            free[i] = int32_t(i);
        }
    }
    bool failed() const { return memory_.failed(); }

    // ------------------------------------------------------------------------------------------------- prices

    // Least costs of columns into `height`, their sums into `sum`, and what integers are made of. False: out of range.
    bool measure(double cost_scale, Stop stop) {
        const int64_t whole = n & ~(LANES - 1);
        for (int64_t j = 0; j < n; j++) height[j] = INFINITY, sum[j] = 0.0;
        Doubles most = spread(-double(INFINITY));
        double high = -INFINITY, low = INFINITY;
        for (int64_t i = 0; i < n && *stop == 0; i++) {
            const double* row = given.cost + i * given.stride;
            for (int64_t j = 0; j < whole; j += LANES) {
                const Doubles each = load(row + j);
                most = larger(each, most);
                store(height + j, lesser(each, load(height + j)));
                store(sum + j, load(sum + j) + each);
            }
            for (int64_t j = whole; j < n; j++) {
                high = row[j] > high ? row[j] : high;
                height[j] = row[j] < height[j] ? row[j] : height[j];
                sum[j] += row[j];
            }
        }
        if (*stop != 0) return false;
        for (int64_t j = 0; j < n; j++) low = height[j] < low ? height[j] : low;
        high = whole > 0 && largest(most) > high ? largest(most) : high;
        const double size = high > -low ? high : -low;
        int exponent = 0;
        std::frexp(size, &exponent);
        if (size > 0.0 && (exponent <= -400 || exponent >= 400)) return false;
        given.low = low < 0.0 ? low : 0.0;
        given.most = high - given.low;
        given.scale = given.most > 0.0 ? cost_scale / given.most : 0.0;
        return true;
    }

    // Begin with least costs as prices, or with means, whichever prove more.
    void begin() {
        for (int64_t j = 0; j < n; j++) {
            price[j] = int64_t((height[j] - given.low) * given.scale + 0.5);
            sum[j] = double(int64_t((sum[j] / double(n) - given.low) * given.scale * OFFSET_WEIGHT));
            height[j] = double(price[j]);
        }
        double with_least = 0.0, with_means = 0.0;
        const int64_t step = n / ASKED;
        for (int64_t i = 0; i < n; i += step) {
            double least_cost = INFINITY, least_mean = INFINITY;
            for (int64_t j = 0; j < n; j++) {
                const double each = given.above_low(i, j) * given.scale;
                least_cost = each - height[j] < least_cost ? each - height[j] : least_cost;
                least_mean = each - sum[j] < least_mean ? each - sum[j] : least_mean;
            }
            with_least += double(step) * least_cost, with_means += double(step) * least_mean;
        }
        for (int64_t j = 0; j < n; j++) with_least += height[j], with_means += sum[j];
        for (int64_t j = 0; j < n; j++) {
            if (with_means >= with_least) height[j] = sum[j];
            price[j] = int64_t(height[j]) << given.index_bits;
        }
    }

    INLINE void lower(int64_t j, int64_t by) {
        price[j] -= by;
        height[j] = double(price[j] >> given.index_bits);
    }

    // -------------------------------------------------------------------------------------------------- lists

    // Costs less prices of a source, in units of integers but not rounded, into `reduced`; padding is infinite.
    INLINE void reduce(int64_t i) const {
        const int64_t whole = n & ~(LANES - 1);
        const Doubles low = spread(given.low), scale = spread(given.scale);
        for (int64_t j = 0; j < whole; j += LANES)
            store(reduced + j, (load(given.cost + i * given.stride + j) - low) * scale - load(height + j));
        for (int64_t j = whole; j < whole + LANES; j++)
            reduced[j] = j < n ? given.above_low(i, j) * given.scale - height[j] : INFINITY;
    }

    // The columns of `reduced` that are below a limit, as keys; returns how many.
    INLINE int64_t collect(int64_t i, double limit) const {
        int64_t count = 0;
        for (int64_t j = 0; j < stride_of(n); j += LANES)
            for (int64_t bits = where_less(load(reduced + j), spread(limit)); bits != 0; bits &= bits - 1) {
                const int64_t column = j + lowest_bit(bits);
                keys[count++] = (given.integer(i, column) | column) - price[column];
            }
        return count;
    }

    void make_list(int64_t i, int64_t wanted) {
        reduce(i);
        Doubles groups[GROUPS];
        for (int64_t g = 0; g < GROUPS; g++) groups[g] = spread(double(INFINITY));
        for (int64_t j = 0; j < stride_of(n); j += LANES)
            groups[(j / LANES) % GROUPS] = lesser(load(reduced + j), groups[(j / LANES) % GROUPS]);
        double best[GROUPS * LANES];
        for (int64_t g = 0; g < GROUPS; g++) store(best + g * LANES, groups[g]);
        std::nth_element(best, best + wanted - 1, best + GROUPS * LANES, Ascending());
        // Rounding moves an arc by half a unit at most, and the floor is up to two units below the limit: with three units
        // more than wanted, the wanted ones are below the floor even where all of them cost the same.
        const double limit = best[wanted - 1] + 3.0;
        int64_t count = collect(i, limit);
        floor[i] = int64_t(std::floor(limit - 1.0)) * (given.index_mask + 1);
        if (count > LISTED) {
            std::nth_element(keys, keys + LISTED - 1, keys + count, Ascending());
            count = LISTED;
            floor[i] = keys[LISTED - 1];
        }
        sort_keys(keys, count);
        for (int64_t t = 0; t < count; t++) {
            order[i * LISTED + t] = keys[t];
            arcs[i * LISTED + t] = keys[t] + price[keys[t] & given.index_mask];
        }
        listed[i] = int32_t(count);
        made[i] = version;
    }

    // The two best arcs of a source at the present prices. Those of a list are read until none can be better.
    INLINE void best_two(int64_t i, int64_t& first, int64_t& second) {
        if (made[i] < 0) make_list(i, WANTED);
        while (true) {
            first = second = TOP;
            for (int64_t t = 0; t < listed[i] && order[i * LISTED + t] < second; t++) {
                const int64_t arc = arcs[i * LISTED + t], key = arc - price[arc & given.index_mask];
                second = key < first ? first : key < second ? key : second;
                first = key < first ? key : first;
            }
            if (second <= floor[i]) return;
            make_list(i, WANTED);
        }
    }

    // As Assignment::bid.
    int64_t bid(int64_t left, int64_t most, int64_t& all_bids, Stop stop) {
        int64_t later = 0, bids = 0;
        for (int64_t t = 0; t < left && *stop == 0; t++) {
            int64_t i = free[t];
            while (true) {
                int64_t first, second;
                best_two(i, first, second);
                int64_t j = first & given.index_mask;
                const int64_t gap = (second & ~given.index_mask) - (first & ~given.index_mask);
                if (gap > 0)
                    lower(j, gap);
                else if (owner[j] != NOBODY)
                    j = second & given.index_mask;
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

    // ------------------------------------------------------------------------------------------------- chains

    // A sink can be reached through a source.
    INLINE void reach(int64_t i, int64_t j, int64_t key) {
        if (slot[j] < NOBODY || key > nearest_free) return;  // passed already, or beyond the end
        if (slot[j] == NOBODY)
            slot[j] = int32_t(n_open++);
        else if (key >= open[slot[j]])
            return;
        open[slot[j]] = key;
        before[j] = int32_t(i);
        if (owner[j] == NOBODY) nearest_free = key;
    }

    // Go from a source, which is `led` away, to the sinks of its list; its floor is where others may begin.
    INLINE void pass(int64_t i, int64_t led) {
        for (int64_t t = 0; t < listed[i] && order[i * LISTED + t] + led <= nearest_free; t++) {
            const int64_t arc = arcs[i * LISTED + t], j = arc & given.index_mask;
            reach(i, j, arc - price[j] + led);
        }
        const int64_t others = (floor[i] & ~given.index_mask) + led;
        if (others > nearest_free) return;
        waits[n_bounds] = int32_t(i), ahead[n_bounds] = led, bound[n_bounds++] = others;
        nearest_bound = others < nearest_bound ? others : nearest_bound;
    }

    // The floor of a source is reached: its list anew, if prices have changed, or else all of its arcs.
    void go_on() {
        int64_t t = 0;
        while (bound[t] != nearest_bound) t++;
        const int64_t i = waits[t], led = ahead[t];
        n_bounds--;
        waits[t] = waits[n_bounds], ahead[t] = ahead[n_bounds], bound[t] = bound[n_bounds];
        nearest_bound = TOP;
        for (int64_t s = 0; s < n_bounds; s++) nearest_bound = bound[s] < nearest_bound ? bound[s] : nearest_bound;
        if (made[i] != version) {
            make_list(i, FOR_CHAINS);
            pass(i, led);
            return;
        }
        reduce(i);
        const double room = nearest_free == TOP ? double(INFINITY) : double((nearest_free - led) >> given.index_bits) + 2.0;
        const int64_t count = collect(i, room);
        for (int64_t s = 0; s < count; s++) reach(i, keys[s] & given.index_mask, keys[s] + led);
    }

    INLINE int64_t nearest() const {
        Lanes best = spread(TOP);
        for (int64_t t = 0; t < n_open; t += LANES) best = lesser(best, load(open + t));
        return least(best);
    }

    // As Assignment::augment.
    void augment(int64_t start) {
        n_open = n_bounds = 0;
        nearest_free = nearest_bound = TOP;
        for (int64_t j = 0; j < stride_of(n) + LANES; j++) open[j] = TOP;
        int64_t passed = 0, key, j, i = start;
        pass(start, 0);
        while (true) {
            while (nearest_bound <= (key = nearest())) go_on();
            j = key & given.index_mask;
            if (owner[j] == NOBODY) break;
            const int64_t last = open[--n_open];
            open[n_open] = TOP;
            if (last != key) open[slot[j]] = last, slot[last & given.index_mask] = slot[j];
            slot[j] = NOBODY - 1;
            reached[passed++] = key;
            i = owner[j];
            pass(i, (key & ~given.index_mask) - (given.integer(i, j) - price[j]));
        }
        for (int64_t t = 0; t < n_open; t++) slot[open[t] & given.index_mask] = NOBODY;
        for (int64_t t = 0; t < passed; t++) {
            slot[reached[t] & given.index_mask] = NOBODY;
            lower(reached[t] & given.index_mask, (key & ~given.index_mask) - (reached[t] & ~given.index_mask));
        }
        version++;
        do {
            i = before[j];
            owner[j] = int32_t(i);
            const int64_t taken = partner[i];
            partner[i] = int32_t(j);
            j = taken;
        } while (i != start);
    }

    // As Assignment::leave_forest. Returns what the flows cost, as value_of_flows.
    double leave_forest(const Workspace& ws) const {
        const int64_t first = first_sink(n);
        int64_t total = 0;
        double value = 0.0;
        for (int64_t i = 0; i < n; i++) total += ws.supply[i];
        for (int64_t x = n; x < first + n; x++) ws.parent[x] = int32_t(x);
        for (int64_t j = 0; j < n; j++) ws.pi[first + j] = -price[j];
        for (int64_t i = 0; i < n; i++) {
            const int64_t j = partner[i];
            ws.parent[i] = int32_t(first + j);
            ws.flow[i] = (total + n / 2) / n;
            ws.pi[i] = given.integer(i, j) - price[j];
            value += double(ws.flow[i]) * given.above_low(i, j);
        }
        return value;
    }
};

// Solve an assignment of n sources whose costs are given in rows of `stride` numbers; the matching is left as a forest, and
// what it costs in `value`, above the least cost. Returns as `assign`, and UNFIT also where costs are of extreme size.
__attribute__((noinline)) inline int64_t assign_given(const Workspace& ws, Shortlists& lists, double cost_scale,
                                                      double& value, Stop stop) {
    const int64_t n = lists.n;
    if (!lists.measure(cost_scale, stop)) return *stop != 0 ? -1 : UNFIT;
    lists.begin();
    int64_t left = n, bids = 0, most = n, allowed = 2 * n / 5;
    for (int round = 0; round < 2; round++) {
        left = lists.bid(left, most, bids, stop);
        if (*stop != 0) return -1;
        if (left > allowed) return UNFIT;
        most = 8 * n, allowed = 3 * n / 10;
    }
    for (int64_t t = 0; t < left; t++) {
        if (*stop != 0) return -1;
        lists.augment(lists.free[t]);
    }
    value = lists.leave_forest(ws);
    return bids + left;
}
