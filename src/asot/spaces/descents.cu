// Descents of Gromov–Wasserstein energies of order 2, without features: what surrounds the transport problem of a step.
// A block works on a descent. The CPU's kernel is native/gromov/pair.hpp, which explains the formulas.
//
// Blocks of matrices (most, most) belong to descents, and so do values. `which` lists the descents at work: the arcs of
// the b-th of them begin at 2 · most · b. No define.

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

struct Spaces {
    const i64* start;        // (N + 1,) where the points of each begin
    const i64* matrix_at;    // (N,) where its distances begin
    const double* distance;  // flat, (n_i, n_i) each
    const double* mass;      // (points,)
    const double* squares;   // (points,) mean of the squared distances of a point
    const double* means;     // (points,)
};

// One pair of spaces.
struct Ends {
    int n, m;
    i64 x, y;  // where their points begin
    const double *dx, *dy;
};

DEVICE Ends ends_of(const Spaces& all, i64 row, i64 column) {
    const i64 x = all.start[row], y = all.start[column];
    return {(int)(all.start[row + 1] - x), (int)(all.start[column + 1] - y), x, y, all.distance + all.matrix_at[row],
            all.distance + all.matrix_at[column]};
}

// Over all threads of the block; every thread gets the same bits.
DEVICE double block_sum(double value) {
    __shared__ double part[WARPS];
    value = warp_sum(value);
    __syncthreads();  // the sum before this one has been read
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0.0;
    for (int w = 0; w < WARPS; w++) sum += part[w];
    return sum;
}

#define SPACES                                                                                                       \
    const i64 *__restrict__ start, const i64 *__restrict__ matrix_at, const double *__restrict__ distance,           \
        const double *__restrict__ mass_of_points, const double *__restrict__ squares,                               \
        const double *__restrict__ means, const i64 *__restrict__ x, const i64 *__restrict__ y
#define PAIR(d) ends_of({start, matrix_at, distance, mass_of_points, squares, means}, x[d], y[d])

// Costs of the third lower bound, without their factor: squared gaps between sorted distances (points, bins).
extern "C" __global__ void row_gaps(SPACES, const double* __restrict__ quantiles, int bins, int most, double* cost) {
    const Ends pair = PAIR(blockIdx.x);
    double* out = cost + (i64)blockIdx.x * most * most;
    for (int t = threadIdx.x; t < pair.n * pair.m; t += THREADS) {
        const int i = t / pair.m, j = t % pair.m;
        const double *u = quantiles + (pair.x + i) * bins, *v = quantiles + (pair.y + j) * bins;
        double sum = 0.0;
        for (int c = 0; c < bins; c++) sum += (u[c] - v[c]) * (u[c] - v[c]);
        out[i * most + j] = sum;
    }
}

// Begin with the product of the masses: plan, form and energy of the descents from `first` on.
extern "C" __global__ void begin_with_product(SPACES, i64 first, int most, double* plan, double* form, double* energy) {
    const i64 d = first + blockIdx.x, at = d * most * most;
    const Ends pair = PAIR(d);
    double sum = 0.0;
    for (int t = threadIdx.x; t < pair.n * pair.m; t += THREADS) {
        const i64 i = pair.x + t / pair.m, j = pair.y + t % pair.m, own = at + (t / pair.m) * most + t % pair.m;
        plan[own] = mass_of_points[i] * mass_of_points[j];
        form[own] = squares[i] + squares[j] - 2.0 * means[i] * means[j];
        sum += plan[own] * form[own];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) energy[d] = sum;
}

// The form of arcs, which is linear in them: out(i, j) = Σ mass (d_X(i, source) - d_Y(j, sink))². The mixed term is a
// product of matrices, after rows of d_X were gathered by the sinks of the arcs.
extern "C" __global__ void form_of_arcs(
    SPACES, const i64* __restrict__ which, int most, const i64* __restrict__ source, const i64* __restrict__ sink,
    const double* __restrict__ mass, double* mixed, double* out
) {
    const i64 b = blockIdx.x, d = which[b];
    const Ends pair = PAIR(d);
    const int n = pair.n, m = pair.m, arcs = n + m;
    double* gathered = mixed + b * most * most;  // (m, n)
    for (int t = threadIdx.x; t < n * m; t += THREADS) gathered[t] = 0.0;
    __syncthreads();
    // A group of threads takes the arcs of its own sinks, so that no two threads add to one number.
    const int width = n < THREADS ? (n + 31) / 32 * 32 : THREADS, groups = THREADS / width;
    const int group = threadIdx.x / width;
    if (group < groups)
        for (int e = 0; e < arcs; e++) {
            const double own = mass[2 * most * b + e];
            const int j = (int)sink[2 * most * b + e];
            if (own == 0.0 || j % groups != group) continue;
            const double* row = pair.dx + source[2 * most * b + e] * n;
            for (int i = threadIdx.x % width; i < n; i += width) gathered[j * n + i] += own * row[i];
        }
    __syncthreads();
    for (int t = threadIdx.x; t < n * m; t += THREADS) {
        const int i = t / m, j = t % m;
        double sum = 0.0;
        for (int k = 0; k < m; k++) sum += gathered[k * n + i] * pair.dy[k * m + j];
        out[d * most * most + i * most + j] = squares[pair.x + i] + squares[pair.y + j] - 2.0 * sum;
    }
}

// Begin with arcs: their plan and energy; their form is there.
extern "C" __global__ void begin_with_arcs(
    SPACES, int most, const i64* __restrict__ source, const i64* __restrict__ sink, const double* __restrict__ mass,
    const double* __restrict__ form, double* plan, double* energy
) {
    const i64 d = blockIdx.x, at = d * most * most;
    const Ends pair = PAIR(d);
    for (int t = threadIdx.x; t < pair.n * most; t += THREADS) plan[at + t] = 0.0;
    __syncthreads();
    double sum = 0.0;
    for (int e = threadIdx.x; e < pair.n + pair.m; e += THREADS) {
        const double own = mass[2 * most * d + e];
        if (own == 0.0) continue;
        const i64 place = at + source[2 * most * d + e] * most + sink[2 * most * d + e];
        plan[place] = own;
        sum += own * form[place];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) energy[d] = sum;
}

// Walk towards the arcs as far as the energy falls; goes_on (at work,) says whether that was worth another step.
extern "C" __global__ void walk(
    SPACES, const i64* __restrict__ which, int most, const i64* __restrict__ source, const i64* __restrict__ sink,
    const double* __restrict__ mass, const double* __restrict__ step_form, const double* __restrict__ size,
    double tolerance, double* plan, double* form, double* energy, int* steps, int* goes_on
) {
    const i64 b = blockIdx.x, d = which[b], at = d * most * most;
    const Ends pair = PAIR(d);
    const double before = energy[d];
    double along = 0.0, ahead = 0.0, common = 0.0;
    for (int e = threadIdx.x; e < pair.n + pair.m; e += THREADS) {
        const double own = mass[2 * most * b + e];
        if (own == 0.0) continue;
        const i64 place = at + source[2 * most * b + e] * most + sink[2 * most * b + e];
        along += own * form[place];
        ahead += own * step_form[place];
        common += own < plan[place] ? own : plan[place];
    }
    along = block_sum(along), ahead = block_sum(ahead), common = block_sum(common);
    const double slope = 2.0 * (along - before), bend = ahead - 2.0 * along + before;
    const double least = bend > 0.0 ? -slope / (2.0 * bend) : 1.0, share = least < 1.0 ? least : 1.0;
    const double gain = -(share * slope + share * share * bend);
    const bool is_noise = before <= 1e-15 * (size[x[d]] + size[y[d]]), is_there = common > 1.0 - 1e-13;
    if (is_noise || is_there || !(share > 0.0 && gain > 0.0)) {
        if (threadIdx.x == 0) goes_on[b] = 0;
        return;
    }
    for (int t = threadIdx.x; t < pair.n * pair.m; t += THREADS) {
        const i64 own = at + (t / pair.m) * most + t % pair.m;
        plan[own] *= 1.0 - share;
        form[own] = share < 1.0 ? form[own] + share * (step_form[own] - form[own]) : step_form[own];
    }
    __syncthreads();
    for (int e = threadIdx.x; e < pair.n + pair.m; e += THREADS) {
        const double own = mass[2 * most * b + e];
        if (own != 0.0) plan[at + source[2 * most * b + e] * most + sink[2 * most * b + e]] += share * own;
    }
    if (threadIdx.x == 0) {
        energy[d] = before - gain;
        steps[d]++;
        goes_on[b] = gain > tolerance * (before - gain);
    }
}

// Energies of the plans that descents have reached, without what steps have added up.
extern "C" __global__ void price_plans(
    SPACES, int most, const double* __restrict__ plan, const double* __restrict__ form, double* energy
) {
    const i64 d = blockIdx.x, at = d * most * most;
    const Ends pair = PAIR(d);
    double sum = 0.0;
    for (int t = threadIdx.x; t < pair.n * pair.m; t += THREADS) {
        const i64 own = at + (t / pair.m) * most + t % pair.m;
        sum += plan[own] * form[own];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) energy[d] = sum;
}
