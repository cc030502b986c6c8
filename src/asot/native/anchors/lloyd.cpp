// Lloyd's iteration beside its matrix products: the nearest centers, and sums of points; see asot/anchors/lloyd.py.
#include "../common/records.hpp"
#include "first_least.hpp"

struct WideCenters {
    int64_t n, k, d;                // points, centers, coordinates
    const double *points, *weights;  // (n, d), (n,)
    const double *products, *squares;  // (some, k) of points and centers; (k,) of the centers
    int32_t* labels;                // (n,)
    double *sums, *held;            // (k, d), (k,)
};

struct NarrowCenters {
    int64_t n, k, d;
    const float *points, *weights;
    const float *products, *squares;
    int32_t* labels;
    float *sums, *held;
};

// The nearest center of the points start, start + 1, …, whose products are there, by |c|² - 2 x·c; the first of equals.
template <class T, class Centers>
static int32_t label(const Centers& all, int64_t start, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const T *product = all.products + i * all.k, *squares = all.squares;
        all.labels[start + i] = int32_t(first_least<T>(
            all.k, [=](int64_t j) { return squares[j] - (product[j] + product[j]); },
            [=](int64_t j) {
                const Vector<T> some = load(product + j);
                return load(squares + j) - (some + some);
            }));
    }
    return DONE;
}

// Weighted sums by label, in the order of the points.
template <class T, class Centers>
static int32_t add_up(const Centers& all) {
    for (int64_t i = 0; i < all.n; i++) {
        const T weight = all.weights[i], *point = all.points + i * all.d;
        T* sum = all.sums + all.labels[i] * all.d;
        all.held[all.labels[i]] += weight;
        for (int64_t c = 0; c < all.d; c++) sum[c] += point[c] * weight;
    }
    return DONE;
}

ENTRY asot_label_wide(const WideCenters* all, int64_t start, int64_t count) {
    return label<double>(*all, start, count);
}
ENTRY asot_label_narrow(const NarrowCenters* all, int64_t start, int64_t count) {
    return label<float>(*all, start, count);
}
ENTRY asot_add_up_wide(const WideCenters* all) { return add_up<double>(*all); }
ENTRY asot_add_up_narrow(const NarrowCenters* all) { return add_up<float>(*all); }
