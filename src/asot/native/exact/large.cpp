// Large problems: guess which arcs matter, solve on those, price all arcs, repeat until none improves.
//
// From a few hundred nodes on, the small solver (simplex.hpp) spends its time on pricing: every pivot looks at thousands
// of arcs, nearly all of them useless. Rough potentials (first_potentials.hpp) name the ten arcs per node that are near
// them; a network simplex (sparse_tree.hpp) starts from a greedy basis of these arcs and solves the problem on them
// alone; then all n² arcs are priced once, and those that would improve join the list. When there are none, the tree is
// optimal for the whole problem, just like the small solver's: the same integers, no tolerance.
#include "large.hpp"

#include "first_potentials.hpp"
#include "sparse_tree.hpp"

constexpr int64_t ARCS_PER_NODE = 10;  // in the first list, over the mean of sources and sinks
constexpr int64_t ADDED_PER_ROW = 12;  // the most arcs of one source that a round of pricing adds
constexpr int64_t RANKS = 2048;        // reduced costs are sorted into this many steps
// Pivots between two rounds of pricing, over the number of nodes: there is no point in finishing with a list that lacks
// arcs.
constexpr int64_t PATIENCE = 1;

namespace {

// Reduced costs c_ij - f_i - g_j of a block in steps from 0 (best) to a limit (that, or worse).
struct Ranking {
    const FloatBlock& block;
    const float *f, *g;
    float lowest, scale;
    int32_t* rank;  // (width,) of the last row asked for

    Ranking(const FloatBlock& block, const float* f, const float* g, double spread, int32_t* rank)
        : block(block), f(f), g(g), lowest(INFINITY), scale(spread > 0.0 ? float(double(RANKS) / spread) : 0.0f),
          rank(rank) {
        for (int64_t i = 0; i < block.p; i += 1 + block.p / 32)  // roughly the lowest: that of some rows
            for (int64_t j = 0; j < block.q; j++) {
                const float reduced = block.cost[i * block.width + j] - f[i] - g[j];
                lowest = reduced < lowest ? reduced : lowest;
            }
    }
    void row(int64_t i, int64_t limit) const {
        const float* cost = block.cost + i * block.width;
        const Floats height = ::spread(f[i] + lowest), factor = ::spread(scale), none = ::spread(0.0f);
        const Floats last = ::spread(float(limit));
        for (int64_t j = 0; j < block.width; j += FLOATS) {
            const Floats step = lesser(larger((load(cost + j) - height - load(g + j)) * factor, none), last);
            Vector<int32_t> steps;
            for (int r = 0; r < REGISTERS; r++) steps.part[r] = __builtin_convertvector(step.part[r], SignedWords);
            store(rank + j, steps);
        }
    }
};

// Arcs by rank.
struct Candidates {
    int64_t count;
    int32_t *source, *sink, *rank;  // (count,)
    int64_t *order;                 // (count,) by rank
    int64_t *start;                 // (RANKS + 2,) scratch

    static int64_t bytes(int64_t most) {
        return 3 * Memory::bytes_of<int32_t>(most) + Memory::bytes_of<int64_t>(most) +
               Memory::bytes_of<int64_t>(RANKS + 2);
    }
    Candidates(Memory& memory, int64_t most) : count(0) {
        for (int32_t** each : {&source, &sink, &rank}) *each = memory.take<int32_t>(most);
        order = memory.take<int64_t>(most), start = memory.take<int64_t>(RANKS + 2);
    }
    INLINE void add(int64_t i, int64_t j, int32_t r) {
        source[count] = int32_t(i), sink[count] = int32_t(j), rank[count++] = r;
    }
    void sort() const {
        for (int64_t r = 0; r < RANKS + 2; r++) start[r] = 0;
        for (int64_t e = 0; e < count; e++) start[rank[e] + 1]++;
        for (int64_t r = 0; r <= RANKS; r++) start[r + 1] += start[r];
        for (int64_t e = 0; e < count; e++) order[start[rank[e]]++] = e;
    }
};

// The rank below which there are enough arcs for a first list, and how many to list at most. Neighbors are counted in two
// tables: many have one rank, and a count waits for the one before it.
int64_t rank_limit(const Ranking& ranking, int64_t* count, int64_t& most) {
    const FloatBlock& block = ranking.block;
    int64_t* other = count + RANKS + 1;
    for (int64_t r = 0; r < 2 * (RANKS + 1); r++) count[r] = 0;
    for (int64_t i = 0; i < block.p; i++) {
        ranking.row(i, RANKS);
        for (int64_t j = 0; j + 1 < block.q; j += 2) count[ranking.rank[j]]++, other[ranking.rank[j + 1]]++;
        if (block.q & 1) count[ranking.rank[block.q - 1]]++;
    }
    for (int64_t r = 0; r <= RANKS; r++) count[r] += other[r];
    const int64_t wanted = ARCS_PER_NODE * (block.p + block.q) / 2;
    int64_t limit = 0, total = 0;
    while (limit < RANKS && total < wanted) total += count[limit++];
    most = total < 4 * wanted ? total : 4 * wanted;  // where nearly all costs are alike, more arcs say nothing more
    return limit;
}

void near_arcs(const Ranking& ranking, int64_t limit, int64_t most, Candidates& arcs) {
    for (int64_t i = 0; i < ranking.block.p; i++) {
        ranking.row(i, limit);
        for (int64_t j = 0; j < ranking.block.q; j++)
            if (ranking.rank[j] < limit && arcs.count < most) arcs.add(i, j, ranking.rank[j]);
    }
}

// A feasible basis, as steps that hang `child` on `hung_on`: ship along the best open arc, close a node.
struct Greedy {
    const Workspace& ws;
    const int64_t first;
    int64_t rows, columns, steps;  // open, open, made
    int8_t *row_open, *column_open;

    Greedy(const Workspace& ws, int64_t p, int64_t q, Memory& memory)
        : ws(ws), first(first_sink(p)), rows(p), columns(q), steps(0), row_open(memory.take<int8_t>(p)),
          column_open(memory.take<int8_t>(q)) {
        std::memset(row_open, 1, size_t(p));
        std::memset(column_open, 1, size_t(q));
    }
    // Walk through arcs in order. Each one between two open nodes closes one of them; the last closes both.
    void ship(const Candidates& arcs) {
        arcs.sort();
        for (int64_t t = 0; t < arcs.count && rows > 0; t++) {
            const int64_t i = arcs.source[arcs.order[t]], j = arcs.sink[arcs.order[t]];
            if (!(row_open[i] && column_open[j])) continue;
            if (columns > 1 && (rows == 1 || ws.demand[j] <= ws.supply[i])) {
                ws.child[steps] = int32_t(first + j);
                ws.hung_on[steps] = int32_t(i);
                ws.flow[first + j] = ws.demand[j];
                ws.supply[i] -= ws.demand[j];
                column_open[j] = 0;
                columns--;
            } else {
                ws.child[steps] = int32_t(i);
                ws.hung_on[steps] = int32_t(first + j);
                ws.flow[i] = ws.supply[i];
                ws.demand[j] -= ws.supply[i];
                row_open[i] = 0;
                rows--;
            }
            steps++;
        }
    }
    // What is still open, along all arcs between open nodes.
    bool ship_rest(Ranking& ranking) {
        if (rows == 0) return true;
        Memory memory(Candidates::bytes(rows * columns));
        if (memory.failed()) return false;
        Candidates all(memory, rows * columns);
        ranking.scale /= 2.0f;
        for (int64_t i = 0; i < ranking.block.p; i++) {
            if (!row_open[i]) continue;
            ranking.row(i, RANKS);
            for (int64_t j = 0; j < ranking.block.q; j++)
                if (column_open[j]) all.add(i, j, ranking.rank[j]);
        }
        ship(all);
        return true;
    }
};

// The tree of the greedy steps, with its potentials.
void plant(const Workspace& ws, const SparseTree& tree, int64_t p, int64_t q, int64_t value_mask, int64_t steps,
                  int64_t* nodes) {
    const int64_t first = first_sink(p), stride = stride_of(q);
    for (int64_t x = p; x < first; x++) ws.parent[x] = int32_t(x);  // no node: like the root, no arc to a parent
    nodes[0] = ws.hung_on[steps - 1];
    tree.parent[nodes[0]] = int32_t(nodes[0]);
    tree.pi[nodes[0]] = 0;
    for (int64_t t = 1; t <= steps; t++) {
        const int64_t x = ws.child[steps - t], y = ws.hung_on[steps - t];
        nodes[t] = x;
        tree.parent[x] = int32_t(y);
        tree.up[x] = x < p;
        if (x < p)
            tree.pi[x] = tree.pi[y] + (ws.cost[x * stride + y - first] & value_mask);
        else
            tree.pi[x] = tree.pi[y] - (ws.cost[y * stride + x - first] & value_mask);
    }
    tree.lay_out(nodes, steps + 1);
}

// Add the arcs that would improve the tree: of each row those that are at least half as good as its best.
void price_all(const Workspace& ws, ArcList& arcs, int64_t p, int64_t q, int64_t value_mask) {
    const int64_t first = first_sink(p), stride = stride_of(q);
    const int64_t* pi = ws.pi + first;
    for (int64_t j = q; j < stride; j++) ws.pi[first + j] = 0;
    for (int64_t r = 0; r < p; r += 4) {
        const int64_t end = r + 4 < p ? r + 4 : p;
        const int64_t last = p - 1;
        if (least_of_four(ws, r, r + 1 < p ? r + 1 : last, r + 2 < p ? r + 2 : last, r + 3 < p ? r + 3 : last, first,
                          stride) >= 0)
            continue;
        for (int64_t i = r; i < end; i++) {
            const int64_t *cost = ws.cost + i * stride, own = ws.pi[i];
            Lanes leasts = spread(TOP);
            for (int64_t j = 0; j < stride; j += LANES) leasts = lesser(leasts, load(cost + j) + load(pi + j));
            const int64_t best = least(leasts) - own;
            if (best >= 0) continue;
            int64_t added = 0;
            for (int64_t j = 0; j < q && added < ADDED_PER_ROW; j++) {
                const int64_t value = cost[j] & value_mask;
                if (value + pi[j] - own > best >> 1) continue;
                arcs.add(i, first + j, value);
                added++;
            }
        }
    }
}

int64_t solve_large(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits, Stop stop) {
    const int64_t first = first_sink(p), stride = stride_of(q), width = (q + 2 * FLOATS - 1) & ~(2 * FLOATS - 1);
    const int64_t value_mask = ~((int64_t(1) << index_bits) - 1);
    Memory memory(Memory::bytes_of<float>(p) + Memory::bytes_of<float>(width) + Memory::bytes_of<int32_t>(width) +
                  Memory::bytes_of<int64_t>(2 * (RANKS + 1)) + Memory::bytes_of<int8_t>(p) + Memory::bytes_of<int8_t>(q) +
                  Memory::bytes_of<int64_t>(p + q));
    SparseTree tree(ws.parent, ws.flow, ws.pi, first + q);
    if (memory.failed() || tree.failed()) return NO_MEMORY;
    float *f = memory.take<float>(p), *g = memory.take<float>(width);
    int32_t* rank = memory.take<int32_t>(width);
    int64_t* count = memory.take<int64_t>(2 * (RANKS + 1));
    Greedy greedy(ws, p, q, memory);
    int64_t* nodes = memory.take<int64_t>(p + q);

    // Costs and kernel lie where the keys of the small solver would: 6 bytes of 8, which leaves room for the padding.
    float* costs = reinterpret_cast<float*>(ws.keys);
    const FloatBlock block{costs, reinterpret_cast<uint16_t*>(costs + p * width), p, q, width};
    for (int64_t i = 0; i < p; i++) {
        for (int64_t j = 0; j < q; j++) costs[i * width + j] = float(ws.cost[i * stride + j]);
        for (int64_t j = q; j < width; j++) costs[i * width + j] = float(PAD);
    }
    const double mean_spread = entropic_potentials(block, ws.supply, ws.demand, f, g, stop);
    if (mean_spread < 0.0) return NO_MEMORY;
    if (*stop != 0) return -1;
    Ranking ranking(block, f, g, mean_spread, rank);
    ArcList arcs;
    {
        int64_t most;
        const int64_t limit = rank_limit(ranking, count, most);
        Memory listed(Candidates::bytes(most));
        if (listed.failed()) return NO_MEMORY;
        Candidates near(listed, most);
        near_arcs(ranking, limit, most, near);
        greedy.ship(near);
        if (!greedy.ship_rest(ranking) || !arcs.reserve(near.count + ADDED_PER_ROW * p)) return NO_MEMORY;
        for (int64_t e = 0; e < near.count; e++)
            arcs.add(near.source[e], first + near.sink[e], ws.cost[near.source[e] * stride + near.sink[e]] & value_mask);
    }
    plant(ws, tree, p, q, value_mask, greedy.steps, nodes);
    for (int64_t pivots = 0;;) {
        const int64_t made = tree.improve(arcs.view(), PATIENCE * (p + q), stop);
        if (made < 0 || *stop != 0) return -1;
        pivots += made;
        if (!arcs.reserve(ADDED_PER_ROW * p)) return NO_MEMORY;
        const int64_t before = arcs.used();
        price_all(ws, arcs, p, q, value_mask);
        if (arcs.used() == before && made < PATIENCE * (p + q)) return pivots;
    }
}

}  // namespace

int64_t solve_any(const Workspace& ws, int64_t p, int64_t q, int64_t index_bits, Stop stop) {
    if (p + q >= LARGE_NODES && p >= NARROW && q >= NARROW) return solve_large(ws, p, q, index_bits, stop);
    return solve_block(ws, p, q, index_bits, stop);
}
