// W_p on a line where distributions are vectors: quantiles, or cumulative masses over common positions.
// See src/asot/exact/one_dimension.py.
#include "line_power.hpp"
#include "lines.hpp"

struct Levels {
    int64_t length, width;  // the same for cumulative masses
    const int64_t* x;       // in units of 2^-60
    const double* gaps;     // (length,) or to whole groups of 16, zeros at the end: to the next position
};

namespace {
constexpr int64_t GROUP = 2 * LANES;   // of two chains of additions
constexpr int64_t STRETCH = 16 * GROUP;  // sums of this many are added up without loss: errors stay small

template <class Term>
INLINE Doubles stretch_along(int64_t begin, int64_t end, Term term) {
    Doubles even = term(begin), odd = term(begin + LANES);
    for (int64_t t = begin + GROUP; t < end; t += GROUP) {
        even = even + term(t);
        odd = odd + term(t + LANES);
    }
    return even + odd;
}

// Σ term(t) over whole groups of 16, of which there is one at least; term gives 8 numbers ≥ 0 from t on.
template <class Term>
INLINE double sum_along(int64_t length, Term term) {
    Doubles whole = stretch_along(0, length < STRETCH ? length : STRETCH, term);
    if (length <= STRETCH) return total(whole);
    Doubles lost = spread(0.0);
    for (int64_t begin = STRETCH; begin < length; begin += STRETCH) {
        const int64_t end = begin + STRETCH < length ? begin + STRETCH : length;
        const Doubles more = stretch_along(begin, end, term) - lost, next = whole + more;
        lost = (next - whole) - more;
        whole = next;
    }
    return total(whole);
}

double quantiles_carefully(const Quantiles& q, const Order& order, const double* u, const double* v, int64_t step) {
    return carefully(order, q.share, [&](double scale, auto visit) {
        for (int64_t t = 0; t < q.length; t++) visit(1.0, std::fabs(u[t * step] * scale - v[t * step] * scale));
    });
}

// W from a sum of powers of gaps, or once more from the vectors.
template <Kind kind>
INLINE double finish(double sum, const Quantiles& q, const Order& order, const double* u, const double* v, int64_t step) {
    if (kind == FIRST ? sum <= 0x1p1000 : in_range(sum)) return root_of(q.share * sum, order);
    return quantiles_carefully(q, order, u, v, step);
}

// Eight columns at a time, in straight order, so that sums do not depend on where a pair stands.
template <class Sum, class Finish>
INLINE void across(const Runs runs, Sum sum, Finish finish) {
    double *value = runs.values, *const last = runs.values + runs.room - LANES;
    for (int64_t r = 0; r < runs.n; r++) {
        if ((r & 255) == 0 && *runs.stop != 0) return;
        const int64_t i = runs.rows[r], end = runs.ends[r];
        for (int64_t j = runs.columns[r]; j < end; j += LANES) {
            const int64_t count = end - j < LANES ? end - j : LANES;
            const Doubles sums = sum(i, j);
            if (value <= last) {  // what is behind the last column is written over by the next ones
                finish(sums, i, j, count, value);
            } else {
                double some[LANES];
                finish(sums, i, j, count, some);
                for (int64_t t = 0; t < count; t++) value[t] = some[t];
            }
            value += count;
        }
    }
}

template <class Distance>
INLINE void along(const Runs runs, Distance distance) {
    double* value = runs.values;
    for (int64_t r = 0; r < runs.n; r++) {
        for (int64_t j = runs.columns[r]; j < runs.ends[r]; j++) {
            if (((value - runs.values) & 255) == 0 && *runs.stop != 0) return;
            *value++ = distance(runs.rows[r], j);
        }
    }
}

template <Kind kind>
void quantiles_across(const Quantiles q, const Order& order, const Runs& runs) {
    across(
        runs,
        [=](int64_t i, int64_t j) {
            Doubles sum = spread(0.0);
            const double* x = q.x;
            for (int64_t t = 0; t < q.length; t++, x += q.width)
                sum = sum + power<kind>(size_of(spread(x[i]) - load(x + j)), order);
            return sum;
        },
        [=](Doubles sum, int64_t i, int64_t j, int64_t count, double* to) {
            if (kind == FIRST && (q.in_range || largest(sum) <= 0x1p1000)) {
                store(to, sum * spread(q.share));
                return;
            }
            double sums[LANES];
            store(sums, sum);
            for (int64_t t = 0; t < count; t++)
                to[t] = finish<kind>(sums[t], q, order, q.x + i, q.x + j + t, q.width);
        });
}

template <Kind kind>
void quantiles_along(const Quantiles q, const Order& order, const Runs& runs) {
    along(runs, [=](int64_t i, int64_t j) {
        const double *u = q.x + i * q.width, *v = q.x + j * q.width;
        if (kind == ANY) return quantiles_carefully(q, order, u, v, 1);
        const double sum = sum_along(q.width, [=](int64_t t) {
            return power<kind>(size_of(load(u + t) - load(v + t)), order);
        });
        return finish<kind>(sum, q, order, u, v, 1);
    });
}
}  // namespace

ENTRY asot_line_quantiles_across(const Quantiles* q, const Runs* runs) {
    const Order order(q->p);
    if (order.kind == FIRST) quantiles_across<FIRST>(*q, order, *runs);
    if (order.kind == SECOND) quantiles_across<SECOND>(*q, order, *runs);
    if (order.kind == HALVES) quantiles_across<HALVES>(*q, order, *runs);
    return DONE;
}

ENTRY asot_line_quantiles_along(const Quantiles* q, const Runs* runs) {
    const Order order(q->p);
    if (order.kind == FIRST) quantiles_along<FIRST>(*q, order, *runs);
    if (order.kind == SECOND) quantiles_along<SECOND>(*q, order, *runs);
    if (order.kind == HALVES) quantiles_along<HALVES>(*q, order, *runs);
    if (order.kind == ANY) quantiles_along<ANY>(*q, order, *runs);
    return DONE;
}

// W_1 = Σ |difference of cumulative masses| · gap: differences are exact, and where both have all their mass they are 0,
// however long the gap is.
ENTRY asot_line_levels_across(const Levels* levels, const Runs* runs) {
    const Levels l = *levels;
    across(
        *runs,
        [=](int64_t i, int64_t j) {
            Doubles sum = spread(0.0);
            const int64_t* x = l.x;
            for (int64_t t = 0; t < l.length; t++, x += l.width)
                sum = sum + size_of(as_doubles(spread(x[i]) - load(x + j))) * spread(l.gaps[t]);
            return sum;
        },
        [](Doubles sum, int64_t, int64_t, int64_t, double* to) { store(to, sum * spread(0x1p-60)); });
    return DONE;
}

ENTRY asot_line_levels_along(const Levels* levels, const Runs* runs) {
    const Levels l = *levels;
    along(*runs, [=](int64_t i, int64_t j) {
        const int64_t *u = l.x + i * l.width, *v = l.x + j * l.width;
        return 0x1p-60 * sum_along(l.width, [=](int64_t t) {
            return size_of(as_doubles(load(u + t) - load(v + t))) * load(l.gaps + t);
        });
    });
    return DONE;
}
