// Mass that two distributions have at the same places; see src/asot/data/distinct.py.
#include "../common/entry.hpp"

struct LabelMasses {
    int64_t n_labels;
    const int64_t *offsets, *labels, *masses;  // (n + 1,), (offsets[n],), (offsets[n],)
};

struct LabelTile {
    int64_t n;
    const int64_t *rows, *columns;  // (n,)
    int64_t* common;                // (n,)
    Stop stop;
};

ENTRY asot_common_mass(const LabelMasses* m, const LabelTile* tile) {
    Memory memory(Memory::bytes_of<int64_t>(m->n_labels));
    if (memory.failed()) return OUT_OF_MEMORY;
    int64_t* of_row = memory.take<int64_t>(m->n_labels);  // masses of the last row, by label
    for (int64_t label = 0; label < m->n_labels; label++) of_row[label] = 0;
    int64_t row = -1;
    for (int64_t t = 0; t < tile->n && *tile->stop == 0; t++) {
        if (tile->rows[t] != row) {
            if (row >= 0)
                for (int64_t e = m->offsets[row]; e < m->offsets[row + 1]; e++) of_row[m->labels[e]] = 0;
            row = tile->rows[t];
            for (int64_t e = m->offsets[row]; e < m->offsets[row + 1]; e++) of_row[m->labels[e]] = m->masses[e];
        }
        int64_t total = 0;
        for (int64_t e = m->offsets[tile->columns[t]]; e < m->offsets[tile->columns[t] + 1]; e++) {
            const int64_t there = of_row[m->labels[e]];
            total += m->masses[e] < there ? m->masses[e] : there;
        }
        tile->common[t] = total;
    }
    return DONE;
}
