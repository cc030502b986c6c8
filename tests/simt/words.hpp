// CUDA's names on the machine of simt.hpp: qualifiers, indices, barriers, votes, shuffles, bits and atomics.

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __restrict__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define DYNAMIC_SHARED(name) char* name = simt::dynamic_shared

#define threadIdx (simt::now->index)
#define blockIdx (simt::block_at)
#define blockDim (simt::block_size)
#define gridDim (simt::grid_size)
static const int warpSize = 32;

struct __align__(16) double2 {
    double x, y;
};
struct __align__(16) float4 {
    float x, y, z, w;
};

inline void __syncthreads() {
    simt::now->state = simt::AT_BLOCK;
    simt::waiting_for_block++;
    simt::meet_in_block();
    simt::to_scheduler();
}
inline void __syncwarp(uint32_t mask = 0xffffffffu) { simt::vote("__syncwarp", mask, false); }
inline uint32_t __ballot_sync(uint32_t mask, bool value) { return simt::vote("__ballot_sync", mask, value); }
inline int __any_sync(uint32_t mask, bool value) { return simt::vote("__any_sync", mask, value) != 0; }
inline int __all_sync(uint32_t mask, bool value) { return simt::vote("__all_sync", mask, !value) == 0; }

template <typename T>
inline T __shfl_sync(uint32_t mask, T value, int source, int width = 32) {
    const int first = simt::now->lane & -width;
    return simt::shuffle("__shfl_sync", mask, value, first + (source & (width - 1)));
}
template <typename T>
inline T __shfl_xor_sync(uint32_t mask, T value, int bits, int width = 32) {
    const int lane = simt::now->lane, source = lane ^ bits;
    return simt::shuffle("__shfl_xor_sync", mask, value, source < (lane & -width) + width ? source & 31 : lane);
}
template <typename T>
inline T __shfl_down_sync(uint32_t mask, T value, unsigned far, int width = 32) {
    const int lane = simt::now->lane, source = lane + (int)far;
    return simt::shuffle("__shfl_down_sync", mask, value, source < (lane & -width) + width ? source : lane);
}
template <typename T>
inline T __shfl_up_sync(uint32_t mask, T value, unsigned far, int width = 32) {
    const int lane = simt::now->lane, source = lane - (int)far;
    return simt::shuffle("__shfl_up_sync", mask, value, source >= (lane & -width) ? source : lane);
}

inline int __ffs(int word) { return __builtin_ffs(word); }
inline int __ffsll(long long word) { return __builtin_ffsll(word); }
inline int __popc(unsigned word) { return __builtin_popcount(word); }
inline int __popcll(unsigned long long word) { return __builtin_popcountll(word); }
inline int __clz(int word) { return word ? __builtin_clz((unsigned)word) : 32; }
inline int __clzll(long long word) { return word ? __builtin_clzll((unsigned long long)word) : 64; }

template <typename S, typename T>
inline std::common_type_t<S, T> min(S x, T y) {
    using C = std::common_type_t<S, T>;
    return (C)y < (C)x ? (C)y : (C)x;
}
template <typename S, typename T>
inline std::common_type_t<S, T> max(S x, T y) {
    using C = std::common_type_t<S, T>;
    return (C)x < (C)y ? (C)y : (C)x;
}
inline int __viaddmin_s32(int x, int y, int bound) { return min((int)((unsigned)x + (unsigned)y), bound); }

inline long long __double_as_longlong(double value) {
    long long bits;
    memcpy(&bits, &value, 8);
    return bits;
}
inline long long __double2ll_rn(double value) { return llrint(value); }
inline double __longlong_as_double(long long bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

template <typename T>
inline T __ldg(const T* place) {
    return *place;
}
template <typename T>
inline T simt_update(T* place, T value) {
    const T before = *place;
    *place = value;
    return before;
}
// Threads give way only at barriers, so a plain update is atomic.
template <typename S, typename T>
inline S atomicAdd(S* place, T value) {
    return simt_update(place, (S)(*place + (S)value));
}
template <typename S, typename T>
inline S atomicMax(S* place, T value) {
    return simt_update(place, max(*place, (S)value));
}
template <typename S, typename T>
inline S atomicMin(S* place, T value) {
    return simt_update(place, min(*place, (S)value));
}
template <typename S, typename T>
inline S atomicOr(S* place, T value) {
    return simt_update(place, (S)(*place | (S)value));
}
template <typename S, typename T>
inline S atomicExch(S* place, T value) {
    return simt_update(place, (S)value);
}
template <typename S, typename T>
inline S atomicCAS(S* place, T expected, T value) {
    return simt_update(place, *place == (S)expected ? (S)value : *place);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline int __reduce_min_sync(uint32_t mask, int value) {
    for (int far = 16; far > 0; far /= 2) value = min(value, __shfl_xor_sync(mask, value, far));
    return value;
}
