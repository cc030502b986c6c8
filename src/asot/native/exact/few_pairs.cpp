// A few small pairs, prepared and solved at once; see src/asot/exact/few_pairs.py.
#include <algorithm>
#include <cstring>

#include "any_cost.hpp"
#include "few_pairs.hpp"
#include "packing.hpp"

// A number from the d coordinates of a point: in eight lanes the bits of x + key that occur an odd number of times, with
// a key of its own for each step, and then a sum with odd factors.
static uint64_t mixed(const double* point, int64_t d) {
    const int64_t whole = d & ~(LANES - 1), rest = d - whole;
    uint64_t bits[2 * LANES], sum = 0, factor = 0x9E3779B97F4A7C15u;
    if (whole > 0) {
        Lanes sums = spread(0), key = sums;
        for (int64_t c = 0; c < whole; c += LANES) {
            key = key + spread(int64_t(0x1E3779B97F4A7C15));
            sums = sums ^ (load(reinterpret_cast<const int64_t*>(point + c)) + key);
        }
        store(reinterpret_cast<int64_t*>(bits + rest), sums);
    }
    std::memcpy(bits, point + whole, static_cast<size_t>(rest) * 8);
    for (int64_t c = 0; c < rest + (whole > 0 ? LANES : 0); c++) {
        sum += bits[c] * factor;
        factor += 0x3C6EF372FE94F82Au;  // still odd
    }
    return sum;
}

// Whether no two rows of points (n, d) without -0.0 are equal; seen: room for `size` rows, at places from hashes, where
// size is a power of two above n.
static bool all_differ(const double* packed, int64_t n, int64_t d, int64_t* seen, int64_t size) {
    const int shift = 64 - __builtin_ctzll(static_cast<uint64_t>(size));
    for (int64_t t = 0; t < size; t++) seen[t] = -1;
    for (int64_t i = 0; i < n; i++) {
        const double* own = packed + i * d;
        int64_t place = int64_t(mixed(own, d) >> shift);
        for (; seen[place] >= 0; place = (place + 1) & (size - 1)) {
            const double* other = packed + seen[place] * d;
            int64_t c = 0;
            while (c < d && own[c] == other[c]) c++;
            if (c == d) return false;
        }
        seen[place] = i;
    }
    return true;
}

static int64_t room_for(int64_t n) {
    int64_t size = 2;
    while (size < 2 * n) size *= 2;
    return size;
}

// What ExactPoints keeps of a collection in which all points are distinct and have mass. All coordinates count as used,
// which changes no distance: where both points are 0, nothing is added.
struct Prepared {
    FewPairs& few;
    const void* points;      // (n, dim), float32 or float64
    const int64_t* offsets;  // (count + 1,)
    const double* given;     // (n,) masses
    const int64_t n, room;  // points, and places for their hashes
    Memory memory;
    PackedPoints h;
    PointsSizes sizes;

    static int64_t bytes(const FewPairs& f, int64_t n, int64_t room) {
        return 2 * Memory::bytes_of<int64_t>(n) + 2 * Memory::bytes_of<int64_t>(f.count + 1) +
               Memory::bytes_of<int32_t>(f.count * f.dim) + Memory::bytes_of<double>(n * f.dim) +
               Memory::bytes_of<int64_t>(room);
    }
    Prepared(FewPairs& few, const void* points, const int64_t* offsets, const double* masses)
        : few(few), points(points), offsets(offsets), given(masses), n(offsets[few.count]), room(room_for(n)),
          memory(bytes(few, n, room)) {}

    // The points, scaled so that the largest coordinate is below 1; false if that is not exact, or if two are equal.
    bool scale_points() {
        const int64_t d = few.dim;
        double* packed = memory.take<double>(n * d);
        const bool scaled = few.single ? scale(static_cast<const float*>(points), packed)
                                       : scale(static_cast<const double*>(points), packed);
        if (!scaled) return false;
        h.packed = packed;
        return all_differ(packed, n, d, memory.take<int64_t>(room), room);
    }

    template <class T>
    bool scale(const T* coordinates, double* packed) {
        const int64_t size = n * few.dim;
        int exponent;
        std::frexp(double(largest_size(coordinates, size)), &exponent);
        few.exponent = exponent;
        if (std::abs(exponent) >= 900) return false;  // powers of two far from the ends of their range are exact
        const double scale = std::ldexp(1.0, -exponent);
        for (int64_t t = 0; t < size; t++) packed[t] = double(coordinates[t]) * scale + 0.0;  // -0.0 becomes 0.0
        return true;
    }

    // False if some point has no mass.
    bool read_masses() {
        bool positive = true, equal = true;
        for (int64_t i = 0; i < n; i++) {
            positive &= given[i] > 0.0;
            equal &= given[i] == given[0];
        }
        few.equal = equal;
        return positive;
    }

    void lay_out() {
        const int64_t d = few.dim;
        int64_t *index = memory.take<int64_t>(n), *masses = memory.take<int64_t>(n);
        int64_t *used_offsets = memory.take<int64_t>(few.count + 1), *packed_offsets = memory.take<int64_t>(few.count + 1);
        int32_t* used = memory.take<int32_t>(few.count * d);
        quantize_masses(offsets, few.count, given, masses);
        for (int64_t t = 0; t < n; t++) index[t] = t;
        for (int64_t i = 0; i <= few.count; i++) {
            used_offsets[i] = i * d;
            packed_offsets[i] = offsets[i] * d;
        }
        for (int64_t i = 0; i < few.count; i++)
            for (int64_t c = 0; c < d; c++) used[i * d + c] = int32_t(c);
        h = {offsets, index, masses, used_offsets, used, packed_offsets, h.packed, d};
        int64_t room = 0;  // points of the largest distribution
        for (int64_t i = 0; i < few.count; i++) room = std::max(room, offsets[i + 1] - offsets[i]);
        room += few.power != 1.0;  // as ExactAnyCost has it
        sizes = {room, room, few.equal};
    }
};

ENTRY asot_few_pairs(FewPairs* few, const void* points, const int64_t* offsets, const double* masses) {
    const Tile* tile = few->tile;
    const AnyCostOut* out = few->out;
    Prepared prepared(*few, points, offsets, masses);
    if (prepared.memory.failed()) return OUT_OF_MEMORY;
    if (!prepared.read_masses() || !prepared.scale_points()) return NOT_ORDINARY;
    prepared.lay_out();
    const double order = double(few->dim);
    if (few->power == 1.0) {
        const int32_t code = solve_points(prepared.h, {few->code, order, prepared.n, nullptr}, prepared.sizes, *tile);
        for (int64_t t = 0; t < tile->n; t++) tile->values[t] = std::ldexp(tile->values[t], int(few->exponent) - MASS_BITS);
        return code;
    }
    AnyCost cost = {};
    cost.code = few->code, cost.order = order, cost.power = few->power, cost.n = prepared.n;
    prepared.sizes.equal = 0;
    const int32_t code = solve_any_cost(prepared.h, cost, prepared.sizes, *tile, *out);
    for (int64_t t = 0; t < tile->n; t++) {
        tile->values[t] = std::ldexp(tile->values[t], -MASS_BITS);
        out->units[t] = std::ldexp(out->units[t], int(few->exponent));
        if (few->power == 2.0) tile->values[t] = out->units[t] * std::sqrt(tile->values[t]);  // other roots are NumPy's
    }
    return code;
}
