// Sinkhorn's updates of eight pairs in step, sixteen in float32, a pair in each lane; see asot/entropic/eight_pairs.py.
#include "../common/lanes.hpp"
#include "../common/records.hpp"

constexpr int64_t ROWS = 6;  // of a product, summed together: twelve AVX2 registers leave room for the other factor
constexpr int64_t UPDATES_PER_LOOK = 100;

struct EightPairs {
    int64_t k, l, blocks, count;  // anchors on both sides, blocks of pairs, updates
    const double *K, *KT;         // (k, l), (l, k) in groups of six rows, which lie side by side column by column
    const double *a, *b;          // (blocks, k or l padded to a multiple of 6, 8)
    double* v;                    // like b
    Stop stop;
};

// The same in float32.
struct SixteenPairs {
    int64_t k, l, blocks, count;
    const float *K, *KT;
    const float *a, *b;
    float* v;
    Stop stop;
};

// y ← masses / (K x) of B blocks, from from_size entries into into_size;
// from_block and into_block numbers lie between one block and the next.
template <int B, class T>
INLINE void half(const T* K, const T* masses, const T* x, T* y, int64_t from_size, int64_t into_size, int64_t from_block,
                 int64_t into_block) {
    constexpr int64_t WIDE = 64 / int64_t(sizeof(T));  // pairs in a block
    for (int64_t g = 0; g < into_size; g += ROWS, masses += ROWS * WIDE, y += ROWS * WIDE) {
        Vector<T> sums[B][ROWS];
        for (int b = 0; b < B; b++)
            for (int r = 0; r < ROWS; r++) sums[b][r] = spread(T(0));
        for (int64_t j = 0; j < from_size; j++, K += ROWS) {
            Vector<T> lanes[B];
            for (int b = 0; b < B; b++) lanes[b] = load(x + b * from_block + j * WIDE);
#pragma GCC unroll 6
            for (int r = 0; r < ROWS; r++) {
                const Vector<T> entry = spread(K[r]);
                for (int b = 0; b < B; b++) sums[b][r] = fused(entry, lanes[b], sums[b][r]);
            }
        }
        for (int b = 0; b < B; b++)
            for (int r = 0; r < ROWS; r++) {
                const int64_t place = b * into_block + r * WIDE;
                store(y + place, load(masses + place) / sums[b][r]);
            }
    }
}

// All updates of B blocks from `block` on; false if they were interrupted.
template <int B, class Pairs, class T>
static bool advance(const Pairs& all, int64_t block, int64_t rows, int64_t columns, T* u) {
    const T *a = all.a + block * rows, *b = all.b + block * columns;
    T* v = all.v + block * columns;
    for (int64_t iteration = 0; iteration < all.count; iteration++) {
        if (iteration % UPDATES_PER_LOOK == 0 && *all.stop != 0) return false;
        half<B>(all.K, a, v, u, all.l, all.k, columns, rows);
        half<B>(all.KT, b, u, v, all.k, all.l, rows, columns);
    }
    return true;
}

// Two blocks at a time, where registers are wide enough for all of their sums: entries of K are then read half as often.
template <class T, class Pairs>
static int32_t advance_all(const Pairs& all) {
    const int64_t wide = 64 / int64_t(sizeof(T));
    const int64_t rows = (all.k + ROWS - 1) / ROWS * ROWS * wide, columns = (all.l + ROWS - 1) / ROWS * ROWS * wide;
    Memory memory(Memory::bytes_of<T>(2 * rows));
    if (memory.failed()) return OUT_OF_MEMORY;
    T* u = memory.take<T>(2 * rows);
    int64_t block = 0;
    if constexpr (REGISTERS == 1)
        for (; block + 2 <= all.blocks; block += 2)
            if (!advance<2>(all, block, rows, columns, u)) return DONE;
    for (; block < all.blocks; block++)
        if (!advance<1>(all, block, rows, columns, u)) return DONE;
    return DONE;
}

ENTRY asot_eight_pairs(const EightPairs* all) { return advance_all<double>(*all); }
ENTRY asot_sixteen_pairs(const SixteenPairs* all) { return advance_all<float>(*all); }
