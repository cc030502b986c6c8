// Relaxed bounds of every pair of some rows and some columns, from one block of costs; see
// src/asot/search/relaxed.py.
//
// The relaxed bound of a pair is a sum over its points of minima that many pairs share: tens of nanoseconds. Only pairs
// that it leaves in question look at their own part of the block (relaxed_pair.hpp).
//
// Everything is a lower bound up to a factor of 1 ± 2^-21, since all terms are positive: costs are rounded to float, and
// a difference of two of them is smaller than the larger one. `KEEP` covers that.
#include "limits.hpp"
#include "relaxed_pair.hpp"

// Rows low..high-1 and columns first..last-1; the columns are named as in the collection, without column_start.
struct RelaxedRange {
    int64_t low, high, first, last;
};

struct SinglePairs {
    int64_t n;
    const int64_t *rows, *columns;  // (n,)
    int8_t* possible;               // (n,)
};

// The distinct points of some rows and columns, and where each stands among them.
struct DistinctPoints {
    Memory memory;
    int32_t *place_x, *place_v;  // (V,)
    int64_t *xs, *vs;            // (n_x,), (n_v,) names
    int64_t n_x, n_v;

    static int64_t most(const RelaxedPoints& h, int64_t low, int64_t high) {
        const int64_t entries = h.offsets[high] - h.offsets[low];
        return entries < h.n_points ? entries : h.n_points;
    }
    // Number the points of the distributions low..high-1 in `place`, which is -1 elsewhere; how many there are.
    static int64_t number(const RelaxedPoints& h, int64_t low, int64_t high, int32_t* place, int64_t* names) {
        int64_t count = 0;
        for (int64_t v = 0; v < h.n_points; v++) place[v] = -1;
        for (int64_t t = h.offsets[low]; t < h.offsets[high]; t++) {
            const int64_t v = h.names[t];
            if (place[v] >= 0) continue;
            place[v] = int32_t(count);
            names[count++] = v;
        }
        return count;
    }
    DistinctPoints(const RelaxedPoints& h, const RelaxedRange& range)
        : memory(2 * Memory::bytes_of<int32_t>(h.n_points) + Memory::bytes_of<int64_t>(most(h, range.low, range.high)) +
                 Memory::bytes_of<int64_t>(most(h, range.first, range.last))) {
        if (memory.failed()) return;
        place_x = memory.take<int32_t>(h.n_points), place_v = memory.take<int32_t>(h.n_points);
        xs = memory.take<int64_t>(most(h, range.low, range.high));
        vs = memory.take<int64_t>(most(h, range.first, range.last));
        n_x = number(h, range.low, range.high, place_x, xs);
        n_v = number(h, range.first, range.last, place_v, vs);
    }
};

struct RelaxScratch {
    Memory memory;
    float *nearest_row, *nearest;  // (n_v, n_rows) from a point to the nearest of each row, (stride,)
    double *to_rows, *mass;        // (n_rows,), (entries,) of the rows
    int32_t* place;                // (entries,) in the block
    float* price;                  // (entries,)

    RelaxScratch(int64_t n_v, int64_t n_rows, int64_t stride, int64_t entries)
        : memory(Memory::bytes_of<float>(n_v * n_rows) + Memory::bytes_of<float>(stride) +
                 Memory::bytes_of<double>(n_rows) + Memory::bytes_of<double>(entries) +
                 Memory::bytes_of<int32_t>(entries) + Memory::bytes_of<float>(entries)) {
        if (memory.failed()) return;
        nearest_row = memory.take<float>(n_v * n_rows), nearest = memory.take<float>(stride);
        to_rows = memory.take<double>(n_rows), mass = memory.take<double>(entries);
        place = memory.take<int32_t>(entries), price = memory.take<float>(entries);
    }
};

// From every point of a column to the nearest one of each row.
static void find_nearest_rows(const RelaxScratch& s, const RelaxedPoints& h, const CostBlock& block,
                              const RelaxedRange& range, Stop stop) {
    const int64_t n_rows = range.high - range.low, begin = h.offsets[range.low];
    for (int64_t v = 0; v < block.n_v && *stop == 0; v++) {
        const float* costs = block.costs + v * block.stride;
        for (int64_t i = 0; i < n_rows; i++) {
            float even = INFINITY, odd = INFINITY;
            int64_t e = h.offsets[range.low + i] - begin;
            const int64_t end = h.offsets[range.low + i + 1] - begin;
            for (; e + 1 < end; e += 2) {
                const float first = costs[s.place[e]], second = costs[s.place[e + 1]];
                even = first < even ? first : even;
                odd = second < odd ? second : odd;
            }
            if (e < end && costs[s.place[e]] < even) even = costs[s.place[e]];
            s.nearest_row[v * n_rows + i] = odd < even ? odd : even;
        }
    }
}

// From all points of column j to the rows (to_rows), and from every point of a row to the nearest one of column j.
INLINE void meet_column(const RelaxScratch& s, const RelaxedPoints& h, const CostBlock& block, const int32_t* place_v,
                        int64_t j, int64_t n_rows) {
    double* __restrict to_rows = s.to_rows;
    for (int64_t i = 0; i < n_rows; i++) to_rows[i] = 0.0;
    for (int64_t t = 0; t < block.stride; t += FLOATS) store(s.nearest + t, spread(float(INFINITY)));
    for (int64_t t = h.offsets[j]; t < h.offsets[j + 1]; t++) {
        const int64_t v = place_v[h.names[t]];
        const double mass = double(h.masses[t]) * UNIT;
        const float price = h.prices[h.names[t]];
        const float* __restrict nearest_row = s.nearest_row + v * n_rows;
        for (int64_t i = 0; i < n_rows; i++) to_rows[i] += mass * double(nearest_row[i] < price ? nearest_row[i] : price);
        const float* costs = block.costs + v * block.stride;
        for (int64_t o = 0; o < block.stride; o += FLOATS)
            store(s.nearest + o, lesser(load(s.nearest + o), load(costs + o)));
    }
}

// The relaxed bound of every pair into bounds (rows, columns), in units of mass 1.
//
// Every point ships to the nearest one of the other side. From a column's points to row i: minima over the points of i,
// one number for each point of any column. From a row's points to column j: minima over the points of j.
static int32_t relax(const RelaxedPoints& h, const CostBlock& block, const DistinctPoints& own,
                     const RelaxedRange& range, double* bounds, Stop stop) {
    const int64_t n_rows = range.high - range.low, n_columns = range.last - range.first;
    const int64_t begin = h.offsets[range.low], entries = h.offsets[range.high] - begin;
    const RelaxScratch s(block.n_v, n_rows, block.stride, entries);
    if (s.memory.failed()) return OUT_OF_MEMORY;
    for (int64_t e = 0; e < entries; e++) {
        s.place[e] = own.place_x[h.names[begin + e]];
        s.mass[e] = double(h.masses[begin + e]) * UNIT;
        s.price[e] = h.prices[h.names[begin + e]];
    }
    find_nearest_rows(s, h, block, range, stop);
    for (int64_t j = range.first; j < range.last && *stop == 0; j++) {
        meet_column(s, h, block, own.place_v, j, n_rows);
        for (int64_t i = 0; i < n_rows; i++) {
            double to_column = 0.0;
            for (int64_t e = h.offsets[range.low + i] - begin; e < h.offsets[range.low + i + 1] - begin; e++) {
                const float nearest = s.nearest[s.place[e]];
                to_column += s.mass[e] * double(nearest < s.price[e] ? nearest : s.price[e]);
            }
            bounds[i * n_columns + j - range.first] = (to_column > s.to_rows[i] ? to_column : s.to_rows[i]) * KEEP;
        }
    }
    return DONE;
}

// Relaxed bounds of a range into bounds (rows, columns).
ENTRY asot_relaxed_bounds(const RelaxedPoints* h, const RelaxedCost* cost, const RelaxedRange* range, double* bounds,
                          Stop stop) {
    const DistinctPoints own(*h, *range);
    if (own.memory.failed()) return OUT_OF_MEMORY;
    CostBlock block(*h, *cost, own.n_x, own.n_v);
    if (block.failed()) return OUT_OF_MEMORY;
    block.fill(own.xs, own.n_x, own.vs, own.n_v, stop);
    return relax(*h, block, own, *range, bounds, stop);
}

// Merge bounds (rows, columns) of a range into each row's smallest ones.
ENTRY asot_keep_smallest(const RelaxedRange* range, const double* bounds, int64_t within, const NearestLists* lists) {
    for (int64_t i = range->low; i < range->high; i++) {
        int64_t* columns = lists->columns + (i - lists->top) * lists->count;
        double* smallest = lists->bounds + (i - lists->top) * lists->count;
        for (int64_t j = range->first; j < range->last; j++) {
            const double bound = *bounds++;
            if (bound >= smallest[lists->count - 1] || (within && i == j)) continue;
            insert_column(columns, smallest, lists->count, j, bound);
        }
    }
    return DONE;
}

static int64_t largest_size_of(const RelaxedPoints& h, int64_t low, int64_t high) {
    int64_t largest = 0;
    for (int64_t i = low; i < high; i++) {
        const int64_t size = h.offsets[i + 1] - h.offsets[i];
        largest = size > largest ? size : largest;
    }
    return largest;
}

// Mark in `possible` (rows, columns) the pairs whose bounds are not above the limit of one end. bounds (rows, columns) is
// scratch. doubted (1,): how many pairs the relaxed bound left to the reduced one.
ENTRY asot_relaxed_possible(const RelaxedPoints* h, const RelaxedCost* cost, const RelaxedRange* range,
                            const SearchLimits* search, double* bounds, int8_t* possible, int64_t* doubted) {
    const int64_t start = search->column_start, n_columns = range->last - range->first;
    const RelaxedRange named = {range->low, range->high, start + range->first, start + range->last};
    const DistinctPoints own(*h, named);
    if (own.memory.failed()) return OUT_OF_MEMORY;
    CostBlock block(*h, *cost, own.n_x, own.n_v);
    RelaxedPair pair(largest_size_of(*h, named.low, named.high), largest_size_of(*h, named.first, named.last));
    if (block.failed() || pair.failed()) return OUT_OF_MEMORY;
    block.fill(own.xs, own.n_x, own.vs, own.n_v, search->stop);
    if (relax(*h, block, own, named, bounds, search->stop) != DONE) return OUT_OF_MEMORY;
    *doubted = 0;
    for (int64_t i = range->low; i < range->high && *search->stop == 0; i++) {
        for (int64_t j = range->first; j < range->last; j++) {
            const int64_t at = (i - range->low) * n_columns + j - range->first;
            const double limit = limit_of(*search, i, j);
            bool is_left = bounds[at] <= limit;
            if (is_left) {
                ++*doubted;
                pair.place(*h, cost->cancels != 0, block, own.place_x, own.place_v, i, start + j);
                is_left = pair.reduced(limit) <= limit;
            }
            possible[at] = is_left;
        }
    }
    return DONE;
}

// Mark the single pairs whose reduced bounds are not above the limit of one end.
ENTRY asot_relaxed_singles(const RelaxedPoints* points, const RelaxedCost* cost, const SinglePairs* pairs,
                           const SearchLimits* search) {
    const RelaxedPoints& h = *points;
    int64_t most_x = 0, most_v = 0;
    for (int64_t t = 0; t < pairs->n; t++) {
        const int64_t a = pairs->rows[t], b = search->column_start + pairs->columns[t];
        const int64_t n = h.offsets[a + 1] - h.offsets[a], m = h.offsets[b + 1] - h.offsets[b];
        most_x = n > most_x ? n : most_x, most_v = m > most_v ? m : most_v;
    }
    Memory memory(2 * Memory::bytes_of<int32_t>(h.n_points));
    CostBlock block(h, *cost, most_x, most_v);
    RelaxedPair pair(most_x, most_v);
    if (memory.failed() || block.failed() || pair.failed()) return OUT_OF_MEMORY;
    int32_t* place_x = memory.take<int32_t>(h.n_points);  // only read where a pair has written
    int32_t* place_v = memory.take<int32_t>(h.n_points);
    for (int64_t t = 0; t < pairs->n && *search->stop == 0; t++) {
        const int64_t a = pairs->rows[t], b = search->column_start + pairs->columns[t];
        const int64_t *xs = h.names + h.offsets[a], *vs = h.names + h.offsets[b];
        const int64_t n = h.offsets[a + 1] - h.offsets[a], m = h.offsets[b + 1] - h.offsets[b];
        for (int64_t i = 0; i < n; i++) place_x[xs[i]] = int32_t(i);
        for (int64_t j = 0; j < m; j++) place_v[vs[j]] = int32_t(j);
        block.fill(xs, n, vs, m, search->stop);
        pair.place(h, cost->cancels != 0, block, place_x, place_v, a, b);
        const double limit = limit_of(*search, a, pairs->columns[t]);
        pairs->possible[t] = pair.reduced(limit) <= limit;
    }
    return DONE;
}
