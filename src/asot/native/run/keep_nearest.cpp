// The nearest of every row, kept while distances come in; see src/asot/results/sinks.py.
#include "../common/entry.hpp"

struct NewNeighbors {
    int64_t n, extras;               // pairs, and how many numbers are known beside each distance
    const int64_t *rows, *others;    // (n,)
    const double *values, *beside;   // (n,), (n, extras)
};

struct KeptNeighbors {
    int64_t k, extras;
    double* distances;  // (N, k) ascending
    int64_t* indices;   // (N, k)
    double* more;       // (N, k, extras)
};

// Insert each (value, other) into its row's list sorted by (distance, index); the largest falls off the end. Whatever
// else is known about the pairs goes the same way.
ENTRY asot_keep_nearest(const NewNeighbors* found, const KeptNeighbors* kept) {
    const int64_t k = kept->k, extras = found->extras;
    for (int64_t t = 0; t < found->n; t++) {
        double* distances = kept->distances + found->rows[t] * k;
        int64_t* indices = kept->indices + found->rows[t] * k;
        double* more = kept->more + found->rows[t] * k * kept->extras;
        const double value = found->values[t];
        const int64_t other = found->others[t];
        int64_t place = k - 1;
        if (value > distances[place] || (value == distances[place] && other > indices[place])) continue;
        for (; place > 0; place--) {
            const double before = distances[place - 1];
            if (!(before > value || (before == value && indices[place - 1] > other))) break;
            distances[place] = before;
            indices[place] = indices[place - 1];
            for (int64_t e = 0; e < extras; e++)
                more[place * kept->extras + e] = more[(place - 1) * kept->extras + e];
        }
        distances[place] = value;
        indices[place] = other;
        for (int64_t e = 0; e < extras; e++) more[place * kept->extras + e] = found->beside[t * extras + e];
    }
    return DONE;
}
