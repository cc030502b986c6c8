// Distributions on a line, prepared: sorted, with cumulative masses; see src/asot/exact/one_dimension.py.
#include <algorithm>

#include "../common/lanes.hpp"
#include "lines.hpp"

struct LineGrid {
    int64_t n;            // positions that some distribution has mass at
    const double* grid;   // (n,) ascending
    int64_t row, column;  // the level of distribution i behind position g goes to levels[i·row + g·column]
    int64_t* levels;      // mass up to position g in units of 2^-60, for all but the last one
};

namespace {
constexpr int64_t FEW_POINTS = 64;

struct Point {
    double position, mass;
    bool operator<(const Point& other) const {
        return position != other.position ? position < other.position : mass < other.mass;
    }
};

// A sum to twice the digits of a double: what is lost in adding to `high` goes to `low`.
struct LongSum {
    double high = 0.0, low = 0.0;
    void add(double x) {
        const double sum = high + x, kept = sum - high;
        low += (high - (sum - kept)) + (x - kept);
        high = sum;
    }
    void add(const LongSum& other) {
        add(other.high);
        low += other.low;
    }
};

// 2^60 · part / all to the nearest whole number: exact for shares k/n, whatever n floats of 1/n sum up to.
int64_t share_of(const LongSum& part, const LongSum& all) {
    const double first = part.high / all.high;
    const double left = fused(-first, all.high, part.high) + (part.low - first * all.low);
    const double most = first * 0x1p60, below = std::floor(most);
    return int64_t(below) + int64_t(std::floor((most - below) + left / all.high * 0x1p60 + 0.5));
}

// Sorts up to 64 points by counting those before each: no branch is guessed wrong. False if two are in one place.
bool sort_by_counting(Point* points, int64_t n) {
    double x[FEW_POINTS];
    Point sorted[FEW_POINTS];
    const int64_t groups = (n + LANES - 1) / LANES;
    for (int64_t t = 0; t < groups * LANES; t++) x[t] = t < n ? points[t].position : HUGE_VAL;
    uint64_t taken = 0;
    for (int64_t t = 0; t < n; t++) {
        int64_t rank = 0;
        for (int64_t g = 0; g < groups; g++)
            rank += __builtin_popcountll(uint64_t(where_less(load(x + g * LANES), spread(x[t]))));
        sorted[rank] = points[t];
        taken |= uint64_t(1) << rank;
    }
    if (taken + 1 != (n < 64 ? uint64_t(1) << n : 0)) return false;
    std::copy(sorted, sorted + n, points);
    return true;
}

// The sorted list of some points, and its length. Points in one place are one, and those without mass are left out.
int64_t write_list(const Point* points, int64_t n, Station* stations) {
    LongSum all, part;
    for (int64_t t = 0; t < n; t++) all.add(points[t].mass);
    int64_t length = 0, before = 0;
    for (int64_t t = 0; t < n && before < WHOLE; t++) {
        part.add(points[t].mass);
        if (t + 1 < n && points[t + 1].position == points[t].position) continue;
        const int64_t level = t + 1 < n ? std::min(share_of(part, all), WHOLE) : WHOLE;
        if (level <= before) continue;
        stations[length++] = {points[t].position, level};
        before = level;
    }
    return length;
}
}  // namespace

ENTRY asot_line_sort(const LineCloud* cloud, const LineLists* lists) {
    int64_t most = 0;
    for (int64_t i = 0; i < cloud->n; i++) most = std::max(most, cloud->offsets[i + 1] - cloud->offsets[i]);
    Memory memory(Memory::bytes_of<Point>(most));
    if (memory.failed()) return OUT_OF_MEMORY;
    Point* points = memory.take<Point>(most);
    lists->starts[0] = 0;
    for (int64_t i = 0; i < cloud->n; i++) {
        int64_t n = 0;
        for (int64_t t = cloud->offsets[i]; t < cloud->offsets[i + 1]; t++) {
            points[n] = {cloud->positions[t], cloud->masses[t]};
            n += cloud->masses[t] > 0.0;
        }
        const bool is_sorted = std::is_sorted(points, points + n) || (n <= FEW_POINTS && sort_by_counting(points, n));
        if (!is_sorted) std::sort(points, points + n);
        const int64_t start = lists->starts[i];
        lists->starts[i + 1] = start + write_list(points, n, reinterpret_cast<Station*>(lists->stations) + start);
    }
    return DONE;
}

// Where x is on an ascending grid, which has it.
static int64_t place_of(double x, const double* grid, int64_t n) {
    const double* begin = grid;
    while (n > 1) {
        const int64_t half = n / 2;
        begin = begin[half] <= x ? begin + half : begin;
        n -= half;
    }
    return begin - grid;
}

ENTRY asot_line_levels(const LineCloud* cloud, const LineGrid* grid) {
    Memory memory(Memory::bytes_of<LongSum>(grid->n));
    if (memory.failed()) return OUT_OF_MEMORY;
    LongSum* cells = memory.take<LongSum>(grid->n);
    for (int64_t i = 0; i < cloud->n; i++) {
        LongSum all, part;
        for (int64_t g = 0; g < grid->n; g++) cells[g] = LongSum();
        for (int64_t t = cloud->offsets[i]; t < cloud->offsets[i + 1]; t++)
            if (cloud->masses[t] > 0.0) cells[place_of(cloud->positions[t], grid->grid, grid->n)].add(cloud->masses[t]);
        int64_t last = 0;
        for (int64_t g = 0; g < grid->n; g++) {
            if (cells[g].high > 0.0) last = g;
            all.add(cells[g]);
        }
        int64_t level = 0;
        for (int64_t g = 0; g + 1 < grid->n; g++) {
            if (cells[g].high > 0.0) {
                part.add(cells[g]);
                level = g == last ? WHOLE : std::min(share_of(part, all), WHOLE);
            }
            grid->levels[i * grid->row + g * grid->column] = level;
        }
    }
    return DONE;
}
