// Euclidean distances between long points, by products: ‖x‖² + ‖y‖² - 2⟨x, y⟩ takes one instruction for each coordinate
// where a difference and its square take two, and blocks of points stay in the nearest cache.
//
// What the formula loses to cancellation is repaired: wherever at most a twentieth of ‖x‖² + ‖y‖² is left, the distance is
// summed from differences. Every sum is taken in the order of the coordinates, so that a distance depends on its two points
// alone: not on the block it is in, nor on which of the two comes first, nor on coordinates in which both are 0.
#pragma once
#include "../common/entry.hpp"
#include "../common/lanes.hpp"

constexpr int64_t LONG_POINTS = 64;     // coordinates from which on distances are taken this way
constexpr int64_t PANEL = 2 * LANES;    // points that lie side by side, coordinate by coordinate
constexpr int64_t BAND = 64, PIECE = 256;  // rows, and coordinates, that stay in a cache while all panels pass
constexpr double LEFT = 0.05;           // share of ‖x‖² + ‖y‖² below which a squared distance has lost digits

constexpr int AT_ONCE = REGISTERS == 1 ? 8 : 4, SIDE_BY_SIDE = REGISTERS == 1 ? 2 : 1;  // rows and lanes whose sums fit in registers

INLINE int64_t panels_of(int64_t n) { return (n + PANEL - 1) / PANEL; }

// Points one after the other, or those of them that are named.
struct LongRows {
    const double* first;
    const int32_t* which;  // or null: all
    int64_t width;         // coordinates of each
    INLINE const double* operator[](int64_t i) const { return first + (which != nullptr ? which[i] : i) * width; }
};

// Eight coordinates of eight rows, coordinate by coordinate, PANEL apart.
INLINE void turn_eight(const double* const* rows, int64_t c, double* out) {
#if defined(__AVX512F__)
    typedef Doubles::Register R;
    R pair[LANES], four[LANES];
    for (int r = 0; r < LANES; r += 2) {
        const R a = load(rows[r] + c).part[0], b = load(rows[r + 1] + c).part[0];
        pair[r] = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
        pair[r + 1] = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int r = 0; r < LANES; r++) {  // those of rows 0 to 3, and of rows 4 to 7
        const R a = pair[(r & 4) + (r & 1)], b = pair[(r & 4) + (r & 1) + 2];
        four[r] = (r & 2) == 0 ? __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13)
                               : __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
    }
    for (int r = 0; r < 4; r++) {
        const R a = four[r], b = four[r + 4];
        store(out + r * PANEL, Doubles{{__builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13)}});
        store(out + (r + 4) * PANEL, Doubles{{__builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15)}});
    }
#elif defined(__AVX2__)
    typedef Doubles::Register R;
    for (int l = 0; l < LANES; l += 4) {
        const Doubles x[4] = {load(rows[l] + c), load(rows[l + 1] + c), load(rows[l + 2] + c), load(rows[l + 3] + c)};
        for (int half = 0; half < REGISTERS; half++) {
            const R a = x[0].part[half], b = x[1].part[half], d = x[2].part[half], e = x[3].part[half];
            const R even = __builtin_shufflevector(a, b, 0, 4, 2, 6), odd = __builtin_shufflevector(a, b, 1, 5, 3, 7);
            const R later_even = __builtin_shufflevector(d, e, 0, 4, 2, 6);
            const R later_odd = __builtin_shufflevector(d, e, 1, 5, 3, 7);
            double* place = out + half * 4 * PANEL + l;
            put_register(place, __builtin_shufflevector(even, later_even, 0, 1, 4, 5));
            put_register(place + PANEL, __builtin_shufflevector(odd, later_odd, 0, 1, 4, 5));
            put_register(place + 2 * PANEL, __builtin_shufflevector(even, later_even, 2, 3, 6, 7));
            put_register(place + 3 * PANEL, __builtin_shufflevector(odd, later_odd, 2, 3, 6, 7));
        }
    }
#else
    for (int64_t l = 0; l < LANES; l++)
        for (int64_t t = 0; t < LANES; t++) out[t * PANEL + l] = rows[l][c + t];
#endif
}

// n points as panels of (width, PANEL). The last lanes in which there are points repeat the last one.
inline void lay_panels(const LongRows& y, int64_t n, double* panels) {
    const int64_t whole = y.width & ~(LANES - 1);
    for (int64_t j = 0; j < n; j += LANES) {
        double* place = panels + j / PANEL * PANEL * y.width + j % PANEL;
        const double* rows[LANES];
        for (int64_t l = 0; l < LANES; l++) rows[l] = y[j + l < n ? j + l : n - 1];
        for (int64_t c = 0; c < whole; c += LANES) turn_eight(rows, c, place + c * PANEL);
        for (int64_t c = whole; c < y.width; c++)
            for (int64_t l = 0; l < LANES; l++) place[c * PANEL + l] = rows[l][c];
    }
}

// ‖y‖² of all points in panels, and 0 in lanes without points.
inline void panel_squares(const double* panels, int64_t n, int64_t width, double* squares) {
    for (int64_t j = 0; j < panels_of(n) * PANEL; j += PANEL) {
        Doubles low = spread(0.0), high = low;
        const bool both = j + LANES < n;
        for (int64_t c = 0; c < width; c++, panels += PANEL) {
            const Doubles a = load(panels), b = both ? load(panels + LANES) : high;
            low = fused(a, a, low);
            high = fused(b, b, high);
        }
        store(squares + j, low);
        store(squares + j + LANES, high);
    }
}

// ‖x‖² of all rows, eight at a time, since one sum would wait for itself.
inline void row_squares(const LongRows& x, int64_t n, double* squares) {
    for (int64_t i = 0; i < n; i += LANES) {
        const double* row[LANES];
        double sum[LANES] = {};
        for (int64_t r = 0; r < LANES; r++) row[r] = x[i + r < n ? i + r : n - 1];
        for (int64_t c = 0; c < x.width; c++)
            for (int64_t r = 0; r < LANES; r++) sum[r] = fused(row[r][c], row[r][c], sum[r]);
        for (int64_t r = 0; r < LANES && i + r < n; r++) squares[i + r] = sum[r];
    }
}

struct Product {
    static INLINE Doubles add(Doubles sum, Doubles a, Doubles b) { return fused(a, b, sum); }
};
struct SquaredGap {
    static INLINE Doubles add(Doubles sum, Doubles a, Doubles b) { return plus_squared_gap(sum, a, b); }
};

// Add `width` coordinates of ROWS rows and of WIDE lanes of a panel to sums (ROWS, PANEL). A function by itself, so that
// nothing else asks for registers.
template <class Each, int ROWS, int WIDE>
__attribute__((noinline)) void add_block(const double* const* rows, const double* panel, int64_t width, double* sums) {
    const double* row[ROWS];
    Doubles sum[ROWS][WIDE];
    for (int r = 0; r < ROWS; r++) row[r] = rows[r];
    for (int r = 0; r < ROWS; r++)
        for (int a = 0; a < WIDE; a++) sum[r][a] = load(sums + r * PANEL + a * LANES);
    for (int64_t c = 0; c < width; c++, panel += PANEL) {
        Doubles y[WIDE];
        for (int a = 0; a < WIDE; a++) y[a] = load(panel + a * LANES);
        for (int r = 0; r < ROWS; r++) {
            const Doubles x = spread(row[r][c]);
            for (int a = 0; a < WIDE; a++) sum[r][a] = Each::add(sum[r][a], x, y[a]);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int a = 0; a < WIDE; a++) store(sums + r * PANEL + a * LANES, sum[r][a]);
}

// One panel's part of a long block of distances, and the rows that it belongs to.
struct LongBlock {
    const LongRows& x;
    const int64_t p, q;
    const double *panels, *x_squares, *y_squares;
    double* out;
    const int64_t stride, room;  // from row to row of `out`, and how much of a row is filled

    // Add coordinates begin..end of rows i.. and of the panel at column j to `sums` (AT_ONCE, PANEL), as far as there are
    // rows and columns.
    template <class Each>
    INLINE void add(int64_t i, int64_t j, int64_t begin, int64_t end, double* sums) const {
        const double *row[AT_ONCE], *panel = panels + j * x.width + begin * PANEL;
        for (int64_t r = 0; r < AT_ONCE; r++) row[r] = x[i + r < p ? i + r : p - 1] + begin;
        const bool few = p - i <= AT_ONCE / 2;
        for (int64_t a = 0; a < PANEL && j + a < q;) {
            const bool wide = SIDE_BY_SIDE > 1 && j + a + LANES < q;
            (wide ? (few ? add_block<Each, AT_ONCE / 2, SIDE_BY_SIDE> : add_block<Each, AT_ONCE, SIDE_BY_SIDE>)
                  : (few ? add_block<Each, AT_ONCE / 2, 1> : add_block<Each, AT_ONCE, 1>))(row, panel + a, end - begin,
                                                                                           sums + a);
            a += wide ? SIDE_BY_SIDE * LANES : LANES;
        }
    }

    // Squares from products, differences where those are left with few digits, then roots.
    INLINE void finish(int64_t i, int64_t j, double* products) const {
        double gaps[AT_ONCE * PANEL] = {};
        Doubles lost = spread(0.0);
        for (int64_t r = 0; r < AT_ONCE && i + r < p; r++)
            for (int64_t l = 0; l < PANEL; l += LANES) {
                const Doubles both = spread(x_squares[i + r]) + load(y_squares + j + l);
                const Doubles square = both - spread(2.0) * load(products + r * PANEL + l);
                store(products + r * PANEL + l, square);
                lost = select_less(spread(LEFT) * both, square, lost, spread(1.0));
            }
        if (largest(lost) > 0.0) add<SquaredGap>(i, j, 0, x.width, gaps);
        for (int64_t r = 0; r < AT_ONCE && i + r < p; r++)
            for (int64_t l = 0; l < PANEL && j + l < room; l += LANES) {
                const Doubles both = spread(x_squares[i + r]) + load(y_squares + j + l);
                const Doubles square = load(products + r * PANEL + l), gap = load(gaps + r * PANEL + l);
                const Doubles found = root(select_less(spread(LEFT) * both, square, square, gap));
                double last[LANES], *place = out + (i + r) * stride + j + l;
                const bool fits = j + l + LANES <= room;
                store(fits ? place : last, found);
                for (int64_t t = 0; !fits && j + l + t < room; t++) place[t] = last[t];
            }
    }
};

// Distances of p rows of x to q points in panels (`lay_panels`), into rows of out that are `stride` apart. Each is filled up
// to column `room`, at least q; what is beyond q is finite and means nothing. squares: room for the next multiples of PANEL
// of p and q together. With `half`, the panels hold the first points of x, and only what is on or below the diagonal is
// needed. Once *stop is raised, what is left is not computed.
inline void fill_long(const LongRows& x, int64_t p, const double* panels, int64_t q, double* squares, double* out,
                      int64_t stride, int64_t room, bool half, Stop stop) {
    double *own = squares, *other = squares + panels_of(p) * PANEL;
    row_squares(x, p, own);
    panel_squares(panels, q, x.width, other);
    const LongBlock block{x, p, q, panels, own, other, out, stride, room};
    double sums[BAND / AT_ONCE * AT_ONCE * PANEL];
    for (int64_t begin = 0; begin < p && *stop == 0; begin += BAND) {
        const int64_t end = begin + BAND < p ? begin + BAND : p, columns = half && end < q ? end : q;
        for (int64_t j = 0; j < columns && *stop == 0; j += PANEL) {
            for (double& sum : sums) sum = 0.0;
            for (int64_t c = 0; c < x.width; c += PIECE)
                for (int64_t i = begin; i < end; i += AT_ONCE)
                    block.add<Product>(i, j, c, c + PIECE < x.width ? c + PIECE : x.width, sums + (i - begin) * PANEL);
            for (int64_t i = begin; i < end; i += AT_ONCE) block.finish(i, j, sums + (i - begin) * PANEL);
        }
    }
}
