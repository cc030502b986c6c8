// From products of points to their distances; see src/asot/exact/distance_table.py.
#include "../common/entry.hpp"
#include "../common/lanes.hpp"

constexpr double LEFT = 0.05;  // share of ‖x‖² + ‖y‖² below which a squared distance has lost digits

struct ProductBlock {
    int64_t rows, columns, d;
    const double *x, *y;                    // (rows, d), (columns, d)
    const double *x_squares, *y_squares;    // (rows,), (columns,)
    double* products;                       // (rows, columns) in: ⟨x, y⟩, out: distances
};

// The squared distance of two points, summed from their coordinates.
INLINE double squared_distance(const double* x, const double* y, int64_t d) {
    double total = 0.0;
    for (int64_t c = 0; c < d; c++) total += (x[c] - y[c]) * (x[c] - y[c]);
    return total;
}

ENTRY asot_finish_distances(const ProductBlock* block) {
    const ProductBlock& b = *block;
    for (int64_t i = 0; i < b.rows; i++) {
        double* row = b.products + i * b.columns;
        const double own = b.x_squares[i];
        for (int64_t j = 0; j < b.columns; j++) row[j] = (own + b.y_squares[j]) - 2.0 * row[j];
        for (int64_t j = 0; j < b.columns; j++)
            if (row[j] < LEFT * (own + b.y_squares[j])) row[j] = squared_distance(b.x + i * b.d, b.y + j * b.d, b.d);
        for (int64_t j = 0; j < b.columns; j++) row[j] = std::sqrt(row[j]);
    }
    return DONE;
}
