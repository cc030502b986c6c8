// Tiles of pairs of distributions under a ground metric; see src/asot/exact/points.py.
#include "points.hpp"

int32_t solve_points(const PackedPoints& h, const PointsCost& cost, const PointsSizes& sizes, const Tile& tile) {
    PointsSolver solver(h, cost, sizes);
    if (solver.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < tile.n && *tile.stop == 0; t++) {
        const int64_t steps = solver.solve(tile.rows[t], tile.columns[t], tile.stop, tile.values + t);
        if (steps == NO_MEMORY) return OUT_OF_MEMORY;
        if (steps < 0) return DONE;
        tile.steps[t] = int32_t(steps);
        if (steps == 0 && solver.is_forced()) continue;
        tile.values[t] = solver.p > 0 ? value_of_flows(solver.ws, solver.scratch, solver.p, solver.q) : 0.0;
    }
    return DONE;
}

struct SinksOut {
    int64_t* starts;   // (n + 1,) where the sinks of each pair begin
    int64_t* points;   // distinct points of the sinks
    double* heights;   // their potentials
};

ENTRY asot_points_tile(const PackedPoints* h, const PointsCost* cost, const PointsSizes* sizes, const Tile* tile) {
    return solve_points(*h, *cost, *sizes, *tile);
}

// The distinct points of the sinks of every pair, and their potentials, one pair after the other.
ENTRY asot_points_potentials(const PackedPoints* h, const PointsCost* cost, const PointsSizes* sizes, const Tile* tile,
                             const SinksOut* out) {
    PointsSolver solver(*h, *cost, *sizes);
    if (solver.failed()) return OUT_OF_MEMORY;
    const Workspace& ws = solver.ws;
    int64_t end = 0;
    for (int64_t t = 0; t < tile->n; t++) {
        out->starts[t + 1] = end;
        if (*tile->stop != 0) return DONE;
        const int64_t steps = solver.solve(tile->rows[t], tile->columns[t], tile->stop);
        if (steps == NO_MEMORY) return OUT_OF_MEMORY;
        if (steps < 0) return DONE;
        if (solver.p == 0) continue;
        const double unit = solver.bits.unit(solver.most);
        const int64_t first = first_sink(solver.p), *names = h->index + h->offsets[tile->columns[t]];
        for (int64_t j = 0; j < solver.q; j++) {
            out->points[end] = names[ws.sink[j]];
            out->heights[end++] = double(ws.pi[first + j]) * unit;
        }
        out->starts[t + 1] = end;
    }
    return DONE;
}
