// Tiles of pairs of histograms under one shared cost; see src/asot/exact/shared_cost.py.
#include "shared_cost.hpp"

struct TreesOut {
    int64_t* start;          // (n + 1,) where the arcs of each pair begin
    int32_t *source, *sink;  // (arcs,) anchors
    int64_t* mass;           // (arcs,)
    double* potential;       // (n, k)
    double size, more_size;  // of costs, in two factors
};

struct PlansOut {
    int64_t *source, *sink;  // (n, k + l - 1) ends of arcs
    int64_t* mass;           // (n, k + l - 1) on them; 0 where there is none
    double *f, *g;           // (n, k), (n, l)
};

// What lays out the masses of a pair again.
template <bool cancel>
INLINE auto placing(const Workspace& ws, const Histograms& h, const SharedCost& c, int64_t row, int64_t column) {
    const int64_t k = c.k, l = c.l, *a = h.A + row * k, *b = h.B + column * l;
    return [=, &ws](int64_t& p, int64_t& q) { place_masses<cancel>(ws, a, k, b, l, p, q); };
}

template <bool cancel>
static int32_t solve(const Histograms& h, const SharedCost& c, const Tile& tile) {
    Workspace ws(c.k, c.l, cancel ? c.k : c.k + c.l);
    if (ws.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < tile.n && *tile.stop == 0; t++) {
        int64_t p, q;
        place_masses<cancel>(ws, h.A + tile.rows[t] * c.k, c.k, h.B + tile.columns[t] * c.l, c.l, p, q);
        tile.values[t] = 0.0;
        tile.steps[t] = 0;
        if (p == 0) continue;
        const auto place = placing<cancel>(ws, h, c, tile.rows[t], tile.columns[t]);
        const SharedFound found = solve_shared(ws, p, q, c, tile.stop, place);
        tile.steps[t] = int32_t(found.steps);
        tile.values[t] = found.value;
    }
    return DONE;
}

ENTRY asot_shared_cost_tile(const Histograms* h, const SharedCost* c, const Tile* tile) {
    return h->cancel ? solve<true>(*h, *c, *tile) : solve<false>(*h, *c, *tile);
}

// With the flows and potentials of every pair, for metric costs: f_u = min over sinks v of C_uv - g_v is 1-Lipschitz no
// matter how g was rounded.
ENTRY asot_shared_cost_trees(const Histograms* h, const SharedCost* cost, const Tile* tile, const TreesOut* out) {
    const SharedCost& c = *cost;
    Workspace ws(c.k, c.k, c.k);
    if (ws.failed()) return OUT_OF_MEMORY;
    int64_t arc = 0;
    for (int64_t t = 0; t < tile->n; t++) {
        out->start[t + 1] = arc;
        if (*tile->stop != 0) return DONE;
        double* f = out->potential + t * c.k;
        int64_t p, q;
        const auto place = placing<true>(ws, *h, c, tile->rows[t], tile->columns[t]);
        place(p, q);
        if (p == 0) {
            tile->values[t] = 0.0;
            tile->steps[t] = 0;
            for (int64_t u = 0; u < c.k; u++) f[u] = 0.0;
            continue;
        }
        const SharedFound found = solve_shared(ws, p, q, c, tile->stop, place);
        tile->steps[t] = int32_t(found.steps);
        tile->values[t] = found.value;
        each_arc(ws, p, q, [&](int64_t u, int64_t v, int64_t flow) {
            out->source[arc] = int32_t(u);
            out->sink[arc] = int32_t(v);
            out->mass[arc++] = flow;
        });
        out->start[t + 1] = arc;
        for (int64_t u = 0; u < c.k; u++) f[u] = INFINITY;
        for (int64_t j = 0; j < q; j++) {
            const double height = double(ws.pi[first_sink(p) + j]) * found.height;
            const double* row = c.unit + ws.sink[j] * c.k;
            for (int64_t u = 0; u < c.k; u++) {
                const double reached = row[u] + height;
                f[u] = reached < f[u] ? reached : f[u];
            }
        }
        for (int64_t u = 0; u < c.k; u++) f[u] = f[u] * out->size * out->more_size;
    }
    return DONE;
}

// -g of each sink, by the caller's name, from the unrounded costs along its path to the root, which count as `top` where
// they are above it; INFINITY without mass.
static void sink_heights(const Workspace& ws, int64_t p, int64_t q, const SharedCost& c, double top, double* height) {
    const auto between = [&](int64_t source, int64_t sink) {
        const double each = c.unit[source * c.l + sink];
        return each < top ? each : top;
    };
    const int64_t first = first_sink(p);
    for (int64_t v = 0; v < c.l; v++) height[v] = INFINITY;
    for (int64_t x = first; x < first + q; x++) {
        double sum = 0.0;
        for (int64_t y = x; ws.parent[y] != y; y = ws.parent[y]) {
            if (y < p)
                sum += between(ws.source[y], ws.sink[ws.parent[y] - first]);
            else
                sum -= between(ws.source[ws.parent[y]], ws.sink[y - first]);
        }
        height[ws.sink[x - first]] = sum;
    }
}

// Potentials are known where there is mass; the c-transform carries them everywhere and keeps them feasible.
static void transform(const SharedCost& c, const double* height, double* f, double* g) {
    for (int64_t v = 0; v < c.l; v++) g[v] = INFINITY;
    const int64_t whole = c.l & ~(LANES - 1);
    for (int64_t u = 0; u < c.k; u++) {
        const double* row = c.unit + u * c.l;
        Doubles leasts = spread(double(INFINITY));
        for (int64_t v = 0; v < whole; v += LANES) leasts = lesser(leasts, load(row + v) + load(height + v));
        double low = least(leasts);
        for (int64_t v = whole; v < c.l; v++) low = row[v] + height[v] < low ? row[v] + height[v] : low;
        f[u] = low;
        for (int64_t v = 0; v < c.l; v++) g[v] = row[v] - low < g[v] ? row[v] - low : g[v];
    }
}

// With plans and potentials, for any cost: all masses are shipped.
ENTRY asot_shared_cost_plans(const Histograms* h, const SharedCost* cost, const Tile* tile, const PlansOut* out) {
    const SharedCost& c = *cost;
    const int64_t arcs = c.k + c.l - 1;
    Workspace ws(c.k, c.l, c.k + c.l);
    Memory memory(Memory::bytes_of<double>(c.l));
    if (ws.failed() || memory.failed()) return OUT_OF_MEMORY;
    double* height = memory.take<double>(c.l);
    for (int64_t t = 0; t < tile->n && *tile->stop == 0; t++) {
        int64_t p, q, arc = t * arcs;
        const auto place = placing<false>(ws, *h, c, tile->rows[t], tile->columns[t]);
        place(p, q);
        const SharedFound found = solve_shared(ws, p, q, c, tile->stop, place);
        tile->steps[t] = int32_t(found.steps);
        tile->values[t] = found.value;
        each_arc(ws, p, q, [&](int64_t u, int64_t v, int64_t flow) {
            out->source[arc] = u;
            out->sink[arc] = v;
            out->mass[arc++] = flow;
        });
        sink_heights(ws, p, q, c, found.top, height);
        transform(c, height, out->f + t * c.k, out->g + t * c.l);
    }
    return DONE;
}
