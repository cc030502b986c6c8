// What the tables of a search are made from: means of sorted coordinates, and potentials extended to all points.
//
// See src/asot/search/projections.py and dual_pool.py.
#include "../common/metrics.hpp"

struct SortedMasses {
    int64_t n_points, shares;
    const int64_t* order;             // (V,) points in ascending order of y
    const double* y;                  // (V,)
    const int64_t *starts, *owners;   // (V + 1,), (nnz,) who has each point
    const double* masses;             // (nnz,)
    double *filled, *bins;            // (N,) the mass met so far, (N, shares)
};

struct PoolPotentials {
    int64_t d, width, stride, count;   // coordinates of points and of the support; potentials
    const double* support;             // (width, stride), transposed
    int64_t code;                      // of the ground metric
    double order;
    const int64_t *starts, *place;     // (count + 1,), (heights,) columns of the support
    const double* heights;             // (heights,)
};

// Integrals of every distribution's quantile function over equal shares of mass.
ENTRY asot_fill_shares(const SortedMasses* sorted) {
    const SortedMasses& s = *sorted;
    const int64_t shares = s.shares;
    for (int64_t t = 0; t < s.n_points; t++) {
        const int64_t v = s.order[t];
        for (int64_t e = s.starts[v]; e < s.starts[v + 1]; e++) {
            const int64_t i = s.owners[e];
            double mass = s.masses[e], position = s.filled[i];
            double* bins = s.bins + i * shares;
            int64_t share = int64_t(position * double(shares));
            share = share < shares - 1 ? share : shares - 1;
            while (share < shares - 1 && mass > double(share + 1) / double(shares) - position) {
                const double room = double(share + 1) / double(shares) - position;
                bins[share] += room * s.y[v];
                mass -= room;
                share++;
                position = double(share) / double(shares);
            }
            bins[share] += mass * s.y[v];
            s.filled[i] = position + mass;
        }
    }
    return DONE;
}

// The least height + distance of one point, by potential.
INLINE void extend_row(const PoolPotentials& p, const double* distance, double* out) {
    for (int64_t m = 0; m < p.count; m++) {
        double even = INFINITY, odd = INFINITY;
        int64_t s = p.starts[m];
        const int64_t end = p.starts[m + 1];
        for (; s + 1 < end; s += 2) {
            const double first = p.heights[s] + distance[p.place[s]];
            const double second = p.heights[s + 1] + distance[p.place[s + 1]];
            even = first < even ? first : even;
            odd = second < odd ? second : odd;
        }
        if (s < end) {
            const double last = p.heights[s] + distance[p.place[s]];
            even = last < even ? last : even;
        }
        out[m] = odd < even ? odd : even;
    }
}

// Every potential at n points (n, d), into out (n, count).
ENTRY asot_extend_potentials(const PoolPotentials* pool, const double* points, int64_t n, double* out, Stop stop) {
    const PoolPotentials& p = *pool;
    Memory memory(Memory::bytes_of<double>((n + 1) * p.width) + Memory::bytes_of<double>((n + 1) * p.stride));
    if (memory.failed()) return OUT_OF_MEMORY;
    double *x = memory.take<double>((n + 1) * p.width), *distance = memory.take<double>((n + 1) * p.stride);
    for (int64_t i = 0; i <= n; i++)
        for (int64_t c = 0; c < p.width; c++) x[i * p.width + c] = i < n && c < p.d ? points[i * p.d + c] : 0.0;
    fill_distances(p.code, p.order, x, p.support, n, p.stride, p.width, distance, stop);
    for (int64_t i = 0; i < n && *stop == 0; i++) extend_row(p, distance + i * p.stride, out + i * p.count);
    return DONE;
}
