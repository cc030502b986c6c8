// How points are laid out for bounds: centered, and numbered cell by cell.
//
// See src/asot/bounds/short_vectors.py and point_bracket.py.
#include "../common/entry.hpp"
#include "../common/lanes.hpp"
#include "../common/sorting.hpp"

struct Renumbering {
    const int64_t *offsets, *old, *number;  // (N + 1,), (nnz,), (V,) the new number of each point
    int64_t *index, *masses;                // (nnz,)
};

constexpr int64_t ROWS_AT_A_TIME = 64;  // they stay in the nearest cache while column after column is looked at

// The least and the largest number in each column of n ≥ 1 rows of x.
ENTRY asot_column_ends(const double* x, int64_t n, int64_t d, double* low, double* high) {
    for (int64_t c = 0; c < d; c++) low[c] = high[c] = x[c];
    for (int64_t i0 = 0; i0 < n; i0 += ROWS_AT_A_TIME) {
        const int64_t end = i0 + ROWS_AT_A_TIME < n ? i0 + ROWS_AT_A_TIME : n;
        const auto visit = [&](int64_t c) {
            Doubles least = load(low + c), most = load(high + c);
            for (int64_t i = i0; i < end; i++) {
                const Doubles own = load(x + i * d + c);
                least = lesser(own, least), most = larger(own, most);
            }
            store(low + c, least), store(high + c, most);
        };
        int64_t c = 0;
        for (; c + LANES <= d; c += LANES) visit(c);
        if (c < d && d >= LANES) {
            visit(d - LANES);  // some columns twice, which changes nothing
            continue;
        }
        for (; c < d; c++) {
            for (int64_t i = i0; i < end; i++) {
                const double own = x[i * d + c];
                low[c] = own < low[c] ? own : low[c];
                high[c] = own > high[c] ? own : high[c];
            }
        }
    }
    return DONE;
}

// Subtract the mean (d,) from n rows of x and multiply them by a factor, in place; the largest square of a row's length.
ENTRY asot_move_to_mean(double* x, int64_t n, int64_t d, const double* mean, double factor, double* largest_square) {
    const Doubles factors = spread(factor);
    *largest_square = 0.0;
    for (int64_t i = 0; i < n; i++, x += d) {
        Doubles squares = spread(0.0);
        double square = 0.0;
        int64_t c = 0;
        for (; c + LANES <= d; c += LANES) {
            const Doubles moved = (load(x + c) - load(mean + c)) * factors;
            store(x + c, moved);
            squares = squares + moved * moved;
        }
        for (; c < d; c++) {
            x[c] = (x[c] - mean[c]) * factor;
            square += x[c] * x[c];
        }
        square += total(squares);
        *largest_square = square > *largest_square ? square : *largest_square;
    }
    return DONE;
}

// Put the points of distributions low..high-1 in the order of their new numbers, and their masses with them.
ENTRY asot_renumber_points(const Renumbering* of, int64_t low, int64_t high) {
    int64_t most = 0;
    for (int64_t i = low; i < high; i++) {
        const int64_t size = of->offsets[i + 1] - of->offsets[i];
        most = size > most ? size : most;
    }
    Memory memory(2 * Memory::bytes_of<int64_t>(most));
    if (memory.failed()) return OUT_OF_MEMORY;
    int64_t *keys = memory.take<int64_t>(most), *own = memory.take<int64_t>(most);
    for (int64_t i = low; i < high; i++) {
        const int64_t begin = of->offsets[i], size = of->offsets[i + 1] - begin;
        for (int64_t t = 0; t < size; t++) {
            keys[t] = of->number[of->old[begin + t]] << 31 | t;
            own[t] = of->masses[begin + t];
        }
        sort_keys(keys, size);
        for (int64_t t = 0; t < size; t++) {
            of->index[begin + t] = keys[t] >> 31;
            of->masses[begin + t] = own[keys[t] & 0x7FFFFFFF];
        }
    }
    return DONE;
}
