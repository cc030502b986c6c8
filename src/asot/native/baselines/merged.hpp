// Distributions with their repeated points merged, and the distances of a pair of them; see asot/baselines/merged.py.
#pragma once
#include "../common/metrics.hpp"
#include "../entropic/own_kernel.hpp"
#include "../exact/packed_points.hpp"

struct MergedCollection {
    const int64_t* offsets;          // (N + 1,) into masses and counts
    const double *masses, *counts;   // (nnz,) masses, and how many points were merged into each
    const int64_t* used_offsets;     // (N + 1,) into used
    const int32_t* used;             // coordinates, ascending within a distribution
    const int64_t* packed_offsets;   // (N + 1,) into packed
    const double* packed;            // points of a distribution in its used coordinates, one matrix after the other
    int64_t dim;
};

// Memory of one thread for the distances of a pair of at most this many points.
struct BlockScratch {
  private:
    Memory memory_;

  public:
    double *x, *y;              // (rows, width), (width, stride)
    int32_t *place_a, *place_b;  // (dim,) place of each used coordinate in the union

    BlockScratch(int64_t n, int64_t m, int64_t dim)
        : memory_(Memory::bytes_of<double>(padded(n, ROWS_TOGETHER) * (dim + 3)) +
                  Memory::bytes_of<double>(padded(m, LANES) * (dim + 3)) + 2 * Memory::bytes_of<int32_t>(dim)) {
        if (memory_.failed()) return;
        x = memory_.take<double>(padded(n, ROWS_TOGETHER) * (dim + 3));
        y = memory_.take<double>(padded(m, LANES) * (dim + 3));
        place_a = memory_.take<int32_t>(dim), place_b = memory_.take<int32_t>(dim);
    }
    bool failed() const { return memory_.failed(); }
};

INLINE int64_t size_of_member(const MergedCollection& points, int64_t i) {
    return points.offsets[i + 1] - points.offsets[i];
}

// Distances of the points of a to those of b, into (rows, stride), in the units of packed points. The padding repeats the
// last point, so that all entries are distances of real points.
inline void fill_pair(const BlockScratch& scratch, const MergedCollection& points, int64_t a, int64_t b, double* distance,
                      Stop stop = NEVER) {
    const int64_t width =
        padded(merge_used(points.used_offsets, points.used, a, b, scratch.place_a, scratch.place_b), 4);
    const int64_t n = size_of_member(points, a), m = size_of_member(points, b);
    const int64_t rows = padded(n, ROWS_TOGETHER), stride = padded(m, LANES);
    const int64_t used_a = points.used_offsets[a + 1] - points.used_offsets[a];
    const int64_t used_b = points.used_offsets[b + 1] - points.used_offsets[b];
    std::fill_n(scratch.x, rows * width, 0.0);
    std::fill_n(scratch.y, width * stride, 0.0);
    for (int64_t i = 0; i < rows; i++) {
        const double* point = points.packed + points.packed_offsets[a] + std::min(i, n - 1) * used_a;
        for (int64_t c = 0; c < used_a; c++) scratch.x[i * width + scratch.place_a[c]] = point[c];
    }
    for (int64_t j = 0; j < stride; j++) {
        const double* point = points.packed + points.packed_offsets[b] + std::min(j, m - 1) * used_b;
        for (int64_t c = 0; c < used_b; c++) scratch.y[scratch.place_b[c] * stride + j] = point[c];
    }
    fill_euclidean(scratch.x, scratch.y, rows, stride, width, distance, stop);
}
