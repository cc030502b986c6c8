"""Are p-values honest? Every test of the library where there is nothing to find, and where there is a little.

Under the null hypothesis p-values are uniform: *p ≤ 0.05* should be 5 percent, and the Kolmogorov–Smirnov test against
the uniform law (p-values are spread evenly over their steps of 1 / (B + 1)) should not reject. *Power* is the share of
p ≤ 0.05 under a small planted shift of the same design.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstest
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import Options, Report, Table

NEEDS: set[str] = set()

Float = NDArray[np.float64]
RUNS = 1000
PERMUTATIONS = 199
Design = Callable[[np.random.Generator, float, int], dict[str, float]]
"""One collection with a shift (0 for none) and a seed of the permutations, tested: p-values by name."""


def _clouds(rng: np.random.Generator, place: Any, sizes: Any, d: int = 2, digits: int | None = None) -> Any:
    points = [rng.normal(size=(int(n), d)) + x * np.eye(d)[0] for x, n in zip(place, sizes, strict=True)]
    if digits is not None:
        points = [np.round(x, digits) for x in points]
    return asot.Distributions.from_list(points)


def _of(D: Any, groups: Any, seed: int, **how: Any) -> dict[str, float]:
    r = asot.pairwise_exact(D, n_jobs=1, progress=False)
    test = asot.group_differences(r, groups, n_permutations=PERMUTATIONS, random_state=seed, **how)
    return {"PERMANOVA": test.p_value, "ranks": test.rank_p_value, "dispersion": test.dispersion_p_value}


def plain(rng: np.random.Generator, shift: float, seed: int) -> dict[str, float]:
    """16 samples of 15 points, two groups of 8"""
    groups = np.arange(16) % 2
    return _of(_clouds(rng, 0.5 * rng.normal(size=16) + shift * groups, [15] * 16), groups, seed)


def unequal(rng: np.random.Generator, shift: float, seed: int) -> dict[str, float]:
    """groups of 4 and 14, samples of 5 to 40 points whatever the group"""
    groups = np.repeat([0, 1], [4, 14])
    return _of(_clouds(rng, 0.5 * rng.normal(size=18) + shift * groups, rng.integers(5, 41, 18)), groups, seed)


def ties(rng: np.random.Generator, shift: float, seed: int) -> dict[str, float]:
    """3 points each, rounded to whole numbers: many equal distances, many of them 0"""
    groups = np.arange(14) % 2
    return _of(_clouds(rng, shift * groups, [3] * 14, d=1, digits=0), groups, seed)


def strata(rng: np.random.Generator, shift: float, seed: int) -> dict[str, float]:
    """three batches far apart, unbalanced groups in each, permuted within batches"""
    batch, groups = np.repeat([0, 1, 2], [5, 6, 7]), np.array([0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 0])
    D = _clouds(rng, 3.0 * batch + 0.5 * rng.normal(size=18) + shift * groups, rng.integers(8, 20, 18))
    return _of(D, groups, seed, strata=batch)


def covariates(rng: np.random.Generator, shift: float, seed: int) -> dict[str, float]:
    """an age that moves samples and differs between groups, explained first"""
    groups = np.arange(20) % 2
    age = rng.normal(size=20) + 0.7 * groups
    D = _clouds(rng, age + 0.5 * rng.normal(size=20) + shift * groups, [12] * 20)
    found = _of(D, groups, seed, covariates=age)
    return {"PERMANOVA": found["PERMANOVA"]}


def _perturbed(D: Any, seed: int, **how: Any) -> float:
    found = asot.perturbation_test(
        D, 1, n_permutations=PERMUTATIONS, random_state=seed, n_jobs=1, progress=False, **how
    )
    return float(found.p_value[0])


def cells(rng: np.random.Generator, shift: float, seed: int) -> dict[str, float]:
    """12 cells against 25 of a control"""
    return {"perturbation": _perturbed(_clouds(rng, np.array([shift, 0.0]), [12, 25]), seed)}


def tied_cells(rng: np.random.Generator, shift: float, seed: int) -> dict[str, float]:
    """counts: 10 cells against 10, in whole numbers on a line"""
    return {"perturbation": _perturbed(_clouds(rng, np.array([shift, 0.0]), [10, 10], d=1, digits=0), seed)}


def donors(rng: np.random.Generator, shift: float, seed: int) -> dict[str, float]:
    """two donors far apart in other shares on both sides, permuted within donors"""
    own = np.repeat([0, 1, 0, 1], [12, 4, 6, 14])
    points = rng.normal(size=(36, 2)) + 4.0 * own[:, None] * np.eye(2)[0] + shift * np.outer(np.arange(36) < 16, [0, 1])
    return {"perturbation": _perturbed(asot.Distributions(points, [0, 16, 36]), seed, strata=own)}


def anchors(rng: np.random.Generator, shift: float, seed: int) -> dict[str, float]:
    """30 cells against 50, on 8 anchors"""
    D = _clouds(rng, np.array([shift, 0.0]), [30, 50])
    return {"perturbation": _perturbed(D, seed, n_anchors=8)}


DESIGNS: tuple[tuple[Design, float], ...] = (
    (plain, 0.8), (unequal, 0.8), (ties, 1.0), (strata, 0.8), (covariates, 0.8), (cells, 0.8), (tied_cells, 0.9),
    (donors, 1.5), (anchors, 0.5),
)  # fmt: skip
"""Each with the shift that is planted to measure power."""


def run(options: Options) -> Report:
    """Count p-values of every design."""
    runs = 40 if options.quick else RUNS
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for design, shift in DESIGNS:
            rows += _rows(design, shift, runs)
    columns = ["design", "test", "p ≤ 0.05", "p ≤ 0.01", "Kolmogorov–Smirnov p", "too small?", "power"]
    notes = [
        f"{runs:,} collections without, and {max(runs // 5, 8):,} with a shift; {PERMUTATIONS} permutations each.",
        "Ties count against the observed split, so that p-values are larger than uniform where there are many; the "
        "column *too small?* is the Kolmogorov–Smirnov test that only rejects p-values that are too small.",
        "Dispersions are tested by permutation of residuals, and covariates by that of a reduced model, which are "
        "approximate; all other tests are exact. A shift is no difference of spread: dispersions should not find it.",
    ]
    return Report(
        "null_tests", "p-values where there is nothing to find", __doc__ or "", [Table("", columns, rows)], notes
    )


def _rows(design: Design, shift: float, runs: int) -> list[list[str]]:
    rng = np.random.default_rng(0)
    null = [design(rng, 0.0, seed) for seed in range(runs)]
    found = [design(rng, shift, seed) for seed in range(max(runs // 5, 8))]
    rows = []
    for test in null[0]:
        p = np.array([one[test] for one in null])
        spread = p - rng.random(len(p)) / (PERMUTATIONS + 1)
        power = np.mean([one[test] <= 0.05 for one in found])
        both, small = (kstest(spread, "uniform", alternative=side).pvalue for side in ("two-sided", "greater"))
        words = " ".join((design.__doc__ or "").split())
        counts = [f"{np.mean(p <= level):.3f}" for level in (0.05, 0.01)]
        rows.append([words, test, *counts, f"{both:.3f}", f"{small:.3f}", f"{power:.2f}"])
    return rows
