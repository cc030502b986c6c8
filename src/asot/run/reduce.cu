// What is done to the answers of a tile before they leave the GPU: most pairs of a large collection are nobody's
// neighbors, and need not travel.

// Keep the pairs whose value is within the limit of their row or (within one set) of their column, with their errors
// where there are any. OPEN pairs are kept whatever their value, as NaN: somebody else solves them. Without limits only
// these are kept.
extern "C" __global__ void keep_near(
    int kind, i64 n_rows, i64 n_columns, const i64* __restrict__ listed, i64 start, i64 count,
    const double* __restrict__ values, const i8* __restrict__ status, const double* __restrict__ limits, int symmetric,
    int* __restrict__ rows, int* __restrict__ columns, double* __restrict__ kept, const double* __restrict__ errors,
    double* __restrict__ kept_errors, u64* n_kept)
{
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 base = (i64)blockIdx.x * blockDim.x; base < count; base += step) {
        const i64 t = base + threadIdx.x;
        int i = 0, j = 0;
        double value = 0.0;
        bool near = false;
        if (t < count) {
            pair_at(pairs, start, t, &i, &j);
            const bool open = status[t] == OPEN;
            value = open ? nan("") : values[t];
            near = open || (limits && (value <= limits[i] || (symmetric && value <= limits[j])));
        }
        // One atomic per warp: its lanes take consecutive places.
        const u32 votes = __ballot_sync(~0u, near);
        const int lane = threadIdx.x & 31;
        u64 place = 0;
        if (votes != 0) {
            if (lane == 0) place = atomicAdd(n_kept, (u64)__popc(votes));
            place = __shfl_sync(~0u, place, 0) + __popc(votes & ((1u << lane) - 1));
        }
        if (near) {
            rows[place] = i;
            columns[place] = j;
            kept[place] = value;
            if (errors) kept_errors[place] = errors[t];
        }
    }
}

// Count values between edges[0] and edges[n_edges - 1]: bins are half open, the last one is closed (as NumPy's). OPEN
// pairs have none.
extern "C" __global__ void count_bins(
    i64 count, const double* __restrict__ values, const i8* __restrict__ status, const double* __restrict__ edges,
    int n_edges, u64* counts)
{
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < count; t += step) {
        const double value = values[t];
        if (status[t] == OPEN || !(value >= edges[0] && value <= edges[n_edges - 1])) continue;
        int low = 0, high = n_edges - 1;  // edges[low] <= value, and value < edges[high] or high is the last
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (edges[middle] <= value) low = middle;
            else high = middle;
        }
        atomicAdd(counts + low, (u64)1);
    }
}

// How many pairs have this status, and how many values are not a number.
extern "C" __global__ void count_status(
    i64 count, const signed char* __restrict__ status, int wanted, const double* __restrict__ values, u64* totals)
{
    const i64 step = (i64)gridDim.x * blockDim.x;
    u64 found = 0, lost = 0;
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < count; t += step) {
        found += status[t] == wanted;
        lost += values[t] != values[t];
    }
    if (found != 0) atomicAdd(totals, found);
    if (lost != 0) atomicAdd(totals + 1, lost);
}

extern "C" __global__ void add_counts(i64 count, const int* __restrict__ more, int* __restrict__ total) {
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < count; t += step) total[t] += more[t];
}

// value -= (row term + column term) / 2, and a pair is no better converged than its parts (docs/method.md §2).
extern "C" __global__ void subtract_self_terms(
    int kind, i64 n_rows, i64 n_columns, const i64* __restrict__ listed, i64 start, i64 count,
    double* __restrict__ values, signed char* __restrict__ status,
    const double* __restrict__ row_terms, const signed char* __restrict__ row_status,
    const double* __restrict__ column_terms, const signed char* __restrict__ column_status)
{
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < count; t += step) {
        int i, j;
        pair_at(pairs, start, t, &i, &j);
        values[t] -= 0.5 * (row_terms[i] + column_terms[j]);
        signed char worst = status[t];
        if (row_status[i] > worst) worst = row_status[i];
        if (column_status[j] > worst) worst = column_status[j];
        status[t] = worst;
    }
}
