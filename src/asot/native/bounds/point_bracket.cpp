// From a plan on the anchors to a plan and a bracket on the original points; see src/asot/bounds/point_bracket.py.
#include "blocks.hpp"
#include "records.hpp"

struct BracketPoints {
    int64_t k, width;
    const int64_t* offsets;         // (N + 1,)
    const int64_t *point, *masses;  // (nnz,) ascending within a distribution; sum to 2^60 there
    const int32_t* cell;            // (V,) ascending
    const double *points, *rest;    // (V, width), (V,)
    const double* height;           // (k,) mean first coordinate of the points of each cell
};

struct LiftedPlan {
    int64_t row, column;
    int64_t *source, *sink, *mass;  // (arcs,) numbers of points, with room for n + m + 2k + 2; masses in 2^-60
    int64_t* count;                 // (1,)
};

// An arc is worth an exchange if it costs LEAST + n / MOST_LOOKS times as much above its potentials as the n arcs do on
// average. Fewer than MOST_LOOKS do at first, so that work is linear in n. LEAST is an odd number: if arcs are alike, none
// is on the edge, where rounding would decide.
constexpr double LEAST = 1.01, MOST_LOOKS = 128.0;
constexpr float NOISE = 0x1p-16f;  // of an arc's cost: to save less is not worth an exchange

// Memory of one thread for a pair of p sources and q sinks.
struct BracketScratch {
    Memory memory;
    int64_t *source, *sink, *supply, *demand;  // (p,), (q,) numbers of the points; what they have to give or take
    float *x, *y, *distance;                   // (p, width), (width, stride), (p, stride), flat
    float *f, *g;                              // (p,), (stride,)
    int64_t *source_low, *source_high;         // (k,) the sources of each cell that are not used up begin and end here
    int64_t *sink_low, *sink_high;             // (k,)
    int64_t *arc_source, *arc_sink, *arc_mass;  // (arcs,) what is shipped
    int32_t *arc_row, *arc_column;              // (arcs,) where its distance is
    float *arc_length, *arc_weight, *arc_excess, *saved;  // (arcs + FLOATS,) see `look_at` and `partner`

    // An exchange may split an arc, as long as there are fewer than this.
    static int64_t most_split(int64_t p, int64_t q) { return 2 * (p + q); }
    // Each use of an anchor's arc empties a source, a sink or that arc.
    static int64_t most_arcs(int64_t p, int64_t q, int64_t k) {
        const int64_t lifted = p + q + 2 * k + 2, split = most_split(p, q);
        return lifted > split ? lifted : split;
    }

    static int64_t bytes(int64_t p, int64_t q, int64_t k, int64_t width) {
        const int64_t stride = block_stride(q);
        return 2 * Memory::bytes_of<int64_t>(p + 1) + 2 * Memory::bytes_of<int64_t>(q + 1) +
               Memory::bytes_of<float>((p + 3) * width) + Memory::bytes_of<float>(width * stride) +
               Memory::bytes_of<float>((p + 3) * stride) + Memory::bytes_of<float>(p) +
               Memory::bytes_of<float>(stride) + 4 * Memory::bytes_of<int64_t>(k) +
               3 * Memory::bytes_of<int64_t>(most_arcs(p, q, k)) +
               2 * Memory::bytes_of<int32_t>(most_arcs(p, q, k)) +
               4 * Memory::bytes_of<float>(most_arcs(p, q, k) + FLOATS);
    }

    BracketScratch(int64_t p, int64_t q, int64_t k, int64_t width) : memory(bytes(p, q, k, width)) {
        if (memory.failed()) return;
        const int64_t stride = block_stride(q);
        source = memory.take<int64_t>(p + 1), supply = memory.take<int64_t>(p + 1);
        sink = memory.take<int64_t>(q + 1), demand = memory.take<int64_t>(q + 1);
        x = memory.take<float>((p + 3) * width), y = memory.take<float>(width * stride);
        distance = memory.take<float>((p + 3) * stride);
        f = memory.take<float>(p), g = memory.take<float>(stride);
        for (int64_t** each : {&source_low, &source_high, &sink_low, &sink_high}) *each = memory.take<int64_t>(k);
        for (int64_t** each : {&arc_source, &arc_sink, &arc_mass}) *each = memory.take<int64_t>(most_arcs(p, q, k));
        for (int32_t** each : {&arc_row, &arc_column}) *each = memory.take<int32_t>(most_arcs(p, q, k));
        const int64_t padded = most_arcs(p, q, k) + FLOATS;
        for (float** each : {&arc_length, &arc_weight, &arc_excess, &saved}) *each = memory.take<float>(padded);
        for (int64_t e = 0; e < padded; e++) arc_length[e] = saved[e] = 0.0f;
        for (int64_t t = 0; t < (p + 3) * width; t++) x[t] = 0.0f;  // blocks read up to three rows behind the last
    }
};

// Ask for what is going to be read of a point: distinct points of a collection are more than caches hold, and waiting for
// them would take a fifth of a pair's time.
INLINE void ask_for(const BracketPoints& table, int64_t point) {
    const double* own = table.points + point * table.width;
    for (int64_t c = 0; c < table.width; c += LANES) __builtin_prefetch(own + c);
    __builtin_prefetch(table.cell + point);
    __builtin_prefetch(table.rest + point);
}

// Points where one distribution has more mass than the other, and how much more.
INLINE void merge(const BracketScratch& s, const BracketPoints& table, int64_t a, int64_t b, int64_t& p, int64_t& q) {
    int64_t sources = 0, sinks = 0, i = table.offsets[a], j = table.offsets[b];
    const int64_t i_end = table.offsets[a + 1], j_end = table.offsets[b + 1];
    while (i < i_end || j < j_end) {
        const bool from_a = j == j_end || (i < i_end && table.point[i] <= table.point[j]);
        const bool from_b = i == i_end || (j < j_end && table.point[j] <= table.point[i]);
        const int64_t surplus = (from_a ? table.masses[i] : 0) - (from_b ? table.masses[j] : 0);
        if (surplus > 0) {
            ask_for(table, table.point[i]);
            s.supply[sources] = surplus;
            s.source[sources++] = table.point[i];
        } else if (surplus < 0) {
            ask_for(table, table.point[j]);
            s.demand[sinks] = -surplus;
            s.sink[sinks++] = table.point[j];
        }
        i += from_a;
        j += from_b;
    }
    p = sources, q = sinks;
}

// ---------------------------------------------------------------------------------------------------------- distances

// All distances between sources and sinks; returns a size that no coordinate exceeds.
INLINE double measure(const BracketScratch& s, const BracketPoints& table, int64_t p, int64_t q) {
    const int64_t width = table.width, stride = block_stride(q);
    const double* origin = table.points + s.source[0] * width;
    for (int64_t i = 0; i < p; i++) {
        const double* own = table.points + s.source[i] * width;
        for (int64_t c = 0; c < width; c++) s.x[i * width + c] = float(own[c] - origin[c]);
    }
    for (int64_t j = 0; j < q; j++) {
        const double* own = table.points + s.sink[j] * width;
        for (int64_t c = 0; c < width; c++) s.y[c * stride + j] = float(own[c] - origin[c]);
    }
    for (int64_t c = 0; c < width; c++)
        for (int64_t j = q; j < stride; j++) s.y[c * stride + j] = 0.0f;
    fill_block(s.x, s.y, s.distance, p, width, stride);
    // The origin is the first source: distances from it are lengths, and so, nearly, are those to the first sink.
    float size = 0.0f;
    for (int64_t j = 0; j < q; j++) size = s.distance[j] > size ? s.distance[j] : size;
    for (int64_t i = 0; i < p; i++) {
        const float length = s.distance[i * stride] + s.distance[0];
        size = length > size ? length : size;
    }
    return double(size);
}

// -------------------------------------------------------------------------------------------------------- lower bound

// <f, supply> + <g, demand>.
INLINE double worth(const BracketScratch& s, int64_t p, int64_t q) {
    double sum = 0.0;
    for (int64_t i = 0; i < p; i++) sum += double(s.supply[i]) * double(s.f[i]);
    for (int64_t j = 0; j < q; j++) sum += double(s.demand[j]) * double(s.g[j]);
    return sum;
}

// The better of two feasible pairs of potentials: c-transforms that begin at the sources or at the sinks, whose result
// is left in f and g. `size` is that
// of the potentials it began with, which are counted from that of the first source.
INLINE double dual_bound(const BracketScratch& s, const int32_t* cell, const double* potential,
                         const AnchorPlans& plans, int64_t p, int64_t q, double& size) {
    const int64_t stride = block_stride(q);
    const double base = potential[cell[s.source[0]]];
    size = 0.0;
    for (int64_t i = 0; i < p; i++) {
        const double start = (potential[cell[s.source[i]]] - base) * plans.scale * plans.more_scale;
        s.f[i] = float(start);
        size = std::fabs(start) > size ? std::fabs(start) : size;
    }
    column_transform(s.distance, s.f, s.g, p, q, stride);
    row_transform(s.distance, s.g, s.f, p, stride);
    const double first = worth(s, p, q);
    for (int64_t j = 0; j < q; j++) {
        const double start = (base - potential[cell[s.sink[j]]]) * plans.scale * plans.more_scale;
        s.g[j] = float(start);
        size = std::fabs(start) > size ? std::fabs(start) : size;
    }
    for (int64_t j = q; j < stride; j++) s.g[j] = BARRED;
    row_transform(s.distance, s.g, s.f, p, stride);
    column_transform(s.distance, s.f, s.g, p, q, stride);
    const double second = worth(s, p, q);
    return second > first ? second : first;
}

// -------------------------------------------------------------------------------------------------------- upper bound

// Where the points of each cell begin and end in an ascending list of points.
INLINE void find_cells(const int64_t* names, int64_t count, const int32_t* cell, int64_t* low, int64_t* high,
                       int64_t k) {
    for (int64_t u = 0; u < k; u++) low[u] = high[u] = 0;
    for (int64_t t = 0; t < count; t++) {
        const int64_t own = cell[names[t]];
        if (high[own] == 0) low[own] = t;
        high[own] = t + 1;
    }
}

INLINE void put_arc(const BracketScratch& s, int64_t& arc, int64_t i, int64_t j, int64_t mass) {
    s.arc_source[arc] = i;
    s.arc_sink[arc] = j;
    s.arc_mass[arc++] = mass;
    s.supply[i] -= mass;
    s.demand[j] -= mass;
}

// Ship up to `limit` from the sources of cell u to the sinks of cell v, each from one end of its cell. Returns the next
// free arc.
INLINE int64_t ship(const BracketScratch& s, int64_t u, int64_t v, int64_t limit, bool sources_from_above,
                    bool sinks_from_above, int64_t arc) {
    int64_t i0 = s.source_low[u], i1 = s.source_high[u], j0 = s.sink_low[v], j1 = s.sink_high[v];
    while (limit > 0 && i0 < i1 && j0 < j1) {
        const int64_t i = sources_from_above ? i1 - 1 : i0, j = sinks_from_above ? j1 - 1 : j0;
        const int64_t both = s.supply[i] < s.demand[j] ? s.supply[i] : s.demand[j], mass = limit < both ? limit : both;
        put_arc(s, arc, i, j, mass);
        limit -= mass;
        if (s.supply[i] == 0) {
            if (sources_from_above)
                i1--;
            else
                i0++;
        }
        if (s.demand[j] == 0) {
            if (sinks_from_above)
                j1--;
            else
                j0++;
        }
    }
    s.source_low[u] = i0, s.source_high[u] = i1;
    s.sink_low[v] = j0, s.sink_high[v] = j1;
    return arc;
}

// Arcs by source and then by sink. Which end of a tree's arc is the parent depends on the solver's pivots.
INLINE void sort_arcs(const AnchorPlans& plans, int64_t begin, int64_t end) {
    int32_t *source = plans.source, *sink = plans.sink;
    for (int64_t e = begin + 1; e < end; e++) {
        const int32_t u = source[e], v = sink[e];
        const int64_t m = plans.mass[e];
        int64_t place = e;
        for (; place > begin && (source[place - 1] > u || (source[place - 1] == u && sink[place - 1] > v)); place--) {
            source[place] = source[place - 1];
            sink[place] = sink[place - 1];
            plans.mass[place] = plans.mass[place - 1];
        }
        source[place] = u, sink[place] = v, plans.mass[place] = m;
    }
}

// Fill the arcs with a plan of all supply and demand (which it uses up); returns how many there are. Anchor masses and
// point masses are rounded each by itself, so a few units of 2^-60 may be left when the anchor plan is done; they go
// wherever there is room.
INLINE int64_t lift(const BracketScratch& s, const BracketPoints& table, const AnchorPlans& plans, int64_t t, int64_t p,
                    int64_t q) {
    find_cells(s.source, p, table.cell, s.source_low, s.source_high, table.k);
    find_cells(s.sink, q, table.cell, s.sink_low, s.sink_high, table.k);
    int64_t arc = 0;
    sort_arcs(plans, plans.start[t], plans.start[t + 1]);
    for (int64_t e = plans.start[t]; e < plans.start[t + 1]; e++) {
        const int64_t u = plans.source[e], v = plans.sink[e];
        const bool upwards = table.height[v] > table.height[u];
        arc = ship(s, u, v, plans.mass[e], upwards, !upwards, arc);
    }
    for (int64_t u = 0; u < table.k; u++) arc = ship(s, u, u, INT64_MAX, false, false, arc);
    int64_t j = 0;
    for (int64_t i = 0; i < p; i++) {
        while (s.supply[i] > 0 && j < q) {
            const int64_t moved = s.supply[i] < s.demand[j] ? s.supply[i] : s.demand[j];
            if (moved > 0) put_arc(s, arc, i, j, moved);
            if (s.demand[j] == 0) j++;
        }
    }
    return arc;
}

// How far arc e goes, how much it ships, and what that costs above the potentials of its ends.
INLINE void look_at(const BracketScratch& s, int64_t e, int64_t stride) {
    const int64_t i = s.arc_source[e], j = s.arc_sink[e];
    s.arc_row[e] = int32_t(i * stride);
    s.arc_column[e] = int32_t(j);
    s.arc_length[e] = s.distance[i * stride + j];
    s.arc_weight[e] = float(s.arc_mass[e]);
    const float above = s.arc_length[e] - s.f[i] - s.g[j];
    s.arc_excess[e] = s.arc_weight[e] * above;
}

// The arc with which arc x had best exchange sinks, by what this saves for all mass that both have; or -1. Behind the
// arcs, weights are 0.
INLINE int64_t partner(const BracketScratch& s, int64_t x, int64_t arcs) {
    const float *row = s.distance + s.arc_row[x], *column = s.distance + s.arc_column[x];
    for (int64_t y = 0; y < arcs; y++) s.saved[y] = row[s.arc_column[y]] + column[s.arc_row[y]];
    const Floats length = spread(s.arc_length[x]), weight = spread(s.arc_weight[x]);
    Floats most = spread(0.0f);
    for (int64_t y = 0; y < arcs; y += FLOATS) {
        const Floats apart = length + load(s.arc_length + y) - load(s.saved + y);
        const Floats saved = apart * lesser(weight, load(s.arc_weight + y));
        store(s.saved + y, saved);
        most = larger(most, saved);
    }
    const float best = largest(most);
    if (!(best > NOISE * s.arc_length[x] * s.arc_weight[x])) return -1;
    int64_t y = 0;
    while (s.saved[y] != best) y++;
    return y;
}

// Let arcs that cost much exchange sinks with others, where that is cheaper: each is looked at once, in order, and so is
// what is left of an arc that was split. Returns how many arcs there are.
INLINE int64_t exchange(const BracketScratch& s, int64_t arcs, int64_t p, int64_t q) {
    const int64_t stride = block_stride(q), most = BracketScratch::most_split(p, q);
    double above = 0.0;
    for (int64_t e = 0; e < arcs; e++) {
        look_at(s, e, stride);
        above += double(s.arc_excess[e]);
    }
    for (int64_t e = arcs; e < (arcs < most ? most : arcs) + FLOATS; e++) s.arc_weight[e] = 0.0f;
    const float least = above > 0.0 ? float((LEAST + double(arcs) / MOST_LOOKS) * above / double(arcs)) : 0.0f;
    for (int64_t x = 0; x < arcs; x++) {
        if (!(s.arc_excess[x] > least)) continue;
        const int64_t y = partner(s, x, arcs);
        if (y < 0) continue;
        const int64_t more = s.arc_mass[x] - s.arc_mass[y];
        if (more != 0) {
            if (arcs >= most) continue;
            const int64_t large = more > 0 ? x : y, small = more > 0 ? y : x;
            s.arc_source[arcs] = s.arc_source[large], s.arc_sink[arcs] = s.arc_sink[large];
            s.arc_mass[arcs] = more > 0 ? more : -more;
            s.arc_mass[large] = s.arc_mass[small];
            look_at(s, arcs++, stride);
        }
        const int64_t sink = s.arc_sink[x];
        s.arc_sink[x] = s.arc_sink[y], s.arc_sink[y] = sink;
        look_at(s, x, stride);
        look_at(s, y, stride);
    }
    return arcs;
}

ENTRY asot_point_bracket(const BracketPoints* points, const AnchorPlans* anchor_plans, const BoundedPairs* tile) {
    const BracketPoints& table = *points;
    const AnchorPlans& plans = *anchor_plans;
    const BracketScratch s(most_of(table.offsets, tile->rows, tile->n), most_of(table.offsets, tile->columns, tile->n),
                           table.k, table.width);
    if (s.memory.failed()) return OUT_OF_MEMORY;
    const double rounding = (8.0 + 0.25 * double(table.width)) * 0x1p-23;
    for (int64_t t = 0; t < tile->n && *tile->stop == 0; t++) {
        int64_t p, q;
        merge(s, table, tile->rows[t], tile->columns[t], p, q);
        if (p == 0) continue;
        const double size = measure(s, table, p, q);
        double mass = 0.0, potential_size;
        for (int64_t i = 0; i < p; i++) mass += double(s.supply[i]);
        const double worth = dual_bound(s, table.cell, plans.potential + t * plans.k, plans, p, q, potential_size);
        const int64_t arcs = exchange(s, lift(s, table, plans, t, p, q), p, q), stride = block_stride(q);
        double price = 0.0;
        for (int64_t e = 0; e < arcs; e++) {
            const int64_t i = s.arc_source[e], j = s.arc_sink[e];
            const double gap = double(s.distance[i * stride + j]);
            price += double(s.arc_mass[e]) *
                     std::sqrt(gap * gap + 4.0 * table.rest[s.source[i]] * table.rest[s.sink[j]]);
        }
        const double slack = rounding * mass * (size + size + potential_size);
        tile->lower[t] = worth - slack;
        tile->upper[t] = price + slack;
    }
    return DONE;
}

// The lifted plan of a single pair.
ENTRY asot_lift_plan(const BracketPoints* table, const AnchorPlans* plans, const LiftedPlan* out) {
    const BracketScratch s(most_of(table->offsets, &out->row, 1), most_of(table->offsets, &out->column, 1), table->k, 0);
    if (s.memory.failed()) return OUT_OF_MEMORY;
    int64_t p, q;
    merge(s, *table, out->row, out->column, p, q);
    *out->count = p == 0 ? 0 : lift(s, *table, *plans, 0, p, q);
    for (int64_t e = 0; e < *out->count; e++) {
        out->source[e] = s.source[s.arc_source[e]];
        out->sink[e] = s.sink[s.arc_sink[e]];
        out->mass[e] = s.arc_mass[e];
    }
    return DONE;
}
