// a·b + c, rounded once, for x86-64 without an instruction for it: the same bits as with one, and far faster than the C
// library, which switches the rounding mode for it.
//
// The last addition happens in a precision that suffices if what is added was rounded to odd: where a sum is not exact,
// it is moved to the neighbor on the side of the exact sum whose last bit is 1, so that it can lie on no border of a later
// rounding (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Trans. Computers 57, 2008).
#pragma once
#include <cmath>
#include <cstdint>
#include <immintrin.h>

namespace without_fma {

#define KEPT static __attribute__((noinline, unused))  // longer than a call
typedef double Two __attribute__((vector_size(16)));
typedef int64_t TwoBits __attribute__((vector_size(16)));
typedef float Four __attribute__((vector_size(16)));
struct Sum {
    Two high, low;  // the rounded sum, and what it lacks
};

static inline Sum exact_sum(Two a, Two b) {
    const Two sum = a + b, part = sum - a;
    return {sum, (a - (sum - part)) + (b - part)};
}

static inline Two odd_sum(Two a, Two b) {
    const Sum sum = exact_sum(a, b);
    const TwoBits bits = (TwoBits)sum.high, even = (bits & 1) - 1, inexact = (sum.low > 0) | (sum.low < 0);
    const TwoBits inwards = (sum.low > 0) ^ (sum.high > 0);  // -1 where the exact sum is nearer to 0
    return (Two)(bits + (even & inexact & (inwards | 1)));
}

// Products of floats are exact in double, and so is every border between floats.
KEPT Four fused(Four a, Four b, Four c) {
    const __m128 x = (__m128)a, y = (__m128)b, z = (__m128)c;
    const __m128 u = _mm_movehl_ps(x, x), v = _mm_movehl_ps(y, y), w = _mm_movehl_ps(z, z);
    const Two low = odd_sum((Two)_mm_cvtps_pd(x) * (Two)_mm_cvtps_pd(y), (Two)_mm_cvtps_pd(z));
    const Two high = odd_sum((Two)_mm_cvtps_pd(u) * (Two)_mm_cvtps_pd(v), (Two)_mm_cvtps_pd(w));
    return (Four)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low), _mm_cvtpd_ps((__m128d)high));
}

static inline Two size(Two a) { return (Two)((TwoBits)a & INT64_MAX); }

// 26 of the 53 bits; the others are what is left.
static inline Two upper(Two a) {
    const Two scaled = a * 0x1p27 + a;
    return scaled - (scaled - a);
}

// Numbers so large or so small that a part of the product could overflow or vanish are left to the library.
KEPT Two fused(Two a, Two b, Two c) {
    const TwoBits large = (size(a) > 0x1p450) | (size(b) > 0x1p450) | (size(c) > 0x1p900);
    const TwoBits small = ((size(a) < 0x1p-450) & (a != 0)) | ((size(b) < 0x1p-450) & (b != 0));
    if (__builtin_expect(_mm_movemask_pd((__m128d)(large | small)), 0))
        return Two{std::fma(a[0], b[0], c[0]), std::fma(a[1], b[1], c[1])};
    const Two product = a * b, ah = upper(a), al = a - ah, bh = upper(b), bl = b - bh;
    const Two lacking = ((ah * bh - product) + ah * bl + al * bh) + al * bl;  // exact
    const Sum first = exact_sum(c, lacking), second = exact_sum(product, first.high);
    const Two found = second.high + odd_sum(first.low, second.low), plain = product + c;
    const TwoBits zero = found == 0;  // then this has its sign
    return (Two)(((TwoBits)plain & zero) | ((TwoBits)found & ~zero));
}
#undef KEPT

}  // namespace without_fma
