// From a block of distances to a problem of the simplex, and from its flows back to a value.
//
// Solvers that know distances only pair by pair fill `Scratch::distance`; here they become integers with the offsets of
// the greedy start.
#pragma once
#include "long_points.hpp"
#include "simplex.hpp"

constexpr double OFFSET_WEIGHT = 1.05;  // share of a node's mean distance that the greedy start subtracts; measured best
                                        // between 0.95 and 1.2

// How the integer costs of a pair of n and m points are laid out (asot.exact.shared_cost): bits that hold a row or a
// padded column, and the largest cost. A pair's own, so that no answer depends on what else is in its tile or collection.
struct CostBits {
    int64_t index;
    double largest;

    CostBits(int64_t n, int64_t m) : index(4) {
        while ((((n > m ? n : m) + LANES - 1) >> index) != 0) index++;
        largest = double(int64_t(1) << (62 - 2 * index));
    }
    // What a difference of 1 between potentials is worth where the largest cost is `most`.
    INLINE double unit(double most) const { return most / (largest * double(int64_t(1) << index)); }
};

// Memory of one thread for the distances of a pair, in addition to the simplex's Workspace.
struct Scratch {
  private:
    int64_t stride_, even_;  // the distance kernel takes two rows at a time
    int64_t whole_;          // and that of long points whole panels
    Memory memory_;

  public:
    double *x, *y;             // (p + 1, width) sources, (width, stride) sinks, transposed; width up to dim + 3
    double* squares;           // (whole panels of p and of q) lengths of long points
    double* distance;          // (p + 1, stride)
    double *column_sum, *demand;  // (stride,) masses of the sinks
    int32_t *place_a, *place_b;   // (dim,) place of each used coordinate of either distribution in the union

    Scratch(int64_t most_sources, int64_t most_sinks, int64_t dim)
        : stride_(stride_of(most_sinks)), even_(most_sources + 1), whole_(panels_of(most_sinks) * PANEL),
          memory_(Memory::bytes_of<double>(even_ * (dim + 3)) + Memory::bytes_of<double>((dim + 3) * whole_) +
                  Memory::bytes_of<double>(even_ + PANEL + whole_) +
                  Memory::bytes_of<double>(even_ * stride_) + 2 * Memory::bytes_of<double>(stride_) +
                  2 * Memory::bytes_of<int32_t>(dim)) {
        if (memory_.failed()) return;
        x = memory_.take<double>(even_ * (dim + 3)), y = memory_.take<double>((dim + 3) * whole_);
        squares = memory_.take<double>(even_ + PANEL + whole_);
        distance = memory_.take<double>(even_ * stride_);
        column_sum = memory_.take<double>(stride_), demand = memory_.take<double>(stride_);
        place_a = memory_.take<int32_t>(dim), place_b = memory_.take<int32_t>(dim);
    }
    bool failed() const { return memory_.failed(); }
};

INLINE double largest_distance(const double* distance, int64_t p, int64_t q, int64_t stride, Stop stop) {
    const int64_t whole = q & ~(LANES - 1);
    Doubles most = spread(0.0);
    double rest = 0.0;
    for (int64_t i = 0; i < p && *stop == 0; i++) {
        const double* row = distance + i * stride;
        for (int64_t j = 0; j < whole; j += LANES) most = larger(load(row + j), most);
        for (int64_t j = whole; j < q; j++) rest = row[j] > rest ? row[j] : rest;
    }
    return largest(most) > rest ? largest(most) : rest;
}

// Four sums side by side, since one would wait for itself: of row · demand over stride columns.
INLINE double weighted_sum(const double* row, const double* demand, int64_t stride) {
    typedef double Part __attribute__((vector_size(REGISTER_BYTES < 32 ? 16 : 32)));
    typedef Part Unaligned __attribute__((aligned(8), may_alias));
    constexpr int WIDTH = int(sizeof(Part) / 8), PARTS = 4 / WIDTH;
    Part sum[PARTS] = {};
    for (int64_t j = 0; j < stride; j += 4)
        for (int r = 0; r < PARTS; r++)
            sum[r] += *reinterpret_cast<const Unaligned*>(demand + j + r * WIDTH) *
                      *reinterpret_cast<const Unaligned*>(row + j + r * WIDTH);
    constexpr int THIRD = 2 / WIDTH, AT = 2 % WIDTH;
    return (sum[0][0] + sum[0][1]) + (sum[THIRD][AT] + sum[THIRD][AT + 1]);
}

// Integer costs of the block of distances, the largest of which is `most`, and the offsets of the greedy start. A node's
// offset is its mean distance to the other side, weighted by mass: the first step of Sinkhorn's iteration in the limit of
// large ε, and the best of those tried: it leaves fewer pivots than plain means do. Assignments have no use for those of
// rows. Once *stop is raised, the problem is left unfinished.
INLINE void place_distances_up_to(double most, const Workspace& ws, const Scratch& scratch, int64_t p, int64_t q,
                                  const CostBits& bits, bool with_rows, Stop stop) {
    const int64_t stride = stride_of(q);
    const double scale = most > 0.0 ? bits.largest / most : 0.0;
    int64_t total = 0;
    for (int64_t i = 0; i < p; i++) total += ws.supply[i];
    const double weight = OFFSET_WEIGHT * scale / double(total);
    for (int64_t j = 0; j < stride; j++) scratch.column_sum[j] = 0.0;
    for (int64_t j = 0; j < stride; j++) scratch.demand[j] = j < q ? double(ws.demand[j]) : 0.0;
    for (int64_t i = 0; i < p && *stop == 0; i++) {
        const double* row = scratch.distance + i * stride;
        int64_t* cost = ws.cost + i * stride;
        const double supply = double(ws.supply[i]);
        if (with_rows) ws.row_offset[i] = int64_t(weighted_sum(row, scratch.demand, stride) * weight) << bits.index;
        for (int64_t j = 0; j < stride; j += LANES)
            store(scratch.column_sum + j, load(scratch.column_sum + j) + spread(supply) * load(row + j));
        for (int64_t j = 0; j < q; j++) cost[j] = (int64_t(row[j] * scale + 0.5) << bits.index) | j;
        for (int64_t j = q; j < stride; j++) cost[j] = PAD;
    }
    for (int64_t j = 0; j < q; j++) ws.column_offset[j] = int64_t(scratch.column_sum[j] * weight) << bits.index;
}

// The same for any problem. Returns the largest distance.
INLINE double place_distances(const Workspace& ws, const Scratch& scratch, int64_t p, int64_t q, const CostBits& bits,
                              Stop stop) {
    const double most = largest_distance(scratch.distance, p, q, stride_of(q), stop);
    place_distances_up_to(most, ws, scratch, p, q, bits, true, stop);
    return most;
}

// What the flows of the optimal tree cost, in units of 2^-60 of the distances.
INLINE double value_of_flows(const Workspace& ws, const Scratch& scratch, int64_t p, int64_t q) {
    const int64_t stride = stride_of(q), first = first_sink(p);
    double total = 0.0;
    for (int64_t node = 0; node < first + q; node++) {
        const int64_t up = ws.parent[node];
        if (up == node) continue;
        const int64_t arc = node < p ? node * stride + up - first : up * stride + node - first;
        total += double(ws.flow[node]) * scratch.distance[arc];
    }
    return total;
}
