// What the shortest way is told about a small collection.
#pragma once
#include "../common/records.hpp"

constexpr int32_t NOT_ORDINARY = 2;  // returned if the general way must be taken

struct AnyCostOut;

struct FewPairs {
    int64_t dim, count;       // coordinates, distributions
    int64_t code;             // of the metric, a norm
    double power;             // to which distances are raised
    int64_t single;           // whether points are float32
    const Tile* tile;         // the pairs
    const AnyCostOut* out;    // where units go if distances are raised
    int64_t exponent, equal;  // out: of the largest coordinate; whether all masses are equal
};
