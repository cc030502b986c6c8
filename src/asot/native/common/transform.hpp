// What costs take of a Euclidean distance.
#pragma once
#include "lanes.hpp"

enum Transform : int64_t { PLAIN, SQUARE, HALF_SQUARE, ARC };  // as in asot.ground.costs

// Of SQUARE or HALF_SQUARE.
INLINE double of_distance(int64_t transform, double distance) {
    return (transform == SQUARE ? distance : 0.5 * distance) * distance;
}
