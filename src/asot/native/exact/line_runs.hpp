// What kernels on a line share: which pairs are asked for, where distances go, and sorted lists.
#pragma once
#include "../common/entry.hpp"

struct Runs {
    int64_t n;                             // runs
    const int64_t *rows, *columns, *ends;  // (n,) run r: row rows[r] with columns[r]..ends[r] - 1
    double* values;                        // one after the other
    int64_t room;                          // how many values there is room for
    Stop stop;                             // (1,)
};

constexpr int64_t WHOLE = int64_t(1) << 60;  // the mass of a distribution

// A place on the line at which a distribution has mass. Positions and `reached` ascend strictly within a list, and the
// last one has reached 2^60. Python holds them as pairs of eight bytes.
struct __attribute__((may_alias)) Station {
    double position;
    int64_t reached;
};
