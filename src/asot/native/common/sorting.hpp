// Short lists of integers in ascending order: most distributions have a few dozen points.
#pragma once
#include <algorithm>

#include "lanes.hpp"

constexpr int64_t FEW_KEYS = 48;  // up to this many, each is put in its place among those before it

// Of this order, not of the default one, whose sorting libc++ has compiled into the C++ runtime, which is not linked.
struct Ascending {
    template <class T>
    bool operator()(const T& a, const T& b) const {
        return a < b;
    }
};

// Sort the first n of some integers, in place.
template <class T>
INLINE void sort_keys(T* keys, int64_t n) {
    if (n > FEW_KEYS) {
        std::sort(keys, keys + n, Ascending());
        return;
    }
    for (int64_t m = 1; m < n; m++) {
        const T key = keys[m];
        int64_t t = m;
        for (; t > 0 && keys[t - 1] > key; t--) keys[t] = keys[t - 1];
        keys[t] = key;
    }
}
