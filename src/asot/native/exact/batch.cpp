// Problems with costs of their own: matrices, or clouds of points whose costs are computed here. No cost is assumed to
// be a metric, so all mass is shipped. See src/asot/exact/batch.py.
#include "../common/metrics.hpp"
#include "../common/records.hpp"
#include "few_pairs.hpp"
#include "own_cost.hpp"

constexpr int32_t NOT_FINITE = 3;  // returned if a cost is no number

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
    const double* shrink;                  // (B,) what coordinates are multiplied with, or null
    int64_t most_rows, most_columns;
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

// Costs of two clouds, all of their points: rows of `stride_of(m)` numbers into `full`.
void compute_costs(const BatchProblems& all, const Scratch& scratch, const double* x, const double* y, int64_t n,
                   int64_t m, double shrink, double* full, Stop stop) {
    const int64_t stride = stride_of(m), d = all.dim;
    for (int64_t t = 0; t < n * d; t++) scratch.x[t] = x[t] * shrink;
    for (int64_t c = 0; c < d; c++) scratch.x[n * d + c] = 0.0;
    for (int64_t c = 0; c < d; c++) {
        for (int64_t j = 0; j < m; j++) scratch.y[c * stride + j] = y[j * d + c] * shrink;
        for (int64_t j = m; j < stride; j++) scratch.y[c * stride + j] = 0.0;
    }
    fill_distances(all.metric, all.order, scratch.x, scratch.y, n, stride, d, full, stop);
    if (all.power == 1.0) return;
    for (int64_t t = 0; t < n * stride; t++)
        full[t] = all.power == 2.0 ? full[t] * full[t] : std::pow(full[t], all.power);
}

void write_arcs(const Workspace& ws, const BatchPlans& plans, int64_t b, int64_t p, int64_t q, double total) {
    const int64_t first = first_sink(p);
    int64_t arc = plans.arcs_at[b];
    for (int64_t node = 0; node < first + q; node++) {
        const int64_t up = ws.parent[node];
        if (up == node || ws.flow[node] == 0) continue;
        plans.source[arc] = node < p ? ws.source[node] : ws.source[up];
        plans.sink[arc] = node < p ? ws.sink[up - first] : ws.sink[node - first];
        plans.mass[arc++] = double(ws.flow[node]) * MASS_UNIT * total;
    }
    plans.n_arcs[b] = arc - plans.arcs_at[b];
}

// Potentials of all rows and columns, also of those without mass: the heights of the sinks, carried over every cost
// twice, so that f_i + g_j ≤ cost_ij however the heights were rounded.
void write_potentials(const Workspace& ws, const Scratch& scratch, const double* cost, int64_t cost_stride, int64_t n,
                      int64_t m, int64_t p, int64_t q, double unit, double* f, double* g) {
    const int64_t first = first_sink(p), whole = q == m ? m & ~(LANES - 1) : 0;
    double* height = scratch.column_sum;
    for (int64_t j = 0; j < q; j++) height[j] = double(ws.pi[first + j]) * unit;
    for (int64_t j = 0; j < m; j++) g[j] = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double* row = cost + i * cost_stride;
        Doubles reached = spread(double(INFINITY));
        for (int64_t j = 0; j < whole; j += LANES) reached = lesser(load(row + j) + load(height + j), reached);
        double least_height = least(reached);
        for (int64_t j = whole; j < q; j++) {
            const double each = row[ws.sink[j]] + height[j];
            least_height = each < least_height ? each : least_height;
        }
        f[i] = least_height;
        for (int64_t j = 0; j < m; j++) g[j] = row[j] - least_height < g[j] ? row[j] - least_height : g[j];
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
                  all.columns[b], all.shrink == nullptr ? 1.0 : all.shrink[b], full, stop);
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
        const double* row_mass = all.row_mass == nullptr ? nullptr : all.row_mass + all.rows_at[b];
        const double* column_mass = all.column_mass == nullptr ? nullptr : all.column_mass + all.columns_at[b];
        double total = place_both(ws, row_mass, n, column_mass, m, p, q);
        tile->values[t] = 0.0;
        tile->steps[t] = 0;
        const bool reads_all = total > 0.0 && p == n && q == m;  // while it solves
        if (all.cost != nullptr && !reads_all && !all_finite(all.cost + all.cost_at[b], all.cost_stride[b], n, m))
            return NOT_FINITE;
        if (total <= 0.0) continue;
        const double* cost = costs_of(all, scratch, b, full, stride, tile->stop);
        const Found found = solve_finely(ws, scratch, cost, stride, n, m, p, q, total, tile->stop,
                                         [&](int64_t& rows, int64_t& columns) {
                                             place_both(ws, row_mass, n, column_mass, m, rows, columns, true);
                                         });
        if (*tile->stop != 0) return DONE;
        if (found.steps == NO_MEMORY) return OUT_OF_MEMORY;
        if (found.steps == NO_NUMBER) return NOT_FINITE;
        tile->steps[t] = int32_t(found.steps);
        tile->values[t] = found.value;
        if (plans->arcs_at != nullptr) write_arcs(ws, *plans, b, p, q, total);
        if (plans->f_at != nullptr)
            write_potentials(ws, scratch, cost, stride, n, m, p, q, found.height, plans->f + plans->f_at[b],
                             plans->g + plans->g_at[b]);
    }
    return DONE;
}

// One problem given as it is, for the shortest way: masses (k,) and (l,) with their totals, and a cost (k, l).
struct OneProblem {
    int64_t k, l;
    double row_total, column_total;
    double* numbers;  // (1 + k + l + arcs,) out: the value, potentials f and g, the masses of the arcs
    int32_t* places;  // (k + 1 + arcs,) out: where the arcs of each row begin, and their columns, ascending
    int32_t* arcs;    // (3, k + l) scratch: ends of arcs in the order of the tree, and their order
    int64_t n_arcs;   // out
};

// Masses (n,) divided by their total; false if some of them is negative or no number.
static bool divide(const double* given, int64_t n, double total, double* mass, bool& equal) {
    bool ordinary = true;
    for (int64_t i = 0; i < n; i++) {
        ordinary &= given[i] >= 0.0;
        equal &= given[i] == given[0];
        mass[i] = given[i] / total;
    }
    return ordinary;
}

ENTRY asot_one_problem(OneProblem* problem, const double* a, const double* b, const double* cost) {
    OneProblem& o = *problem;
    const int64_t k = o.k, l = o.l, room = k + l, zero = 0;
    Memory memory(3 * Memory::bytes_of<double>(room));
    if (memory.failed()) return OUT_OF_MEMORY;
    double *row_mass = memory.take<double>(room), *column_mass = memory.take<double>(room), *mass = memory.take<double>(room);
    double low = INFINITY, high = 0.0;
    bool equal = k == l;
    bool ordinary = divide(a, k, o.row_total, row_mass, equal) & divide(b, l, o.column_total, column_mass, equal);
    for (int64_t t = 0; t < k * l; t++) {
        ordinary &= cost[t] == cost[t];
        low = cost[t] < low ? cost[t] : low;
        high = cost[t] > high ? cost[t] : high;
    }
    if (!ordinary || !(low >= 0.0 && high < 1e100) || (high > 0.0 && high < 1e-100)) return NOT_ORDINARY;
    BatchProblems all = {};
    all.rows_at = all.columns_at = all.cost_at = &zero;
    all.rows = &k, all.columns = all.cost_stride = &l;
    all.cost = cost;
    if (!equal) all.row_mass = row_mass, all.column_mass = column_mass;  // else an assignment, without crumbs of rounding
    all.most_rows = k, all.most_columns = l;
    int32_t *source = o.arcs, *sink = source + room, *place = o.places + k + 1;
    const BatchPlans plans = {&zero, &o.n_arcs, source, sink, mass, &zero, o.numbers + 1, &zero, o.numbers + 1 + k};
    int32_t steps;
    const int64_t go = 0;
    const Tile tile = {1, &zero, &zero, o.numbers, &steps, &go};
    const int32_t code = asot_batch_tile(&all, &plans, &tile);
    if (code != DONE) return code;
    int32_t *start = o.places, *next = sink + room;
    for (int64_t i = 0; i <= k; i++) start[i] = 0;
    for (int64_t t = 0; t < o.n_arcs; t++) start[source[t] + 1]++;
    for (int64_t i = 0; i < k; i++) next[i] = start[i + 1] += start[i];
    double* out = o.numbers + 1 + k + l;
    for (int64_t t = 0; t < o.n_arcs; t++) {  // each from the end of its row, moved down to its column
        int64_t at = --next[source[t]];
        const int64_t end = start[source[t] + 1];
        for (; at + 1 < end && place[at + 1] < sink[t]; at++) place[at] = place[at + 1], out[at] = out[at + 1];
        place[at] = sink[t], out[at] = mass[t];
    }
    return DONE;
}
