// One-dimensional transport along directions that every pair draws for itself; see fresh_directions.py of asot-paper.
//
// The random numbers of a pair depend on the seed and on the two indices, and on nothing else: not on threads, tiles or
// other pairs. Directions are made, projected on and sorted eight at a time, one in each lane of a vector.
//
// A direction is a vector of normal numbers, divided by its length. Of those numbers a pair needs the ones in coordinates
// where some point of it is not 0. The squares of all others enter the length, and their sum is drawn at once, as one
// number of the χ² distribution: the directions have the law they should have, for a fraction of the work.
#include "../common/records.hpp"
#include "lane_sort.hpp"
#include "merged.hpp"

// The output function of SplitMix64: scatters the bits of a counter.
static uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

struct RandomStream {
    uint64_t state;

    RandomStream(int64_t seed, int64_t a, int64_t b) {  // of the pair (a, b)
        uint64_t key = mixed(uint64_t(seed) + 0x9E3779B97F4A7C15u);
        key = mixed(key ^ (uint64_t(a) + 0xD1B54A32D192ED03u));
        state = mixed(key ^ (uint64_t(b) + 0x8CB92BA72F3D8DD7u));
    }
    double uniform() {  // in [0, 1)
        state += 0x9E3779B97F4A7C15u;
        return double(mixed(state) >> 11) * 0x1p-53;
    }
    // Two independent standard normal numbers (Marsaglia's polar method).
    void normals(double& p, double& q) {
        while (true) {
            p = 2.0 * uniform() - 1.0;
            q = 2.0 * uniform() - 1.0;
            const double s = p * p + q * q;
            if (0.0 < s && s < 1.0) {
                const double factor = std::sqrt(-2.0 * std::log(s) / s);
                p *= factor, q *= factor;
                return;
            }
        }
    }
    // The sum of k squares of standard normal numbers (Marsaglia and Tsang's method for the gamma distribution).
    double chi_square(int64_t k) {
        double p, unused;
        if (k == 0) return 0.0;
        if (k == 1) {
            normals(p, unused);
            return p * p;
        }
        const double d = 0.5 * double(k) - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
        while (true) {
            normals(p, unused);
            const double root = 1.0 + c * p;
            if (!(root > 0.0)) continue;
            const double cube = root * root * root;
            if (std::log(1.0 - uniform()) < 0.5 * p * p + d * (1.0 - cube + std::log(cube))) return 2.0 * d * cube;
        }
    }
    // Eight directions in `dim` dimensions, restricted to `used` of them: (used, LANES).
    void directions(int64_t used, int64_t dim, double* out) {
        for (int64_t lane = 0; lane < LANES; lane++) {
            double square = chi_square(dim - used);
            for (int64_t c = 0; c < used; c += 2) {
                double p, q;
                normals(p, q);
                out[c * LANES + lane] = p;
                square += p * p;
                if (c + 1 < used) {
                    out[(c + 1) * LANES + lane] = q;
                    square += q * q;
                }
            }
            const double scale = 1.0 / std::sqrt(square);
            for (int64_t c = 0; c < used; c++) out[c * LANES + lane] *= scale;
        }
    }
};

// Projections of a member on eight directions, (points, LANES).
static void project(const MergedCollection& points, int64_t i, const int32_t* place, const double* directions,
                    double* projected) {
    const int64_t used = points.used_offsets[i + 1] - points.used_offsets[i];
    const double* x = points.packed + points.packed_offsets[i];
    for (int64_t t = 0; t < size_of_member(points, i); t++, x += used) {
        Doubles sum = spread(0.0);
        for (int64_t c = 0; c < used; c++)
            if (x[c] != 0.0) sum = fused(spread(x[c]), load(directions + place[c] * LANES), sum);
        store(projected + t * LANES, sum);
    }
}

// Σ |F - G| · gap over the first `lanes` lanes of n projected points with signed masses.
static double sum_of_gaps(const double* projected, const double* signed_masses, int64_t n, int64_t place_bits,
                          int64_t* keys, int64_t lanes) {
    make_keys(projected, n, place_bits, keys);
    sort_lanes(keys, LANES, n);
    double z[LANES], before[LANES] = {}, weight[LANES], sums[LANES];
    Doubles cumulative = spread(0.0), sum = cumulative;
    for (int64_t k = 0; k < n; k++) {
        for (int64_t lane = 0; lane < LANES; lane++) {
            const int64_t i = keys[k * LANES + lane] & ((int64_t(1) << place_bits) - 1);
            z[lane] = projected[i * LANES + lane];
            weight[lane] = signed_masses[i];
        }
        if (k > 0) sum = fused(size_of(cumulative), load(z) - load(before), sum);
        cumulative = cumulative + load(weight);
        store(before, load(z));
    }
    store(sums, sum);
    double all = 0.0;
    for (int64_t lane = 0; lane < lanes; lane++) all += sums[lane];
    return all;
}

// Sum over fresh directions of W_1 of every pair, in the units of packed points. most: points of two members together.
ENTRY asot_sliced_fresh(const MergedCollection* points, const Tile* tile, int64_t count, int64_t seed, int64_t most) {
    Memory memory(2 * Memory::bytes_of<int32_t>(points->dim) + Memory::bytes_of<double>(points->dim * LANES) +
                  2 * Memory::bytes_of<double>(most * LANES) + Memory::bytes_of<double>(most));
    if (memory.failed()) return OUT_OF_MEMORY;
    int32_t *place_a = memory.take<int32_t>(points->dim), *place_b = memory.take<int32_t>(points->dim);
    double *directions = memory.take<double>(points->dim * LANES), *projected = memory.take<double>(most * LANES);
    int64_t* keys = memory.take<int64_t>(most * LANES);
    double* signed_masses = memory.take<double>(most);
    for (int64_t t = 0; t < tile->n && *tile->stop == 0; t++) {
        const int64_t a = tile->rows[t], b = tile->columns[t];
        const int64_t n = size_of_member(*points, a), both = n + size_of_member(*points, b);
        RandomStream stream(seed, a, b);
        const int64_t used = merge_used(points->used_offsets, points->used, a, b, place_a, place_b);
        for (int64_t i = 0; i < n; i++) signed_masses[i] = points->masses[points->offsets[a] + i];
        for (int64_t i = n; i < both; i++) signed_masses[i] = -points->masses[points->offsets[b] + i - n];
        double sum = 0.0;
        for (int64_t first = 0; first < (used > 0 ? count : 0); first += LANES) {
            stream.directions(used, points->dim, directions);
            project(*points, a, place_a, directions, projected);
            project(*points, b, place_b, directions, projected + n * LANES);
            sum += sum_of_gaps(projected, signed_masses, both, bits_for(both), keys, std::min(LANES, count - first));
        }
        tile->values[t] = sum;
    }
    return DONE;
}

// Eight directions at a time of the pair (a, b), (blocks, used, LANES), for tests.
ENTRY asot_directions_of_pair(const int64_t* seed_a_b, int64_t used, int64_t dim, int64_t blocks, double* out) {
    RandomStream stream(seed_a_b[0], seed_a_b[1], seed_a_b[2]);
    for (int64_t block = 0; block < blocks; block++) stream.directions(used, dim, out + block * used * LANES);
    return DONE;
}
