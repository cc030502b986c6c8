// Sinkhorn's iteration for one pair with its own cost: u ← a / (K v), v ← b / (Kᵀ u), K = exp(-C/ε).
//
// An iteration is one pass over the rows of K: a row gives its entry of u, which at once gives its share of Kᵀu, so K is
// read once per iteration. Four rows go together.
//
// Range. Numbers that may have lost digits to the range of float64 are not trusted: all entries of Kv and Kᵀu must lie
// in [1e-100, 1e100]. An iteration that breaks this is undone and repeated with logarithms (log-sum-exp). Its result, φ
// and ψ, goes into the kernel, K ← exp(φ_i + ψ_j - C_ij/ε), which is the plan as it is now; v starts again at 1. In exact
// arithmetic this changes nothing: the state of the iteration is v alone, and v is the product of the two. In float64 the
// entries of K that vanish are below 1e-307, and the scalings that could make up for it are at most 1e100.
//
// Padding. Blocks are padded with points that repeat the last one and have no mass, so their entries of Kv and Kᵀu are
// those of a real point, and their entries of u and v are 0.
//
// A caller makes a `PairScratch`, fills distance, a, b, v and the potentials, and calls `begin` and `advance`.
#pragma once
#include <algorithm>
#include <cmath>

#include "../common/entry.hpp"
#include "../common/exponential.hpp"
#include "../common/lanes.hpp"

constexpr int64_t ROWS_TOGETHER = 4;                       // the number of rows of a block is padded to a multiple of this
constexpr double SMALLEST_SUM = 1e-100, LARGEST_SUM = 1e100;  // sums outside of this are not used
constexpr double KERNEL_RANGE = 690.0;     // largest max C/ε for which K is formed without potentials: none below 1e-300
constexpr int64_t ITERATIONS_PER_LOOK = 100;               // between checks of stop

// n, rounded up to a multiple of step, which is a power of two.
INLINE int64_t padded(int64_t n, int64_t step) { return (n + step - 1) & ~(step - 1); }

// Memory of one thread for a pair of at most most_rows × most_columns points.
struct PairScratch {
  private:
    Memory memory_;
    static int64_t bytes(int64_t rows, int64_t stride) {
        return 2 * Memory::bytes_of<double>(rows * stride) + 3 * Memory::bytes_of<double>(rows) +
               4 * Memory::bytes_of<double>(stride);
    }

  public:
    int64_t most_rows, most_stride;
    double *distance, *K;      // (rows, stride)
    double *a, *u, *phi;       // (rows,)
    double *b, *v, *ku, *psi;  // (stride,); ku is Kᵀu

    PairScratch(int64_t n, int64_t m)
        : memory_(bytes(padded(n, ROWS_TOGETHER), padded(m, LANES))),
          most_rows(padded(n, ROWS_TOGETHER)),
          most_stride(padded(m, LANES)) {
        if (memory_.failed()) return;
        for (double** each : {&distance, &K}) *each = memory_.take<double>(most_rows * most_stride);
        for (double** each : {&a, &u, &phi}) *each = memory_.take<double>(most_rows);
        for (double** each : {&b, &v, &ku, &psi}) *each = memory_.take<double>(most_stride);
    }
    bool failed() const { return memory_.failed(); }
};

// The pair that a scratch holds now.
struct OwnKernel {
    PairScratch& ws;
    int64_t n, m, rows, stride;
    double scale;  // distances times this are C/ε

    OwnKernel(PairScratch& scratch, int64_t n_rows, int64_t n_columns, double per_unit)
        : ws(scratch), n(n_rows), m(n_columns), rows(padded(n_rows, ROWS_TOGETHER)), stride(padded(n_columns, LANES)),
          scale(per_unit) {}

    // Start at φ = ψ = 0 and the given v. Returns how many iterations it took: one where logarithms were needed.
    int64_t begin() {
        std::fill_n(ws.phi, rows, 0.0);
        std::fill_n(ws.psi, stride, 0.0);
        Doubles most = spread(0.0);
        for (int64_t t = 0; t < rows * stride; t += LANES) most = larger(load(ws.distance + t), most);
        if (largest(most) * scale <= KERNEL_RANGE) {
            fill_kernel();
            return 0;
        }
        repeat_with_logarithms();
        return 1;
    }

    // Exactly `count` further iterations, in the kernel where its range allows and in logarithms where not.
    void advance(int64_t count, Stop stop) {
        for (int64_t done = 0; done < count && *stop == 0;) {
            const int64_t asked = std::min(count - done, ITERATIONS_PER_LOOK), got = iterate(asked);
            done += got;
            if (got < asked) {
                repeat_with_logarithms();
                done++;
            }
        }
    }

    // ⟨T, distance⟩ and the marginal error Σ|T1 - a| of the plan T = diag(u) K diag(v).
    void measure(double& value, double& error) const {
        value = error = 0.0;
        for (int64_t i = 0; i < n; i++) {
            Doubles mass = spread(0.0), price = mass;
            for (int64_t j = 0; j < stride; j += LANES) {
                const Doubles flow = load(ws.K + i * stride + j) * load(ws.v + j);
                mass = mass + flow;
                price = fused(flow, load(ws.distance + i * stride + j), price);
            }
            value += ws.u[i] * total(price);
            error += std::fabs(ws.u[i] * total(mass) - ws.a[i]);
        }
    }

    // φ ← log a - log Σ_j exp(ψ_j - M_ij) with M = scale · distance: row sums become a. Padding of ψ repeats its last.
    void fit_rows() {
        for (int64_t i = 0; i < n; i++) {
            double* row = ws.K + i * stride;
            Doubles top = spread<double>(-INFINITY);
            for (int64_t j = 0; j < stride; j += LANES) {
                const Doubles height = load(ws.psi + j) - spread(scale) * load(ws.distance + i * stride + j);
                store(row + j, height);
                top = larger(height, top);
            }
            const double most = largest(top);
            for (int64_t j = 0; j < stride; j += LANES) store(row + j, exponential(load(row + j) - spread(most)));
            double sum = 0.0;
            for (int64_t j = 0; j < m; j++) sum += row[j];
            ws.phi[i] = std::log(ws.a[i]) - most - std::log(sum);
        }
    }

    // ψ ← log b - log Σ_i exp(φ_i - M_ij): column sums become b. Then the kernel with φ and ψ, u = 1 and v = 1.
    void fit_columns() {
        for (int64_t i = n; i < rows; i++) ws.phi[i] = ws.phi[n - 1];
        for (int64_t j = 0; j < stride; j += LANES) {
            Doubles top = spread<double>(-INFINITY), sum = spread(0.0);
            for (int64_t i = 0; i < n; i++) top = larger(height(i, j), top);
            for (int64_t i = 0; i < n; i++) sum = sum + exponential(height(i, j) - top);
            store(ws.psi + j, top);
            store(ws.ku + j, sum);
        }
        for (int64_t j = 0; j < m; j++) {
            ws.psi[j] = std::log(ws.b[j]) - ws.psi[j] - std::log(ws.ku[j]);
            ws.v[j] = 1.0;
        }
        for (int64_t j = m; j < stride; j++) ws.psi[j] = ws.psi[m - 1], ws.v[j] = 0.0;
        for (int64_t i = 0; i < rows; i++) ws.u[i] = i < n ? 1.0 : 0.0;
        fill_kernel();
    }

  private:
    Doubles height(int64_t i, int64_t j) const {
        return spread(ws.phi[i]) - spread(scale) * load(ws.distance + i * stride + j);
    }

    // K ← exp(φ_i + ψ_j - scale · distance_ij).
    void fill_kernel() {
        for (int64_t i = 0; i < rows; i++) {
            const Doubles phi = spread(ws.phi[i]);
            for (int64_t o = i * stride, j = 0; j < stride; j += LANES)
                store(ws.K + o + j, exponential(phi + load(ws.psi + j) - spread(scale) * load(ws.distance + o + j)));
        }
    }

    void repeat_with_logarithms() {
        for (int64_t j = 0; j < m; j++) ws.psi[j] += std::log(ws.v[j]);
        for (int64_t j = m; j < stride; j++) ws.psi[j] = ws.psi[m - 1];
        fit_rows();
        fit_columns();
    }

    // Whether a sum can be used, and the logarithm of the scaling is known: it is not where a tiny mass makes it vanish.
    static bool is_good(double sum, double u, double mass) {
        return sum >= SMALLEST_SUM && sum <= LARGEST_SUM && (u > 1e-290 || mass == 0.0);
    }

    // u of the four rows from i on, and their share of Kᵀu. Whether all of it can be used.
    INLINE bool four_rows(int64_t i) {
        const double* K = ws.K + i * stride;
        Doubles s0 = spread(0.0), s1 = s0, s2 = s0, s3 = s0;
        for (int64_t j = 0; j < stride; j += LANES) {
            const Doubles v = load(ws.v + j);
            s0 = fused(load(K + j), v, s0);
            s1 = fused(load(K + stride + j), v, s1);
            s2 = fused(load(K + 2 * stride + j), v, s2);
            s3 = fused(load(K + 3 * stride + j), v, s3);
        }
        const double sums[] = {total(s0), total(s1), total(s2), total(s3)};
        for (int64_t r = 0; r < ROWS_TOGETHER; r++) {
            ws.u[i + r] = ws.a[i + r] / sums[r];
            if (!is_good(sums[r], ws.u[i + r], ws.a[i + r])) return false;
        }
        const Doubles u0 = spread(ws.u[i]), u1 = spread(ws.u[i + 1]), u2 = spread(ws.u[i + 2]), u3 = spread(ws.u[i + 3]);
        for (int64_t j = 0; j < stride; j += LANES) {
            const Doubles first = fused(u1, load(K + stride + j), u0 * load(K + j));
            const Doubles second = fused(u3, load(K + 3 * stride + j), u2 * load(K + 2 * stride + j));
            store(ws.ku + j, load(ws.ku + j) + (first + second));
        }
        return true;
    }

    // At most `count` iterations; how many were done. v is that of the last one done.
    int64_t iterate(int64_t count) {
        for (int64_t iteration = 0; iteration < count; iteration++) {
            std::fill_n(ws.ku, stride, 0.0);
            for (int64_t i = 0; i < rows; i += ROWS_TOGETHER)
                if (!four_rows(i)) return iteration;
            Doubles low = load(ws.ku), high = low;
            for (int64_t j = LANES; j < stride; j += LANES) {
                low = lesser(load(ws.ku + j), low);
                high = larger(load(ws.ku + j), high);
            }
            if (!(least(low) >= SMALLEST_SUM && largest(high) <= LARGEST_SUM)) return iteration;
            for (int64_t j = 0; j < stride; j += LANES) store(ws.v + j, load(ws.b + j) / load(ws.ku + j));
        }
        return count;
    }
};
