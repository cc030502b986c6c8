// Relaxed and reduced transport of one query and members that share a vocabulary; see src/asot/index/search.py.
//
// What a word costs to every point of the query is computed when a member first needs it, and kept for all others. From
// a member's words to the nearest points of the query it then takes one number per word.
#include "projected_pair.hpp"

struct WordMembers {
    int64_t n_words, d;
    const float* vocabulary;  // (n_words, d)
    const int32_t* words;     // (P,) of the vocabulary; -1: has no numbers
    const double* masses;     // (P,)
    const int64_t* ends;      // (members,)
};

// Costs of words that are known so far.
struct WordCosts {
    int64_t room;    // rows
    int64_t* used;   // (1,)
    float* rows;     // (room, stride)
    int32_t* places; // (n_words,) row of a word, or -1
    float* nearest;  // (n_words,) the smallest number of its row
};

struct WordBounds {
    int64_t n;
    const int64_t* rows;  // (n,) members, or null: the first n
    int64_t reduces;      // whether bounds that are not above the limit are reduced
    double limit;         // bounds above it need not grow
    double* bounds;       // (n,) known ones, which may become larger
};

// The row of a word; it goes to `spare` (stride,) if there is no more room.
template <int64_t code>
static INLINE const float* row_of(const WordMembers& m, const ProjectedQuery& q, const WordCosts& c, int64_t word,
                                  const Scratch& s, float* spare) {
    if (c.places[word] >= 0) return c.rows + c.places[word] * q.stride;
    float* row = spare;
    if (*c.used < c.room) {
        c.places[word] = int32_t(*c.used);
        row = c.rows + (*c.used)++ * q.stride;
    }
    fill_costs<code>(q, m.vocabulary + word * m.d, 1, m.d, s, row);
    Floats nearest = load(row);
    for (int64_t j = FLOATS; j < q.stride; j += FLOATS) nearest = lesser(nearest, load(row + j));
    c.nearest[word] = least(nearest);
    return row;
}

// The larger of the two relaxed bounds, with all costs in `s`, or the first one if it is above the limit; negative for a
// member without numbers.
template <int64_t code>
static INLINE double relaxed(const WordMembers& m, const ProjectedQuery& q, const WordCosts& c, int64_t begin,
                             int64_t n, double limit, const Scratch& s) {
    double from_member = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t word = m.words[begin + i];
        if (word < 0 || word >= m.n_words) return -1.0;
        if (c.places[word] < 0) row_of<code>(m, q, c, word, s, s.costs);
        from_member += m.masses[begin + i] * double(c.nearest[word]);
    }
    const double bound = from_member * (1.0 - q.relative) - q.absolute;
    if (bound > limit) return bound;
    for (int64_t i = 0; i < n; i++) {
        float* costs = s.costs + i * q.stride;
        const float* row = row_of<code>(m, q, c, m.words[begin + i], s, costs);
        for (int64_t j = 0; j < q.stride; j += FLOATS) store(costs + j, load(row + j));
    }
    return relaxed_bound(q, m.masses + begin, n, s);
}

template <int64_t code>
static int32_t by_words(const WordMembers& m, const ProjectedQuery& q, const WordCosts& c, const WordBounds& wanted,
                        Stop stop) {
    const Scratch s(q);
    if (s.memory.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < wanted.n; t++) {
        if ((t & 255) == 0 && *stop != 0) return DONE;
        const int64_t j = wanted.rows == nullptr ? t : wanted.rows[t];
        const int64_t begin = j > 0 ? m.ends[j - 1] : 0, n = m.ends[j] - begin;
        if (wanted.bounds[t] > wanted.limit || n * q.stride > MOST) continue;
        double bound = relaxed<code>(m, q, c, begin, n, wanted.limit, s);
        if (wanted.reduces && bound >= -q.absolute && bound <= wanted.limit) {
            const double more = reduced_bound(q, m.masses + begin, n, s);
            bound = more > bound ? more : bound;
        }
        if (bound > wanted.bounds[t]) wanted.bounds[t] = bound;
    }
    return DONE;
}

ENTRY asot_word_bounds(const WordMembers* members, const ProjectedQuery* query, const WordCosts* costs,
                       const WordBounds* wanted, Stop stop) {
    switch (query->code) {
        case EUCLIDEAN: return by_words<EUCLIDEAN>(*members, *query, *costs, *wanted, stop);
        case CITYBLOCK: return by_words<CITYBLOCK>(*members, *query, *costs, *wanted, stop);
        default: return by_words<CHEBYSHEV>(*members, *query, *costs, *wanted, stop);  // no norm is smaller
    }
}
