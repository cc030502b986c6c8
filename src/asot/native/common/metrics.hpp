// Ground metrics: distances between the points of two small sets.
//
// Each function fills a whole block, with the second set transposed, so that lanes are neighboring columns. In every
// metric here a coordinate in which both points are 0 adds nothing; callers may leave it out. Sums are taken in the order
// of the coordinates, squares by fused products.
#pragma once
#include "entry.hpp"
#include "lanes.hpp"

// As in asot.ground.metrics.
enum Metric : int64_t {
    EUCLIDEAN, CITYBLOCK, CHEBYSHEV, MINKOWSKI, CANBERRA, HAMMING, JACCARD, ROGERSTANIMOTO, SOKALSNEATH, JENSENSHANNON
};

// The largest absolute coordinate of a point (d,), by which it is scaled so that its squares stay in range.
template <class T>
INLINE T largest_size(const T* point, int64_t d) {
    constexpr int64_t WIDTH = 64 / int64_t(sizeof(T));
    Vector<T> most = spread(T(0)), second = most, third = most, fourth = most;
    int64_t c = 0;
    for (; c + 4 * WIDTH <= d; c += 4 * WIDTH) {  // one alone would wait for itself
        most = larger(size_of(load(point + c)), most);
        second = larger(size_of(load(point + c + WIDTH)), second);
        third = larger(size_of(load(point + c + 2 * WIDTH)), third);
        fourth = larger(size_of(load(point + c + 3 * WIDTH)), fourth);
    }
    most = larger(larger(most, second), larger(third, fourth));
    for (; c + WIDTH <= d; c += WIDTH) most = larger(size_of(load(point + c)), most);
    T result = largest(most);
    for (; c < d; c++) result = std::fabs(point[c]) > result ? std::fabs(point[c]) : result;
    return result;
}

// Two rows and sixteen columns at a time: sums stay in registers, and the columns in the nearest cache. Arguments are
// those of `fill_distances`.
inline void fill_euclidean(const double* x, const double* y, int64_t p, int64_t stride, int64_t width, double* out,
                           Stop stop = NEVER) {
    int64_t j = 0;
    for (; j + 16 <= stride && *stop == 0; j += 16) {
        for (int64_t i = 0; i < p; i += 2) {
            const double *a = x + i * width, *b = a + width, *column = y + j;
            Doubles s0 = spread(0.0), s1 = s0, t0 = s0, t1 = s0;
            for (int64_t c = 0; c < width; c++, column += stride) {
                const Doubles y0 = load(column), y1 = load(column + 8), u = spread(a[c]), v = spread(b[c]);
                s0 = plus_squared_gap(s0, u, y0);
                s1 = plus_squared_gap(s1, u, y1);
                t0 = plus_squared_gap(t0, v, y0);
                t1 = plus_squared_gap(t1, v, y1);
            }
            double* o = out + i * stride + j;
            store(o, root(s0));
            store(o + 8, root(s1));
            store(o + stride, root(t0));
            store(o + stride + 8, root(t1));
        }
    }
    if (j >= stride || *stop != 0) return;
    for (int64_t i = 0; i < p; i += 2) {
        const double *a = x + i * width, *b = a + width, *column = y + j;
        Doubles s = spread(0.0), t = s;
        for (int64_t c = 0; c < width; c++, column += stride) {
            const Doubles y0 = load(column);
            s = plus_squared_gap(s, spread(a[c]), y0);
            t = plus_squared_gap(t, spread(b[c]), y0);
        }
        store(out + i * stride + j, root(s));
        store(out + i * stride + stride + j, root(t));
    }
}

// One row: from the point x (width,) into out (stride,). So do the functions below.
INLINE void fill_cityblock(const double* x, const double* y, int64_t stride, int64_t width, double* out) {
    for (int64_t j = 0; j < stride; j += LANES) {
        Doubles sum = spread(0.0);
        for (int64_t c = 0; c < width; c++) sum = plus_gap(sum, spread(x[c]), load(y + c * stride + j));
        store(out + j, sum);
    }
}

INLINE void fill_chebyshev(const double* x, const double* y, int64_t stride, int64_t width, double* out) {
    for (int64_t j = 0; j < stride; j += LANES) {
        Doubles most = spread(0.0);
        for (int64_t c = 0; c < width; c++) most = larger_gap(most, spread(x[c]), load(y + c * stride + j));
        store(out + j, most);
    }
}

// From the largest differences: powers of at most 1 stay in range.
INLINE void fill_minkowski(double order, const double* x, const double* y, int64_t stride, int64_t width, double* out) {
    fill_chebyshev(x, y, stride, width, out);
    for (int64_t j = 0; j < stride; j++) {
        const double most = out[j];
        if (!(most > 0.0)) continue;
        double sum = 0.0;
        for (int64_t c = 0; c < width; c++) sum += std::pow(std::fabs(x[c] - y[c * stride + j]) / most, order);
        out[j] = most * std::pow(sum, 1.0 / order);
    }
}

INLINE void fill_canberra(const double* x, const double* y, int64_t stride, int64_t width, double* out) {
    for (int64_t j = 0; j < stride; j += LANES) {
        Doubles sum = spread(0.0);
        for (int64_t c = 0; c < width; c++) {
            const Doubles a = spread(x[c]), b = load(y + c * stride + j), size = size_of(a) + size_of(b);
            sum = select_less(spread(0.0), size, sum + size_of(a - b) / size, sum);
        }
        store(out + j, sum);
    }
}

// a log(a / m) + b log(b / m) with the mean m of a and b, which are not negative. The two cancel where a and b are close;
// there it is m times the sum over k ≥ 1 of t^2k / (k (2k - 1)), t = (a - b) / (a + b).
INLINE double shared_entropy(double a, double b) {
    const double mean = 0.5 * (a + b);
    if (!(mean > 0.0)) return 0.0;
    const double t = 0.5 * (a - b) / mean, square = t * t;
    if (square < 0x1p-6) {
        double sum = 0.0;
        for (int k = 9; k > 0; k--) sum = sum * square + 1.0 / double(k * (2 * k - 1));
        return mean * square * sum;
    }
    return (a > 0.0 ? a * std::log(a / mean) : 0.0) + (b > 0.0 ? b * std::log(b / mean) : 0.0);
}

INLINE void fill_jensenshannon(const double* x, const double* y, int64_t stride, int64_t width, double* out) {
    for (int64_t j = 0; j < stride; j++) {
        double sum = 0.0;
        for (int64_t c = 0; c < width; c++) sum += shared_entropy(x[c], y[c * stride + j]);
        out[j] = std::sqrt(0.5 * sum);
    }
}

// Metrics that count coordinates: those that differ, those non-zero in both, and all of them (`order`).
INLINE double disagreement(int64_t code, double order, double differ, double both) {
    if (code == HAMMING) return differ / order;
    if (differ == 0.0) return 0.0;
    if (code == JACCARD) return differ / (both + differ);
    if (code == ROGERSTANIMOTO) return 2.0 * differ / (order + differ);
    return 2.0 * differ / (both + 2.0 * differ);
}

INLINE void fill_disagreement(int64_t code, double order, const double* x, const double* y, int64_t stride,
                              int64_t width, double* out) {
    for (int64_t j = 0; j < stride; j += LANES) {
        double differ[LANES] = {}, both[LANES] = {};
        for (int64_t c = 0; c < width; c++) {
            const double* column = y + c * stride + j;
            for (int64_t l = 0; l < LANES; l++) {
                differ[l] += x[c] != column[l] ? 1.0 : 0.0;
                both[l] += ((x[c] != 0.0) & (column[l] != 0.0)) ? 1.0 : 0.0;
            }
        }
        for (int64_t l = 0; l < LANES; l++) out[j + l] = disagreement(code, order, differ[l], both[l]);
    }
}

// Distances of p rows of x (p, width) to the columns of y (width, stride), into out (p, stride), all flat. stride is a
// multiple of 8; x and out have room for an even number of rows. Once *stop is raised, what is left is not computed.
inline void fill_distances(int64_t code, double order, const double* x, const double* y, int64_t p, int64_t stride,
                           int64_t width, double* out, Stop stop = NEVER) {
    if (code == EUCLIDEAN) return fill_euclidean(x, y, p, stride, width, out, stop);
    for (int64_t i = 0; i < p && *stop == 0; i++, x += width, out += stride) {
        switch (code) {
            case CITYBLOCK: fill_cityblock(x, y, stride, width, out); break;
            case CHEBYSHEV: fill_chebyshev(x, y, stride, width, out); break;
            case MINKOWSKI: fill_minkowski(order, x, y, stride, width, out); break;
            case CANBERRA: fill_canberra(x, y, stride, width, out); break;
            case JENSENSHANNON: fill_jensenshannon(x, y, stride, width, out); break;
            default: fill_disagreement(code, order, x, y, stride, width, out);
        }
    }
}
