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
    CostBits bits;
    int64_t p, q, pivots;
    double largest;  // cost of the pair's block
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

// Solve what was placed; the optimal tree stays in `ws`.
INLINE void solve_pair(const CheckedCost& c, const Workspace& ws, const Scratch& scratch, CheckedPair& pair, Stop stop) {
    const int64_t stride = stride_of(pair.q);
    for (int64_t i = 0; i < pair.p; i++) {
        const double* row = c.cost + ws.source[i] * c.l;
        double* distance = scratch.distance + i * stride;
        for (int64_t j = 0; j < pair.q; j++) distance[j] = row[ws.sink[j]];
        for (int64_t j = pair.q; j < stride; j++) distance[j] = 0.0;
    }
    pair.largest = place_distances(ws, scratch, pair.p, pair.q, pair.bits, stop);
    pair.pivots = *stop != 0 ? -1 : solve_placed(ws, pair.p, pair.q, pair.bits.index, stop);
}

// The potential that the sinks of the tree in `ws` have at the anchors of a row.
INLINE void carry(const CheckedCost& c, const Workspace& ws, const CheckedPair& pair, double unit, const Row& to,
                  double* height) {
    const int64_t first = first_sink(pair.p);
    for (int64_t s = 0; s < to.n; s++) {
        const double* row = c.cost + to.index[s] * c.l;
        double least = INFINITY;
        for (int64_t j = 0; j < pair.q; j++) {
            const double reached = row[ws.sink[j]] + double(ws.pi[first + j]) * unit;
            least = reached < least ? reached : least;
        }
        height[s] = least;
    }
}

// Whether the potential f of the tree in `ws` satisfies f_u - f_v ≤ C_uv for all u of a and v of b.
bool is_proven(const CheckedCost& c, const Workspace& ws, const CheckedPair& pair, const Row& a, const Row& b,
               double* from, double* to) {
    const double unit = pair.bits.unit(pair.largest), slack = c.slack * pair.largest;
    carry(c, ws, pair, unit, a, from);
    carry(c, ws, pair, unit, b, to);
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
        CheckedPair pair{CostBits(a.n, b.n), 0, 0, 0, 0.0};
        bool canceled = false;
        if (c.cancel)
            canceled = place_left(ws, a, b, pair.p, pair.q);
        else
            place_whole(ws, a, b, pair.p, pair.q);
        if (pair.p == 0) continue;
        solve_pair(c, ws, scratch, pair, tile->stop);
        if (canceled && pair.pivots >= 0 && !is_proven(c, ws, pair, a, b, from, to)) {
            place_whole(ws, a, b, pair.p, pair.q);
            solve_pair(c, ws, scratch, pair, tile->stop);
        }
        if (pair.pivots == NO_MEMORY) return OUT_OF_MEMORY;
        if (pair.pivots < 0) continue;
        tile->steps[t] = int32_t(pair.pivots);
        tile->values[t] = value_of_flows(ws, scratch, pair.p, pair.q);
    }
    return DONE;
}
