// 64 bytes of numbers side by side: eight int64 or double, sixteen float. That is one AVX-512 register, two of AVX2, four
// of SSE or NEON. Kernels name their lanes instead of trusting a compiler to find them, so that a sum is taken in the same
// order, and has the same bits, with every compiler and on every processor. Masks of lanes are plain integers, a bit each.
//
// GCC and Clang have vectors of any width, but GCC takes those that are wider than a register apart into single numbers,
// so registers are named here.
#pragma once
#include <cmath>
#include <cstdint>
#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE4_2__)
#include <immintrin.h>
#endif
#if defined(__x86_64__) && !defined(__FMA__)
#include "fused.hpp"
#define WITHOUT_FMA
#endif

#define INLINE inline __attribute__((always_inline))
#define EACH for (int r = 0; r < REGISTERS; r++)

#if defined(__AVX512F__)
constexpr int REGISTERS = 1;
#elif defined(__AVX2__)
constexpr int REGISTERS = 2;
#else
constexpr int REGISTERS = 4;
#endif
constexpr int REGISTER_BYTES = 64 / REGISTERS;
constexpr int64_t LANES = 8;    // numbers of 8 bytes
constexpr int64_t FLOATS = 16;  // numbers of 4 bytes

template <class T>
struct Vector {
    typedef T Register __attribute__((vector_size(REGISTER_BYTES)));
    typedef Register Unaligned __attribute__((aligned(sizeof(T)), may_alias));
    static constexpr int WIDTH = REGISTER_BYTES / int(sizeof(T));  // numbers in a register
    Register part[REGISTERS];
};
using Lanes = Vector<int64_t>;
using Doubles = Vector<double>;
using Floats = Vector<float>;

template <class T>
INLINE Vector<T> load(const T* x) {
    Vector<T> a;
    EACH a.part[r] = *reinterpret_cast<const typename Vector<T>::Unaligned*>(x + r * Vector<T>::WIDTH);
    return a;
}
template <class T>
INLINE void store(T* x, Vector<T> a) {
    EACH *reinterpret_cast<typename Vector<T>::Unaligned*>(x + r * Vector<T>::WIDTH) = a.part[r];
}
template <class T>
INLINE void put_register(T* x, typename Vector<T>::Register a) {
    *reinterpret_cast<typename Vector<T>::Unaligned*>(x) = a;
}
// Sixteen short integers as floats.
INLINE Floats load(const int16_t* x) {
    Floats a;
#if defined(__AVX512F__)
    const __m256i each = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    a.part[0] = reinterpret_cast<Floats::Register>(_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(each)));
#elif defined(__AVX2__)
    EACH {
        const __m128i each = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 8 * r));
        a.part[r] = reinterpret_cast<Floats::Register>(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(each)));
    }
#else
    EACH for (int i = 0; i < Floats::WIDTH; i++) a.part[r][i] = float(x[r * Floats::WIDTH + i]);
#endif
    return a;
}
// The same number in all lanes.
template <class T>
INLINE Vector<T> spread(T x) {
    Vector<T> a;
    EACH a.part[r] = x - typename Vector<T>::Register{};
    return a;
}
INLINE Lanes spread(int x) { return spread(int64_t(x)); }

#define LANEWISE(name, expression)                              \
    template <class T>                                          \
    INLINE Vector<T> name(Vector<T> a, Vector<T> b) {           \
        EACH {                                                  \
            const typename Vector<T>::Register x = a.part[r], y = b.part[r]; \
            a.part[r] = expression;                             \
        }                                                       \
        return a;                                               \
    }
LANEWISE(operator+, x + y)
LANEWISE(operator-, x - y)
LANEWISE(operator*, x * y)
LANEWISE(operator/, x / y)
LANEWISE(operator&, x & y)
LANEWISE(operator|, x | y)
LANEWISE(operator^, x ^ y)
LANEWISE(lesser, x < y ? x : y)   // NaN must not occur
LANEWISE(larger, x > y ? x : y)
#undef LANEWISE

// if_so where a < b, if_not elsewhere.
template <class T, class U>
INLINE Vector<U> select_less(Vector<T> a, Vector<T> b, Vector<U> if_so, Vector<U> if_not) {
    static_assert(sizeof(T) == sizeof(U), "lanes of one size");
    EACH if_so.part[r] = (a.part[r] < b.part[r]) ? if_so.part[r] : if_not.part[r];
    return if_so;
}

// ------------------------------------------------------------------------------------------------- floating point

// One register at a time: GCC does not see that sixteen square roots, or fused products, are one instruction.
template <class R>
INLINE R root_of(R x) {
#if defined(__AVX512F__)
    if constexpr (sizeof(x[0]) == 8)
        return reinterpret_cast<R>(_mm512_sqrt_pd(reinterpret_cast<__m512d>(x)));
    else
        return reinterpret_cast<R>(_mm512_sqrt_ps(reinterpret_cast<__m512>(x)));
#elif defined(__AVX2__)
    if constexpr (sizeof(x[0]) == 8)
        return reinterpret_cast<R>(_mm256_sqrt_pd(reinterpret_cast<__m256d>(x)));
    else
        return reinterpret_cast<R>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x)));
#else
    for (int i = 0; i < REGISTER_BYTES / int(sizeof(x[0])); i++) x[i] = std::sqrt(x[i]);
    return x;
#endif
}
template <class T>
INLINE Vector<T> root(Vector<T> a) {
    EACH a.part[r] = root_of(a.part[r]);
    return a;
}
template <class T>
INLINE Vector<T> size_of(Vector<T> a) {  // |a|: without its sign bit
    if constexpr (sizeof(T) == 8) {
        typedef int64_t Bits __attribute__((vector_size(REGISTER_BYTES)));
        EACH a.part[r] = (typename Vector<T>::Register)((Bits)a.part[r] & INT64_MAX);
    } else {
        typedef int32_t Bits __attribute__((vector_size(REGISTER_BYTES)));
        EACH a.part[r] = (typename Vector<T>::Register)((Bits)a.part[r] & INT32_MAX);
    }
    return a;
}
// a·b + c, rounded once.
#if defined(WITHOUT_FMA)
INLINE double fused(double a, double b, double c) {
    return without_fma::fused(without_fma::Two{a, 0}, without_fma::Two{b, 0}, without_fma::Two{c, 0})[0];
}
#else
INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#endif
template <class R>
INLINE R fused_of(R x, R y, R z) {
#if defined(__AVX512F__)
    if constexpr (sizeof(x[0]) == 8)
        return reinterpret_cast<R>(_mm512_fmadd_pd(reinterpret_cast<__m512d>(x), reinterpret_cast<__m512d>(y),
                                                   reinterpret_cast<__m512d>(z)));
    else
        return reinterpret_cast<R>(
            _mm512_fmadd_ps(reinterpret_cast<__m512>(x), reinterpret_cast<__m512>(y), reinterpret_cast<__m512>(z)));
#elif defined(__AVX2__)
    if constexpr (sizeof(x[0]) == 8)
        return reinterpret_cast<R>(_mm256_fmadd_pd(reinterpret_cast<__m256d>(x), reinterpret_cast<__m256d>(y),
                                                   reinterpret_cast<__m256d>(z)));
    else
        return reinterpret_cast<R>(
            _mm256_fmadd_ps(reinterpret_cast<__m256>(x), reinterpret_cast<__m256>(y), reinterpret_cast<__m256>(z)));
#elif defined(WITHOUT_FMA)
    return without_fma::fused(x, y, z);
#else
    for (int i = 0; i < REGISTER_BYTES / int(sizeof(x[0])); i++) {
        if constexpr (sizeof(x[0]) == 8)
            z[i] = __builtin_fma(x[i], y[i], z[i]);
        else
            z[i] = __builtin_fmaf(x[i], y[i], z[i]);
    }
    return z;
#endif
}
template <class T>
INLINE Vector<T> fused(Vector<T> a, Vector<T> b, Vector<T> c) {
    EACH c.part[r] = fused_of(a.part[r], b.part[r], c.part[r]);
    return c;
}
template <class T>
INLINE Vector<T> plus_squared_gap(Vector<T> start, Vector<T> a, Vector<T> b) {  // start + (a - b)²
    const Vector<T> gap = a - b;
    return fused(gap, gap, start);
}
template <class T>
INLINE Vector<T> plus_gap(Vector<T> start, Vector<T> a, Vector<T> b) {  // start + |a - b|
    return start + size_of(a - b);
}
template <class T>
INLINE Vector<T> larger_gap(Vector<T> start, Vector<T> a, Vector<T> b) {  // max(start, |a - b|)
    return larger(size_of(a - b), start);
}

// The lanes in which a is less than b, as bits of an integer.
INLINE int64_t where_less(Doubles a, Doubles b) {
#if defined(__AVX512F__)
    return _mm512_cmp_pd_mask(reinterpret_cast<__m512d>(a.part[0]), reinterpret_cast<__m512d>(b.part[0]), _CMP_LT_OQ);
#elif defined(__AVX2__)
    return _mm256_movemask_pd(reinterpret_cast<__m256d>(a.part[0] < b.part[0])) |
           _mm256_movemask_pd(reinterpret_cast<__m256d>(a.part[1] < b.part[1])) << 4;
#else
    int64_t bits = 0;
    EACH for (int i = 0; i < Doubles::WIDTH; i++)
        bits |= int64_t(a.part[r][i] < b.part[r][i]) << (r * Doubles::WIDTH + i);
    return bits;
#endif
}

// One number of all lanes, by folding the upper half onto the lower one again and again: the same order everywhere.
#define FOLDED(name, combine)                                                        \
    template <int half, class T>                                                     \
    INLINE T name##_within(T* x) {                                                   \
        for (int i = 0; i < half; i++) x[i] = combine;                               \
        if constexpr (half > 1) return name##_within<half / 2>(x);                   \
        return x[0];                                                                 \
    }                                                                                \
    template <class T>                                                               \
    INLINE T name(Vector<T> a) {                                                     \
        constexpr int N = 64 / int(sizeof(T));                                       \
        T x[N];                                                                      \
        store(x, a);                                                                 \
        return name##_within<N / 2>(x);                                              \
    }
FOLDED(total, x[i] + x[i + half])
FOLDED(least, x[i + half] < x[i] ? x[i + half] : x[i])
FOLDED(largest, x[i + half] > x[i] ? x[i + half] : x[i])
#undef FOLDED

// Eight floats as doubles.
INLINE Doubles widened(const float* x) {
    Doubles a;
    EACH for (int i = 0; i < Doubles::WIDTH; i++) a.part[r][i] = double(x[r * Doubles::WIDTH + i]);
    return a;
}
// The first n < 8 numbers, and 0 in the other lanes.
INLINE Doubles load_first(const double* x, int64_t n) {
#if defined(__AVX512F__)
    Doubles a;
    const __mmask8 here = static_cast<__mmask8>((1u << n) - 1);
    a.part[0] = reinterpret_cast<Doubles::Register>(_mm512_maskz_loadu_pd(here, x));
    return a;
#else
    double first[LANES] = {};
    for (int64_t i = 0; i < n; i++) first[i] = x[i];
    return load(first);
#endif
}

// --------------------------------------------------------------------------------------------------------- int64

alignas(64) static const int64_t LANE_NUMBERS[8] = {0, 1, 2, 3, 4, 5, 6, 7};
alignas(64) static const int64_t LANE_BITS[8] = {1, 2, 4, 8, 16, 32, 64, 128};
INLINE Lanes count_up() { return load(LANE_NUMBERS); }

INLINE int lowest_bit(int64_t bits) { return __builtin_ctzll(static_cast<uint64_t>(bits)); }

INLINE Lanes equal(Lanes a, Lanes b) {
    EACH a.part[r] = a.part[r] == b.part[r];
    return a;
}

template <>
INLINE int64_t least(Lanes a) {
#if defined(__AVX512F__)
    return _mm512_reduce_min_epi64(reinterpret_cast<__m512i>(a.part[0]));
#else
    Lanes::Register x = a.part[0];
    for (int r = 1; r < REGISTERS; r++) x = a.part[r] < x ? a.part[r] : x;
#if defined(__AVX2__)
    const Lanes::Register y = __builtin_shufflevector(x, x, 2, 3, 0, 1);
    x = y < x ? y : x;
#endif
    return x[0] < x[1] ? x[0] : x[1];
#endif
}

// What two lots of numbers, whose least two are known lane by lane, have as least two together.
template <class R>
INLINE void merge_two(R& first, R& second, R other, R other_second) {
    const R above = first < other ? other : first;
    first = first < other ? first : other;
    second = second < other_second ? second : other_second;
    second = second < above ? second : above;
}
// The least and the second least number, where each lane of `second` is not below that of `first`. Both are folded at
// once, since a second fold would have to wait for the first.
INLINE void least_two(Lanes first, Lanes second, int64_t& least, int64_t& next) {
    Lanes::Register x = first.part[0], y = second.part[0];
    for (int r = 1; r < REGISTERS; r++) merge_two(x, y, first.part[r], second.part[r]);
#if defined(__AVX512F__)
    merge_two(x, y, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3),
              __builtin_shufflevector(y, y, 4, 5, 6, 7, 0, 1, 2, 3));
    merge_two(x, y, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5),
              __builtin_shufflevector(y, y, 2, 3, 0, 1, 6, 7, 4, 5));
#elif defined(__AVX2__)
    merge_two(x, y, __builtin_shufflevector(x, x, 2, 3, 0, 1), __builtin_shufflevector(y, y, 2, 3, 0, 1));
#endif
    least = x[0], next = y[0];
    merge_two(least, next, int64_t(x[1]), int64_t(y[1]));
}

// The lanes in which a and b agree, as bits of an integer.
INLINE int64_t where_equal(Lanes a, Lanes b) {
#if defined(__AVX512F__)
    return _mm512_cmpeq_epi64_mask(reinterpret_cast<__m512i>(a.part[0]), reinterpret_cast<__m512i>(b.part[0]));
#elif defined(__AVX2__)
    const Lanes same = equal(a, b);
    return _mm256_movemask_pd(reinterpret_cast<__m256d>(same.part[0])) |
           _mm256_movemask_pd(reinterpret_cast<__m256d>(same.part[1])) << 4;
#else
    const Lanes bits = equal(a, b) & load(LANE_BITS);
    const Lanes::Register x = bits.part[0] | bits.part[1] | bits.part[2] | bits.part[3];
    return x[0] | x[1];
#endif
}

// a + b in the lanes named by the lowest 8 bits of an integer, a in the others.
INLINE Lanes plus_where(int64_t bits, Lanes a, Lanes b) {
#if defined(__AVX512F__)
    a.part[0] = reinterpret_cast<Lanes::Register>(
        _mm512_mask_add_epi64(reinterpret_cast<__m512i>(a.part[0]), static_cast<__mmask8>(bits),
                              reinterpret_cast<__m512i>(a.part[0]), reinterpret_cast<__m512i>(b.part[0])));
    return a;
#else
    const Lanes named = load(LANE_BITS);
    return a + (b & equal(spread(bits) & named, named));
#endif
}

// The lanes with another number in one of them.
INLINE Lanes put(Lanes lanes, int64_t lane, int64_t number) {
    const Lanes here = equal(count_up(), spread(lane)), value = spread(number);
    EACH lanes.part[r] = here.part[r] ? value.part[r] : lanes.part[r];
    return lanes;
}
#undef EACH
