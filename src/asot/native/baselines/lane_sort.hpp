// Eight lists sorted side by side, one in each lane of a vector, without a branch that depends on the numbers.
//
// Batcher's merge exchange (Knuth, The Art of Computer Programming, 5.2.2 M) compares positions that depend on the length
// alone, so eight lists go through the same steps: n (log n)² / 4 of them, two instructions each.
//
// What is sorted are integers. `ordered_bits` turns floats into integers of the same order. Where masses belong to the
// numbers, `make_keys` puts them on a grid of 2^-51 of the largest one, which is as fine as the rounding of projections,
// and writes the place in the list below. So nothing has to travel with a key, and equal numbers keep their order.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "../common/lanes.hpp"

constexpr int64_t GRID_BITS = 51;  // of a key, where the places leave room for them

// Sort eight columns of n integers: row i of them is keys[i · stride :][:LANES].
INLINE void sort_lanes(int64_t* keys, int64_t stride, int64_t n) {
    int64_t largest_step = 1;
    while (2 * largest_step < n) largest_step *= 2;
    for (int64_t p = n > 1 ? largest_step : 0; p > 0; p /= 2) {
        int64_t q = largest_step, r = 0, d = p;
        while (true) {
            for (int64_t base = r; base < n - d; base += 2 * p) {
                const int64_t end = std::min(base + p, n - d);
                for (int64_t i = base; i < end; i++) {
                    int64_t *here = keys + i * stride, *there = here + d * stride;
                    const Lanes low = load(here), high = load(there);
                    store(here, lesser(low, high));
                    store(there, larger(low, high));
                }
            }
            if (q == p) break;
            d = q - p;
            q /= 2;
            r = p;
        }
    }
}

// Bit patterns of floats to integers of the same order, in place; and back: the second time undoes the first.
INLINE void ordered_bits(int64_t* bits, int64_t count) {
    for (int64_t t = 0; t < count; t++) bits[t] ^= (bits[t] >> 63) & INT64_MAX;
}

// Bits that hold 0..n-1.
INLINE int64_t bits_for(int64_t n) {
    int64_t bits = 0;
    while ((int64_t(1) << bits) < n) bits++;
    return bits;
}

// Keys of finite values, both (n, LANES); the lowest place_bits hold the row.
INLINE void make_keys(const double* values, int64_t n, int64_t place_bits, int64_t* keys) {
    constexpr double ROUNDER = 6755399441055744.0;  // 1.5 · 2^52: bit patterns around it differ as the nearest integers do
    int64_t rounder_bits;
    std::memcpy(&rounder_bits, &ROUNDER, 8);
    Doubles most = spread(0.0);
    for (int64_t i = 0; i < n; i++) most = larger(size_of(load(values + i * LANES)), most);
    const double top = largest(most);
    const double scale = top > 0.0 ? std::ldexp(1.0, int(std::min(GRID_BITS - 1, 61 - place_bits))) / top : 0.0;
    for (int64_t i = 0; i < n; i++) {
        store(reinterpret_cast<double*>(keys + i * LANES), load(values + i * LANES) * spread(scale) + spread(ROUNDER));
        for (int64_t lane = 0; lane < LANES; lane++) {
            int64_t& key = keys[i * LANES + lane];
            key = int64_t((uint64_t(key) - uint64_t(rounder_bits)) << place_bits) | i;
        }
    }
}
