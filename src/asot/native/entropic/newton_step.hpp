// A Newton step of the entropic semi-dual: a positive definite system, solved without a subtraction.
#pragma once
#include <cmath>

#include "../common/lanes.hpp"

constexpr double LARGEST_MOVE = 4.0;  // no potential changes by more than this many ε (asot/entropic/log_newton.py)

// ⟨x, y⟩ of n numbers; lanes first, then the rest.
INLINE double dot(const double* x, const double* y, int64_t n) {
    Doubles s = spread(0.0);
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) s = fused(load(x + j), load(y + j), s);
    double sum = total(s);
    for (; j < n; j++) sum = fused(x[j], y[j], sum);
    return sum;
}

INLINE double sum_of(const double* x, int64_t n) {
    Doubles s = spread(0.0);
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) s = s + load(x + j);
    double sum = total(s);
    for (; j < n; j++) sum += x[j];
    return sum;
}

// out[r · out_stride + c] = ⟨x_r, y_c⟩ of four rows x and two rows y of whole lanes. The sums have names: GCC would keep an
// array of them in memory.
INLINE void eight_dots(const double* x, const double* y, int64_t stride, double* out, int64_t out_stride) {
    Doubles s0 = spread(0.0), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
    for (int64_t j = 0; j < stride; j += LANES) {
        const Doubles first = load(y + j), second = load(y + stride + j);
        const Doubles x0 = load(x + j), x1 = load(x + stride + j), x2 = load(x + 2 * stride + j),
                      x3 = load(x + 3 * stride + j);
        s0 = fused(x0, first, s0), t0 = fused(x0, second, t0);
        s1 = fused(x1, first, s1), t1 = fused(x1, second, t1);
        s2 = fused(x2, first, s2), t2 = fused(x2, second, t2);
        s3 = fused(x3, first, s3), t3 = fused(x3, second, t3);
    }
    out[0] = total(s0), out[1] = total(t0);
    out[out_stride] = total(s1), out[out_stride + 1] = total(t1);
    out[2 * out_stride] = total(s2), out[2 * out_stride + 1] = total(t2);
    out[3 * out_stride] = total(s3), out[3 * out_stride + 1] = total(t3);
}

// A graph of p nodes whose edges weigh W_ik, of which only k > i is kept; every node is tied to the ground.
struct Network {
    int64_t p, row;          // nodes; length of a row of W, whole lanes
    double* W;               // (p, row)
    double *ground, *degree;  // (p,)
    double* step;            // (p,) right-hand side, then the solution
};

// Edges W_ik = ⟨scaled_i, T_k⟩ of rows of whole lanes. `some` holds STEP rows.
template <class Scale>
INLINE void weigh_edges(const Network& net, const double* T, int64_t stride, double* some, Scale scale) {
    constexpr int64_t STEP = 4;
    for (int64_t i = 0; i < net.p; i += STEP) {
        const int64_t count = i + STEP <= net.p ? STEP : net.p - i;
        double* out = net.W + i * net.row;
        for (int64_t r = 0; r < count; r++) {
            scale(i + r, some + r * stride);
            for (int64_t below = (i + r) & ~(LANES - 1); below <= i + r; below++)
                out[r * net.row + below] = 0.0;  // read by `take_over`, without effect
        }
        int64_t k = i + 1;
        for (; count == STEP && k + 2 <= net.p; k += 2) eight_dots(some, T + k * stride, stride, out + k, net.row);
        for (; k < net.p; k++)
            for (int64_t r = 0; r < count; r++) out[r * net.row + k] = dot(some + r * stride, T + k * stride, stride);
    }
}

// Row i takes over its shares of the edges of COUNT nodes from v on that are gone.
template <int COUNT>
INLINE void take_over(const Network& net, int64_t v, int64_t i) {
    double* own = net.W + i * net.row;
    double share[COUNT];
    for (int m = 0; m < COUNT; m++) {
        const double* gone = net.W + (v + m) * net.row;
        share[m] = gone[i] / net.degree[v + m];
        net.step[i] = fused(share[m], net.step[v + m], net.step[i]);
        net.ground[i] = fused(share[m], net.ground[v + m], net.ground[i]);
    }
    for (int64_t k = (i + 1) & ~(LANES - 1); k < net.p; k += LANES) {
        Doubles edge = load(own + k);
        for (int m = 0; m < COUNT; m++)
            edge = fused(spread(share[m]), load(net.W + (v + m) * net.row + k), edge);
        store(own + k, edge);
    }
}

// Solve (L + G) step = step, with L the Laplacian of the graph and G its ties to the ground; the largest entry.
//
// Eliminating a node only adds to the weights between its neighbors: without a subtraction they keep all their digits
// (Grassmann, Taksar, Heyman), even where the plan falls into blocks that hardly touch and a Cholesky factor would be
// noise. Four nodes go together, so that the rest is read and written once for all of them.
INLINE double solve_network(const Network& net) {
    constexpr int64_t TOGETHER = 4;
    for (int64_t v = 0; v < net.p; v += TOGETHER) {
        const int64_t end = v + TOGETHER <= net.p ? v + TOGETHER : net.p;
        for (int64_t u = v; u < end; u++) {
            const double* edges = net.W + u * net.row;
            net.degree[u] = net.ground[u] + 1e-300 + sum_of(edges + u + 1, net.p - u - 1);
            for (int64_t i = u + 1; i < end; i++) take_over<1>(net, u, i);
        }
        for (int64_t i = end; i < net.p; i++) take_over<TOGETHER>(net, v, i);
    }
    double most = 0.0;
    for (int64_t v = net.p - 1; v >= 0; v--) {
        const double* edges = net.W + v * net.row;
        net.step[v] = (net.step[v] + dot(edges + v + 1, net.step + v + 1, net.p - v - 1)) / net.degree[v];
        most = std::fabs(net.step[v]) > most ? std::fabs(net.step[v]) : most;
    }
    return most;
}
