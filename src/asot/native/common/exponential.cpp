// The exponential function over a row of numbers, in place.
#include "exponential.hpp"

#include "entry.hpp"

ENTRY asot_exponentials(double* x, int64_t n) {  // n is a multiple of LANES
    for (int64_t t = 0; t < n; t += LANES) store(x + t, exponential(load(x + t)));
    return DONE;
}
