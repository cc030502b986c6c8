// Every distribution in the coordinates that it uses; see src/asot/exact/points.py.
#include "packing.hpp"

struct IndexedPoints {
    int64_t n, d;             // distributions, coordinates
    const double* points;     // (V, d)
    const int64_t* offsets;   // (n + 1,)
    const int64_t* index;     // (offsets[n],) into the points
    int64_t* used_offsets;    // (n + 1,)
    int32_t* used;            // (used_offsets[n],) coordinates, ascending in each distribution
};

// Calls visit(i, c) for every coordinate c in which some point of distribution i is not 0.
template <class Visit>
static int32_t each_used(const IndexedPoints& s, Visit visit) {
    Memory memory(Memory::bytes_of<int64_t>(s.d));
    if (memory.failed()) return OUT_OF_MEMORY;
    int64_t* seen = memory.take<int64_t>(s.d);  // the last distribution that uses a coordinate
    for (int64_t c = 0; c < s.d; c++) seen[c] = -1;
    for (int64_t i = 0; i < s.n; i++) {
        for (int64_t t = s.offsets[i]; t < s.offsets[i + 1]; t++) {
            const double* point = s.points + s.index[t] * s.d;
            for (int64_t c = 0; c < s.d; c++) seen[c] = point[c] != 0.0 ? i : seen[c];
        }
        for (int64_t c = 0; c < s.d; c++)
            if (seen[c] == i) visit(i, c);
    }
    return DONE;
}

// Fills used_offsets.
ENTRY asot_count_used(const IndexedPoints* s) {
    for (int64_t i = 0; i <= s->n; i++) s->used_offsets[i] = 0;
    const int32_t code = each_used(*s, [&](int64_t i, int64_t) { s->used_offsets[i + 1]++; });
    for (int64_t i = 0; i < s->n; i++) s->used_offsets[i + 1] += s->used_offsets[i];
    return code;
}

// Fills used.
ENTRY asot_list_used(const IndexedPoints* s) {
    int64_t place = 0;
    return each_used(*s, [&](int64_t, int64_t c) { s->used[place++] = int32_t(c); });
}

// The points of every distribution in its used coordinates only, one small matrix after the other.
ENTRY asot_pack_points(const IndexedPoints* s, double* packed) {
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t t = s->offsets[i]; t < s->offsets[i + 1]; t++) {
            const double* point = s->points + s->index[t] * s->d;
            for (int64_t c = s->used_offsets[i]; c < s->used_offsets[i + 1]; c++) *packed++ = point[s->used[c]];
        }
    return DONE;
}
