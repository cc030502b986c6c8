// Transport problems of any size.
#pragma once
#include "simplex.hpp"

constexpr int64_t LARGE_NODES = 1000;  // nodes from which a problem is large
constexpr int64_t NARROW = 48;  // problems with fewer sources or sinks go to the small solver, whatever their total size
constexpr int64_t NO_MEMORY = -2;

// Like solve_block, by whichever method is faster for the size: the number of pivots, -1 if `stop` was raised in the
// meantime, or NO_MEMORY.
int64_t solve_any(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits, Stop stop);
