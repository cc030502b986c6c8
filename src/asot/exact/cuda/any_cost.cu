// Exact optimal transport between distributions on their points under any cost, a pair per block: W_p, functions of a
// distance, tables, and mass that stays unmatched at a price. What is computed, and why, is said in
// asot.exact.any_cost; the CPU's kernel is native/exact/any_cost.cpp.
//
// Defines (asot.exact.cuda.points_plan): ROWS, COLUMNS and THREADS of block_tree.cuh, COST_BITS, BLOCK_BYTES of shared
// memory, BLOCKS per multiprocessor, TABLE and METRIC. BOUNDED is 0.

#include "points_pair.cuh"
#include "block_simplex.cuh"

static_assert(COLUMNS % 32 == 0, "rows of costs are padded to whole warps");
static_assert(24 * COLUMNS <= 20 * NODES, "lists of points and masses fit behind the flows");
static_assert(BLOCK_BYTES == (TREE_BYTES + 15) / 16 * 16 + 32 * WARPS + 32 + 4 * NODES, "the host counts otherwise");

enum { PLAIN, SQUARE, HALF_SQUARE, ARC };  // as in asot.ground.costs

constexpr double FINE = 0.00390625, CLIPPED = 4.0, WIDER = 256.0, WIDEST = 67108864.0;  // see asot.exact.any_cost
constexpr int ROUNDED_BITS = MASS_BITS - 53;  // a mass of float64 may be off by this many bits of its integer
constexpr int RESERVOIR = -1;                 // in the place of a point

struct AnyCost {
    int transform;
    double power;
    const double* prices;      // (n_points,) in the unit of the kernel, or null
    const i64* exponents;      // (N,) masses of a distribution are in units of 2^exponent; null if of all alike
    double share;              // of the smaller total that must be moved
    int cancels;               // whether common mass may be left out
    double farthest;           // a distance above it leaves the pair to the CPU, which refuses it
};

DEVICE i64 in_units(i64 mass, int shift) {
    if (shift == 0) return mass;
    return shift > MASS_BITS ? 0 : (mass + (1ll << (shift - 1))) >> shift;
}

DEVICE i64 warp_total(i64 value) {
    for (int far = 16; far > 0; far /= 2) value += __shfl_xor_sync(ALL_LANES, value, far);
    return value;
}

// The angle between two unit vectors, from their distance. Far ones are nearly opposite, where a sine is flat: there the
// distance of one to the other's opposite is needed, too.
DEVICE double angle(const Collection& c, double distance, int one, int two) {
    if (distance * distance <= 2.0) return 2.0 * asin(0.5 * distance);
    const double* x = c.distances + (i64)one * c.n_coordinates;
    const double* y = c.distances + (i64)two * c.n_coordinates;
    double square = 0.0;
    for (int t = 0; t < c.n_coordinates; t++) square += (x[t] + y[t]) * (x[t] + y[t]);
    return 2.0 * atan2(distance, sqrt(square));
}

// What is taken of a distance.
DEVICE double transformed(const Collection& c, const AnyCost& any, double far, int one, int two) {
    if (any.transform == SQUARE) return far * far;
    if (any.transform == HALF_SQUARE) return 0.5 * far * far;
    return any.transform == ARC ? angle(c, far, one, two) : far;
}

// A point of the first distribution and one of the second, either of which may be the reservoir.
DEVICE double cost_between(const Collection& c, const AnyCost& any, int one, int two) {
    if (one == RESERVOIR) return two == RESERVOIR ? 0.0 : any.prices[two];
    if (two == RESERVOIR) return any.prices[one];
    return transformed(c, any, distance(c, one, two), one, two);
}

DEVICE double raised(const AnyCost& any, double cost, double unit, double top) {
    const double share = cost / unit, own = any.power == 1.0 ? share : any.power == 2.0 ? share * share
                                                                                         : pow(share, any.power);
    return own > top ? top : own;
}

// What one distribution has to ship to another, or all that it has: points and masses, their total, and how many. The
// whole warp works on it.
DEVICE void list_masses(
    const Collection& c, const AnyCost& any, int own, int other, int shift, int other_shift, int* points, i64* masses,
    i64* total, int* n_listed
) {
    const int lane = lane_id();
    const i64 begin = c.offsets[own], end = c.offsets[own + 1], from = c.offsets[other], to = c.offsets[other + 1];
    int count = 0;
    i64 own_total = 0;
    for (i64 first = begin; first < end; first += 32) {
        const i64 at = first + lane;
        int point = 0;
        i64 mass = 0;
        if (at < end) {
            point = c.point[at];
            mass = in_units(c.mass[at], shift);
            if (any.cancels) mass -= in_units(mass_on(c, point, from, to), other_shift);
        }
        const u32 kept = __ballot_sync(ALL_LANES, mass > 0);
        if (mass > 0) {
            const int place = count + count_set(kept & ((1u << lane) - 1));
            points[place] = point;
            masses[place] = mass;
            own_total += mass;
        }
        count += count_set(kept);
    }
    own_total = warp_total(own_total);
    if (lane == 0) {
        *total = own_total;
        *n_listed = count;
    }
}

// What a block knows of its pair, in shared memory.
struct Sides {
    i64 total[2];
    int count[2];
};

struct Pair {
    Problem problem;
    bool swapped;  // whether the rows are the second distribution's
    int first, second;
};

// Points of the nodes to `name`, masses to the flows; lists lie where the rest of the tree is later.
DEVICE void lay_out(const Collection& c, const AnyCost& any, Pair& pair, const Tree& tree, Sides* sides, int* name) {
    i64* masses = tree.potential;
    int* points = (int*)(masses + 2 * COLUMNS);
    const int warp = threadIdx.x >> 5, i = pair.first, j = pair.second;
    const int apart = any.exponents ? (int)(any.exponents[i] - any.exponents[j]) : 0;
    const int shift = max(-apart, 0), other_shift = max(apart, 0);
    meet();
    if (warp == 0) list_masses(c, any, i, j, shift, other_shift, points, masses, sides->total, sides->count);
    if (warp == WARPS - 1)
        list_masses(c, any, j, i, other_shift, shift, points + COLUMNS, masses + COLUMNS, sides->total + 1, sides->count + 1);
    meet();
    if (any.prices && threadIdx.x < 2) {  // the reservoir of a side holds what the other side may keep
        const int side = threadIdx.x, at = sides->count[side];
        const i64 moved = (i64)rint(any.share * (double)min(sides->total[0], sides->total[1]));
        const i64 held = sides->total[1 - side] - moved;
        if (held > 0) {
            points[side * COLUMNS + at] = RESERVOIR;
            masses[side * COLUMNS + at] = held;
            sides->count[side] = at + 1;
        }
    }
    meet();
    pair.swapped = sides->count[0] > sides->count[1];
    pair.problem = {sides->count[pair.swapped], sides->count[!pair.swapped], 0};
    const int rows_at = pair.swapped ? COLUMNS : 0, columns_at = COLUMNS - rows_at, n_rows = pair.problem.n_rows;
    for (int node = threadIdx.x; node < n_rows + pair.problem.n_columns; node += THREADS) {
        const int at = node < n_rows ? rows_at + node : columns_at + node - n_rows;
        tree.flow[node] = masses[at];
        name[node] = points[at];
    }
    meet();
}

DEVICE double cost_of_arc(const Collection& c, const AnyCost& any, const Pair& pair, const int* name, int row, int column) {
    const int one = name[row], two = name[pair.problem.n_rows + column];
    return pair.swapped ? cost_between(c, any, two, one) : cost_between(c, any, one, two);
}

// All costs of a pair into the tables, as bits of doubles. Returns the largest, and that between two points (`reach`).
DEVICE double measure(
    const Collection& c, const AnyCost& any, const Pair& pair, const int* name, const Tables& tables, double& reach,
    Board& board
) {
    const int n_rows = pair.problem.n_rows, n_columns = pair.problem.n_columns;
    double most = 0.0, far = 0.0;
    const auto row = [&](int r) { return name[r]; };
    const auto column = [&](int k) { return name[n_rows + k]; };
    const auto keep = [&](int r, int k, double cost) {
        const i64 bits = __double_as_longlong(cost);
        tables.high[r * tables.stride + k] = high_word(bits);
        tables.low[r * tables.stride + k] = (u32)bits;
        most = larger(most, cost);
        if (row(r) != RESERVOIR && column(k) != RESERVOIR) far = larger(far, cost);
    };
    if (BY_WARPS && c.n_coordinates >= LONG)
        long_distances(c, n_rows, row, n_columns, column, [&](int r, int k, double apart) {
            const bool is_apart = row(r) != RESERVOIR && column(k) != RESERVOIR;
            keep(r, k, is_apart ? transformed(c, any, apart, row(r), column(k)) : cost_of_arc(c, any, pair, name, r, k));
        });
    else
        for (int r = threadIdx.x >> 5; r < n_rows; r += WARPS)
            for (int k = lane_id(); k < n_columns; k += 32) keep(r, k, cost_of_arc(c, any, pair, name, r, k));
    meet();
    reach = block_most(far, board);
    return block_most(most, board);
}

// Integer costs (d / unit)^power, up to `top`, a power of two that becomes 2^COST_BITS, from what was measured.
DEVICE void place_costs(const AnyCost& any, const Pair& pair, const Tables& tables, double unit, double top) {
    const double scale = ldexp(1.0, COST_BITS) / top;
    for (int r = threadIdx.x >> 5; r < pair.problem.n_rows; r += WARPS)
        for (int k = lane_id(); k < pair.problem.n_columns; k += 32) {
            const double cost = __longlong_as_double(cost_of(tables, r, k));
            const i64 bits = __double_as_longlong(raised(any, cost, unit, top));
            const i64 whole = integer_cost(high_word(bits), (u32)bits, scale);
            tables.high[r * tables.stride + k] = high_word(whole);
            tables.low[r * tables.stride + k] = (u32)whole;
        }
    meet();
}

// What the flows of a tree cost; used: the largest cost among them. Flows below `least` do not count.
DEVICE double value_of_flows(
    const Collection& c, const AnyCost& any, const Pair& pair, const Tree& tree, const int* name, double unit, double top,
    i64 least, double& used, Board& board
) {
    const int n_rows = pair.problem.n_rows;
    double total = 0.0, most = 0.0;
    for (int node = threadIdx.x; node < n_rows + pair.problem.n_columns; node += THREADS) {
        const int up = tree.parent[node];
        if (up == node || tree.flow[node] < least) continue;
        const double cost = node < n_rows ? cost_of_arc(c, any, pair, name, node, up - n_rows)
                                          : cost_of_arc(c, any, pair, name, up, node - n_rows);
        const double own = raised(any, cost, unit, top);
        total += (double)tree.flow[node] * own;
        most = larger(most, own);
    }
    used = block_most(most, board);
    return block_sum(total, board);
}

// The value of a pair that was measured, in units of unit^power times mass.
DEVICE double solve_pair(
    const Collection& c, const AnyCost& any, Pair& pair, const Tree& tree, const Tables& tables, Sides* sides, int* name,
    double& unit, int& pivots, Board& board
) {
    AnyCost plain = any;
    plain.power = 1.0;
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    const i64 rounded = (i64)(pair.problem.n_rows + pair.problem.n_columns) << ROUNDED_BITS;
    i64 least = any.power == 1.0 ? 1 : rounded;
    double used;
    place_costs(any, pair, tables, unit, 1.0);
    pivots = solve_block(pair.problem, tables, tree, board);
    double value = value_of_flows(c, any, pair, tree, name, unit, 1.0, least, used, board);
    if (any.prices != nullptr && used >= FINE) {  // a price that means "never" is not paid for the rounding of masses
        double rest;
        const double found = value_of_flows(c, any, pair, tree, name, unit, 1.0, rounded, rest, board);
        if (rest < FINE) least = rounded, value = found, used = rest;
    }
    for (double enough = FINE; used < enough; enough = FINE * CLIPPED) {
        double longest;
        value_of_flows(c, plain, pair, tree, name, 1.0, infinity, least, longest, board);
        if (!(longest > 0.0)) return 0.0;
        unit = longest;
        value = value_of_flows(c, any, pair, tree, name, unit, infinity, least, used, board);  // of the plan at hand
        for (double top = CLIPPED;; top *= WIDER) {
            double reach;
            lay_out(c, any, pair, tree, sides, name);
            measure(c, any, pair, name, tables, reach, board);
            place_costs(any, pair, tables, unit, top);
            pivots += solve_block(pair.problem, tables, tree, board);
            const double found = value_of_flows(c, any, pair, tree, name, unit, top, least, used, board);
            if (used < top) {
                value = found;
                break;
            }
            if (top >= WIDEST) return value;
        }
    }
    return value;
}

// Which kernel takes which pair: the first that has room for all points of both, and for reservoirs.
extern "C" __global__ void classify_sizes(
    const i64* __restrict__ offsets, int kind, i64 n_rows, i64 n_columns, const i64* __restrict__ listed, i64 start,
    int count, int column_start, int extra, const int* __restrict__ most, int n_classes, int* __restrict__ lists,
    int* __restrict__ n_listed, double* __restrict__ values, i8* __restrict__ status, int* __restrict__ n_iter
) {
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    for (int t = blockIdx.x * blockDim.x + threadIdx.x; t < count; t += gridDim.x * blockDim.x) {
        int i, j, own = 0;
        pair_at(pairs, start, t, &i, &j);
        j += column_start;
        const i64 size = max(offsets[i + 1] - offsets[i], offsets[j + 1] - offsets[j]) + extra;
        while (own < n_classes && size > most[own]) own++;
        if (own < n_classes) {
            lists[(i64)own * count + atomicAdd(n_listed + own, 1)] = t;
        } else {
            values[t] = nan("");
            status[t] = OPEN;
            n_iter[t] = 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) any_cost(
    const i64* __restrict__ offsets, const int* __restrict__ point, const i64* __restrict__ mass,
    const double* __restrict__ distances, int n_points, int n_coordinates, double order, int kind, i64 n_rows,
    i64 n_columns, const i64* __restrict__ listed, i64 start, int column_start, const int* __restrict__ list,
    const int* __restrict__ n_listed, int* __restrict__ taken, u32* far, int transform, double power,
    const double* __restrict__ prices, const i64* __restrict__ exponents, double share, int cancels, double farthest,
    double scale, double* __restrict__ values, i8* __restrict__ status, int* __restrict__ n_iter
) {
    DYNAMIC_SHARED(shared);
    char* behind = shared + (TREE_BYTES + 15) / 16 * 16;
    const Tree tree = tree_at(shared);
    Board board = {(Least*)behind, 0};
    Sides* sides = (Sides*)(behind + 32 * WARPS);
    int* slot = (int*)(sides + 1);
    int* name = (int*)(behind + 32 * WARPS + 32);
    const i64 plane = (i64)ROWS * COLUMNS;
    u32* own_far = far + (i64)blockIdx.x * 2 * plane;
    const Collection collection = {offsets, point, mass, distances, n_points, n_coordinates, order};
    const AnyCost any = {transform, power, prices, exponents, share, cancels, farthest};
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    const int count = *n_listed;
    for (int next = blockIdx.x; next < count; next = next_of_block(taken, slot)) {
        const int t = list[next];
        Pair pair;
        pair_at(pairs, start, t, &pair.first, &pair.second);
        pair.second += column_start;
        lay_out(collection, any, pair, tree, sides, name);
        const Tables tables = {(int*)own_far, own_far + plane, (pair.problem.n_columns + 31) & ~31};
        double value = 0.0, reach = 0.0, unit = 0.0;
        int pivots = 0;
        if (pair.problem.n_rows > 0) unit = measure(collection, any, pair, name, tables, reach, board);
        const bool refused = reach > farthest;
        if (unit > 0.0 && !refused)
            value = solve_pair(collection, any, pair, tree, tables, sides, name, unit, pivots, board);
        if (threadIdx.x == 0) {
            const int exponent = exponents ? (int)max(exponents[pair.first], exponents[pair.second]) : 0;
            const double moved = ldexp(value, exponent - MASS_BITS);
            const double root = power == 1.0 ? moved : power == 2.0 ? sqrt(moved) : pow(moved, 1.0 / power);
            values[t] = refused ? nan("") : scale * unit * root;
            status[t] = refused ? OPEN : OPTIMAL;
            n_iter[t] = pivots;
        }
    }
}
