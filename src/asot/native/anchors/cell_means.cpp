// Mass, mean and spread of every distribution near each anchor; see asot/anchors/space.py.
#include "../common/records.hpp"

struct PointsAtAnchors {
    const int64_t *offsets, *nearest;  // (N + 1,), (n,) anchor of each point
    const double* masses;              // (n,)
    int64_t k, width;                  // anchors, coordinates
    const double* x;                   // (n, width)
};

struct CellsOut {
    int64_t* offsets;  // (N + 1,)
    int32_t* anchor;   // (cells,)
    double *mass, *mean, *variance;  // (cells,), (cells, width), (cells,)
};

// offsets[i + 1]: how many anchors distribution i of low..high-1 has mass at.
ENTRY asot_count_cells(const PointsAtAnchors* points, const CellsOut* out, int64_t low, int64_t high) {
    Memory memory(Memory::bytes_of<int64_t>(points->k));
    if (memory.failed()) return OUT_OF_MEMORY;
    int64_t* seen = memory.take<int64_t>(points->k);
    for (int64_t u = 0; u < points->k; u++) seen[u] = -1;
    for (int64_t i = low; i < high; i++) {
        int64_t n = 0;
        for (int64_t t = points->offsets[i]; t < points->offsets[i + 1]; t++) {
            if (points->masses[t] > 0.0 && seen[points->nearest[t]] != i) {
                seen[points->nearest[t]] = i;
                n++;
            }
        }
        out->offsets[i + 1] = n;
    }
    return DONE;
}

// Empty cells of distribution i, ascending by anchor; place[u] becomes the cell of anchor u. Where they end.
static int64_t open_cells(const PointsAtAnchors& points, const CellsOut& out, int64_t i, int64_t* place) {
    for (int64_t t = points.offsets[i]; t < points.offsets[i + 1]; t++)
        if (points.masses[t] > 0.0) place[points.nearest[t]] = 0;
    int64_t at = out.offsets[i];
    for (int64_t u = 0; u < points.k; u++) {
        if (place[u] != 0) continue;
        place[u] = at;
        out.anchor[at] = int32_t(u);
        out.mass[at] = out.variance[at] = 0.0;
        for (int64_t c = 0; c < points.width; c++) out.mean[at * points.width + c] = 0.0;
        at++;
    }
    return at;
}

static void add_up(const PointsAtAnchors& points, const CellsOut& out, int64_t i, const int64_t* place) {
    const int64_t begin = points.offsets[i], end = points.offsets[i + 1], width = points.width;
    const auto visit = [&](auto work) {
        for (int64_t t = begin; t < end; t++)
            if (points.masses[t] > 0.0) work(t, place[points.nearest[t]]);
    };
    visit([&](int64_t t, int64_t own) { out.mass[own] += points.masses[t]; });
    visit([&](int64_t t, int64_t own) {
        const double share = points.masses[t] / out.mass[own];
        for (int64_t c = 0; c < width; c++) out.mean[own * width + c] += share * points.x[t * width + c];
    });
    visit([&](int64_t t, int64_t own) {
        double square = 0.0;
        for (int64_t c = 0; c < width; c++) {
            const double gap = points.x[t * width + c] - out.mean[own * width + c];
            square += gap * gap;
        }
        out.variance[own] += points.masses[t] / out.mass[own] * square;
    });
}

ENTRY asot_fill_cells(const PointsAtAnchors* points, const CellsOut* out, int64_t low, int64_t high) {
    Memory memory(Memory::bytes_of<int64_t>(points->k));
    if (memory.failed()) return OUT_OF_MEMORY;
    int64_t* place = memory.take<int64_t>(points->k);
    for (int64_t u = 0; u < points->k; u++) place[u] = -1;
    for (int64_t i = low; i < high; i++) {
        const int64_t end = open_cells(*points, *out, i, place);
        add_up(*points, *out, i, place);
        for (int64_t cell = out->offsets[i]; cell < end; cell++) place[out->anchor[cell]] = -1;
    }
    return DONE;
}
