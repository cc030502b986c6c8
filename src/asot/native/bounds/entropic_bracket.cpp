// What an entropic solve proves about the exact anchor problem; see src/asot/bounds/bounded_anchors.py.
#include <cmath>

#include "../common/entry.hpp"
#include "../common/lanes.hpp"

struct ScaledPairs {
    int64_t n, k, l;
    const double *A, *B;      // (n, k), (n, l)
    const double *Phi, *Psi;  // (n, k), (n, l) potentials
    const double* M;          // (k, l) costs
    double *lower, *upper;    // (n,)
    Stop stop;                // (1,)
};

struct EntropicScratch {
    Memory memory;
    double *T, *f, *g;               // (k, l), (k,), (l,)
    double *missing_a, *missing_b;   // (k,), (l,)

    EntropicScratch(int64_t k, int64_t l)
        : memory(Memory::bytes_of<double>(k * l) + 2 * Memory::bytes_of<double>(k) + 2 * Memory::bytes_of<double>(l)) {
        if (memory.failed()) return;
        T = memory.take<double>(k * l);
        f = memory.take<double>(k), missing_a = memory.take<double>(k);
        g = memory.take<double>(l), missing_b = memory.take<double>(l);
    }
};

// g_j = min_i M_ij - phi_i, then f_i = min_j M_ij - g_j over what carries mass; 0 where there is none.
static void make_feasible(const ScaledPairs& s, const double* a, const double* b, const double* phi, double* f,
                          double* g) {
    for (int64_t j = 0; j < s.l; j++) g[j] = INFINITY;
    for (int64_t i = 0; i < s.k; i++) {
        if (!(a[i] > 0.0)) continue;
        const double* row = s.M + i * s.l;
        for (int64_t j = 0; j < s.l; j++) {
            const double height = row[j] - phi[i];
            g[j] = height < g[j] ? height : g[j];
        }
    }
    for (int64_t j = 0; j < s.l; j++) g[j] = b[j] > 0.0 ? g[j] : 0.0;
    for (int64_t i = 0; i < s.k; i++) {
        const double* row = s.M + i * s.l;
        double least = INFINITY;
        for (int64_t j = 0; j < s.l; j++) {
            const double height = row[j] - g[j];
            least = b[j] > 0.0 && height < least ? height : least;
        }
        f[i] = a[i] > 0.0 ? least : 0.0;
    }
}

static double dual_value(const ScaledPairs& s, const double* a, const double* b, const double* f, const double* g) {
    double worth = 0.0, size = 0.0;
    for (int64_t i = 0; i < s.k; i++) {
        worth += a[i] * f[i];
        size = std::fabs(f[i]) > size ? std::fabs(f[i]) : size;
    }
    for (int64_t j = 0; j < s.l; j++) {
        worth += b[j] * g[j];
        size = std::fabs(g[j]) > size ? std::fabs(g[j]) : size;
    }
    return std::isfinite(worth) ? worth - 1e-13 * size : 0.0;
}

static double sum_of(const double* row, int64_t n) {
    double sum = 0.0;
    for (int64_t j = 0; j < n; j++) sum += row[j];
    return sum;
}

// Sums (l,) of the columns of T (k, l), each from its first row to its last.
static void sum_columns(const double* T, int64_t k, int64_t l, double* sums) {
    for (int64_t j = 0; j < l; j++) sums[j] = 0.0;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < l; j++) sums[j] += T[i * l + j];
}

// Scale down the rows and columns of T that are too full. `sums` (l,) is scratch.
static void empty_overfull(const ScaledPairs& s, double* T, const double* a, const double* b, double* sums) {
    for (int64_t i = 0; i < s.k; i++) {
        double* row = T + i * s.l;
        const double sum = sum_of(row, s.l);
        if (!(sum > a[i])) continue;
        const double factor = a[i] / sum;
        for (int64_t j = 0; j < s.l; j++) row[j] *= factor;
    }
    sum_columns(T, s.k, s.l, sums);
    for (int64_t j = 0; j < s.l; j++) sums[j] = sums[j] > b[j] ? b[j] / sums[j] : 1.0;
    for (int64_t i = 0; i < s.k; i++)
        for (int64_t j = 0; j < s.l; j++) T[i * s.l + j] *= sums[j];
}

// Cost of the plan T once its marginals are those of a and b. Changes T.
static double rounded_cost(const ScaledPairs& s, const EntropicScratch& w, const double* a, const double* b) {
    empty_overfull(s, w.T, a, b, w.missing_b);
    double missing = 0.0;
    for (int64_t i = 0; i < s.k; i++) {
        const double gap = a[i] - sum_of(w.T + i * s.l, s.l);
        w.missing_a[i] = gap > 0.0 ? gap : 0.0;
        missing += w.missing_a[i];
    }
    sum_columns(w.T, s.k, s.l, w.missing_b);
    for (int64_t j = 0; j < s.l; j++) {
        const double gap = b[j] - w.missing_b[j];
        w.missing_b[j] = gap > 0.0 ? gap : 0.0;
    }
    double cost = 0.0;
    for (int64_t i = 0; i < s.k; i++) {
        const double *row = w.T + i * s.l, *price = s.M + i * s.l;
        for (int64_t j = 0; j < s.l; j++) {
            cost += row[j] * price[j];
            if (missing > 0.0) cost += w.missing_a[i] * w.missing_b[j] / missing * price[j];
        }
    }
    return cost;
}

ENTRY asot_entropic_bracket(const ScaledPairs* pairs) {
    const ScaledPairs& s = *pairs;
    const EntropicScratch w(s.k, s.l);
    if (w.memory.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < s.n && *s.stop == 0; t++) {
        const double *a = s.A + t * s.k, *b = s.B + t * s.l, *phi = s.Phi + t * s.k, *psi = s.Psi + t * s.l;
        make_feasible(s, a, b, phi, w.f, w.g);
        s.lower[t] = dual_value(s, a, b, w.f, w.g);
        for (int64_t i = 0; i < s.k; i++)
            for (int64_t j = 0; j < s.l; j++)
                w.T[i * s.l + j] = a[i] > 0.0 && b[j] > 0.0 ? std::exp(phi[i] + psi[j] - s.M[i * s.l + j]) : 0.0;
        s.upper[t] = rounded_cost(s, w, a, b);
    }
    return DONE;
}
