// Whether points of two spaces can be matched so that all distances stay: bounds cannot tell, where points look alike.
#pragma once
#include "spaces.hpp"

// Matches point after point with one that keeps the distances to those before, and goes back where none does, `budget`
// trials in all. dx (n, n), dy (n, width); cost (n, width) is at most `same` where two points look alike, and distances
// are equal up to `near`. match (n,) receives the partner of each point; taken (n,) is scratch.
inline bool find_isometry(int64_t n, const double* dx, const double* dy, const double* cost, int64_t width, double same,
                          double near, int64_t budget, int32_t* match, int32_t* taken) {
    for (int64_t j = 0; j < n; j++) taken[j] = 0;
    match[0] = -1;
    for (int64_t i = 0; i >= 0;) {
        if (match[i] >= 0) taken[match[i]] = 0;
        int64_t j = match[i] + 1;
        for (; j < n; j++) {
            if (taken[j] != 0 || !(cost[i * width + j] <= same)) continue;
            if (--budget < 0) return false;
            int64_t k = 0;
            while (k < i && std::fabs(dx[i * n + k] - dy[j * width + match[k]]) <= near) k++;
            if (k == i) break;
        }
        if (j == n) {
            i--;
            continue;
        }
        match[i] = int32_t(j);
        taken[j] = 1;
        if (++i == n) return true;
        match[i] = -1;
    }
    return false;
}
