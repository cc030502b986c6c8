// Where a row of numbers is least, the first place of equals: the nearest of some centers.
#pragma once
#include "../common/lanes.hpp"

template <class T> struct IntegerOfSize;
template <> struct IntegerOfSize<double> { typedef int64_t Type; };
template <> struct IntegerOfSize<float> { typedef int32_t Type; };

// The place in 0..n-1, n > 0, where value(j) is least; values(j) are those of a whole vector from j on. Without branches
// that depend on the numbers: nobody could predict them.
template <class T, class One, class Many>
INLINE int64_t first_least(int64_t n, One value, Many values) {
    typedef typename IntegerOfSize<T>::Type Place;
    constexpr int64_t WIDTH = 64 / int64_t(sizeof(T));
    if (n < WIDTH) {
        int64_t best = 0;
        T least = value(0);
        for (int64_t j = 1; j < n; j++) {
            const T now = value(j);
            best = now < least ? j : best;
            least = now < least ? now : least;
        }
        return best;
    }
    Place places[WIDTH];
    T numbers[WIDTH];
    for (int64_t l = 0; l < WIDTH; l++) places[l] = Place(l);
    const Vector<Place> counted = load(places);
    Vector<Place> low_at = counted;
    Vector<T> low = values(0);
    for (int64_t next = WIDTH; next < n; next += WIDTH) {
        const int64_t j = next + WIDTH <= n ? next : n - WIDTH;  // the last vector may overlap the one before
        const Vector<T> now = values(j);
        low_at = select_less(now, low, counted + spread<Place>(Place(j)), low_at);
        low = lesser(now, low);
    }
    store(numbers, low), store(places, low_at);
    for (int64_t half = WIDTH / 2; half > 0; half /= 2) {
        for (int64_t l = 0; l < half; l++) {
            const T other = numbers[l + half];
            const bool take = (other < numbers[l]) | ((other == numbers[l]) & (places[l + half] < places[l]));
            numbers[l] = take ? other : numbers[l];
            places[l] = take ? places[l + half] : places[l];
        }
    }
    return places[0];
}
