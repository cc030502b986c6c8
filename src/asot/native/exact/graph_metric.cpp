// Is a cost the distance along a sparse graph? See src/asot/exact/graph_metric.py.
#include "../common/entry.hpp"
#include "../common/lanes.hpp"

struct CostGraph {
    int64_t k;
    const double* cost;  // (k, k)
    double slack;
    int64_t half;        // whether only costs above the diagonal are looked at
    int64_t most;        // neighbors of a point
    int32_t* heads;      // (k, most) neighbors found
    int64_t* counts;     // (k,) how many
};

constexpr int32_t UNEXPLAINED = 2;
constexpr int64_t NEAREST = 12;  // neighbors are first looked for among so many nearest points, nearly always enough
constexpr int64_t PART = 512;    // columns whose best paths are kept at a time
constexpr int64_t STRETCH = 64;  // columns that are skipped together if none is near

// The nearest points of u in ascending order; how many there are.
static int64_t find_nearest(const double* row, int64_t u, int64_t k, int64_t* near) {
    int64_t count = 0;
    double farthest = INFINITY;
    for (int64_t begin = 0; begin < k; begin += STRETCH) {
        const int64_t end = begin + STRETCH < k ? begin + STRETCH : k;
        int64_t nearer = 0;
        for (int64_t v = begin; v < end; v++) nearer |= row[v] < farthest;
        if (nearer == 0) continue;
        for (int64_t v = begin; v < end; v++) {
            if (!(row[v] < farthest) || v == u) continue;
            int64_t place = count < NEAREST ? count++ : NEAREST - 1;
            for (; place > 0 && row[near[place - 1]] > row[v]; place--) near[place] = near[place - 1];
            near[place] = v;
            farthest = count == NEAREST ? row[near[NEAREST - 1]] : INFINITY;
        }
    }
    return count;
}

// Columns begin..begin+size-1 of row u: the lengths of the best paths over known neighbors, and whether one is wrong.
static bool best_paths(const CostGraph& g, int64_t u, int64_t count, int64_t begin, int64_t size, double* best) {
    const double* row = g.cost + u * g.k;
    const int32_t* heads = g.heads + u * g.most;
    for (int64_t v = 0; v < size; v++) best[v] = INFINITY;
    for (int64_t t = 0; t < count; t++) {
        const double step = row[heads[t]];
        const double* onward = g.cost + heads[t] * g.k + begin;
        for (int64_t v = 0; v < size; v++) {
            const double length = step + onward[v];
            best[v] = length < best[v] ? length : best[v];
        }
    }
    if (begin <= u && u < begin + size) best[u - begin] = 0.0;
    int64_t wrong = 0;
    for (int64_t v = 0; v < size; v++) wrong |= std::fabs(best[v] - row[begin + v]) > g.slack;
    return wrong != 0;
}

// The nearest of the points from `low` on that no path over a known neighbor leads to, or -1.
static int64_t nearest_unexplained(const CostGraph& g, int64_t u, int64_t count, int64_t low, double* best) {
    const double* row = g.cost + u * g.k;
    int64_t found = -1;
    for (int64_t begin = low; begin < g.k; begin += PART) {
        const int64_t size = PART < g.k - begin ? PART : g.k - begin;
        if (!best_paths(g, u, count, begin, size, best)) continue;
        for (int64_t v = 0; v < size; v++)
            if (std::fabs(best[v] - row[begin + v]) > g.slack && (found < 0 || row[begin + v] < row[found]))
                found = begin + v;
    }
    return found;
}

// Find the neighbors of rows first..last-1. DONE if every cost of these rows is that of a path over one of them, else
// UNEXPLAINED.
ENTRY asot_explain_by_paths(const CostGraph* graph, int64_t first, int64_t last) {
    const CostGraph& g = *graph;
    int64_t near[NEAREST];
    double best[PART];
    for (int64_t u = first; u < last; u++) {
        const double* row = g.cost + u * g.k;
        int32_t* heads = g.heads + u * g.most;
        int64_t count = 0;
        const int64_t nearby = find_nearest(row, u, g.k, near);
        for (int64_t s = 0; s < nearby; s++) {
            bool between = false;
            for (int64_t t = 0; t < count; t++)
                between |= row[heads[t]] + g.cost[heads[t] * g.k + near[s]] <= row[near[s]] + g.slack;
            if (!between) heads[count++] = int32_t(near[s]);
        }
        int64_t low = g.half ? u + 1 : 0;
        while (nearest_unexplained(g, u, count, low, best) >= 0) {
            low = 0;
            if (count == g.most) return UNEXPLAINED;
            heads[count] = int32_t(nearest_unexplained(g, u, count, 0, best));
            count++;
        }
        g.counts[u] = count;
    }
    return DONE;
}
