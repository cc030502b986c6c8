// What all kernels share: short names of integers, the codes of a status, bits, sums over a warp, and which two
// histograms a pair is. This text stands before every kernel, so nothing includes it.

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define DEVICE __device__ __forceinline__

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) char name[]
#endif

const u32 ALL_LANES = 0xffffffffu;

// asot.Status, and one code that never leaves the device: another kernel has to solve the pair.
enum { OPTIMAL = 0, CONVERGED = 1, FIXED_ITERATIONS = 2, MAX_ITER = 3, OPEN = 100 };

// The lowest bit that is set, or -1.
DEVICE int first_set(u32 word) { return __ffs((int)word) - 1; }
DEVICE int first_set(u64 word) { return __ffsll((i64)word) - 1; }

DEVICE int count_set(u32 word) { return __popc(word); }
DEVICE int count_set(u64 word) { return __popcll(word); }

DEVICE double larger(double x, double y) { return x > y ? x : y; }

// Over the 32 lanes of a warp; every lane gets the same bits.
DEVICE double warp_sum(double value) {
    for (int far = 16; far > 0; far /= 2) value += __shfl_xor_sync(ALL_LANES, value, far);
    return value;
}
DEVICE double warp_max(double value) {
    for (int far = 16; far > 0; far /= 2) value = larger(value, __shfl_xor_sync(ALL_LANES, value, far));
    return value;
}

// Eight values per lane at once, in registers. Folding them over the warp takes 9 shuffles, not 40: it leaves the whole
// of value c to the lanes 4c … 4c + 3. `spread` then gives all eight to every lane.
#define EACH(c) _Pragma("unroll") for (int c = 0; c < 8; c++)
#define EACH_AFTER(b, c) _Pragma("unroll") for (int c = (b) + 1; c < 8; c++)

template <bool of_maxima>
DEVICE double fold(double (&value)[8], int lane) {
    _Pragma("unroll") for (int half = 4; half > 0; half /= 2) {
        const bool upper = lane & (4 * half);
        _Pragma("unroll") for (int c = 0; c < half; c++) {
            const double kept = upper ? value[c + half] : value[c];
            const double other = __shfl_xor_sync(ALL_LANES, upper ? value[c] : value[c + half], 4 * half);
            value[c] = of_maxima ? larger(kept, other) : kept + other;
        }
    }
    _Pragma("unroll") for (int far = 2; far > 0; far /= 2) {
        const double other = __shfl_xor_sync(ALL_LANES, value[0], far);
        value[0] = of_maxima ? larger(value[0], other) : value[0] + other;
    }
    return value[0];
}
DEVICE double fold_sum(double (&value)[8], int lane) { return fold<false>(value, lane); }
DEVICE double fold_max(double (&value)[8], int lane) { return fold<true>(value, lane); }

DEVICE void spread(double own, double (&value)[8]) {
    EACH(c) value[c] = __shfl_sync(ALL_LANES, own, 4 * c);
}

// A pair set (asot.pairs), described. Listed pairs are those of the tile at hand.
enum { ALL_PAIRS = 0, CROSS_PAIRS = 1, LISTED_PAIRS = 2 };

struct Pairs {
    int kind;
    i64 n_rows;
    i64 n_columns;
    const i64* listed;  // (tile, 2)
};

// Row and column of the pair at position start + t of the set's order; t counts within the tile.
DEVICE void pair_at(const Pairs& pairs, i64 start, i64 t, int* row, int* column) {
    if (pairs.kind == LISTED_PAIRS) {
        *row = (int)pairs.listed[2 * t];
        *column = (int)pairs.listed[2 * t + 1];
    } else if (pairs.kind == CROSS_PAIRS) {
        const i64 r = (start + t) / pairs.n_columns;
        *row = (int)r;
        *column = (int)(start + t - r * pairs.n_columns);
    } else {
        // Counted from the last pair, rows have 1, 2, 3, … pairs. A position below 2^62 has a root below 2^32, which
        // float64 knows to a small part of 1: one whole step mends it.
        const i64 n = pairs.n_rows, after = n * (n - 1) / 2 - 1 - (start + t);
        i64 r = (i64)(sqrt(2.0 * (double)after + 0.25) - 0.5);
        if (r * (r + 1) / 2 > after) r--;
        if ((r + 1) * (r + 2) / 2 <= after) r++;
        *row = (int)(n - 2 - r);
        *column = (int)(n - 1 - (after - r * (r + 1) / 2));
    }
}
