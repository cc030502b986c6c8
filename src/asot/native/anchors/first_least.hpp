// Where a row of numbers is least, the first place of equals: the nearest of some centers.
#pragma once
#include "../common/lanes.hpp"

template <class T> struct IntegerOfSize;
template <> struct IntegerOfSize<double> { typedef int64_t Type; };
template <> struct IntegerOfSize<float> { typedef int32_t Type; };

// The place in 0..n-1, n > 0, where value(j) is least; values(j) are those of a whole vector from j on.
template <class T, class One, class Many>
INLINE int64_t first_least(int64_t n, One value, Many values) {
    typedef typename IntegerOfSize<T>::Type Place;
    constexpr int64_t WIDTH = 64 / int64_t(sizeof(T));
    int64_t best = 0, j = 0;
    T least = value(0);
    if (n >= 2 * WIDTH) {
        Place counted[WIDTH], places[WIDTH];
        T numbers[WIDTH];
        for (int64_t l = 0; l < WIDTH; l++) counted[l] = Place(l);
        Vector<T> low = values(0);
        Vector<Place> here = load(counted), low_at = here;
        for (j = WIDTH; j + WIDTH <= n; j += WIDTH) {
            here = here + spread<Place>(WIDTH);
            const Vector<T> now = values(j);
            low_at = select_less(now, low, here, low_at);
            low = lesser(now, low);
        }
        store(numbers, low), store(places, low_at);
        least = numbers[0], best = places[0];
        for (int64_t l = 1; l < WIDTH; l++) {
            if (numbers[l] < least || (numbers[l] == least && places[l] < best)) least = numbers[l], best = places[l];
        }
    }
    for (; j < n; j++) {
        const T now = value(j);
        if (now < least) least = now, best = j;
    }
    return best;
}
