// The reduced bound of a single pair, from its part of a block of costs.
#pragma once
#include "relaxed_costs.hpp"

constexpr double KEEP = 1.0 - 0x1p-20;  // a bound minus all possible rounding, so that it is certainly not too large
constexpr double UNIT = 0x1p-60;

// Memory for the points that a pair of at most n and m points has to ship between.
class RelaxedPair {
  public:
    RelaxedPair(int64_t n, int64_t m)
        : memory_(Memory::bytes_of<int64_t>(n + 1) + Memory::bytes_of<int64_t>(m + 1) +
                  Memory::bytes_of<double>(n + 1) + Memory::bytes_of<double>(m + 1) +
                  3 * Memory::bytes_of<float>(whole_floats(n)) + 2 * Memory::bytes_of<float>(m + 1) +
                  Memory::bytes_of<float>(m * whole_floats(n))) {
        if (memory_.failed()) return;
        x_ = memory_.take<int64_t>(n + 1), v_ = memory_.take<int64_t>(m + 1);
        supply_ = memory_.take<double>(n + 1), demand_ = memory_.take<double>(m + 1);
        for (float** each : {&price_x_, &f_, &again_}) *each = memory_.take<float>(whole_floats(n));
        price_v_ = memory_.take<float>(m + 1), g_ = memory_.take<float>(m + 1);
        costs_ = memory_.take<float>(m * whole_floats(n));
    }
    bool failed() const { return memory_.failed(); }

    // Sources and sinks of distributions a and b; mass that both have on a point stays there, if the cost is a metric.
    // place_x and place_v (V,) say where a point stands in the block.
    void place(const RelaxedPoints& h, bool cancels, const CostBlock& block, const int32_t* place_x,
               const int32_t* place_v, int64_t a, int64_t b) {
        int64_t s = h.offsets[a], t = h.offsets[b];
        const int64_t s_end = h.offsets[a + 1], t_end = h.offsets[b + 1];
        p_ = q_ = 0;
        while (s < s_end || t < t_end) {
            const bool from_a = t == t_end || (s < s_end && h.names[s] <= h.names[t]);
            const bool from_b = s == s_end || (t < t_end && h.names[t] <= h.names[s]);
            int64_t given = from_a ? h.masses[s] : 0, taken = from_b ? h.masses[t] : 0;
            if (cancels) {
                const int64_t common = taken < given ? taken : given;
                given -= common;
                taken -= common;
            }
            if (given > 0) {
                x_[p_] = place_x[h.names[s]];
                supply_[p_] = double(given) * UNIT;
                price_x_[p_++] = h.prices[h.names[s]];
            }
            if (taken > 0) {
                v_[q_] = place_v[h.names[t]];
                demand_[q_] = double(taken) * UNIT;
                price_v_[q_++] = h.prices[h.names[t]];
            }
            s += from_a;
            t += from_b;
        }
        stride_ = whole_floats(p_);
        for (int64_t j = 0; j < q_; j++) {
            float* o = costs_ + j * stride_;
            const float* row = block.costs + v_[j] * block.stride;
            for (int64_t i = 0; i < p_; i++) o[i] = row[x_[i]];
            for (int64_t i = p_; i < stride_; i++) o[i] = INFINITY;
        }
    }

    // The first of the reduced bounds above `limit`, or the larger of both.
    //
    // g_j = min_i c_ij and then f_i = min_j c_ij - g_j are dual potentials: f_i + g_j <= c_ij, whatever the cost is. So
    // are those with the roles exchanged. Without the second step this is the relaxed bound. Where mass may stay
    // unmatched, no potential exceeds the price of its point, and those of the reservoirs are 0.
    double reduced(double limit) const {
        const Floats infinite = spread(float(INFINITY));
        for (int64_t i = p_; i < stride_; i++) price_x_[i] = INFINITY;
        for (int64_t t = 0; t < stride_; t += FLOATS) store(f_ + t, load(price_x_ + t));
        double forth = 0.0, back = 0.0;
        for (int64_t j = 0; j < q_; j++) {
            Floats smallest = infinite;
            for (int64_t t = 0; t < stride_; t += FLOATS) {
                const Floats costs = load(costs_ + j * stride_ + t);
                smallest = lesser(smallest, costs);
                store(f_ + t, lesser(load(f_ + t), costs));
            }
            const float nearest = least(smallest);
            g_[j] = price_v_[j] < nearest ? price_v_[j] : nearest;
            forth += demand_[j] * double(g_[j]);
        }
        if (forth * KEEP > limit) return forth * KEEP;
        for (int64_t i = 0; i < p_; i++) back += supply_[i] * double(f_[i]);
        if (back * KEEP > limit) return back * KEEP;
        for (int64_t i = p_; i < stride_; i++) f_[i] = 0.0f;
        for (int64_t t = 0; t < stride_; t += FLOATS) store(again_ + t, load(price_x_ + t));
        for (int64_t j = 0; j < q_; j++) {
            Floats smallest = infinite;
            const Floats height = spread(g_[j]);
            for (int64_t t = 0; t < stride_; t += FLOATS) {
                const Floats costs = load(costs_ + j * stride_ + t);
                smallest = lesser(smallest, costs - load(f_ + t));
                store(again_ + t, lesser(load(again_ + t), costs - height));
            }
            const float nearest = least(smallest);
            back += demand_[j] * double(price_v_[j] < nearest ? price_v_[j] : nearest);
        }
        for (int64_t i = 0; i < p_; i++) forth += supply_[i] * double(again_[i]);
        return (back > forth ? back : forth) * KEEP;
    }

  private:
    Memory memory_;
    int64_t p_, q_, stride_;
    int64_t *x_, *v_;                  // (n,), (m,) places in the block
    double *supply_, *demand_;         // (n,), (m,)
    float *price_x_, *price_v_;        // (n,) padded, (m,) of unmatched mass
    float* costs_;                     // (m, n), rows padded, flat
    float *f_, *g_, *again_;           // (n,) padded, (m,), (n,) padded
};
