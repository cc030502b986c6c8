// Records that several rooms hand over. Every field takes eight bytes, and the order is that of Python's declaration.
#pragma once
#include "entry.hpp"

struct Tile {
    int64_t n;                        // pairs
    const int64_t *rows, *columns;    // (n,)
    double* values;                   // (n,)
    int32_t* steps;                   // (n,) pivots or iterations
    Stop stop;                        // (1,)
};
