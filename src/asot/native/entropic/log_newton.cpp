// Pairs of histograms under one shared cost, each in the log domain: sweeps, or annealing with Newton steps. See
// asot/entropic/log_newton.py, from which the constants are.
#include "../common/records.hpp"
#include "own_kernel.hpp"
#include "semidual.hpp"

constexpr int TRIALS = 16;                 // lengths tried along a Newton step
constexpr double ANNEALING_FACTOR = 4.0;
constexpr double COARSE_TOLERANCE = 1e-2;  // marginal error at which an annealing level is left for the next
constexpr int64_t STALLED = 50;            // steps without a smaller marginal error after which only rounding is left

struct LogPairs {
    int64_t n;             // pairs to solve
    const int64_t* which;  // (n,) rows of A, B and error
    int64_t k, l;
    const double *A, *B, *M;      // (P, k), (P, l), (k, l)
    double *answers, *error;      // (n, 3) ⟨T, M⟩, the objective, the mass of T; (P,)
    double *phi, *psi;            // (n, k), (n, l) potentials of the anchors with mass
    Stop stop;
};

// Anchors with mass of both histograms of a pair.
struct Carriers {
    int64_t *rows, *columns;  // (p,), (q,)
    int64_t p, q;

    void find(const LogPairs& all, int64_t t) {
        p = q = 0;
        for (int64_t i = 0; i < all.k; i++)
            if (all.A[t * all.k + i] != 0.0) rows[p++] = i;
        for (int64_t j = 0; j < all.l; j++)
            if (all.B[t * all.l + j] != 0.0) columns[q++] = j;
    }
    // The masses of the pair, and the costs between its anchors divided by level, in rows of `stride`; padding repeats the
    // last row and column.
    void place(const LogPairs& all, int64_t t, double level, double* a, double* b, double* block, int64_t n_rows,
               int64_t stride) const {
        for (int64_t i = 0; i < p; i++) a[i] = all.A[t * all.k + rows[i]];
        for (int64_t j = 0; j < q; j++) b[j] = all.B[t * all.l + columns[j]];
        for (int64_t i = 0; i < n_rows; i++) {
            const double* row = all.M + rows[std::min(i, p - 1)] * all.l;
            for (int64_t j = 0; j < stride; j++) block[i * stride + j] = row[columns[std::min(j, q - 1)]] / level;
        }
    }
    void scatter(const LogPairs& all, int64_t o, const double* phi, const double* psi) const {
        for (int64_t i = 0; i < p; i++) all.phi[o * all.k + rows[i]] = phi[i];
        for (int64_t j = 0; j < q; j++) all.psi[o * all.l + columns[j]] = psi[j];
    }
};

// Memory of one thread for pairs of at most k × l anchors.
struct LogScratch {
  private:
    Memory memory_;
    static int64_t bytes(int64_t rows, int64_t stride, int64_t nodes) {
        return 2 * Memory::bytes_of<double>(rows * stride) + Memory::bytes_of<double>(rows * nodes) +
               Memory::bytes_of<double>(4 * stride) + 10 * Memory::bytes_of<double>(rows) +
               5 * Memory::bytes_of<double>(stride) + Memory::bytes_of<int64_t>(rows) + Memory::bytes_of<int64_t>(stride);
    }

  public:
    double *M, *T, *W, *some;                          // (rows, stride) twice, (rows, nodes), (4, stride)
    double *a, *row_sum, *wanted, *phi, *ground, *degree, *step;  // (rows,)
    double *trial_row_sum, *trial_wanted, *trial_phi;  // (rows,)
    double *b, *column_sum, *psi, *trial_psi, *scale;  // (stride,)
    Carriers carriers;

    LogScratch(int64_t k, int64_t l) : memory_(bytes(padded(k, 4), padded(l, LANES), padded(k, LANES))) {
        if (memory_.failed()) return;
        const int64_t rows = padded(k, 4), stride = padded(l, LANES);
        for (double** each : {&M, &T}) *each = memory_.take<double>(rows * stride);
        W = memory_.take<double>(rows * padded(k, LANES));
        some = memory_.take<double>(4 * stride);
        for (double** each : {&a, &row_sum, &wanted, &phi, &ground, &degree, &step, &trial_row_sum, &trial_wanted,
                              &trial_phi})
            *each = memory_.take<double>(rows);
        for (double** each : {&b, &column_sum, &psi, &trial_psi, &scale}) *each = memory_.take<double>(stride);
        carriers.rows = memory_.take<int64_t>(rows), carriers.columns = memory_.take<int64_t>(stride);
        std::fill_n(W, rows * padded(k, LANES), 0.0);  // what is below the diagonal is read, though it has no effect
    }
    bool failed() const { return memory_.failed(); }
};

// The best of some lengths along a Newton step; halved until it raises the semi-dual or lowers the marginal error. One
// that its limit made too short is followed by steps twice as long, while they are kept.
static double try_lengths(const Semidual& problem, LogScratch& ws, SemidualPlan& plan, double error, double largest_move) {
    double height = problem.height(plan), length = 1.0, factor = 0.5;
    const SemidualPlan trial = {ws.T, ws.trial_row_sum, ws.trial_wanted, ws.column_sum, ws.trial_phi, ws.trial_psi};
    for (int attempt = 0; attempt < TRIALS; attempt++) {
        for (int64_t i = 0; i < problem.p; i++) trial.phi[i] = plan.phi[i] + length * ws.step[i];
        const double trial_error = problem.fit_columns(trial), trial_height = problem.height(trial);
        const bool better = trial_error < 0.9 * error || trial_height > height + 1e-13 * std::fabs(height);
        if (attempt == 0 && better && largest_move > 0.5 * LARGEST_MOVE && trial_error > 0.5 * error)
            factor = 2.0;  // blocks that hardly touch may have many ε to go before any mass moves
        if (better) {
            std::copy_n(trial.phi, problem.p, plan.phi);
            std::copy_n(trial.psi, problem.stride, plan.psi);
            std::copy_n(trial.row_sum, problem.p, plan.row_sum);
            error = trial_error, height = trial_height;
        }
        if (better != (factor > 1.0)) break;
        length *= factor;
    }
    return error;
}

// From φ, sweep and Newton in turn until the marginal error is at most `tol`. Takes at least one step: an error below
// `tol` must shrink with ε, or it would have a long way to go later. The plan's column sums are exact. Returns the steps.
static int64_t climb(const Semidual& problem, LogScratch& ws, double tol, int64_t max_steps, Stop stop, double& error) {
    SemidualPlan plan = {ws.T, ws.row_sum, ws.wanted, ws.column_sum, ws.phi, ws.psi};
    const Network net = {problem.p, padded(problem.p, LANES), ws.W, ws.ground, ws.degree, ws.step};
    error = problem.fit_columns(plan);
    int64_t steps = 0, best_at = 0;
    double best = error;
    while ((error > tol || steps == 0) && steps < max_steps && steps - best_at < STALLED && *stop == 0) {
        steps++;
        problem.fit_rows(plan);
        error = problem.fit_columns(plan);
        if (error > tol) {
            const double largest_move = problem.newton_step(plan, net, ws.some);
            error = try_lengths(problem, ws, plan, error, largest_move);
        }
        if (error < best) best = error, best_at = steps;
    }
    return steps;
}

// Solve from scratch at any ε: levels of falling ε, coarse but for the last. Returns the steps.
static int64_t anneal(const LogPairs& all, int64_t t, LogScratch& ws, Semidual& problem, double sigma, double tol,
                      int64_t max_steps, double& error) {
    double most = 0.0, level = 1.0;
    ws.carriers.place(all, t, 1.0, ws.a, ws.b, ws.M, problem.p, problem.stride);
    for (int64_t o = 0; o < problem.p * problem.stride; o++) most = std::max(most, ws.M[o]);
    while (most / level > ANNEALING_FACTOR) level *= ANNEALING_FACTOR;
    std::fill_n(ws.phi, problem.p, 0.0);
    for (int64_t steps = 0;; level /= ANNEALING_FACTOR) {
        // At `level` times ε the potentials in units of that ε are φ / level.
        for (int64_t i = 0; i < problem.p; i++) ws.phi[i] /= level;
        ws.carriers.place(all, t, level, ws.a, ws.b, ws.M, problem.p, problem.stride);
        problem.sigma = sigma * level;
        steps += climb(problem, ws, level == 1.0 ? tol : COARSE_TOLERANCE, max_steps - steps, all.stop, error);
        if (level == 1.0) return steps;
        for (int64_t i = 0; i < problem.p; i++) ws.phi[i] *= level;
    }
}

// Solve pairs until their marginal error is at most `tol`, or n_steps (P,) is `max_steps`.
ENTRY asot_anneal_pairs(const LogPairs* all, double sigma, double tol, int64_t max_steps, int32_t* n_steps) {
    LogScratch ws(all->k, all->l);
    if (ws.failed()) return OUT_OF_MEMORY;
    for (int64_t o = 0; o < all->n && *all->stop == 0; o++) {
        const int64_t t = all->which[o];
        Carriers& here = ws.carriers;
        here.find(*all, t);
        Semidual problem = {here.p, here.q, padded(here.q, LANES), ws.a, ws.b, ws.M, sigma, ws.scale};
        n_steps[t] += int32_t(anneal(*all, t, ws, problem, sigma, tol, max_steps - n_steps[t], all->error[t]));
        problem.values(ws.phi, ws.psi, all->answers + 3 * o);
        here.scatter(*all, o, ws.phi, ws.psi);
    }
    return DONE;
}

// Exactly `count` iterations of pairs. The first update of φ needs first (k,), log Σ_j exp(-M_ij), if it starts at V = 1:
// that counts every column, also those without mass. With at_target, V = B.
ENTRY asot_sweep_pairs(const LogPairs* all, const double* first, int64_t at_target, int64_t count) {
    PairScratch own(all->k, all->l);
    LogScratch ws(all->k, all->l);
    if (own.failed() || ws.failed()) return OUT_OF_MEMORY;
    for (int64_t o = 0; o < all->n && *all->stop == 0; o++) {
        const int64_t t = all->which[o];
        Carriers& here = ws.carriers;
        here.find(*all, t);
        OwnKernel kernel(own, here.p, here.q, 1.0);
        std::fill_n(own.a, kernel.rows, 0.0);
        std::fill_n(own.b, kernel.stride, 0.0);
        here.place(*all, t, 1.0, own.a, own.b, own.distance, kernel.rows, kernel.stride);
        if (at_target) {
            for (int64_t j = 0; j < kernel.stride; j++) own.psi[j] = std::log(own.b[std::min(j, here.q - 1)]);
            kernel.fit_rows();
        } else {
            for (int64_t i = 0; i < here.p; i++) own.phi[i] = std::log(own.a[i]) - first[here.rows[i]];
        }
        kernel.fit_columns();
        kernel.advance(count - 1, all->stop);
        double value;
        kernel.measure(value, all->error[t]);
        for (int64_t i = 0; i < here.p; i++) ws.phi[i] = own.phi[i] + std::log(own.u[i]);
        for (int64_t j = 0; j < kernel.stride; j++) {
            const int64_t real = std::min(j, here.q - 1);
            ws.psi[j] = own.psi[real] + std::log(own.v[real]);
        }
        const Semidual problem = {here.p, here.q, kernel.stride, own.a, own.b, own.distance, 0.0, ws.scale};
        problem.values(ws.phi, ws.psi, all->answers + 3 * o);
        here.scatter(*all, o, ws.phi, ws.psi);
    }
    return DONE;
}
