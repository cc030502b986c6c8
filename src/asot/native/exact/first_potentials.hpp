// Rough potentials of a large problem: a few sweeps of Sinkhorn's iteration in float32.
//
// A large problem has n² arcs of which its optimal tree takes 2n. Entropic potentials show which ones matter: an arc far
// above them is not in any optimal plan. They need not be accurate, since no answer depends on them: the simplex that
// starts from them proves its answer on all arcs. So the exponential is a straight line between powers of two (6 percent
// off, one multiplication) of which 16 bits are kept, since sweeps take as long as reading them does. ε goes down in a
// few steps, and each step runs a fixed number of sweeps.
#pragma once
#include "../common/entry.hpp"
#include "../common/lanes.hpp"

// The block that sweeps read: p rows of `width` numbers, of which q count; the others are huge costs. Nothing is fused,
// since processors without that instruction would take ten times as long.
struct FloatBlock {
    const float* cost;    // (p, width)
    uint16_t* kernel;     // (p, width) scratch
    int64_t p, q, width;  // width is a multiple of 2 FLOATS
};

constexpr struct {
    double share;    // ε over the spread of costs in a row
    int64_t sweeps;  // and how many are made with it
} EPSILONS[] = {{0.2, 4}, {0.05, 6}, {0.016, 10}};

constexpr float TINY = 1e-30f;
constexpr float ONE_POWER = 8388608.0f;  // what a float takes for one power of two, read as an integer

typedef uint16_t Halves __attribute__((vector_size(REGISTER_BYTES / 2)));
typedef Halves UnalignedHalves __attribute__((aligned(2), may_alias));
typedef uint32_t Words __attribute__((vector_size(REGISTER_BYTES)));
typedef int32_t SignedWords __attribute__((vector_size(REGISTER_BYTES)));

// GCC does not see that these are one instruction.
INLINE Words widened(Halves x) {
#if defined(__AVX512F__)
    return reinterpret_cast<Words>(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(x)));
#elif defined(__AVX2__)
    return reinterpret_cast<Words>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(x)));
#else
    return __builtin_convertvector(x, Words);
#endif
}
INLINE Halves narrowed(SignedWords x) {
#if defined(__AVX512F__)
    return reinterpret_cast<Halves>(_mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(x)));
#else
    return __builtin_convertvector(x, Halves);
#endif
}

// Floats of which only the upper 16 bits are kept.
INLINE Floats load_halves(const uint16_t* x) {
    Floats a;
    for (int r = 0; r < REGISTERS; r++) {
        const Halves half = *reinterpret_cast<const UnalignedHalves*>(x + r * Floats::WIDTH);
        a.part[r] = reinterpret_cast<Floats::Register>(widened(half) << 16);
    }
    return a;
}

// Mean minus minimum of a row.
INLINE float row_spread(const float* cost, int64_t q) {
    Floats sums = spread(0.0f), leasts = spread(cost[0]);
    const int64_t whole = q & ~(FLOATS - 1);
    for (int64_t j = 0; j < whole; j += FLOATS) {
        sums = sums + load(cost + j);
        leasts = lesser(leasts, load(cost + j));
    }
    float sum = total(sums), smallest = least(leasts);
    for (int64_t j = whole; j < q; j++) {
        sum += cost[j];
        smallest = cost[j] < smallest ? cost[j] : smallest;
    }
    return sum / float(q) - smallest;
}

// 2^((f + g - c)·scale), piecewise linear, as the upper 16 bits of floats.
INLINE void fill_row(const float* cost, uint16_t* kernel, int64_t width, float f, const float* g, float scale) {
    const Floats height = spread(f), factor = spread(scale), one = spread(127.0f * ONE_POWER);
    const Floats low = spread(0.0f), high = spread(180.0f * ONE_POWER);
    for (int64_t j = 0; j < width; j += FLOATS) {
        Floats power = (height + load(g + j) - load(cost + j)) * factor + one;
        power = lesser(larger(power, low), high);
        for (int r = 0; r < REGISTERS; r++) {
            const SignedWords bits = __builtin_convertvector(power.part[r], SignedWords) >> 16;
            *reinterpret_cast<UnalignedHalves*>(kernel + j + r * Floats::WIDTH) = narrowed(bits);
        }
    }
}

// Scale one row to its mass and add it to the column sums, while it is at hand.
INLINE float row_sweep(const uint16_t* kernel, int64_t width, float mass, const float* v, float* w) {
    Floats even = spread(0.0f), odd = even;
    for (int64_t j = 0; j < width; j += 2 * FLOATS) {
        even = even + load_halves(kernel + j) * load(v + j);
        odd = odd + load_halves(kernel + j + FLOATS) * load(v + j + FLOATS);
    }
    const float u = mass / (TINY + total(even + odd));
    const Floats factor = spread(u);
    for (int64_t j = 0; j < width; j += FLOATS) store(w + j, load(w + j) + load_halves(kernel + j) * factor);
    return u;
}

// Fill f (p,) and g (width,) with f_i + g_j ≈ c_ij where mass flows, given supply (p,) and demand (q,). The spread of
// costs, or -1 without memory. Once `stop` is raised, what is in f and g does not matter.
static double entropic_potentials(const FloatBlock& block, const int64_t* supply, const int64_t* demand, float* f,
                                  float* g, Stop stop) {
    const int64_t p = block.p, q = block.q, width = block.width;
    Memory memory(Memory::bytes_of<float>(p) + 2 * Memory::bytes_of<float>(width));
    if (memory.failed()) return -1.0;
    float *u = memory.take<float>(p), *v = memory.take<float>(width), *w = memory.take<float>(width);
    double mean_spread = 0.0, mass = 0.0;
    for (int64_t i = 0; i < p; i++) {
        mean_spread += double(row_spread(block.cost + i * width, q));
        mass += double(supply[i]);
        f[i] = 0.0f;
    }
    mean_spread /= double(p);
    for (int64_t j = 0; j < width; j++) g[j] = 0.0f;
    if (!(mean_spread > 0.0)) return 0.0;
    const double share_of_mass = double(p) / mass;
    for (const auto& step : EPSILONS) {
        const float epsilon = float(step.share * mean_spread), scale = 1.4426950408889634f * ONE_POWER / epsilon;
        for (int64_t i = 0; i < p; i++)
            fill_row(block.cost + i * width, block.kernel + i * width, width, f[i], g, scale);
        for (int64_t j = 0; j < width; j++) v[j] = j < q ? 1.0f : 0.0f;
        for (int64_t sweep = 0; sweep < step.sweeps; sweep++) {
            for (int64_t j = 0; j < width; j++) w[j] = TINY;
            for (int64_t i = 0; i < p && *stop == 0; i++)
                u[i] = row_sweep(block.kernel + i * width, width, float(double(supply[i]) * share_of_mass), v, w);
            if (*stop != 0) return mean_spread;
            for (int64_t j = 0; j < q; j++) v[j] = float(double(demand[j]) * share_of_mass) / w[j];
        }
        for (int64_t i = 0; i < p; i++) f[i] += epsilon * std::log(u[i] > TINY ? u[i] : TINY);
        for (int64_t j = 0; j < q; j++) g[j] += epsilon * std::log(v[j] > TINY ? v[j] : TINY);
    }
    return mean_spread;
}
