// A few pairs of histograms under one small cost, read, checked, prepared and solved at once; see
// src/asot/exact/few_histograms.py.
#include <algorithm>
#include <cmath>

#include "cancel_and_check.hpp"
#include "distance_block.hpp"
#include "few_pairs.hpp"
#include "metric_check.hpp"
#include "packing.hpp"
#include "shared_cost.hpp"

struct FewHistograms {
    int64_t n, m, k, l;    // rows of A and of B (0: pairs within A), and their lengths
    int64_t scaled;        // whether rows have total 1 already
    int64_t by_itself;     // whether each pair reads and proves what it needs
    int64_t triangles;     // how many are looked at then
    double slack, weight;  // of a side of these triangles; of a mean cost in the greedy start
    int64_t canceled;      // out: whether common mass is canceled
};

namespace {

// The sum of n numbers in the order in which NumPy adds up a row: eight sums in turn, and halves from 129 numbers on.
double sum_of(const double* x, int64_t n) {
    if (n > 128) {
        const int64_t half = n / 2 - n / 2 % 8;
        return sum_of(x, half) + sum_of(x + half, n - half);
    }
    double total = 0.0;
    int64_t i = 0;
    if (n >= 8) {
        double r[8];
        for (int j = 0; j < 8; j++) r[j] = x[j];
        for (i = 8; i < n - n % 8; i += 8)
            for (int j = 0; j < 8; j++) r[j] += x[i + j];
        total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    }
    for (; i < n; i++) total += x[i];
    return total;
}

// Rows (n, k) of total 1, which they may have; false if some are not ordinary.
bool scale_rows(const double* given, int64_t n, int64_t k, bool have_it, double* scaled) {
    for (int64_t i = 0; i < n; i++) {
        const double *row = given + i * k, total = have_it ? 1.0 : sum_of(row, k);
        double* out = scaled + i * k;
        bool positive = total > 1e-200 && total < 1e200;  // false for NaN
        for (int64_t u = 0; u < k; u++) {
            out[u] = row[u] / total;
            positive &= row[u] >= 0.0 && (out[u] > 0.0 || row[u] == 0.0);
        }
        if (!positive) return false;
    }
    return true;
}

// Rows (n, k) of total 1 as integers that sum to exactly 2^MASS_BITS; the first of the largest absorbs the rounding.
void quantize_rows(const double* rows, int64_t n, int64_t k, int64_t* quantized) {
    constexpr int64_t WHOLE = int64_t(1) << MASS_BITS;
    for (int64_t i = 0; i < n; i++) {
        int64_t total = 0, largest = 0, *out = quantized + i * k;
        for (int64_t u = 0; u < k; u++) {
            out[u] = int64_t(std::rint(rows[i * k + u] * double(WHOLE)));
            total += out[u];
            if (out[u] > out[largest]) largest = u;
        }
        out[largest] += WHOLE - total;
    }
}

// Rows (n, k) as lists; false if a mass is too little to be a unit. Returns the longest in `most`.
bool list_rows(const double* rows, int64_t n, int64_t k, int64_t* offsets, int64_t* index, int64_t* masses, double* held,
               int64_t& most) {
    int64_t count = 0;
    most = 0;
    for (int64_t i = 0; i < n; i++) {
        offsets[i] = count;
        for (int64_t u = 0; u < k; u++)
            if (rows[i * k + u] != 0.0) index[count] = u, held[count++] = rows[i * k + u];
        most = count - offsets[i] > most ? count - offsets[i] : most;
    }
    offsets[n] = count;
    quantize_masses(offsets, n, held, masses);
    for (int64_t t = 0; t < count; t++)
        if (masses[t] == 0) return false;
    return true;
}

struct Few {
    FewHistograms& f;
    const double* cost;  // (k, l)
    double most = 0.0;   // the largest cost
    int exponent = 0;
    bool has_zeros = false, is_distance = false;  // whether it is 0 on the diagonal, and also symmetric

    // False if a cost is not finite or negative, or none within one set.
    bool read_cost() {
        bool ordinary = true;
        for (int64_t t = 0; t < f.k * f.l; t++) {
            ordinary &= cost[t] >= 0.0 && cost[t] < INFINITY;
            most = cost[t] > most ? cost[t] : most;
        }
        std::frexp(most, &exponent);
        has_zeros = f.k == f.l;
        for (int64_t i = 0; has_zeros && i < f.k; i++) has_zeros = cost[i * f.l + i] == 0.0;
        is_distance = has_zeros;
        constexpr int64_t BLOCK = 16;  // columns of so many rows stay in the cache
        for (int64_t begin = 0; is_distance && begin < f.k; begin += BLOCK)
            for (int64_t j = 0; j < f.k; j++)
                for (int64_t i = begin; i < std::min(begin + BLOCK, f.k); i++)
                    is_distance &= cost[i * f.l + j] == cost[j * f.l + i];
        return ordinary && (is_distance || f.m > 0);
    }

    bool looks_like_metric(const int64_t* triangles) const {
        const int64_t *u = triangles, *v = u + f.triangles, *via = v + f.triangles;
        bool holds = has_zeros;
        for (int64_t t = 0; holds && t < f.triangles; t++) {
            const double direct = cost[u[t] * f.l + v[t]];
            holds = direct == cost[v[t] * f.l + u[t]] &&
                    (1.0 - f.slack) * direct <= cost[u[t] * f.l + via[t]] + cost[via[t] * f.l + v[t]];
        }
        return holds;
    }

    int32_t solve_prepared(const double* A, const double* B, const Tile& tile) {
        const int64_t k = f.k, l = f.l, bits = CostBits(k, l).index;
        Memory memory(Memory::bytes_of<int64_t>(f.n * k) + Memory::bytes_of<int64_t>(f.m * l) +
                      2 * Memory::bytes_of<int64_t>(k * l) + Memory::bytes_of<int64_t>(k) +
                      Memory::bytes_of<int64_t>(l) + Memory::bytes_of<double>(l));
        if (memory.failed()) return OUT_OF_MEMORY;
        int64_t *a = memory.take<int64_t>(f.n * k), *b = memory.take<int64_t>(f.m * l);
        int64_t *integer = memory.take<int64_t>(k * l), *rows = memory.take<int64_t>(k), *columns = memory.take<int64_t>(l);
        double *unit = memory.take<double>(k * l), *sums = memory.take<double>(l);
        const double scale = std::ldexp(1.0, int(62 - 2 * bits));
        const auto packed = [&](double x) { return int64_t(std::rint(x * scale)) << bits; };
        const double smaller = exponent > -1000 && exponent < 1000 ? std::ldexp(1.0, -exponent) : 0.0;
        for (int64_t t = 0; t < k * l; t++) {
            unit[t] = smaller != 0.0 ? cost[t] * smaller : std::ldexp(cost[t], -exponent);
            integer[t] = packed(unit[t]);
        }
        for (int64_t v = 0; v < l; v++) sums[v] = 0.0;
        for (int64_t u = 0; u < k; u++) {
            rows[u] = packed(f.weight * (sum_of(unit + u * l, l) / double(l)));
            for (int64_t v = 0; v < l; v++) sums[v] += unit[u * l + v];
        }
        for (int64_t v = 0; v < l; v++) columns[v] = packed(f.weight * (sums[v] / double(k)));
        quantize_rows(A, f.n, k, a);
        quantize_rows(B, f.m, l, b);
        const MetricCheck check = {k, cost, 1e-11 / double(k)};
        f.canceled = is_distance && asot_check_triangles(&check, 0, k) == DONE;
        const Histograms h = {a, f.m > 0 ? b : a, f.canceled};
        const SharedCost shared = {k, l, integer, unit, rows, columns, bits};
        const int32_t code = asot_shared_cost_tile(&h, &shared, &tile);
        for (int64_t t = 0; t < tile.n; t++) tile.values[t] = std::ldexp(tile.values[t], exponent - MASS_BITS);
        return code;
    }

    int32_t solve_by_itself(const double* A, const double* B, const int64_t* triangles, const Tile& tile) {
        if (std::abs(exponent) >= 500) return NOT_ORDINARY;
        const int64_t na = f.n * f.k, nb = f.m * f.l;
        Memory memory(2 * (Memory::bytes_of<int64_t>(na) + Memory::bytes_of<int64_t>(nb)) +
                      Memory::bytes_of<int64_t>(f.n + 1) + Memory::bytes_of<int64_t>(f.m + 1) +
                      Memory::bytes_of<double>(na > nb ? na : nb));
        if (memory.failed()) return OUT_OF_MEMORY;
        int64_t *offsets[2] = {memory.take<int64_t>(f.n + 1), memory.take<int64_t>(f.m + 1)};
        int64_t *index[2] = {memory.take<int64_t>(na), memory.take<int64_t>(nb)};
        int64_t *masses[2] = {memory.take<int64_t>(na), memory.take<int64_t>(nb)};
        double* held = memory.take<double>(na > nb ? na : nb);
        int64_t sources, sinks;
        if (!list_rows(A, f.n, f.k, offsets[0], index[0], masses[0], held, sources)) return NOT_ORDINARY;
        if (!list_rows(B, f.m, f.l, offsets[1], index[1], masses[1], held, sinks)) return NOT_ORDINARY;
        const SparseRows first = {offsets[0], index[0], masses[0]}, second = {offsets[1], index[1], masses[1]};
        if (f.m == 0) sinks = sources;
        f.canceled = looks_like_metric(triangles);
        const CheckedCost checked = {f.l, cost, f.slack, f.canceled, sources, sinks};
        const int32_t code = asot_cancel_and_check(&first, f.m > 0 ? &second : &first, &checked, &tile);
        for (int64_t t = 0; t < tile.n; t++) tile.values[t] = std::ldexp(tile.values[t], -MASS_BITS);
        return code;
    }
};

}  // namespace

ENTRY asot_few_histograms(FewHistograms* few, const double* A, const double* B, const double* cost,
                          const int64_t* triangles, const Tile* tile) {
    FewHistograms& f = *few;
    Few work{f, cost};
    Memory memory(Memory::bytes_of<double>(f.n * f.k) + Memory::bytes_of<double>(f.m * f.l));
    if (memory.failed()) return OUT_OF_MEMORY;
    double *a = memory.take<double>(f.n * f.k), *b = memory.take<double>(f.m * f.l);
    if (!work.read_cost() || !scale_rows(A, f.n, f.k, f.scaled, a) || !scale_rows(B, f.m, f.l, f.scaled, b))
        return NOT_ORDINARY;
    return f.by_itself ? work.solve_by_itself(a, b, triangles, *tile) : work.solve_prepared(a, b, *tile);
}
