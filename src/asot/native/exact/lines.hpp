// Distributions on a line as their kernels take them; see src/asot/exact/one_dimension.py.
#pragma once
#include "line_runs.hpp"

struct LineCloud {
    int64_t n;               // distributions
    const int64_t* offsets;  // (n + 1,)
    const double* positions; // (offsets[n],)
    const double* masses;    // (offsets[n],) ≥ 0, some of them > 0 in every distribution
};

struct LineLists {
    int64_t* starts;    // (n + 1,) where the list of each begins
    double* stations;   // (starts[n], 2) as of line_runs.hpp
};

struct Quantiles {
    int64_t length, width;  // of vectors; from one row to the next
    const double* x;        // (N, width) along: vectors, padded with zeros to whole groups of 16
                            // (length, width) across: component t of all vectors in row t, and room for 8 more
    double p, share;        // order; mass of a component
    int64_t in_range;       // whether no difference is too large to be summed
};

struct Merged {
    const int64_t* starts;   // (N + 1,) where the list of each distribution begins
    const double* stations;  // (starts[N], 2) as of line_runs.hpp
    double p;                // order
    int64_t n;               // N
    const int64_t* by_length;  // (N,) distributions by the length of their lists, or null
};

ENTRY asot_line_sort(const LineCloud* cloud, const LineLists* lists);
ENTRY asot_line_quantiles_along(const Quantiles* q, const Runs* runs);
ENTRY asot_line_quantiles_across(const Quantiles* q, const Runs* runs);
ENTRY asot_line_merge(const Merged* m, const Runs* runs);
