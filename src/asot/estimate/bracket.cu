// Bounds on W_1 on the original points from the optimal trees of the anchor problems (docs/method.md §6): what
// `asot.bounds.point_bracket` does on the CPU, a pair per warp, together with radii and means as in
// `asot.bounds.error_bars.PointBounds`.
//
// Defines: WIDTH (coordinates), FAR (0 or 1): whether coordinates and distances lie in global memory, and THREADS of a
// block at most. Numbers of a whole run: nodes (anchors), most_points (distinct ones of a distribution) and warp_bytes of
// shared memory.

constexpr int MASS_BITS = 60;
constexpr i64 EVERYTHING = 0x7fffffffffffffffll;
constexpr double LEAST = 1.01, MOST_LOOKS = 128.0;  // which arcs are worth an exchange (native/bounds/point_bracket.cpp)
constexpr float NOISE = 1.52587890625e-05f;

// Both collections, one after the other, over distinct points that are numbered cell by cell.
struct Table {
    const i64* offsets;    // (N + 1,)
    const int* point;      // (nnz,) ascending within a distribution
    const i64* mass;       // (nnz,)
    const int* cell;       // (V,) ascending
    const double* points;  // (V, WIDTH)
    const double* rest;    // (V,)
    const double* height;  // (nodes,)
};

// What a warp has of its own for a pair of p sources and q sinks.
struct Own {
    i64* supply;      // (p,)
    i64* demand;      // (q,)
    i64* limit;       // (nodes,) masses of the anchor plan, in the order of `ends`
    i64* unordered;   // (nodes,)
    i64* moved;       // (arcs,)
    int* source;      // (p,) numbers of points
    int* sink;        // (q,)
    float* f;         // (p,)
    float* g;         // (q,)
    int* ends;        // (nodes,) source << 16 | sink of the anchor plan's arcs, ascending
    int* unsorted;    // (nodes,)
    short* low[2];    // (nodes,) of sources and of sinks: those of a cell that are not used up begin here ...
    short* high[2];   // (nodes,) ... and end here
    short* from;      // (arcs,)
    short* to;        // (arcs,)
    float* x;         // (p, WIDTH)
    float* distance;  // (p, stride)
    int stride;       // odd: rows begin in different banks
    int nodes;
};

// Exchanges may split arcs as long as there are fewer than this (`points` at either end).
DEVICE int most_split(int points) { return 2 * points; }

// Arcs of pairs of at most so many points each.
DEVICE int most_arcs(int points, int nodes) { return max(2 * points + 2 * nodes + 2, most_split(2 * points)); }

DEVICE Own lay_out(char* memory, float* far, int nodes, int points) {
    const int arcs = most_arcs(points, nodes);
    const int words_at = 8 * (2 * points + 2 * nodes + arcs), shorts_at = words_at + 4 * (4 * points + 2 * nodes);
    const int floats_at = (shorts_at + 2 * (4 * nodes + 2 * arcs) + 7) / 8 * 8;
    Own own;
    own.stride = points | 1;
    own.nodes = nodes;
    own.supply = (i64*)memory;
    own.demand = own.supply + points;
    own.limit = own.demand + points;
    own.unordered = own.limit + nodes;
    own.moved = own.unordered + nodes;
    own.source = (int*)(memory + words_at);
    own.sink = own.source + points;
    own.f = (float*)(own.sink + points);
    own.g = own.f + points;
    own.ends = (int*)(own.g + points);
    own.unsorted = own.ends + nodes;
    own.low[0] = (short*)(memory + shorts_at);
    own.low[1] = own.low[0] + nodes;
    own.high[0] = own.low[1] + nodes;
    own.high[1] = own.high[0] + nodes;
    own.from = own.high[1] + nodes;
    own.to = own.from + arcs;
    own.x = FAR ? far : (float*)(memory + floats_at);
    own.distance = own.x + points * WIDTH;
    return own;
}

// Mass of a point in the distribution at begin..end-1, 0 if it has none.
DEVICE i64 mass_at(const Table& table, i64 begin, i64 end, int point) {
    i64 low = begin, high = end;
    while (low < high) {
        const i64 middle = (low + high) / 2;
        if (table.point[middle] < point) low = middle + 1;
        else high = middle;
    }
    return low < end && table.point[low] == point ? table.mass[low] : 0;
}

// Points at begin..end-1 that have more mass than in the other distribution, in order. Returns how many there are.
DEVICE int surplus_of(
    const Table& table, i64 begin, i64 end, i64 other_begin, i64 other_end, int lane, int* point, i64* surplus
) {
    int count = 0;
    for (i64 base = begin; base < end; base += 32) {
        const i64 at = base + lane;
        i64 more = 0;
        if (at < end) more = table.mass[at] - mass_at(table, other_begin, other_end, table.point[at]);
        const u32 votes = __ballot_sync(ALL_LANES, more > 0);
        if (more > 0) {
            const int place = count + count_set(votes & ((1u << lane) - 1));
            point[place] = table.point[at];
            surplus[place] = more;
        }
        count += count_set(votes);
    }
    return count;
}

// Distances between sources and sinks; returns a size that no coordinate exceeds.
DEVICE double measure(const Table& table, const Own& own, int p, int q, int lane) {
    const double* origin = table.points + (i64)own.source[0] * WIDTH;
    for (int e = lane; e < p * WIDTH; e += 32)
        own.x[e] = (float)(table.points[(i64)own.source[e / WIDTH] * WIDTH + e % WIDTH] - origin[e % WIDTH]);
    __syncwarp();
    for (int j = lane; j < q; j += 32) {
        float y[WIDTH];
#pragma unroll
        for (int c = 0; c < WIDTH; c++) y[c] = (float)(table.points[(i64)own.sink[j] * WIDTH + c] - origin[c]);
        for (int i = 0; i < p; i++) {
            float sum = 0.0f;
#pragma unroll
            for (int c = 0; c < WIDTH; c++) {
                const float gap = y[c] - own.x[i * WIDTH + c];
                sum = fmaf(gap, gap, sum);  // the bits of the CPU: exchanges compare sums of distances
            }
            own.distance[i * own.stride + j] = sqrtf(sum);
        }
    }
    __syncwarp();
    // The origin is the first source: distances from it are lengths, and so, nearly, are those to the first sink.
    float size = 0.0f;
    for (int j = lane; j < q; j += 32) size = fmaxf(size, own.distance[j]);
    for (int i = lane; i < p; i += 32) size = fmaxf(size, own.distance[i * own.stride] + own.distance[0]);
    return warp_max((double)size);
}

#include "transforms.cuh"

// The better of two feasible pairs of potentials: c-transforms that begin at the sources or at the sinks, whose result is
// left in f and g. Also the size of the potentials it began with, which are counted from that of the first source.
DEVICE double dual_bound(
    const Table& table, const Own& own, const double* potential, double scale, double more_scale, int p, int q,
    int lane, double* size
) {
    const double base = potential[table.cell[own.source[0]]];
    double most = 0, one = 0, two = 0;
    for (int i = lane; i < p; i += 32) {
        const double start = (potential[table.cell[own.source[i]]] - base) * scale * more_scale;
        own.f[i] = (float)start;
        most = larger(most, fabs(start));
    }
    __syncwarp();
    for (int j = lane; j < q; j += 32) {
        own.g[j] = column_least(own, j, p);
        one += (double)own.demand[j] * own.g[j];
    }
    __syncwarp();
    for (int i = lane; i < p; i += 32) one += (double)own.supply[i] * row_least(own, i, q);
    __syncwarp();
    for (int j = lane; j < q; j += 32) {
        const double start = (base - potential[table.cell[own.sink[j]]]) * scale * more_scale;
        own.g[j] = (float)start;
        most = larger(most, fabs(start));
    }
    __syncwarp();
    for (int i = lane; i < p; i += 32) {
        own.f[i] = row_least(own, i, q);
        two += (double)own.supply[i] * own.f[i];
    }
    __syncwarp();
    for (int j = lane; j < q; j += 32) {
        own.g[j] = column_least(own, j, p);
        two += (double)own.demand[j] * own.g[j];
    }
    __syncwarp();
    *size = warp_max(most);
    return larger(warp_sum(one), warp_sum(two));
}

// The arcs of the anchor plan, by source and then by sink. Returns how many there are.
DEVICE int sort_arcs(
    const Own& own, const double* flow, const short* parent, const i64* of_row, i64 row_step, const i64* of_column,
    i64 column_step, int lane
) {
    int count = 0;
    for (int base = 0; base < own.nodes; base += 32) {
        const int x = base + lane;
        const double moved = x < own.nodes ? flow[x] : 0.0;
        const u32 votes = __ballot_sync(ALL_LANES, moved > 0.0);
        if (moved > 0.0) {
            const int y = parent[x], place = count + count_set(votes & ((1u << lane) - 1));
            const bool out = of_row[x * row_step] > of_column[x * column_step];
            own.unsorted[place] = out ? x << 16 | y : y << 16 | x;
            own.unordered[place] = (i64)ldexp(moved, MASS_BITS);
        }
        count += count_set(votes);
    }
    __syncwarp();
    for (int e = lane; e < count; e += 32) {
        int rank = 0;
        for (int other = 0; other < count; other++) rank += own.unsorted[other] < own.unsorted[e];
        own.ends[rank] = own.unsorted[e];
        own.limit[rank] = own.unordered[e];
    }
    __syncwarp();
    return count;
}

// Where the points of each cell begin and end in an ascending list of points.
DEVICE void find_cells(const Table& table, const Own& own, int side, const int* names, int count, int lane) {
    for (int u = lane; u < own.nodes; u += 32) own.low[side][u] = own.high[side][u] = 0;
    __syncwarp();
    for (int t = lane; t < count; t += 32) {
        const int cell = table.cell[names[t]];
        if (t == 0 || table.cell[names[t - 1]] != cell) own.low[side][cell] = (short)t;
        if (t == count - 1 || table.cell[names[t + 1]] != cell) own.high[side][cell] = (short)(t + 1);
    }
    __syncwarp();
}

// Ship up to `limit` from the sources of cell u to the sinks of cell v, each from one end of its cell, by one lane.
// Returns the next free arc.
DEVICE int ship(const Own& own, int u, int v, i64 limit, bool sources_from_above, bool sinks_from_above, int arc) {
    int i0 = own.low[0][u], i1 = own.high[0][u], j0 = own.low[1][v], j1 = own.high[1][v];
    while (limit > 0 && i0 < i1 && j0 < j1) {
        const int i = sources_from_above ? i1 - 1 : i0, j = sinks_from_above ? j1 - 1 : j0;
        const i64 supply = own.supply[i], demand = own.demand[j], mass = min(limit, min(supply, demand));
        own.from[arc] = (short)i;
        own.to[arc] = (short)j;
        own.moved[arc++] = mass;
        limit -= mass;
        own.supply[i] = supply - mass;
        own.demand[j] = demand - mass;
        if (supply == mass) {
            if (sources_from_above) i1--;
            else i0++;
        }
        if (demand == mass) {
            if (sinks_from_above) j1--;
            else j0++;
        }
    }
    own.low[0][u] = (short)i0;
    own.high[0][u] = (short)i1;
    own.low[1][v] = (short)j0;
    own.high[1][v] = (short)j1;
    return arc;
}

// A plan of all supply and demand, which it uses up, by one lane; returns how many arcs it has.
DEVICE int lift(const Table& table, const Own& own, int n_arcs, int p, int q) {
    int arc = 0;
    for (int e = 0; e < n_arcs; e++) {
        const int u = own.ends[e] >> 16, v = own.ends[e] & 0xffff;
        const bool upwards = table.height[v] > table.height[u];
        arc = ship(own, u, v, own.limit[e], upwards, !upwards, arc);
    }
    for (int u = 0; u < own.nodes; u++) arc = ship(own, u, u, EVERYTHING, false, false, arc);
    int j = 0;
    for (int i = 0; i < p; i++)
        while (own.supply[i] > 0 && j < q) {
            const i64 mass = min(own.supply[i], own.demand[j]);
            if (mass > 0) {
                own.from[arc] = (short)i;
                own.to[arc] = (short)j;
                own.moved[arc++] = mass;
                own.supply[i] -= mass;
                own.demand[j] -= mass;
            }
            if (own.demand[j] == 0) j++;
        }
    return arc;
}

DEVICE float length_of(const Own& own, int e) { return own.distance[own.from[e] * own.stride + own.to[e]]; }

// What arc e costs above the potentials of its ends.
DEVICE float excess_of(const Own& own, int e) {
    const float above = length_of(own, e) - own.f[own.from[e]] - own.g[own.to[e]];
    return (float)own.moved[e] * above;
}

// The arc with which arc x had best exchange sinks, the first of equals, or -1; every lane gets it.
DEVICE int partner(const Own& own, int x, int arcs, int lane) {
    const float* const row = own.distance + own.from[x] * own.stride;
    const float* const column = own.distance + own.to[x];
    const float length = length_of(own, x), weight = (float)own.moved[x];
    float best = 0;
    int found = 0;
    for (int y = lane; y < arcs; y += 32) {
        const float apart = length + length_of(own, y) - (row[own.to[y]] + column[own.from[y] * own.stride]);
        const float saved = apart * fminf(weight, (float)own.moved[y]);
        if (saved > best) best = saved, found = y;
    }
    for (int far = 16; far > 0; far /= 2) {
        const float other = __shfl_xor_sync(ALL_LANES, best, far);
        const int other_found = __shfl_xor_sync(ALL_LANES, found, far);
        if (other > best || (other == best && other_found < found)) best = other, found = other_found;
    }
    return best > NOISE * length * weight ? found : -1;
}

// Let arcs that cost much exchange sinks with others, where that is cheaper, as on the CPU. Returns how many there are.
DEVICE int exchange(const Own& own, int arcs, int most, int lane) {
    double above = 0;
    for (int e = lane; e < arcs; e += 32) above += excess_of(own, e);
    above = warp_sum(above);
    const float least = above > 0 ? (float)((LEAST + arcs / MOST_LOOKS) * above / arcs) : 0;
    for (int base = 0; base < arcs; base += 32)
        for (int next = 0;;) {  // the lane of the next arc: all are asked at once, and again after each exchange
            const int e = base + lane;
            const u32 dear = __ballot_sync(ALL_LANES, lane >= next && e < arcs && excess_of(own, e) > least);
            if (!dear) break;
            next = first_set(dear) + 1;
            const int x = base + next - 1, y = partner(own, x, arcs, lane);
            if (y < 0) continue;
            const i64 more = own.moved[x] - own.moved[y];
            if (more != 0 && arcs >= most) continue;
            __syncwarp();  // all have read
            if (lane == 0) {
                if (more != 0) {
                    const int large = more > 0 ? x : y, small = more > 0 ? y : x;
                    own.from[arcs] = own.from[large];
                    own.to[arcs] = own.to[large];
                    own.moved[arcs] = more > 0 ? more : -more;
                    own.moved[large] = own.moved[small];
                }
                const short sink = own.to[x];
                own.to[x] = own.to[y];
                own.to[y] = sink;
            }
            arcs += more != 0;
            __syncwarp();
        }
    return arcs;
}

// Lower and upper bounds (count,) on W_1 of the pairs at start..start+count-1, in the units of the points. If
// `combine`, those that are there count, too. `blurred` (count,) becomes 1 where rounding is wider than the bounds are
// tight: these pairs have to be looked at by themselves. `potential` (count, nodes) is what ``price_means`` left, and
// `values` (count,) are distances on the anchors.
extern "C" __global__ void __launch_bounds__(THREADS, 1) bracket_points(
    const i64* __restrict__ offsets, const int* __restrict__ point, const i64* __restrict__ mass,
    const int* __restrict__ cell, const double* __restrict__ points, const double* __restrict__ rest,
    const double* __restrict__ height, const double* __restrict__ means, const double* __restrict__ radius, int kind,
    i64 n_rows, i64 n_columns, const i64* __restrict__ listed, i64 start, int count, int column_start,
    const i64* __restrict__ row_masses, i64 row_node_step, i64 row_step, const i64* __restrict__ column_masses,
    i64 column_node_step, i64 column_step, const double* __restrict__ flow, const short* __restrict__ parent,
    const double* __restrict__ potential, double scale, double more_scale, double size, double more_size, double unit,
    double open, double loose, double slack, double blur, const double* __restrict__ values, float* __restrict__ far,
    int nodes, int most_points, int warp_bytes, int combine, double* __restrict__ lower, double* __restrict__ upper, i8* __restrict__ blurred
) {
    DYNAMIC_SHARED(shared);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i64 warps = (i64)gridDim.x * (blockDim.x / 32), first = (i64)blockIdx.x * (blockDim.x / 32) + warp;
    float* const own_far = far + (FAR ? first * most_points * (WIDTH + (most_points | 1)) : 0);
    const Own own = lay_out(shared + warp * warp_bytes, own_far, nodes, most_points);
    const Table table = {offsets, point, mass, cell, points, rest, height};
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    const double rounding = (8.0 + 0.25 * WIDTH) * 1.1920928955078125e-07;
    for (i64 t = first; t < count; t += warps) {
        int a, b;
        pair_at(pairs, start, t, &a, &b);
        const int column = b;
        b += column_start;
        double least = 0, most = 0;
        const int p = surplus_of(table, offsets[a], offsets[a + 1], offsets[b], offsets[b + 1], lane, own.source,
                                 own.supply);
        const int q = surplus_of(table, offsets[b], offsets[b + 1], offsets[a], offsets[a + 1], lane, own.sink,
                                 own.demand);
        __syncwarp();
        if (p > 0 && q > 0) {
            const double extent = measure(table, own, p, q, lane);
            double total = 0, began = 0, price = 0;
            for (int i = lane; i < p; i += 32) total += (double)own.supply[i];
            total = warp_sum(total);
            const double worth =
                dual_bound(table, own, potential + t * nodes, scale, more_scale, p, q, lane, &began);
            const int n_arcs = sort_arcs(own, flow + t * nodes, parent + t * nodes, row_masses + a * row_step,
                                         row_node_step, column_masses + column * column_step, column_node_step, lane);
            find_cells(table, own, 0, own.source, p, lane);
            find_cells(table, own, 1, own.sink, q, lane);
            int arcs = 0;
            if (lane == 0) arcs = lift(table, own, n_arcs, p, q);
            arcs = __shfl_sync(ALL_LANES, arcs, 0);
            __syncwarp();
            arcs = exchange(own, arcs, most_split(p + q), lane);
            for (int e = lane; e < arcs; e += 32) {
                const int i = own.from[e], j = own.to[e];
                const double d = own.distance[i * own.stride + j];
                price += (double)own.moved[e] * sqrt(d * d + 4.0 * rest[own.source[i]] * rest[own.sink[j]]);
            }
            const double off = rounding * total * (extent + extent + began);
            least = (worth - off) * unit * size * more_size;
            most = (warp_sum(price) + off) * unit * size * more_size;
        }
        double apart = 0;
        for (int c = lane; c < WIDTH; c += 32) {
            const double gap = means[(i64)a * WIDTH + c] - means[(i64)b * WIDTH + c];
            apart += gap * gap;
        }
        apart = sqrt(warp_sum(apart)) * size * more_size;
        if (lane == 0) {
            const double value = values[t], radii = radius[a] + radius[b];
            double low = larger(larger(larger(value - open - loose - radii, apart) - slack, 0.0), least - slack);
            double high = min(value + loose + radii + slack, most + slack);
            low = min(low, high);
            if (p == 0) low = high = 0.0;  // the same distribution
            blurred[t] = (combine && blurred[t]) || (slack + open > blur * high && high > low);
            if (combine) {
                low = larger(low, lower[t]);
                high = min(high, upper[t]);
            }
            lower[t] = min(low, high);
            upper[t] = high;
        }
        __syncwarp();
    }
}
