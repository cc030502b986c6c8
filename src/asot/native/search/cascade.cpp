// Bounds of pairs of rows of small tables, a few nanoseconds each; see src/asot/search/cascade.py.
//
// A pair is dropped as soon as one of its bounds is above the limit. The order is: means and coarse shares, fine shares,
// rotations, potentials. Sums of floats are certain after `relative` and `absolute`, no matter how they are ordered.
#include "../common/metrics.hpp"
#include "limits.hpp"

constexpr int64_t SHARES = 32, COARSE = 8;  // as in asot.search.projections
constexpr int16_t NONE = INT16_MIN;  // in the place of the first number of a row that has none
constexpr int64_t COLUMNS = 256;  // that all rows of a piece meet, one row after the other, while their coarse table is
                                  // in the cache

struct BoundTables {
    int64_t n;                       // distributions
    const float *coarse, *fine;      // (n, COARSE, 16), (n, SHARES, 16), or null
    const float* mixed;              // (n_groups, n, SHARES, 16), or other strides
    const float *tail, *pool;        // (n, n_tail), (n, n_pool); n_pool is a multiple of 16
    int64_t n_groups, n_mixed, n_tail, n_pool;
    int64_t code;                    // of the norm
    double order;
    double relative, absolute, pool_relative, pool_absolute;
    int64_t group_stride, row_stride;  // of mixed
    const float* means;                // (n, 16) along the first axes, or null
    const int16_t* brief;              // in place of coarse: (n, COARSE, 16) in steps, or null
    double step, step_absolute;        // what rounding to steps can add to a bound
};

struct PossiblePairs {
    int64_t start, first, n_columns;  // where rows and columns of the table begin, and where columns end
    int8_t* possible;                 // (rows, n_columns - first)
};

// One row against members that another table has: first..first+n-1, or `rows`, of which some bounds are known.
struct QueryBounds {
    int64_t query, first, n;
    const int64_t* rows;  // (n,) or null
    double limit;         // above which no larger bound is looked for
    double* bounds;       // (n,)
};

// The sum of |x - y| over the shares, of 16 coordinates side by side: each the one-dimensional W_1 of sorted means. Two
// sums, since one would wait for itself.
template <class T>
INLINE Floats sums(const T* x, const T* y, int64_t shares) {
    Floats even = spread(0.0f), odd = even;
    for (int64_t o = 0; o < FLOATS * shares; o += 2 * FLOATS) {
        even = plus_gap(even, load(x + o), load(y + o));
        odd = plus_gap(odd, load(x + o + FLOATS), load(y + o + FLOATS));
    }
    return even + odd;
}

alignas(64) static const float STEP[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

// The lanes start..15, and 0 in the others.
INLINE Floats lanes_from(Floats a, int64_t start) { return a * (spread(1.0f) - load(STEP + FLOATS - start)); }

// A norm is taken in parts: every coordinate joins its (power of the) norm.
template <int64_t code>
struct Norm {
    const double order;

    INLINE float joined(float sum, float part) const {
        if (code == EUCLIDEAN) return sum + part * part;
        if (code == CITYBLOCK) return sum + part;
        if (code == CHEBYSHEV) return part > sum ? part : sum;
        return sum + std::pow(part, float(order));
    }
    // All lanes join. Those that are 0 change nothing.
    INLINE float joined(float sum, Floats parts) const {
        if (code == EUCLIDEAN) return sum + total(parts * parts);
        if (code == CITYBLOCK) return sum + total(parts);
        if (code == CHEBYSHEV) return joined(sum, largest(parts));
        float each[FLOATS];
        store(each, parts);
        for (int64_t c = 0; c < FLOATS; c++) sum = joined(sum, each[c]);
        return sum;
    }
    INLINE double length(float sum) const {
        if (code == EUCLIDEAN) return std::sqrt(double(sum));
        if (code == CITYBLOCK || code == CHEBYSHEV) return double(sum);
        return std::pow(double(sum), 1.0 / order);
    }
};

template <int64_t code>
struct Looks {
    const BoundTables& own;  // where row i is
    const BoundTables& t;    // where column j is, and how bounds are rounded
    const Norm<code> norm;

    // What the coordinates contribute of which only the mean is known.
    INLINE float tail(int64_t i, int64_t j) const {
        const float *x = own.tail + i * t.n_tail, *y = t.tail + j * t.n_tail;
        float end = 0.0f;
        int64_t c = 0;
        for (; c + FLOATS <= t.n_tail; c += FLOATS) end = norm.joined(end, size_of(load(x + c) - load(y + c)));
        for (; c < t.n_tail; c++) end = norm.joined(end, std::fabs(x[c] - y[c]));
        return end;
    }
    INLINE double certain(float sum) const { return norm.length(sum) * (1.0 - t.relative) - t.absolute; }

    // The distance of the centroids, in the first coordinates.
    INLINE double by_means(int64_t i, int64_t j) const {
        return certain(norm.joined(0.0f, size_of(load(own.means + i * FLOATS) - load(t.means + j * FLOATS))));
    }

    // Ask the memory for the coarse means of a row long before they are needed.
    INLINE void fetch(int64_t j) const {
        constexpr int64_t row = COARSE * FLOATS, line = 64;
        const char* start = t.brief != nullptr ? (const char*)(t.brief + j * row) : (const char*)(t.coarse + j * row);
        const int64_t bytes = row * int64_t(t.brief != nullptr ? sizeof(int16_t) : sizeof(float));
        if (t.brief != nullptr || t.coarse != nullptr)
            for (int64_t at = 0; at < bytes; at += line) __builtin_prefetch(start + at);
    }

    // The coarse bound. Apart from `second`, so that the few nanoseconds it takes are not spent on the call.
    INLINE double first(int64_t i, int64_t j) const {
        constexpr int64_t row = COARSE * FLOATS;
        if (t.brief == nullptr)
            return certain(norm.joined(tail(i, j), sums(own.coarse + i * row, t.coarse + j * row, COARSE)));
        const int16_t *x = own.brief + i * row, *y = t.brief + j * row;
        if (*x == NONE || *y == NONE) return 0.0;
        return certain(norm.joined(tail(i, j), sums(x, y, COARSE) * spread(float(t.step)))) - t.step_absolute;
    }

    // The largest of the norms that each group of rotated coordinates gives.
    INLINE float turned(float end, Floats parts) const {
        float each[FLOATS], most = 0.0f;
        store(each, parts);
        for (int64_t first = 0; first + t.n_mixed <= FLOATS; first += t.n_mixed) {
            float sum = end;
            for (int64_t c = 0; c < t.n_mixed; c++) sum = norm.joined(sum, each[first + c]);
            most = sum > most ? sum : most;
        }
        return most;
    }

    double by_projections(int64_t i, int64_t j, double limit) const {
        constexpr int64_t row = SHARES * FLOATS;
        const Floats fine = sums(own.fine + i * row, t.fine + j * row, SHARES);
        float each[FLOATS];
        store(each, fine);
        const float end = norm.joined(tail(i, j), lanes_from(fine, t.n_mixed));
        float sum = end;
        for (int64_t c = 0; c < t.n_mixed; c++) sum = norm.joined(sum, each[c]);
        double best = certain(sum);
        for (int64_t g = 0; g < t.n_groups && best <= limit; g++) {
            const float* x = own.mixed + g * own.group_stride + i * own.row_stride;
            const float* y = t.mixed + g * t.group_stride + j * t.row_stride;
            const double more = certain(turned(end, sums(x, y, SHARES)));
            best = more > best ? more : best;
        }
        return best;
    }

    // The largest difference of the means of potentials.
    INLINE double by_potentials(int64_t i, int64_t j) const {
        const float *x = own.pool + i * t.n_pool, *y = t.pool + j * t.n_pool;
        Floats even = spread(0.0f), odd = even;
        int64_t c = 0;
        for (; c + 2 * FLOATS <= t.n_pool; c += 2 * FLOATS) {
            even = larger_gap(even, load(x + c), load(y + c));
            odd = larger_gap(odd, load(x + c + FLOATS), load(y + c + FLOATS));
        }
        if (c < t.n_pool) even = larger_gap(even, load(x + c), load(y + c));
        return double(largest(larger(even, odd))) * (1.0 - t.pool_relative) - t.pool_absolute;
    }

    // The first of the finer bounds that is above `limit`, or the largest of all.
    __attribute__((noinline)) double second(int64_t i, int64_t j, double limit) const {
        double best = 0.0;
        if (t.fine != nullptr) best = by_projections(i, j, limit);
        if (t.n_pool > 0 && best <= limit) {
            const double more = by_potentials(i, j);
            best = more > best ? more : best;
        }
        return best;
    }
};

// Keep, for the rows low..high-1, the columns with the smallest bounds.
template <int64_t code>
static int32_t nearest(const BoundTables& tables, const SearchLimits& search, int64_t n_columns, int64_t low,
                       int64_t high, const NearestLists& lists) {
    const Looks<code> looks{tables, tables, {tables.order}};
    for (int64_t block = 0; block < n_columns; block += COLUMNS) {
        if (*search.stop != 0) return DONE;
        const int64_t block_end = block + COLUMNS < n_columns ? block + COLUMNS : n_columns;
        for (int64_t i = low; i < high; i++) {
            int64_t* columns = lists.columns + (i - lists.top) * lists.count;
            double* bounds = lists.bounds + (i - lists.top) * lists.count;
            for (int64_t j = block; j < block_end; j++) {
                if (search.within && i == j) continue;
                const double limit = bounds[lists.count - 1];
                double bound = tables.coarse != nullptr ? looks.first(i, search.column_start + j) : 0.0;
                if (bound < limit) {
                    const double more = looks.second(i, search.column_start + j, limit);
                    bound = more > bound ? more : bound;
                }
                if (bound < limit) insert_column(columns, bounds, lists.count, j, bound);
            }
        }
    }
    return DONE;
}

// Mark, for the rows low..high-1, the columns whose bound is not above the limit of one end.
template <int64_t code>
static int32_t within_limits(const BoundTables& tables, const SearchLimits& search, int64_t low, int64_t high,
                             const PossiblePairs& out) {
    const Looks<code> looks{tables, tables, {tables.order}};
    for (int64_t block = out.first; block < out.n_columns; block += COLUMNS) {
        if (*search.stop != 0) return DONE;
        const int64_t block_end = block + COLUMNS < out.n_columns ? block + COLUMNS : out.n_columns;
        for (int64_t i = low; i < high; i++) {
            int8_t* possible = out.possible + (i - out.start) * (out.n_columns - out.first);
            for (int64_t j = block; j < block_end; j++) {
                const double limit = limit_of(search, i, j);
                bool is_left = false;
                if (limit >= 0.0) {
                    double bound = tables.coarse != nullptr ? looks.first(i, search.column_start + j) : 0.0;
                    if (bound <= limit) bound = looks.second(i, search.column_start + j, limit);
                    is_left = bound <= limit;
                }
                possible[j - out.first] = is_left;
            }
        }
    }
    return DONE;
}

// Bounds of one row against members of another table: the cheap ones of all, or the larger ones of some.
template <int64_t code>
static int32_t from_query(const BoundTables& query, const BoundTables& members, const QueryBounds& wanted, Stop stop) {
    const Looks<code> looks{query, members, {members.order}};
    for (int64_t t = 0; t < wanted.n; t++) {
        if ((t & 4095) == 0 && *stop != 0) return DONE;
        double best = 0.0;
        if (wanted.rows != nullptr) {
            if (t + 8 < wanted.n) looks.fetch(wanted.rows[t + 8]);
            best = wanted.bounds[t];
            if ((members.coarse != nullptr || members.brief != nullptr) && best <= wanted.limit) {
                const double more = looks.first(wanted.query, wanted.rows[t]);
                best = more > best ? more : best;
            }
            if (members.fine != nullptr && best <= wanted.limit) {
                const double more = looks.by_projections(wanted.query, wanted.rows[t], wanted.limit);
                best = more > best ? more : best;
            }
        } else {
            const int64_t j = wanted.first + t;
            if (members.means != nullptr) best = looks.by_means(wanted.query, j);
            if (members.n_pool > 0) {
                const double more = looks.by_potentials(wanted.query, j);
                best = more > best || best != best ? more : best;
            }
        }
        wanted.bounds[t] = best > 0.0 ? best : 0.0;  // a row without numbers (NaN) has no bound
    }
    return DONE;
}

ENTRY asot_cascade_nearest(const BoundTables* tables, const SearchLimits* search, const NearestLists* lists,
                           int64_t n_columns, int64_t low, int64_t high) {
    switch (tables->code) {
        case EUCLIDEAN: return nearest<EUCLIDEAN>(*tables, *search, n_columns, low, high, *lists);
        case CITYBLOCK: return nearest<CITYBLOCK>(*tables, *search, n_columns, low, high, *lists);
        case CHEBYSHEV: return nearest<CHEBYSHEV>(*tables, *search, n_columns, low, high, *lists);
        default: return nearest<MINKOWSKI>(*tables, *search, n_columns, low, high, *lists);
    }
}

ENTRY asot_cascade_within(const BoundTables* tables, const SearchLimits* search, const PossiblePairs* out, int64_t low,
                          int64_t high) {
    switch (tables->code) {
        case EUCLIDEAN: return within_limits<EUCLIDEAN>(*tables, *search, low, high, *out);
        case CITYBLOCK: return within_limits<CITYBLOCK>(*tables, *search, low, high, *out);
        case CHEBYSHEV: return within_limits<CHEBYSHEV>(*tables, *search, low, high, *out);
        default: return within_limits<MINKOWSKI>(*tables, *search, low, high, *out);
    }
}

ENTRY asot_query_bounds(const BoundTables* query, const BoundTables* members, const QueryBounds* wanted, Stop stop) {
    switch (members->code) {
        case EUCLIDEAN: return from_query<EUCLIDEAN>(*query, *members, *wanted, stop);
        case CITYBLOCK: return from_query<CITYBLOCK>(*query, *members, *wanted, stop);
        case CHEBYSHEV: return from_query<CHEBYSHEV>(*query, *members, *wanted, stop);
        default: return from_query<MINKOWSKI>(*query, *members, *wanted, stop);
    }
}
