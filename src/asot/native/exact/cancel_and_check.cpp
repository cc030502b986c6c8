// Cancel common mass first and prove afterwards that this was valid; see src/asot/exact/cancel_and_check.py.
#include "../common/records.hpp"
#include "distance_block.hpp"
#include "large.hpp"
#include "shared_cost.hpp"

struct CheckedCost {
    int64_t k;
    const double* cost;     // (k, k)
    double slack;           // share of a pair's largest cost by which a difference may exceed a cost through rounding
    int64_t index_bits;
    double cost_scale;      // the largest integer cost
};

namespace {

struct CheckedPair {
    int64_t p, q, pivots;
    double largest;  // cost of the pair's block
};

// Solve a pair; the optimal tree stays in `ws`.
template <bool cancel>
CheckedPair solve_pair(const CheckedCost& c, const Workspace& ws, const Scratch& scratch, const int64_t* a,
                              const int64_t* b, Stop stop) {
    CheckedPair pair{0, 0, 0, 0.0};
    place_masses<cancel>(ws, a, c.k, b, c.k, pair.p, pair.q);
    if (pair.p == 0) return pair;
    const int64_t stride = stride_of(pair.q);
    for (int64_t i = 0; i < pair.p; i++) {
        const double* row = c.cost + ws.source[i] * c.k;
        double* distance = scratch.distance + i * stride;
        for (int64_t j = 0; j < pair.q; j++) distance[j] = row[ws.sink[j]];
        for (int64_t j = pair.q; j < stride; j++) distance[j] = 0.0;
    }
    pair.largest = place_distances(ws, scratch, pair.p, pair.q, c.index_bits, c.cost_scale, stop);
    pair.pivots = *stop != 0 ? -1 : solve_any(ws, pair.p, pair.q, c.index_bits, stop);
    return pair;
}

// Whether the potential of the tree in `ws` is 1-Lipschitz on the anchors that hold mass of a or b.
bool is_proven(const CheckedCost& c, const Workspace& ws, const CheckedPair& pair, const int64_t* a,
                      const int64_t* b, double* height, int64_t* held) {
    const int64_t first = first_sink(pair.p);
    const double unit = pair.largest / (c.cost_scale * double(int64_t(1) << c.index_bits)), slack = c.slack * pair.largest;
    int64_t count = 0;
    for (int64_t u = 0; u < c.k; u++) {
        held[count] = u;
        count += a[u] > 0 || b[u] > 0;
    }
    for (int64_t s = 0; s < count; s++) {
        const double* row = c.cost + held[s] * c.k;
        double least = INFINITY;
        for (int64_t j = 0; j < pair.q; j++) {
            const double reached = row[ws.sink[j]] + double(ws.pi[first + j]) * unit;
            least = reached < least ? reached : least;
        }
        height[s] = least;
    }
    for (int64_t s = 0; s < count; s++) {
        const double* row = c.cost + held[s] * c.k;
        int64_t broken = 0;
        for (int64_t t = 0; t < count; t++) broken |= height[s] - height[t] > row[held[t]] + slack;
        if (broken != 0) return false;
    }
    return true;
}

// Ship all mass of the pairs that could not be proven, marked by a negative value.
int32_t solve_whole(const CheckedCost& c, const Histograms& h, const Tile& tile, const Scratch& scratch) {
    Workspace ws(c.k, c.k, 2 * c.k);
    if (ws.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < tile.n && *tile.stop == 0; t++) {
        if (tile.values[t] >= 0.0) continue;
        const int64_t *a = h.A + tile.rows[t] * c.k, *b = h.B + tile.columns[t] * c.k;
        const CheckedPair pair = solve_pair<false>(c, ws, scratch, a, b, tile.stop);
        if (pair.pivots == NO_MEMORY) return OUT_OF_MEMORY;
        if (pair.pivots < 0) return DONE;
        tile.steps[t] = int32_t(pair.pivots);
        tile.values[t] = value_of_flows(ws, scratch, pair.p, pair.q);
    }
    return DONE;
}

}  // namespace

ENTRY asot_cancel_and_check(const Histograms* h, const CheckedCost* cost, const Tile* tile) {
    const CheckedCost& c = *cost;
    Workspace ws(c.k, c.k, c.k);
    Scratch scratch(c.k, c.k, 1);
    Memory memory(Memory::bytes_of<double>(c.k) + Memory::bytes_of<int64_t>(c.k));
    if (ws.failed() || scratch.failed() || memory.failed()) return OUT_OF_MEMORY;
    double* height = memory.take<double>(c.k);
    int64_t* held = memory.take<int64_t>(c.k);
    bool all_proven = true;
    for (int64_t t = 0; t < tile->n; t++) {
        tile->values[t] = 0.0;
        tile->steps[t] = 0;
        if (*tile->stop != 0) return DONE;
        const int64_t *a = h->A + tile->rows[t] * c.k, *b = h->B + tile->columns[t] * c.k;
        const CheckedPair pair = solve_pair<true>(c, ws, scratch, a, b, tile->stop);
        if (pair.pivots == NO_MEMORY) return OUT_OF_MEMORY;
        if (pair.p == 0 || pair.pivots < 0) continue;
        tile->steps[t] = int32_t(pair.pivots);
        const bool proven = is_proven(c, ws, pair, a, b, height, held);
        tile->values[t] = proven ? value_of_flows(ws, scratch, pair.p, pair.q) : -1.0;
        all_proven &= proven;
    }
    return all_proven ? DONE : solve_whole(c, *h, *tile, scratch);
}
