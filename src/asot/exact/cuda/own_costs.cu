// Exact optimal transport of problems with costs of their own, a problem per block: matrices, or clouds of points whose
// costs are computed here. No cost is assumed to be a metric, so all mass is shipped. The CPU's kernel is
// native/exact/batch.cpp; what is wrong with a problem is only noted here, and said by the host.
//
// Defines (asot.exact.cuda.own_costs): ROWS, COLUMNS, THREADS and FAR_FLOW of block_tree.cuh, COST_BITS, BLOCK_BYTES of
// shared memory, BLOCKS per multiprocessor, METRIC, and CLOUDS (0 or 1). TABLE and BOUNDED are 0.

#include "points_pair.cuh"
#include "block_simplex.cuh"

static_assert(COLUMNS % 32 == 0, "rows of costs are padded to whole warps");
static_assert(BLOCK_BYTES == (TREE_BYTES + 15) / 16 * 16 + 32 * WARPS + 32 + 4 * NODES, "the host counts otherwise");
static_assert(4 * NODES + 8 * COLUMNS <= 12 * NODES, "names and masses fit where potentials and the path are later");

constexpr double WHOLE = 1152921504606846976.0;  // 2^MASS_BITS
constexpr int EXTREME = 400;                     // costs beyond 2^±400 get a unit of their own
constexpr double COARSE = 0x1p-24;               // of the largest cost: the others have too few digits if they are below

// Numbers as they were given: double, or float where they are narrow.
struct Reals {
    const void* first;
    bool narrow;
    DEVICE explicit operator bool() const { return first; }
    DEVICE double operator[](i64 k) const { return narrow ? (double)((const float*)first)[k] : ((const double*)first)[k]; }
    DEVICE Reals from(i64 k) const {
        return {first ? (const char*)first + k * (narrow ? sizeof(float) : sizeof(double)) : nullptr, narrow};
    }
};

DEVICE void put(void* reals, i64 k, bool narrow, double value) {
    if (narrow) ((float*)reals)[k] = (float)value;
    else ((double*)reals)[k] = value;
}

// The n rows or columns of a problem.
struct Side {
    Reals mass;           // (n,) or null: uniform of total 1
    const double* points; // (n, d), if costs are those of clouds
    int n;
};

struct Costs {
    Reals matrix;  // or null: clouds
    int stride;    // of the matrix, or coordinates of a point
    double power, shrink;
};

struct Whole {
    Side side[2];  // rows and columns as they were given
    Costs costs;
    bool swapped;  // whether the simplex has the given columns as its rows
};

DEVICE double given_cost(const Whole& whole, int i, int j) {
#if CLOUDS
    const double *x = whole.side[0].points + (i64)i * whole.costs.stride;
    const double *y = whole.side[1].points + (i64)j * whole.costs.stride;
    Gap gap = {0.0, 0.0};
#pragma unroll 4
    for (int t = 0; t < whole.costs.stride; t++) widen(gap, x[t] * whole.costs.shrink, y[t] * whole.costs.shrink, 2.0);
    return raised(gap, whole.costs.power);
#else
    return whole.costs.matrix[(i64)i * whole.costs.stride + j];
#endif
}

// Of a row and a column of the simplex, by the names of their nodes.
DEVICE double cost_between(const Whole& whole, int row, int column) {
    return whole.swapped ? given_cost(whole, column, row) : given_cost(whole, row, column);
}

// What the threads of a block find out together.
struct Found {
    double total[2];
    int count[2];
    int slot;
    bool even[2];  // whether all masses of a side are the same, and not 0
};
static_assert(sizeof(Found) <= 32, "there is no more room");

// Masses of side s as integers of total 2^MASS_BITS, and the names of those that are not 0. One warp works on it; the
// largest takes what rounding leaves.
DEVICE void place_side(const Side& side, int* names, i64* masses, Found& found, int s) {
    const int lane = lane_id();
    double sum = 0.0;
    bool even = true;
    for (int i = lane; i < side.n; i += 32) {
        sum += side.mass ? side.mass[i] : 1.0 / (double)side.n;
        even &= !side.mass || side.mass[i] == side.mass[0];
    }
    sum = warp_sum(sum);
    even = __ballot_sync(ALL_LANES, even) == ALL_LANES;
    int kept = 0;
    i64 left = 0;
    Least largest = {TOP, NOTHING};
    for (int first = 0; first < side.n; first += 32) {
        const int i = first + lane;
        const double share = i < side.n && sum > 0.0 ? side.mass ? side.mass[i] / sum : 1.0 / (double)side.n : 0.0;
        const i64 units = share >= 0.0 && share <= 1.0 ? __double2ll_rn(share * WHOLE) : 0;
        const u32 votes = __ballot_sync(ALL_LANES, units > 0);
        if (units > 0) {
            const int place = kept + count_set(votes & ((1u << lane) - 1));
            names[place] = i;
            masses[place] = units;
            left += units;
            if (-units < largest.value) largest = {-units, place};
        }
        kept += count_set(votes);
    }
    for (int far = 16; far > 0; far /= 2) left += __shfl_xor_sync(ALL_LANES, left, far);
    largest = warp_least(largest);
    __syncwarp();  // all masses are there
    if (lane == 0) {
        if (kept > 0) masses[largest.tag] += (1ll << MASS_BITS) - left;
        found.total[s] = side.mass ? sum : (double)(side.n > 0);
        found.count[s] = kept;
        found.even[s] = even && kept > 0;
    }
}

// Uniform masses on both sides are ratios of sizes, which integers hold exactly. Returns what a unit is worth if all of
// them together are 1.
DEVICE double lay_out_evenly(int n, int m, Problem& problem, const Tree& tree, int* name) {
    const i64 part = (1ll << MASS_BITS) / (n == m ? n : (i64)n * m);
    problem = {min(n, m), max(n, m), 0};
    for (int node = threadIdx.x; node < n + m; node += THREADS) {
        const bool is_row = node < problem.n_rows;
        name[node] = is_row ? node : node - problem.n_rows;
        tree.flow[node] = n == m ? part : part * (is_row ? problem.n_columns : problem.n_rows);
    }
    meet();
    return 1.0 / ((double)n * (double)(n == m ? part : part * m));
}

// Masses to the flows and names of the nodes; returns what a unit of mass is worth, or 0 where nothing is shipped.
DEVICE double lay_out(const Whole& whole, Problem& problem, const Tree& tree, Found& found, int* name) {
    const int n = whole.side[0].n, m = whole.side[1].n, warp = threadIdx.x >> 5;
    if (n == 0 || m == 0) return 0.0;
    if (!whole.side[0].mass && !whole.side[1].mass) return lay_out_evenly(n, m, problem, tree, name);
    int* names = (int*)tree.potential;  // lists lie where potentials and what follows them are later
    i64* masses = (i64*)(tree.potential + NODES / 2);
    const int own = whole.swapped ? 1 : 0;
    if (warp == 0) place_side(whole.side[own], names, tree.flow, found, own);
    if (warp == WARPS - 1) place_side(whole.side[1 - own], names + ROWS, masses, found, 1 - own);
    meet();
    if (found.even[0] && found.even[1]) return found.total[0] * lay_out_evenly(n, m, problem, tree, name);
    problem = {found.count[own], found.count[1 - own], 0};
    for (int node = threadIdx.x; node < problem.n_rows + problem.n_columns; node += THREADS) {
        const bool is_row = node < problem.n_rows;
        name[node] = names[is_row ? node : ROWS + node - problem.n_rows];
        if (!is_row) tree.flow[node] = masses[node - problem.n_rows];
    }
    meet();
    return problem.n_rows > 0 && problem.n_columns > 0 ? found.total[0] / WHOLE : 0.0;
}

// The costs of a row, for every column as bits of a double, into the tables.
DEVICE void read_row(const Whole& whole, const Problem& problem, const Tables& tables, const int* name, int r) {
    int* high = tables.high + r * tables.stride;
    u32* low = tables.low + r * tables.stride;
    const auto keep = [&](int k, double cost) {
        const i64 bits = __double_as_longlong(cost);
        high[k] = high_word(bits);
        low[k] = (u32)bits;
    };
    const int* columns = name + problem.n_rows;
    if (CLOUDS && BY_WARPS && whole.costs.stride >= LONG) {
        const Costs& costs = whole.costs;
        const double *x = whole.side[whole.swapped].points, *others = whole.side[!whole.swapped].points, *y[8];
        for (int first = 0; first < problem.n_columns; first += 8) {
            EACH(t) y[t] = others + (i64)columns[min(first + t, problem.n_columns - 1)] * costs.stride;
            const Gap gap = eight_gaps(x + (i64)name[r] * costs.stride, y, costs.stride, costs.shrink, 2.0);
            const int k = first + lane_id() / 4;
            if (lane_id() % 4 == 0 && k < problem.n_columns) keep(k, raised(gap, costs.power));
        }
    } else {
        for (int k = lane_id(); k < problem.n_columns; k += 32) keep(k, cost_between(whole, name[r], columns[k]));
    }
    __syncwarp();
}

// Integer costs are those given, divided by 2^exponent and less `low`, in units of 2^(problem.unit - COST_BITS).
struct Units {
    int exponent;
    double low;
    bool coarse;  // whether there are more costs below `COARSE` than a plan needs, beside one that may mean "never"
};

// Read all costs, once; false if one is not finite.
DEVICE bool place_costs(const Whole& whole, Problem& problem, const Tables& tables, const int* name, Units& units, Board& board) {
    double depth = 0.0, size = 0.0;  // below 0, and of the largest
    bool finite = true;
    for (int r = threadIdx.x >> 5; r < problem.n_rows; r += WARPS) {
        read_row(whole, problem, tables, name, r);
        for (int k = lane_id(); k < problem.n_columns; k += 32) {
            const double cost = __longlong_as_double(cost_of(tables, r, k));
            finite &= isfinite(cost);
            depth = larger(depth, -cost);
            size = larger(size, fabs(cost));
        }
    }
    if (block_least({finite ? 1 : 0, 0}, board).value == 0) return false;
    depth = block_most(depth, board);
    size = block_most(size, board);
    int exponent;
    frexp(size, &exponent);
    units.exponent = size == 0.0 || (exponent > -EXTREME && exponent < EXTREME) ? 0 : exponent;
    units.low = -ldexp(depth, -units.exponent);
    const double most = ldexp(size, -units.exponent) - units.low;  // no cost is above it
    problem.unit = unit_exponent(high_word(__double_as_longlong(most)));
    const double scale = ldexp(1.0, COST_BITS - problem.unit), fine = ldexp(COARSE, problem.unit);
    int n_fine = 0;
    for (int r = threadIdx.x >> 5; r < problem.n_rows; r += WARPS)
        for (int k = lane_id(); k < problem.n_columns; k += 32) {
            const int at = r * tables.stride + k;
            const double given = __longlong_as_double(cost_of(tables, r, k));
            const double above = ldexp(given, -units.exponent) - units.low;
            n_fine += above < fine;
            const i64 bits = __double_as_longlong(above);
            const i64 cost = integer_cost(high_word(bits), (u32)bits, scale);
            tables.high[at] = high_word(cost);
            tables.low[at] = (u32)cost;
        }
    meet();
    units.coarse = block_sum((double)n_fine, board) > (double)problem.n_columns;
    return true;
}

// Where the arcs of a plan go, each to the place of the node whose arc to its parent it is.
struct Arcs {
    i64 *source, *sink;
    void* mass;
    bool narrow;
    int room;
    DEVICE void put(int at, int row, int column, double moved) const {
        source[at] = row;
        sink[at] = column;
        ::put(mass, at, narrow, moved);
    }
};

// Nothing is shipped from the places behind `first` on.
DEVICE void clear_arcs(const Arcs& arcs, int first) {
    for (int at = first + threadIdx.x; at < arcs.room; at += THREADS) arcs.put(at, 0, 0, 0.0);
}

// What the plan costs, and its arcs. The cost of clouds is that of the integers. `coarse`: whether the integers have too
// few digits for the costs that the plan uses, since one that means "never" is far above them.
DEVICE double write_arcs(
    const Whole& whole, const Problem& problem, const Tables& tables, const Tree& tree, const int* name, const Units& units,
    double worth, const Arcs& arcs, bool& coarse, Board& board
) {
    const double unit = ldexp(1.0, problem.unit - COST_BITS + units.exponent);
    double total = 0.0, reach = 0.0;
    for (int node = threadIdx.x; node < problem.n_rows + problem.n_columns; node += THREADS) {
        const int up = tree.parent[node];
        if (up == node || tree.flow[node] == 0) {
            arcs.put(node, 0, 0, 0.0);
            continue;
        }
        const int row = name[node < problem.n_rows ? node : up], column = name[node < problem.n_rows ? up : node];
        const double moved = (double)tree.flow[node] * worth;
        double cost = CLOUDS ? unit * (double)cost_above(problem, tables, tree, node) : cost_between(whole, row, column);
        total += moved * cost;
        if (CLOUDS && cost == 0.0) cost = cost_between(whole, row, column);
        reach = larger(reach, ldexp(cost, -units.exponent) - units.low);
        arcs.put(node, whole.swapped ? column : row, whole.swapped ? row : column, moved);
    }
    clear_arcs(arcs, problem.n_rows + problem.n_columns);
    reach = block_most(reach, board);
    coarse = units.coarse && reach > 0.0 && reach < ldexp(COARSE, problem.unit);
    return block_sum(total, board);
}

// Potentials of all rows and columns, also of those without mass: the heights of the sinks, carried over every cost
// twice, so that f_i + g_j ≤ cost_ij however the heights were rounded.
DEVICE void write_potentials(
    const Whole& whole, const Problem& problem, const Tree& tree, const int* name, const Units& units, double* f, double* g
) {
    const int n = whole.side[0].n, m = whole.side[1].n;
    const int first = whole.swapped ? 0 : problem.n_rows, count = whole.swapped ? problem.n_rows : problem.n_columns;
    const double sign = whole.swapped ? -1.0 : 1.0;
    const int exponent = problem.unit - COST_BITS + units.exponent;
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    for (int i = threadIdx.x >> 5; i < n; i += WARPS) {
        double least = infinity;
        for (int k = lane_id(); k < count; k += 32) {
            const double height = sign * ldexp((double)tree.potential[first + k], exponent);
            least = fmin(least, given_cost(whole, i, name[first + k]) + height);
        }
        for (int far = 16; far > 0; far /= 2) least = fmin(least, __shfl_xor_sync(ALL_LANES, least, far));
        if (lane_id() == 0) f[i] = least;
    }
    meet();
    for (int j = threadIdx.x; j < m; j += THREADS) {
        double least = infinity;
        for (int i = 0; i < n; i++) least = fmin(least, given_cost(whole, i, j) - f[i]);
        g[j] = least;
    }
}

// Whether a problem has masses that are no numbers, or negative, or do not balance, or only one side.
DEVICE bool is_wrong(const Whole& whole, const Found& found, double balance, Board& board) {
    const Side* side = whole.side;
    bool wrong = (side[0].n > 0) != (side[1].n > 0);
    if (side[0].mass || side[1].mass) {
        const double one = found.total[0], two = found.total[1];
        wrong |= side[0].n > 0 && side[1].n > 0 && !(fabs(one - two) <= balance * larger(one, two));
        for (int s = 0; s < 2; s++)
            for (int i = threadIdx.x; side[s].mass && i < side[s].n; i += THREADS)
                wrong |= !(side[s].mass[i] >= 0.0 && isfinite(side[s].mass[i]));
    }
    return block_least({wrong ? 0 : 1, 0}, board).value == 0;
}

// Which kernel takes which problem: the first that has room for it.
extern "C" __global__ void classify_problems(
    const i64* __restrict__ sizes, const i64* __restrict__ other_sizes, int count, const int* __restrict__ most,
    int n_classes, int* __restrict__ lists, int* __restrict__ n_listed
) {
    for (int t = blockIdx.x * blockDim.x + threadIdx.x; t < count; t += gridDim.x * blockDim.x) {
        const i64 size = max(sizes[t], other_sizes[t]);
        int own = 0;
        while (own < n_classes - 1 && size > most[own]) own++;
        lists[(i64)own * count + atomicAdd(n_listed + own, 1)] = t;
    }
}

// Masses, costs, values and the masses of arcs are floats where they are `narrow`. A problem has room for `arcs_room` arcs,
// or, where that is 0, for one per row and column. `refused` may lie on the host, where nothing is added up.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) own_costs(
    const i64* __restrict__ rows_at, const i64* __restrict__ row_sizes, const void* __restrict__ row_mass,
    const i64* __restrict__ columns_at, const i64* __restrict__ column_sizes, const void* __restrict__ column_mass,
    int narrow, const void* __restrict__ costs, const i64* __restrict__ costs_at, int stride, const double* __restrict__ x,
    const double* __restrict__ y, double power, const double* __restrict__ shrink, double balance,
    const int* __restrict__ list, const int* __restrict__ n_listed, int* __restrict__ taken, u32* far,
    const i64* __restrict__ arcs_at, int arcs_room, void* __restrict__ values, i64* __restrict__ source,
    i64* __restrict__ sink, void* __restrict__ mass, const i64* __restrict__ f_at, const i64* __restrict__ g_at,
    double* __restrict__ f, double* __restrict__ g, int* __restrict__ refused
) {
    DYNAMIC_SHARED(shared);
    char* behind = shared + (TREE_BYTES + 15) / 16 * 16;
    const i64 plane = (i64)ROWS * COLUMNS;
    u32* own_far = far + (i64)blockIdx.x * (2 * plane + (FAR_FLOW ? 2 * NODES : 0));
    const Tree tree = tree_at(shared, (i64*)(own_far + 2 * plane));
    Board board = {(Least*)behind, 0};
    Found& found = *(Found*)(behind + 32 * WARPS);
    int* name = (int*)(behind + 32 * WARPS + 32);
    const int count = *n_listed;
    for (int next = blockIdx.x; next < count; next = next_of_block(taken, &found.slot)) {
        const int b = list[next];
        const i64 row = rows_at[b], column = columns_at[b];
        Whole whole;
        whole.side[0] = {Reals{row_mass, narrow != 0}.from(row), x + row * stride, (int)row_sizes[b]};
        whole.side[1] = {Reals{column_mass, narrow != 0}.from(column), y + column * stride, (int)column_sizes[b]};
        whole.costs = {Reals{costs, narrow != 0}.from(CLOUDS ? 0 : costs_at[b]), stride, power, shrink ? shrink[b] : 1.0};
        whole.swapped = row_sizes[b] > column_sizes[b];
        Problem problem = {0, 0, 0};
        const double worth = lay_out(whole, problem, tree, found, name);
        Tables tables = {(int*)own_far, own_far + plane, (problem.n_columns + 31) & ~31};
        Units units = {0, 0.0, false};
        bool wrong = is_wrong(whole, found, balance, board);
        if (!wrong && worth > 0.0) wrong = !place_costs(whole, problem, tables, name, units, board);
        if (wrong && threadIdx.x == 0) *refused = 1;
        const int room = arcs_room > 0 ? arcs_room : whole.side[0].n + whole.side[1].n;
        const i64 at = arcs_at[b];
        const Arcs arcs = {source + at, sink + at, (void*)Reals{mass, narrow != 0}.from(at).first, narrow != 0, room};
        if (wrong || !(worth > 0.0)) {
            clear_arcs(arcs, 0);
            if (threadIdx.x == 0) put(values, b, narrow, 0.0);
            continue;
        }
        solve_block(problem, tables, tree, board);
        bool coarse;
        const double value = write_arcs(whole, problem, tables, tree, name, units, worth, arcs, coarse, board);
        if (threadIdx.x == 0) put(values, b, narrow, value);
        if (threadIdx.x == 0 && coarse) *refused = 1;
        if (f_at) write_potentials(whole, problem, tree, name, units, f + f_at[b], g + g_at[b]);
    }
}
