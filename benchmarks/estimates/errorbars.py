"""Bounds, the calibrated estimate and max_error, held against the exact W_1 on real collections (METHOD §6 and §7).

Graphs have the features as described (METHOD §11). The first table looks for a single violation of lower ≤ W_1 ≤ upper;
the others say how tight the bounds are, what they cost, how far the estimates are off, and how many pairs a stated
error leaves to be solved exactly.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import DisagreementError, Options, Report, Table, microseconds
from benchmarks.data import mnist_collection, tu_collection, zinc_test_collection
from benchmarks.made import random_pairs

NEEDS = {"graphs", "images", "molecules"}

Float = NDArray[np.float64]

GRAPHS = ("MUTAG", "PTC_MR", "BZR", "ENZYMES", "COX2", "NCI1")
LARGEST = 2000
"""Collections are cut to this many distributions: two million pairs."""

NUMBERS = (2, 5, 12, 30, 75, 200)
"""Anchors of the search for violations, beside the mean size."""

LEVELS = ("points", "cells", "radius", "entropic")
SLACK = 1e-9
MOST_LOOSE, LEAST_TIGHT, MOST_ERROR, MOST_ERROR_DIGITS, MOST_TIME = 1.10, 0.75, 3.0, 2.0, 1.5


@dataclass(frozen=True)
class Sample:
    """A collection, some of its pairs, and their exact distances."""

    name: str
    collection: asot.Distributions
    pairs: NDArray[np.int64]  # (P, 2)
    exact: Float  # (P,)

    @property
    def mean_size(self) -> int:
        return round(float(self.collection.sizes.mean()))

    def space(self, k: int | None = None) -> asot.AnchorSpace:
        return _space(self.name, self.collection, k or self.mean_size)


@cache
def _space(name: str, collection: Any, k: int) -> asot.AnchorSpace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct points than anchors
        return asot.KMeansAnchors(k, random_state=0).fit(collection).space_


class _Hashable(asot.Distributions):
    """A collection that can be a key of a cache: it never changes."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def _sample(name: str, data: Path, size: int, count: int) -> Sample:
    if name == "MNIST":
        collection = mnist_collection(data, size)
    elif name == "ZINC":
        collection = zinc_test_collection(data, size)
    else:
        collection = tu_collection(data, name)[:size]
    kept = _Hashable(collection.points, collection.offsets, collection.masses)
    pairs = random_pairs(len(kept), count)
    return Sample(name, kept, pairs, asot.pairwise_exact(kept, pairs=pairs, n_jobs=-1).values)


def run(options: Options) -> Report:
    """Measure everything and make the report."""
    assert options.data is not None
    data, quick = options.data, options.quick
    count = 500 if quick else 20_000
    names = ("MUTAG", "MNIST") if quick else (*GRAPHS, "ZINC", "MNIST")
    with threadpool_limits(1):
        size = 100 if quick else LARGEST
        samples = [_sample(name, data, size, count if name != "MNIST" else count // 2) for name in names]
        named = [sample for sample in samples if sample.name != "ZINC"]
        tables = [
            _violations(samples, quick),
            _tightness(named),
            _falling_width(named),
            _calibrated(named),
            _times(named),
            _certified(named),
        ]
    return Report(
        "errorbars",
        "Error bars: how tight, how true, how dear",
        "Bounds on W₁ and estimates of it, through k-means anchors (full k-means, seed 0), against exact distances. "
        "Graphs have one-hot node labels and four rounds of x ← x + Σ_neighbors x as features; MNIST digits are bags "
        f"of pixels. Collections are cut to {LARGEST:,} distributions. Times are those of one thread.",
        tables,
        NOTES,
    )


NOTES = (
    "Violations: intervals with lower > W₁ or W₁ > upper by more than 1e-9 of W₁, in random pairs of each collection, "
    f"for k = {', '.join(map(str, NUMBERS))} and the mean size. 'entropic' is reg='auto'. Each interval is counted.",
    "Tightness: means over random pairs at distance > 0, k = mean size, bounds=True. Width is (upper - lower) / W₁.",
    "Calibrated: root mean squared error as a share of the mean distance, over random pairs; 64 exact pairs for the "
    "fit. 'Held out' is what the result says of itself, with its 95 percent interval. The last column divides true "
    "errors by the expected ones; 1 is right.",
    "Times: all pairs, k = mean size (NCI1: k = 30), best of three, the space learned before; calibration and all "
    "preparation are counted.",
    "max_error: pairs that had to be solved exactly so that every pair is certain to be within the error, k = mean "
    "size; every one of the sampled values was checked. The last column is a call without a space.",
)


# ---------------------------------------------------------------------------------------------------------- violations


def _intervals(sample: Sample, k: int, level: str) -> asot.Distances:
    chosen: dict[str, Any] = {"bounds": True, "reg": "auto"} if level == "entropic" else {"bounds": level}
    chosen["estimate"] = "anchor"
    pairs = sample.pairs[: len(sample.pairs) // 20] if level == "entropic" else sample.pairs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two anchors are far from most points: that is what is tried here
        return asot.pairwise(sample.collection, space=sample.space(k), pairs=pairs, n_jobs=-1, **chosen)


def _violations(samples: list[Sample], quick: bool) -> Table:
    counted = dict.fromkeys(LEVELS, 0)
    rows = []
    for sample in samples:
        broken, seen = 0, 0
        for k in sorted({*(NUMBERS[::3] if quick else NUMBERS), sample.mean_size}):
            for level in LEVELS:
                r = _intervals(sample, k, level)
                assert r.lower is not None
                assert r.upper is not None
                exact = sample.exact[: len(r)]
                broken += int(np.count_nonzero((r.lower > exact * (1 + SLACK)) | (r.upper * (1 + SLACK) < exact)))
                counted[level] += len(r)
                seen += len(r)
        if broken:
            raise DisagreementError(f"{broken} bounds of {sample.name} do not hold")
        rows.append([sample.name, f"{len(sample.pairs):,}", f"{seen:,}", str(broken)])
    rows.append(["all", "", f"{sum(counted.values()):,}", "0 (met: 0)"])
    caption = "Do the bounds hold? Intervals by kind: " + ", ".join(f"{n:,} {level}" for level, n in counted.items())
    return Table(caption + ".", ["collection", "pairs", "intervals", "violations"], rows)


# ---------------------------------------------------------------------------------------------------------- tightness


def _tightness(samples: list[Sample]) -> Table:
    rows = []
    for sample in samples:
        r = asot.pairwise(
            sample.collection, space=sample.space(), pairs=sample.pairs, bounds=True, n_jobs=-1, estimate="anchor"
        )
        apart = sample.exact > 0
        exact = sample.exact[apart]
        assert r.lower is not None
        assert r.upper is not None
        lower, upper = r.lower[apart], r.upper[apart]
        rows.append(
            [
                sample.name,
                str(sample.mean_size),
                _at_least(float((lower / exact).mean()), LEAST_TIGHT),
                _at_most(float((upper / exact).mean()), MOST_LOOSE),
                f"{np.median((upper - lower) / exact):.3f}",
                f"{np.quantile((upper - lower) / exact, 0.95):.3f}",
            ]
        )
    columns = ["collection", "k", "lower / W₁, mean", "upper / W₁, mean", "median width", "95 percent of widths below"]
    return Table("How tight are the bounds at k = mean size?", columns, rows)


def _falling_width(samples: list[Sample]) -> Table:
    shares = (0.25, 0.5, 1.0, 2.0, 4.0)
    rows = []
    for sample in samples:
        widths = []
        for share in shares:
            space = sample.space(max(2, round(share * sample.mean_size)))
            r = asot.pairwise(
                sample.collection, space=space, pairs=sample.pairs, bounds="points", n_jobs=-1, estimate="anchor"
            )
            assert r.lower is not None
            assert r.upper is not None
            apart = sample.exact > 0
            widths.append(f"{np.median((r.upper - r.lower)[apart] / sample.exact[apart]):.3f}")
        rows.append([sample.name, *widths])
    columns = ["collection", *(f"k = {share:g} × mean size" for share in shares)]
    return Table('Median width of bounds="points", as a share of W₁:', columns, rows)


# ---------------------------------------------------------------------------------------------------------- estimates


def _calibrated(samples: list[Sample]) -> Table:
    rows = []
    for sample in samples:
        plain, calibrated, both = (
            asot.pairwise(sample.collection, space=sample.space(), pairs=sample.pairs, n_jobs=-1, **options)
            for options in (
                {"estimate": "anchor"},
                {"estimate": "calibrated"},
                {"estimate": "calibrated", "bounds": True},
            )
        )
        report = calibrated.info["calibration"]
        low, high = (100 * end / report["mean_distance"] for end in report["held_out_rmse_interval"])
        target = MOST_ERROR_DIGITS if sample.name == "MNIST" else MOST_ERROR
        seen = calibrated.error > 0
        ratio = ((calibrated.values - sample.exact)[seen] / calibrated.error[seen]) ** 2
        rows.append(
            [
                sample.name,
                str(sample.mean_size),
                f"{_error(plain.values, sample.exact):.2f} %",
                _at_most(_error(calibrated.values, sample.exact), target, " %"),
                f"{100 * report['held_out_relative']:.2f} % ({low:.2f} to {high:.2f})",
                f"{_error(both.values, sample.exact):.2f} %",
                f"{np.sqrt(ratio.mean()):.2f}",
            ]
        )
    columns = ["collection", "k", "anchor", "calibrated", "held out", "calibrated, with bounds", "true / expected"]
    return Table("How far are estimates off?", columns, rows)


def _error(values: Float, exact: Float) -> float:
    return float(100 * np.sqrt(np.mean((values - exact) ** 2)) / exact.mean())


# ---------------------------------------------------------------------------------------------------------- times


def _times(samples: list[Sample]) -> Table:
    rows = []
    for sample in samples:
        k = 30 if sample.name == "NCI1" else sample.mean_size
        D, space = sample.collection[: 600 if sample.name == "MNIST" else None], sample.space(k)
        options: dict[str, dict[str, Any]] = {
            "plain": {"estimate": "anchor"},
            "calibrated": {"estimate": "calibrated"},
            **{level: {"estimate": "anchor", "bounds": level} for level in ("radius", "cells", "points")},
        }
        calls = {name: partial(asot.pairwise, D, space=space, **more) for name, more in options.items()}
        seconds = _best_of(3, calls)
        n_pairs = len(D) * (len(D) - 1) // 2
        few = random_pairs(len(D), 5000)
        exact = min(asot.pairwise_exact(D, pairs=few).info["seconds"] / len(few) for _ in range(3))
        slower = {name: value / seconds["plain"] for name, value in seconds.items()}
        calibrated = _at_most(slower["calibrated"], MOST_TIME, "×") if k == 30 else f"{slower['calibrated']:.2f}×"
        rows.append(
            [
                sample.name,
                str(k),
                f"{n_pairs:,}",
                microseconds(seconds["plain"] / n_pairs),
                calibrated,
                *(f"{slower[name]:.2f}×" for name in ("radius", "cells", "points")),
                f"{exact / (seconds['plain'] / n_pairs):.1f}×",
            ]
        )
    columns = ["collection", "k", "pairs", "plain, µs/pair", "calibrated", "radius", "cells", "points", "exact"]
    return Table("What does it cost? Time of the whole call, relative to the plain anchor distance:", columns, rows)


def _best_of(repeats: int, contestants: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Least seconds of each, taken in turns after a first round that compiles."""
    best = dict.fromkeys(contestants, np.inf)
    for turn in range(repeats + 1):
        for name, contestant in contestants.items():
            started = time.perf_counter()
            contestant()
            if turn > 0:
                best[name] = min(best[name], time.perf_counter() - started)
    return best


# ---------------------------------------------------------------------------------------------------------- max_error


def _certified(samples: list[Sample]) -> Table:
    rows = []
    for sample in samples:
        shares = []
        for accepted in ("10%", "5%", "2%"):
            r = asot.pairwise(
                sample.collection,
                space=sample.space(),
                pairs=sample.pairs,
                max_error=accepted,
                n_jobs=-1,
                estimate="anchor",
            )
            off = np.abs(r.values - sample.exact) - float(accepted[:-1]) / 100 * sample.exact
            if np.any(off > SLACK * sample.exact):
                raise DisagreementError(f"{sample.name}: a value is farther off than max_error={accepted}")
            shares.append(f"{100 * r.info['n_exact'] / len(r):.1f} %")
        auto = asot.pairwise(
            sample.collection[:300],
            max_error="10%",
            random_state=0,
            n_jobs=-1,
            progress=False,
        )
        chosen = f"{auto.info.get('n_anchors', 'no')} anchors, {100 * auto.info['n_exact'] / len(auto):.1f} %"
        rows.append([sample.name, *shares, chosen])
    columns = ["collection", "max_error='10%'", "'5%'", "'2%'", "the strategy's choice, 10% (300 distributions)"]
    return Table("Share of pairs that are solved exactly for a stated error:", columns, rows)


def _at_most(value: float, target: float, unit: str = "") -> str:
    return f"{value:.2f}{unit} ({'met' if value <= target else 'missed'}: ≤ {target:g}{unit})"


def _at_least(value: float, target: float) -> str:
    return f"{value:.3f} ({'met' if value >= target else 'missed'}: ≥ {target:g})"
