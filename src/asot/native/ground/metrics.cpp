// Distances of a block for Python: see plain_distances in asot/jit/costs.py.
#include "../common/metrics.hpp"

struct DistanceBlock {
    int64_t code;            // of the metric
    double order;            // p of the Minkowski metric; the dimension for those that count coordinates
    int64_t p, stride, width;
    const double *x, *y;     // (p + 1, width), (width, stride)
    double* out;             // (p + 1, stride)
};

ENTRY asot_fill_distances(const DistanceBlock* block) {
    fill_distances(block->code, block->order, block->x, block->y, block->p, block->stride, block->width, block->out);
    return DONE;
}
