// One pair of spaces: the bilinear form of the energy, transport steps against it, and descent from a plan.
//
// The energy of a plan T is (1 - α) <c, T> + α <M(T), T> with M(T)_ij = Σ |d_X(i, i') - d_Y(j, j')|^p T_i'j', which is
// linear in T. A step solves the transport problem with the gradient as its cost; the energy along the step is a
// parabola whose coefficients are sums over the few arcs of the new plan, so nothing but M is computed anew.
#pragma once
#include "spaces.hpp"

class Pair {
  public:
    Pair(const GromovSpaces& all)
        : all_(all), stride_(stride_of(all.most)), ws_(all.most, all.most, 2 * all.most), scratch_(all.most, all.most,
        0),
          memory_(6 * Memory::bytes_of<double>((all.most + 4) * stride_) + 6 * Memory::bytes_of<double>(stride_) +
                  Memory::bytes_of<Arc>(2 * all.most)) {
        if (failed()) return;
        for (double** each : {&form_, &step_form_, &plan_, &features_, &cost_, &columns_})
            *each = memory_.take<double>((all.most + 4) * stride_);
        for (double** each : {&row_sums_, &column_sums_, &row_means_, &column_means_, &f_, &g_}) *each = memory_.take<double>(stride_);
        arcs_ = memory_.take<Arc>(2 * all.most);
    }
    bool failed() const { return memory_.failed() || ws_.failed() || scratch_.failed(); }

    void open(int64_t x, int64_t y) {
        n_ = all_.start[x + 1] - all_.start[x], m_ = all_.start[y + 1] - all_.start[y];
        width_ = stride_of(m_);
        a_ = all_.mass == nullptr ? nullptr : all_.mass + all_.start[x];
        b_ = all_.mass == nullptr ? nullptr : all_.mass + all_.start[y];
        dx_ = all_.distance + all_.matrix_at[x];
        x_ = x, y_ = y;
        is_warm_ = false;
        const double* dy = all_.distance + all_.matrix_at[y];
        for (int64_t j = 0; j < m_; j++) {
            for (int64_t k = 0; k < m_; k++) columns_[j * width_ + k] = dy[j * m_ + k];
            for (int64_t k = m_; k < width_; k++) columns_[j * width_ + k] = 0.0;
        }
        means(dx_, n_, n_, a_, row_sums_, row_means_);
        means(columns_, m_, width_, b_, column_sums_, column_means_);
        if (all_.features != nullptr) feature_costs();
    }

    // The third lower bound of the energy; its plan is left in `arcs`, and its energy returned in `energy`.
    double third_bound(double& energy, Stop stop) {
        for (int64_t i = 0; i < n_; i++) {
            const double* u = all_.quantiles + (all_.start[x_] + i) * all_.bins;
            double* out = cost_ + i * width_;
            for (int64_t j = 0; j < m_; j++) {
                const double rows = gap_of_rows(u, all_.quantiles + (all_.start[y_] + j) * all_.bins);
                out[j] = all_.features == nullptr ? rows : (1.0 - all_.alpha) * features_[i * width_ + j] + all_.alpha * rows;
            }
        }
        double proven;
        transport(proven, stop);
        energy = price();
        return proven;
    }

    // Descend from the plan in `arcs` or from the product; returns the energy reached, and its plan is in `plan`.
    double descend(bool from_product, int64_t& steps, Stop stop) {
        double energy = from_product ? begin_with_product() : begin_with_arcs();
        bool is_sparse = !from_product;
        for (int64_t step = 0; step < all_.max_steps && *stop == 0; step++) {
            for (int64_t t = 0; t < n_ * width_; t++) cost_[t] = 2.0 * all_.alpha * form_[t];
            if (all_.features != nullptr)
                for (int64_t t = 0; t < n_ * width_; t++) cost_[t] += (1.0 - all_.alpha) * features_[t];
            double proven;
            transport(proven, stop);
            const double along = over_arcs(form_), features = all_.features == nullptr ? 0.0 : over_arcs(features_);
            const double slope = (1.0 - all_.alpha) * (features - feature_value_) + 2.0 * all_.alpha * (along -
            form_value_); if (slope >= -all_.tolerance * energy) break; bilinear(step_form_); const double there =
            over_arcs(step_form_), bend = there - 2.0 * along + form_value_; const double share = all_.alpha * bend >
            0.0 ? std::fmin(1.0, -slope / (2.0 * all_.alpha * bend)) : 1.0; const double gain = -(share * slope + share
            * share * all_.alpha * bend); if (!(gain > 0.0)) break; walk(share); form_value_ += share * (2.0 * (along -
            form_value_) + share * bend); feature_value_ += share * (features - feature_value_); is_sparse = share ==
            1.0; steps++; energy -= gain; if (gain <= all_.tolerance * energy) break;
        }
        if (is_sparse && take_arcs_of_plan()) energy = exact_price(energy);
        return energy > 0.0 ? energy : 0.0;
    }

    const double* plan() const { return plan_; }
    int64_t width() const { return width_; }
    int64_t n() const { return n_; }
    int64_t m() const { return m_; }

  private:
    // Weighted sums over each row of a matrix: of the distances, and of their p-th powers.
    void means(const double* d, int64_t n, int64_t stride, const double* mass, double* powers, double* plain) {
        for (int64_t i = 0; i < n; i++) {
            double sum = 0.0, mean = 0.0;
            for (int64_t k = 0; k < n; k++) {
                const double weight = mass == nullptr ? 1.0 / double(n) : mass[k], x = d[i * stride + k];
                sum += weight * powered(x, all_.p);
                mean += weight * x;
            }
            powers[i] = sum;
            plain[i] = mean;
        }
    }

    void feature_costs() {
        for (int64_t i = 0; i < n_; i++)
            for (int64_t j = 0; j < m_; j++) {
                const double *u = all_.features + (all_.start[x_] + i) * all_.dim,
                             *v = all_.features + (all_.start[y_] + j) * all_.dim;
                double squares = 0.0;
                for (int64_t c = 0; c < all_.dim; c++) squares += (u[c] - v[c]) * (u[c] - v[c]);
                features_[i * width_ + j] = all_.p == 2.0 ? squares : powered(std::sqrt(squares), all_.p);
            }
    }

    // Mean of |u - v|^p over the bins: at most the W_p^p on the line between two rows of distances.
    double gap_of_rows(const double* u, const double* v) const {
        Doubles sums = spread(0.0);
        int64_t c = 0;
        for (; c + LANES <= all_.bins; c += LANES) {
            const Doubles gap = size_of(load(u + c) - load(v + c));
            if (all_.p == 2.0)
                sums = fused(gap, gap, sums);
            else if (all_.p == 1.0)
                sums = sums + gap;
            else
                for (int64_t k = c; k < c + LANES; k++) sums = sums + put_power(k - c, std::fabs(u[k] - v[k]));
        }
        double sum = total(sums);
        for (; c < all_.bins; c++) sum += powered(std::fabs(u[c] - v[c]), all_.p);
        return sum / double(all_.bins);
    }
    Doubles put_power(int64_t lane, double gap) const {
        double x[LANES] = {};
        x[lane] = std::pow(gap, all_.p);
        return load(x);
    }

    // Solve the transport problem of `cost_`; its plan goes to `arcs`, a proven lower bound of its value to `proven`.
    void transport(double& proven, Stop stop) {
        int64_t p, q;
        const int index_bits = bits_for(all_.most);
        const double scale = std::ldexp(1.0, 62 - 2 * index_bits);
        const double unit = place_both(ws_, a_, n_, b_, m_, p, q);
        const Units units = read_costs(ws_, scratch_, cost_, width_, p, q);
        const double most = place_distances(ws_, scratch_, p, q, index_bits, scale, stop);
        if (is_warm_ && most > 0.0) begin_with_potentials(p, q, index_bits, scale / most, units);
        solve_placed(ws_, p, q, index_bits, stop);
        double value = std::ldexp(value_of_flows(ws_, scratch_, p, q) * unit + units.low, units.exponent);
        // Costs were rounded to integers: the optimum is at most one unit of them below.
        proven = value - std::ldexp(most, units.exponent) * 2.0 / scale - 1e-13 * std::fabs(value);
        n_arcs_ = 0;
        const int64_t first = first_sink(p);
        keep_potentials(p, q, std::ldexp(most / scale, units.exponent - index_bits));
        for (int64_t node = 0; node < first + q; node++) {
            const int64_t up = ws_.parent[node];
            if (up == node || ws_.flow[node] == 0) continue;
            arcs_[n_arcs_++] = {node < p ? ws_.source[node] : ws_.source[up],
                                node < p ? ws_.sink[up - first] : ws_.sink[node - first], double(ws_.flow[node]) *
                                unit};
        }
    }

    // Potentials of the last solve, as prices of the next one: costs change little from step to step.
    void keep_potentials(int64_t p, int64_t q, double unit) {
        for (int64_t i = 0; i < p; i++) f_[i] = double(ws_.pi[i]) * unit;
        for (int64_t j = 0; j < q; j++) g_[j] = -double(ws_.pi[first_sink(p) + j]) * unit;
        is_warm_ = true;
    }
    void begin_with_potentials(int64_t p, int64_t q, int index_bits, double scale, Units units) {
        const double factor = std::ldexp(scale, -units.exponent);
        for (int64_t i = 0; i < p; i++) ws_.row_offset[i] = int64_t(f_[i] * factor) * (int64_t(1) << index_bits);
        for (int64_t j = 0; j < q; j++) ws_.column_offset[j] = int64_t(g_[j] * factor) * (int64_t(1) << index_bits);
    }
    static int bits_for(int64_t most) {
        int bits = 4;
        while ((int64_t(1) << bits) < most + LANES) bits++;
        return bits;
    }

    double over_arcs(const double* block) const {
        double sum = 0.0;
        for (int64_t e = 0; e < n_arcs_; e++) sum += arcs_[e].mass * block[arcs_[e].source * width_ + arcs_[e].sink];
        return sum;
    }

    // M of the arcs. For p = 2 the squares are known sums, and the mixed term is a product of matrices.
    void bilinear(double* out) {
        if (all_.p == 2.0) return square_form(out);
        for (int64_t t = 0; t < n_ * width_; t++) out[t] = 0.0;
        for (int64_t e = 0; e < n_arcs_; e++) add_form(out, arcs_[e]);
    }
    void add_form(double* out, Arc arc) const {
        const double *u = dx_ + arc.source * n_, *v = columns_ + arc.sink * width_;
        for (int64_t i = 0; i < n_; i++) {
            double* row = out + i * width_;
            if (all_.p == 1.0)
                for (int64_t j = 0; j < width_; j += LANES)
                    store(row + j, fused(spread(arc.mass), size_of(spread(u[i]) - load(v + j)), load(row + j)));
            else
                for (int64_t j = 0; j < m_; j++) row[j] += arc.mass * std::pow(std::fabs(u[i] - v[j]), all_.p);
        }
    }
    void square_form(double* out) {
        double* mixed = scratch_.distance;  // (m, n padded): rows of d_X, gathered by the sinks of the arcs
        const int64_t wide = stride_of(n_);
        for (int64_t t = 0; t < m_ * wide; t++) mixed[t] = 0.0;
        for (int64_t e = 0; e < n_arcs_; e++) {
            const double* u = dx_ + arcs_[e].source * n_;
            double* row = mixed + arcs_[e].sink * wide;
            for (int64_t i = 0; i < n_; i++) row[i] += arcs_[e].mass * u[i];
        }
        for (int64_t i = 0; i < n_; i += 4) {
            for (int64_t j = 0; j < width_; j += LANES) {
                Doubles sums[4] = {spread(0.0), spread(0.0), spread(0.0), spread(0.0)};
                for (int64_t k = 0; k < m_; k++) {
                    const Doubles v = load(columns_ + k * width_ + j);
                    for (int64_t r = 0; r < 4; r++) sums[r] = fused(spread(mixed[k * wide + i + r]), v, sums[r]);
                }
                for (int64_t r = 0; r < 4 && i + r < n_; r++)
                    store(out + (i + r) * width_ + j,
                          spread(row_sums_[i + r]) + load(column_sums_ + j) - spread(2.0) * sums[r]);
            }
        }
    }

    double begin_with_arcs() {
        for (int64_t t = 0; t < n_ * width_; t++) plan_[t] = 0.0;
        for (int64_t e = 0; e < n_arcs_; e++) plan_[arcs_[e].source * width_ + arcs_[e].sink] += arcs_[e].mass;
        bilinear(form_);
        form_value_ = over_arcs(form_);
        feature_value_ = all_.features == nullptr ? 0.0 : over_arcs(features_);
        return (1.0 - all_.alpha) * feature_value_ + all_.alpha * form_value_;
    }
    double begin_with_product() {
        form_value_ = feature_value_ = 0.0;
        for (int64_t i = 0; i < n_; i++)
            for (int64_t j = 0; j < m_; j++)
                plan_[i * width_ + j] = (a_ == nullptr ? 1.0 / double(n_) : a_[i]) * (b_ == nullptr ? 1.0 / double(m_) :
                b_[j]);
        if (all_.p == 2.0) {
            for (int64_t i = 0; i < n_; i++)
                for (int64_t j = 0; j < m_; j++)
                    form_[i * width_ + j] = row_sums_[i] + column_sums_[j] - 2.0 * row_means_[i] * column_means_[j];
        } else {
            for (int64_t t = 0; t < n_ * width_; t++) form_[t] = 0.0;
            for (int64_t i = 0; i < n_; i++)
                for (int64_t j = 0; j < m_; j++) add_form(form_, {int32_t(i), int32_t(j), plan_[i * width_ + j]});
        }
        for (int64_t i = 0; i < n_; i++)
            for (int64_t j = 0; j < m_; j++) {
                form_value_ += plan_[i * width_ + j] * form_[i * width_ + j];
                if (all_.features != nullptr) feature_value_ += plan_[i * width_ + j] * features_[i * width_ + j];
            }
        return (1.0 - all_.alpha) * feature_value_ + all_.alpha * form_value_;
    }

    // Mix the plan and its form with those of the arcs.
    void walk(double share) {
        for (int64_t t = 0; t < n_ * width_; t++) {
            plan_[t] *= 1.0 - share;
            form_[t] = share == 1.0 ? step_form_[t] : form_[t] + share * (step_form_[t] - form_[t]);
        }
        for (int64_t e = 0; e < n_arcs_; e++)
            plan_[arcs_[e].source * width_ + arcs_[e].sink] += share * arcs_[e].mass;
    }

    double price() {
        bilinear(step_form_);
        const double features = all_.features == nullptr ? 0.0 : over_arcs(features_);
        return exact_price((1.0 - all_.alpha) * features + all_.alpha * over_arcs(step_form_));
    }

    // The entries of the plan as arcs, if they fit.
    bool take_arcs_of_plan() {
        n_arcs_ = 0;
        for (int64_t i = 0; i < n_; i++)
            for (int64_t j = 0; j < m_; j++) {
                if (plan_[i * width_ + j] == 0.0) continue;
                if (n_arcs_ == 2 * all_.most) return false;
                arcs_[n_arcs_++] = {int32_t(i), int32_t(j), plan_[i * width_ + j]};
            }
        return true;
    }

    // The energy of the arcs by its definition, where squares that cancel have left noise: isometric spaces
    // are at 0.
    double exact_price(double known) const {
        const double size = row_sums_[0] + column_sums_[0];
        if (all_.alpha * known > 1e-9 * size) return known;
        double sum = 0.0;
        for (int64_t e = 0; e < n_arcs_; e++)
            for (int64_t f = 0; f < n_arcs_; f++)
                sum += arcs_[e].mass * arcs_[f].mass *
                       powered(std::fabs(dx_[arcs_[e].source * n_ + arcs_[f].source] -
                                         columns_[arcs_[e].sink * width_ + arcs_[f].sink]), all_.p);
        const double features = all_.features == nullptr ? 0.0 : over_arcs(features_);
        return (1.0 - all_.alpha) * features + all_.alpha * sum;
    }

    const GromovSpaces& all_;
    int64_t stride_;
    Workspace ws_;
    Scratch scratch_;
    Memory memory_;
    int64_t x_, y_, n_, m_, width_, n_arcs_ = 0;
    const double *a_, *b_, *dx_;
    double *form_, *step_form_, *plan_, *features_, *cost_, *columns_;  // (n, width) blocks; columns: (m, width) d_Y
    double *row_sums_, *column_sums_, *row_means_, *column_means_;      // (n,), (m,)
    double *f_, *g_;                                                    // (p,), (q,) potentials of the last solve
    bool is_warm_ = false;
    Arc* arcs_;  // (2 most,)
    double form_value_ = 0.0, feature_value_ = 0.0;
};
