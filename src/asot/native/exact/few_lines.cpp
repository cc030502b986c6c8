// A few small distributions on a line, prepared and solved at once; see src/asot/exact/few_pairs.py.
#include <algorithm>
#include <cmath>

#include "few_pairs.hpp"
#include "lines.hpp"

constexpr int64_t SHORT_VECTOR = 16, EIGHT = 8, SIXTEEN = 16;  // as in asot.exact.one_dimension
constexpr double LARGEST = 0x1p900;

namespace {

// Whether all distributions have one size and all points one mass.
bool are_aligned(const FewPairs& f, const int64_t* offsets, const double* masses) {
    bool aligned = true;
    for (int64_t i = 0; i < f.count; i++) aligned &= offsets[i + 1] - offsets[i] == offsets[1];
    for (int64_t t = 0; t < offsets[f.count]; t++) aligned &= masses[t] == masses[0];
    return aligned;
}

int32_t solve_vectors(const FewPairs& f, const double* points, int64_t n, const Runs& runs) {
    const int64_t length = n / f.count;
    const bool lies_across = length <= SHORT_VECTOR && f.power <= 64.0 && std::floor(2.0 * f.power) == 2.0 * f.power;
    const int64_t width = lies_across ? f.count + EIGHT : (length + SIXTEEN - 1) & ~(SIXTEEN - 1);
    const int64_t room = lies_across ? length * width : f.count * width;
    Memory memory(Memory::bytes_of<double>(n) + Memory::bytes_of<double>(room));
    if (memory.failed()) return OUT_OF_MEMORY;
    double *sorted = memory.take<double>(n), *x = memory.take<double>(room);
    std::copy(points, points + n, sorted);
    std::fill(x, x + room, 0.0);
    bool in_range = true;
    for (int64_t i = 0; i < f.count; i++) {
        double* own = sorted + i * length;
        std::sort(own, own + length, [](double a, double b) { return a < b; });  // the plain one is in the C++ runtime
        in_range &= own[length - 1] <= LARGEST && own[0] >= -LARGEST;
        for (int64_t t = 0; t < length; t++) x[lies_across ? t * width + i : i * width + t] = own[t];
    }
    const Quantiles q = {length, width, x, f.power, 1.0 / double(length), in_range};
    return lies_across ? asot_line_quantiles_across(&q, &runs) : asot_line_quantiles_along(&q, &runs);
}

int32_t solve_lists(const FewPairs& f, const double* points, const int64_t* offsets, const double* masses,
                    const Runs& runs) {
    const int64_t n = offsets[f.count];
    Memory memory(Memory::bytes_of<int64_t>(f.count + 1) + Memory::bytes_of<double>(2 * n));
    if (memory.failed()) return OUT_OF_MEMORY;
    int64_t* starts = memory.take<int64_t>(f.count + 1);
    double* stations = memory.take<double>(2 * n);
    const LineCloud cloud = {f.count, offsets, points, masses};
    const LineLists lists = {starts, stations};
    const int32_t code = asot_line_sort(&cloud, &lists);
    const Merged merged = {starts, stations, f.power, f.count, nullptr};
    return code != DONE ? code : asot_line_merge(&merged, &runs);
}

}  // namespace

ENTRY asot_few_lines(FewPairs* few, const double* points, const int64_t* offsets, const double* masses) {
    const Tile* tile = few->tile;
    Memory memory(Memory::bytes_of<int64_t>(tile->n));
    if (memory.failed()) return OUT_OF_MEMORY;
    int64_t* ends = memory.take<int64_t>(tile->n);
    for (int64_t t = 0; t < tile->n; t++) ends[t] = tile->columns[t] + 1, tile->steps[t] = 0;
    const Runs runs = {tile->n, tile->rows, tile->columns, ends, tile->values, tile->n, tile->stop};
    few->equal = are_aligned(*few, offsets, masses);
    return few->equal ? solve_vectors(*few, points, offsets[few->count], runs)
                      : solve_lists(*few, points, offsets, masses, runs);
}
