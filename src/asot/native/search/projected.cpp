// Reduced transport of one query and members whose points are known in a few coordinates; see src/asot/index/search.py.
//
// Distances in some orthonormal coordinates are no larger than the distances themselves, so any dual solution of the
// smaller problem is one of the pair: f_i = min_j c_ij, g_j = min_i c_ij - f_i, and the same from the other side. Mass
// that both have at one place is left out first. Places are floats, and equal means within `equal`; what that can be
// off by, and all other rounding, is subtracted at the end.
#include "../common/metrics.hpp"

constexpr int64_t WIDE = 16;         // coordinates of a point
constexpr int64_t MOST = 1 << 14;    // distances of a pair; larger pairs have other bounds
constexpr float CLOSED = 1e30f;

struct ProjectedMembers {
    const float* points;   // (P, WIDE)
    const double* masses;  // (P,)
    const int64_t* ends;   // (members,)
};

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
    float *costs, *closed, *least, *rest;  // (MOST,), (stride,) three times
    float* first;                          // (MOST,) by point of the member
    double *sources, *sinks;               // (MOST,), (stride,) mass that is left
};

template <int64_t code>
static INLINE void fill_costs(const ProjectedQuery& q, const float* points, int64_t n, float* costs) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < q.stride; j += FLOATS) {
            Floats sum = spread(0.0f);
            for (int64_t c = 0; c < q.used; c++) {
                const Floats x = spread(points[i * WIDE + c]), y = load(q.points + c * q.stride + j);
                if (code == EUCLIDEAN) sum = plus_squared_gap(sum, x, y);
                else if (code == CITYBLOCK) sum = plus_gap(sum, x, y);
                else sum = larger_gap(sum, x, y);
            }
            store(costs + i * q.stride + j, code == EUCLIDEAN ? root(sum) : sum);
        }
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

template <int64_t code>
static int32_t projected(const ProjectedMembers& m, const ProjectedQuery& q, const ProjectedBounds& wanted,
                         Stop stop) {
    Memory memory(2 * Memory::bytes_of<float>(MOST) + 3 * Memory::bytes_of<float>(q.stride) +
                  Memory::bytes_of<double>(MOST) + Memory::bytes_of<double>(q.stride));
    if (memory.failed()) return OUT_OF_MEMORY;
    const Scratch s{memory.take<float>(MOST),    memory.take<float>(q.stride), memory.take<float>(q.stride),
                    memory.take<float>(q.stride), memory.take<float>(MOST),    memory.take<double>(MOST),
                    memory.take<double>(q.stride)};
    for (int64_t t = 0; t < wanted.n; t++) {
        if ((t & 255) == 0 && *stop != 0) return DONE;
        const int64_t j = wanted.rows[t], begin = j > 0 ? m.ends[j - 1] : 0, n = m.ends[j] - begin;
        if (wanted.bounds[t] > wanted.limit || n * q.stride > MOST) continue;
        if (!(m.points[begin * WIDE] == m.points[begin * WIDE])) continue;  // a member without numbers
        fill_costs<code>(q, m.points + begin * WIDE, n, s.costs);
        for (int64_t i = 0; i < n; i++) s.sources[i] = m.masses[begin + i];
        for (int64_t i = 0; i < q.n; i++) s.sinks[i] = q.masses[i];
        cancel(q, n, s);
        const double bound = reduced(q, n, s) * (1.0 - q.relative) - q.absolute;
        if (bound > wanted.bounds[t]) wanted.bounds[t] = bound;
    }
    return DONE;
}

ENTRY asot_projected_bounds(const ProjectedMembers* members, const ProjectedQuery* query, const ProjectedBounds* wanted,
                            Stop stop) {
    switch (query->code) {
        case EUCLIDEAN: return projected<EUCLIDEAN>(*members, *query, *wanted, stop);
        case CITYBLOCK: return projected<CITYBLOCK>(*members, *query, *wanted, stop);
        default: return projected<CHEBYSHEV>(*members, *query, *wanted, stop);  // no norm is smaller
    }
}
