// A network simplex on a list of arcs, for trees of thousands of nodes.
//
// The small solver (simplex.hpp) keeps the set of descendants of every node as bits, which costs n bits per node and
// pivot. Here the nodes are kept in preorder: the subtree of x is the `size[x]` nodes from `place[x]` on. Whether a node
// is below another one takes two comparisons. When a subtree moves, stretches of the order are copied and its potentials
// shifted, all in straight loops over memory, where children and siblings would be found one after the other. That
// matters: with general masses, the subtrees that move hold a third of all nodes. Arcs are looked at in blocks, and the
// best of a block enters. Trees are kept strongly feasible, as in simplex.hpp.
//
// Potentials satisfy pi[tail] - pi[head] == cost on tree arcs. `up[x]` tells whether the arc between x and its parent
// leads to the parent.
#pragma once
#include <cmath>
#include <cstring>

#include "workspace.hpp"

// The arcs that may enter.
struct ArcsView {
    const int32_t *tail, *head;  // (used,)
    const int64_t* cost;         // (used,)
    int64_t used;
};

// A list of arcs that grows.
class ArcList {
  public:
    ~ArcList() {
        std::free(tail_);
        std::free(head_);
        std::free(cost_);
    }
    ArcList() = default;
    ArcList(const ArcList&) = delete;
    ArcList& operator=(const ArcList&) = delete;

    int64_t used() const { return used_; }
    ArcsView view() const { return {tail_, head_, cost_, used_}; }
    // Room for some more; false without memory.
    bool reserve(int64_t more) {
        if (used_ + more <= capacity_) return true;
        capacity_ = 2 * capacity_ + more;
        return grow(tail_) && grow(head_) && grow(cost_);
    }
    INLINE void add(int64_t tail, int64_t head, int64_t cost) {
        tail_[used_] = int32_t(tail), head_[used_] = int32_t(head), cost_[used_++] = cost;
    }

  private:
    template <class T>
    bool grow(T*& array) {
        void* larger = std::realloc(array, static_cast<size_t>(capacity_) * sizeof(T));
        if (larger == nullptr) return false;
        array = static_cast<T*>(larger);
        return true;
    }
    int32_t *tail_ = nullptr, *head_ = nullptr;
    int64_t* cost_ = nullptr;
    int64_t used_ = 0, capacity_ = 0;
};

// A spanning tree of nodes below n with the flows and potentials of its basis; the root is its own parent.
struct SparseTree {
  private:
    Memory memory_;

  public:
    int32_t* parent;  // (n,) the caller's, like the next two
    int64_t* flow;    // (n,) on the arc to the parent
    int64_t* pi;      // (n,)
    int32_t* order;   // (nodes,) each one followed by its descendants
    int32_t* place;   // (n,) of each node in that order
    int32_t* size;    // (n,) of its subtree, itself included
    int32_t* moved;   // (n,) scratch of a pivot
    int8_t* up;       // (n,)

    SparseTree(int32_t* parent, int64_t* flow, int64_t* pi, int64_t n)
        : memory_(4 * Memory::bytes_of<int32_t>(n) + Memory::bytes_of<int8_t>(n)), parent(parent), flow(flow), pi(pi) {
        if (memory_.failed()) return;
        for (int32_t** each : {&order, &place, &size, &moved}) *each = memory_.take<int32_t>(n);
        up = memory_.take<int8_t>(n);
    }
    bool failed() const { return memory_.failed(); }

    // Sizes and order of a tree whose parents are set; `nodes` (count,) are all of its nodes, parents before children.
    void lay_out(const int64_t* nodes, int64_t count) const {
        for (int64_t t = 0; t < count; t++) size[nodes[t]] = 1;
        for (int64_t t = count - 1; t > 0; t--) size[parent[nodes[t]]] += size[nodes[t]];
        int32_t* free = moved;  // where the next child of a node goes
        place[nodes[0]] = 0;
        free[nodes[0]] = 1;
        for (int64_t t = 1; t < count; t++) {
            const int64_t x = nodes[t];
            place[x] = free[parent[x]];
            free[parent[x]] += size[x];
            free[x] = place[x] + 1;
        }
        for (int64_t t = 0; t < count; t++) order[place[nodes[t]]] = int32_t(nodes[t]);
    }

    // Bring the arc tail -> head (reduced cost < 0) into the tree and drop the arc that blocks its cycle.
    void pivot(int64_t tail, int64_t head, int64_t reduced_cost) const {
        // Climb from both ends to the join. Shipping along the new arc takes flow from arcs that lead up on the tail's
        // side and down on the head's side; '<=' picks the last blocking arc of the cycle.
        int64_t delta = TOP, leaving = -1, x = tail;
        const int32_t head_place = place[head];
        while (head_place < place[x] || head_place >= place[x] + size[x]) {
            if (up[x] && flow[x] < delta) delta = flow[x], leaving = x;
            x = parent[x];
        }
        const int64_t join = x;
        int64_t end = tail, other_end = head, shift = reduced_cost;
        for (x = head; x != join; x = parent[x])
            if (!up[x] && flow[x] <= delta) {
                delta = flow[x], leaving = x;
                end = head, other_end = tail, shift = -reduced_cost;
            }
        if (delta != 0) {
            for (x = tail; x != join; x = parent[x]) flow[x] += up[x] ? -delta : delta;
            for (x = head; x != join; x = parent[x]) flow[x] += up[x] ? delta : -delta;
        }
        const int64_t start = place[leaving], whole = size[leaving];
        int64_t target = place[other_end];  // what moves goes right behind this place
        if (start >= target + size[other_end]) target += size[other_end] - 1;
        for (x = parent[leaving]; x != join; x = parent[x]) size[x] -= int32_t(whole);
        for (x = other_end; x != join; x = parent[x]) size[x] += int32_t(whole);
        turn_over(end, leaving, other_end, end == tail, delta);
        move(start, whole, target, shift);
    }

    // Pivot until none of the arcs improves. The number of pivots, or -1 if `stop` was raised.
    int64_t improve(const ArcsView& arcs, int64_t most, Stop stop) const {
        const int64_t count = arcs.used, root = int64_t(std::sqrt(double(count))), block = root > 32 ? root : 32;
        int64_t e = 0, pivots = 0, left = count;
        while (left > 0 && pivots < most) {
            int64_t best = 0, entering = -1;
            while (left > 0 && entering < 0) {
                const int64_t stretch = block < count - e ? block : count - e;
                for (int64_t t = e; t < e + stretch; t++) {
                    const int64_t reduced = arcs.cost[t] - pi[arcs.tail[t]] + pi[arcs.head[t]];
                    entering = reduced < best ? t : entering;
                    best = reduced < best ? reduced : best;
                }
                e = e + stretch < count ? e + stretch : 0;
                left -= stretch;
            }
            if (entering < 0) continue;
            pivot(arcs.tail[entering], arcs.head[entering], best);
            left = count;
            pivots++;
            if ((pivots & 255) == 0 && *stop != 0) return -1;
        }
        return pivots;
    }

  private:
    // Hang the subtree under the leaving arc from `end`, reversing the path end .. leaving; its order goes to `moved`.
    void turn_over(int64_t end, int64_t leaving, int64_t new_parent, bool new_up, int64_t new_flow) const {
        const int32_t whole = size[leaving];
        int32_t* next = moved;
        int64_t inner = place[end], inner_size = 0;  // the part that is done: the subtree of the last node
        for (int64_t x = end;;) {
            const int64_t start = place[x], stop = start + size[x], rest = inner + inner_size;
            std::memcpy(next, order + start, size_t(inner - start) * sizeof(int32_t));
            next += inner - start;
            std::memcpy(next, order + rest, size_t(stop - rest) * sizeof(int32_t));
            next += stop - rest;
            size[x] = whole - int32_t(inner_size);
            inner = start;
            inner_size = stop - start;
            const int64_t old_parent = parent[x], old_flow = flow[x];
            const bool old_up = up[x];
            parent[x] = int32_t(new_parent);
            flow[x] = new_flow;
            up[x] = new_up;
            if (x == leaving) return;
            new_parent = x;
            new_flow = old_flow;
            new_up = !old_up;
            x = old_parent;
        }
    }

    // Put the nodes in `moved` behind a place, from where they were, and shift their potentials.
    void move(int64_t start, int64_t count, int64_t target, int64_t shift) const {
        int64_t begin;
        if (start > target) {
            begin = target + 1;
            std::memmove(order + begin + count, order + begin, size_t(start - begin) * sizeof(int32_t));
            for (int64_t t = begin + count; t < start + count; t++) place[order[t]] = int32_t(t);
        } else {
            begin = target + 1 - count;
            std::memmove(order + start, order + start + count, size_t(begin - start) * sizeof(int32_t));
            for (int64_t t = start; t < begin; t++) place[order[t]] = int32_t(t);
        }
        for (int64_t t = 0; t < count; t++) {
            const int64_t x = moved[t];
            order[begin + t] = int32_t(x);
            place[x] = int32_t(begin + t);
            pi[x] += shift;
        }
    }
};
