// How a transport problem lies in memory: p sources, q sinks, a padded cost block and a spanning tree.
//
// All exact solvers write their problem into a `Workspace`, which one thread reuses from pair to pair. Nodes 0..p-1 are
// sources and first..first+q-1 are sinks, where first is `first_sink(p)`; the few numbers in between are not nodes.
#pragma once
#include "../common/entry.hpp"
#include "../common/lanes.hpp"

constexpr int MASS_BITS = 60;          // every quantized histogram sums to exactly 2^60
constexpr int64_t GROUP = 64 * LANES;  // how many nodes the bits of one `Lanes` value represent
constexpr int64_t TOP = INT64_MAX, BOTTOM = INT64_MIN;  // beyond every key
constexpr int64_t PAD = int64_t(1) << 62;  // cost of a padding column: above any potential; differences do not overflow

// Row length of a cost block with q columns, padded to whole `Lanes`.
INLINE int64_t stride_of(int64_t q) { return (q + LANES - 1) & ~(LANES - 1); }
// The node of the first sink after p sources. Aligned, so that pricing reads the potentials of the sinks in the groups in
// which a pivot has just written them: a processor forwards a write to a read of the same place, but a read across two
// writes waits for the cache.
INLINE int64_t first_sink(int64_t p) { return (p + LANES - 1) & ~(LANES - 1); }
// How many `Lanes` values the bitset of n nodes takes.
INLINE int64_t groups_of(int64_t n) { return (n + GROUP - 1) / GROUP; }

struct Workspace {
  private:
    int64_t block_, words_;
    Memory memory_;

    // p + q <= max_nodes bounds p·q by the square of the half where that is smaller
    static int64_t block_size(int64_t max_sources, int64_t max_sinks, int64_t max_nodes) {
        const int64_t half = (max_nodes + 1) / 2, smaller = half * half + max_nodes * LANES;
        const int64_t block = max_sources * (max_sinks + LANES);
        return stride_of(smaller < block ? smaller : block);
    }
    static int64_t bytes(int64_t m, int64_t block, int64_t words) {
        return 2 * Memory::bytes_of<int64_t>(block) + 7 * Memory::bytes_of<int64_t>(m) +
               7 * Memory::bytes_of<int32_t>(m) + Memory::bytes_of<int64_t>(m * words) +
               2 * Memory::bytes_of<int64_t>(words);
    }

  public:
    int64_t m;                    // the largest number of nodes, and padding
    int64_t *cost, *keys;         // (p·stride,) packed costs, row-major; greedy keys
    int64_t *supply, *demand;     // (m,) masses, destroyed by the start
    int32_t *source, *sink;       // (m,) caller's names (anchor or point)
    int64_t *row_offset, *column_offset;  // (m,) what the greedy start subtracts
    int64_t *barred;              // (m,) by column: TOP once the greedy start has closed it, else BOTTOM
    int64_t *flow;                // (m,) flow on the arc to the parent
    int32_t *parent;              // (m,) the root is its own parent
    int64_t *pi;                  // (m,) potentials
    int64_t *below;               // (groups, m, LANES), or (m,) if n <= 64: bitset of each node's subtree
    int64_t *moved, *passed;      // (groups·LANES,) scratch of a pivot
    int32_t *child, *hung_on;     // (m,) greedy step t hangs child[t] on hung_on[t]
    int32_t *slot, *owner;        // (m,) slot of each open row in the greedy start, and the inverse

    Workspace(int64_t max_sources, int64_t max_sinks, int64_t max_nodes)
        : block_(block_size(max_sources, max_sinks, max_nodes)),
          words_(groups_of((max_nodes + 4 * LANES - 1) & ~(2 * LANES - 1)) * LANES),
          memory_(bytes((max_nodes + 4 * LANES - 1) & ~(2 * LANES - 1), block_, words_)),
          m((max_nodes + 4 * LANES - 1) & ~(2 * LANES - 1)) {
        if (memory_.failed()) return;
        keys = memory_.take<int64_t>(block_), cost = memory_.take<int64_t>(block_);
        for (int64_t** each : {&supply, &demand, &row_offset, &column_offset, &barred, &flow, &pi})
            *each = memory_.take<int64_t>(m);
        for (int32_t** each : {&source, &sink, &parent, &child, &hung_on, &slot, &owner})
            *each = memory_.take<int32_t>(m);
        below = memory_.take<int64_t>(m * words_);
        moved = memory_.take<int64_t>(words_), passed = memory_.take<int64_t>(words_);
    }
    bool failed() const { return memory_.failed(); }
};
