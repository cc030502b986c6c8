// Sparse rows under one cost, as `asot_cancel_and_check` takes them.
#pragma once
#include "../common/records.hpp"

struct SparseRows {
    const int64_t *offsets, *index, *masses;  // (N + 1,), (nnz,) anchors, ascending in each row, (nnz,)
};

struct CheckedCost {
    int64_t l;              // length of a row
    const double* cost;     // (k, l)
    double slack;           // share of a pair's largest cost by which a difference may exceed a cost through rounding
    int64_t cancel;         // whether the cost looks like a metric
    int64_t most_sources, most_sinks;
};

ENTRY asot_cancel_and_check(const SparseRows* A, const SparseRows* B, const CheckedCost* cost, const Tile* tile);
