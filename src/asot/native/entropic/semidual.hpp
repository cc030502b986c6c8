// One entropic problem in the log domain, with its plan: potentials φ, ψ and costs M = C/ε, T = exp(φ_i + ψ_j - M_ij).
// See asot/entropic/log_newton.py for the mathematics; σ = 0 means exact marginals.
//
// Rows of M and T are padded to whole lanes: M repeats its last column there, and T is 0.
#pragma once
#include <algorithm>
#include <cmath>

#include "../common/exponential.hpp"
#include "newton_step.hpp"

// exp, and 0 where the result would be below 1e-307.
INLINE Doubles plan_exponential(Doubles x) {
    return select_less(x, spread(LOWEST_EXPONENT), spread(0.0), exponential(x));
}

// Flows below this are 0: products of two of them would leave the range of float64, which processors do slowly.
constexpr double SMALLEST_FLOW = 1e-150;

struct SemidualPlan {
    double *T;                  // (p padded to a multiple of 4, stride)
    double *row_sum, *wanted;   // (p,) row sums as they are, and as they should be
    double *column_sum;         // (stride,) 1 in the padding
    double *phi, *psi;          // (p,), (stride,)
};

struct Semidual {
    int64_t p, q, stride;
    double *a, *b;        // (p,), (q,) masses
    double* M;            // (p, stride)
    double sigma;
    double* scale;        // (stride,) scratch

    // φ_i ← log a_i - log Σ_j exp(ψ_j - M_ij) / (1 + σ).
    double fitted_row(int64_t i, const double* psi) const {
        const double* row = M + i * stride;
        double top = -INFINITY, sum = 0.0;
        for (int64_t j = 0; j < q; j++) top = std::max(top, psi[j] - row[j]);
        for (int64_t j = 0; j < q; j++) sum += std::exp(psi[j] - row[j] - top);
        return std::log(a[i]) - (top + std::log(sum)) / (1.0 + sigma);
    }

    // ψ_j ← log b_j - log Σ_i exp(φ_i - M_ij) / (1 + σ): column sums become b e^(-σ d). Also fills the plan, its sums and
    // the row sums that are wanted; returns the marginal error.
    double fit_columns(const SemidualPlan& plan) const {
        for (int64_t j = 0; j < stride; j += LANES) {
            Doubles top = spread<double>(-INFINITY);
            for (int64_t i = 0; i < p; i++) top = larger(spread(plan.phi[i]) - load(M + i * stride + j), top);
            store(plan.psi + j, top);
        }
        std::fill_n(scale, stride, 0.0);
        for (int64_t i = 0; i < p; i++) {
            for (int64_t o = i * stride, j = 0; j < stride; j += LANES) {
                const Doubles flow = plan_exponential(spread(plan.phi[i]) - load(M + o + j) - load(plan.psi + j));
                store(plan.T + o + j, flow);
                store(scale + j, load(scale + j) + flow);
            }
        }
        for (int64_t j = 0; j < q; j++) {
            const double d = -(plan.psi[j] + std::log(scale[j])) / (1.0 + sigma);
            plan.psi[j] = std::log(b[j]) + d;
            plan.column_sum[j] = sigma > 0.0 ? b[j] * std::exp(-sigma * d) : b[j];
            scale[j] = plan.column_sum[j] / scale[j];
        }
        for (int64_t j = q; j < stride; j++) plan.psi[j] = plan.psi[q - 1], plan.column_sum[j] = 1.0, scale[j] = 0.0;
        return scale_plan(plan);
    }

    // Sinkhorn's update of all rows, from the row sums of the present plan where these did not vanish.
    void fit_rows(const SemidualPlan& plan) const {
        for (int64_t i = 0; i < p; i++) {
            if (plan.row_sum[i] > 1e-290)
                plan.phi[i] = std::log(a[i]) + (plan.phi[i] - std::log(plan.row_sum[i])) / (1.0 + sigma);
            else
                plan.phi[i] = fitted_row(i, plan.psi);
        }
    }

    // Newton's step from r = t - T1, t the row sums that are wanted. Edges weigh W_ik = Σ_j T_ij T_kj / ((1 + σ)
    // (Tᵀ1)_j). The ground holds every node by σ t + σ/(1 + σ) T1 and by |r| / LARGEST_MOVE, which keeps all entries of the
    // step within LARGEST_MOVE and vanishes with the residual. `some` is scratch of four rows. Returns the largest entry.
    double newton_step(const SemidualPlan& plan, const Network& net, double* some) const {
        const double loose = sigma / (1.0 + sigma);
        for (int64_t i = 0; i < p; i++) {
            net.step[i] = plan.wanted[i] - plan.row_sum[i];
            net.ground[i] = std::fabs(net.step[i]) / LARGEST_MOVE + sigma * plan.wanted[i] + loose * plan.row_sum[i];
        }
        for (int64_t j = 0; j < stride; j++) scale[j] = 1.0 / ((1.0 + sigma) * plan.column_sum[j]);
        weigh_edges(net, plan.T, stride, some, [&](int64_t i, double* out) {
            for (int64_t j = 0; j < stride; j += LANES) store(out + j, load(plan.T + i * stride + j) * load(scale + j));
        });
        return solve_network(net);
    }

    // ⟨a, φ⟩ + ⟨b, ψ⟩; with loose marginals Σ a (1 - e^(-σ c)) / σ + Σ b (1 - e^(-σ d)) / σ - Σ Tᵀ1.
    double height(const SemidualPlan& plan) const {
        if (sigma == 0.0) return dot(a, plan.phi, p) + dot(b, plan.psi, q);
        double sum = 0.0;
        for (int64_t i = 0; i < p; i++) sum -= a[i] * std::expm1(-sigma * (plan.phi[i] - std::log(a[i]))) / sigma;
        for (int64_t j = 0; j < q; j++)
            sum -= b[j] * std::expm1(-sigma * (plan.psi[j] - std::log(b[j]))) / sigma + plan.column_sum[j];
        return sum;
    }

    // In units of ε: the cost ⟨T, M⟩, the objective (see `shared_kernel.regularized_values`), and the mass of T.
    void values(const double* phi, const double* psi, double* answers) const {
        double cost = 0.0, mass = 0.0, entropy = 0.0;
        for (int64_t i = 0; i < p; i++) {
            double row_sum = 0.0;
            for (int64_t o = i * stride, j = 0; j < stride; j += LANES) {
                const Doubles M_row = load(M + o + j), log_mass = spread(phi[i]) + load(psi + j) - M_row;
                const Doubles flow = plan_exponential(log_mass);
                double flows[LANES], costs[LANES], logs[LANES];
                store(flows, flow), store(costs, flow * M_row), store(logs, flow * log_mass);
                for (int64_t l = 0; l < std::min(LANES, q - j); l++)
                    cost += costs[l], entropy += logs[l], row_sum += flows[l];
            }
            mass += row_sum;
            if (sigma > 0.0 && row_sum > 0.0)
                entropy += row_sum * (std::log(row_sum / a[i]) / sigma - std::log(a[i]));
        }
        answers[0] = cost, answers[2] = mass;
        answers[1] = cost + entropy - mass;
        if (sigma == 0.0) return;
        for (int64_t j = 0; j < q; j++) entropy -= b[j] * std::exp(-sigma * (psi[j] - std::log(b[j]))) * psi[j];
        const double both = sum_of(a, p) + sum_of(b, q);
        answers[1] = cost + entropy - mass + (both - 2.0 * mass) / sigma;
    }

  private:
    double scale_plan(const SemidualPlan& plan) const {
        double error = 0.0, mass = 0.0;
        for (int64_t i = 0; i < p; i++) {
            Doubles sum = spread(0.0);
            for (int64_t o = i * stride, j = 0; j < stride; j += LANES) {
                const Doubles whole = load(plan.T + o + j) * load(scale + j);
                const Doubles flow = select_less(whole, spread(SMALLEST_FLOW), spread(0.0), whole);
                store(plan.T + o + j, flow);
                sum = sum + flow;
            }
            plan.row_sum[i] = total(sum);
            plan.wanted[i] = sigma > 0.0 ? a[i] * std::exp(-sigma * (plan.phi[i] - std::log(a[i]))) : a[i];
            error += std::fabs(plan.row_sum[i] - plan.wanted[i]);
            mass += plan.wanted[i];
        }
        return sigma > 0.0 ? error / mass : error;
    }
};
