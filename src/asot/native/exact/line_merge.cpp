// W_p on a line by merging two sorted lists by their cumulative masses; see src/asot/exact/one_dimension.py.
//
// A step of a merge waits for the one before it, so four pairs are merged in turn.
#include "line_power.hpp"
#include "lines.hpp"

namespace {
constexpr int64_t STRETCH = 32;  // sums of so many steps are added up without loss: errors stay small

INLINE const Station* list_of(const Merged& m, int64_t i) {
    return reinterpret_cast<const Station*>(m.stations) + m.starts[i];
}

struct Walk {
    const Station *first, *second;  // where the lists are at
    int64_t done;                   // mass shipped so far
    double part, sum, lost;         // of the latest steps; of those before; what the latter has too much

    INLINE Walk(const Merged& m, int64_t i, int64_t j)
        : first(list_of(m, i)), second(list_of(m, j)), done(0), part(0.0), sum(0.0), lost(0.0) {}
    template <Kind kind>
    INLINE void step(const Order& order) {
        const int64_t a = first->reached, b = second->reached, level = a < b ? a : b;
        part += double(level - done) * power<kind>(std::fabs(first->position - second->position), order);
        done = level;
        const int64_t is_first = a <= b;  // as a number: a branch would be guessed wrong half of the time
        first += is_first;
        second += 1 - is_first;
    }
    INLINE void add_up() {
        const double more = part - lost, next = sum + more;
        lost = (next - sum) - more;
        sum = next, part = 0.0;
    }
    template <Kind kind>
    INLINE void go_on(const Order& order, int64_t taken) {  // to the end, after so many steps of a stretch
        while (done != WHOLE) {
            for (; taken < STRETCH && done != WHOLE; taken++) step<kind>(order);
            if (taken < STRETCH) break;
            add_up();
            taken = 0;
        }
        add_up();
    }
};

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

// Four pairs (i[t], j[t]), for as long as none of them has ended in turn, then one by one.
template <Kind kind>
void merge_four(const Merged& m, const Order& order, const int64_t* i, const int64_t* j, double* values) {
    int64_t common = INT64_MAX;
    for (int t = 0; t < 4; t++) {  // one of the lists advances in each step
        const int64_t steps = m.starts[i[t] + 1] - m.starts[i[t]] + m.starts[j[t] + 1] - m.starts[j[t]] - 1;
        common = steps < common ? steps : common;
    }
    Walk a(m, i[0], j[0]), b(m, i[1], j[1]), c(m, i[2], j[2]), d(m, i[3], j[3]);
    // Stretches are those of each pair, however long the others are: its sum does not depend on them.
    for (int64_t left = common; left > 0; left -= STRETCH) {
        const int64_t now = left < STRETCH ? left : STRETCH;
        for (int64_t s = 0; s < now; s++) {
            a.step<kind>(order);
            b.step<kind>(order);
            c.step<kind>(order);
            d.step<kind>(order);
        }
        if (now == STRETCH) a.add_up(), b.add_up(), c.add_up(), d.add_up();
    }
    const int64_t taken = common % STRETCH;
    a.go_on<kind>(order, taken), b.go_on<kind>(order, taken), c.go_on<kind>(order, taken), d.go_on<kind>(order, taken);
    values[0] = finish<kind>(m, order, a.sum, i[0], j[0]);
    values[1] = finish<kind>(m, order, b.sum, i[1], j[1]);
    values[2] = finish<kind>(m, order, c.sum, i[2], j[2]);
    values[3] = finish<kind>(m, order, d.sum, i[3], j[3]);
}

template <Kind kind>
void merge_all(const Merged& m, const Order& order, const Runs& runs) {
    int64_t i[4], j[4], place = 0, count = 0;
    for (int64_t r = 0; r < runs.n; r++) {
        for (int64_t column = runs.columns[r]; column < runs.ends[r]; column++) {
            if (count == 0 && *runs.stop != 0) return;
            i[count] = runs.rows[r], j[count] = column;
            if (kind == ANY) {
                runs.values[place++] = merged_carefully(m, order, i[0], j[0]);
            } else if (++count == 4) {
                merge_four<kind>(m, order, i, j, runs.values + place);
                place += 4, count = 0;
            }
        }
    }
    if (count == 0) return;
    double values[4];
    for (int64_t t = count; t < 4; t++) i[t] = i[0], j[t] = j[0];
    merge_four<kind>(m, order, i, j, values);
    for (int64_t t = 0; t < count; t++) runs.values[place + t] = values[t];
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
