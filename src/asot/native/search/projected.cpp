// Reduced transport of one query and members whose points are known in a few coordinates; see src/asot/index/search.py.
//
// Distances in some orthonormal coordinates are no larger than the distances themselves.
#include "projected_pair.hpp"

constexpr int64_t WIDE = 16;  // coordinates of a point

struct ProjectedMembers {
    const float* points;   // (P, WIDE)
    const double* masses;  // (P,)
    const int64_t* ends;   // (members,)
};

template <int64_t code>
static int32_t projected(const ProjectedMembers& m, const ProjectedQuery& q, const ProjectedBounds& wanted,
                         Stop stop) {
    const Scratch s(q);
    if (s.memory.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < wanted.n; t++) {
        if ((t & 255) == 0 && *stop != 0) return DONE;
        const int64_t j = wanted.rows[t], begin = j > 0 ? m.ends[j - 1] : 0, n = m.ends[j] - begin;
        if (wanted.bounds[t] > wanted.limit || n * q.stride > MOST) continue;
        if (!(m.points[begin * WIDE] == m.points[begin * WIDE])) continue;  // a member without numbers
        fill_costs<code>(q, m.points + begin * WIDE, n, WIDE, s, s.costs);
        double bound = relaxed_bound(q, m.masses + begin, n, s);
        if (bound <= wanted.limit) {
            const double more = reduced_bound(q, m.masses + begin, n, s);
            bound = more > bound ? more : bound;
        }
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
