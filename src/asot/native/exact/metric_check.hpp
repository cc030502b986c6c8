// The triangle inequality of a cost.
#pragma once
#include "../common/entry.hpp"

struct MetricCheck {
    int64_t k;
    const double* cost;  // (k, k) symmetric
    double slack;        // share by which a side may be too long
};

constexpr int32_t BROKEN = 2;

// DONE if no triangle with a side in rows first_row..last_row-1 is broken, else BROKEN.
ENTRY asot_check_triangles(const MetricCheck* check, int64_t first_row, int64_t last_row);
