// Masses as the exact kernels of a GPU read them; see src/asot/exact/cuda/tables.py.
#include <cmath>

#include "../common/entry.hpp"

struct NodeMasses {
    int64_t n, k;
    const double* histograms;  // (n, k)
    int64_t bits, shift;       // masses sum to 2^bits and are handed over shifted left
    int64_t* masses;           // mass u of histogram i goes to first + i·row_step + u·step
    int64_t first, row_step, step;
};

ENTRY asot_place_node_masses(const NodeMasses* m) {
    const int64_t total = int64_t(1) << m->bits;
    for (int64_t i = 0; i < m->n; i++) {
        const double* histogram = m->histograms + i * m->k;
        int64_t* masses = m->masses + m->first + i * m->row_step;
        int64_t left = total, largest = 0;
        for (int64_t u = 0; u < m->k; u++) {
            const int64_t mass = int64_t(std::rint(histogram[u] * double(total)));
            masses[u * m->step] = mass << m->shift;
            left -= mass;
            if (histogram[u] > histogram[largest]) largest = u;
        }
        masses[largest * m->step] += left * (int64_t(1) << m->shift);
    }
    return DONE;
}
