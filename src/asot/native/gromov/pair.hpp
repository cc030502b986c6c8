// One pair of spaces: the bilinear form of the energy, transport steps against it, and descent from a plan.
//
// The energy of a plan T is (1 - α) <c, T> + α <M(T), T> with M(T)_ij = Σ |d_X(i, i') - d_Y(j, j')|^p T_i'j', which is
// linear in T. A step solves the transport problem with the gradient as its cost; the energy along the step is a
// parabola whose coefficients are sums over the few arcs of the new plan, so nothing but M is computed anew.
#pragma once
#include "blocks.hpp"
#include "isometry.hpp"

class Pair {
  public:
    Pair(const GromovSpaces& all, Stop stop)
        : all_(all), stop_(stop), stride_(stride_of(all.most)), ws_(all.most, all.most, 2 * all.most),
          scratch_(all.most, all.most, 0),
          memory_(6 * Memory::bytes_of<double>((all.most + 4) * stride_) + 6 * Memory::bytes_of<double>(stride_) +
                  Memory::bytes_of<double>(longest() * stride_) + Memory::bytes_of<Arc>(room()) +
                  Memory::bytes_of<int32_t>(2 * all.most)) {
        if (failed()) return;
        for (double** each : {&form_, &step_form_, &plan_, &features_, &cost_, &columns_})
            *each = memory_.take<double>((all.most + 4) * stride_);
        for (double** each : {&row_sums_, &column_sums_, &row_means_, &column_means_, &f_, &g_})
            *each = memory_.take<double>(stride_);
        turned_ = memory_.take<double>(longest() * stride_);
        arcs_ = memory_.take<Arc>(room());
        match_ = memory_.take<int32_t>(2 * all.most);
    }
    // Also once a transport problem found no memory.
    bool failed() const { return memory_.failed() || ws_.failed() || scratch_.failed() || no_memory_; }

    void open(int64_t x, int64_t y) {
        n_ = all_.start[x + 1] - all_.start[x], m_ = all_.start[y + 1] - all_.start[y];
        width_ = stride_of(m_);
        bits_ = CostBits(n_, m_);
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
        const double one = means(dx_, n_, n_, a_, row_sums_, row_means_);
        size_ = one + means(columns_, m_, width_, b_, column_sums_, column_means_);
        for (int64_t j = m_; j < width_; j++) column_sums_[j] = column_means_[j] = 0.0;
        if (all_.features != nullptr) feature_costs();
    }

    // Whether both are one space, point by point: then the identity is a plan of energy 0, which bounds cannot tell from
    // other plans if points look alike.
    bool is_same() const {
        if (n_ != m_) return false;
        const double* dy = all_.distance + all_.matrix_at[y_];
        for (int64_t t = 0; t < n_ * n_; t++)
            if (dx_[t] != dy[t]) return false;
        for (int64_t i = 0; i < n_ && a_ != nullptr; i++)
            if (a_[i] != b_[i]) return false;
        for (int64_t i = 0; i < n_ && all_.features != nullptr; i++)
            if (features_[i * width_ + i] != 0.0) return false;
        return true;
    }
    void take_identity() {
        for (int64_t t = 0; t < n_ * width_; t++) plan_[t] = 0.0;
        for (int64_t i = 0; i < n_; i++) plan_[i * width_ + i] = mass_of(a_, i, n_);
    }

    // The third lower bound of the energy; its plan is left in `arcs`, and its energy returned in `energy`.
    double third_bound(double& energy) {
        row_gaps();
        double proven;
        transport(cost_, proven);
        energy = price();
        return proven;
    }

    // Whether points look alike so much that the third bound says nothing: isometric spaces do, and its plan may mix up
    // their symmetric points.
    bool is_tied(double bound, double best) const { return n_ == m_ && bound <= 1e-12 * size_ && best > 1e-12 * size_; }

    // Descend from the plan in `arcs` or from the product; returns the energy reached, and its plan is in `plan`.
    double descend(bool from_product, int64_t& steps) {
        double energy = from_product ? begin_with_product() : begin_with_arcs();
        for (int64_t step = 0; step < all_.max_steps && !is_over(); step++) {
            if (energy <= 1e-15 * size_) break;  // noise has no direction
            double unused;
            transport(gradient(), unused);
            if (holds_arcs() || no_memory_) break;
            const double along = over_arcs(form_), features = all_.features == nullptr ? 0.0 : over_arcs(features_);
            const double slope =
                (1.0 - all_.alpha) * (features - feature_value_) + 2.0 * all_.alpha * (along - form_value_);
            bilinear(step_form_);
            const double bend = over_arcs(step_form_) - 2.0 * along + form_value_;
            const double share = bend > 0.0 ? std::fmin(1.0, -slope / (2.0 * all_.alpha * bend)) : 1.0;
            const double gain = -(share * slope + share * share * all_.alpha * bend);
            if (!(share > 0.0 && gain > 0.0)) break;
            walk(share);
            form_value_ += share * (2.0 * (along - form_value_) + share * bend);
            feature_value_ += share * (features - feature_value_);
            steps++;
            energy -= gain;
            if (gain <= all_.tolerance * energy) break;
        }
        energy = value_of_plan();
        if (is_small(energy) && take_arcs_of_plan()) energy = price();
        return energy > 0.0 ? energy : 0.0;
    }

    // Arcs that match points so that all distances stay, if any are found, and their energy, else infinity.
    double match_isometric() {
        row_gaps();
        for (int64_t i = 0; i < n_ && a_ != nullptr; i++)
            for (int64_t j = 0; j < m_; j++)
                if (std::fabs(a_[i] - b_[j]) > 1e-12) cost_[i * width_ + j] = INFINITY;
        const double near = 1e-9 * std::pow(size_, 1.0 / all_.p);
        if (!find_isometry(n_, dx_, columns_, cost_, width_, 1e-12 * size_, near, 1000 * n_, match_, match_ + n_))
            return INFINITY;
        for (n_arcs_ = 0; n_arcs_ < n_; n_arcs_++)
            arcs_[n_arcs_] = {int32_t(n_arcs_), match_[n_arcs_], mass_of(a_, n_arcs_, n_)};
        is_warm_ = false;
        return price();
    }

    const double* plan() const { return plan_; }
    int64_t width() const { return width_; }
    int64_t n() const { return n_; }
    int64_t m() const { return m_; }

  private:
    // Whether the caller wants to end. All that takes longer than n · m asks, and what it leaves unfinished is discarded.
    bool is_over() const { return *stop_ != 0; }
    int64_t room() const { return 8 * all_.most; }
    int64_t longest() const { return all_.bins > all_.dim ? all_.bins : all_.dim; }

    // Weighted sums over each row of a matrix: of the distances, and of their p-th powers; returns the mean of the powers.
    double means(const double* d, int64_t n, int64_t stride, const double* mass, double* powers, double* plain) {
        double whole = 0.0;
        for (int64_t i = 0; i < n; i++) {
            double sum = 0.0, mean = 0.0;
            for (int64_t k = 0; k < n; k++) {
                const double weight = mass_of(mass, k, n), x = d[i * stride + k];
                sum += weight * powered(x, all_.p);
                mean += weight * x;
            }
            powers[i] = sum;
            plain[i] = mean;
            whole += mass_of(mass, i, n) * sum;
        }
        return whole;
    }

    void feature_costs() {
        const double* all = all_.features;
        gaps(all + all_.start[x_] * all_.dim, all + all_.start[y_] * all_.dim, all_.dim, 2.0, 1.0, features_);
        if (all_.p == 2.0) return;
        for (int64_t t = 0; t < n_ * width_; t++) features_[t] = powered(std::sqrt(features_[t]), all_.p);
    }

    // Costs of the third bound: means of |u - v|^p over the bins, at most the W_p^p on the line between two rows of
    // distances, and the features' share.
    void row_gaps() {
        const double *u = all_.quantiles + all_.start[x_] * all_.bins, *v = all_.quantiles + all_.start[y_] * all_.bins;
        gaps(u, v, all_.bins, all_.p, all_.alpha / double(all_.bins), cost_);
        if (all_.features == nullptr) return;
        for (int64_t t = 0; t < n_ * width_; t++) cost_[t] += (1.0 - all_.alpha) * features_[t];
    }

    // out = factor Σ |u - v|^p over the coordinates of vectors u (n, dim) and v (m, dim).
    void gaps(const double* u, const double* v, int64_t dim, double p, double factor, double* out) {
        for (int64_t c = 0; c < dim; c++) {
            for (int64_t j = 0; j < m_; j++) turned_[c * width_ + j] = v[j * dim + c];
            for (int64_t j = m_; j < width_; j++) turned_[c * width_ + j] = 0.0;
        }
        for (int64_t i = 0; i < n_ && !is_over(); i += ROWS) {
            const double* rows[ROWS];
            for (int64_t r = 0; r < ROWS; r++) rows[r] = u + (i + r < n_ ? i + r : n_ - 1) * dim;
            int64_t j = 0;
            for (; j + WIDE * LANES <= width_; j += WIDE * LANES) write_gaps<WIDE>(rows, i, j, dim, p, factor, out);
            for (; j < width_; j += LANES) write_gaps<1>(rows, i, j, dim, p, factor, out);
        }
    }
    template <int W>
    INLINE void write_gaps(const double* const (&rows)[ROWS], int64_t i, int64_t j, int64_t dim, double p,
                           double factor, double* out) {
        Doubles sums[ROWS][W];
        if (p == 2.0)
            gaps_block<2>(rows, turned_ + j, width_, dim, p, sums);
        else if (p == 1.0)
            gaps_block<1>(rows, turned_ + j, width_, dim, p, sums);
        else
            gaps_block<0>(rows, turned_ + j, width_, dim, p, sums);
        for (int64_t r = 0; r < ROWS && i + r < n_; r++)
            for (int w = 0; w < W; w++)
                store(out + (i + r) * width_ + j + w * LANES, sums[r][w] * spread(factor));
    }

    // Where a step goes: the transport problem with these costs, the energy's gradient up to a factor.
    const double* gradient() {
        if (all_.features == nullptr) return form_;
        for (int64_t t = 0; t < n_ * width_; t++)
            cost_[t] = 2.0 * all_.alpha * form_[t] + (1.0 - all_.alpha) * features_[t];
        return cost_;
    }

    // Solve the transport problem of `cost`; its plan goes to `arcs`, a proven lower bound of its value to `proven`.
    void transport(const double* cost, double& proven) {
        int64_t p, q;
        const double unit = place_both(ws_, a_, n_, b_, m_, p, q) * MASS_UNIT;
        const Units units = read_costs(ws_, scratch_, cost, width_, p, q, stop_);
        place_distances_up_to(units.most, ws_, scratch_, p, q, bits_, true, stop_);
        if (is_warm_ && units.most > 0.0) begin_with_potentials(p, q, bits_.largest / units.most, units);
        n_arcs_ = 0;
        proven = 0.0;
        if (solve_placed(ws_, p, q, bits_.index, stop_) == NO_MEMORY) no_memory_ = true;
        if (no_memory_ || is_over()) return;
        const double value = std::ldexp(value_of_flows(ws_, scratch_, p, q) * unit + units.low, units.exponent);
        // Costs and masses were rounded to integers, and sums of so many terms to doubles.
        proven = value - std::ldexp(units.most, units.exponent) * (4.0 / bits_.largest + (a_ == nullptr ? 0.0 : 1e-14)) -
                 double(p + q + all_.bins + all_.dim + 64) * 2.3e-16 * std::fabs(value);
        keep_potentials(p, q, std::ldexp(bits_.unit(units.most), units.exponent));
        const int64_t first = first_sink(p);
        for (int64_t node = 0; node < first + q; node++) {
            const int64_t up = ws_.parent[node];
            if (up == node || ws_.flow[node] == 0) continue;
            arcs_[n_arcs_++] = {node < p ? ws_.source[node] : ws_.source[up],
                                node < p ? ws_.sink[up - first] : ws_.sink[node - first],
                                double(ws_.flow[node]) * unit};
        }
    }

    // Potentials of the last solve, as prices of the next one: costs change little from step to step.
    void keep_potentials(int64_t p, int64_t q, double unit) {
        for (int64_t i = 0; i < p; i++) f_[i] = double(ws_.pi[i]) * unit;
        for (int64_t j = 0; j < q; j++) g_[j] = -double(ws_.pi[first_sink(p) + j]) * unit;
        is_warm_ = true;
    }
    // They are left out where costs have become so small that prices would not fit into integers.
    void begin_with_potentials(int64_t p, int64_t q, double scale, Units units) {
        const double factor = std::ldexp(scale, -units.exponent), top = std::ldexp(1.0, 60 - int(bits_.index));
        double largest = 0.0;
        for (int64_t i = 0; i < p; i++) largest = std::fmax(largest, std::fabs(f_[i]));
        for (int64_t j = 0; j < q; j++) largest = std::fmax(largest, std::fabs(g_[j]));
        if (!(largest * factor < top)) return;
        const int64_t shift = int64_t(1) << bits_.index;
        for (int64_t i = 0; i < p; i++) ws_.row_offset[i] = int64_t(f_[i] * factor) * shift;
        for (int64_t j = 0; j < q; j++) ws_.column_offset[j] = int64_t(g_[j] * factor) * shift;
    }

    double over_arcs(const double* block) const {
        double sum = 0.0;
        for (int64_t e = 0; e < n_arcs_; e++) sum += arcs_[e].mass * block[arcs_[e].source * width_ + arcs_[e].sink];
        return sum;
    }
    // Whether the plan is that of the arcs: the descent is at a vertex that no step leaves.
    bool holds_arcs() const {
        double common = 0.0;
        for (int64_t e = 0; e < n_arcs_; e++)
            common += std::fmin(arcs_[e].mass, plan_[arcs_[e].source * width_ + arcs_[e].sink]);
        return common > 1.0 - 1e-13;
    }

    // M of the arcs. For p = 2 the squares are known sums, and the mixed term is a product of matrices.
    void bilinear(double* out) {
        if (all_.p == 2.0) return square_form(out);
        for (int64_t t = 0; t < n_ * width_; t++) out[t] = 0.0;
        for (int64_t e = 0; e < n_arcs_ && !is_over(); e++) add_form(out, arcs_[e]);
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
        for (int64_t i = 0; i < n_ && !is_over(); i += ROWS) {
            int64_t j = 0;
            for (; j + WIDE * LANES <= width_; j += WIDE * LANES) write_form<WIDE>(mixed, wide, i, j, out);
            for (; j < width_; j += LANES) write_form<1>(mixed, wide, i, j, out);
        }
    }
    template <int W>
    INLINE void write_form(const double* mixed, int64_t wide, int64_t i, int64_t j, double* out) {
        Doubles sums[ROWS][W];
        product_block<W>(mixed + i, wide, columns_ + j, width_, m_, sums);
        for (int64_t r = 0; r < ROWS && i + r < n_; r++)
            for (int w = 0; w < W; w++)
                store(out + (i + r) * width_ + j + w * LANES,
                      spread(row_sums_[i + r]) + load(column_sums_ + j + w * LANES) - spread(2.0) * sums[r][w]);
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
        for (int64_t i = 0; i < n_; i++)
            for (int64_t j = 0; j < m_; j++) plan_[i * width_ + j] = mass_of(a_, i, n_) * mass_of(b_, j, m_);
        if (all_.p == 2.0) {
            for (int64_t i = 0; i < n_; i++)
                for (int64_t j = 0; j < width_; j++)
                    form_[i * width_ + j] = row_sums_[i] + column_sums_[j] - 2.0 * row_means_[i] * column_means_[j];
        } else {
            for (int64_t t = 0; t < n_ * width_; t++) form_[t] = 0.0;
            for (int64_t i = 0; i < n_; i++)
                for (int64_t j = 0; j < m_ && !is_over(); j++)
                    add_form(form_, {int32_t(i), int32_t(j), plan_[i * width_ + j]});
        }
        return value_of_plan();
    }
    double value_of_plan() {
        form_value_ = feature_value_ = 0.0;
        for (int64_t i = 0; i < n_; i++)
            for (int64_t j = 0; j < m_; j++) {
                form_value_ += plan_[i * width_ + j] * form_[i * width_ + j];
                if (all_.features != nullptr) feature_value_ += plan_[i * width_ + j] * features_[i * width_ + j];
            }
        return (1.0 - all_.alpha) * feature_value_ + all_.alpha * form_value_;
    }

    // Mix the plan and its form with those of the arcs.
    void walk(double share) {
        for (int64_t t = 0; t < n_ * width_; t++) plan_[t] *= 1.0 - share;
        for (int64_t e = 0; e < n_arcs_; e++)
            plan_[arcs_[e].source * width_ + arcs_[e].sink] += share * arcs_[e].mass;
        if (share < 1.0) {
            for (int64_t t = 0; t < n_ * width_; t++) form_[t] += share * (step_form_[t] - form_[t]);
        } else {
            double* const left = form_;
            form_ = step_form_;
            step_form_ = left;
        }
    }

    // Squares that cancel leave noise in small energies, so these are summed by their definition: isometric spaces are
    // at 0.
    bool is_small(double energy) const { return energy < 1e-3 * size_; }

    // Whether an entry of the plan is no more than masses are off by rounding.
    bool is_crumb(double mass) const { return a_ != nullptr && mass < CRUMB * double(n_ + m_); }

    // The entries of the plan as arcs, if they fit.
    bool take_arcs_of_plan() {
        n_arcs_ = 0;
        for (int64_t i = 0; i < n_; i++)
            for (int64_t j = 0; j < m_; j++) {
                if (plan_[i * width_ + j] == 0.0 || is_crumb(plan_[i * width_ + j])) continue;
                if (n_arcs_ == room()) return false;
                arcs_[n_arcs_++] = {int32_t(i), int32_t(j), plan_[i * width_ + j]};
            }
        return true;
    }

    // The energy of the arcs by its definition.
    double price() const {
        double sum = 0.0, diagonal = 0.0;
        for (int64_t e = 0; e < n_arcs_ && !is_over(); e++) {
            const double *u = dx_ + arcs_[e].source * n_, *v = columns_ + arcs_[e].sink * width_;
            double part = 0.0;
            for (int64_t f = 0; f < e; f++)
                part += arcs_[f].mass * powered(std::fabs(u[arcs_[f].source] - v[arcs_[f].sink]), all_.p);
            sum += arcs_[e].mass * part;
            diagonal += arcs_[e].mass * arcs_[e].mass *
                        powered(std::fabs(u[arcs_[e].source] - v[arcs_[e].sink]), all_.p);
        }
        const double features = all_.features == nullptr ? 0.0 : over_arcs(features_);
        return (1.0 - all_.alpha) * features + all_.alpha * (2.0 * sum + diagonal);
    }

    const GromovSpaces& all_;
    Stop stop_;
    int64_t stride_;
    CostBits bits_{1, 1};
    Workspace ws_;
    Scratch scratch_;
    Memory memory_;
    bool no_memory_ = false, is_warm_ = false;
    int64_t x_, y_, n_, m_, width_, n_arcs_ = 0;
    const double *a_, *b_, *dx_;
    double *form_, *step_form_, *plan_, *features_, *cost_, *columns_;  // (n, width) blocks; columns: (m, width) d_Y
    double *row_sums_, *column_sums_, *row_means_, *column_means_;      // (n,), (m,)
    double *f_, *g_;                                                    // (p,), (q,) potentials of the last solve
    double* turned_;                                                    // (coordinates, width) of the second space
    double size_ = 0.0;                                                 // mean of d_X^p and of d_Y^p, together
    Arc* arcs_;                                                         // (room,)
    int32_t* match_;                                                    // (2 most,)
    double form_value_ = 0.0, feature_value_ = 0.0;
};
