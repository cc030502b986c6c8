// Histograms whose pairs are solved, as quantized masses.
#pragma once
#include <cstdint>

struct Histograms {
    const int64_t *A, *B;  // (N, k), (M, l) quantized masses
    int64_t cancel;        // whether common mass stays where it is
};
