"""`asot.sinkhorn_many`: Sinkhorn's iteration for many pairs that share their kernel (METHOD §2).

Fifty iterations, as in the paper, beside POT with a matrix of targets, POT's loop, POT's batched solver and a loop in
NumPy, from the same start, so that the answers must be the same to the last digits whether or not they have converged.
Then to a tolerance, beside NumPy's loop; and for every ε, time and accuracy at convergence against plain log-domain
iterations.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asot
from benchmarks.common import (
    Options,
    Report,
    SelfTimed,
    Table,
    largest_difference,
    microseconds,
    race,
    ratio,
    require,
)
from benchmarks.made import Histograms, random_pairs, trial_histograms
from benchmarks.peers.peers import pot

NEEDS = {"pot"}

K = 30
ITERATIONS = 50
REG = 0.05
"""ε over max C of the fifty iterations; the time does not depend on it."""

TOLERANCE = 1e-10
"""Of the largest cost, between methods that do the same iterations."""

CONVERGED_TOLERANCE = 1e-8
"""Relative, against the converged reference."""

LEVELS = (1.0, 0.1, 0.01, 1e-3, 1e-4)
OVER_MATRIX, OVER_LOOP, OVER_BATCH = 3.0, 80.0, 10.0
OURS, MATRIX, LOOP, BATCH, LOG_BATCH = (
    "asot", "sinkhorn2, a matrix of targets", "sinkhorn2 loop", "solve_batch sinkhorn", "solve_batch log_sinkhorn",
)  # fmt: skip
PLAIN = "15 lines of NumPy"
TARGETS = {MATRIX: OVER_MATRIX, LOOP: OVER_LOOP, BATCH: OVER_BATCH, LOG_BATCH: OVER_BATCH}
SIZES = (18, 30, 60, 100, 150)
TO_TOLERANCE = (
    (30, 60, 1.0, 1e-9), (100, 60, 1.0, 1e-9), (300, 20, 1.0, 1e-9), (300, 6, 0.005, 1e-9), (30, 60, 0.1, 1e-9),
    (30, 60, 0.005, 1e-9), (100, 60, 0.1, 1e-9), (300, 40, 0.1, 1e-9), (300, 8, 0.02, 1e-9), (300, 10, 0.02, 1e-4),
    (1000, 14, 0.1, 1e-9), (1000, 5, 0.02, 1e-9),
)  # fmt: skip
"""k, histograms, ε / max C and tolerance."""

BATCH_SIZES = (16, 64, 512)
BATCHES_OF = ", batches of "

Float = NDArray[np.float64]
Pairs = NDArray[np.int64]


def run(options: Options) -> Report:
    """Measure fifty iterations, then convergence, and make the report."""
    return Report(
        "entropic",
        "Entropic distances under one shared cost",
        "Histograms on k anchors, Euclidean cost, float64. One thread each.",
        [
            _fifty_iterations(options.quick),
            _fifty_at_every_size(options.quick),
            _beside_numpy(options.quick),
            _convergence(options.quick),
        ],
        NOTES,
    )


NOTES = (
    f"{ITERATIONS} iterations: `sinkhorn_many(A, cost=C, reg={REG}·max C, max_iter={ITERATIONS}, tol=None)`, on all "
    "pairs and on the sample that POT solves; best of interleaved repeats, the whole call.",
    f"sinkhorn2, a matrix of targets: `ot.sinkhorn2(b, A, C, reg, numItermax={ITERATIONS}, stopThr=0, warn=False)`, "
    "one call for all pairs of a histogram with those before it: what POT does best.",
    f"{PLAIN}: `u = a / (v @ K.T)`, `v = b / (u @ K)` for all pairs in step, until the last one has a marginal error "
    "below the tolerance; at most 3,000 sweeps, 1,000 with 1,000 anchors.",
    f"sinkhorn2 loop: `ot.sinkhorn2(b, a, C, reg, numItermax={ITERATIONS}, stopThr=0, warn=False)`. POT fits the "
    "second histogram first, we the first: with the roles swapped (the cost is symmetric) both do the same steps.",
    f"solve_batch: `ot.batch.solve_batch(M, reg, a, b, max_iter={ITERATIONS}, tol=0, grad='detach')` in batches of "
    f"{', '.join(map(str, BATCH_SIZES))}; each method's best batch size is shown, and M (one copy of C per pair, which "
    "it needs) is made outside the clock.",
    "POT's sinkhorn2 divides by the masses and log_sinkhorn takes their logarithm: the fifty iterations run on "
    "strictly positive histograms, 99 parts data and 1 part uniform. asot allows zeros, and convergence is measured "
    "with them.",
    "Convergence: `sinkhorn_many(A, cost=C, reg=ε, tol=1e-9)` with the default max_iter. The reference is the "
    "log-domain iteration in float64, run until only rounding is left; deviations are relative to its ⟨T, C⟩. Where it "
    "has not come that far after 300,000 sweeps the pair is not compared; the brackets count those that were.",
)


# ---------------------------------------------------------------------------------------------- fifty iterations


def _fifty_iterations(quick: bool) -> Table:
    h = _positive(K, 60 if quick else 400)
    sample = random_pairs(len(h.masses), 64 if quick else 512)
    contestants, n_pairs = _contestants(h, sample)
    outcome = race(contestants, partial(_deviations, h, sample), repeats=2 if quick else 5, tolerance=TOLERANCE)
    per_pair = {name: seconds / n_pairs[name] for name, seconds in outcome.seconds.items()}
    rows = []
    for method, names in _by_method(contestants).items():
        best = min(names, key=per_pair.__getitem__)
        again = "" if method.startswith(OURS) else ratio(per_pair[best] / per_pair[_sampled(OURS)])
        faster = "" if method.startswith(OURS) else ratio(per_pair[best] / per_pair[OURS], TARGETS.get(method))
        worst = "" if method == OURS else f"{max(outcome.deviations[name] for name in names):.1e}"
        rows.append([best, f"{n_pairs[best]:,}", microseconds(per_pair[best]), faster, again, worst])
    columns = ["method", "pairs", "µs/pair", "asot on all pairs is faster by", "asot on the sample by", "deviation"]
    caption = f"{ITERATIONS} iterations at ε = {REG:g} max C, and the target; deviation: |difference| / max C:"
    return Table(caption, columns, rows)


def _contestants(h: Histograms, sample: Pairs) -> tuple[dict[str, Callable[[], Any]], dict[str, int]]:
    contestants: dict[str, Callable[[], Any]] = {
        OURS: partial(_ours, h, None),
        _sampled(OURS): partial(_ours, h, sample),
        MATRIX: partial(_pot_matrix, h),
        LOOP: partial(_pot_loop, h, sample),
    }
    sizes = [size for size in BATCH_SIZES if size <= len(sample)]
    for size in sizes:
        contestants[f"{BATCH}{BATCHES_OF}{size}"] = partial(_in_batches, h, sample, size, "sinkhorn")
    for size in sizes:
        contestants[f"{LOG_BATCH}{BATCHES_OF}{size}"] = partial(_in_batches, h, sample, size, "log_sinkhorn")
    return contestants, {name: h.n_pairs if name in (OURS, MATRIX) else len(sample) for name in contestants}


def _sampled(name: str) -> str:
    return f"{name} on the sample"


def _by_method(names: Any) -> dict[str, list[str]]:
    """Contestants that differ by batch size only, together."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.split(BATCHES_OF)[0], []).append(name)
    return groups


def _deviations(h: Histograms, sample: Pairs, answers: dict[str, Any]) -> dict[str, float]:
    i, j = sample.T
    n = len(h.masses)
    ours = answers[OURS][i * (2 * n - i - 1) // 2 + j - i - 1]  # condensed order
    return {
        name: largest_difference(answer, answers[OURS] if len(answer) == h.n_pairs else ours, h.cost.max())
        for name, answer in answers.items()
        if name != OURS
    }


def _ours(h: Histograms, pairs: Pairs | None, precision: str = "float64") -> Float:
    reg = REG * h.cost.max()
    return asot.sinkhorn_many(
        h.masses, cost=h.cost, reg=reg, pairs=pairs, max_iter=ITERATIONS, tol=None, n_jobs=1, precision=precision
    ).values


def _pot_matrix(h: Histograms) -> Float:
    """POT's strongest form: one call for all pairs of a histogram with those before it."""
    sinkhorn2 = pot().sinkhorn2
    A, C, reg = h.masses, h.cost, REG * h.cost.max()
    matrix = np.zeros((len(A), len(A)))
    for j in range(1, len(A)):
        targets = np.ascontiguousarray(A[:j].T)
        matrix[:j, j] = sinkhorn2(A[j], targets, C, reg, numItermax=ITERATIONS, stopThr=0, warn=False)
    return np.asarray(matrix[np.triu_indices(len(A), 1)])


def _numpy(h: Histograms, reg: float, tol: float | None, most: int, dtype: Any = np.float64) -> Float:
    """The loop that one would write: all pairs in step, until the last one has met the tolerance."""
    i, j = np.triu_indices(len(h.masses), 1)
    a, b = h.masses[i].astype(dtype, copy=False), h.masses[j].astype(dtype, copy=False)
    K = np.exp(-h.cost / reg).astype(dtype, copy=False)
    v = np.ones_like(b)
    for iteration in range(1, most + 1):
        u = a / (v @ K.T)
        v = b / (u @ K)
        if tol is not None and iteration % 10 == 0 and np.abs(u * (v @ K.T) - a).sum(axis=1).max() < tol:
            break
    return np.asarray((u * (v @ (K * h.cost).T.astype(dtype, copy=False))).sum(axis=1))


def _positive(k: int, n: int) -> Histograms:
    """POT divides by masses: 99 parts data and 1 part uniform."""
    h = trial_histograms(k, n)
    return Histograms(0.99 * h.masses + 0.01 / k, h.cost, h.anchors)


def _fifty_at_every_size(quick: bool) -> Table:
    rows = []
    for k in SIZES[:2] if quick else SIZES:
        h = _positive(k, 40 if quick else max(60, 6000 // k))
        reg, check = REG * h.cost.max(), partial(_deviations, h, np.empty((0, 2), dtype=np.int64))
        wide = {
            OURS: partial(_ours, h, None),
            MATRIX: partial(_pot_matrix, h),
            PLAIN: partial(_numpy, h, reg, None, ITERATIONS),
        }
        narrow = {
            OURS: partial(_ours, h, None, "float32"),
            PLAIN: partial(_numpy, h, reg, None, ITERATIONS, np.float32),
        }
        outcome = race(wide, check, repeats=2 if quick else 5, tolerance=TOLERANCE, clock=time.process_time)
        half = race(narrow, check, repeats=2 if quick else 5, tolerance=1e-5, clock=time.process_time)
        seconds = {name: each / h.n_pairs for name, each in outcome.seconds.items()}
        over = {name: seconds[name] / seconds[OURS] for name in (MATRIX, PLAIN)}
        rows.append(
            [
                f"{k}",
                f"{h.n_pairs:,}",
                microseconds(seconds[OURS]),
                ratio(over[MATRIX], OVER_MATRIX),
                ratio(over[PLAIN], 2.0),
                microseconds(half.seconds[OURS] / h.n_pairs),
                ratio(half.seconds[PLAIN] / half.seconds[OURS], 1.5),
                f"{largest_difference(half.answers[OURS], outcome.answers[OURS], h.cost.max()):.0e}",
            ]
        )
    columns = [
        "k", "pairs", "asot, µs/pair", f"faster than {MATRIX}", f"than {PLAIN}", "in float32, µs/pair",
        "faster than NumPy in float32", "difference of float32",
    ]  # fmt: skip
    return Table(f"{ITERATIONS} iterations of all pairs, beside the strongest loops:", columns, rows)


def _beside_numpy(quick: bool) -> Table:
    """To a tolerance, whole calls, beside NumPy's loop, which stops at 3,000 sweeps (1,000 with 1,000 anchors)."""
    rows = []
    for k, n, share, tol in TO_TOLERANCE[:2] if quick else TO_TOLERANCE:
        h = trial_histograms(k, n)
        reg = share * h.cost.max()
        ours = partial(asot.sinkhorn_many, h.masses, cost=h.cost, reg=reg, tol=tol, n_jobs=1)
        plain = partial(_numpy, h, reg, tol, 1000 if k == 1000 else 3000)
        outcome = race(
            {OURS: ours, PLAIN: plain}, lambda _: {}, repeats=2 if quick else 3, tolerance=0.0, clock=time.process_time
        )
        exact = asot.sinkhorn_many(h.masses, cost=h.cost, reg=reg, tol=1e-12).values
        result = outcome.answers[OURS]
        errors = [np.abs(values / exact - 1.0).max() for values in (result.values, outcome.answers[PLAIN])]
        require(f"k = {k}, ε = {share:g} max C", float(errors[0]), tol)
        rows.append(
            [
                f"{k}",
                f"{h.n_pairs:,}",
                f"{share:g}",
                f"{tol:g}",
                microseconds(outcome.seconds[OURS] / h.n_pairs),
                ratio(outcome.seconds[PLAIN] / outcome.seconds[OURS], 1.2),
                f"{errors[0]:.0e}",
                f"{errors[1]:.0e}",
            ]
        )
    columns = ["k", "pairs", "ε / max C", "tol", "asot, µs/pair", f"faster than {PLAIN}", "error, asot", "error, NumPy"]
    return Table("To a tolerance, all pairs; error: largest relative difference from tol = 1e-12:", columns, rows)


def _pot_loop(h: Histograms, pairs: Pairs) -> Float:
    sinkhorn2 = pot().sinkhorn2
    A, C, reg = h.masses, h.cost, REG * h.cost.max()
    return np.array([sinkhorn2(A[j], A[i], C, reg, numItermax=ITERATIONS, stopThr=0, warn=False) for i, j in pairs])


def _in_batches(h: Histograms, pairs: Pairs, size: int, method: str, tensor: Any = np.ascontiguousarray) -> SelfTimed:
    """POT's batched solver over the pairs, ``size`` at a time."""
    pot()
    from ot.batch import solve_batch

    reg = REG * h.cost.max()
    values = []
    seconds = 0.0
    for start in range(0, len(pairs), size):
        i, j = pairs[start : start + size].T
        costs = np.repeat(h.cost[None], len(i), axis=0)  # (size, k, k)
        M, a, b = tensor(costs), tensor(h.masses[i]), tensor(h.masses[j])
        started = time.perf_counter()
        solved = solve_batch(M, reg, a, b, max_iter=ITERATIONS, tol=0, method=method, grad="detach")
        seconds += time.perf_counter() - started
        values.append(np.asarray(solved.value_linear))
    return SelfTimed(seconds, np.concatenate(values))


# ---------------------------------------------------------------------------------------------- convergence


@dataclass(frozen=True)
class _Level:
    """One ε: what our call gave, and how far a few of its values are from the reference."""

    share: float
    seconds: float
    result: asot.Distances
    worst: float
    n_compared: int


def _convergence(quick: bool) -> Table:
    h = trial_histograms(K, 60 if quick else 400)
    pairs = random_pairs(len(h.masses), 100 if quick else 2000)
    checked = 4 if quick else 20
    levels = [_converge(h, pairs, share, checked) for share in LEVELS]
    rows = [
        [
            f"{level.share:g}",
            f"{len(pairs):,}",
            microseconds(level.seconds / len(pairs)),
            f"{np.median(level.result.n_iter):.0f} / {level.result.n_iter.max()}",
            _statuses(level.result),
            f"{level.worst:.1e} ({level.n_compared} of {checked} pairs)",
        ]
        for level in levels
    ]
    columns = ["ε / max C", "pairs", "µs/pair", "iterations, median / most", "status", "relative deviation"]
    return Table("To convergence, tol = 1e-9:", columns, rows)


def _converge(h: Histograms, pairs: Pairs, share: float, checked: int) -> _Level:
    reg = share * h.cost.max()
    call = partial(asot.sinkhorn_many, h.masses, cost=h.cost, reg=reg, pairs=pairs, tol=1e-9, n_jobs=1)
    outcome = race({OURS: call}, lambda _: {}, repeats=3, tolerance=0.0)
    result = outcome.answers[OURS]
    reference = np.array([_reference_value(h, i, j, reg) for i, j in pairs[:checked]])
    done = np.isfinite(reference)
    if 2 * done.sum() < checked:
        raise RuntimeError(f"ε = {share:g} max C: the reference converged for {done.sum()} of {checked} pairs only")
    worst = float(np.abs(result.values[:checked][done] / reference[done] - 1.0).max())
    require(f"ε = {share:g} max C", worst, CONVERGED_TOLERANCE)
    return _Level(share, outcome.seconds[OURS], result, worst, int(done.sum()))


def _statuses(result: asot.Distances) -> str:
    counts = Counter(asot.Status(code).name for code in result.status)
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common())


def _reference_value(h: Histograms, i: int, j: int, reg: float) -> float:
    """⟨T, C⟩ of one pair by log-domain iterations on the anchors that carry mass; NaN where they are too slow."""
    rows, columns = np.flatnonzero(h.masses[i]), np.flatnonzero(h.masses[j])
    cost = np.ascontiguousarray(h.cost[np.ix_(rows, columns)])
    # Exponents are as large as max C/ε, and their rounding is an error of the marginals that no sweep removes.
    goal = 1e-13 + 1e-15 * cost.max() / reg
    value, error = _log_sinkhorn(h.masses[i, rows], h.masses[j, columns], cost, reg, goal, 300_000)
    return value if error <= goal else np.nan


def _log_sinkhorn(a, b, cost, reg, goal, most_sweeps):  # type: ignore[no-untyped-def]
    """Sweeps at ε·2^10, ε·2^9, …, each from the last one's potentials, and at ε itself until the goal is met."""
    f = np.zeros(len(a))
    g = np.zeros(len(b))
    error = np.inf
    for level in range(10, -1, -1):
        scaled = cost / (reg * 2.0**level)
        for _ in range(most_sweeps):
            error = _sweep(np.log(a), np.log(b), scaled, f, g)
            if error <= (goal if level == 0 else 1e-3):
                break
        if level > 0:  # potentials are in units of ε, which halves
            f *= 2.0
            g *= 2.0
    value = float((np.exp(f[:, None] + g - cost / reg) * cost).sum())
    return value, error


def _sweep(
    log_a: NDArray[np.float64],
    log_b: NDArray[np.float64],
    M: NDArray[np.float64],
    f: NDArray[np.float64],
    g: NDArray[np.float64],
) -> float:
    """One log-domain iteration in place; returns the error of the column sums before the columns were fitted."""
    f[:] = log_a - _log_sum_exp(g - M)
    fitted = log_b - _log_sum_exp((f[:, None] - M).T)
    error = float(np.abs(np.exp(log_b + g - fitted) - np.exp(log_b)).sum())
    g[:] = fitted
    return error


def _log_sum_exp(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of every row of a matrix."""
    top = x.max(axis=1)
    return np.asarray(top + np.log(np.exp(x - top[:, None]).sum(axis=1)))
