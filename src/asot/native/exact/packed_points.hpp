// A collection as the solvers of points read it: sparse histograms over its distinct points, and every distribution's
// points in the coordinates that it uses. One-hot and count features are mostly zeros, and most pairs use few of them.
#pragma once
#include "distance_block.hpp"

struct PackedPoints {
    const int64_t *offsets, *index, *masses;  // (N + 1,), (nnz,) distinct points, ascending, (nnz,)
    const int64_t* used_offsets;              // (N + 1,)
    const int32_t* used;                      // coordinates, ascending in each distribution
    const int64_t* packed_offsets;            // (N + 1,)
    const double* packed;                     // points in used coordinates, one small matrix after the other
    int64_t dim;                              // coordinates

    INLINE int64_t size(int64_t i) const { return offsets[i + 1] - offsets[i]; }
};

// A mass in units that are 2^shift times as large.
INLINE int64_t in_units(int64_t mass, int64_t shift) {
    if (shift == 0) return mass;
    return shift > MASS_BITS ? 0 : (mass + (int64_t(1) << (shift - 1))) >> shift;
}

// Merge two ascending sparse histograms into sources and sinks; equal masses on a point cancel. A source or sink is named
// by its place in its distribution.
INLINE void place_difference(const Workspace& ws, const PackedPoints& h, int64_t a, int64_t b, int64_t& p, int64_t& q,
                             int64_t shift_a = 0, int64_t shift_b = 0) {
    int64_t s = h.offsets[a], t = h.offsets[b];
    const int64_t s_end = h.offsets[a + 1], t_end = h.offsets[b + 1];
    p = q = 0;
    while (s < s_end || t < t_end) {
        const bool from_a = t == t_end || (s < s_end && h.index[s] <= h.index[t]);
        const bool from_b = s == s_end || (t < t_end && h.index[t] <= h.index[s]);
        const int64_t surplus = (from_a ? in_units(h.masses[s], shift_a) : 0) -
                                (from_b ? in_units(h.masses[t], shift_b) : 0);
        if (surplus > 0) {
            ws.supply[p] = surplus;
            ws.source[p++] = int32_t(s - h.offsets[a]);
        } else if (surplus < 0) {
            ws.demand[q] = -surplus;
            ws.sink[q++] = int32_t(t - h.offsets[b]);
        }
        s += from_a;
        t += from_b;
    }
}

// Where the coordinates of a and of b stand in their ascending union; returns the size of the union.
INLINE int64_t merge_used(const int64_t* used_offsets, const int32_t* used, int64_t a, int64_t b, int32_t* place_a,
                          int32_t* place_b) {
    int64_t s = used_offsets[a], t = used_offsets[b];
    const int64_t s_end = used_offsets[a + 1], t_end = used_offsets[b + 1];
    int32_t count = 0;
    for (; s < s_end || t < t_end; count++) {
        const bool from_a = t == t_end || (s < s_end && used[s] <= used[t]);
        const bool from_b = s == s_end || (t < t_end && used[t] <= used[s]);
        if (from_a) place_a[s++ - used_offsets[a]] = count;
        if (from_b) place_b[t++ - used_offsets[b]] = count;
    }
    return count;
}

// Both use the same coordinates, and all of them: points are copied as they stand.
INLINE void copy_points(const Workspace& ws, const Scratch& scratch, const double* a, const double* b, int64_t width,
                        int64_t p, int64_t q, int64_t stride) {
    for (int64_t i = 0; i < p; i++)
        for (int64_t c = 0; c < width; c++) scratch.x[i * width + c] = a[ws.source[i] * width + c];
    for (int64_t begin = 0; begin < width; begin += 8) {  // few coordinates at a time: what is written stays in the cache
        const int64_t end = begin + 8 < width ? begin + 8 : width;
        for (int64_t j = 0; j < q; j++) {
            const double* point = b + ws.sink[j] * width;
            for (int64_t c = begin; c < end; c++) scratch.y[c * stride + j] = point[c];
        }
        for (int64_t c = begin; c < end; c++)
            for (int64_t j = q; j < stride; j++) scratch.y[c * stride + j] = 0.0;
    }
}

// Coordinates of the first p sources into x (p, width) and of the first q sinks, transposed, into y (width, stride), 0
// where a point does not use a coordinate.
INLINE void scatter_points(const Workspace& ws, const Scratch& scratch, const PackedPoints& h, int64_t a, int64_t b,
                           int64_t width, int64_t p, int64_t q, int64_t stride) {
    const int64_t used_a = h.used_offsets[a + 1] - h.used_offsets[a], used_b = h.used_offsets[b + 1] - h.used_offsets[b];
    for (int64_t t = 0; t < (p + 1) * width; t++) scratch.x[t] = 0.0;
    for (int64_t t = 0; t < width * stride; t++) scratch.y[t] = 0.0;
    for (int64_t i = 0; i < p; i++) {
        const double* point = h.packed + h.packed_offsets[a] + ws.source[i] * used_a;
        for (int64_t c = 0; c < used_a; c++) scratch.x[i * width + scratch.place_a[c]] = point[c];
    }
    for (int64_t j = 0; j < q; j++) {
        const double* point = h.packed + h.packed_offsets[b] + ws.sink[j] * used_b;
        for (int64_t c = 0; c < used_b; c++) scratch.y[scratch.place_b[c] * stride + j] = point[c];
    }
}

// The points of a pair, by either way; returns the number of their coordinates.
INLINE int64_t gather_points(const Workspace& ws, const Scratch& scratch, const PackedPoints& h, int64_t a, int64_t b,
                             int64_t p, int64_t q, int64_t stride) {
    const int64_t width = merge_used(h.used_offsets, h.used, a, b, scratch.place_a, scratch.place_b);
    const int64_t used_a = h.used_offsets[a + 1] - h.used_offsets[a], used_b = h.used_offsets[b + 1] - h.used_offsets[b];
    if (used_a == width && used_b == width)
        copy_points(ws, scratch, h.packed + h.packed_offsets[a], h.packed + h.packed_offsets[b], width, p, q, stride);
    else
        scatter_points(ws, scratch, h, a, b, width, p, q, stride);
    return width;
}

// Distances between long points of a pair, from the first p sources to the first q sinks, into scratch.distance. Sources
// are read where they lie if both distributions use all coordinates.
inline void fill_long_distances(const Workspace& ws, const Scratch& scratch, const PackedPoints& h, int64_t a, int64_t b,
                                int64_t p, int64_t q, int64_t stride, Stop stop) {
    const int64_t width = merge_used(h.used_offsets, h.used, a, b, scratch.place_a, scratch.place_b);
    const int64_t used_a = h.used_offsets[a + 1] - h.used_offsets[a], used_b = h.used_offsets[b + 1] - h.used_offsets[b];
    const double *own = h.packed + h.packed_offsets[a], *other = h.packed + h.packed_offsets[b];
    LongRows sources = {own, ws.source, width};
    if (used_a == width && used_b == width) {
        lay_panels({other, ws.sink, width}, q, scratch.y);
    } else {
        for (int64_t t = 0; t < p * width; t++) scratch.x[t] = 0.0;
        for (int64_t t = 0; t < panels_of(q) * PANEL * width; t++) scratch.y[t] = 0.0;
        for (int64_t i = 0; i < p; i++)
            for (int64_t c = 0; c < used_a; c++)
                scratch.x[i * width + scratch.place_a[c]] = own[ws.source[i] * used_a + c];
        for (int64_t j = 0; j < q; j++) {
            double* column = scratch.y + j / PANEL * PANEL * width + j % PANEL;
            for (int64_t c = 0; c < used_b; c++) column[scratch.place_b[c] * PANEL] = other[ws.sink[j] * used_b + c];
        }
        sources = {scratch.x, nullptr, width};
    }
    fill_long(sources, p, scratch.y, q, scratch.squares, scratch.distance, stride, stride, false, stop);
}
