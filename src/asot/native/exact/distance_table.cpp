// The distances between all of some long points; see src/asot/exact/distance_table.py.
#include "../common/transform.hpp"
#include "long_points.hpp"

constexpr int64_t AT_A_TIME = 16 * PANEL;  // points in panels, which then stay in a cache

struct LongPoints {
    int64_t n, d;
    const double* points;  // (n, d)
    int64_t transform;     // what is taken of distances, of `Transform`; not ARC
    int64_t begin, end;    // points whose part is made: of columns that are filled, or of rows that are mirrored
    double* table;         // (n, n) out
};

// Distances on and below the diagonal, for columns from `begin` on.
ENTRY asot_long_distances(const LongPoints* given) {
    const int64_t n = given->n, d = given->d;
    Memory memory(Memory::bytes_of<double>(AT_A_TIME * d) + Memory::bytes_of<double>(n + PANEL + AT_A_TIME));
    if (memory.failed()) return OUT_OF_MEMORY;
    double *panels = memory.take<double>(AT_A_TIME * d), *squares = memory.take<double>(n + PANEL + AT_A_TIME);
    for (int64_t j = given->begin; j < given->end; j += AT_A_TIME) {
        const int64_t left = given->end - j, columns = left < AT_A_TIME ? left : AT_A_TIME;
        const LongRows rows = {given->points + j * d, nullptr, d};
        lay_panels(rows, columns, panels);
        fill_long(rows, n - j, panels, columns, squares, given->table + j * n + j, n, columns, true, NEVER);
    }
    return DONE;
}

// When all are filled: take what is wanted of the distances below the diagonal, for rows from `begin` on, and copy it to
// above the diagonal, a block at a time.
ENTRY asot_mirror_distances(const LongPoints* given) {
    const int64_t n = given->n, transform = given->transform;
    double* table = given->table;
    for (int64_t i = given->begin; i < given->end; i += BAND)
        for (int64_t j = 0; j <= i; j += BAND)
            for (int64_t r = i; r < given->end && r < i + BAND; r++) {
                const int64_t end = r < j + BAND ? r : j + BAND;
                if (transform != PLAIN)
                    for (int64_t c = j; c < end; c++) table[r * n + c] = of_distance(transform, table[r * n + c]);
                for (int64_t c = j; c < end; c++) table[c * n + r] = table[r * n + c];
            }
    return DONE;
}
