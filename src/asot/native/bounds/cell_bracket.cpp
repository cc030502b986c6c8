// Bounds on W_1 from what a distribution has in each cell; see src/asot/bounds/cell_bracket.py.
#include "blocks.hpp"
#include "records.hpp"

struct BracketCells {
    int64_t k, width;
    const int64_t* offsets;          // (N + 1,) of the points
    const double *masses, *points;   // (n,), (n, width)
    const double *cell_mass, *mean;  // (cells,), (cells, width)
    const double *variance, *rest;   // (cells,), (cells,) mean of what the coordinates leave out
    const int64_t* place;            // (N, k) the cell of an anchor in a distribution, or -1
    const double* anchors;           // (k, width)
};

struct CellScratch {
    Memory memory;
    int64_t *seen, *sources, *sinks;  // (k,)
    double *columns, *heights;        // (width, stride), (stride,) anchors at one end of a pair's arcs, transposed

    CellScratch(int64_t k, int64_t width)
        : memory(3 * Memory::bytes_of<int64_t>(k) + Memory::bytes_of<double>(width * (k + LANES)) +
                 Memory::bytes_of<double>(k + LANES)) {
        if (memory.failed()) return;
        for (int64_t** each : {&seen, &sources, &sinks}) *each = memory.take<int64_t>(k);
        columns = memory.take<double>(width * (k + LANES)), heights = memory.take<double>(k + LANES);
        for (int64_t u = 0; u < k; u++) seen[u] = -1;
    }
};

// An upper bound on the mean distance between the points of two cells.
INLINE double price(const BracketCells& table, int64_t i, int64_t j) {
    return std::sqrt(squared_gap(table.mean + i * table.width, table.mean + j * table.width, table.width) +
                     table.variance[i] + table.variance[j] + 4.0 * table.rest[i] * table.rest[j]);
}

// What the plan costs: what moves, and what both have near an anchor.
INLINE double price_of_plan(const BracketCells& table, const AnchorPlans& plans, int64_t t, int64_t a, int64_t b) {
    const int64_t *place_a = table.place + a * table.k, *place_b = table.place + b * table.k;
    double sum = 0.0;
    for (int64_t e = plans.start[t]; e < plans.start[t + 1]; e++)
        sum += double(plans.mass[e]) * 0x1p-60 * price(table, place_a[plans.source[e]], place_b[plans.sink[e]]);
    for (int64_t u = 0; u < table.k; u++) {
        const int64_t i = place_a[u], j = place_b[u];
        if (i < 0 || j < 0) continue;
        const double first = table.cell_mass[i], second = table.cell_mass[j];
        sum += (second < first ? second : first) * price(table, i, j);
    }
    return sum;
}

// The anchors at one end of a pair's arcs, each once; returns how many there are.
INLINE int64_t distinct_ends(const int32_t* ends, int64_t start, int64_t stop, int64_t* seen, int64_t stamp,
                             int64_t* found) {
    int64_t count = 0;
    for (int64_t e = start; e < stop; e++) {
        const int64_t u = ends[e];
        if (seen[u] == stamp) continue;
        seen[u] = stamp;
        found[count++] = u;
    }
    return count;
}

// Mean over the points of a distribution of min over the found anchors of (height_u + d(z, w_u)), eight anchors side by
// side. Padding is infinitely high.
INLINE double extended(const CellScratch& s, const BracketCells& table, int64_t a, int64_t stride) {
    double sum = 0.0;
    for (int64_t i = table.offsets[a]; i < table.offsets[a + 1]; i++) {
        const double* z = table.points + i * table.width;
        Doubles lowest = spread(double(INFINITY));
        for (int64_t j = 0; j < stride; j += LANES) {
            Doubles square = spread(0.0);
            const double* column = s.columns + j;
            for (int64_t c = 0; c < table.width; c++, column += stride)
                square = plus_squared_gap(square, spread(z[c]), load(column));
            lowest = lesser(load(s.heights + j) + root(square), lowest);
        }
        sum += table.masses[i] * least(lowest);
    }
    return sum;
}

// Lays out the found anchors for `extended`; returns the stride.
INLINE int64_t place_ends(const CellScratch& s, const BracketCells& table, const int64_t* found, int64_t count,
                          const double* potential, double sign) {
    const int64_t stride = (count + LANES - 1) & ~(LANES - 1);
    for (int64_t j = 0; j < stride; j++) {
        const int64_t u = found[j < count ? j : 0];
        s.heights[j] = j < count ? sign * potential[u] : double(INFINITY);
        for (int64_t c = 0; c < table.width; c++) s.columns[c * stride + j] = table.anchors[u * table.width + c];
    }
    return stride;
}

ENTRY asot_cell_bracket(const BracketCells* cells, const AnchorPlans* anchor_plans, const BoundedPairs* tile) {
    const BracketCells& table = *cells;
    const AnchorPlans& plans = *anchor_plans;
    const CellScratch s(table.k, table.width);
    if (s.memory.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < tile->n && *tile->stop == 0; t++) {
        const int64_t a = tile->rows[t], b = tile->columns[t], begin = plans.start[t], end = plans.start[t + 1];
        tile->upper[t] = price_of_plan(table, plans, t, a, b);
        const int64_t n_sources = distinct_ends(plans.source, begin, end, s.seen, 2 * t, s.sources);
        const int64_t n_sinks = distinct_ends(plans.sink, begin, end, s.seen, 2 * t + 1, s.sinks);
        if (n_sources == 0) continue;
        const bool from_sinks = n_sinks <= n_sources;
        const double sign = from_sinks ? 1.0 : -1.0;
        const int64_t stride = place_ends(s, table, from_sinks ? s.sinks : s.sources, from_sinks ? n_sinks : n_sources,
                                          plans.potential + t * plans.k, sign);
        tile->lower[t] = sign * extended(s, table, a, stride) - sign * extended(s, table, b, stride);
    }
    return DONE;
}
