// Four rows of a matrix at a time, several lanes of columns wide, so that numbers that were loaded are used often.
#pragma once
#include "spaces.hpp"

constexpr int64_t ROWS = 4;
constexpr int WIDE = REGISTERS == 1 ? 3 : 1;  // lanes of a block; sums must fit into the registers

// out = sums of x(k, i) y(k, j) over k < n, for i < ROWS and W lanes of j.
template <int W>
INLINE void product_block(const double* x, int64_t x_stride, const double* y, int64_t y_stride, int64_t n,
                          Doubles (&sums)[ROWS][W]) {
    for (auto& row : sums)
        for (Doubles& sum : row) sum = spread(0.0);
    for (int64_t k = 0; k < n; k++) {
        Doubles own[W];
        for (int w = 0; w < W; w++) own[w] = load(y + k * y_stride + w * LANES);
        for (int64_t r = 0; r < ROWS; r++) {
            const Doubles other = spread(x[k * x_stride + r]);
            for (int w = 0; w < W; w++) sums[r][w] = fused(other, own[w], sums[r][w]);
        }
    }
}

// P: the order, if it is 1 or 2, else 0.
template <int P>
INLINE void add_power(Doubles& sum, Doubles gap, double p) {
    if constexpr (P == 2) {
        sum = fused(gap, gap, sum);
    } else if constexpr (P == 1) {
        sum = sum + size_of(gap);
    } else {
        double x[LANES];
        store(x, size_of(gap));
        for (double& each : x) each = std::pow(each, p);
        sum = sum + load(x);
    }
}

// The same of |x - y|^p, where the four rows of x stand by themselves.
template <int P, int W>
INLINE void gaps_block(const double* const (&x)[ROWS], const double* y, int64_t y_stride, int64_t n, double p,
                       Doubles (&sums)[ROWS][W]) {
    for (auto& row : sums)
        for (Doubles& sum : row) sum = spread(0.0);
    for (int64_t k = 0; k < n; k++) {
        Doubles own[W];
        for (int w = 0; w < W; w++) own[w] = load(y + k * y_stride + w * LANES);
        for (int64_t r = 0; r < ROWS; r++) {
            const Doubles other = spread(x[r][k]);
            for (int w = 0; w < W; w++) add_power<P>(sums[r][w], other - own[w], p);
        }
    }
}
