// The nearest anchor of every point, and how far it is; see asot/anchors/space.py.
#include <algorithm>
#include <cmath>

#include "../common/metrics.hpp"
#include "../common/records.hpp"
#include "first_least.hpp"

struct PointsToAnchors {
    int64_t d;
    const double* wide;     // (n, d), or null and
    const float* narrow;    // (n, d)
    int64_t k, exponent;    // anchors; they are 2^exponent times
    const double* anchors;  // (width, stride), padded with zeros: d to a multiple of 4, k to one of 8
    int64_t* index;         // (n,)
    double* distance;       // (n,)
};

constexpr int64_t CHUNK = 256; // points of which distances are computed together

struct NearestScratch {
    int64_t width, stride;
    double *x, *y, *distance;  // (CHUNK + 1, width), (width, stride), (CHUNK + 1, stride)
    int64_t y_exponent;

    void scale_anchors(const PointsToAnchors& all, int64_t exponent) {
        y_exponent = exponent;
        const double shrunk = std::ldexp(1.0, int(all.exponent - exponent));
        for (int64_t t = 0; t < width * stride; t++) y[t] = all.anchors[t] * shrunk;
    }
};

// A power of two of its own keeps the squares of every chunk within range, whatever the scale; it rounds nothing.
template <class T>
static void nearest(const PointsToAnchors& all, NearestScratch& scratch, const T* points, int64_t start, int64_t count) {
    double most = 0.0;
    for (int64_t i = 0; i < count; i++) most = std::max(most, double(largest_size(points + i * all.d, all.d)));
    int own;
    std::frexp(most, &own);
    const int64_t exponent = std::max(int64_t(own), all.exponent);
    if (exponent != scratch.y_exponent) scratch.scale_anchors(all, exponent);
    const int64_t half = -exponent >> 1;  // 2^-exponent itself may be out of range
    const double scale = std::ldexp(1.0, int(half)), more_scale = std::ldexp(1.0, int(-exponent - half));
    for (int64_t i = 0; i < count; i++)
        for (int64_t c = 0; c < all.d; c++)
            scratch.x[i * scratch.width + c] = double(points[i * all.d + c]) * scale * more_scale;
    fill_euclidean(scratch.x, scratch.y, count, scratch.stride, scratch.width, scratch.distance);
    for (int64_t i = 0; i < count; i++) {
        const double* row = scratch.distance + i * scratch.stride;
        const int64_t best =
            first_least<double>(all.k, [=](int64_t u) { return row[u]; }, [=](int64_t u) { return load(row + u); });
        all.index[start + i] = best;
        all.distance[start + i] = std::ldexp(row[best], int(exponent));
    }
}

// Of the points low..high-1.
ENTRY asot_nearest_anchors(const PointsToAnchors* all, int64_t low, int64_t high) {
    const int64_t width = (all->d + 3) & ~int64_t(3), stride = (all->k + LANES - 1) & ~(LANES - 1);
    const int64_t sizes[] = {(CHUNK + 1) * width, width * stride, (CHUNK + 1) * stride};
    Memory memory(Memory::bytes_of<double>(sizes[0]) + Memory::bytes_of<double>(sizes[1]) +
                  Memory::bytes_of<double>(sizes[2]));
    if (memory.failed()) return OUT_OF_MEMORY;
    double *x = memory.take<double>(sizes[0]), *y = memory.take<double>(sizes[1]);
    NearestScratch scratch = {width, stride, x, y, memory.take<double>(sizes[2]), 0};
    std::fill_n(x, sizes[0], 0.0);
    scratch.scale_anchors(*all, all->exponent);
    for (int64_t start = low; start < high; start += CHUNK) {
        const int64_t count = std::min(CHUNK, high - start);
        if (all->wide != nullptr)
            nearest(*all, scratch, all->wide + start * all->d, start, count);
        else
            nearest(*all, scratch, all->narrow + start * all->d, start, count);
    }
    return DONE;
}
