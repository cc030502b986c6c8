"""Gromov–Wasserstein distances beside POT and CAJAL, one pair at a time on one core.

All start at the product of the masses, so asot's descent from there must end no higher than theirs. Below it: both
starts, which is what `asot.gromov` does and which ends lower, and the estimate from bounds. CAJAL is measured if it is
installed; only its compiled core runs, on what its own pairwise loop prepares.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from asot.data.spaces.reading import read_spaces
from asot.run.pairs import AllPairs
from asot.spaces.estimate import GromovEstimate, fit_sample
from asot.spaces.solver import FROM_BOUND, FROM_PRODUCT, Gromov
from benchmarks.common import Options, Report, Table, microseconds, race, ratio

NEEDS = {"pot"}

SIZES = {20: 150, 50: 60, 100: 20, 200: 8}
"""Points of a space, and how many pairs are timed."""

SPACES = 40
"""In a collection; all of its pairs count for the error of the estimate."""

TOLERANCE = 1e-9
AIMS = {"one start": 4.0, "both starts": 2.0}
ESTIMATE_AIMS = {50: 15.0, 100: 30.0}


def neurons(n: int, count: int, seed: int = 0) -> list[Any]:
    """Euclidean distances (n, n) of points on random trees in space, each stretched in its own way."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        steps = rng.normal(size=(n, 3)) * rng.uniform(0.5, 2.0, 3)
        points = np.zeros((n, 3))
        for t in range(1, n):
            points[t] = points[rng.integers(max(0, t - 4), t)] + steps[t]
        found.append(np.linalg.norm(points[:, None] - points[None], axis=-1))
    return found


def run(options: Options) -> Report:
    """Race the libraries at every size."""
    rows = []
    for n, n_pairs in SIZES.items():
        rows += _rows(n, max(3, n_pairs // 10) if options.quick else n_pairs, 2 if options.quick else 3)
    columns = ["method", "points", "µs a pair", "faster than CAJAL", "than POT", "value, mean", "error of the estimate"]
    table = Table(f"Generated neurons, {SPACES} of each size, uniform masses, p = 2:", columns, rows)
    return Report("gromov", "Gromov–Wasserstein distances beside POT and CAJAL", INTRODUCTION, [table], NOTES)


INTRODUCTION = "Processor time per pair on one core, best of several rounds in turn; values by asot's convention."

NOTES = (
    "In every round, asot's values from one start must not be above those of POT and CAJAL by more than 1e-9.",
    "One start is the product of the masses, as in POT and CAJAL. asot's time includes its three lower bounds.",
    "The estimate is a fit of bounds to 128 pairs, which are not timed; its error is the rms on held-out pairs, as a "
    "share of the mean distance.",
    "CAJAL runs its compiled core on prepared cells, as its own loop over pairs does; POT is `gromov_wasserstein2`.",
)


def _rows(n: int, n_pairs: int, repeats: int) -> list[list[str]]:
    matrices = neurons(n, SPACES)
    spaces = read_spaces(matrices)
    every = np.stack(AllPairs(SPACES).indices(0, len(AllPairs(SPACES))))
    chosen = every[:, np.random.default_rng(1).choice(every.shape[1], n_pairs, replace=False)]
    fit = fit_sample(AllPairs(SPACES), spaces, 2.0, 1.0, 0, None, {"n_jobs": 1, "progress": False})
    assert fit is not None
    contestants = {
        **_others(matrices, chosen),
        "one start": _solved(Gromov(spaces, 2.0, 1.0, FROM_PRODUCT), chosen),
        "both starts": _solved(Gromov(spaces, 2.0, 1.0, FROM_BOUND + FROM_PRODUCT), chosen),
        "estimate": _solved(GromovEstimate(spaces, 2.0, 1.0, fit), chosen),
    }

    def above(answers: dict[str, Any]) -> dict[str, float]:
        return {
            name: float((answers["one start"] - answers[name]).max()) for name in ("POT", "CAJAL") if name in answers
        }

    found = race(contestants, above, repeats=repeats, tolerance=TOLERANCE, clock=time.process_time)
    rows = []
    for name, seconds in found.seconds.items():
        aim = ESTIMATE_AIMS.get(n) if name == "estimate" else AIMS.get(name)
        faster = [_faster(found.seconds, rival, name, aim if rival == "CAJAL" else None) for rival in ("CAJAL", "POT")]
        error = f"{100 * fit.relative(fit.rmse):.1f} %" if name == "estimate" else ""
        label = name if name in ("POT", "CAJAL") else f"asot, {name}"
        rows.append(
            [label, str(n), microseconds(seconds / n_pairs), *faster, f"{found.answers[name].mean():.4f}", error]
        )
    return rows


def _faster(seconds: dict[str, float], rival: str, name: str, aim: float | None) -> str:
    if rival not in seconds:
        return "not installed"
    return "" if name in ("POT", "CAJAL") else ratio(seconds[rival] / seconds[name], aim)


def _solved(solver: Any, pairs: Any) -> Callable[[], Any]:
    rows, columns = (np.ascontiguousarray(x) for x in pairs)
    return lambda: solver.solve(rows, columns, np.zeros(1, dtype=np.int64)).values


def _others(matrices: list[Any], pairs: Any) -> dict[str, Callable[[], Any]]:
    import ot

    def pot() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [ot.gromov_wasserstein2(matrices[i], matrices[j], symmetric=True) for i, j in pairs.T]
        return 0.5 * np.sqrt(np.maximum(found, 0.0))

    contestants: dict[str, Callable[[], Any]] = {"POT": pot}
    try:
        from cajal.gw_cython import gw_cython_core
    except ImportError:
        return contestants
    mass = np.full(len(matrices[0]), 1.0 / len(matrices[0]))
    cells = [(x, mass, x @ mass, float(((x * x) @ mass) @ mass)) for x in matrices]
    contestants["CAJAL"] = lambda: np.array([gw_cython_core(*cells[i], *cells[j])[1] for i, j in pairs.T])
    return contestants
