// What the exact kernels share: limits, and how arcs are priced.
//
// Costs and potentials are int64; a reduced cost is cost + potential of the column - potential of the row. The sum of
// the three high words is off by less than 2. If it is CERTAIN or less, the arc improves, whatever the low words are;
// and where a reduced cost is 0 or less, so is the sum.

constexpr int MOST_ROWS = NODES / 2;  // the rows are the smaller side of a problem
constexpr int MOST_PIVOTS = 64 * NODES * NODES;
constexpr int ROWS_PER_BLOCK = 12;  // rows priced before the best of them enters
constexpr int CERTAIN = -2;
constexpr i64 NEVER = 1ll << 62;  // potential of what is no column
constexpr i64 TOP = 0x7fffffffffffffffll;

struct Arc {
    int row, column;
    i64 reduced_cost;
};

DEVICE int high_word(i64 value) { return (int)(value >> 32); }

// The least of x + y and a bound: one instruction on Hopper.
DEVICE int add_min(int x, int y, int bound) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    return __viaddmin_s32(x, y, bound);
#else
    return min(x + y, bound);
#endif
}
