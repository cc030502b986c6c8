// Tiles of pairs of metric measure spaces; see src/asot/spaces/solver.py.
#include "pair.hpp"

ENTRY asot_gromov_tile(const GromovSpaces* spaces, const GromovAnswers* answers, const Tile* tile) {
    Pair pair(*spaces);
    if (pair.failed()) return OUT_OF_MEMORY;
    for (int64_t t = 0; t < tile->n && *tile->stop == 0; t++) {
        pair.open(tile->rows[t], tile->columns[t]);
        double first;
        answers->lower[t] = pair.third_bound(first, tile->stop);
        answers->first[t] = first;
        answers->gap[t] = 0.0;
        int64_t steps = 0;
        double best = first, energies[2];
        int64_t tried = 0;
        for (int start = 0; start < 2; start++) {
            if (((spaces->starts >> start) & 1) == 0) continue;
            energies[tried] = pair.descend(start == 1, steps, tile->stop);
            if (tried == 0 || energies[tried] < best) {
                best = energies[tried];
                if (answers->plan != nullptr)
                    for (int64_t i = 0; i < pair.n(); i++)
                        for (int64_t j = 0; j < pair.m(); j++)
                            answers->plan[i * pair.m() + j] = pair.plan()[i * pair.width() + j];
            }
            tried++;
        }
        if (tried == 2) answers->gap[t] = std::fabs(energies[0] - energies[1]);
        if (tried > 0 && first < best) best = first;
        tile->values[t] = best;
        tile->steps[t] = int32_t(steps);
    }
    return DONE;
}
