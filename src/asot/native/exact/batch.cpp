// Problems with costs of their own: matrices, or clouds of points whose costs are computed here. No cost is assumed to
// be a metric, so all mass is shipped. See src/asot/exact/batch.py.
#include "../common/metrics.hpp"
#include "../common/records.hpp"
#include "assignment.hpp"
#include "distance_block.hpp"
#include "large.hpp"

struct BatchProblems {
    const int64_t *rows_at, *rows;         // (B,) where the rows of a problem begin among all rows, and how many
    const double* row_mass;                // flat, or null: uniform of total 1
    const int64_t *columns_at, *columns;   // (B,)
    const double* column_mass;
    const double* cost;                    // flat, or null: clouds
    const int64_t *cost_at, *cost_stride;  // (B,)
    const double *x, *y;                   // (n, dim), (m, dim), if cost is null
    int64_t dim, metric;
    double order, power;                   // of a Minkowski metric; of the distance
    int64_t most_rows, most_columns, index_bits;
    double cost_scale;
};

struct BatchPlans {
    const int64_t* arcs_at;  // (B,) or null: no plans are wanted
    int64_t* n_arcs;         // (B,)
    int32_t *source, *sink;  // (room,)
    double* mass;            // (room,)
    const int64_t* f_at;     // (B,) or null: no potentials are wanted
    double* f;
    const int64_t* g_at;
    double* g;
};

namespace {

// The masses of one side as integers of total 2^60, where there are any: `mass` and `name` of the n nodes that have
// mass, and the total that they stand for. The largest takes what rounding leaves.
double place_side(const double* given, int64_t size, int64_t* mass, int32_t* name, int64_t& n) {
    double total = 0.0;
    n = 0;
    for (int64_t i = 0; i < size; i++) total += given != nullptr ? given[i] : 1.0 / double(size);
    if (total <= 0.0) return 0.0;
    const double whole = double(int64_t(1) << MASS_BITS);
    int64_t left = int64_t(1) << MASS_BITS, largest = 0;
    for (int64_t i = 0; i < size; i++) {
        const double share = given != nullptr ? given[i] / total : 1.0 / double(size);
        const int64_t units = int64_t(std::nearbyint(share * whole));
        if (units == 0) continue;
        mass[n] = units;
        name[n] = int32_t(i);
        left -= units;
        if (units > mass[largest]) largest = n;
        n++;
    }
    mass[largest] += left;
    return given != nullptr ? total : 1.0;
}

// Uniform masses on both sides are ratios of sizes, which integers hold exactly: no crumbs of rounding travel.
void place_uniform(const Workspace& ws, int64_t n, int64_t m) {
    const int64_t part = (int64_t(1) << MASS_BITS) / (n == m ? n : n * m);
    for (int64_t i = 0; i < n; i++) ws.supply[i] = n == m ? part : part * m, ws.source[i] = int32_t(i);
    for (int64_t j = 0; j < m; j++) ws.demand[j] = n == m ? part : part * n, ws.sink[j] = int32_t(j);
}

// Both sides of a problem: p sources and q sinks, and what one unit of mass is worth, or 0 where nothing is to be
// shipped.
double place_masses_of(const BatchProblems& all, const Workspace& ws, int64_t b, int64_t& p, int64_t& q) {
    const int64_t n = all.rows[b], m = all.columns[b];
    if (n == 0 || m == 0) return 0.0;
    if (all.row_mass == nullptr && all.column_mass == nullptr) {
        place_uniform(ws, n, m);
        p = n, q = m;
        return 1.0 / (double(n) * double(ws.supply[0]));
    }
    const double* a = all.row_mass == nullptr ? nullptr : all.row_mass + all.rows_at[b];
    const double* c = all.column_mass == nullptr ? nullptr : all.column_mass + all.columns_at[b];
    const double total = place_side(a, n, ws.supply, ws.source, p);
    return place_side(c, m, ws.demand, ws.sink, q) <= 0.0 ? 0.0 : total / double(int64_t(1) << MASS_BITS);
}

// The costs of a problem in units of 2^exponent, less the least of them if that is negative: sums stay in range.
struct Units {
    int exponent;
    double low;
};

// Costs of the nodes with mass, into the block of distances. Only costs of extreme size get a unit other than 1.
Units read_costs(const Workspace& ws, const Scratch& scratch, const double* cost, int64_t cost_stride, int64_t p,
                 int64_t q) {
    const int64_t stride = stride_of(q);
    double low = INFINITY, size = 0.0;
    for (int64_t i = 0; i < p; i++) {
        const double* row = cost + ws.source[i] * cost_stride;
        double* out = scratch.distance + i * stride;
        for (int64_t j = 0; j < q; j++) {
            out[j] = row[ws.sink[j]];
            low = out[j] < low ? out[j] : low;
            size = std::fabs(out[j]) > size ? std::fabs(out[j]) : size;
        }
        for (int64_t j = q; j < stride; j++) out[j] = 0.0;
    }
    Units units{0, 0.0};
    std::frexp(size, &units.exponent);
    if (size == 0.0 || (units.exponent > -400 && units.exponent < 400)) units.exponent = 0;
    units.low = low < 0.0 ? std::ldexp(low, -units.exponent) : 0.0;
    if (units.exponent == 0 && low >= 0.0) return units;
    for (int64_t i = 0; i < p; i++)
        for (int64_t j = 0; j < q; j++) {
            double& each = scratch.distance[i * stride + j];
            each = (units.exponent == 0 ? each : std::ldexp(each, -units.exponent)) - units.low;
        }
    return units;
}

// Costs of two clouds, all of their points: rows of `stride_of(m)` numbers into `full`.
void compute_costs(const BatchProblems& all, const Scratch& scratch, const double* x, const double* y, int64_t n,
                   int64_t m, double* full, Stop stop) {
    const int64_t stride = stride_of(m), d = all.dim;
    for (int64_t t = 0; t < n * d; t++) scratch.x[t] = x[t];
    for (int64_t c = 0; c < d; c++) scratch.x[n * d + c] = 0.0;
    for (int64_t c = 0; c < d; c++) {
        for (int64_t j = 0; j < m; j++) scratch.y[c * stride + j] = y[j * d + c];
        for (int64_t j = m; j < stride; j++) scratch.y[c * stride + j] = 0.0;
    }
    fill_distances(all.metric, all.order, scratch.x, scratch.y, n, stride, d, full, stop);
    if (all.power == 1.0) return;
    for (int64_t t = 0; t < n * stride; t++)
        full[t] = all.power == 2.0 ? full[t] * full[t] : std::pow(full[t], all.power);
}

int64_t solve_placed(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits, Stop stop) {
    if (is_assignment(ws, p, q)) {
        const int64_t steps = assign(ws, p, index_bits, stop);
        if (steps != UNFIT) return steps;
    }
    return solve_any(ws, p, q, index_bits, stop);
}

void write_arcs(const Workspace& ws, const BatchPlans& plans, int64_t b, int64_t p, int64_t q, double unit) {
    const int64_t first = first_sink(p);
    int64_t arc = plans.arcs_at[b];
    for (int64_t node = 0; node < first + q; node++) {
        const int64_t up = ws.parent[node];
        if (up == node || ws.flow[node] == 0) continue;
        plans.source[arc] = node < p ? ws.source[node] : ws.source[up];
        plans.sink[arc] = node < p ? ws.sink[up - first] : ws.sink[node - first];
        plans.mass[arc++] = double(ws.flow[node]) * unit;
    }
    plans.n_arcs[b] = arc - plans.arcs_at[b];
}

// Potentials of all rows and columns, also of those without mass: the heights of the sinks, carried over every cost
// twice, so that f_i + g_j ≤ cost_ij however the heights were rounded.
void write_potentials(const Workspace& ws, const double* cost, int64_t cost_stride, int64_t n, int64_t m, int64_t p,
                      int64_t q, double unit, double* f, double* g) {
    const int64_t first = first_sink(p);
    for (int64_t j = 0; j < m; j++) g[j] = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double* row = cost + i * cost_stride;
        double least = INFINITY;
        for (int64_t j = 0; j < q; j++) {
            const double reached = row[ws.sink[j]] + double(ws.pi[first + j]) * unit;
            least = reached < least ? reached : least;
        }
        f[i] = least;
        for (int64_t j = 0; j < m; j++) g[j] = row[j] - least < g[j] ? row[j] - least : g[j];
    }
}

// Which costs a problem has: those given, or those of its clouds, computed into `full`.
const double* costs_of(const BatchProblems& all, const Scratch& scratch, int64_t b, double* full, int64_t& stride,
                       Stop stop) {
    if (all.cost != nullptr) {
        stride = all.cost_stride[b];
        return all.cost + all.cost_at[b];
    }
    stride = stride_of(all.columns[b]);
    compute_costs(all, scratch, all.x + all.rows_at[b] * all.dim, all.y + all.columns_at[b] * all.dim, all.rows[b],
                  all.columns[b], full, stop);
    return full;
}

}  // namespace

ENTRY asot_batch_tile(const BatchProblems* problems, const BatchPlans* plans, const Tile* tile) {
    const BatchProblems& all = *problems;
    Workspace ws(all.most_rows, all.most_columns, all.most_rows + all.most_columns);
    Scratch scratch(all.most_rows, all.most_columns, all.cost != nullptr ? 0 : all.dim);
    const int64_t room = all.cost != nullptr ? 0 : (all.most_rows + 1) * stride_of(all.most_columns);
    Memory memory(Memory::bytes_of<double>(room));
    if (ws.failed() || scratch.failed() || memory.failed()) return OUT_OF_MEMORY;
    double* full = memory.take<double>(room);
    for (int64_t t = 0; t < tile->n && *tile->stop == 0; t++) {
        const int64_t b = tile->rows[t], n = all.rows[b], m = all.columns[b];
        int64_t p, q, stride;
        const double unit = place_masses_of(all, ws, b, p, q);
        tile->values[t] = 0.0;
        tile->steps[t] = 0;
        if (unit <= 0.0) continue;
        int64_t mass = 0;
        for (int64_t i = 0; i < p; i++) mass += ws.supply[i];
        const double* cost = costs_of(all, scratch, b, full, stride, tile->stop);
        const Units units = read_costs(ws, scratch, cost, stride, p, q);
        const double most = place_distances(ws, scratch, p, q, all.index_bits, all.cost_scale, tile->stop);
        tile->steps[t] = int32_t(solve_placed(ws, p, q, all.index_bits, tile->stop));
        if (*tile->stop != 0) return DONE;
        tile->values[t] = std::ldexp(value_of_flows(ws, scratch, p, q) * unit + units.low * (double(mass) * unit),
        units.exponent); if (plans->arcs_at != nullptr) write_arcs(ws, *plans, b, p, q, unit); if (plans->f_at !=
        nullptr)
            write_potentials(ws, cost, stride, n, m, p, q,
                             std::ldexp(most / (all.cost_scale * double(int64_t(1) << all.index_bits)), units.exponent),
                             plans->f + plans->f_at[b], plans->g + plans->g_at[b]);
    }
    return DONE;
}
