// The triangle inequality; see src/asot/exact/cost_check.py.
#include "metric_check.hpp"

#include "../common/lanes.hpp"

ENTRY asot_check_triangles(const MetricCheck* check, int64_t first_row, int64_t last_row) {
    const int64_t k = check->k;
    const double share = 1.0 - check->slack;
    for (int64_t i = first_row; i < last_row; i++) {
        const double* direct = check->cost + i * k;
        const int64_t whole = i & ~(LANES - 1);
        for (int64_t via = 0; via < k; via++) {
            const double first = direct[via];
            const double* onward = check->cost + via * k;
            Lanes broken = spread(0);
            for (int64_t j = 0; j < whole; j += LANES)
                broken = select_less(spread(first) + load(onward + j), spread(share) * load(direct + j), spread(1), broken);
            int64_t any = where_equal(broken, spread(0)) != 255;
            for (int64_t j = whole; j < i; j++) any |= first + onward[j] < share * direct[j];
            if (any) return BROKEN;
        }
    }
    return DONE;
}
