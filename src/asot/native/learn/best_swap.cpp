// The best swap of a medoid for another member; see asot/learn/kmeans.py.
//
// One pass over the matrix for all swaps (FastPAM, Schubert and Rousseeuw 2019): a point near a medoid that stays gains
// the same no matter which other medoid is removed.
#include <algorithm>
#include <cmath>

#include "../common/entry.hpp"

struct Medoids {
    int64_t n, count;
    const double* matrix;    // (n, n) distances
    const int64_t* medoids;  // (count,)
    int64_t* swap;           // (2,) which medoid, for which member
    double* gain;            // (1,) by how much the sum of distances to the nearest medoid falls
};

// The nearest medoid of every point, the distances to it and to the second, and what is lost if a medoid is removed
// without a replacement.
static void find_nearest(const Medoids& all, int64_t* nearest, double* first, double* second, double* loss) {
    std::fill_n(loss, all.count, 0.0);
    for (int64_t i = 0; i < all.n; i++) {
        first[i] = second[i] = INFINITY;
        nearest[i] = 0;
        for (int64_t c = 0; c < all.count; c++) {
            const double d = all.matrix[i * all.n + all.medoids[c]];
            if (d < first[i]) {
                second[i] = first[i];
                first[i] = d;
                nearest[i] = c;
            } else if (d < second[i]) {
                second[i] = d;
            }
        }
        loss[nearest[i]] += second[i] - first[i];
    }
}

ENTRY asot_best_swap(const Medoids* all) {
    const int64_t n = all->n, count = all->count;
    Memory memory(Memory::bytes_of<int64_t>(n) + 2 * Memory::bytes_of<double>(n) + 2 * Memory::bytes_of<double>(count));
    if (memory.failed()) return OUT_OF_MEMORY;
    int64_t* nearest = memory.take<int64_t>(n);
    double *first = memory.take<double>(n), *second = memory.take<double>(n);
    double *loss = memory.take<double>(count), *change = memory.take<double>(count);
    find_nearest(*all, nearest, first, second, loss);
    double best = 0.0;
    all->swap[0] = 0, all->swap[1] = all->medoids[0];
    for (int64_t j = 0; j < n; j++) {
        std::copy_n(loss, count, change);
        double common = 0.0;
        for (int64_t i = 0; i < n; i++) {
            const double d = all->matrix[j * n + i];
            if (d < first[i]) {
                common += d - first[i];
                change[nearest[i]] += first[i] - second[i];
            } else if (d < second[i]) {
                change[nearest[i]] += d - second[i];
            }
        }
        for (int64_t c = 0; c < count; c++) {
            if (change[c] + common < best) {
                best = change[c] + common;
                all->swap[0] = c, all->swap[1] = j;
            }
        }
    }
    *all->gain = -best;
    return DONE;
}
