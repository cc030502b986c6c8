// Entropic transport in the log domain, one warp per pair: asot/entropic/log_newton.py, laid out for a warp. The
// mathematics and the reasons are told there; here is who does what.
//
// Lanes own rows (lane, lane + 32, …), so that the plan, stored column by column, is read and written side by side.
// Columns are taken eight at a time: the sums over the warp that they need then cost 17 shuffles for all eight.
// Newton's elimination takes eight rows at a time and looks back: a row of W is summed from the plan and from all rows
// before it in registers, and is stored once. All its terms are positive, as on the CPU.
//
// Rows are padded to whole eights with rows of no mass (φ = NOTHING), columns with columns of no mass: both add zeros.
// Scalars are the same in all lanes, so branches on them never part a warp.
//
// Compiled with FIXED: 1 runs exactly max_iter sweeps, 0 anneals and takes Newton steps until the goal is met.
//               NEAR_SHARED, FAR_SHARED: whether vectors, and plan with W, lie in shared memory or in `scratch`.
//               WARPS: warps of a multiprocessor that should find room in its registers.

constexpr double LARGEST_MOVE = 4.0, ANNEALING_FACTOR = 4.0, COARSE_TOLERANCE = 1e-2, NOTHING = -1e300;
constexpr int TRIALS = 16, STALLED = 50;

// The lane's own of first … end - 1, and all of 0 … end - 1. Not unrolled: the code must stay in the instruction cache.
#define OWN(i, first, end) _Pragma("unroll 1") for (int i = (first) + threadIdx.x; i < (end); i += 32)
#define ALL(j, end) _Pragma("unroll 1") for (int j = 0; j < (end); j++)

struct Problem {
    const double* M;                  // (l, k): C / ε, transposed
    int k;
    double shrink;                    // 1 / level: costs are M * shrink
    int p, q, padded;                 // rows and columns that carry mass; p, rounded up to a multiple of 8
    int *rows, *columns;              // which anchors they are
    double *a, *phi, *row_sum, *trial, *trial_row_sum, *step, *ground, *inverse;  // (padded,)
    double *b, *psi, *trial_psi, *weight;                                         // (q,) and up to a multiple of 8
    double* few;                      // (8, padded): eight columns of a plan that is not kept
    double* plan;                     // (q, padded): its columns, each divided by its largest entry
    double* edges;                    // W, eight rows at a time, each from the first of the eight on
};

// ------------------------------------------------------------------------------------------------ sweeps

// ψ_j ← log b_j - log Σ_i exp(φ_i - M_ij). Fills the row sums of the plan and returns the marginal error Σ|T1 - a|.
// A plan that is kept comes with weights 1/b_j for its columns as they are stored.
template <bool keep>
DEVICE double fit_columns(const Problem& x, const double* phi, double* psi, double* row_sum) {
    const int lane = threadIdx.x;
    OWN(i, 0, x.padded) row_sum[i] = 0.0;
    for (int j = 0; j < x.q; j += 8) {
        double* plan = keep ? x.plan + j * x.padded : x.few;
        int column[8];
        double top[8], total[8], factor[8];
        EACH(c) {
            column[c] = x.columns[j + c] * x.k;
            top[c] = NOTHING;
            total[c] = 0.0;
        }
        OWN(i, 0, x.padded) {
            const double own = phi[i];
            const int row = x.rows[i];
            EACH(c) top[c] = larger(top[c], own - x.shrink * x.M[column[c] + row]);
        }
        const double own_top = fold_max(top, lane);
        spread(own_top, top);
        OWN(i, 0, x.padded) {
            const double own = phi[i];
            const int row = x.rows[i];
            EACH(c) {
                const double mass = exp(own - x.shrink * x.M[column[c] + row] - top[c]);
                plan[c * x.padded + i] = mass;
                total[c] += mass;
            }
        }
        const double own_total = fold_sum(total, lane);
        const double own_b = x.b[j + lane / 4], own_factor = own_b / own_total;
        if (lane % 4 == 0) {
            psi[j + lane / 4] = log(own_b) - own_top - log(own_total);
            if (keep) x.weight[j + lane / 4] = own_factor / own_total;
        }
        spread(own_factor, factor);
        OWN(i, 0, x.padded) {
            double sum = row_sum[i];
            EACH(c) sum += factor[c] * plan[c * x.padded + i];
            row_sum[i] = sum;
        }
    }
    double error = 0.0;
    OWN(i, 0, x.padded) error += fabs(row_sum[i] - x.a[i]);
    __syncwarp();
    return warp_sum(error);
}

// log Σ_j exp(ψ_j - M_ij).
DEVICE double log_sum_of_row(const Problem& x, int i) {
    const double* M = x.M + x.rows[i];
    double top = NOTHING, total = 0.0;
    ALL(j, x.q) top = larger(top, x.psi[j] - x.shrink * M[x.columns[j] * x.k]);
    ALL(j, x.q) total += exp(x.psi[j] - x.shrink * M[x.columns[j] * x.k] - top);
    return top + log(total);
}

// Sinkhorn's update of all rows, from the row sums of the present plan where these did not vanish.
DEVICE void fit_rows(const Problem& x) {
    OWN(i, 0, x.p) {
        if (x.row_sum[i] > 1e-290) x.phi[i] += log(x.a[i]) - log(x.row_sum[i]);
        else x.phi[i] = log(x.a[i]) - log_sum_of_row(x, i);
    }
    __syncwarp();  // ψ has been read, and may now be written
}

// Exactly `count` iterations, rows first, from V = 1 or V = b. The first update from V = 1 counts every column, also
// those without mass: it is the same for all pairs, and is given as `log_sums` (k,).
DEVICE double sweeps(const Problem& x, int count, bool start_at_target, const double* log_sums) {
    OWN(j, 0, x.q) x.psi[j] = log(x.b[j]);
    __syncwarp();
    OWN(i, 0, x.p)
        x.phi[i] = log(x.a[i]) - (start_at_target ? log_sum_of_row(x, i) : log_sums[x.rows[i]]);
    __syncwarp();
    double error = 0.0;
    for (int iteration = 0; iteration < count; iteration++) {
        if (iteration > 0) fit_rows(x);
        error = fit_columns<false>(x, x.phi, x.psi, x.row_sum);
    }
    return error;
}

// ------------------------------------------------------------------------------------------------ Newton

// Eight rows of W from v (a multiple of 8) on. Row v + r, column k ≥ v, is at [r * (padded - v) + k - v].
DEVICE double* edges_from(const Problem& x, int v) { return x.edges + v / 2 * (2 * x.padded - v + 8); }

// Two numbers by each load: v is even, and so are all widths.
DEVICE void add_eight(double (&sum)[8], const double* values, double factor) {
    _Pragma("unroll") for (int r = 0; r < 8; r += 2) {
        const double2 two = *(const double2*)(values + r);
        sum[r] += two.x * factor;
        sum[r + 1] += two.y * factor;
    }
}

// Eliminate the nodes v … v + 7 of the graph with edges W (see `_newton_direction` of sinkhorn_log.py).
DEVICE void eliminate(const Problem& x, int v) {
    const int lane = threadIdx.x, width = x.padded - v;
    double* rows = edges_from(x, v);
    double beyond[8] = {0.0};  // weight of the edges from each of the eight nodes to all nodes after them
    OWN(k, v, x.padded) {
        double sum[8] = {0.0};
        for (int j = 0; j < x.q; j++) {
            const double* column = x.plan + j * x.padded;
            const double own = column[k] * x.weight[j];
            add_eight(sum, column + v, own);
        }
        for (int u = 0; u < v; u += 8) {
            const double* earlier = edges_from(x, u) - u;
            for (int s = 0; s < 8; s++, earlier += x.padded - u) {
                const double own = earlier[k] * x.inverse[u + s];
                add_eight(sum, earlier + v, own);
            }
        }
        EACH(r) {
            rows[r * width + k - v] = sum[r];
            if (k >= v + 8) beyond[r] += sum[r];
        }
    }
    spread(fold_sum(beyond, lane), beyond);
    __syncwarp();
    // Among themselves: every lane does the same on the same triangle, whose entries end as shares of their degree.
    double share[8][8], ground[8], residual[8], inverse[8];
    EACH(r) {
        ground[r] = x.ground[v + r];
        residual[r] = x.step[v + r];
        EACH_AFTER(r, c) share[r][c] = rows[r * width + c];
    }
    EACH(r) {
        double degree = ground[r] + 1e-300 + beyond[r];
        EACH_AFTER(r, c) degree += share[r][c];
        inverse[r] = 1.0 / degree;
        EACH_AFTER(r, c) {
            const double part = share[r][c] * inverse[r];
            ground[c] += part * ground[r];
            residual[c] += part * residual[r];
            beyond[c] += part * beyond[r];
            EACH_AFTER(c, d) share[c][d] += part * share[r][d];
            share[r][c] = part;
        }
    }
    __syncwarp();
    // Every lane its own columns of the eight rows. Left of the diagonal, entries are never looked at.
    OWN(k, v, x.padded) {
        double edge[8], pushed = 0.0, tied = 0.0;
        EACH(r) edge[r] = rows[r * width + k - v];
        EACH(r) {
            pushed += edge[r] * inverse[r] * residual[r];
            tied += edge[r] * inverse[r] * ground[r];
            EACH_AFTER(r, c) edge[c] += share[r][c] * edge[r];
            rows[r * width + k - v] = edge[r];
        }
        if (k >= v + 8) x.step[k] += pushed, x.ground[k] += tied;
    }
    EACH(r) if (lane == r) x.step[v + r] = residual[r], x.inverse[v + r] = inverse[r];
    __syncwarp();
}

// Solve (L + diag|r| / LARGEST_MOVE) step = r with r = a - T1, L = diag(T1) - T diag(1/b) Tᵀ. Returns max |step|.
DEVICE double newton_direction(const Problem& x) {
    const int lane = threadIdx.x;
    OWN(i, 0, x.padded) {
        x.step[i] = x.a[i] - x.row_sum[i];
        x.ground[i] = fabs(x.step[i]) / LARGEST_MOVE;
    }
    __syncwarp();
    for (int v = 0; v < x.padded; v += 8) eliminate(x, v);
    double largest = 0.0;
    for (int v = x.padded - 8; v >= 0; v -= 8) {
        const double* rows = edges_from(x, v);
        const int width = x.padded - v;
        double sum[8] = {0.0}, step[8];
        OWN(k, v + 8, x.padded) EACH(r) sum[r] += rows[r * width + k - v] * x.step[k];
        spread(fold_sum(sum, lane), sum);
        _Pragma("unroll") for (int r = 7; r >= 0; r--) {
            double total = x.step[v + r] + sum[r];
            EACH_AFTER(r, c) total += rows[r * width + c] * step[c];
            step[r] = total * x.inverse[v + r];
            largest = larger(largest, fabs(step[r]));
        }
        __syncwarp();
        EACH(r) if (lane == r) x.step[v + r] = step[r];
        __syncwarp();
    }
    return largest;
}

DEVICE double semidual(const Problem& x, const double* phi, const double* psi) {
    double height = 0.0;
    OWN(i, 0, x.p) height += x.a[i] * phi[i];
    OWN(j, 0, x.q) height += x.b[j] * psi[j];
    return warp_sum(height);
}

// From φ, sweep and Newton in turn until the marginal error is at most `goal` (see `climb` of sinkhorn_log.py).
DEVICE int climb(const Problem& x, double goal, int max_steps, double* marginal_error) {
    double best = 0.0;
    for (int steps = 0, best_at = 0;; steps++) {
        if (steps > 0) fit_rows(x);
        double error = fit_columns<true>(x, x.phi, x.psi, x.row_sum);
        if (steps > 0 && error > goal) {
            double height = semidual(x, x.phi, x.psi), length = 1.0, factor = 0.5;
            const double largest = newton_direction(x);
            for (int attempt = 0; attempt < TRIALS; attempt++) {
                OWN(i, 0, x.padded)
                    x.trial[i] = i < x.p ? x.phi[i] + length * x.step[i] : NOTHING;
                const double trial_error = fit_columns<false>(x, x.trial, x.trial_psi, x.trial_row_sum);
                const double trial_height = semidual(x, x.trial, x.trial_psi);
                const bool better = trial_error < 0.9 * error || trial_height > height + 1e-13 * fabs(height);
                if (attempt == 0 && better && largest > 0.5 * LARGEST_MOVE && trial_error > 0.5 * error)
                    factor = 2.0;  // blocks that hardly touch may have many ε to go before any mass moves
                if (better) {
                    OWN(i, 0, x.p) x.phi[i] = x.trial[i], x.row_sum[i] = x.trial_row_sum[i];
                    OWN(j, 0, x.q) x.psi[j] = x.trial_psi[j];
                    error = trial_error, height = trial_height;
                }
                __syncwarp();
                if (better != (factor > 1.0)) break;
                length *= factor;
            }
        }
        if (steps == 0 || error < best) best = error, best_at = steps;
        if ((steps > 0 && error <= goal) || steps >= max_steps || steps - best_at >= STALLED) {
            *marginal_error = error;
            return steps;
        }
    }
}

// From nothing, at any ε: levels of falling ε, coarse but for the last.
DEVICE int anneal(Problem& x, double goal, int max_steps, double* marginal_error) {
    double largest = 0.0, level = 1.0;
    OWN(i, 0, x.p) {
        x.phi[i] = 0.0;
        ALL(j, x.q) largest = larger(largest, x.M[x.columns[j] * x.k + x.rows[i]]);
    }
    largest = warp_max(largest);
    while (largest / level > ANNEALING_FACTOR) level *= ANNEALING_FACTOR;
    int steps = 0;
    for (;; level /= ANNEALING_FACTOR) {
        x.shrink = 1.0 / level;  // levels are powers of 4: no rounding here or below
        OWN(i, 0, x.p) x.phi[i] /= level;
        steps += climb(x, level == 1.0 ? goal : COARSE_TOLERANCE, max_steps - steps, marginal_error);
        if (level == 1.0) return steps;
        OWN(i, 0, x.p) x.phi[i] *= level;
    }
}

// ------------------------------------------------------------------------------------------------ pairs

// In units of ε: the transport cost ⟨T, M⟩ and the regularized value ⟨T, M⟩ - H(T), H(T) = -Σ T (log T - 1).
DEVICE void plan_values(const Problem& x, double* transport, double* regularized) {
    double both[2] = {0.0, 0.0};
    OWN(i, 0, x.p)
        ALL(j, x.q) {
            const double cost = x.M[x.columns[j] * x.k + x.rows[i]], log_mass = x.phi[i] + x.psi[j] - cost;
            const double mass = exp(log_mass);
            both[0] += mass * cost;
            both[1] += mass * (cost + log_mass - 1.0);
        }
    *transport = warp_sum(both[0]);
    *regularized = warp_sum(both[1]);
}

// List the anchors of a histogram that carry mass, up to a multiple of 8 with anchors of none. Returns how many do.
DEVICE int list_masses(const double* histogram, int n, int* anchors, double* masses) {
    const int lane = threadIdx.x;
    int count = 0;
    _Pragma("unroll 1") for (int first = 0; first < n; first += 32) {
        const double mass = first + lane < n ? histogram[first + lane] : 0.0;
        const u32 votes = __ballot_sync(ALL_LANES, mass != 0.0);
        const int place = count + count_set(votes & ((1u << lane) - 1));
        if (mass != 0.0) anchors[place] = first + lane, masses[place] = mass;
        count += count_set(votes);
    }
    if (count + lane < (count + 7) / 8 * 8) anchors[count + lane] = 0, masses[count + lane] = 0.0;
    return count;
}

// Lay out the vectors for at most so many rows and columns, both multiples of 8.
DEVICE void place_vectors(Problem& x, double* memory, int most_rows, int most_columns) {
    const int p = most_rows, q = most_columns;
    x.a = memory, x.phi = x.a + p, x.row_sum = x.phi + p, x.trial = x.row_sum + p, x.trial_row_sum = x.trial + p;
    x.step = x.trial_row_sum + p, x.ground = x.step + p, x.inverse = x.ground + p;
    x.b = x.inverse + p, x.psi = x.b + q, x.trial_psi = x.psi + q, x.weight = x.trial_psi + q, x.few = x.weight + q;
    x.rows = (int*)(x.few + 8 * p), x.columns = x.rows + p;
}

// List the pairs of a tile that are open: open_pairs[0 … n_open - 1], in any order.
extern "C" __global__ void list_open(i64 count, const i8* __restrict__ status, int* open_pairs, int* n_open) {
    const int lane = threadIdx.x & 31;
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x - lane; first < count; first += step) {
        const bool open = first + lane < count && status[first + lane] == OPEN;
        const u32 votes = __ballot_sync(ALL_LANES, open);
        if (votes == 0) continue;
        int place = 0;
        if (lane == 0) place = atomicAdd(n_open, count_set(votes));
        place = __shfl_sync(ALL_LANES, place, 0) + count_set(votes & ((1u << lane) - 1));
        if (open) open_pairs[place] = (int)(first + lane);
    }
}

// Solve the listed pairs; warps (blocks of 32 threads) take one after another. Other pairs are left as they are.
extern "C" __global__ void __launch_bounds__(32, WARPS) solve_open(
    int kind, i64 n_rows, i64 n_columns, const i64* __restrict__ listed, i64 start,
    const int* __restrict__ open_pairs, const int* __restrict__ n_open, int* n_taken,
    const double* __restrict__ A, const double* __restrict__ B, const double* __restrict__ M, int k, int l,
    const double* __restrict__ log_sums, double reg, int max_iter, double tol, double range, double rounding,
    int regularized, int start_at_target, int most_rows, int most_columns, i64 near_size, i64 scratch_size,
    double* scratch, double* __restrict__ values, i8* __restrict__ status, int* __restrict__ n_iter,
    double* __restrict__ marginal_error)
{
    DYNAMIC_SHARED(shared);
    const Pairs pairs = {kind, n_rows, n_columns, listed};
    const int lane = threadIdx.x;
    double *near = (double*)shared, *own_scratch = scratch + blockIdx.x * scratch_size;
    Problem x;
    x.M = M, x.k = k;
    x.plan = FAR_SHARED ? near + near_size : NEAR_SHARED ? own_scratch : own_scratch + near_size;
    place_vectors(x, NEAR_SHARED ? near : own_scratch, most_rows, most_columns);
    const int count = *n_open;
    for (;;) {
        int taken = 0;
        if (lane == 0) taken = atomicAdd(n_taken, 1);
        taken = __shfl_sync(ALL_LANES, taken, 0);
        if (taken >= count) return;
        const int t = open_pairs[taken];
        int row, column;
        pair_at(pairs, start, t, &row, &column);
        x.p = list_masses(A + (i64)row * k, k, x.rows, x.a);
        x.q = list_masses(B + (i64)column * l, l, x.columns, x.b);
        x.padded = (x.p + 7) / 8 * 8;
        x.edges = x.plan + (i64)((x.q + 7) / 8 * 8) * x.padded;
        x.shrink = 1.0;
        if (x.p + lane < x.padded) x.phi[x.p + lane] = NOTHING;
        __syncwarp();
        double error, transport, with_entropy;
        int steps = max_iter;
        if (FIXED) {
            error = sweeps(x, max_iter, start_at_target, log_sums);
        } else {
            // Newton's last step overshoots any goal: take the tightest.
            const double goal = larger(1e-4 * tol, rounding);
            steps = n_iter[t];
            steps += anneal(x, goal, max_iter - steps, &error);
        }
        plan_values(x, &transport, &with_entropy);
        if (lane == 0) {
            const double part = fmin(larger(transport / larger(range, 1e-300), 1e-4), 1.0);
            const bool met = error <= larger(tol * part, rounding);
            values[t] = reg * (regularized ? with_entropy : transport);
            status[t] = FIXED ? FIXED_ITERATIONS : met ? CONVERGED : MAX_ITER;
            n_iter[t] = steps;
            marginal_error[t] = error;
        }
        __syncwarp();
    }
}
