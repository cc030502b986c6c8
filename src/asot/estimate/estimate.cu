// The features of calibrated estimates from the optimal trees of the anchor problems, and the estimates themselves
// (docs/method.md §7).
//
// `price_means` does for a pair what `asot.bounds.local_means` does on the CPU: TEAM lanes take a pair, lay out the
// distances between its local means, price the anchor plan with them, and make potentials feasible for them. All lanes
// of a warp go through the same steps together, so that every barrier is one of the whole warp.
//
// Defines: WIDTH (coordinates), TEAM (8, 16 or 32 lanes), FAR (0 or 1): whether distances lie in global memory, and
// THREADS of a block at most. Numbers of a whole run: nodes (anchors), most_cells (of a distribution) and team_bytes of
// shared memory.

constexpr int TEAMS = 32 / TEAM;
constexpr double NOWHERE = 1e300;  // beyond all potentials
constexpr double MOST = 1e100;     // features are at most this

// What every distribution has near each anchor (`asot.bounds.local_means`), with both collections one after the other.
struct Cells {
    const i64* offsets;     // (N + 1,)
    const int* anchor;      // (cells,)
    const double* mass;     // (cells,)
    const float* variance;  // (cells,)
    const float* mean;      // (cells, WIDTH)
    const short* place;     // (N, nodes) where the cell of an anchor stands among those of its distribution, or -1
    const double* center;   // (N, WIDTH)
    const double* radius;   // (N,)
};

// Masses of histograms, node by node or histogram by histogram.
struct Masses {
    const i64* first;
    i64 node_step, step;
    DEVICE i64 of(i64 histogram, int node) const { return first[histogram * step + node * node_step]; }
};

// What a team has of its own.
struct Own {
    double* level;      // (sinks,) potentials of the sinks
    double* potential;  // (nodes,) of all anchors
    short* sink;        // (sinks,) which anchors they are
    float* f;          // (most_cells,)
    float* g;          // (most_cells,)
    float* distance;   // (most_cells, stride)
    int stride;        // odd: rows begin in different banks
};

// Those of a team, as its lowest bits.
DEVICE u32 team_votes(bool vote, int team) {
    return __ballot_sync(ALL_LANES, vote) >> (team * TEAM) & (TEAM == 32 ? ALL_LANES : (1u << TEAM % 32) - 1);
}

DEVICE double team_sum(double value) {
#pragma unroll
    for (int far = TEAM / 2; far > 0; far /= 2) value += __shfl_xor_sync(ALL_LANES, value, far);
    return value;
}

// Distances between the n local means from cell i0 on and the m from cell j0 on.
DEVICE void fill_distances(const Cells& cells, i64 i0, int n, i64 j0, int m, int lane, const Own& own) {
    for (int j = lane; j < m; j += TEAM) {
        float4 y[WIDTH / 4];
#pragma unroll
        for (int c = 0; c < WIDTH / 4; c++) y[c] = ((const float4*)cells.mean)[(j0 + j) * (WIDTH / 4) + c];
        for (int i = 0; i < n; i++) {
            const float4* x = (const float4*)cells.mean + (i0 + i) * (WIDTH / 4);
            float sum = 0.0f;
#pragma unroll
            for (int c = 0; c < WIDTH / 4; c++) {
                const float4 other = x[c];
                const float g0 = y[c].x - other.x, g1 = y[c].y - other.y, g2 = y[c].z - other.z, g3 = y[c].w - other.w;
                sum = fmaf(g0, g0, sum), sum = fmaf(g1, g1, sum), sum = fmaf(g2, g2, sum), sum = fmaf(g3, g3, sum);
            }
            own.distance[i * own.stride + j] = sqrtf(sum);
        }
    }
}

#include "transforms.cuh"

// Features (7, count) of the pairs at start..start+count-1, added to what is there if `add`: the distance on the
// anchors, radii, the price of mass that stays and of mass that moves, the dual, the distance of means, and the price
// with spread cells. `potential` (count, nodes) is that of the trees; those of all anchors take its place.
extern "C" __global__ void __launch_bounds__(THREADS, 1) price_means(
    const i64* __restrict__ offsets, const int* __restrict__ anchor, const double* __restrict__ mass,
    const float* __restrict__ variance, const float* __restrict__ mean, const short* __restrict__ place,
    const double* __restrict__ center, const double* __restrict__ radius, int kind, i64 n_rows, i64 n_columns,
    const i64* __restrict__ listed, i64 start, int count, int column_start, const i64* __restrict__ row_masses,
    i64 row_node_step, i64 row_step, const i64* __restrict__ column_masses, i64 column_node_step, i64 column_step,
    const double* __restrict__ unit, double scale, double more_scale, double radius_scale, double more_radius_scale,
    const double* __restrict__ flow, const short* __restrict__ parent, double* __restrict__ potential,
    float* __restrict__ far, int nodes, int most_cells, int team_bytes, int add, double* __restrict__ features
) {
    DYNAMIC_SHARED(shared);
    const int lane = threadIdx.x % TEAM, team = threadIdx.x % 32 / TEAM, warp = threadIdx.x / 32;
    const int own_warps = blockDim.x / 32, stride = most_cells | 1;
    const i64 warps = (i64)gridDim.x * own_warps, first = (i64)blockIdx.x * own_warps + warp;
    char* memory = shared + (warp * TEAMS + team) * team_bytes;
    float* const floats = (float*)(memory + (18 * nodes + 7) / 8 * 8);
    Own own = {(double*)memory, (double*)memory + nodes, (short*)(memory + 16 * nodes), floats, floats + most_cells,
               floats + 2 * most_cells, stride};
    if (FAR) own.distance = far + (first * TEAMS + team) * most_cells * stride;
    const Cells cells = {offsets, anchor, mass, variance, mean, place, center, radius};
    const Masses of_rows = {row_masses, row_node_step, row_step};
    const Masses of_columns = {column_masses, column_node_step, column_step};
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    for (i64 turn = first; turn * TEAMS < count; turn += warps) {
        const i64 t = turn * TEAMS + team;
        const bool live = t < count;
        int a = 0, b = 0;
        pair_at(pairs, start, live ? t : 0, &a, &b);
        const int column = b;
        b += column_start;
        const i64 i0 = offsets[a], j0 = offsets[b], tree = t * nodes;
        const int n = live ? (int)(offsets[a + 1] - i0) : 0, m = live ? (int)(offsets[b + 1] - j0) : 0;
        const int live_nodes = live ? nodes : 0;
        fill_distances(cells, i0, n, j0, m, lane, own);
        int sinks = 0;
        for (int base = 0; base < nodes; base += TEAM) {
            const int u = base + lane;
            const bool is_sink = u < live_nodes && of_rows.of(a, u) < of_columns.of(column, u);
            const u32 votes = team_votes(is_sink, team);
            if (is_sink) {
                const int at = sinks + count_set(votes & ((1u << lane) - 1));
                own.sink[at] = (short)u;
                own.level[at] = potential[tree + u];
            }
            sinks += count_set(votes);
        }
        __syncwarp();
        for (int u = lane; u < live_nodes; u += TEAM) {
            double least = sinks ? NOWHERE : 0.0;  // no sinks: equal histograms
            for (int s = 0; s < sinks; s++) {
                const double reached = unit[own.sink[s] * nodes + u] + own.level[s];
                least = reached < least ? reached : least;
            }
            own.potential[u] = potential[tree + u] = least;
        }
        __syncwarp();
        const double level = n ? own.potential[anchor[i0]] : 0.0;  // solvers agree on potentials up to a constant
        double moves = 0, spread = 0, stays = 0, value = 0, one = 0, two = 0, apart = 0;
        for (int x = lane; x < live_nodes; x += TEAM) {
            const double moved = flow[tree + x];
            if (moved <= 0) continue;
            const int y = parent[tree + x];
            const bool out = of_rows.of(a, x) > of_columns.of(column, x);
            const int i = place[(i64)a * nodes + (out ? x : y)], j = place[(i64)b * nodes + (out ? y : x)];
            if (i < 0 || j < 0) continue;  // rounding has made mass of nothing
            const float d = own.distance[i * own.stride + j];
            moves += moved * d;
            spread += moved * sqrtf(d * d + variance[i0 + i] + variance[j0 + j]);
        }
        for (int i = lane; i < n; i += TEAM) {
            const int u = anchor[i0 + i], j = place[(i64)b * nodes + u];
            own.f[i] = (float)((own.potential[u] - level) * scale * more_scale);
            value += mass[i0 + i] * own.potential[u];
            if (j < 0) continue;
            const double least = min(mass[i0 + i], mass[j0 + j]);
            const float d = own.distance[i * own.stride + j];
            stays += least * d;
            spread += least * sqrtf(d * d + variance[i0 + i] + variance[j0 + j]);
        }
        __syncwarp();
        for (int j = lane; j < m; j += TEAM) {
            const double height = own.potential[anchor[j0 + j]];
            value -= mass[j0 + j] * height;
            own.g[j] = column_least(own, j, n);
            one += mass[j0 + j] * own.g[j];
        }
        __syncwarp();
        for (int i = lane; i < n; i += TEAM) one += mass[i0 + i] * row_least(own, i, m);
        __syncwarp();
        for (int j = lane; j < m; j += TEAM)
            own.g[j] = (float)((level - own.potential[anchor[j0 + j]]) * scale * more_scale);
        __syncwarp();
        for (int i = lane; i < n; i += TEAM) {
            own.f[i] = row_least(own, i, m);
            two += mass[i0 + i] * own.f[i];
        }
        __syncwarp();
        for (int j = lane; j < m; j += TEAM) two += mass[j0 + j] * column_least(own, j, n);
        for (int c = lane; c < WIDTH && live; c += TEAM) {
            const double gap = center[(i64)a * WIDTH + c] - center[(i64)b * WIDTH + c];
            apart += gap * gap;
        }
        moves = team_sum(moves), spread = team_sum(spread), stays = team_sum(stays), value = team_sum(value);
        one = team_sum(one), two = team_sum(two), apart = team_sum(apart);
        if (lane == 0 && live) {
            const double found[7] = {
                min(max(value, 0.0) * scale * more_scale, MOST),
                min((radius[a] + radius[b]) * radius_scale * more_radius_scale, MOST),
                stays, moves, max(one, two), sqrt(apart), spread,
            };
#pragma unroll
            for (int c = 0; c < 7; c++) {
                double* const out = features + (i64)c * count + t;
                *out = add ? *out + found[c] : found[c];
            }
        }
        __syncwarp();
    }
}

// What pairs have in common, as features 7 and 8 of the same (9, count): how far it is from its anchors, and a length
// times the mass that is left. Radii are then those of what is left. Entries (`asot.data.distinct.SharedPoints`) have a
// point and two masses, in units of `unit`; those of a distribution are in the order of points.
extern "C" __global__ void count_common(
    int kind, i64 n_rows, i64 n_columns, const i64* __restrict__ listed, i64 start, i64 count, int column_start,
    const i64* __restrict__ offsets, const i64* __restrict__ point, const i64* __restrict__ far_mass,
    const i64* __restrict__ mass, double unit, double length, int n_views, double* __restrict__ features
) {
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < count; t += step) {
        int a, b;
        pair_at(pairs, start, t, &a, &b);
        b += column_start;
        i64 i = offsets[a], j = offsets[b], far = 0, both = 0;
        const i64 last = offsets[a + 1], other_last = offsets[b + 1];
        while (i < last && j < other_last) {
            const i64 x = point[i], y = point[j];
            if (x == y) {
                far += far_mass[i] < far_mass[j] ? far_mass[i] : far_mass[j];
                both += mass[i] < mass[j] ? mass[i] : mass[j];
            }
            i += x <= y, j += y <= x;
        }
        const double common = far * unit * n_views, left = features[count + t] - 2 * common;
        features[count + t] = max(left, 0.0);
        features[7 * count + t] = common;
        features[8 * count + t] = (1 - both * unit) * length * n_views;
    }
}

// The largest key that is not above, among the ascending ones of the pairs that were solved exactly; -1 if none is it.
DEVICE int find_key(const i64* keys, int n, i64 key) {
    int low = 0, high = n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (keys[middle] < key) low = middle + 1;
        else high = middle;
    }
    return low < n && keys[low] == key ? low : -1;
}

// Estimates (count,) with their expected errors, from features (n_cheap, count) that are sums over n_views spaces,
// as `asot.estimate.calibration.Calibration.estimate` makes them. `solved` (n_solved,) are the keys row << 32 | column of
// pairs whose exact values are known. `lower`, `upper` and `blurred` (count,) are those of ``bracket_points``, or null;
// if there are more features than `n_cheap` (7 or 9), the bounds are two more.
extern "C" __global__ void estimate_pairs(
    int kind, i64 n_rows, i64 n_columns, const i64* __restrict__ listed, i64 start, i64 count, int n_features,
    int n_cheap, int n_views, const double* __restrict__ features, const double* __restrict__ coefficients,
    const double* __restrict__ error_weights, double size, double more_size, const i64* __restrict__ solved,
    const double* __restrict__ exact, int n_solved, double exact_error, int estimated_status, int exact_status,
    const double* __restrict__ lower, const double* __restrict__ upper, const i8* __restrict__ blurred,
    double* __restrict__ values, double* __restrict__ errors, i8* __restrict__ status
) {
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < count; t += step) {
        double x[9], value = 0;
#pragma unroll
        for (int c = 0; c < 9; c++) {
            if (c >= n_cheap) break;
            x[c] = features[c * count + t] / n_views;
            value += x[c] * coefficients[c];
        }
        double lowest = max(max(x[0] - x[1], x[5]), 0.0), highest = x[0] + x[1];
        if (n_features > n_cheap) {  // bounds are features, too
            const double low = min(lower[t] / size / more_size, MOST), high = min(upper[t] / size / more_size, MOST);
            value += low * coefficients[n_cheap];
            value += high * coefficients[n_cheap + 1];
            lowest = max(lowest, low);
            highest = min(highest, high);
        }
        lowest = min(lowest, highest);
        const double gap = x[2] + x[3] - x[4], width = max(min(highest, x[6]) - lowest, 0.0);
        double square = error_weights[0] + x[1] * x[1] * error_weights[1];
        square += gap * gap * error_weights[2] + width * width * error_weights[3];
        value = min(max(value, lowest), highest) * size * more_size;
        double error = sqrt(square) * size * more_size;
        int i, j;
        pair_at(pairs, start, t, &i, &j);
        const int known = find_key(solved, n_solved, ((i64)i << 32) + j);
        if (known >= 0) {
            value = exact[known];
            error = exact_error * value;
        }
        if (lower) {
            value = min(max(value, lower[t]), upper[t]);
            error = min(error, upper[t] - lower[t]);
        }
        values[t] = value;
        errors[t] = error;
        status[t] = (i8)(blurred && blurred[t] ? OPEN : known >= 0 ? exact_status : estimated_status);
    }
}
