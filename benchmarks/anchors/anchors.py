"""How good are learned anchors, and what do they cost?

Graphs as bags of node features and handwritten digits as bags of pixels, k = mean size. A space is learned on four
fifths of a collection. Its error is the root mean square of W_AS - W_1 as a share of the mean W_1, once on pairs of the
distributions it was learned on and once on pairs of unseen ones. The last table is the condition that the paper's
published figures were computed under (METHOD §11): five copies of the one-hot node label, errors over the full matrix.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import asot
from benchmarks.common import Options, Report, Table, below, ratio
from benchmarks.data import mnist_collection, tu_collection
from benchmarks.made import random_pairs

NEEDS = {"graphs", "images"}

GRAPHS = ("MUTAG", "PTC_MR", "BZR", "ENZYMES", "COX2", "NCI1")
DIGITS = "MNIST"
N_DIGITS = 500
DIGIT_SECONDS = 30.0
SEEDS = (0, 1, 2)
N_PAIRS = 2000
PUBLISHED = {"metric": 0.0264, "dictionary": 0.0262}


def _learner(name: str, seed: int, **limits: Any) -> Any:
    if name == "k-means":
        return asot.KMeansAnchors(random_state=seed, device="cpu")
    kind, _, objective = name.partition(", ")
    maker: Callable[..., Any] = asot.MetricAnchors if kind == "metric" else asot.DictionaryAnchors
    return maker(objective=objective or "distance", random_state=seed, device="cpu", **limits)


METHODS = ("k-means", "metric", "dictionary", "metric, paper", "dictionary, paper")


@dataclass(frozen=True)
class Measured:
    """One method on one collection, for one seed."""

    own: float
    unseen: float
    fit_seconds: float
    near_final_seconds: float
    encode_seconds: float
    solve_seconds: float
    k: int
    calibrated: float | None = None
    start_calibrated: float | None = None


# ------------------------------------------------------------------------------------------------------ as described


def measure(D: asot.Distributions, name: str, seed: int, limits: dict[str, Any]) -> Measured:
    """Learn on four fifths of a collection and look at both parts."""
    order = np.random.default_rng(seed).permutation(len(D))
    cut = 4 * len(D) // 5
    seen, unseen = D[order[:cut]], D[order[cut:]]
    started = time.perf_counter()
    learner = _learner(name, seed, **({} if name == "k-means" else limits)).fit(seen)
    seconds = time.perf_counter() - started
    space = learner.space_
    encode, solve = _query_seconds(space, unseen)
    calibrated = (_error(space, seen, "calibrated"), _error(space.nearest, seen, "calibrated")) if _ours(name) else ()
    return Measured(
        _error(space, seen), _error(space, unseen), seconds, _near_final(learner, seconds), encode, solve,
        space.n_anchors, *calibrated,
    )  # fmt: skip


def _ours(name: str) -> bool:
    return name in METHODS[1:3]


def _error(space: asot.AnchorSpace, D: asot.Distributions, estimate: str = "anchor") -> float:
    pairs = random_pairs(len(D), N_PAIRS)
    exact = asot.pairwise_exact(D, pairs=pairs, n_jobs=-1, progress=False).values
    found = asot.pairwise(D, space=space, pairs=pairs, estimate=estimate, n_jobs=-1, progress=False).values
    return float(np.sqrt(np.mean((found - exact) ** 2)) / exact.mean())


def _near_final(learner: Any, seconds: float) -> float:
    """Seconds until the best held-out error was within 5 percent of the final one."""
    if not hasattr(learner, "history_"):
        return seconds
    best = np.minimum.accumulate(learner.history_["error"])
    return float(learner.history_["seconds"][int(np.argmax(best <= 1.05 * best[-1]))])


def _query_seconds(space: asot.AnchorSpace, D: asot.Distributions) -> tuple[float, float]:
    """Seconds to encode a distribution, and to solve a pair on one thread; the better of three runs."""
    pairs = random_pairs(len(D), N_PAIRS)
    encode, solve = [], []
    for _ in range(3):
        started = time.perf_counter()
        histograms = space.histograms(D)
        encode.append((time.perf_counter() - started) / len(D))
        started = time.perf_counter()
        asot.emd_many(histograms, cost=space.cost, pairs=pairs, device="cpu")
        solve.append((time.perf_counter() - started) / len(pairs))
    return min(encode), min(solve)


# ------------------------------------------------------------------------------------------------------ as published


def published_condition(folder: Path) -> asot.Distributions:
    """MUTAG with five copies of the one-hot label as features: what the aggregation that had no effect left."""
    D = tu_collection(folder, "MUTAG", rounds=0)
    return asot.Distributions(np.tile(D.points, 5), D.offsets)


def published_error(D: asot.Distributions, kind: str, seed: int, limits: dict[str, Any]) -> float:
    """RMSE over the full matrix, diagonal included, with the paper's objective and its k."""
    k = round(float(D.sizes.mean()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are 7 distinct points, and they become the anchors
        learner = _learner(f"{kind}, paper", seed, n_anchors=k, **limits).fit(D)
    found = asot.pairwise(D, space=learner.space_, progress=False, estimate="anchor").matrix()
    return float(np.sqrt(np.mean((found - asot.pairwise_exact(D, progress=False).matrix()) ** 2)))


# ------------------------------------------------------------------------------------------------------------ report


def run(options: Options) -> Report:
    assert options.data is not None
    names = GRAPHS[:1] if options.quick else (*GRAPHS, DIGITS)
    seeds = SEEDS[:1] if options.quick else SEEDS
    limits: dict[str, Any] = {"max_epochs": 2} if options.quick else {}
    found: dict[str, dict[str, list[Measured]]] = {}
    for name in names:
        digits = name == DIGITS
        D = mnist_collection(options.data, N_DIGITS) if digits else tu_collection(options.data, name)
        extra = limits | ({"max_time": DIGIT_SECONDS} if digits else {})
        found[name] = {
            method: [measure(D, method, seed, extra) for seed in (seeds[:1] if "paper" in method else seeds)]
            for method in METHODS
        }
        print(name, {method: [f"{m.unseen:.3f}" for m in runs] for method, runs in found[name].items()}, flush=True)
    D = published_condition(options.data)
    published = {kind: [published_error(D, kind, seed, limits) for seed in seeds] for kind in PUBLISHED}
    return Report(
        "anchors",
        "Learned anchors beside k-means",
        "Errors are the root mean square of W_AS − W₁ as a share of the mean W₁, in the mean of "
        f"{len(seeds)} seeds, with k = mean size. Spaces are learned on four fifths of a collection, on the CPU.",
        [
            _error_table("Error on pairs of the distributions that were learned on", found, "own"),
            _error_table("Error on pairs of unseen distributions", found, "unseen"),
            _calibrated_table(found),
            _time_table(found),
            _published_table(published),
        ],
        _notes(found),
    )


def _mean(runs: list[Measured], what: str) -> float:
    return float(np.mean([getattr(run, what) for run in runs]))


def _error_table(caption: str, found: dict[str, dict[str, list[Measured]]], what: str) -> Table:
    rows = []
    for name, methods in found.items():
        errors = {method: _mean(runs, what) for method, runs in methods.items()}
        best = min(errors["metric"], errors["dictionary"])
        k = str(methods["k-means"][0].k)
        shown = [f"{100 * error:.1f} %" for error in errors.values()]
        rows.append([name, k, *shown, ratio(errors["k-means"] / best, 2.0 if name != DIGITS else None)])
    return Table(caption, ["collection", "k", *METHODS, "k-means / best learned"], rows)


def _calibrated_table(found: dict[str, dict[str, list[Measured]]]) -> Table:
    rows = []
    for name, methods in found.items():
        errors: list[float] = []
        for method in METHODS[1:3]:
            errors += [_mean(methods[method], "start_calibrated"), _mean(methods[method], "calibrated")]
        better = max(errors[0] / errors[1], errors[2] / errors[3])
        rows.append([name, *(f"{100 * error:.2f} %" for error in errors), ratio(better, 1.0)])
    columns = ["collection"]
    for method in METHODS[1:3]:
        columns += [f"k-means where {method} began", method]
    return Table(
        "Calibrated: error on pairs of the distributions that were learned on, with 64 of their pairs solved exactly",
        [*columns, "k-means / best learned"],
        rows,
    )


def _time_table(found: dict[str, dict[str, list[Measured]]]) -> Table:
    rows = []
    for name, methods in found.items():
        for method in METHODS[:3]:
            runs = methods[method]
            query = f"{1e6 * _mean(runs, 'encode_seconds'):.0f} + {1e6 * _mean(runs, 'solve_seconds'):.1f} µs"
            fit, near = _mean(runs, "fit_seconds"), _mean(runs, "near_final_seconds")
            rows.append([f"{name}, {method}", f"{fit:.1f} s", f"{near:.1f} s", query])
    columns = ["collection, method", "training", "to within 5 % of the final error", "a distribution + a pair"]
    return Table("Time to learn, and to use: encoding a distribution and solving a pair on one thread", columns, rows)


def _published_table(published: dict[str, list[float]]) -> Table:
    rows = []
    for kind, errors in published.items():
        target = PUBLISHED[kind]
        shown = ", ".join(f"{error:.4f}" for error in errors)
        rows.append([f"{kind}, paper", f"{target}", f"{np.mean(errors):.4f}", shown])
    columns = ["method", "the paper's RMSE", "ours", "by seed"]
    return Table("MUTAG as published (five copies of the one-hot label), the paper's objectives", columns, rows)


def _notes(found: dict[str, dict[str, list[Measured]]]) -> list[str]:
    notes = [
        "The paper's objectives have one seed here. They get the same standardized inputs and k-means anchors as ours, "
        "and keep the state with the least error on the same held-out pairs.",
        "Under the published condition MUTAG has 7 distinct points. They become the anchors, fewer than the 18 asked "
        "for. ASOT-DL starts there without error and has nothing to learn; ASOT-ML learns its codes from a random "
        "network.",
    ]
    if "MUTAG" in found:
        seconds = max(run.near_final_seconds for run in found["MUTAG"]["metric"])
        notes.append(f"MUTAG to within 5 percent of its final error: {below(seconds, 30, 's')}.")
    if "NCI1" in found:
        seconds = max(run.fit_seconds for run in found["NCI1"]["metric"])
        notes.append(f"NCI1, the whole training: {below(seconds, 300, 's')}.")
    return notes
