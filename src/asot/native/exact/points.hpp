// One pair of distributions: cancel common mass, compute the distances of what is left, solve.
#pragma once
#include "../common/metrics.hpp"
#include "../common/records.hpp"
#include "assignment.hpp"
#include "large.hpp"
#include "packed_points.hpp"

constexpr double TINY = 0x1p-450;     // distances below this, at the scale of 1, lose digits when they are squared
constexpr double ENLARGED = 0x1p900;  // points of such a small pair are multiplied by this first
constexpr double LARGEST_SQUARE = 0x1p1022;  // of enlarged distances: nothing goes that far, but infinity times 0 is no number

struct PointsCost {
    int64_t code;         // of the metric
    double order;         // its parameter
    int64_t n;            // distinct points
    const double* table;  // (n, n) distances of all of them, or null
};

struct PointsSizes {
    int64_t most_sources, most_sinks;  // of a pair of the tile
    int64_t equal;                     // whether all masses of the collection are equal
};

struct PointsSolver {
    const PackedPoints& h;
    const PointsCost& cost;
    const PointsSizes& sizes;
    const Workspace ws;
    const Scratch scratch;
    int64_t p, q;        // sources and sinks of the last pair
    double most;         // its largest distance, times `factor`
    CostBits bits{1, 1};

    PointsSolver(const PackedPoints& h, const PointsCost& cost, const PointsSizes& sizes)
        : h(h), cost(cost), sizes(sizes),
          ws(sizes.most_sources, sizes.most_sinks, sizes.most_sources + sizes.most_sinks),
          scratch(sizes.most_sources, sizes.most_sinks, h.dim) {}

    bool failed() const { return ws.failed() || scratch.failed(); }

    // The distances of a pair from the table of all of them.
    INLINE void read_distances(int64_t a, int64_t b) const {
        const int64_t stride = stride_of(q);
        for (int64_t i = 0; i < p; i++) {
            const double* row = cost.table + h.index[h.offsets[a] + ws.source[i]] * cost.n;
            double* out = scratch.distance + i * stride;
            for (int64_t j = 0; j < q; j++) out[j] = row[h.index[h.offsets[b] + ws.sink[j]]];
            for (int64_t j = q; j < stride; j++) out[j] = 0.0;
        }
    }

    // Whether no distance is large enough for its square to be a number. Nearly always the first one is.
    INLINE bool all_tiny() const {
        const int64_t stride = stride_of(q);
        for (int64_t i = 0; i < p; i++)
            for (int64_t j = 0; j < q; j++)
                if (scratch.distance[i * stride + j] >= TINY) return false;
        return true;
    }

    // The distances of a pair, times the factor that is returned: 1, or more where their squares would vanish.
    INLINE double measure(int64_t a, int64_t b, Stop stop) const {
        const bool products = cost.code == EUCLIDEAN && h.dim >= LONG_POINTS;
        if (cost.table != nullptr)
            read_distances(a, b);
        else if (products)
            fill_long_distances(ws, scratch, h, a, b, p, q, stride_of(q), stop);
        if (*stop != 0 || ((cost.table != nullptr || products) && !all_tiny())) return 1.0;
        const int64_t stride = stride_of(q), width = gather_points(ws, scratch, h, a, b, p, q, stride);
        fill_distances(cost.code, cost.order, scratch.x, scratch.y, p, stride, width, scratch.distance, stop);
        if (cost.code > MINKOWSKI || *stop != 0 || !all_tiny()) return 1.0;
        for (int64_t t = 0; t < p * width; t++) scratch.x[t] *= ENLARGED;
        for (int64_t t = 0; t < width * stride; t++) scratch.y[t] *= ENLARGED;
        fill_distances(cost.code, cost.order, scratch.x, scratch.y, p, stride, width, scratch.distance, stop);
        return ENLARGED;
    }

    // Whether one source sends to all sinks, or one sink receives from all sources: there is no choice.
    INLINE bool is_forced() const { return p == 1 || q == 1; }

    // What it then costs, in units of 2^-60 of the distances.
    INLINE double forced_value() const {
        double total = 0.0;
        if (p == 1)
            for (int64_t j = 0; j < q; j++) total += double(ws.demand[j]) * scratch.distance[j];
        else
            for (int64_t i = 0; i < p; i++) total += double(ws.supply[i]) * scratch.distance[i * stride_of(1)];
        return total;
    }

    // Cancel, compute the costs and solve one pair; the number of steps, -1 if *stop was raised in the meantime, or
    // NO_MEMORY. The optimal tree or forest stays in `ws`, unless there is only one plan, and its cost is asked for.
    INLINE int64_t solve(int64_t a, int64_t b, Stop stop, double* forced = nullptr) {
        place_difference(ws, h, a, b, p, q);
        if (p == 0) return 0;
        const double factor = measure(a, b, stop);
        if (*stop != 0) return -1;
        if (forced != nullptr && is_forced()) {
            *forced = forced_value() / factor;
            return 0;
        }
        bits = CostBits(h.size(a), h.size(b));
        most = place_distances(ws, scratch, p, q, bits, stop);
        if (*stop != 0) return -1;
        if (factor > 1.0)
            for (int64_t t = 0; t < p * stride_of(q); t++) scratch.distance[t] /= factor;
        if (sizes.equal && is_assignment(ws, p, q)) {
            const int64_t steps = assign(ws, p, bits.index, stop, FOR_DISTANCES);
            if (steps != UNFIT) return steps;
        }
        return solve_any(ws, p, q, bits.index, stop);
    }
};

// The values and steps of all pairs of a tile.
int32_t solve_points(const PackedPoints& h, const PointsCost& cost, const PointsSizes& sizes, const Tile& tile);
