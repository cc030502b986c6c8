// Random splits of two bags of points as sparse histograms; see asot/learn/perturbations.py.
//
// Every split has a random stream of its own (SplitMix64, Steele, Lea and Flood 2014), so that it depends neither on the
// splits before it nor on who computes them.
#include <algorithm>

#include "../common/entry.hpp"

struct Splits {
    int64_t n, n_kept, n_strata;
    const int64_t* place;    // (n,) column of every point in the histograms
    const double* weights;   // (n,)
    const int64_t* order;    // (n_kept,) points with mass, places ascending
    const int64_t* starts;   // (n_strata + 1,) of the members of every stratum
    const int64_t* members;  // (n,) those of the first side first, within every stratum
    const int64_t* taken;    // (n_strata,) how many these are
    int64_t seed, own;       // own: which pair of bags
    int64_t low, high;       // splits low, .., high - 1; split 0 is the observed one
};

struct SplitsOut {
    int64_t* offsets;  // (2 (high - low) + 1,) the first one is given
    int64_t* index;    // both sides of a split, one after the other
    double* masses;
    int64_t* empty;    // (1,) sides without mass
};

class Stream {
public:
    Stream(int64_t seed, int64_t own, int64_t split) {
        for (const int64_t part : {seed, own, split}) state = mix(state + STEP + static_cast<uint64_t>(part));
    }

    // A number below k < 2^32, each as likely (Lemire 2019).
    int64_t below(uint64_t k) {
        uint64_t product = (next() >> 32) * k;
        if (static_cast<uint32_t>(product) < k) {
            const uint64_t least = (uint64_t{1} << 32) % k;
            while (static_cast<uint32_t>(product) < least) product = (next() >> 32) * k;
        }
        return static_cast<int64_t>(product >> 32);
    }

private:
    static constexpr uint64_t STEP = 0x9e3779b97f4a7c15;
    uint64_t state = 0;

    static uint64_t mix(uint64_t x) {
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
        return x ^ (x >> 31);
    }

    uint64_t next() { return mix(state += STEP); }
};

// Which side each point is on: of every stratum, as many points on the first one as were observed there. Only the fewer
// are drawn.
static void draw_sides(const Splits& all, int64_t split, int64_t* pool, int8_t* side) {
    Stream stream(all.seed, all.own, split);
    std::copy_n(all.members, all.n, pool);
    for (int64_t s = 0; s < all.n_strata; s++) {
        int64_t* own = pool + all.starts[s];
        const int64_t size = all.starts[s + 1] - all.starts[s], first = all.taken[s];
        const bool is_observed = split == 0, draw_first = is_observed || 2 * first <= size;
        const int64_t drawn = draw_first ? first : size - first;
        for (int64_t t = 0; t < drawn; t++) {
            if (!is_observed) std::swap(own[t], own[t + stream.below(static_cast<uint64_t>(size - t))]);
        }
        for (int64_t t = 0; t < size; t++) side[own[t]] = static_cast<int8_t>((t < drawn) != draw_first);
    }
}

ENTRY asot_split_histograms(const Splits* all, const SplitsOut* out) {
    const int64_t n = all->n, kept = all->n_kept;
    Memory memory(Memory::bytes_of<int64_t>(n) + Memory::bytes_of<int8_t>(n) + 2 * Memory::bytes_of<int64_t>(kept) +
                  2 * Memory::bytes_of<double>(kept));
    if (memory.failed()) return OUT_OF_MEMORY;
    int64_t* pool = memory.take<int64_t>(n);
    int8_t* side = memory.take<int8_t>(n);
    int64_t* index[2] = {memory.take<int64_t>(kept), memory.take<int64_t>(kept)};
    double* mass[2] = {memory.take<double>(kept), memory.take<double>(kept)};
    int64_t* offset = out->offsets;
    *out->empty = 0;
    for (int64_t split = all->low; split < all->high; split++) {
        draw_sides(*all, split, pool, side);
        int64_t count[2] = {0, 0}, last[2] = {-1, -1};
        double total[2] = {0.0, 0.0};
        for (int64_t t = 0; t < kept; t++) {  // without branches: sides are random
            const int64_t point = all->order[t], place = all->place[point];
            const int s = side[point];
            const int64_t again = last[s] == place, at = count[s] - again;
            const double weight = all->weights[point];
            index[s][at] = last[s] = place;
            mass[s][at] = weight + (again ? mass[s][at] : 0.0);
            total[s] += weight;
            count[s] = at + 1;
        }
        for (int s = 0; s < 2; s++, offset++) {
            const int64_t begin = offset[0];
            *out->empty += count[s] == 0;
            for (int64_t t = 0; t < count[s]; t++) {
                out->index[begin + t] = index[s][t];
                out->masses[begin + t] = mass[s][t] / total[s];
            }
            offset[1] = begin + count[s];
        }
    }
    return DONE;
}
