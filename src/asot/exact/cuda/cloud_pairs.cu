// Plans between the clouds of pairs, i-th with i-th, where each point belongs to one pair: what they cost, and what that
// gives to the points when it is differentiated. A block takes a pair, or a few points of one; a warp an arc, or a point
// with all of its arcs. Coordinates are read as they are and summed in float64, in one order. Euclidean distances to a
// power; pair t has the arcs from arcs_at[t] on, one for each of its points, with ends that count within it.
//
// Defines (asot.exact.cuda.cloud_pairs): REAL, the type of coordinates, values and weights.

constexpr int WARPS = 8;
constexpr double LEAST = 0x1p-800;  // what is less has lost digits, or soon does

DEVICE double of_squares(double squares, double power) {
    return power == 2.0 ? squares : power == 1.0 ? sqrt(squares) : pow(squares, 0.5 * power);
}

// Sets `refused` if a coordinate of a pair is not finite, or if its largest is not 0 and not from `least` to below `most`.
extern "C" __global__ void __launch_bounds__(32 * WARPS) look_at_pairs(
    const REAL* __restrict__ x, const REAL* __restrict__ y, int dim, const i64* __restrict__ rows_at,
    const i64* __restrict__ row_sizes, const i64* __restrict__ columns_at, const i64* __restrict__ column_sizes,
    double least, double most, int* __restrict__ refused
) {
    __shared__ double of_warp[WARPS];
    const int t = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    double largest = 0.0;
    bool wild = false;
    for (int s = 0; s < 2; s++) {
        const REAL* points = s ? y + columns_at[t] * dim : x + rows_at[t] * dim;
        const i64 count = (s ? column_sizes[t] : row_sizes[t]) * dim;
        for (i64 k = threadIdx.x; k < count; k += blockDim.x) {
            const double size = fabs((double)points[k]);
            wild |= !(size < most);
            largest = larger(largest, size);
        }
    }
    largest = warp_max(largest);
    if (lane == 0) of_warp[warp] = largest;
    __syncthreads();
    for (int w = 0; w < WARPS; w++) largest = larger(largest, of_warp[w]);
    wild |= largest > 0.0 && largest < least;
    if (wild) *refused = 1;
}

// The distance of every pair to `values`, (sum of mass · |x - y|^power)^(1 / order); that sum to `totals`, and what an arc
// costs to `prices`, 0 where nothing is shipped. Sets `refused` if points of a pair that ship to others are all so near
// these that costs have lost digits, or where costs are too large to be added.
extern "C" __global__ void __launch_bounds__(32 * WARPS) price_pairs(
    const REAL* __restrict__ x, const REAL* __restrict__ y, int dim, const i64* __restrict__ rows_at,
    const i64* __restrict__ row_sizes, const i64* __restrict__ columns_at, const i64* __restrict__ column_sizes,
    const i64* __restrict__ arcs_at, const i64* __restrict__ source, const i64* __restrict__ sink,
    const double* __restrict__ mass, double power, double order, double* __restrict__ prices, double* __restrict__ totals,
    REAL* __restrict__ values, int* __restrict__ refused
) {
    __shared__ double of_warp[WARPS], widest_of_warp[WARPS];
    const int t = blockIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const REAL *from = x + rows_at[t] * dim, *to = y + columns_at[t] * dim;
    const i64 end = arcs_at[t] + row_sizes[t] + column_sizes[t];
    double total = 0.0, widest = 0.0;
    bool differs = false;
    for (i64 e = arcs_at[t] + warp; e < end; e += WARPS) {
        double squares = 0.0;
        if (mass[e] > 0.0) {
            const REAL *one = from + source[e] * dim, *two = to + sink[e] * dim;
#pragma unroll 8
            for (int c = lane; c < dim; c += 32) {
                const double apart = (double)one[c] - (double)two[c];
                squares += apart * apart;
                differs |= apart != 0.0;
            }
        }
        squares = warp_sum(squares);
        widest = larger(widest, squares);
        const double price = of_squares(squares, power);
        if (lane == 0) prices[e] = price;
        total += mass[e] * price;
    }
    differs = __ballot_sync(ALL_LANES, differs) != 0;
    if (lane == 0) of_warp[warp] = total, widest_of_warp[warp] = differs ? widest : -1.0;
    __syncthreads();
    if (threadIdx.x > 0) return;
    total = 0.0;
    widest = -1.0;  // where all that is shipped stays at its point
    for (int w = 0; w < WARPS; w++) total += of_warp[w], widest = larger(widest, widest_of_warp[w]);
    if (widest >= 0.0 && !(widest >= LEAST && of_squares(widest, power) >= LEAST && isfinite(total))) *refused = 1;
    totals[t] = total;
    values[t] = (REAL)(order == 1.0 || !(total > 0.0) ? total : order == 2.0 ? sqrt(total) : pow(total, 1.0 / order));
}

// The gradient of the sum of weighted values in the points of one side; pair t has weight[step · t]. The arcs of a point are
// added in their order; what has no length has no gradient. `near` and `far` are the ends of arcs on this side and on the
// other; there are `chunks` blocks for each pair.
extern "C" __global__ void __launch_bounds__(32 * WARPS) differentiate_pairs(
    const REAL* __restrict__ own, const i64* __restrict__ own_at, const i64* __restrict__ own_sizes,
    const REAL* __restrict__ other, const i64* __restrict__ other_at, const i64* __restrict__ other_sizes, int dim,
    const i64* __restrict__ arcs_at, const i64* __restrict__ near, const i64* __restrict__ far,
    const double* __restrict__ mass, const double* __restrict__ prices, const double* __restrict__ totals,
    const REAL* __restrict__ weight, i64 step, double power, double order, int chunks, REAL* __restrict__ gradient
) {
    const int t = blockIdx.x / chunks, lane = threadIdx.x & 31;
    const i64 k = (i64)(blockIdx.x % chunks) * WARPS + (threadIdx.x >> 5);
    if (k >= own_sizes[t]) return;
    const i64 begin = arcs_at[t], end = begin + own_sizes[t] + other_sizes[t], at = (own_at[t] + k) * dim;
    const REAL* others = other + other_at[t] * dim;
    double of_total = (double)weight[step * t];
    if (order != 1.0) {
        const double total = totals[t];
        const double rest = order == 2.0 ? 1.0 / sqrt(total) : pow(total, 1.0 / order - 1.0);
        of_total = total > 0.0 ? of_total * (rest / order) : 0.0;
    }
    constexpr int STRIP = 8;
    for (int first = 0; first < dim; first += 32 * STRIP) {
        double sum[STRIP];
        REAL here[STRIP];
#pragma unroll
        for (int s = 0; s < STRIP; s++) {
            const int c = first + 32 * s + lane;
            sum[s] = 0.0;
            here[s] = c < dim ? own[at + c] : (REAL)0;
        }
        for (i64 group = begin; group < end; group += 32) {
            u32 found = __ballot_sync(ALL_LANES, group + lane < end && near[group + lane] == k && prices[group + lane] > 0.0);
            for (; found; found &= found - 1) {
                const i64 e = group + first_set(found);
                const double change = of_total * mass[e], cost = prices[e];
                if (change == 0.0) continue;
                const double fall = power == 2.0 ? 1.0 : power == 1.0 ? 1.0 / cost : pow(cost, (power - 2.0) / power);
                const double slope = change * power * fall;
                const REAL* there = others + far[e] * dim;
#pragma unroll
                for (int s = 0; s < STRIP; s++) {
                    const int c = first + 32 * s + lane;
                    if (c < dim) sum[s] += slope * ((double)here[s] - (double)there[c]);
                }
            }
        }
#pragma unroll
        for (int s = 0; s < STRIP; s++) {
            const int c = first + 32 * s + lane;
            if (c < dim) gradient[at + c] = (REAL)sum[s];
        }
    }
}
