// Powers of distances on a line, and roots of their sums; see src/asot/exact/one_dimension.py.
//
// Orders that are halves of whole numbers are products and square roots, which take a moment; they are summed as they
// are, and only a sum that has left the range of doubles is taken again by the careful way: relative to the largest
// distance of its pair, like those of all other orders. Nothing is ever measured by other pairs.
#pragma once
#include "../common/lanes.hpp"

enum Kind { FIRST, SECOND, HALVES, ANY };  // p = 1; p = 2; 2p ≤ 128 a whole number; any other p > 1

struct Order {
    double p;
    Kind kind;
    int64_t whole;  // of HALVES: p = whole, or whole + 1/2
    bool has_half;

    explicit Order(double order) : p(order), kind(ANY), whole(0), has_half(false) {
        if (p == 1.0) kind = FIRST;
        if (p == 2.0) kind = SECOND;
        if (kind != ANY || p > 64.0 || std::floor(2.0 * p) != 2.0 * p) return;
        kind = HALVES;
        whole = int64_t(p);
        has_half = double(whole) != p;
    }
};

// Each number to the nearest double.
INLINE Doubles as_doubles(Lanes a) {
    Doubles b;
    for (int r = 0; r < REGISTERS; r++) {
#if defined(__AVX512DQ__)
        b.part[r] = __builtin_convertvector(a.part[r], Doubles::Register);
#else  // halves behind the digits of 2^84 + 2^63 and 2^52: differences are exact, and their sum is rounded once
        typedef uint64_t Bits __attribute__((vector_size(REGISTER_BYTES)));
        const Bits x = (Bits)a.part[r], none = {};
        const Bits high = (x >> 32) ^ (none + 0x4530000080000000ull);
        const Bits low = (x & (none + 0xffffffffull)) | (none + 0x4330000000000000ull);
        b.part[r] = ((Doubles::Register)high - (0x1p84 + 0x1p63 + 0x1p52)) + (Doubles::Register)low;
#endif
    }
    return b;
}

// What overflow and underflow cannot have touched, with room for a factor of 2^-60.
INLINE bool in_range(double sum) { return sum >= 0x1p-900 && sum <= 0x1p1000; }

INLINE double root(double a) { return std::sqrt(a); }
INLINE double size_of(double a) { return std::fabs(a); }

// gap^p, for a number or for lanes; not for ANY.
template <Kind kind, class T>
INLINE T power(T gap, const Order& order) {
    if (kind == FIRST) return gap;
    if (kind == SECOND) return gap * gap;
    T base = gap, product = gap;
    int64_t left = order.whole;
    while (!(left & 1)) {
        base = base * base;
        left >>= 1;
        product = base;
    }
    while (left >>= 1) {
        base = base * base;
        if (left & 1) product = product * base;
    }
    return order.has_half ? product * root(gap) : product;
}

// sum^(1/p). Scaled by a power of two first, since the rounding of 1/p counts as often as the sum's logarithm.
static inline double root_of(double sum, const Order& order) {
    if (order.kind == FIRST) return sum;
    if (order.kind == SECOND) return std::sqrt(sum);
    if (order.p == 4.0) return std::sqrt(std::sqrt(sum));
    if (order.p == 8.0) return std::sqrt(std::sqrt(std::sqrt(sum)));
    if (order.kind == ANY) return std::pow(sum, 1.0 / order.p);  // at most 1, and not small beside that
    const int shift = int(std::ilogb(sum) / (2.0 * order.p)) * 2;  // even: half of it is whole
    return std::ldexp(std::pow(std::ldexp(sum, -int(shift * order.p)), 1.0 / order.p), shift);
}

// W from Σ mass·(gap/largest)^p, for gaps that were scaled down if they do not fit otherwise.
constexpr double DOWN = 0x1p-70, UP = 0x1p70;

// W_p from gaps that a function walks over, handing each (mass, gap) to what it is given, positions times a factor.
template <class Walk>
static double carefully(const Order& order, double unit, Walk walk) {
    double scale = 1.0, back = 1.0, largest = 0.0;
    const auto look = [&](double mass, double gap) {
        if (mass > 0.0 && gap > largest) largest = gap;
    };
    walk(scale, look);
    if (largest == 0.0) return 0.0;
    if (largest > 0x1p900) {
        scale = DOWN, back = UP, largest = 0.0;
        walk(scale, look);
    }
    double sum = 0.0, lost = 0.0;
    walk(scale, [&](double mass, double gap) {
        if (gap == 0.0) return;
        const double term = mass * std::pow(gap / largest, order.p) - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    });
    return largest * std::pow(unit * sum, 1.0 / order.p) * back;
}
