// Which pairs of a search matter, and what is kept of them.
#pragma once
#include "../common/entry.hpp"
#include "../common/lanes.hpp"

// A column j is distribution column_start + j of the collection.
struct SearchLimits {
    int64_t column_start;
    int64_t within;          // rows and columns are one set
    const double* limits;    // (rows,) distances
    const int64_t* settled;  // (rows,)
    Stop stop;               // (1,)
};

// For every row its nearest columns by some bound, ascending, in line row - top.
struct NearestLists {
    int64_t top, count;
    int64_t* columns;  // (lines, count)
    double* bounds;    // (lines, count)
};

// The largest distance at which a pair still matters to one of its ends; -1 if it matters at none. Column j is out of the
// question for row i if the row's limit is 0 and its neighbors come before j (`settled`).
INLINE double limit_of(const SearchLimits& s, int64_t i, int64_t j) {
    if (s.within && j <= i) return -1.0;
    double limit = s.limits[i] > 0.0 || j < s.settled[i] ? s.limits[i] : -1.0;
    if (s.within && (s.limits[j] > 0.0 || i < s.settled[j])) limit = s.limits[j] > limit ? s.limits[j] : limit;
    return limit;
}

// Put a column with a bound below the last one of the list in its place.
INLINE void insert_column(int64_t* columns, double* bounds, int64_t count, int64_t column, double bound) {
    int64_t place = count - 1;
    for (; place > 0 && bounds[place - 1] > bound; place--) {
        bounds[place] = bounds[place - 1];
        columns[place] = columns[place - 1];
    }
    bounds[place] = bound;
    columns[place] = column;
}
