// Assignments of large problems: n rows to n columns, each problem the work of a whole GPU (docs/method.md §16).
//
// Duals u, v of integer costs stay feasible: cost - u - v >= 0, and 0 where a row is assigned to a column. A phase finds
// the distance in reduced costs of every row from the nearest column that is free, along arcs to columns and back from
// these to their rows: `relax` takes all columns whose distance fell in the last round and lowers the distances of all
// rows. Adding distances to u, and taking them from v, keeps duals feasible and makes every shortest path tight. The
// paths are a forest with a free column as the root of each tree, so that one free row of each tree is assigned. There
// are about as many phases as it takes to halve the number of free rows until none is left.
//
// A row's next column is noted when its distance falls. It was reached a round earlier, and had it fallen again, the row
// would have followed: so there are no circles, also where costs tie.
//
// Tables hold costs by column: entry (i, j) of a problem is table[j * n + i]. Costs are below 2^BITS, u is between 0 and
// that, and v between it and its negative: all sums fit. Defines (asot.exact.cuda.large_assignment): THREADS of a block.

constexpr int WARPS = THREADS / 32;
constexpr int BITS = 60;
constexpr i64 COARSE = 1ll << 28;  // integer costs below it have too few digits
constexpr i64 FAR = 1ll << 62;
constexpr int NOBODY = -1, NOTHING = 0x7fffffff;
constexpr u64 TOO_LARGE = 0x7fd0000000000000ull;  // bits of 2^1022

struct Counters {
    int n_listed[3];  // columns of the list that this, the next and the last round read
    int n_free;       // rows
    int is_refused;
    int n_fine;        // costs above 0 and below `COARSE`
    i64 cap;           // the distance of the farthest free row: nobody is lifted more
    u64 size, depth;   // bits of the largest |cost|, and of the largest cost below 0
};
static_assert(sizeof(Counters) == 48, "the host counts otherwise");

struct Problem {
    Counters* counters;
    i64 *u, *v, *distance;             // (n,); distances of rows
    i64* offset;                       // (2, n) of listed columns: their distance less v
    int *listed;                       // (2, n) columns, in turns
    int *row_of, *column_of;           // (n,) or NOBODY
    int *next, *winner;                // (n,) the column of a row; the row that gets a free column
};

DEVICE Problem problem_at(char* memory, int n) {
    Problem p;
    p.counters = (Counters*)memory + blockIdx.y;
    i64* longs = (i64*)(memory + sizeof(Counters) * gridDim.y) + (i64)blockIdx.y * n * 8;  // 64 bytes a node
    int* ints = (int*)(longs + 5 * (i64)n);
    p.u = longs, p.v = longs + n, p.distance = longs + 2 * n, p.offset = longs + 3 * n;
    p.listed = ints;
    p.row_of = ints + 2 * n, p.column_of = ints + 3 * n;
    p.next = ints + 4 * n, p.winner = ints + 5 * n;
    return p;
}

DEVICE int thread_id() { return blockIdx.x * blockDim.x + threadIdx.x; }

// ---------------------------------------------------------------------------------------------------------- costs

// The largest |cost|, and how far costs reach below 0. Bits of numbers that are not negative have their order, and those
// of what is not finite are above all others.
extern "C" __global__ void measure_costs(
    const double* __restrict__ costs, const i64* __restrict__ costs_at, int stride, int n, char* memory
) {
    const Problem p = problem_at(memory, n);
    const double* matrix = costs + costs_at[blockIdx.y];
    u64 size = 0, depth = 0;
    for (i64 t = thread_id(); t < (i64)n * n; t += (i64)gridDim.x * blockDim.x) {
        const double cost = matrix[t / n * stride + t % n];
        const u64 bits = (u64)__double_as_longlong(cost), own = bits & ~(1ull << 63);
        size = max(size, own);
        if (cost < 0.0) depth = max(depth, own);
    }
    for (int far = 16; far > 0; far /= 2) {
        size = max(size, __shfl_xor_sync(ALL_LANES, size, far));
        depth = max(depth, __shfl_xor_sync(ALL_LANES, depth, far));
    }
    if ((threadIdx.x & 31) == 0) {
        atomicMax(&p.counters->size, size);
        atomicMax(&p.counters->depth, depth);
    }
}

// Integer costs are those given, less `low`, in units of 2^(exponent - BITS).
struct Units {
    double low;
    int exponent;
};

DEVICE Units units_of(const Counters& c) {
    Units units = {-__longlong_as_double((i64)c.depth), 0};
    frexp(__longlong_as_double((i64)c.size) - units.low, &units.exponent);
    return units;
}

// Costs into the table, in tiles of 32 × 32. A problem with a cost that is no number, or so large that sums are none, is
// refused: it has no free rows to begin with.
extern "C" __global__ void __launch_bounds__(THREADS) place_costs(
    const double* __restrict__ costs, const i64* __restrict__ costs_at, int stride, int n,
    i64* __restrict__ tables, char* memory, int* __restrict__ refused
) {
    DYNAMIC_SHARED(shared);
    i64* staged = (i64*)shared;  // (32, 33)
    const Problem p = problem_at(memory, n);
    const double* matrix = costs + costs_at[blockIdx.y];
    i64* table = tables + (i64)blockIdx.y * n * n;
    const bool is_refused = p.counters->size >= TOO_LARGE;
    if (thread_id() == 0) {
        p.counters->is_refused = is_refused;
        p.counters->n_free = is_refused ? 0 : n;
        if (is_refused) *refused = 1;
    }
    if (is_refused) return;
    const Units units = units_of(*p.counters);
    const int across = (n + 31) / 32, i0 = blockIdx.x / across * 32, j0 = blockIdx.x % across * 32;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int n_fine = 0;
    for (int r = warp; r < 32; r += WARPS)
        if (i0 + r < n && j0 + lane < n) {
            const double above = matrix[(i64)(i0 + r) * stride + j0 + lane] - units.low;
            const i64 cost = __double2ll_rn(ldexp(above, BITS - units.exponent));
            n_fine += above > 0.0 && cost < COARSE;
            staged[r * 33 + lane] = cost;
        }
    __syncthreads();
    for (int r = warp; r < 32; r += WARPS)
        if (i0 + lane < n && j0 + r < n) table[(i64)(j0 + r) * n + i0 + lane] = staged[lane * 33 + r];
    for (int far = 16; far > 0; far /= 2) n_fine += __shfl_xor_sync(ALL_LANES, n_fine, far);
    if (lane == 0 && n_fine > 0) atomicAdd(&p.counters->n_fine, n_fine);
}

// ---------------------------------------------------------------------------------------------------------- phases

// Nobody is assigned; v is the least cost of each column, a warp for each.
extern "C" __global__ void __launch_bounds__(THREADS) begin(const i64* __restrict__ tables, char* memory, int n) {
    const Problem p = problem_at(memory, n);
    const int j = thread_id() / 32, lane = threadIdx.x & 31;
    if (j >= n || p.counters->is_refused) return;
    const i64* column = tables + ((i64)blockIdx.y * n + j) * n;
    i64 least = FAR;
    for (int i = lane; i < n; i += 32) least = min(least, column[i]);
    for (int far = 16; far > 0; far /= 2) least = min(least, __shfl_xor_sync(ALL_LANES, least, far));
    if (lane == 0) {
        p.v[j] = least;
        p.u[j] = 0;
        p.row_of[j] = p.column_of[j] = NOBODY;
    }
}

// Free columns are at distance 0, and rows have not been reached.
extern "C" __global__ void begin_phase(char* memory, int n) {
    const Problem p = problem_at(memory, n);
    const int t = thread_id();
    if (t == 0) p.counters->cap = 0;
    if (t >= n || p.counters->n_free == 0) return;
    p.distance[t] = FAR;
    p.winner[t] = NOTHING;
    if (p.row_of[t] == NOBODY) {
        const int slot = atomicAdd(&p.counters->n_listed[0], 1);
        p.listed[slot] = t;
        p.offset[slot] = -p.v[t];
    }
}

// A round: from all columns whose distance fell to all rows, 32 of them a block. Of columns that are equally good the
// first one counts, in whatever order they are listed.
extern "C" __global__ void __launch_bounds__(THREADS) relax(const i64* __restrict__ tables, char* memory, int n, int round) {
    DYNAMIC_SHARED(shared);
    i64* least_of = (i64*)shared;                // (WARPS, 33) of every warp and row
    int* which_of = (int*)(least_of + 33 * WARPS);
    const Problem p = problem_at(memory, n);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first = blockIdx.x * 32;
    if (thread_id() == 0) p.counters->n_listed[(round + 2) % 3] = 0;
    const int count = p.counters->n_listed[round % 3];
    if (count == 0) return;
    const i64* table = tables + (i64)blockIdx.y * n * n + min(first + lane, n - 1);
    const int* listed = p.listed + round % 2 * n;
    const i64* offset = p.offset + round % 2 * n;
    i64 least = FAR;
    int which = NOTHING;
#pragma unroll 4
    for (int k = warp; k < count; k += WARPS) {
        const int j = listed[k];
        const i64 value = table[(i64)j * n] + offset[k];
        if (value < least || (value == least && j < which)) {
            least = value;
            which = j;
        }
    }
    least_of[warp * 33 + lane] = least;
    which_of[warp * 33 + lane] = which;
    __syncthreads();
    for (int r = warp; r < 32; r += WARPS) {
        least = lane < WARPS ? least_of[lane * 33 + r] : FAR;
        which = lane < WARPS ? which_of[lane * 33 + r] : NOTHING;
        for (int far = 16; far > 0; far /= 2) {
            const i64 other = __shfl_xor_sync(ALL_LANES, least, far);
            const int whose = __shfl_xor_sync(ALL_LANES, which, far);
            if (other < least || (other == least && whose < which)) {
                least = other;
                which = whose;
            }
        }
        const int i = first + r;
        if (lane != 0 || i >= n) continue;
        const i64 distance = least - p.u[i];
        if (distance >= p.distance[i]) continue;
        p.distance[i] = distance;
        p.next[i] = which;
        const int own = p.column_of[i];
        if (own == NOBODY) continue;
        const int slot = atomicAdd(&p.counters->n_listed[(round + 1) % 3], 1) + (round + 1) % 2 * n;
        p.listed[slot] = own;
        p.offset[slot] = distance - p.v[own];
    }
}

// The free column that each free row leads to; the first row that leads there gets it.
extern "C" __global__ void find_winners(char* memory, int n) {
    const Problem p = problem_at(memory, n);
    const int i = thread_id();
    if (i >= n || p.counters->n_free == 0 || p.column_of[i] != NOBODY) return;
    int j = p.next[i];
    while (p.row_of[j] != NOBODY) j = p.next[p.row_of[j]];
    atomicMin(&p.winner[j], i);
    atomicMax(&p.counters->cap, p.distance[i]);
}

// Duals move by distances; those of a column are its row's.
extern "C" __global__ void lift(char* memory, int n) {
    const Problem p = problem_at(memory, n);
    const int t = thread_id();
    if (t >= n || p.counters->n_free == 0) return;
    const i64 cap = p.counters->cap;
    p.u[t] += min(p.distance[t], cap);
    if (p.row_of[t] != NOBODY) p.v[t] -= min(p.distance[p.row_of[t]], cap);
}

// The first free row of every tree takes its path: each row of it the next column, whose row goes on.
extern "C" __global__ void augment(char* memory, int n) {
    const Problem p = problem_at(memory, n);
    const int t = thread_id();
    if (t < 3) p.counters->n_listed[t] = 0;
    if (t >= n || p.row_of[t] != NOBODY || p.winner[t] == NOTHING) return;
    int i = p.winner[t];
    while (i != NOBODY) {
        const int j = p.next[i], before = p.row_of[j];
        p.row_of[j] = i;
        p.column_of[i] = j;
        i = before;
    }
    atomicAdd(&p.counters->n_free, -1);
}

// ---------------------------------------------------------------------------------------------------------- answers

// Arcs of the plans, of mass 1/n each, values and potentials. A problem whose costs have too few digits, since one that
// means "never" is far above them, is counted as wrong.
extern "C" __global__ void write_answers(
    const i64* __restrict__ tables, char* memory, int n, const i64* __restrict__ arcs_at, double* __restrict__ values,
    i64* __restrict__ source, i64* __restrict__ sink, double* __restrict__ mass, const i64* __restrict__ f_at,
    const i64* __restrict__ g_at, double* __restrict__ f, double* __restrict__ g, int* __restrict__ refused
) {
    DYNAMIC_SHARED(shared);
    double *totals = (double*)shared, *largest = totals + 32;  // of warps
    const Problem p = problem_at(memory, n);
    if (p.counters->is_refused) return;
    const Units units = units_of(*p.counters);
    const i64* table = tables + (i64)blockIdx.y * n * n;
    const int unit = units.exponent - BITS, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    double total = 0.0, used = 0.0;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        const int j = p.column_of[i];
        const i64 cost = table[(i64)j * n + i], arc = arcs_at[blockIdx.y] + i;
        total += ldexp((double)cost, unit) + units.low;
        used = larger(used, (double)cost);
        source[arc] = i;
        sink[arc] = j;
        mass[arc] = 1.0 / (double)n;
        if (f_at) f[f_at[blockIdx.y] + i] = ldexp((double)p.u[i], unit) + units.low;
        if (f_at) g[g_at[blockIdx.y] + i] = ldexp((double)p.v[i], unit);
    }
    total = warp_sum(total);
    used = warp_max(used);
    if (lane == 0) {
        totals[warp] = total;
        largest[warp] = used;
    }
    __syncthreads();
    if (warp > 0) return;
    total = warp_sum(lane < WARPS ? totals[lane] : 0.0);
    used = warp_max(lane < WARPS ? largest[lane] : 0.0);
    if (lane > 0) return;
    values[blockIdx.y] = total / (double)n;
    if (p.counters->n_fine > n && used < (double)COARSE) *refused = 1;
}
