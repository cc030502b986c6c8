// Which of the libraries this processor can run: 0 baseline, 1 AVX2 with FMA and BMI, 2 AVX-512 (F, DQ, BW, VL).
// By cpuid itself: Clang's __builtin_cpu_supports needs a part of the compiler's runtime that not every build has.
#include "entry.hpp"
#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#endif

ENTRY asot_processor_level() {
#if defined(__x86_64__) || defined(_M_X64)
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA)) return 0;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 0x6) != 0x6) return 0;  // the system saves the AVX registers
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (!(b & bit_AVX2) || !(b & bit_BMI) || !(b & bit_BMI2)) return 0;
    const unsigned wide = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    return (low & 0xe6) == 0xe6 && (b & wide) == wide ? 2 : 1;
#else
    return 0;
#endif
}
