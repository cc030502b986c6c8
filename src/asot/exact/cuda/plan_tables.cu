// Sparse plans as tables. A block clears the table of its problem and adds its arcs; a cell has one with mass at most.
//
// Defines (asot.exact.cuda.plan_tables): REAL, the type of masses, weights and tables.

// Problem b has the arcs from b · n_arcs on, and weight[step · b].
extern "C" __global__ void write_plans(
    const REAL* __restrict__ weight, i64 step, const i64* __restrict__ source, const i64* __restrict__ sink,
    const REAL* __restrict__ mass, int n_arcs, int rows, int columns, REAL* __restrict__ tables
) {
    const i64 b = blockIdx.x, size = (i64)rows * columns;
    REAL* table = tables + b * size;
    for (i64 k = threadIdx.x; k < size; k += blockDim.x) table[k] = (REAL)0;
    __syncthreads();
    const REAL own = weight[step * b];
    for (int at = threadIdx.x; at < n_arcs; at += blockDim.x) {
        const i64 e = b * n_arcs + at;
        const REAL shipped = own * mass[e];
        if (shipped != (REAL)0) atomicAdd(table + source[e] * columns + sink[e], shipped);
    }
}
