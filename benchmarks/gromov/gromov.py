"""Gromov–Wasserstein distances beside POT and CAJAL on one core; counts that must be 0; fused kernels.

All start at the product of the masses, so asot's descent from there must end no higher than theirs. Below it: both
starts, which is what `asot.gromov` does and which ends lower, and the estimate from bounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import asot
from asot.data.spaces.reading import read_spaces
from asot.run.engine import Resources
from asot.run.pairs import AllPairs
from asot.spaces.estimate import STEPS, Fit, GromovEstimate, solved_sample
from asot.spaces.solver import FROM_BOUND, FROM_PRODUCT, Gromov
from benchmarks.common import Options, Report, Table, microseconds, race, ratio
from benchmarks.gromov import checks, fused
from benchmarks.gromov.made import mouse_neurons, neurons
from benchmarks.gromov.rivals import rivals

NEEDS = {"graphs", "neurons", "pot"}

SIZES = {20: 600, 50: 200, 100: 60, 200: 16}
"""Points of a generated space, and how many pairs are timed."""

SPACES = 100
"""In a generated collection; the estimate is fitted on some of its pairs."""

TOLERANCE = 1e-9
AIMS = {"one start": 4.0, "both starts": 2.0}
ESTIMATE_AIMS = {"50": 15.0, "50, mice": 15.0, "100": 30.0}


def run(options: Options) -> Report:
    """Race the libraries at every size."""
    assert options.data is not None
    quick, mice = options.quick, mouse_neurons(options.data)
    rows = _rows("50, mice", mice, 20 if quick else 200, 2 if quick else 3)
    for n, n_pairs in SIZES.items():
        rows += _rows(str(n), neurons(n, SPACES), max(3, n_pairs // 10) if quick else n_pairs, 2 if quick else 3)
    columns = ["method", "points", "µs a pair", "faster than CAJAL", "than POT", "value, mean", "error of the estimate"]
    title = f"100 neurons of mice, and {SPACES} generated ones of each size, uniform masses, p = 2:"
    counts = checks.counts(options.data, quick)
    tables = [Table(title, columns, rows), _call(mice), *counts, fused.table(options.data, quick)]
    return Report("gromov", "Gromov–Wasserstein distances beside POT and CAJAL", INTRODUCTION, tables, NOTES)


INTRODUCTION = "Processor time per pair on one core, best of several rounds in turn; values by asot's convention."

NOTES = (
    "In every round, asot's values from one start must not be above those of POT and CAJAL by more than 1e-9 of the "
    "mean.",
    "One start is the product of the masses, as in POT and CAJAL. asot's time includes its three lower bounds.",
    'The 5 % estimate is what `error="5%"` chooses: a fit of bounds, and of the price of a plan some steps down from '
    "the third bound's, to pairs that are not timed in the first table. Its error is the rms on held-out pairs as a "
    "share of the mean distance, and the largest that it may be with 95 percent certainty. Where none is good enough, "
    "plans are searched, and the row shows the bounds alone.",
    "CAJAL runs its compiled core on prepared cells, as its own loop over pairs does; POT is `gromov_wasserstein2`.",
    fused.NOTE,
)


def _rows(points: str, matrices: list[Any], n_pairs: int, repeats: int) -> list[list[str]]:
    spaces, count = read_spaces(matrices), len(matrices)
    every = checks.every_pair(count)
    chosen = every[:, np.random.default_rng(1).choice(every.shape[1], n_pairs, replace=False)]
    fit, estimate = _fitted(count, spaces)
    contestants = {
        **rivals(matrices, chosen),
        "one start": _solved(Gromov(spaces, 2.0, 1.0, FROM_PRODUCT), chosen),
        "both starts": _solved(Gromov(spaces, 2.0, 1.0, FROM_BOUND + FROM_PRODUCT), chosen),
        estimate: _solved(GromovEstimate(Gromov(spaces, 2.0, 1.0, FROM_BOUND + FROM_PRODUCT), fit), chosen),
    }

    def above(answers: dict[str, Any]) -> dict[str, float]:
        ours, mean = answers["one start"], float(answers["both starts"].mean())
        return {name: float((ours - answers[name]).max()) / mean for name in ("POT", "CAJAL") if name in answers}

    found = race(contestants, above, repeats=repeats, tolerance=TOLERANCE, clock=time.process_time)
    rows = []
    for name, seconds in found.seconds.items():
        aim = ESTIMATE_AIMS.get(points) if name == estimate else AIMS.get(name)
        faster = [_faster(found.seconds, rival, name, aim if rival == "CAJAL" else None) for rival in ("CAJAL", "POT")]
        error = ""
        if name == estimate:
            error = f"{_share(fit, fit.rmse)}, at most {_share(fit, fit.interval[1])}; {fit.steps} steps down"
        label = name if name in ("POT", "CAJAL") else f"asot, {name}"
        mean = f"{found.answers[name].mean():.4f}"
        rows.append([label, points, microseconds(seconds / n_pairs), *faster, mean, error])
    return rows


def _fitted(count: int, spaces: Any) -> tuple[Fit, str]:
    """What `error="5%"` chooses, or the bounds alone where that searches plans; and what it is called."""
    sample = solved_sample(
        AllPairs(count), Gromov(spaces, 2.0, 1.0, FROM_BOUND + FROM_PRODUCT), None, Resources(1, None, False)
    )
    assert sample is not None
    fits = [sample.fit(steps) for steps in STEPS]
    for fit in fits:
        if fit.relative(fit.interval[1]) <= 0.05:
            return fit, "the 5 % estimate"
    return fits[0], "bounds alone"


def _share(fit: Any, error: float) -> str:
    return f"{100 * fit.relative(error):.1f} %"


def _faster(seconds: dict[str, float], rival: str, name: str, aim: float | None) -> str:
    if rival not in seconds:
        return "not installed"
    return "" if name in ("POT", "CAJAL") else ratio(seconds[rival] / seconds[name], aim)


def _solved(solver: Any, pairs: Any) -> Callable[[], Any]:
    rows, columns = (np.ascontiguousarray(x) for x in pairs)
    return lambda: solver.solve(rows, columns, np.zeros(1, dtype=np.int64)).values


def _call(mice: list[Any]) -> Table:
    """Whole calls on the neurons of mice, with everything that they do."""
    rows, truth = [], None
    for label, options in (
        ("gromov(X)", {}),
        ('gromov(X, error="5%")', {"error": "5%"}),
        ("gromov(X, sink=TopK(10))", {"sink": asot.sinks.TopK(10)}),
    ):
        began = time.process_time()
        result: Any = asot.gromov(mice, n_jobs=1, progress=False, **options)
        seconds = time.process_time() - began
        truth = result.values if truth is None else truth
        said = ""
        if options.get("error"):
            rms = float(np.sqrt(((result.values - truth) ** 2).mean()))
            said = f"{asot.Status(result.status[0]).name}; rms error of all pairs {100 * rms / truth.mean():.1f} %"
        elif options:
            said = f"{result.info['n_solved']:,} of {result.info['n_pairs']:,} pairs searched"
        rows.append([f"`{label}`", f"{seconds:.2f} s", microseconds(seconds / len(truth)), said])
    return Table("Whole calls on the neurons of mice, one thread:", ["call", "time", "µs a pair", ""], rows)
