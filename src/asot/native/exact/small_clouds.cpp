// Clouds of up to five points each: eight pairs at a time, by looking at every way to match them; see
// src/asot/exact/small_clouds.py.
#include "../common/metrics.hpp"
#include "line_runs.hpp"
#include "points.hpp"

struct SmallCloudsRecord {
    int64_t size, dim, width;  // points of every cloud; coordinates; from one row of x to the next
    int64_t code;              // of the metric: EUCLIDEAN, CITYBLOCK or CHEBYSHEV
    const double* x;           // (size · dim, width) coordinate c of point a of all clouds in row a · dim + c, room for 8 more
    const double* masses;      // (2, width) of clouds of two points, or null: all are equal
    double flow, scale;        // mass of a point, and what a unit of mass times distance is worth
};

namespace {

// Distances of a cloud (size · dim,) to eight others that begin at y.
template <int N, bool enlarged>
INLINE void distances(const SmallCloudsRecord& s, const double* own, const double* y, Doubles (&d)[N][N]) {
    for (int b = 0; b < N; b++) {
        Doubles sum[N];
        for (int a = 0; a < N; a++) sum[a] = spread(0.0);
        const double* column = y + b * s.dim * s.width;
        for (int64_t c = 0; c < s.dim; c++, column += s.width) {
            const Doubles theirs = load(column);
            for (int a = 0; a < N; a++) {
                const Doubles mine = spread(own[a * s.dim + c]);
                sum[a] = s.code == EUCLIDEAN   ? plus_squared_gap(sum[a], mine, theirs)
                         : s.code == CITYBLOCK ? plus_gap(sum[a], mine, theirs)
                                               : larger_gap(sum[a], mine, theirs);
            }
        }
        for (int a = 0; a < N; a++) {
            if (enlarged && s.code == EUCLIDEAN) sum[a] = lesser(sum[a], spread(LARGEST_SQUARE));
            d[a][b] = s.code == EUCLIDEAN ? root(sum[a]) : sum[a];
        }
    }
}

// The cheapest matching: best[set] is that of the first points with this set of the others'.
template <int N>
INLINE Doubles match(const Doubles (&cost)[N][N]) {
    Doubles best[1 << N];
    best[0] = spread(0.0);
#pragma GCC unroll 32
    for (int set = 1; set < 1 << N; set++) {
        const int a = __builtin_popcount(unsigned(set)) - 1;
        bool found = false;
#pragma GCC unroll 5
        for (int b = 0; b < N; b++) {
            if ((set >> b & 1) == 0) continue;
            const Doubles way = best[set ^ 1 << b] + cost[a][b];
            best[set] = found ? lesser(best[set], way) : way;
            found = true;
        }
    }
    return best[(1 << N) - 1];
}

// Two points with any masses: as much as possible goes from the first point to one of the two, and the rest follows.
INLINE Doubles ship(const Doubles (&d)[2][2], Doubles a1, Doubles a2, Doubles b1, Doubles b2) {
    const Doubles none = spread(0.0);
    const Doubles straight = lesser(a1, b1) * d[0][0] + larger(a1 - b1, none) * d[0][1] + larger(b1 - a1, none) * d[1][0] +
                             lesser(a2, b2) * d[1][1];
    const Doubles crossed = lesser(a1, b2) * d[0][1] + larger(a1 - b2, none) * d[0][0] + larger(b2 - a1, none) * d[1][1] +
                            lesser(a2, b1) * d[1][0];
    return lesser(straight, crossed);
}

// Values of cloud i, whose points are `own`, and the eight that begin at y and have masses from column j on.
template <int N, bool weighted, bool enlarged>
INLINE Doubles values_of(const SmallCloudsRecord& s, const double* own, const double* y, int64_t i, int64_t j) {
    Doubles d[N][N];
    distances<N, enlarged>(s, own, y, d);
    if constexpr (weighted) {
        const double *first = s.masses, *second = first + s.width;
        return ship(d, spread(first[i]), spread(second[i]), load(first + j), load(second + j));
    }
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++) d[a][b] = spread(s.flow) * d[a][b];
    return match<N>(d);
}

// One pair again with enlarged points: its squares have lost digits.
template <int N, bool weighted>
__attribute__((noinline)) double value_enlarged(const SmallCloudsRecord& s, const double* own, int64_t i, int64_t j, double* x) {
    double *y = x + N * s.dim;
    for (int64_t t = 0; t < N * s.dim; t++) {
        x[t] = own[t] * ENLARGED;
        for (int64_t l = 0; l < LANES; l++) y[t * LANES + l] = s.x[t * s.width + j] * ENLARGED;
    }
    SmallCloudsRecord narrow = s;
    narrow.width = LANES;
    const double mine[2] = {weighted ? s.masses[i] : 0.0, weighted ? s.masses[s.width + i] : 0.0};
    double both[2 * LANES];
    for (int64_t l = 0; l < LANES; l++) {
        both[l] = weighted ? s.masses[j] : 0.0;
        both[LANES + l] = weighted ? s.masses[s.width + j] : 0.0;
    }
    both[1] = mine[0], both[LANES + 1] = mine[1];  // lane 1 is nobody's: the row's masses stand there
    narrow.masses = both;
    double values[LANES];
    store(values, values_of<N, weighted, true>(narrow, x, y, 1, 0));
    return values[0] / ENLARGED;
}

template <int N, bool weighted>
int32_t solve(const SmallCloudsRecord& s, const Runs& runs) {
    const int64_t length = N * s.dim;
    Memory memory(Memory::bytes_of<double>(length) + Memory::bytes_of<double>((LANES + 1) * length));
    if (memory.failed()) return OUT_OF_MEMORY;
    double *own = memory.take<double>(length), *enlarged = memory.take<double>((LANES + 1) * length);
    double* value = runs.values;
    const double tiny = s.code == EUCLIDEAN ? TINY * (weighted ? 1.0 : 0x1p60) : 0.0;
    for (int64_t r = 0; r < runs.n; r++) {
        if (*runs.stop != 0) return DONE;
        const int64_t i = runs.rows[r], end = runs.ends[r];
        for (int64_t t = 0; t < length; t++) own[t] = s.x[t * s.width + i];
        for (int64_t j = runs.columns[r]; j < end; j += LANES) {
            const int64_t count = end - j < LANES ? end - j : LANES;
            const Doubles found = values_of<N, weighted, false>(s, own, s.x + j, i, j);
            double some[LANES];
            store(some, found);
            if (least(found) < tiny)
                for (int64_t t = 0; t < count; t++)
                    if (some[t] < tiny) some[t] = value_enlarged<N, weighted>(s, own, i, j + t, enlarged);
            for (int64_t t = 0; t < count; t++) value[t] = some[t] * s.scale;
            value += count;
        }
    }
    return DONE;
}

}  // namespace

ENTRY asot_small_clouds(const SmallCloudsRecord* s, const Runs* runs) {
    if (s->masses != nullptr) return solve<2, true>(*s, *runs);
    switch (s->size) {
        case 1: return solve<1, false>(*s, *runs);
        case 2: return solve<2, false>(*s, *runs);
        case 3: return solve<3, false>(*s, *runs);
        case 4: return solve<4, false>(*s, *runs);
        default: return solve<5, false>(*s, *runs);
    }
}
