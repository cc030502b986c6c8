// W_p on a line by merging two sorted lists by their cumulative masses; see src/asot/exact/one_dimension.py.
//
// A step of a merge waits for the one before it, so four pairs are walked in turn, and two times four summed side by side.
#include "line_power.hpp"
#include "lines.hpp"

namespace {
constexpr int64_t STRETCH = 32;  // sums of so many steps are added up without loss: errors stay small

INLINE const Station* list_of(const Merged& m, int64_t i) {
    return reinterpret_cast<const Station*>(m.stations) + m.starts[i];
}

struct Walk {
    const Station *first, *second;  // where the lists are at
};

// What eight pairs did in a step.
struct Step {
    int64_t reached[LANES];  // mass shipped so far
    double gaps[LANES];      // signed
};

// Keeps a number out of vectors, and a pointer from being computed otherwise: compilers see four equal walks, and lanes of
// loads from four lists take twice as long.
template <class T>
INLINE void alone(T& x) {
    __asm__("" : "+r"(x));
}

// One step, without a branch, which would be guessed wrong half of the time: both next places are known before it is known
// which of them is taken. A walk that has ended stays where it is, and ships nothing; `may_end` says whether there can be one.
template <bool may_end>
INLINE void step(Walk& walk, const Station* last, int64_t& reached, double& gap) {
    const Station *first = walk.first + 1, *second = walk.second + 1;
    int64_t a = walk.first->reached, b = walk.second->reached;
    gap = walk.first->position - walk.second->position;
    if (may_end) first = first < last ? first : last;
    alone(a), alone(b), alone(first), alone(second);
    walk.first = b < a ? walk.first : first;
    walk.second = b < a ? second : walk.second;
    reached = b < a ? b : a;
}

// Steps of the pairs t..t + 3 in turn. Sums are left to the lanes: only the walks need to wait for themselves.
template <bool may_end>
void walk_four(Walk* walks, const Station* const* last, int64_t t, Step* begin, int64_t steps) {
    Walk a = walks[t], b = walks[t + 1], c = walks[t + 2], d = walks[t + 3];
    int64_t *out = begin->reached + t, *end = out + steps * (2 * LANES);  // one address for all lanes: registers are few
    for (; out != end; out += 2 * LANES) {
        double* gaps = reinterpret_cast<double*>(out + LANES);
        step<may_end>(a, last[t], out[0], gaps[0]);
        step<may_end>(b, last[t + 1], out[1], gaps[1]);
        step<may_end>(c, last[t + 2], out[2], gaps[2]);
        step<may_end>(d, last[t + 3], out[3], gaps[3]);
    }
    walks[t] = a, walks[t + 1] = b, walks[t + 2] = c, walks[t + 3] = d;
}

double merged_carefully(const Merged& m, const Order& order, int64_t i, int64_t j) {
    return carefully(order, 0x1p-60, [&](double scale, auto visit) {
        const Station *first = list_of(m, i), *second = list_of(m, j);
        int64_t done = 0;
        while (done != WHOLE) {
            const int64_t a = first->reached, b = second->reached, level = a < b ? a : b;
            visit(double(level - done), std::fabs(first->position * scale - second->position * scale));
            done = level;
            first += a <= b;
            second += b <= a;
        }
    });
}

template <Kind kind>
INLINE double finish(const Merged& m, const Order& order, double sum, int64_t i, int64_t j) {
    if (kind == FIRST ? sum <= 0x1p1000 : in_range(sum)) return root_of(0x1p-60 * sum, order);
    return merged_carefully(m, order, i, j);
}

// Σ of a stretch for each of eight pairs, after the step in front of it.
template <Kind kind>
INLINE Doubles sum_of(const Step* stretch, const Order& order, int64_t steps) {
    Doubles sum = spread(0.0);
    Lanes before = load(stretch->reached);
    for (const Step* s = stretch + 1; s <= stretch + steps; s++) {
        const Lanes now = load(s->reached);
        sum = sum + as_doubles(now - before) * power<kind>(size_of(load(s->gaps)), order);
        before = now;
    }
    return sum;
}

struct Eight {
    int64_t i[LANES], j[LANES];  // a pair that is not wanted is overwritten by the next
    double* to[LANES];           // where their distances go
};

// Eight pairs, of which the first `count` are wanted.
template <Kind kind>
void merge_eight(const Merged& m, const Order& order, const Eight& eight, int64_t count, Step* stretch) {
    const int64_t *i = eight.i, *j = eight.j;
    Walk walks[LANES];
    const Station* last[LANES];
    store(stretch->reached, spread(0));
    int64_t steps[LANES], most[2] = {-1, -1}, least[2] = {INT64_MAX, INT64_MAX};  // of each half
    const int64_t walked = count <= 4 ? 4 : 8;
    for (int64_t t = 0; t < walked; t++) {
        walks[t] = {list_of(m, i[t]), list_of(m, j[t])};
        last[t] = list_of(m, i[t] + 1) - 1;
        steps[t] = (list_of(m, i[t] + 1) - walks[t].first) + (list_of(m, j[t] + 1) - walks[t].second) - 1;
        most[t / 4] = steps[t] > most[t / 4] ? steps[t] : most[t / 4];
        least[t / 4] = steps[t] < least[t / 4] ? steps[t] : least[t / 4];
    }
    const int64_t longest = most[0] > most[1] ? most[0] : most[1];
    Doubles sum = spread(0.0), lost = spread(0.0);
    for (int64_t begin = 0; begin <= longest; begin += STRETCH) {
        const int64_t taken = longest - begin < STRETCH ? longest - begin : STRETCH;
        for (int64_t t = 0; t < walked; t += 4) {
            const int64_t left = most[t / 4] - begin, now = left < 0 ? 0 : left < STRETCH ? left : STRETCH;
            const auto walk = begin + now < least[t / 4] ? walk_four<false> : walk_four<true>;
            walk(walks, last, t, stretch + 1, now);
            for (int64_t s = now + 1; s <= taken; s++)
                for (int64_t u = t; u < t + 4; u++)  // no mass, times no gap: those left by others may be infinite
                    stretch[s].reached[u] = WHOLE, stretch[s].gaps[u] = 0.0;
        }
        const Doubles more = sum_of<kind>(stretch, order, taken) - lost, next = sum + more;
        lost = (next - sum) - more;
        sum = next;
        store(stretch->reached, load(stretch[taken].reached));
        double sums[LANES];
        store(sums, sum);
        for (int64_t t = 0; t < count; t++)  // at its own end, however long the others are
            if (steps[t] / STRETCH == begin / STRETCH) *eight.to[t] = finish<kind>(m, order, sums[t], i[t], j[t]);
    }
}

// Pairs of lists of about one length end together, so a long run takes its columns by their lengths, and the next one
// begins where it has ended.
template <Kind kind>
void merge_all(const Merged& m, const Order& order, const Runs& runs) {
    Eight eight = {};
    Step stretch[STRETCH + 1] = {};  // the first one: what was done before
    double* values = runs.values;
    int64_t count = 0;
    for (int64_t r = 0; r < runs.n; r++) {
        const int64_t first = runs.columns[r], length = runs.ends[r] - first;
        const bool by_length = m.by_length != nullptr && length * LANES > m.n;
        const int64_t looks = by_length ? m.n : length;
        for (int64_t look = 0; look < looks; look++) {
            if (count == 0 && *runs.stop != 0) return;
            const int64_t place = by_length ? m.by_length[r & 1 ? looks - 1 - look : look] - first : look;
            eight.i[count] = runs.rows[r], eight.j[count] = first + place, eight.to[count] = values + place;
            count += uint64_t(place) < uint64_t(length);
            if (kind == ANY && count == 1) {
                *eight.to[0] = merged_carefully(m, order, eight.i[0], eight.j[0]);
                count = 0;
            } else if (count == LANES) {
                merge_eight<kind>(m, order, eight, count, stretch);
                count = 0;
            }
        }
        values += length;
    }
    if (count == 0) return;
    for (int64_t t = count; t < LANES; t++) eight.i[t] = eight.i[0], eight.j[t] = eight.j[0];
    merge_eight<kind>(m, order, eight, count, stretch);
}
}  // namespace

ENTRY asot_line_merge(const Merged* m, const Runs* runs) {
    const Order order(m->p);
    if (order.kind == FIRST) merge_all<FIRST>(*m, order, *runs);
    if (order.kind == SECOND) merge_all<SECOND>(*m, order, *runs);
    if (order.kind == HALVES) merge_all<HALVES>(*m, order, *runs);
    if (order.kind == ANY) merge_all<ANY>(*m, order, *runs);
    return DONE;
}
