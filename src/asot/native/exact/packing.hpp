// Masses of many distributions as integers, for kernels that take them as floats.
#pragma once
#include <cmath>

#include "workspace.hpp"

// Masses (offsets[n],) as integers that sum to exactly 2^MASS_BITS in each of n distributions, none of them empty; the
// first of the largest absorbs the rounding.
INLINE void quantize_masses(const int64_t* offsets, int64_t n, const double* masses, int64_t* quantized) {
    constexpr int64_t WHOLE = int64_t(1) << MASS_BITS;
    for (int64_t i = 0; i < n; i++) {
        int64_t total = 0, largest = offsets[i];
        for (int64_t t = offsets[i]; t < offsets[i + 1]; t++) {
            quantized[t] = int64_t(std::rint(masses[t] * double(WHOLE)));
            total += quantized[t];
            if (masses[t] > masses[largest]) largest = t;
        }
        quantized[largest] += WHOLE - total;
    }
}
