// Equal rows of a matrix by their hashes, and distributions written over distinct points; see asot/data/distinct.py.
#include <algorithm>
#include <cstring>

#include "../common/records.hpp"
#include "../common/sorting.hpp"

struct PointRows {
    int64_t n, d;
    const double* wide;   // (n, d), or null and
    const float* narrow;  // (n, d)
};

struct RowNumbers {
    int64_t* hashes;        // (n,) bits of uint64
    int64_t bits;           // the table has 2^bits places
    int32_t* short_table;   // (2^bits,) all -1 at first, for n < 2^31; or
    int64_t* table;         // (2^bits,)
    int64_t *first, *index;  // (n,) first row of each number; number of each row
    int64_t *out;           // (1,) how many there are, or whether all were equal
};

struct LoosePoints {
    const int64_t *offsets, *index;  // (N + 1,), (n,) number of each point, -1 without mass
    const double* masses;            // (n,)
};

struct MergedOut {
    int64_t* offsets;     // (N + 1,) where distributions begin once gaps are closed; before that, counts
    int64_t* index;       // (n,) in the places of LoosePoints, or (nnz,) without gaps
    double* masses;       // (n,), or (nnz,)
};

// ------------------------------------------------------------------------------------------------------------ hashes

// A 64-bit hash of the bit patterns of a row; -0.0 counts as 0.0. A sum of products, which do not wait for each other.
// Small integers differ in their upper bits only, so these are also put into the lower half.
template <class Word>
static void hash_rows(const void* numbers, int64_t d, const uint64_t* factors, int64_t low, int64_t high,
                      int64_t* hashes) {
    constexpr Word SIGN = Word(1) << (8 * sizeof(Word) - 1);
    const char* row = static_cast<const char*>(numbers) + low * d * int64_t(sizeof(Word));
    for (int64_t i = low; i < high; i++, row += d * int64_t(sizeof(Word))) {
        uint64_t h = 0;
        for (int64_t j = 0; j < d; j++) {
            Word word;
            std::memcpy(&word, row + j * int64_t(sizeof(Word)), sizeof(Word));
            const uint64_t pattern = word == SIGN ? 0 : word;
            h += (pattern ^ (pattern >> 32)) * factors[j];
        }
        hashes[i] = int64_t(h ^ (h >> 32));
    }
}

ENTRY asot_row_hashes(const PointRows* rows, const int64_t* factors, const RowNumbers* out, int64_t low, int64_t high) {
    const uint64_t* odd = reinterpret_cast<const uint64_t*>(factors);  // (d,)
    if (rows->wide != nullptr)
        hash_rows<uint64_t>(rows->wide, rows->d, odd, low, high, out->hashes);
    else
        hash_rows<uint32_t>(rows->narrow, rows->d, odd, low, high, out->hashes);
    return DONE;
}

// ----------------------------------------------------------------------------------------------------------- numbers

template <class T>
static bool equal_rows(const T* x, const T* y, int64_t d) {
    int64_t differ = 0;
    for (int64_t j = 0; j < d; j++) differ += x[j] != y[j];
    return differ == 0;
}

// Number what `same(i, r)` finds equal among rows of one hash, in order of first appearance; how many there are.
template <class Number, class Same>
static int64_t number(int64_t n, const RowNumbers& out, Number* table, Same same) {
    const int64_t last = (int64_t(1) << out.bits) - 1;
    int64_t n_distinct = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t hash = out.hashes[i];
        int64_t slot = int64_t(uint64_t(hash) >> (64 - out.bits));
        while (table[slot] >= 0 && !(out.hashes[out.first[table[slot]]] == hash && same(i, out.first[table[slot]])))
            slot = (slot + 1) & last;
        if (table[slot] < 0) {
            table[slot] = Number(n_distinct);
            out.first[n_distinct++] = i;
        }
        out.index[i] = table[slot];
    }
    return n_distinct;
}

template <class Same>
static void number_with(int64_t n, const RowNumbers& out, Same same) {
    *out.out = out.short_table != nullptr ? number(n, out, out.short_table, same) : number(n, out, out.table, same);
}

ENTRY asot_number_hashes(const PointRows* rows, const RowNumbers* out) {
    number_with(rows->n, *out, [](int64_t, int64_t) { return true; });
    return DONE;
}

// The same for the rows themselves, which are compared wherever hashes agree.
ENTRY asot_number_rows(const PointRows* rows, const RowNumbers* out) {
    const int64_t d = rows->d;
    const double* wide = rows->wide;
    const float* narrow = rows->narrow;
    if (wide != nullptr)
        number_with(rows->n, *out, [=](int64_t i, int64_t r) { return equal_rows(wide + i * d, wide + r * d, d); });
    else
        number_with(rows->n, *out, [=](int64_t i, int64_t r) { return equal_rows(narrow + i * d, narrow + r * d, d); });
    return DONE;
}

template <class T>
static int64_t all_equal(const T* x, int64_t d, const RowNumbers& known, int64_t low, int64_t high) {
    for (int64_t i = low; i < high; i++) {
        const int64_t r = known.first[known.index[i]];
        if (r != i && !equal_rows(x + i * d, x + r * d, d)) return 0;
    }
    return 1;
}

// Whether the rows low..high-1 equal the first of their numbers, into equal (1,).
ENTRY asot_rows_agree(const PointRows* rows, const RowNumbers* known, int64_t low, int64_t high, int64_t* equal) {
    *equal = rows->wide != nullptr ? all_equal(rows->wide, rows->d, *known, low, high)
                                   : all_equal(rows->narrow, rows->d, *known, low, high);
    return DONE;
}

// ------------------------------------------------------------------------------------------------------------- merging

// Merge the points of distributions low..high-1: ascending, repeats added in their order, and out.offsets[i + 1] are
// left. Points without mass drop out.
ENTRY asot_merge_points(const LoosePoints* points, const MergedOut* out, int64_t low, int64_t high) {
    constexpr int PLACE = 31;
    int64_t most = 1;
    for (int64_t i = low; i < high; i++) most = std::max(most, points->offsets[i + 1] - points->offsets[i]);
    Memory memory(Memory::bytes_of<int64_t>(most));
    if (memory.failed()) return OUT_OF_MEMORY;
    int64_t* keys = memory.take<int64_t>(most);
    for (int64_t i = low; i < high; i++) {
        const int64_t begin = points->offsets[i], end = points->offsets[i + 1];
        int64_t n = 0;
        for (int64_t t = begin; t < end; t++) {
            keys[n] = int64_t(uint64_t(points->index[t]) << PLACE) | (t - begin);
            n += points->index[t] >= 0;
        }
        sort_keys(keys, n);
        int64_t used = begin;
        for (int64_t m = 0; m < n; m++) {
            const int64_t point = keys[m] >> PLACE;
            const double mass = points->masses[begin + (keys[m] & ((int64_t(1) << PLACE) - 1))];
            if (m > 0 && keys[m - 1] >> PLACE == point) {
                out->masses[used - 1] += mass;
            } else {
                out->index[used] = point;
                out->masses[used++] = mass;
            }
        }
        out->offsets[i + 1] = used - begin;
    }
    return DONE;
}

ENTRY asot_close_gaps(const LoosePoints* merged, const MergedOut* out, int64_t low, int64_t high) {
    for (int64_t i = low; i < high; i++) {
        const int64_t begin = merged->offsets[i], to = out->offsets[i], count = out->offsets[i + 1] - to;
        std::copy_n(merged->index + begin, count, out->index + to);
        std::copy_n(merged->masses + begin, count, out->masses + to);
    }
    return DONE;
}

struct SparseMeans {
    int64_t width;
    const int64_t *offsets, *index;  // (N + 1,), (nnz,) of sparse histograms
    const double *masses, *points;   // (nnz,), (V, width)
    double* found;                   // (N, width)
};

// Means of the distributions low..high-1.
ENTRY asot_sparse_means(const SparseMeans* of, int64_t low, int64_t high) {
    for (int64_t i = low; i < high; i++) {
        double* mean = of->found + i * of->width;
        for (int64_t c = 0; c < of->width; c++) mean[c] = 0.0;
        for (int64_t t = of->offsets[i]; t < of->offsets[i + 1]; t++) {
            const double* point = of->points + of->index[t] * of->width;
            for (int64_t c = 0; c < of->width; c++) mean[c] += of->masses[t] * point[c];
        }
    }
    return DONE;
}
