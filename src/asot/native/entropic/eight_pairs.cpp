// Sinkhorn's updates of eight pairs in step, a pair in each lane; see asot/entropic/eight_pairs.py.
#include "../common/lanes.hpp"
#include "../common/records.hpp"

constexpr int64_t ROWS = 6;  // of a product, summed together: twelve AVX2 registers leave room for the other factor
constexpr int64_t UPDATES_PER_LOOK = 100;

struct EightPairs {
    int64_t k, l, blocks, count;  // anchors on both sides, blocks of eight pairs, updates
    const double *K, *KT;         // (k, l), (l, k) in groups of six rows, which lie side by side column by column
    const double *a, *b;          // (blocks, k or l padded to a multiple of 6, 8)
    double* v;                    // like b
    Stop stop;
};

// y ← masses / (K x) of one block, from from_size entries into into_size.
static void half(const double* K, const double* masses, const double* x, double* y, int64_t from_size, int64_t into_size) {
    for (int64_t g = 0; g < into_size; g += ROWS, masses += ROWS * LANES, y += ROWS * LANES) {
        Doubles s0 = spread(0.0), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
        for (int64_t j = 0; j < from_size; j++, K += ROWS) {
            const Doubles lanes = load(x + j * LANES);
            s0 = fused(spread(K[0]), lanes, s0);
            s1 = fused(spread(K[1]), lanes, s1);
            s2 = fused(spread(K[2]), lanes, s2);
            s3 = fused(spread(K[3]), lanes, s3);
            s4 = fused(spread(K[4]), lanes, s4);
            s5 = fused(spread(K[5]), lanes, s5);
        }
        store(y, load(masses) / s0);
        store(y + 8, load(masses + 8) / s1);
        store(y + 16, load(masses + 16) / s2);
        store(y + 24, load(masses + 24) / s3);
        store(y + 32, load(masses + 32) / s4);
        store(y + 40, load(masses + 40) / s5);
    }
}

ENTRY asot_eight_pairs(const EightPairs* all) {
    const int64_t rows = (all->k + ROWS - 1) / ROWS * ROWS * LANES, columns = (all->l + ROWS - 1) / ROWS * ROWS * LANES;
    Memory memory(Memory::bytes_of<double>(rows));
    if (memory.failed()) return OUT_OF_MEMORY;
    double* u = memory.take<double>(rows);
    for (int64_t block = 0; block < all->blocks; block++) {
        const double *a = all->a + block * rows, *b = all->b + block * columns;
        double* v = all->v + block * columns;
        for (int64_t iteration = 0; iteration < all->count; iteration++) {
            if (iteration % UPDATES_PER_LOOK == 0 && *all->stop != 0) return DONE;
            half(all->K, a, v, u, all->l, all->k);
            half(all->KT, b, u, v, all->k, all->l);
        }
    }
    return DONE;
}
