// A collection of metric measure spaces, and what a pair of them has in common with an ordinary transport problem.
#pragma once
#include "../common/records.hpp"
#include "../exact/own_cost.hpp"

struct GromovSpaces {
    const int64_t* start;      // (N + 1,) where the points of each space begin
    const int64_t* matrix_at;  // (N,) where its distances begin
    const double* distance;    // flat, (n_i, n_i) each
    const double* mass;        // (points,), or null: uniform
    const double* quantiles;   // (points, bins) sorted distances of each point to its space, averaged over bins
    const double* features;    // (points, dim), or null
    int64_t bins, dim, most;   // most: points of the largest space
    double p, alpha;           // alpha: share of the distances, 1 without features
    int64_t starts;            // bits: 1 from the plan of the third lower bound, 2 from the product
    int64_t max_steps;
    double tolerance;          // a step that gains less than this share ends the descent
};

struct GromovAnswers {
    double* lower;      // (n,) proven, of the energy
    double* first;      // (n,) energy of the third bound's own plan
    double* gap;        // (n,) |difference| of the energies that the starts led to; 0 for one start
    double* plan;       // (n, m) best of the last pair, or null
};

// What travels, per point, because masses of total 1 are rounded.
constexpr double CRUMB = 1e-17;

struct Arc {
    int32_t source, sink;
    double mass;
};

INLINE double powered(double x, double p) { return p == 2.0 ? x * x : p == 1.0 ? x : std::pow(x, p); }
INLINE double mass_of(const double* mass, int64_t i, int64_t n) { return mass == nullptr ? 1.0 / double(n) : mass[i]; }
