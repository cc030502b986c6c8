// Tiles of pairs under any cost, with or without mass that stays unmatched; see src/asot/exact/any_cost.py.
#include "any_cost.hpp"

#include "../common/arcsine.hpp"
#include "../common/transform.hpp"

constexpr double FINE = 0x1p-8;   // see asot.exact.any_cost
constexpr double CLIPPED = 4.0, WIDER = 0x1p8, WIDEST = 0x1p26;
constexpr int ROUNDED_BITS = MASS_BITS - 53;  // a mass of float64 may be off by this many bits of its integer

// The angles between unit vectors, a row (stride,) at a time, from their distances. Far ones are nearly opposite, where a
// sine is flat: there the angle to the other's opposite is taken from π. u (width,), v (width, stride).
INLINE void become_angles(double* row, const double* u, const double* v, int64_t width, int64_t stride) {
    constexpr double PI = 3.141592653589793, REST_OF_PI = 1.2246467991473532e-16;
    for (int64_t j = 0; j < stride; j += LANES) {
        const Doubles d = load(row + j), square = d * d, half = spread(0.5) * d;
        Doubles angle = spread(2.0) * arcsine(half);
        if (where_less(spread(2.0), square) != 0) {
            Doubles sum = spread(0.0);
            for (int64_t c = 0; c < width; c++) {
                const Doubles both = spread(u[c]) + load(v + c * stride + j);
                sum = sum + both * both;
            }
            const Doubles rest = spread(2.0) * arcsine(spread(0.5) * root(sum));
            angle = select_less(spread(2.0), square, (spread(PI) - rest) + spread(REST_OF_PI), angle);
        }
        store(row + j, angle);
    }
}

struct AnyCostSolver {
    const PackedPoints& h;
    const AnyCost& cost;
    const PointsSizes& sizes;
    const int64_t extra;  // 1 if there are reservoirs
    const Workspace ws;
    const Scratch scratch;
    int64_t p, q, stride;  // of the last pair
    CostBits bits{1, 1};

    AnyCostSolver(const PackedPoints& h, const AnyCost& cost, const PointsSizes& sizes)
        : h(h), cost(cost), sizes(sizes), extra(cost.prices != nullptr),
          ws(sizes.most_sources, sizes.most_sinks, sizes.most_sources + sizes.most_sinks),
          scratch(sizes.most_sources, sizes.most_sinks, h.dim) {}

    bool failed() const { return ws.failed() || scratch.failed(); }

    // Whether distances are those of long points.
    INLINE bool has_products() const { return cost.code == EUCLIDEAN && cost.transform != ARC && h.dim >= LONG_POINTS; }

    INLINE int64_t source_point(int64_t a, int64_t i) const { return h.index[h.offsets[a] + ws.source[i]]; }
    INLINE int64_t sink_point(int64_t b, int64_t j) const { return h.index[h.offsets[b] + ws.sink[j]]; }

    INLINE void place_whole(int64_t a, int64_t b, int64_t shift_a, int64_t shift_b) {
        p = q = 0;
        for (int64_t t = h.offsets[a]; t < h.offsets[a + 1]; t++) {
            ws.supply[p] = in_units(h.masses[t], shift_a);
            if (ws.supply[p] > 0) ws.source[p++] = int32_t(t - h.offsets[a]);
        }
        for (int64_t t = h.offsets[b]; t < h.offsets[b + 1]; t++) {
            ws.demand[q] = in_units(h.masses[t], shift_b);
            if (ws.demand[q] > 0) ws.sink[q++] = int32_t(t - h.offsets[b]);
        }
    }

    // Sources and sinks of a pair, in the larger of the two units of mass; the reservoirs last.
    void place_pair(int64_t a, int64_t b) {
        const int64_t apart = cost.exponents != nullptr ? cost.exponents[a] - cost.exponents[b] : 0;
        const int64_t shift_a = apart < 0 ? -apart : 0, shift_b = apart > 0 ? apart : 0;
        bits = CostBits(h.size(a) + 1, h.size(b) + 1);
        if (cost.cancels) {
            place_difference(ws, h, a, b, p, q, shift_a, shift_b);
            if (p == 0 && q == 0) return;
        } else {
            place_whole(a, b, shift_a, shift_b);
        }
        if (extra) {
            int64_t supply = 0, demand = 0;
            for (int64_t i = 0; i < p; i++) supply += ws.supply[i];
            for (int64_t j = 0; j < q; j++) demand += ws.demand[j];
            const int64_t moved = int64_t(std::rint(cost.share * double(supply < demand ? supply : demand)));
            ws.supply[p++] = demand - moved;
            ws.demand[q++] = supply - moved;
        }
        stride = stride_of(q);
    }

    // What is taken of the distances of one row, in place.
    INLINE void transform_row(double* row, int64_t i, int64_t sinks, int64_t width) const {
        if (cost.transform == ARC)
            become_angles(row, scratch.x + i * width, scratch.y, width, stride);
        else if (cost.transform != PLAIN)
            for (int64_t j = 0; j < sinks; j++) row[j] = of_distance(cost.transform, row[j]);
    }

    // Distances between the points of a pair; the largest.
    double fill(int64_t a, int64_t b, int64_t sources, int64_t sinks, Stop stop) const {
        if (cost.table != nullptr) {
            for (int64_t i = 0; i < sources && *stop == 0; i++) {
                const double* row = cost.table + source_point(a, i) * cost.n;
                for (int64_t j = 0; j < sinks; j++) scratch.distance[i * stride + j] = row[sink_point(b, j)];
            }
        } else if (has_products()) {
            fill_long_distances(ws, scratch, h, a, b, sources, sinks, stride, stop);
            for (int64_t i = 0; i < sources && *stop == 0; i++) transform_row(scratch.distance + i * stride, i, sinks, 0);
        } else {
            const int64_t width = gather_points(ws, scratch, h, a, b, sources, sinks, stride);
            fill_distances(cost.code, cost.order, scratch.x, scratch.y, sources, stride, width, scratch.distance, stop);
            for (int64_t i = 0; i < sources && *stop == 0; i++)
                transform_row(scratch.distance + i * stride, i, sinks, width);
        }
        const double reach = largest_distance(scratch.distance, sources, sinks, stride, stop);
        const bool tiny = reach < TINY && cost.transform == PLAIN && cost.code <= MINKOWSKI && cost.table == nullptr;
        return tiny && *stop == 0 ? fill_enlarged(a, b, sources, sinks, stop) : reach;
    }

    // The same where squares of distances vanish, since other distributions are so much farther apart.
    double fill_enlarged(int64_t a, int64_t b, int64_t sources, int64_t sinks, Stop stop) const {
        const int64_t width = gather_points(ws, scratch, h, a, b, sources, sinks, stride);
        for (int64_t t = 0; t < sources * width; t++) scratch.x[t] *= ENLARGED;
        for (int64_t t = 0; t < width * stride; t++) scratch.y[t] *= ENLARGED;
        fill_distances(cost.code, cost.order, scratch.x, scratch.y, sources, stride, width, scratch.distance, stop);
        for (int64_t t = 0; t < sources * stride; t++) scratch.distance[t] /= ENLARGED;
        return largest_distance(scratch.distance, sources, sinks, stride, stop);
    }

    // Prices in the last row and column; the largest.
    double add_reservoirs(int64_t a, int64_t b) const {
        double most = 0.0;
        for (int64_t i = 0; i < p - 1; i++) {
            const double price = cost.prices[source_point(a, i)];
            scratch.distance[i * stride + q - 1] = price;
            most = price > most ? price : most;
        }
        for (int64_t j = 0; j < q - 1; j++) {
            const double price = cost.prices[sink_point(b, j)];
            scratch.distance[(p - 1) * stride + j] = price;
            most = price > most ? price : most;
        }
        scratch.distance[(p - 1) * stride + q - 1] = 0.0;
        return most;
    }

    // Distances and prices of a pair; the largest of all. reach: the largest distance between two points.
    double measure(int64_t a, int64_t b, double& reach, Stop stop) const {
        reach = fill(a, b, p - extra, q - extra, stop);
        const double price = extra ? add_reservoirs(a, b) : 0.0;
        return price > reach ? price : reach;
    }

    // Distances become (d / unit)^power, at most `top`, and 0 beyond the last column.
    void raise(double unit, double top, Stop stop) const {
        for (int64_t i = 0; i < p && *stop == 0; i++) {
            double* row = scratch.distance + i * stride;
            for (int64_t j = 0; j < q; j++) row[j] /= unit;
            if (cost.power == 2.0)
                for (int64_t j = 0; j < q; j++) row[j] *= row[j];
            else if (cost.power != 1.0)
                for (int64_t j = 0; j < q; j++) row[j] = std::pow(row[j], cost.power);
            for (int64_t j = 0; j < q; j++) row[j] = row[j] > top ? top : row[j];
            for (int64_t j = q; j < stride; j++) row[j] = 0.0;
        }
    }

    // What the flows of the optimal tree cost; used: the largest cost among them. Flows below `least` do not count.
    double value_of_flows(int64_t least, double& used) const {
        const int64_t first = first_sink(p);
        double total = 0.0;
        used = 0.0;
        for (int64_t node = 0; node < first + q; node++) {
            const int64_t up = ws.parent[node];
            if (up == node || ws.flow[node] < least) continue;
            const double d = scratch.distance[node < p ? node * stride + up - first : up * stride + node - first];
            total += double(ws.flow[node]) * d;
            used = d > used ? d : used;
        }
        return total;
    }

    // One solve of a pair whose distances were measured, with costs (d / unit)^power up to `top`; what its plan costs, and
    // the largest cost in use. False if *stop was raised in the meantime.
    bool solve_clipped(double unit, double top, int64_t least, double& found, double& used, int32_t& pivots, Stop stop) {
        raise(unit, top, stop);
        place_distances(ws, scratch, p, q, bits, stop);
        if (*stop != 0) return false;
        int64_t made = UNFIT;
        if (has_products() && is_assignment(ws, p, q)) made = assign(ws, p, bits.index, stop, FOR_COSTS);
        if (made == UNFIT) made = solve_block(ws, p, q, bits.index, stop);
        if (made < 0 || *stop != 0) return false;
        pivots += int32_t(made);
        found = value_of_flows(least, used);
        return true;
    }

    // The value, the unit and the number of pivots of a pair whose distances were measured; false if *stop was raised in
    // the meantime. For powers above 1, flows below the rounding of float64 masses do not count: nine masses of 1/9 are
    // not exactly 1, and the power of a long distance would make what is left over visible. So would a price that means
    // "never" beside distances.
    bool solve(int64_t a, int64_t b, double most, double& value, double& unit, int32_t& pivots, Stop stop) {
        const int64_t rounded = (p + q) << ROUNDED_BITS;
        int64_t least = cost.power == 1.0 ? 1 : rounded;
        double top, reach, found, used, rest;
        if (!(most > 0.0)) return true;
        if (!solve_clipped(most, 1.0, least, found, used, pivots, stop)) return false;
        if (extra && used >= FINE && (value_of_flows(rounded, rest), rest < FINE))
            least = rounded, found = value_of_flows(least, used);
        value = found, unit = most;
        for (double enough = FINE; used < enough; enough = FINE * CLIPPED) {
            measure(a, b, reach, stop);
            if (*stop != 0) return false;
            value_of_flows(least, most);
            if (!(most > 0.0)) return value = 0.0, true;
            raise(most, HUGE_VAL, stop);
            value = value_of_flows(least, used), unit = most;  // of the plan at hand, whatever the next one is
            for (top = CLIPPED;; top *= WIDER) {
                measure(a, b, reach, stop);
                place_pair(a, b);
                if (*stop != 0 || !solve_clipped(most, top, least, found, used, pivots, stop)) return false;
                if (used < top) break;
                if (top >= WIDEST) return true;
            }
            value = found;
        }
        return true;
    }
};

int32_t solve_any_cost(const PackedPoints& h, const AnyCost& cost, const PointsSizes& sizes, const Tile& tile,
                       const AnyCostOut& out) {
    AnyCostSolver solver(h, cost, sizes);
    if (solver.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < tile.n && *tile.stop == 0; t++) {
        const int64_t a = tile.rows[t], b = tile.columns[t];
        tile.values[t] = out.units[t] = out.reach[t] = 0.0;
        tile.steps[t] = 0;
        solver.place_pair(a, b);
        if (solver.p == 0 || solver.q == 0) continue;
        const double most = solver.measure(a, b, out.reach[t], tile.stop);
        if (*tile.stop != 0) return DONE;
        if (!solver.solve(a, b, most, tile.values[t], out.units[t], tile.steps[t], tile.stop)) return DONE;
    }
    return DONE;
}

ENTRY asot_any_cost_tile(const PackedPoints* h, const AnyCost* cost, const PointsSizes* sizes, const Tile* tile,
                         const AnyCostOut* out) {
    return solve_any_cost(*h, *cost, *sizes, *tile, *out);
}
