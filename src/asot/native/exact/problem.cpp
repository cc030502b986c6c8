// One transport problem in whole numbers, with the tree that proves its answer: for tests of the solvers themselves.
#include <cstring>

#include "large.hpp"

struct Problem {
    int64_t p, q, index_bits;
    int64_t large;                  // whether large problems are solved as such
    const int64_t* cost;            // (p, q), shifted left by index_bits
    const int64_t *supply, *demand;  // (p,), (q,)
    const int64_t *row_offset, *column_offset;  // (p,), (q,)
    int64_t* pivots;                // (1,) of the solution, or -1 if stopped
    int32_t* parent;                // (first_sink(p) + q,)
    int64_t *flow, *pi;             // (first_sink(p) + q,)
    int64_t* below;                 // (first_sink(p) + q, words) bits of the subtrees, or null
    Stop stop;
};

namespace {

void place(const Workspace& ws, const Problem& problem) {
    const int64_t p = problem.p, q = problem.q, stride = stride_of(q);
    for (int64_t i = 0; i < p; i++) {
        for (int64_t j = 0; j < q; j++) ws.cost[i * stride + j] = problem.cost[i * q + j] | j;
        for (int64_t j = q; j < stride; j++) ws.cost[i * stride + j] = PAD;
    }
    std::memcpy(ws.supply, problem.supply, size_t(p) * 8);
    std::memcpy(ws.demand, problem.demand, size_t(q) * 8);
    std::memcpy(ws.row_offset, problem.row_offset, size_t(p) * 8);
    std::memcpy(ws.column_offset, problem.column_offset, size_t(q) * 8);
}

// Bitsets as rows of words, whatever their layout in the workspace.
void copy_subtrees(const Workspace& ws, int64_t n, int64_t* below) {
    const int64_t words = n <= 64 ? 1 : groups_of(n) * LANES;
    for (int64_t x = 0; x < n; x++)
        for (int64_t w = 0; w < words; w++)
            below[x * words + w] = n <= 64 ? ws.below[x] : ws.below[(w / LANES * ws.m + x) * LANES + w % LANES];
}

}  // namespace

ENTRY asot_solve_problem(const Problem* problem) {
    const int64_t p = problem->p, q = problem->q, n = first_sink(p) + q;
    Workspace ws(p, q, p + q);
    if (ws.failed()) return OUT_OF_MEMORY;
    place(ws, *problem);
    const int64_t pivots = problem->large ? solve_any(ws, p, q, problem->index_bits, problem->stop)
                                          : solve_block(ws, p, q, problem->index_bits, problem->stop);
    if (pivots == NO_MEMORY) return OUT_OF_MEMORY;
    problem->pivots[0] = pivots;
    if (pivots < 0) return DONE;
    std::memcpy(problem->parent, ws.parent, size_t(n) * 4);
    std::memcpy(problem->flow, ws.flow, size_t(n) * 8);
    std::memcpy(problem->pi, ws.pi, size_t(n) * 8);
    if (problem->below != nullptr) copy_subtrees(ws, n, problem->below);
    return DONE;
}
