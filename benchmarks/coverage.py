"""Are error bars honest? The calibrated estimate on generated collections that make it hard.

For every collection all pairs are also solved exactly. *Intervals* counts how often the true root mean squared error
lies in the reported 95 percent interval. *z* is the true error of a pair beside its own error bar, ``r.error``. For
normal errors 95 percent of z are below 2, and half of them below 0.67. *worst* takes the collection and the kind of
pairs with the largest median, so that no kind hides behind another.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import Options, Report, Table

Float = NDArray[np.float64]
COLLECTIONS = 40
NUMBERS = (8, 20, 40)
"""Of anchors, in turn."""


@dataclass(frozen=True)
class Case:
    """One or two collections, and for every distribution of either the kind it is of."""

    D: asot.Distributions
    kind: NDArray[np.int64]
    E: asot.Distributions | None = None
    kind_of_E: NDArray[np.int64] | None = None


def alike(rng: np.random.Generator) -> Case:
    """Clouds around places of their own."""
    d = int(rng.integers(2, 6))
    clouds = [rng.normal(rng.normal(size=d), rng.uniform(0.5, 1.5, d), (_size(rng), d)) for _ in range(100)]
    return Case(asot.Distributions.from_list(clouds), np.zeros(100, dtype=np.int64))


def mixtures(rng: np.random.Generator) -> Case:
    """A hundred narrow distributions, and a few wide ones far away, in which nearly all of the error is."""
    d, few = int(rng.integers(2, 4)), int(rng.integers(6, 16))
    width, place = 10.0 ** rng.uniform(0.5, 2), 10.0 ** rng.uniform(0, 3.5)
    clouds = [rng.normal(size=(20, d)) for _ in range(100)] + [rng.normal(place, width, (20, d)) for _ in range(few)]
    return Case(asot.Distributions.from_list(clouds), np.repeat([0, 1], [100, few]))


def heavy_tails(rng: np.random.Generator) -> Case:
    """Points, and the widths of their distributions, with Student's t at two degrees of freedom."""
    d = int(rng.integers(2, 5))
    widths = np.abs(rng.standard_t(2, size=100)) + 0.1
    clouds = [width * (rng.normal(size=d) + rng.standard_t(2, size=(_size(rng), d))) for width in widths]
    return Case(asot.Distributions.from_list(clouds), (widths > np.median(widths)).astype(np.int64))


def duplicates(rng: np.random.Generator) -> Case:
    """Points on a grid, and every distribution several times, so that many distances are 0 or equal."""
    d = int(rng.integers(2, 4))
    clouds = [np.round(2 * rng.normal(rng.normal(size=d), 1.0, (_size(rng), d))) / 2 for _ in range(25)]
    return Case(asot.Distributions.from_list(clouds * 4), np.zeros(100, dtype=np.int64))


def two_kinds(rng: np.random.Generator) -> Case:
    """Small clouds in one collection; large rings of another scale in the other."""
    first = [rng.normal(rng.normal(size=2), 1.0, (_size(rng), 2)) for _ in range(80)]
    scale = 10.0 ** rng.uniform(-1, 1.5)
    angles = [rng.uniform(0, 2 * np.pi, int(rng.integers(60, 120))) for _ in range(40)]
    rings = [scale * (np.stack([np.cos(a), np.sin(a)], axis=1) + 0.3 * rng.normal(size=2)) for a in angles]
    D, E = asot.Distributions.from_list(first), asot.Distributions.from_list(rings)
    wide = np.array([np.ptp(ring[:, 0]) > 1.95 * scale for ring in rings], dtype=np.int64)
    return Case(D, np.zeros(80, dtype=np.int64), E, wide)


def _size(rng: np.random.Generator) -> int:
    return int(rng.integers(10, 40))


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "alike": alike,
    "mixtures": mixtures,
    "heavy tails": heavy_tails,
    "duplicates": duplicates,
    "two collections": two_kinds,
}


def run(options: Options) -> Report:
    """Attack every kind of collection and count."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [_row(name, make, 6 if options.quick else COLLECTIONS) for name, make in CASES.items()]
    columns = ["collections", "number", "intervals that hold", "RMSE above", "below", "z < 2", "median z", "worst"]
    notes = [f"Anchors: {', '.join(map(str, NUMBERS))} in turn. Pairs that were solved exactly are left out of z."]
    return Report("coverage", "Coverage of error bars", __doc__ or "", [Table("", columns, rows)], notes)


def _row(name: str, make: Callable[[np.random.Generator], Case], number: int) -> list[str]:
    above, below, worst = 0, 0, 0.0
    all_z: list[Float] = []
    for seed in range(number):
        case = make(np.random.default_rng(seed))
        k = NUMBERS[seed % len(NUMBERS)]
        r = asot.pairwise(
            case.D, case.E, estimate="calibrated", n_anchors=k, random_state=seed, n_jobs=1, progress=False
        )
        exact = asot.pairwise_exact(case.D, case.E, n_jobs=1, progress=False).values
        low, high = r.info["calibration"]["held_out_rmse_interval"]
        true = float(np.sqrt(np.mean((r.values - exact) ** 2)))
        above, below = above + (true > high * (1 + 1e-9)), below + (true < low * (1 - 1e-9))
        kind = _kinds(case, r.pairs)
        assert r.error is not None
        estimated = (r.status != asot.Status.EXACT) & (exact > 0)
        z = np.abs(r.values - exact)[estimated] / np.maximum(r.error[estimated], 1e-12 * exact[estimated])
        worst = max(worst, *(float(np.median(z[kind[estimated] == g])) for g in np.unique(kind[estimated])))
        all_z.append(z)
    z = np.concatenate(all_z)
    return [
        name, str(number), f"{100 * (number - above - below) / number:.0f} %", str(above), str(below),
        f"{100 * np.mean(z < 2):.1f} %", f"{np.median(z):.2f}", f"{worst:.2f}",
    ]  # fmt: skip


def _kinds(case: Case, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The kind of every pair (P,): how many of its two distributions are of the second kind."""
    other = case.kind if case.kind_of_E is None else case.kind_of_E
    return np.asarray(case.kind[pairs[:, 0]] + other[pairs[:, 1]])
