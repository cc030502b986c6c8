// Costs between the distinct points of some rows and of some columns, in float: what relaxed bounds are made of.
//
// Rows and columns share most of their points where they come from a vocabulary, so that a block of costs is computed
// once for all pairs of them. Every entry is at most (1 + 2^-22) times the true cost.
#pragma once
#include "../common/metrics.hpp"

constexpr double TINY = 1e-30;  // smaller costs count as 0: as float they would have fewer digits than the others
constexpr float TINY_SQUARE = 1e-34f;  // smaller squared distances count as 0, since the products they are made of may
                                       // have been too small for float
constexpr int64_t CHUNK = 32;  // points of the columns whose distances are computed at a time
constexpr int64_t SIX = 6;     // or whose products are

// What is taken of a distance: as in asot.jit.costs.
enum Transform : int64_t { PLAIN, SQUARE, HALF_SQUARE, ARC };

// The collection: who has which distinct point, and with what mass.
struct RelaxedPoints {
    int64_t n_points, d;
    const int64_t* offsets;         // (N + 1,)
    const int64_t *names, *masses;  // (nnz,) of points, ascending within a distribution; total 2^60 there
    const double* points;           // (V, d) in the units of the ground metric
    const float *near_center, *squares;  // (V, d), (V,) for the Euclidean metric: points around their center, and their
                                         // squared lengths less what rounding can add to a squared distance; else null
    const double* table;            // (V, V) of distances, for costs without a kernel; else null
    const float* prices;            // (V,) what a unit of mass costs that stays unmatched, to the power; else inf
};

// What shipping a unit of mass costs: a power of the ground distance.
struct RelaxedCost {
    int64_t code;  // of the ground metric
    double order;
    int64_t transform;
    double power, error;  // by which a computed distance may be off in absolute terms
    int64_t cancels;      // common mass may be left out: the cost is a metric
};

INLINE int64_t whole_floats(int64_t n) { return (n + FLOATS - 1) & ~(FLOATS - 1); }

// Distances (count,) become costs.
static void to_costs(const RelaxedCost& cost, const double* wide, int64_t count, float* costs) {
    if (cost.power == 1.0 && cost.error == 0.0) {
        for (int64_t t = 0; t < count; t++) costs[t] = float(wide[t] > TINY ? wide[t] : 0.0);
        return;
    }
    for (int64_t t = 0; t < count; t++) {
        const double gap = wide[t] - cost.error;
        double value = gap > 0.0 ? gap : 0.0;
        if (cost.power == 2.0)
            value *= value;
        else if (cost.power != 1.0)
            value = std::pow(value, cost.power);
        costs[t] = float(value > TINY ? value : 0.0);
    }
}

// Squared Euclidean distances less `more` (count,) become powers of what is taken of the distance. count is a multiple of
// 16.
static void to_powers(const RelaxedCost& cost, float* costs, int64_t count, float more) {
    const bool is_plain = cost.transform == PLAIN && cost.power == 1.0;
    for (int64_t t = 0; t < count; t += FLOATS) {
        Floats square = load(costs + t) + spread(more);
        square = select_less(spread(TINY_SQUARE), square, square, spread(0.0f));
        store(costs + t, is_plain ? root(square) : square);
    }
    if (is_plain) return;
    if (cost.transform == ARC) {
        for (int64_t t = 0; t < count; t++) {
            const double half = 0.5 * std::sqrt(double(costs[t]));
            costs[t] = float(std::pow(2.0 * std::asin(half < 1.0 ? half : 1.0), cost.power));
        }
        return;
    }
    const float factor = cost.transform == HALF_SQUARE ? 0.5f : 1.0f;
    const double power = cost.transform == PLAIN ? 0.5 * cost.power : cost.power;
    for (int64_t t = 0; t < count; t++) costs[t] *= factor;
    if (power == 1.0) return;
    for (int64_t t = 0; t < count; t++) costs[t] = float(std::pow(double(costs[t]), power));
}

// Costs between the points of some columns (v) and of some rows (x), row after row, in memory for the largest block.
class CostBlock {
  public:
    int64_t n_v, stride;  // the block that was filled last is (n_v, stride)
    float* costs;

    CostBlock(const RelaxedPoints& h, const RelaxedCost& cost, int64_t most_x, int64_t most_v)
        : h_(h), cost_(cost), memory_(bytes(h, most_x, most_v)) {
        if (memory_.failed()) return;
        const int64_t most = whole_floats(most_x);
        costs = memory_.take<float>((most_v + SIX) * most);
        if (h.table != nullptr) {
            wide_ = memory_.take<double>(most);
        } else if (h.near_center != nullptr) {
            short_y_ = memory_.take<float>(h.d * most), squares_ = memory_.take<float>(most);
            short_x_ = memory_.take<float>(SIX * h.d);
        } else {
            y_ = memory_.take<double>(width_of(h) * most), x_ = memory_.take<double>((CHUNK + 1) * width_of(h));
            wide_ = memory_.take<double>((CHUNK + 1) * most);
        }
    }
    bool failed() const { return memory_.failed(); }

    // Between the points vs (m,) of the columns and xs (n,) of the rows.
    void fill(const int64_t* xs, int64_t n, const int64_t* vs, int64_t m, Stop stop) {
        n_v = m, stride = whole_floats(n);
        if (h_.table != nullptr)
            look_up(xs, n, vs);
        else if (h_.near_center != nullptr)
            fill_short(xs, n, vs, stop);
        else
            fill_wide(xs, n, vs, stop);
    }

  private:
    const RelaxedPoints& h_;
    const RelaxedCost& cost_;
    Memory memory_;
    double *wide_, *x_, *y_;
    float *short_x_, *short_y_, *squares_;

    static int64_t width_of(const RelaxedPoints& h) { return (h.d + 3) & ~int64_t(3); }

    static int64_t bytes(const RelaxedPoints& h, int64_t most_x, int64_t most_v) {
        const int64_t most = whole_floats(most_x), costs = Memory::bytes_of<float>((most_v + SIX) * most);
        if (h.table != nullptr) return costs + Memory::bytes_of<double>(most);
        if (h.near_center != nullptr)
            return costs + Memory::bytes_of<float>(h.d * most) + Memory::bytes_of<float>(most) +
                   Memory::bytes_of<float>(SIX * h.d);
        return costs + Memory::bytes_of<double>(width_of(h) * most) +
               Memory::bytes_of<double>((CHUNK + 1) * width_of(h)) + Memory::bytes_of<double>((CHUNK + 1) * most);
    }

    void look_up(const int64_t* xs, int64_t n, const int64_t* vs) {
        for (int64_t j = n; j < stride; j++) wide_[j] = 0.0;
        for (int64_t i = 0; i < n_v; i++) {
            const double* row = h_.table + vs[i] * h_.n_points;
            for (int64_t j = 0; j < n; j++) wide_[j] = row[xs[j]];
            to_costs(cost_, wide_, stride, costs + i * stride);
        }
    }

    // By the metric's own kernel, in double.
    void fill_wide(const int64_t* xs, int64_t n, const int64_t* vs, Stop stop) {
        const int64_t width = width_of(h_);
        for (int64_t c = 0; c < width; c++)
            for (int64_t j = 0; j < stride; j++)
                y_[c * stride + j] = c < h_.d && j < n ? h_.points[xs[j] * h_.d + c] : 0.0;
        for (int64_t t = 0; t < (CHUNK + 1) * width; t++) x_[t] = 0.0;
        for (int64_t start = 0; start < n_v && *stop == 0; start += CHUNK) {
            const int64_t count = n_v - start < CHUNK ? n_v - start : CHUNK;
            for (int64_t i = 0; i < count; i++)
                for (int64_t c = 0; c < h_.d; c++) x_[i * width + c] = h_.points[vs[start + i] * h_.d + c];
            fill_distances(cost_.code, cost_.order, x_, y_, count, stride, width, wide_, stop);
            to_costs(cost_, wide_, count * stride, costs + start * stride);
        }
    }

    // Euclidean: |x|^2 + |v|^2 - 2 x·v, six points of the columns and sixteen of the rows at a time.
    void fill_short(const int64_t* xs, int64_t n, const int64_t* vs, Stop stop) {
        const int64_t d = h_.d;
        for (int64_t j = 0; j < n; j++) {
            const float* point = h_.near_center + xs[j] * d;
            for (int64_t c = 0; c < d; c++) short_y_[c * stride + j] = -2.0f * point[c];
            squares_[j] = h_.squares[xs[j]];
        }
        for (int64_t j = n; j < stride; j++) {
            for (int64_t c = 0; c < d; c++) short_y_[c * stride + j] = 0.0f;
            squares_[j] = 0.0f;
        }
        for (int64_t start = 0; start < n_v && *stop == 0; start += SIX) {
            for (int64_t i = 0; i < SIX; i++) {
                const float* point = h_.near_center + vs[start + i < n_v ? start + i : n_v - 1] * d;
                for (int64_t c = 0; c < d; c++) short_x_[SIX * c + i] = point[c];
            }
            for (int64_t j = 0; j < stride; j += FLOATS) fill_six(costs + start * stride + j, j);
            for (int64_t i = start; i < start + SIX && i < n_v; i++)
                to_powers(cost_, costs + i * stride, stride, h_.squares[vs[i]]);
        }
    }

    INLINE void fill_six(float* out, int64_t j) const {
        Floats s0 = load(squares_ + j), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
        const float *x = short_x_, *y = short_y_ + j;
        for (int64_t c = 0; c < h_.d; c++, x += SIX, y += stride) {
            const Floats column = load(y);
            s0 = fused(spread(x[0]), column, s0);
            s1 = fused(spread(x[1]), column, s1);
            s2 = fused(spread(x[2]), column, s2);
            s3 = fused(spread(x[3]), column, s3);
            s4 = fused(spread(x[4]), column, s4);
            s5 = fused(spread(x[5]), column, s5);
        }
        store(out, s0);
        store(out + stride, s1);
        store(out + 2 * stride, s2);
        store(out + 3 * stride, s3);
        store(out + 4 * stride, s4);
        store(out + 5 * stride, s5);
    }
};
