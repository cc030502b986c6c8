// One or two points against many: a sum, or a split of the many by what the two differ in; see
// src/asot/exact/one_or_two.py.
#include "line_runs.hpp"
#include "packing.hpp"
#include "points.hpp"

struct GivenPoints {
    int64_t n;               // distributions
    const int64_t* offsets;  // (n + 1,)
    const double* points;    // (offsets[n], dim)
    const double* masses;    // (offsets[n],)
};

struct OneOrTwo {
    int64_t dim, code;           // coordinates; of the metric: EUCLIDEAN, CITYBLOCK or CHEBYSHEV
    int64_t exponent;            // out: points are 2^-exponent times what was given
    int64_t most;                // out: room for the largest of the many
    const int64_t* few_offsets;  // (… + 1,) one or two points each
    double* x;                   // (…, dim) points of the few
    int64_t* x_units;            // (…,) their masses, in all 2^60 in a distribution
    const int64_t* offsets;      // (n + 1,) of the many
    int64_t* starts;             // (n + 1,) where they begin once each is padded to whole lanes by points without mass
    double* y;                   // (dim, padded size) of each, from dim · starts[j] on
    double* weights;             // masses of the padded points
    int64_t* units;              // masses of the given points as integers
};

// ------------------------------------------------------------------------------------------------------- preparation

// 2^-exponent times a number: by a product, which is faster, where the power is in range.
struct Scale {
    const int exponent;
    const bool in_range = std::abs(exponent) < 1000;
    const double factor = in_range ? std::ldexp(1.0, -exponent) : 0.0;
    INLINE double of(double x) const { return in_range ? x * factor : std::ldexp(x, -exponent); }
};

// The many, coordinate by coordinate.
static void lay_out(const GivenPoints& many, const OneOrTwo& s, const Scale& scale) {
    quantize_masses(many.offsets, many.n, many.masses, s.units);
    s.starts[0] = 0;
    for (int64_t j = 0; j < many.n; j++) {
        const int64_t begin = many.offsets[j], size = many.offsets[j + 1] - begin, stride = stride_of(size);
        const double* point = many.points + begin * s.dim;
        double *y = s.y + s.dim * s.starts[j], *weight = s.weights + s.starts[j];
        s.starts[j + 1] = s.starts[j] + stride;
        for (int64_t t = 0; t < size; t++) {
            for (int64_t c = 0; c < s.dim; c++) y[c * stride + t] = scale.of(point[t * s.dim + c]);
            weight[t] = double(s.units[begin + t]);
        }
        for (int64_t t = size; t < stride; t++) {
            for (int64_t c = 0; c < s.dim; c++) y[c * stride + t] = y[c * stride];
            weight[t] = 0.0;
        }
    }
}

ENTRY asot_prepare_one_or_two(const GivenPoints* few, const GivenPoints* many, OneOrTwo* out) {
    const int64_t few_size = few->offsets[few->n], size = many->offsets[many->n];
    const double most_few = largest_size(few->points, few_size * out->dim);
    const double most_many = largest_size(many->points, size * out->dim);
    int exponent;
    std::frexp(most_few > most_many ? most_few : most_many, &exponent);
    const Scale scale{exponent};
    out->exponent = exponent;
    for (int64_t t = 0; t < few_size * out->dim; t++) out->x[t] = scale.of(few->points[t]);
    quantize_masses(few->offsets, few->n, few->masses, out->x_units);
    lay_out(*many, *out, scale);
    out->most = 0;
    for (int64_t j = 0; j < many->n; j++) {
        const int64_t stride = out->starts[j + 1] - out->starts[j];
        if (stride > out->most) out->most = stride;
    }
    return DONE;
}

// --------------------------------------------------------------------------------------------------------- the pairs

namespace {

// Distances from x (dim,) to the eight points that begin at y, of points times ENLARGED if asked for.
template <int64_t code, bool enlarged>
INLINE Doubles distances(const double* x, const double* y, int64_t dim, int64_t stride) {
    Doubles sum = spread(0.0);
    for (int64_t c = 0; c < dim; c++) {
        Doubles mine = spread(x[c]), theirs = load(y + c * stride);
        if constexpr (enlarged) mine = mine * spread(ENLARGED), theirs = theirs * spread(ENLARGED);
        sum = code == EUCLIDEAN   ? plus_squared_gap(sum, mine, theirs)
              : code == CITYBLOCK ? plus_gap(sum, mine, theirs)
                                  : larger_gap(sum, mine, theirs);
    }
    if constexpr (enlarged && code == EUCLIDEAN) sum = lesser(sum, spread(LARGEST_SQUARE));
    return code == EUCLIDEAN ? root(sum) : sum;
}

struct Split {
    double gap;    // by how much the first point is farther than the second
    int64_t mass;
};

// Copy the steps with a gap below the pivot (up to it, if `with_it`) to the front of `to`, the others to its end; how many
// are in front, and their mass. No branch depends on a step.
template <bool with_it>
INLINE int64_t divide(const Split* steps, int64_t n, double pivot, Split* to, int64_t& mass) {
    int64_t front = 0, back = n - 1;
    mass = 0;
    for (int64_t i = 0; i < n; i++) {
        const Split step = steps[i];
        const int64_t is_front = with_it ? step.gap <= pivot : step.gap < pivot;
        to[front] = step;
        to[back] = step;
        front += is_front;
        back -= 1 - is_front;
        mass += step.mass & -is_front;
    }
    return front;
}

INLINE double middle(double a, double b, double c) {
    const double low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

// The gap up to which the first point serves, by repeated division of the steps that may hold it. `supply` becomes what
// is left for steps of exactly this gap. `spare` has as much room as `steps`.
INLINE double last_gap(Split* steps, Split* spare, int64_t n, int64_t& supply) {
    uint32_t chance = 0x9E3779B9u;
    const auto some = [&] {
        chance = chance * 1664525u + 1013904223u;
        return steps[int64_t(uint64_t(chance) * uint64_t(n) >> 32)].gap;
    };
    for (;;) {
        const double first = some(), second = some(), pivot = middle(first, second, some());
        int64_t mass, count = divide<false>(steps, n, pivot, spare, mass);
        if (count == 0) {  // the pivot is the least
            count = divide<true>(steps, n, pivot, spare, mass);
            if (supply <= mass || count == n) return pivot;
        }
        Split* rest = spare;
        if (count < n && supply > mass) {
            supply -= mass;
            rest += count;
            count = n - count;
        }
        spare = steps;
        steps = rest;
        n = count;
    }
}

struct Room {
    double *first, *second, *gap;  // (most,) distances to either point, and their differences
    Split *steps, *spare;          // (most,)
};

template <int64_t code, bool enlarged>
INLINE double one_point(const OneOrTwo& s, const double* x, int64_t j) {
    const int64_t begin = s.starts[j], stride = s.starts[j + 1] - begin;
    const double *y = s.y + s.dim * begin, *weight = s.weights + begin;
    Doubles sum = spread(0.0);
    for (int64_t t = 0; t < stride; t += LANES)
        sum = fused(load(weight + t), distances<code, enlarged>(x, y + t, s.dim, stride), sum);
    return total(sum);
}

// Those that are nearer to the first point, by the difference, are served by it until its `supply` ends.
template <int64_t code, bool enlarged>
INLINE double two_points(const OneOrTwo& s, const double* x, int64_t supply, int64_t j, const Room& room) {
    const int64_t begin = s.starts[j], stride = s.starts[j + 1] - begin;
    const int64_t given = s.offsets[j], size = s.offsets[j + 1] - given;
    const double *y = s.y + s.dim * begin, *weight = s.weights + begin;
    for (int64_t t = 0; t < stride; t += LANES) {
        const Doubles a = distances<code, enlarged>(x, y + t, s.dim, stride);
        const Doubles b = distances<code, enlarged>(x + s.dim, y + t, s.dim, stride);
        store(room.first + t, a);
        store(room.second + t, b);
        store(room.gap + t, a - b);
    }
    for (int64_t t = 0; t < size; t++) room.steps[t] = {room.gap[t], s.units[given + t]};
    const double last = last_gap(room.steps, room.spare, size, supply);
    Doubles sum = spread(0.0);
    for (int64_t t = 0; t < stride; t += LANES) {
        const Doubles gap = load(room.gap + t), none = spread(0.0);
        const Doubles second = select_less(spread(last), gap, load(room.second + t), none);
        sum = fused(load(weight + t), select_less(gap, spread(last), load(room.first + t), second), sum);
    }
    double value = total(sum);
    for (int64_t t = 0; t < size; t++) {
        if (room.gap[t] != last) continue;
        const int64_t mass = s.units[given + t], part = mass < supply ? mass : supply;
        value += double(part) * room.first[t] + double(mass - part) * room.second[t];
        supply -= part;
    }
    return value;
}

template <int64_t code, bool enlarged>
INLINE double value_of(const OneOrTwo& s, int64_t i, int64_t j, const Room& room) {
    const int64_t begin = s.few_offsets[i];
    const double* x = s.x + begin * s.dim;
    if (s.few_offsets[i + 1] - begin == 1) return one_point<code, enlarged>(s, x, j);
    return two_points<code, enlarged>(s, x, s.x_units[begin], j, room);
}

template <int64_t code>
int32_t solve(const OneOrTwo& s, const Runs& runs, bool few_are_columns) {
    Memory memory(3 * Memory::bytes_of<double>(s.most) + 2 * Memory::bytes_of<Split>(s.most));
    if (memory.failed()) return OUT_OF_MEMORY;
    Room room;
    room.first = memory.take<double>(s.most), room.second = memory.take<double>(s.most);
    room.gap = memory.take<double>(s.most), room.steps = memory.take<Split>(s.most);
    room.spare = memory.take<Split>(s.most);
    double* value = runs.values;
    for (int64_t r = 0; r < runs.n; r++) {
        for (int64_t c = runs.columns[r]; c < runs.ends[r]; c++) {
            if (*runs.stop != 0) return DONE;
            const int64_t i = few_are_columns ? c : runs.rows[r], j = few_are_columns ? runs.rows[r] : c;
            double found = value_of<code, false>(s, i, j, room);
            if (found < TINY * double(WHOLE)) found = value_of<code, true>(s, i, j, room) / ENLARGED;
            *value++ = std::ldexp(found, int(s.exponent) - MASS_BITS);
        }
    }
    return DONE;
}

}  // namespace

ENTRY asot_one_or_two(const OneOrTwo* s, const Runs* runs, int64_t few_are_columns) {
    if (s->code == EUCLIDEAN) return solve<EUCLIDEAN>(*s, *runs, few_are_columns != 0);
    if (s->code == CITYBLOCK) return solve<CITYBLOCK>(*s, *runs, few_are_columns != 0);
    return solve<CHEBYSHEV>(*s, *runs, few_are_columns != 0);
}
