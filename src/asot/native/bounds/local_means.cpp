// Local means: how they are laid out, and what anchor plans cost between them; see src/asot/estimate/local_means.py.
#include "blocks.hpp"
#include "records.hpp"

constexpr float FAR_AWAY = 1e15f;  // a column that is only padding is far from everything; its square is still a float

struct OwnCells {
    int64_t k, width;
    const int64_t* offsets;                 // (N + 1,)
    const int32_t* anchor;                  // (cells,)
    const double *mass, *mean, *variance;   // (cells,), (cells, width), (cells,)
};

struct MeansTable {
    int64_t k, width;
    const int64_t* offsets;         // (N + 1,)
    const int32_t* anchor;          // (cells,)
    double* mass;                   // flat: (stride,) for each distribution, zeros behind its cells
    float* variance;                // like mass
    const int64_t* mass_offsets;    // (N + 1,)
    int32_t* place;                 // (N, k)
    float* rows;                    // flat: (cells + 3, width)
    const int64_t* column_offsets;  // (N + 1,)
    float* columns;                 // flat: (width, stride) for each distribution
    double* centers;                // (N, width)
};

struct RepricedPairs {
    int64_t n;
    const int64_t *rows, *columns;  // (n,)
    double* prices;                 // (5, n)
    Stop stop;                      // (1,)
};

// The distributions low..high-1.
ENTRY asot_lay_out_means(const OwnCells* cells, const MeansTable* table, int64_t low, int64_t high) {
    const OwnCells& own = *cells;
    const MeansTable& out = *table;
    for (int64_t i = low; i < high; i++) {
        const int64_t m0 = out.mass_offsets[i], stride = out.mass_offsets[i + 1] - m0, begin = own.offsets[i];
        float* column = out.columns + out.column_offsets[i];
        double* center = out.centers + i * own.width;
        for (int64_t u = 0; u < own.k; u++) out.place[i * own.k + u] = -1;
        for (int64_t c = 0; c < own.width; c++) center[c] = 0.0;
        for (int64_t t = 0; t < stride; t++) out.mass[m0 + t] = 0.0, out.variance[m0 + t] = 0.0f;
        for (int64_t t = 0; t < stride * own.width; t++) column[t] = FAR_AWAY;
        for (int64_t t = begin; t < own.offsets[i + 1]; t++) {
            out.place[i * own.k + own.anchor[t]] = int32_t(t - begin);
            out.mass[m0 + t - begin] = own.mass[t];
            out.variance[m0 + t - begin] = float(own.variance[t]);
            for (int64_t c = 0; c < own.width; c++) {
                const double mean = own.mean[t * own.width + c];
                out.rows[t * own.width + c] = float(mean);
                column[c * stride + t - begin] = float(mean);
                center[c] += own.mass[t] * mean;
            }
        }
    }
    return DONE;
}

struct MeansScratch {
    Memory memory;
    float *distance, *f, *g;  // ((n + 3)·stride,), (n,) padded, (stride,)

    MeansScratch(int64_t n, int64_t stride)
        : memory(Memory::bytes_of<float>((n + 3) * stride) + Memory::bytes_of<float>(block_stride(n)) +
                 Memory::bytes_of<float>(stride)) {
        if (memory.failed()) return;
        distance = memory.take<float>((n + 3) * stride);
        f = memory.take<float>(block_stride(n)), g = memory.take<float>(stride);
        for (int64_t i = 0; i < block_stride(n); i++) f[i] = 0.0f;  // `dot` reads the padding, too
    }
};

// A pair of distributions in the table.
struct MeansPair {
    int64_t a, b;
    int64_t i0, j0, n, m, a0, b0, stride;

    INLINE MeansPair(const MeansTable& table, int64_t a, int64_t b)
        : a(a), b(b), i0(table.offsets[a]), j0(table.offsets[b]), n(table.offsets[a + 1] - i0),
          m(table.offsets[b + 1] - j0), a0(table.mass_offsets[a]), b0(table.mass_offsets[b]), stride(block_stride(m)) {}
};

INLINE float spread_out(const MeansTable& table, const MeansPair& pair, float own, int64_t i, int64_t j) {
    return std::sqrt(own * own + table.variance[pair.a0 + i] + table.variance[pair.b0 + j]);
}

// What moves costs, and adds to `spread` what it costs if the points of a cell are spread around their mean.
INLINE double price_of_moves(const MeansTable& table, const MeansPair& pair, const AnchorPlans& plans, int64_t t,
                             const float* distance, double& spread) {
    const int32_t *place_a = table.place + pair.a * table.k, *place_b = table.place + pair.b * table.k;
    double moves = 0.0;
    for (int64_t e = plans.start[t]; e < plans.start[t + 1]; e++) {
        const int64_t i = place_a[plans.source[e]], j = place_b[plans.sink[e]];
        const float own = distance[i * pair.stride + j];
        moves += double(plans.mass[e]) * double(own);
        spread += double(plans.mass[e]) * double(spread_out(table, pair, own, i, j));
    }
    return moves;
}

// The same for what stays in its cell; and begins f with the potentials of the anchors.
INLINE double price_of_rest(const MeansTable& table, const MeansPair& pair, const AnchorPlans& plans,
                            const double* potential, double level, const float* distance, float* f, double& spread) {
    const int32_t* place_b = table.place + pair.b * table.k;
    double stays = 0.0;
    for (int64_t i = 0; i < pair.n; i++) {
        const int64_t u = table.anchor[pair.i0 + i], j = place_b[u];
        f[i] = float((potential[u] - level) * plans.scale * plans.more_scale);
        const int64_t there = j >= 0 ? j : 0;  // without a branch, which would often be guessed wrong
        const double mine = table.mass[pair.a0 + i], other = table.mass[pair.b0 + there];
        const double both = j >= 0 ? (other < mine ? other : mine) : 0.0;
        const float own = distance[i * pair.stride + there];
        stays += both * double(own);
        spread += both * double(spread_out(table, pair, own, i, there));
    }
    return stays;
}

INLINE double worth(const MeansTable& table, const MeansPair& pair, const float* f, const float* g) {
    return dot(table.mass + pair.a0, f, pair.n) + dot(table.mass + pair.b0, g, pair.m);
}

ENTRY asot_reprice_plans(const MeansTable* means, const AnchorPlans* anchor_plans, const RepricedPairs* tile) {
    const MeansTable& table = *means;
    const AnchorPlans& plans = *anchor_plans;
    const int64_t n = tile->n;
    MeansScratch s(most_of(table.offsets, tile->rows, n), block_stride(most_of(table.offsets, tile->columns, n)));
    if (s.memory.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < n && *tile->stop == 0; t++) {
        const MeansPair pair(table, tile->rows[t], tile->columns[t]);
        const double* potential = plans.potential + t * plans.k;
        fill_block(table.rows + pair.i0 * table.width, table.columns + table.column_offsets[pair.b], s.distance, pair.n,
                   table.width, pair.stride);
        double spread = 0.0;
        const double unit = 0x1p-60, moves = price_of_moves(table, pair, plans, t, s.distance, spread);
        spread *= unit;
        const double level = potential[table.anchor[pair.i0]];  // solvers agree on potentials up to a constant, which
                                                                // would round differently
        const double stays = price_of_rest(table, pair, plans, potential, level, s.distance, s.f, spread);
        column_transform(s.distance, s.f, s.g, pair.n, pair.m, pair.stride);
        row_transform(s.distance, s.g, s.f, pair.n, pair.stride);
        const double dual = worth(table, pair, s.f, s.g);
        for (int64_t j = 0; j < pair.m; j++)
            s.g[j] = float((level - potential[table.anchor[pair.j0 + j]]) * plans.scale * plans.more_scale);
        for (int64_t j = pair.m; j < pair.stride; j++) s.g[j] = BARRED;
        row_transform(s.distance, s.g, s.f, pair.n, pair.stride);
        column_transform(s.distance, s.f, s.g, pair.n, pair.m, pair.stride);
        const double other_dual = worth(table, pair, s.f, s.g);
        double* price = tile->prices + t;
        price[0] = stays;
        price[n] = moves * unit;
        price[2 * n] = other_dual > dual ? other_dual : dual;
        price[3 * n] = std::sqrt(squared_gap(table.centers + pair.a * table.width, table.centers + pair.b * table.width,
                                             table.width));
        price[4 * n] = spread;
    }
    return DONE;
}
