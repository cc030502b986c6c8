// Entropic transport between original distributions, a kernel for each pair; see asot/baselines/eot.py.
#include "../common/records.hpp"
#include "merged.hpp"

struct EntropicRuns {
    int64_t most_rows, most_columns;  // points of a distribution, on either side
    double scale;                     // turns distances into C/ε
    int64_t at_target, max_iter, look_every;  // start at V = B; iterations at most, and between looks at the error
    double tol;                       // below 0: exactly max_iter iterations
    double* error;                    // (n,) marginal errors
};

// ⟨T, distance⟩ in the units of packed points, iterations and marginal error of every pair.
ENTRY asot_entropic_tile(const MergedCollection* points, const EntropicRuns* runs, const Tile* tile) {
    BlockScratch scratch(runs->most_rows, runs->most_columns, points->dim);
    PairScratch ws(runs->most_rows, runs->most_columns);
    if (scratch.failed() || ws.failed()) return OUT_OF_MEMORY;
    const double* start = runs->at_target ? points->masses : points->counts;
    for (int64_t t = 0; t < tile->n; t++) {
        const int64_t a = tile->rows[t], b = tile->columns[t], first = points->offsets[a], second = points->offsets[b];
        OwnKernel kernel(ws, size_of_member(*points, a), size_of_member(*points, b), runs->scale);
        fill_pair(scratch, *points, a, b, ws.distance, tile->stop);
        std::fill_n(ws.a, kernel.rows, 0.0);
        std::fill_n(ws.b, kernel.stride, 0.0);
        std::fill_n(ws.v, kernel.stride, 0.0);
        std::copy_n(points->masses + first, kernel.n, ws.a);
        std::copy_n(points->masses + second, kernel.m, ws.b);
        std::copy_n(start + second, kernel.m, ws.v);
        int64_t done = kernel.begin();
        while (*tile->stop == 0) {
            const int64_t left = runs->max_iter - done, more = runs->tol < 0.0 ? left : std::min(left, runs->look_every);
            kernel.advance(more, tile->stop);
            done += more;
            kernel.measure(tile->values[t], runs->error[t]);
            if (done == runs->max_iter || runs->error[t] <= runs->tol) break;
        }
        if (*tile->stop != 0) return DONE;
        tile->steps[t] = int32_t(done);
    }
    return DONE;
}

// Distances of the points of all pairs of a tile, row by row, pair by pair, times `unit`.
ENTRY asot_stacked_costs(const MergedCollection* points, const EntropicRuns* runs, const Tile* tile, double unit,
                         double* cost) {
    BlockScratch scratch(runs->most_rows, runs->most_columns, points->dim);
    Memory memory(Memory::bytes_of<double>(padded(runs->most_rows, ROWS_TOGETHER) * padded(runs->most_columns, LANES)));
    if (scratch.failed() || memory.failed()) return OUT_OF_MEMORY;
    double* block =
        memory.take<double>(padded(runs->most_rows, ROWS_TOGETHER) * padded(runs->most_columns, LANES));
    for (int64_t t = 0; t < tile->n; t++) {
        fill_pair(scratch, *points, tile->rows[t], tile->columns[t], block);
        const int64_t n = size_of_member(*points, tile->rows[t]), m = size_of_member(*points, tile->columns[t]);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < m; j++) *cost++ = unit * block[i * padded(m, LANES) + j];
    }
    return DONE;
}

// The padded block of one pair (rows, stride), for tests.
ENTRY asot_pair_block(const MergedCollection* points, int64_t a, int64_t b, double* block) {
    BlockScratch scratch(size_of_member(*points, a), size_of_member(*points, b), points->dim);
    if (scratch.failed()) return OUT_OF_MEMORY;
    fill_pair(scratch, *points, a, b, block);
    return DONE;
}
