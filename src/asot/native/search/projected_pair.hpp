// Reduced transport of one query and a member, from their costs in float.
//
// Any dual solution of a problem with smaller costs is one of the pair: f_i = min_j c_ij, g_j = min_i c_ij - f_i, and the
// same from the other side. Mass that both have at one place is left out first. Equal means within `equal`; what that
// can be off by, and all other rounding, is subtracted at the end.
#pragma once
#include "../common/metrics.hpp"

constexpr int64_t MOST = 1 << 18;    // distances of a pair; larger pairs have other bounds
constexpr float CLOSED = 1e30f;

struct ProjectedQuery {
    int64_t n, stride, used;  // points, a multiple of 16 above it, coordinates that are not all 0
    const float* points;      // (used, stride), transposed
    const double* masses;     // (n,)
    int64_t code;             // of the norm
    double relative, absolute, equal;
};

struct ProjectedBounds {
    int64_t n;
    const int64_t* rows;  // (n,) members
    double limit;         // bounds above it need not grow
    double* bounds;       // (n,) known ones, which may become larger
};

struct Scratch {
    Memory memory;
    float *costs, *closed, *least, *rest;  // (MOST,), (stride,) three times
    float* beside;                         // (stride,) CLOSED beside the points of the query, else 0
    float* first;                          // (MOST,) by point of the member
    double *sources, *sinks;               // (MOST,), (stride,) mass that is left

    explicit Scratch(const ProjectedQuery& q)
        : memory(2 * Memory::bytes_of<float>(MOST) + 4 * Memory::bytes_of<float>(q.stride) +
                 Memory::bytes_of<double>(MOST) + Memory::bytes_of<double>(q.stride)) {
        if (memory.failed()) return;
        const int64_t stride = q.stride;
        costs = memory.take<float>(MOST), first = memory.take<float>(MOST);
        for (float** each : {&closed, &least, &rest, &beside}) *each = memory.take<float>(stride);
        sources = memory.take<double>(MOST), sinks = memory.take<double>(stride);
        for (int64_t j = 0; j < stride; j++) beside[j] = j < q.n ? 0.0f : CLOSED;
    }
};

template <int64_t code>
static INLINE Floats with_gap(Floats sum, float x, const float* y) {
    if (code == EUCLIDEAN) return plus_squared_gap(sum, spread(x), load(y));
    if (code == CITYBLOCK) return plus_gap(sum, spread(x), load(y));
    return larger_gap(sum, spread(x), load(y));
}

// Costs (n, stride) from points (n, width), of which the query uses the first coordinates; CLOSED beside its points.
template <int64_t code>
static INLINE void fill_costs(const ProjectedQuery& q, const float* points, int64_t n, int64_t width, const Scratch& s,
                              float* costs) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < q.stride; j += FLOATS) {
            Floats even = spread(0.0f), odd = even;  // one sum would wait for itself
            int64_t c = 0;
            for (; c + 1 < q.used; c += 2) {
                even = with_gap<code>(even, points[i * width + c], q.points + c * q.stride + j);
                odd = with_gap<code>(odd, points[i * width + c + 1], q.points + (c + 1) * q.stride + j);
            }
            if (c < q.used) even = with_gap<code>(even, points[i * width + c], q.points + c * q.stride + j);
            const Floats sum = code == CHEBYSHEV ? larger(even, odd) : even + odd;
            store(costs + i * q.stride + j, (code == EUCLIDEAN ? root(sum) : sum) + load(s.beside + j));
        }
}

// The larger of the two relaxed bounds of a member from its costs, less all rounding. If they are `powers`, roots are only
// taken of the smallest.
template <bool powers = false>
static INLINE double relaxed_bound(const ProjectedQuery& q, const double* masses, int64_t n, const Scratch& s) {
    double from_member = 0.0, from_query = 0.0;
    for (int64_t j = 0; j < q.stride; j += FLOATS) store(s.least + j, spread(CLOSED));
    for (int64_t i = 0; i < n; i++) {
        Floats row = spread(CLOSED);
        for (int64_t j = 0; j < q.stride; j += FLOATS) {
            const Floats cost = load(s.costs + i * q.stride + j);
            row = lesser(row, cost);
            store(s.least + j, lesser(load(s.least + j), cost));
        }
        s.first[i] = least(row);
    }
    if (powers) {
        for (int64_t i = n; i < ((n + FLOATS - 1) & -FLOATS); i++) s.first[i] = 0.0f;
        for (int64_t i = 0; i < n; i += FLOATS) store(s.first + i, root(load(s.first + i)));
        for (int64_t j = 0; j < q.stride; j += FLOATS) store(s.least + j, root(load(s.least + j)));
    }
    for (int64_t i = 0; i < n; i++) from_member += masses[i] * double(s.first[i]);
    for (int64_t j = 0; j < q.n; j++) from_query += q.masses[j] * double(s.least[j]);
    return (from_member > from_query ? from_member : from_query) * (1.0 - q.relative) - q.absolute;
}

static INLINE void cancel(const ProjectedQuery& q, int64_t n, const Scratch& s) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < q.n; j++)
            if (double(s.costs[i * q.stride + j]) <= q.equal && s.sources[i] > 0.0 && s.sinks[j] > 0.0) {
                const double common = s.sources[i] < s.sinks[j] ? s.sources[i] : s.sinks[j];
                s.sources[i] -= common;
                s.sinks[j] -= common;
            }
}

// The larger of the two reduced bounds of what is left.
static INLINE double reduced(const ProjectedQuery& q, int64_t n, const Scratch& s) {
    for (int64_t j = 0; j < q.stride; j++) {
        s.closed[j] = j < q.n && s.sinks[j] > 0.0 ? 0.0f : CLOSED;
        s.least[j] = s.rest[j] = CLOSED;
    }
    double from_member = 0.0, from_query = 0.0;
    bool has_source = false, has_sink = false;  // rounding may leave a crumb on one side only
    for (int64_t j = 0; j < q.n; j++) has_sink = has_sink || s.sinks[j] > 0.0;
    for (int64_t i = 0; i < n; i++) has_source = has_source || s.sources[i] > 0.0;
    if (!has_source || !has_sink) return 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (!(s.sources[i] > 0.0)) continue;
        Floats row = spread(CLOSED);
        for (int64_t j = 0; j < q.stride; j += FLOATS) {
            const Floats cost = load(s.costs + i * q.stride + j);
            row = lesser(row, cost + load(s.closed + j));
            store(s.least + j, lesser(load(s.least + j), cost));
        }
        s.first[i] = least(row);
        from_member += s.sources[i] * double(s.first[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        if (!(s.sources[i] > 0.0)) continue;
        const Floats own = spread(s.first[i]);
        Floats row = spread(CLOSED);
        for (int64_t j = 0; j < q.stride; j += FLOATS) {
            const Floats cost = load(s.costs + i * q.stride + j);
            row = lesser(row, cost - load(s.least + j) + load(s.closed + j));
            store(s.rest + j, lesser(load(s.rest + j), cost - own));
        }
        from_query += s.sources[i] * double(least(row));
    }
    for (int64_t j = 0; j < q.n; j++) {
        if (!(s.sinks[j] > 0.0)) continue;
        from_member += s.sinks[j] * double(s.rest[j]);
        from_query += s.sinks[j] * double(s.least[j]);
    }
    return from_member > from_query ? from_member : from_query;
}

// The reduced bound of a member from its costs, less all rounding.
static INLINE double reduced_bound(const ProjectedQuery& q, const double* masses, int64_t n, const Scratch& s) {
    for (int64_t i = 0; i < n; i++) s.sources[i] = masses[i];
    for (int64_t i = 0; i < q.n; i++) s.sinks[i] = q.masses[i];
    cancel(q, n, s);
    return reduced(q, n, s) * (1.0 - q.relative) - q.absolute;
}
