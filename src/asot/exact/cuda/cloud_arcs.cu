// Arcs of plans between clouds of points: what each costs, and what that gives to the points when it is differentiated. A
// warp takes an arc, or a point with all of its arcs; its lanes share the coordinates, which are read as they are and
// summed in float64. Euclidean distances to a power.
//
// Defines (asot.exact.cuda.cloud_arcs): REAL, the type of coordinates.

DEVICE double of_squares(double squares, double power) {
    return power == 2.0 ? squares : power == 1.0 ? sqrt(squares) : pow(squares, 0.5 * power);
}

// |x - y|^power of arcs that ship something, in the units of their pairs.
extern "C" __global__ void price_arcs(
    const REAL* __restrict__ x, const REAL* __restrict__ y, int dim, const i64* __restrict__ source,
    const i64* __restrict__ sink, const i64* __restrict__ pair, const double* __restrict__ shrink,
    const double* __restrict__ mass, double power, i64 n_arcs, double* __restrict__ price
) {
    const i64 e = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (e >= n_arcs) return;
    const int lane = threadIdx.x & 31;
    double squares = 0.0;
    if (mass[e] > 0.0) {
        const REAL *from = x + source[e] * dim, *to = y + sink[e] * dim;
        const double factor = shrink[pair[e]];
#pragma unroll 8
        for (int t = lane; t < dim; t += 32) {
            const double apart = (double)from[t] * factor - (double)to[t] * factor;
            squares += apart * apart;
        }
    }
    squares = warp_sum(squares);
    if (lane == 0) price[e] = of_squares(squares, power);
}

// The gradient in the points of one side of the sum of weighted prices, for shrunk points times `after`. The arcs of point k are order[ends[k - 1]] up to
// order[ends[k] - 1], added in this order; what has no length has no gradient.
extern "C" __global__ void differentiate_arcs(
    const REAL* __restrict__ own, const REAL* __restrict__ other, int dim, const i64* __restrict__ order,
    const i64* __restrict__ ends, const i64* __restrict__ far_end, const i64* __restrict__ pair,
    const double* __restrict__ shrink, const double* __restrict__ after, const double* __restrict__ price,
    const double* __restrict__ weight, double power, i64 n_points, REAL* __restrict__ gradient
) {
    const i64 k = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (k >= n_points) return;
    const int lane = threadIdx.x & 31;
    const i64 begin = k > 0 ? ends[k - 1] : 0, end = ends[k];
    constexpr int STRIP = 8;
    for (int first = 0; first < dim; first += 32 * STRIP) {
        double sum[STRIP];
#pragma unroll
        for (int s = 0; s < STRIP; s++) sum[s] = 0.0;
        for (i64 at = begin; at < end; at++) {
            const i64 e = order[at];
            const double cost = price[e];
            if (weight[e] == 0.0 || !(cost > 0.0)) continue;
            const double factor = shrink[pair[e]], last = after[pair[e]];
            const double fall = power == 2.0 ? 1.0 : power == 1.0 ? 1.0 / cost : pow(cost, (power - 2.0) / power);
            const double slope = weight[e] * power * fall;
            const REAL* there = other + far_end[e] * dim;
#pragma unroll
            for (int s = 0; s < STRIP; s++) {
                const int t = first + 32 * s + lane;
                if (t >= dim) continue;
                sum[s] += slope * ((double)own[k * dim + t] * factor - (double)there[t] * factor) * last;
            }
        }
#pragma unroll
        for (int s = 0; s < STRIP; s++) {
            const int t = first + 32 * s + lane;
            if (t < dim) gradient[k * dim + t] = (REAL)sum[s];
        }
    }
}
