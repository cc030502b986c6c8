// Compares the products of common/fused.hpp with the C library's on random numbers: of all sizes, near each other, with
// few bits, with zeros, and with sums that nearly cancel. Prints how many were tried and how many differ.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>

#include "common/fused.hpp"

template <class Number, class Bits, class Register, int EXPONENT, int MANTISSA>
static int64_t count_wrong(int64_t count) {
    constexpr int WIDTH = 16 / int(sizeof(Number)), BIAS = (1 << (EXPONENT - 1)) - 1, SPAN = 2 * MANTISSA + 12;
    constexpr Bits SIGN = Bits(1) << (EXPONENT + MANTISSA), FRACTION = (Bits(1) << MANTISSA) - 1;
    std::mt19937_64 rng(1);
    auto drawn = [&](int64_t n) { return int64_t(rng() % uint64_t(n)); };
    auto scaled = [&](int64_t exponent) {  // a number of this size
        exponent = exponent < 0 ? 0 : exponent > 2 * BIAS ? 2 * BIAS : exponent;
        return (Bits(rng()) & (SIGN | FRACTION)) | (Bits(exponent) << MANTISSA);
    };
    int64_t wrong = 0;
    for (int64_t t = 0; t < count; t++) {
        Number numbers[3][WIDTH];
        for (int i = 0; i < WIDTH; i++) {
            const int64_t kind = drawn(8), wide = kind < 4 ? 8 : BIAS / 2 - 2;
            Bits bits[3] = {Bits(rng()), Bits(rng()), Bits(rng())};
            if (kind > 0)
                for (int k = 0; k < 2; k++) bits[k] = scaled(BIAS - wide + drawn(2 * wide));
            if (kind > 4)
                for (int k = 0; k < 2; k++) bits[k] &= ~Bits(0) << drawn(MANTISSA);
            if (kind == 5 && drawn(2)) bits[drawn(2)] &= SIGN;
            for (int k = 0; k < 2; k++) std::memcpy(&numbers[k][i], &bits[k], sizeof(Number));
            const Number product = numbers[0][i] * numbers[1][i];
            Bits close;
            std::memcpy(&close, &product, sizeof(Number));
            if (kind > 0) bits[2] = scaled(int64_t((close & ~SIGN) >> MANTISSA) - SPAN + drawn(2 * SPAN));
            if (kind == 2 || kind == 6) bits[2] = (close ^ SIGN) + Bits(drawn(5)) - 2;
            if (kind == 3 || kind == 7) bits[2] &= ~Bits(0) << drawn(MANTISSA + 1);
            if (kind == 5 && drawn(2)) bits[2] &= SIGN;
            std::memcpy(&numbers[2][i], &bits[2], sizeof(Number));
        }
        Register a, b, c;
        std::memcpy(&a, numbers[0], 16), std::memcpy(&b, numbers[1], 16), std::memcpy(&c, numbers[2], 16);
        const Register found = without_fma::fused(a, b, c);
        for (int i = 0; i < WIDTH; i++) {
            const Number mine = found[i], expected = std::fma(numbers[0][i], numbers[1][i], numbers[2][i]);
            const bool same = std::memcmp(&mine, &expected, sizeof(Number)) == 0;
            wrong += !same && !(std::isnan(mine) && std::isnan(expected));
        }
    }
    return wrong;
}

int main(int, char** words) {
    const int64_t count = std::atoll(words[1]);
    const int64_t floats = count_wrong<float, uint32_t, without_fma::Four, 8, 23>(count / 4);
    const int64_t doubles = count_wrong<double, uint64_t, without_fma::Two, 11, 52>(count / 2);
    std::printf("%lld %lld\n", static_cast<long long>(floats), static_cast<long long>(doubles));
}
