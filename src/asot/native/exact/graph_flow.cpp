// Tiles of pairs of histograms whose cost is the distance along a sparse graph; see src/asot/exact/graph_metric.py.
#include "../common/records.hpp"
#include "histograms.hpp"
#include "sparse_tree.hpp"

struct GraphArcs {
    int64_t k, arcs;              // points, arcs (both ways)
    const int64_t* offsets;       // (k + 1,) the arcs of u are offsets[u]..offsets[u + 1] - 1
    const int32_t *tails, *heads;  // (arcs,)
    const int64_t* costs;         // (arcs,)
    const double* lengths;        // (arcs,)
};

namespace {

// Scratch of one thread.
struct GraphRoom {
  private:
    Memory memory_;

  public:
    int64_t *supply;               // (k,)
    int64_t *cluster, *surplus;    // (k,) of each point: on the way to its cluster; what a cluster has too much
    int64_t *best, *chosen;        // (k,) arcs of clusters; those of the tree
    int64_t *start, *partner, *length;  // (k + 1,), (2k,), (2k,) the tree as neighbors of each point
    int64_t *order, *flow, *pi;    // (k,)
    int32_t *parent;               // (k,)

    explicit GraphRoom(int64_t k)
        : memory_(10 * Memory::bytes_of<int64_t>(k + 1) + 2 * Memory::bytes_of<int64_t>(2 * k) +
                  Memory::bytes_of<int32_t>(k)) {
        if (memory_.failed()) return;
        for (int64_t** each : {&supply, &cluster, &surplus, &best, &chosen, &start, &order, &flow, &pi})
            *each = memory_.take<int64_t>(k + 1);
        partner = memory_.take<int64_t>(2 * k), length = memory_.take<int64_t>(2 * k);
        parent = memory_.take<int32_t>(k);
    }
    bool failed() const { return memory_.failed(); }
};

// The cluster of a point; the path to it gets shorter on the way.
INLINE int64_t cluster_of(int64_t x, int64_t* cluster) {
    while (cluster[x] != x) {
        cluster[x] = cluster[cluster[x]];
        x = cluster[x];
    }
    return x;
}

// The arc along which each cluster grows, or -1: the shortest to a cluster that needs what it has, or has what it needs,
// else the shortest.
void find_best_arcs(const GraphArcs& g, const GraphRoom& room) {
    int64_t *cluster = room.cluster, *surplus = room.surplus, *best = room.best;
    for (int64_t x = 0; x < g.k; x++) best[x] = -1;
    for (int64_t e = 0; e < g.arcs; e++) {
        const int64_t x = cluster_of(g.tails[e], cluster), y = cluster_of(g.heads[e], cluster);
        if (x == y) continue;
        if (best[x] < 0) {
            best[x] = e;
            continue;
        }
        const bool useful = (surplus[x] > 0) != (surplus[y] > 0);
        const bool was_useful = (surplus[x] > 0) != (surplus[cluster_of(g.heads[best[x]], cluster)] > 0);
        if ((useful && !was_useful) || (useful == was_useful && g.costs[e] < g.costs[best[x]])) best[x] = e;
    }
}

// Fill `chosen` with k - 1 arcs that span the graph and carry mass only a short way: clusters of points grow together.
void choose_spanning_arcs(const GraphArcs& g, const GraphRoom& room) {
    for (int64_t x = 0; x < g.k; x++) room.cluster[x] = x, room.surplus[x] = room.supply[x];
    for (int64_t made = 0; made < g.k - 1;) {
        find_best_arcs(g, room);
        for (int64_t t = 0; t < g.k; t++) {
            if (room.best[t] < 0) continue;
            const int64_t x = cluster_of(g.tails[room.best[t]], room.cluster);
            const int64_t y = cluster_of(g.heads[room.best[t]], room.cluster);
            if (x == y) continue;
            room.cluster[x] = y;
            room.surplus[y] += room.surplus[x];
            room.chosen[made++] = room.best[t];
        }
    }
}

// The chosen arcs as partners of each point and lengths.
void list_partners(const GraphArcs& g, const GraphRoom& room) {
    int64_t* start = room.start;
    for (int64_t x = 0; x <= g.k; x++) start[x] = 0;
    for (int64_t t = 0; t < g.k - 1; t++) {
        start[g.tails[room.chosen[t]]]++;
        start[g.heads[room.chosen[t]]]++;
    }
    for (int64_t x = 0; x < g.k; x++) start[x + 1] += start[x];
    for (int64_t t = 0; t < g.k - 1; t++) {
        const int64_t e = room.chosen[t], tail = g.tails[e], head = g.heads[e];
        room.partner[--start[tail]] = head;
        room.length[start[tail]] = g.costs[e];
        room.partner[--start[head]] = tail;
        room.length[start[head]] = g.costs[e];
    }
}

// Hang the spanning arcs from point 0, with the flows that the masses ask for and their potentials.
void plant(const GraphArcs& g, const GraphRoom& room, const SparseTree& tree) {
    list_partners(g, room);
    int64_t* order = room.order;
    tree.parent[0] = 0;
    tree.pi[0] = 0;
    order[0] = 0;
    int64_t reached = 1;
    for (int64_t t = 0; t < g.k; t++) {  // breadth first: shallow trees
        const int64_t x = order[t];
        for (int64_t s = room.start[x]; s < room.start[x + 1]; s++) {
            const int64_t y = room.partner[s];
            if (y == tree.parent[x]) continue;
            tree.parent[y] = int32_t(x);
            tree.pi[y] = room.length[s];  // for now, the length of the arc
            order[reached++] = y;
        }
    }
    tree.lay_out(order, g.k);
    for (int64_t x = 0; x < g.k; x++) tree.flow[x] = room.supply[x];
    for (int64_t t = g.k - 1; t > 0; t--) {
        const int64_t x = order[t], flow = tree.flow[x];
        tree.flow[tree.parent[x]] += flow;
        tree.up[x] = flow >= 0;  // without flow towards the root: strongly feasible
        tree.flow[x] = flow >= 0 ? flow : -flow;
    }
    for (int64_t t = 1; t < g.k; t++) {
        const int64_t x = order[t];
        tree.pi[x] = tree.pi[tree.parent[x]] + (tree.up[x] ? tree.pi[x] : -tree.pi[x]);
    }
}

// What the flows cost, in units of 2^-60 of the lengths.
double value_of(const GraphArcs& g, const SparseTree& tree) {
    double total = 0.0;
    for (int64_t x = 1; x < g.k; x++)
        for (int64_t e = g.offsets[x]; e < g.offsets[x + 1]; e++)
            if (g.heads[e] == tree.parent[x]) total += double(tree.flow[x]) * g.lengths[e];
    return total;
}

}  // namespace

ENTRY asot_graph_tile(const Histograms* h, const GraphArcs* graph, const Tile* tile) {
    const GraphArcs& g = *graph;
    GraphRoom room(g.k);
    if (room.failed()) return OUT_OF_MEMORY;
    SparseTree tree(room.parent, room.flow, room.pi, g.k);
    if (tree.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < tile->n; t++) {
        tile->values[t] = 0.0;
        tile->steps[t] = 0;
        if (*tile->stop != 0) return DONE;
        const int64_t *a = h->A + tile->rows[t] * g.k, *b = h->B + tile->columns[t] * g.k;
        int64_t moved = 0;
        for (int64_t x = 0; x < g.k; x++) moved |= room.supply[x] = a[x] - b[x];
        if (moved == 0) continue;
        choose_spanning_arcs(g, room);
        plant(g, room, tree);
        const ArcsView arcs{g.tails, g.heads, g.costs, g.arcs};
        tile->steps[t] = int32_t(tree.improve(arcs, int64_t(1) << 62, tile->stop));
        tile->values[t] = value_of(g, tree);
    }
    return DONE;
}
