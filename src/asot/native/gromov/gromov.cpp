// Tiles of pairs of metric measure spaces; see src/asot/spaces/solver.py.
#include "pair.hpp"

namespace {

void write_plan(const Pair& pair, double* plan) {
    if (plan == nullptr) return;
    for (int64_t i = 0; i < pair.n(); i++)
        for (int64_t j = 0; j < pair.m(); j++) plan[i * pair.m() + j] = pair.plan()[i * pair.width() + j];
}

// The best energy of descents from the wished starts, and how far the first two disagree.
double search(Pair& pair, const GromovSpaces& spaces, double bound, double first, double& gap, int64_t& steps,
              double* plan) {
    double best = INFINITY, energies[2];
    int tried = 0;
    for (int start = 0; start < 2; start++) {
        if (((spaces.starts >> start) & 1) == 0) continue;
        energies[tried] = pair.descend(start == 1, steps);
        if (energies[tried] < best) best = energies[tried], write_plan(pair, plan);
        tried++;
    }
    if (tried == 2) gap = std::fabs(energies[0] - energies[1]);
    if (tried == 2 && pair.is_tied(bound, best) && pair.match_isometric() < best) {
        const double matched = pair.descend(false, steps);
        if (matched < best) best = matched, write_plan(pair, plan);
    }
    return tried == 0 ? first : best;
}

}  // namespace

ENTRY asot_gromov_tile(const GromovSpaces* spaces, const GromovAnswers* answers, const Tile* tile) {
    Pair pair(*spaces, tile->stop);
    if (pair.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < tile->n && *tile->stop == 0; t++) {
        int64_t steps = 0;
        answers->lower[t] = answers->first[t] = answers->gap[t] = tile->values[t] = 0.0;
        pair.open(tile->rows[t], tile->columns[t]);
        if (pair.is_same()) {
            pair.take_identity();
            write_plan(pair, answers->plan);
        } else {
            const double bound = pair.third_bound(answers->first[t]);
            answers->lower[t] = bound;
            tile->values[t] = search(pair, *spaces, bound, answers->first[t], answers->gap[t], steps, answers->plan);
        }
        if (pair.failed()) return OUT_OF_MEMORY;
        tile->steps[t] = int32_t(steps);
    }
    return DONE;
}
