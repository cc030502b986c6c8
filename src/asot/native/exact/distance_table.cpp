// The distances between all of some long points; see src/asot/exact/distance_table.py.
#include "../common/transform.hpp"
#include "long_points.hpp"

constexpr int64_t AT_A_TIME = 16 * PANEL;  // points in panels, which then stay in a cache

struct LongPoints {
    int64_t n, d;
    const double* points;  // (n, d)
    int64_t transform;     // what is taken of distances, of `Transform`; not ARC
    double* table;         // (n, n) out
};

// Take what is wanted of the distances below the diagonal, and copy it to above it, a block at a time.
static void mirror(double* table, int64_t n, int64_t transform) {
    for (int64_t i = 0; i < n; i += BAND)
        for (int64_t j = 0; j <= i; j += BAND)
            for (int64_t r = i; r < n && r < i + BAND; r++) {
                const int64_t end = r < j + BAND ? r : j + BAND;
                if (transform != PLAIN)
                    for (int64_t c = j; c < end; c++) table[r * n + c] = of_distance(transform, table[r * n + c]);
                for (int64_t c = j; c < end; c++) table[c * n + r] = table[r * n + c];
            }
}

ENTRY asot_distance_table(const LongPoints* given) {
    const int64_t n = given->n, d = given->d;
    Memory memory(Memory::bytes_of<double>(AT_A_TIME * d) + Memory::bytes_of<double>(n + PANEL + AT_A_TIME));
    if (memory.failed()) return OUT_OF_MEMORY;
    double *panels = memory.take<double>(AT_A_TIME * d), *squares = memory.take<double>(n + PANEL + AT_A_TIME);
    for (int64_t j = 0; j < n; j += AT_A_TIME) {
        const int64_t left = n - j, columns = left < AT_A_TIME ? left : AT_A_TIME;
        const LongRows rows = {given->points + j * d, nullptr, d};
        lay_panels(rows, columns, panels);
        fill_long(rows, left, panels, columns, squares, given->table + j * n + j, n, columns, true, NEVER);
    }
    mirror(given->table, n, given->transform);
    return DONE;
}
