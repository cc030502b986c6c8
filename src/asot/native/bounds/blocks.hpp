// Small blocks of distances and potentials that are feasible for them: the arithmetic that bounds and estimates share.
//
// A block holds the distances between n rows and m columns, in float, with rows padded to whole `Floats`. Its
// c-transforms turn any potentials into feasible ones: f_i + g_j <= d_ij everywhere. Rows are taken four at a time, so
// that they share what is read of the columns; arrays have room for an n that is rounded up to a multiple of four.
#pragma once
#include "../common/lanes.hpp"

constexpr float BARRED = -1e30f;  // potential of a padding column: no row's minimum takes it

// Row length of a block with m columns.
INLINE int64_t block_stride(int64_t m) { return (m + FLOATS - 1) & ~(FLOATS - 1); }

// Distances (n, stride) between points x (n, width) and y (width, stride), all flat.
INLINE void fill_block(const float* x, const float* y, float* distance, int64_t n, int64_t width, int64_t stride) {
    for (int64_t i = 0; i < n; i += 4) {
        const float *x0 = x + i * width, *x1 = x0 + width, *x2 = x1 + width, *x3 = x2 + width;
        for (int64_t j = 0; j < stride; j += FLOATS) {
            Floats d0 = spread(0.0f), d1 = d0, d2 = d0, d3 = d0;
            const float* column = y + j;
            for (int64_t c = 0; c < width; c++, column += stride) {
                const Floats v = load(column);
                d0 = plus_squared_gap(d0, v, spread(x0[c]));
                d1 = plus_squared_gap(d1, v, spread(x1[c]));
                d2 = plus_squared_gap(d2, v, spread(x2[c]));
                d3 = plus_squared_gap(d3, v, spread(x3[c]));
            }
            float* o = distance + i * stride + j;
            store(o, root(d0));
            store(o + stride, root(d1));
            store(o + 2 * stride, root(d2));
            store(o + 3 * stride, root(d3));
        }
    }
}

// f_i = min_j d_ij - g_j.
INLINE void row_transform(const float* distance, const float* g, float* f, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < n; i++, distance += stride) {
        Floats smallest = load(distance) - load(g);
        for (int64_t j = FLOATS; j < stride; j += FLOATS) smallest = lesser(smallest, load(distance + j) - load(g + j));
        f[i] = least(smallest);
    }
}

// g_j = min_i d_ij - f_i, and `BARRED` in the padding.
INLINE void column_transform(const float* distance, const float* f, float* g, int64_t n, int64_t m, int64_t stride) {
    for (int64_t j = 0; j < stride; j += FLOATS) {
        Floats smallest = load(distance + j) - spread(f[0]);
        for (int64_t i = 1; i < n; i++) smallest = lesser(smallest, load(distance + i * stride + j) - spread(f[i]));
        store(g + j, smallest);
    }
    for (int64_t j = m; j < stride; j++) g[j] = BARRED;
}

// <x, y> over n numbers, in double: what is added up nearly cancels where distributions are near. x is 0 from there to
// the end of its last lanes, and y finite.
INLINE double dot(const double* x, const float* y, int64_t n) {
    Doubles sum = spread(0.0);
    for (int64_t i = 0; i < n; i += LANES) sum = fused(load(x + i), widened(y + i), sum);
    return total(sum);
}

// |x - y|^2 of two points (width,): eight sums side by side.
INLINE double squared_gap(const double* x, const double* y, int64_t width) {
    Doubles sum = spread(0.0);
    int64_t c = 0;
    for (; c + LANES <= width; c += LANES) sum = plus_squared_gap(sum, load(x + c), load(y + c));
    if (c < width) sum = plus_squared_gap(sum, load_first(x + c, width - c), load_first(y + c, width - c));
    return total(sum);
}
