"""`asot.sinkhorn_many`: Sinkhorn's iteration for many pairs that share their kernel (METHOD §2).

Fifty iterations, as in the paper, beside POT's loop and POT's batched solver, from the same start, so that the answers
must be the same to the last digits whether or not they have converged. Then, for every ε, time and accuracy at
convergence against plain log-domain iterations.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba import njit
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
from benchmarks.data import Histograms, random_pairs, trial_histograms
from benchmarks.peers import pot

K = 30
ITERATIONS = 50
REG = 0.05
"""ε over max C of the fifty iterations; the time does not depend on it."""

TOLERANCE = 1e-10
"""Of the largest cost, between methods that do the same iterations."""

CONVERGED_TOLERANCE = 1e-8
"""Relative, against the converged reference."""

LEVELS = (1.0, 0.1, 0.01, 1e-3, 1e-4)
OVER_LOOP, OVER_BATCH = 80.0, 10.0
OURS, LOOP, BATCH, LOG_BATCH, TORCH_BATCH = (
    "asot", "sinkhorn2 loop", "solve_batch sinkhorn", "solve_batch log_sinkhorn", "solve_batch sinkhorn, PyTorch",
)  # fmt: skip
TARGETS = {LOOP: OVER_LOOP, BATCH: OVER_BATCH, LOG_BATCH: OVER_BATCH}
BATCH_SIZES = (16, 64, 512)
BATCHES_OF = ", batches of "

Float = NDArray[np.float64]
Pairs = NDArray[np.int64]


def run(options: Options) -> Report:
    """Measure fifty iterations, then convergence, and make the report."""
    with _torch_worker() as worker:
        fifty = _fifty_iterations(options.quick, worker)
    return Report(
        "entropic",
        "Entropic distances under one shared cost",
        f"Histograms on k = {K} anchors, Euclidean cost, float64. One thread each.",
        [fifty, _convergence(options.quick)],
        NOTES,
    )


NOTES = (
    f"{ITERATIONS} iterations: `sinkhorn_many(A, cost=C, reg={REG}·max C, max_iter={ITERATIONS}, tol=None)`, on all "
    "pairs and on the sample that POT solves; best of interleaved repeats, the whole call.",
    f"sinkhorn2 loop: `ot.sinkhorn2(b, a, C, reg, numItermax={ITERATIONS}, stopThr=0, warn=False)`. POT fits the "
    "second histogram first, we the first: with the roles swapped (the cost is symmetric) both do the same steps.",
    f"solve_batch: `ot.batch.solve_batch(M, reg, a, b, max_iter={ITERATIONS}, tol=0, grad='detach')` in batches of "
    f"{', '.join(map(str, BATCH_SIZES))}; each method's best batch size is shown, and M (one copy of C per pair, which "
    "it needs) is made outside the clock. With PyTorch tensors, for information: in a process of its own, one thread.",
    "POT's sinkhorn2 divides by the masses and log_sinkhorn takes their logarithm: the fifty iterations run on "
    "strictly positive histograms, 99 parts data and 1 part uniform. asot allows zeros, and convergence is measured "
    "with them.",
    "Convergence: `sinkhorn_many(A, cost=C, reg=ε, tol=1e-9)` with the default max_iter. The reference is the "
    "log-domain iteration in float64, run until only rounding is left; deviations are relative to its ⟨T, C⟩. Where it "
    "has not come that far after 300,000 sweeps the pair is not compared; the brackets count those that were.",
)


# ---------------------------------------------------------------------------------------------- fifty iterations


def _fifty_iterations(quick: bool, worker: ProcessPoolExecutor | None) -> Table:
    h = trial_histograms(K, 60 if quick else 400)
    h = Histograms(0.99 * h.masses + 0.01 / K, h.cost, h.anchors)
    sample = random_pairs(len(h.masses), 64 if quick else 512)
    contestants, n_pairs = _contestants(h, sample, worker)
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


def _contestants(
    h: Histograms, sample: Pairs, worker: ProcessPoolExecutor | None
) -> tuple[dict[str, Callable[[], Any]], dict[str, int]]:
    contestants: dict[str, Callable[[], Any]] = {
        OURS: partial(_ours, h, None),
        _sampled(OURS): partial(_ours, h, sample),
        LOOP: partial(_pot_loop, h, sample),
    }
    sizes = [size for size in BATCH_SIZES if size <= len(sample)]
    for size in sizes:
        contestants[f"{BATCH}{BATCHES_OF}{size}"] = partial(_in_batches, h, sample, size, "sinkhorn")
    for size in sizes:
        contestants[f"{LOG_BATCH}{BATCHES_OF}{size}"] = partial(_in_batches, h, sample, size, "log_sinkhorn")
    for size in sizes if worker is not None else ():
        contestants[f"{TORCH_BATCH}{BATCHES_OF}{size}"] = partial(_ask, worker, h, sample, size)
    return contestants, {name: h.n_pairs if name == OURS else len(sample) for name in contestants}


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
    return {name: largest_difference(answers[name], ours, h.cost.max()) for name in answers if name != OURS}


def _ours(h: Histograms, pairs: Pairs | None) -> Float:
    reg = REG * h.cost.max()
    return asot.sinkhorn_many(
        h.masses, cost=h.cost, reg=reg, pairs=pairs, max_iter=ITERATIONS, tol=None, n_jobs=1
    ).values


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


# ---------------------------------------------------------------------------------------------- POT with PyTorch


@contextmanager
def _torch_worker() -> Iterator[ProcessPoolExecutor | None]:
    """A process in which POT may see PyTorch (see `benchmarks.peers`), or None where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        yield None
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_show_torch_to_pot) as worker:
        yield worker


def _show_torch_to_pot() -> None:
    os.environ["POT_BACKEND_DISABLE_PYTORCH"] = ""
    import torch

    torch.set_num_threads(1)


def _ask(worker: ProcessPoolExecutor, h: Histograms, pairs: Pairs, size: int) -> SelfTimed:
    return worker.submit(_in_torch_batches, h, pairs, size).result()


def _in_torch_batches(h: Histograms, pairs: Pairs, size: int) -> SelfTimed:
    import torch

    return _in_batches(h, pairs, size, "sinkhorn", tensor=torch.from_numpy)


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


@njit
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
    value = 0.0
    for i in range(len(a)):
        for j in range(len(b)):
            value += np.exp(f[i] + g[j] - cost[i, j] / reg) * cost[i, j]
    return value, error


@njit
def _sweep(log_a, log_b, M, f, g):  # type: ignore[no-untyped-def]
    """One log-domain iteration in place; returns the error of the column sums before the columns were fitted."""
    for i in range(len(f)):
        f[i] = log_a[i] - _log_sum_exp(g - M[i])
    error = 0.0
    for j in range(len(g)):
        fitted = log_b[j] - _log_sum_exp(f - M[:, j])
        error += abs(np.exp(log_b[j] + g[j] - fitted) - np.exp(log_b[j]))
        g[j] = fitted
    return error


@njit
def _log_sum_exp(x):  # type: ignore[no-untyped-def]
    top = x.max()
    return top + np.log(np.exp(x - top).sum())
