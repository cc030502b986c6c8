// One-dimensional transport along directions that all pairs share; see asot/baselines/sliced_shared.py.
#include "../common/records.hpp"
#include "lane_sort.hpp"

struct SlicedPoints {
    const int64_t* offsets;  // (N + 1,)
    int64_t n_points, count, width;  // points, directions; width is their number padded to a multiple of LANES
    double* projected;       // (points, width)
    const double* masses;    // (points,), or null where those of a distribution are equal; then these are as well:
    double *z, *cumulative;  // (directions, points) sorted points, and the masses up to each, which end at exactly 1
};

// Sort every column of each of the distributions begin..end-1, in place.
ENTRY asot_sort_uniform(const SlicedPoints* all, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = all->offsets[i + 1] - all->offsets[i];
        int64_t* bits = reinterpret_cast<int64_t*>(all->projected + all->offsets[i] * all->width);
        ordered_bits(bits, n * all->width);
        for (int64_t c = 0; c < all->width; c += LANES) sort_lanes(bits + c, all->width, n);
        ordered_bits(bits, n * all->width);
    }
    return DONE;
}

// The same into z and cumulative.
ENTRY asot_sort_weighted(const SlicedPoints* all, int64_t begin, int64_t end) {
    int64_t longest = 1;
    for (int64_t i = begin; i < end; i++) longest = std::max(longest, all->offsets[i + 1] - all->offsets[i]);
    Memory memory(2 * Memory::bytes_of<double>(longest * LANES));
    if (memory.failed()) return OUT_OF_MEMORY;
    double* values = memory.take<double>(longest * LANES);
    int64_t* keys = memory.take<int64_t>(longest * LANES);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = all->offsets[i], n = all->offsets[i + 1] - first, place_bits = bits_for(n);
        for (int64_t c = 0; c < all->width; c += LANES) {
            for (int64_t t = 0; t < n; t++) store(values + t * LANES, load(all->projected + (first + t) * all->width + c));
            make_keys(values, n, place_bits, keys);
            sort_lanes(keys, LANES, n);
            for (int64_t lane = 0; lane < std::min(LANES, all->count - c); lane++) {
                double *z = all->z + (c + lane) * all->n_points + first, sum = 0.0;
                double* cumulative = all->cumulative + (c + lane) * all->n_points + first;
                for (int64_t t = 0; t < n; t++) {
                    const int64_t place = keys[t * LANES + lane] & ((int64_t(1) << place_bits) - 1);
                    sum += all->masses[first + place];
                    z[t] = values[place * LANES + lane];
                    cumulative[t] = std::min(sum, 1.0);
                }
                cumulative[n - 1] = 1.0;
            }
        }
    }
    return DONE;
}

// Sum over all directions of W_1, for distributions of equal masses.
ENTRY asot_sliced_uniform(const SlicedPoints* all, const Tile* tile) {
    const int64_t width = all->width;
    for (int64_t t = 0; t < tile->n && *tile->stop == 0; t++) {
        int64_t x = all->offsets[tile->rows[t]], y = all->offsets[tile->columns[t]];
        const int64_t n = all->offsets[tile->rows[t] + 1] - x, m = all->offsets[tile->columns[t] + 1] - y, last = x + n;
        // Masses in units of 1 / (n m): m for each point of the one, n for each point of the other.
        int64_t left_x = m, left_y = n;
        Doubles sum = spread(0.0);
        while (x < last) {
            const int64_t moved = std::min(left_x, left_y);
            const double *p = all->projected + x * width, *q = all->projected + y * width;
            Doubles gap = spread(0.0);
            for (int64_t c = 0; c < width; c += LANES) gap = plus_gap(gap, load(p + c), load(q + c));
            sum = fused(spread(double(moved)), gap, sum);
            left_x -= moved, left_y -= moved;
            if (left_x == 0) x++, left_x = m;
            if (left_y == 0) y++, left_y = n;
        }
        tile->values[t] = total(sum) / (double(n) * double(m));
    }
    return DONE;
}

// The same for any masses.
ENTRY asot_sliced_weighted(const SlicedPoints* all, const Tile* tile) {
    for (int64_t t = 0; t < tile->n && *tile->stop == 0; t++) {
        const int64_t x_end = all->offsets[tile->rows[t] + 1], y_end = all->offsets[tile->columns[t] + 1];
        double sum = 0.0;
        for (int64_t c = 0; c < all->count; c++) {
            const double *point = all->z + c * all->n_points, *mass = all->cumulative + c * all->n_points;
            int64_t x = all->offsets[tile->rows[t]], y = all->offsets[tile->columns[t]];
            double before = 0.0;
            while (x < x_end && y < y_end) {
                const double mass_x = mass[x], mass_y = mass[y], now = std::min(mass_x, mass_y);
                sum += (now - before) * std::fabs(point[x] - point[y]);
                before = now;
                x += mass_x <= now;
                y += mass_y <= now;
            }
        }
        tile->values[t] = sum;
    }
    return DONE;
}

// For tests: the places (n, LANES) of numbers (n, LANES) in ascending order, lane by lane.
ENTRY asot_order_in_lanes(const double* values, int64_t n, int64_t* places) {
    const int64_t place_bits = bits_for(n);
    make_keys(values, n, place_bits, places);
    sort_lanes(places, LANES, n);
    for (int64_t t = 0; t < n * LANES; t++) places[t] &= (int64_t(1) << place_bits) - 1;
    return DONE;
}
