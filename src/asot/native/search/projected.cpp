// Reduced transport of one query and members whose points are known in a few coordinates; see src/asot/index/search.py.
//
// Distances in some orthonormal coordinates are no larger than the distances themselves. Most members are ruled out by
// the first half of the coordinates, and most others by relaxed transport in all of them, which needs only roots of the
// smallest squares.
#include "projected_pair.hpp"

constexpr int64_t WIDE = 16;  // coordinates of a point
constexpr int64_t HALF = 6;   // coordinates of the first look

struct ProjectedMembers {
    const float* points;   // (P, WIDE), or of the words (n_words, WIDE)
    const double* masses;  // (P,)
    const int64_t* ends;   // (members,)
    const int32_t* words;  // (P,) rows of `points`, -1 for points without numbers; or null
    int64_t n_words;
};

INLINE const float* place(const ProjectedMembers& m, int64_t i) {
    return m.points + (m.words == nullptr ? i : m.words[i]) * WIDE;
}

// Whether all points have numbers. Files may have been changed by others.
INLINE bool has_numbers(const ProjectedMembers& m, int64_t begin, int64_t n) {
    if (m.words == nullptr) return m.points[begin * WIDE] == m.points[begin * WIDE];
    for (int64_t i = begin; i < begin + n; i++)
        if (m.words[i] < 0 || m.words[i] >= m.n_words) return false;
    return true;
}

// Ask the memory for where the points of a member are, long before they are needed.
static INLINE void fetch_words(const ProjectedMembers& m, int64_t j) {
    const int64_t begin = j > 0 ? m.ends[j - 1] : 0;
    __builtin_prefetch(m.masses + begin);
    __builtin_prefetch(m.masses + begin + 16);
    if (m.words == nullptr) return;
    __builtin_prefetch(m.words + begin);
    __builtin_prefetch(m.words + begin + 16);
}

// Ask it for the points.
static INLINE void fetch(const ProjectedMembers& m, int64_t j) {
    for (int64_t i = j > 0 ? m.ends[j - 1] : 0; i < m.ends[j]; i++)
        if (m.words == nullptr || (m.words[i] >= 0 && m.words[i] < m.n_words)) __builtin_prefetch(place(m, i));
}

// What the coordinates from..to-1 add to the costs, which are squares where the norm is Euclidean.
template <int64_t code>
static INLINE void add_gaps(const ProjectedQuery& q, const ProjectedMembers& m, int64_t begin, int64_t n, int64_t from,
                            int64_t to, const Scratch& s) {
    for (int64_t i = 0; i < n; i++) {
        const float* x = place(m, begin + i);
        for (int64_t j = 0; j < q.stride; j += FLOATS) {
            Floats even = load((from == 0 ? s.beside : s.costs + i * q.stride) + j), odd = spread(0.0f);
            int64_t c = from;
            for (; c + 1 < to; c += 2) {  // one sum would wait for itself
                even = with_gap<code>(even, x[c], q.points + c * q.stride + j);
                odd = with_gap<code>(odd, x[c + 1], q.points + (c + 1) * q.stride + j);
            }
            if (c < to) even = with_gap<code>(even, x[c], q.points + c * q.stride + j);
            store(s.costs + i * q.stride + j, code == CHEBYSHEV ? larger(even, odd) : even + odd);
        }
    }
}

template <int64_t code>
static INLINE double bound_of(const ProjectedQuery& q, const ProjectedMembers& m, int64_t begin, int64_t n,
                              double limit, const Scratch& s) {
    const double* masses = m.masses + begin;
    double bound = -1.0;
    if (q.used > HALF) {
        add_gaps<code>(q, m, begin, n, 0, HALF, s);
        bound = relaxed_bound<code == EUCLIDEAN>(q, masses, n, s);
        if (bound > limit) return bound;
    }
    add_gaps<code>(q, m, begin, n, q.used > HALF ? HALF : 0, q.used, s);
    bound = relaxed_bound<code == EUCLIDEAN>(q, masses, n, s);
    if (bound > limit) return bound;
    if (code == EUCLIDEAN)
        for (int64_t j = 0; j < n * q.stride; j += FLOATS) store(s.costs + j, root(load(s.costs + j)));
    const double more = reduced_bound(q, masses, n, s);
    return more > bound ? more : bound;
}

template <int64_t code>
static int32_t projected(const ProjectedMembers& m, const ProjectedQuery& q, const ProjectedBounds& wanted,
                         Stop stop) {
    const Scratch s(q);
    if (s.memory.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < wanted.n; t++) {
        if ((t & 255) == 0 && *stop != 0) return DONE;
        if (t + 8 < wanted.n) __builtin_prefetch(m.ends + wanted.rows[t + 8]);
        if (t + 4 < wanted.n) fetch_words(m, wanted.rows[t + 4]);
        if (t + 2 < wanted.n) fetch(m, wanted.rows[t + 2]);
        const int64_t j = wanted.rows[t], begin = j > 0 ? m.ends[j - 1] : 0, n = m.ends[j] - begin;
        if (wanted.bounds[t] > wanted.limit || n * q.stride > MOST || !has_numbers(m, begin, n)) continue;
        const double bound = bound_of<code>(q, m, begin, n, wanted.limit, s);
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
