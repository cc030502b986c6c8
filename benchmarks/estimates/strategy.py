"""The default call on every collection of the project, and beside it the ways it could have taken.

Seconds are CPU seconds of one thread (`time.process_time`), so that a busy machine does not favor anybody. The exact
time of large collections is extrapolated from a sample of pairs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import asot
from asot.choose.prices import count_load
from asot.run.pairs import AllPairs
from benchmarks.common import Options, Report, Table
from benchmarks.data import mnist_collection, tu_collection
from benchmarks.estimates.large_collections import cells, silhouettes, voxels
from benchmarks.made import random_pairs

NEEDS = {"graphs", "images"}

Float = NDArray[np.float64]

GRAPHS = ("MUTAG", "PTC_MR", "BZR", "ENZYMES", "COX2", "NCI1")
CHECKED = 1500
"""Pairs that are solved exactly to know the true error."""

TODAY = (16, 32, 64, 128)
"""Numbers of anchors of the calibrated calls that the choice is held against, beside the mean size."""

GRACE = 1.1


@dataclass(frozen=True)
class Collection:
    """A collection, some of its pairs, and their exact distances."""

    name: str
    D: asot.Distributions
    pairs: NDArray[np.int64]  # (P, 2)
    exact: Float  # (P,)
    exact_seconds: float  # of all pairs, extrapolated

    @property
    def n_pairs(self) -> int:
        return len(self.D) * (len(self.D) - 1) // 2

    def off(self, values: Float) -> float:
        """Relative root mean squared error of the values of all pairs, in percent."""
        i, j = self.pairs.T
        found = values[AllPairs(len(self.D)).row_start(i) + j - i - 1]
        return 100 * float(np.sqrt(np.mean((found - self.exact) ** 2)) / self.exact.mean())


def run(options: Options) -> Report:
    """Measure, check the promise of the default, and make the report."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up()
        collections = [prepare(name, make) for name, make in makers(options).items()]
        tables = [
            Table("`asot.pairwise(D)`, no options: the aim is 2 %, with 10 % grace.", *_defaults(collections)),
            Table(
                "The same call beside `pairwise_exact(D)` and beside the best calibrated call at a fixed number of "
                f"anchors ({', '.join(map(str, TODAY))} or the mean size) that meets 2 %:",
                *_beside(collections if options.quick else collections[:8]),
            ),
            Table('`error="1%"`:', *_tighter(collections)),
            Table("Counted work against the clock, in µs per exact pair:", *_prices(collections)),
        ]  # fmt: skip
    return Report("strategy", "Right by default", __doc__ or "", tables, NOTES)


NOTES = (
    "*true* is the error on 1,500 random pairs (300 and 40 of the large ones), relative to their mean.",
    "*measured* is what the call itself reports.",
)


def makers(options: Options) -> dict[str, Callable[[], asot.Distributions]]:
    """How to make every collection, by name."""
    assert options.data is not None
    few = 40 if options.quick else None
    found: dict[str, Callable[[], asot.Distributions]] = {}
    for name in GRAPHS:
        found[name] = partial(
            _first, partial(tu_collection, options.data, name), few or (600 if name == "NCI1" else None)
        )
    found["MNIST"] = partial(mnist_collection, options.data, few or 500)
    found["digits"] = partial(_first, lambda: asot.datasets.load_digits()[0], few or 1000)
    for name, loader in (("tweets", tweets), ("events", events)):
        if (options.data / "more").is_dir():
            found[name] = partial(_first, partial(loader, options.data), few or 600)
    for kind in (cells, voxels, silhouettes):
        for size in (100,) if options.quick else (500, 2000):
            found[f"{kind.__name__} of {size}"] = partial(kind, few or 200, size)
    return found


def _first(make: Callable[[], asot.Distributions], n: int | None) -> asot.Distributions:
    return make()[:n]


def tweets(folder: Path) -> asot.Distributions:
    """Tweets as bags of word vectors."""
    with np.load(folder / "more" / "wmd_twitter.npz") as file:
        points = file["vectors"][file["word_index"]].astype(np.float64)
        return asot.Distributions(points, file["doc_ptr"], file["count"].astype(np.float64))


def events(folder: Path) -> asot.Distributions:
    """Particles of collider events: directions, with energies as masses."""
    with np.load(folder / "more" / "hep_events_eeH250.npz") as file:
        p = file["pxpypzE"]
        directions = p[:, :3] / np.linalg.norm(p[:, :3], axis=1, keepdims=True)
        return asot.Distributions(directions, file["event_ptr"], p[:, 3])


def prepare(name: str, make: Callable[[], asot.Distributions], dear_pairs: int | None = None) -> Collection:
    """Make a collection, solve some of its pairs exactly (``dear_pairs`` of large ones), and time that."""
    D = make()
    dear = D.sizes.mean() > 300
    pairs = random_pairs(len(D), dear_pairs or (40 if D.sizes.mean() > 1000 else 300 if dear else CHECKED))
    if dear or len(D) * (len(D) - 1) > 4_000_000:
        exact, seconds = _extrapolated(D, pairs)
        return Collection(name, D, pairs, exact, seconds)
    seconds, r = timed(lambda: asot.pairwise_exact(D, progress=False))
    i, j = pairs.T
    return Collection(name, D, pairs, r.values[AllPairs(len(D)).row_start(i) + j - i - 1], seconds)


def _extrapolated(D: asot.Distributions, pairs: NDArray[np.int64]) -> tuple[Float, float]:
    """Exact distances of some pairs, and seconds of all pairs, without what is done once for a collection."""
    named, index = np.unique(pairs, return_inverse=True)
    some, places = D[named], index.reshape(-1, 2)
    few = len(pairs) // 10
    asot.pairwise_exact(some, pairs=places[:few], progress=False)  # compiles what `warm_up` did not
    start, _ = timed(lambda: asot.pairwise_exact(some, pairs=places[:few], progress=False))
    seconds, r = timed(lambda: asot.pairwise_exact(some, pairs=places, progress=False))
    return r.values, (seconds - start) / (len(pairs) - few) * (len(D) * (len(D) - 1) // 2)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds and answer."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def warm_up() -> None:
    """Every kernel is compiled before the clock runs."""
    small, large = cells(20, 30), silhouettes(16, 120)
    for D in (cells(2, 700), voxels(2, 700), silhouettes(2, 2500)):
        asot.pairwise_exact(D)
    for D in (small, large):
        asot.pairwise(D, estimate="calibrated", bounds=True)
        asot.pairwise(D)
        asot.pairwise_exact(D)


# ------------------------------------------------------------------------------------------------ the tables


def _defaults(collections: list[Collection]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for one in collections:
        seconds, r = timed(partial(asot.pairwise, one.D, progress=False))
        record, true = r.info["strategy"], one.off(r.values)
        low, high = (100 * end / r.values.mean() for end in record["error_interval"])
        verdict = "met" if true <= GRACE * 2 else "**missed**"
        rows.append(
            [
                one.name, f"{len(one.D):,}", f"{one.D.sizes.mean():.0f}", str(one.D.dim),
                record["why"].partition(":")[0],
                f"{100 * record['relative_error']:.2f} ({low:.2f} to {high:.2f})", f"{true:.2f}", verdict,
                f"{seconds:.2f} s", f"{one.exact_seconds:.2f} s", f"{one.exact_seconds / seconds:.1f}×",
            ]
        )  # fmt: skip
    columns = [
        "collection",
        "N",
        "points",
        "d",
        "way",
        "measured, %",
        "true, %",
        "2 %",
        "seconds",
        "exact",
        "faster by",
    ]
    return columns, rows


def _beside(collections: list[Collection]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for one in collections:
        best, name = one.exact_seconds, "exact"
        for k in sorted({*TODAY, round(float(one.D.sizes.mean()))}):
            call = partial(asot.pairwise, one.D, estimate="calibrated", n_anchors=k, random_state=0, progress=False)
            seconds, r = timed(call)
            if one.off(r.values) <= 2 and seconds < best:
                best, name = seconds, f"calibrated, k = {k}"
        seconds = min(timed(partial(asot.pairwise, one.D, progress=False))[0] for _ in range(2))
        r = asot.pairwise(one.D, progress=False)
        planning = r.info["strategy"]["planning_seconds"]
        rows.append(
            [
                one.name,
                f"{seconds:.3f} s",
                f"{best:.3f} s ({name})",
                f"{seconds / best:.2f}",
                f"{1000 * planning:.0f} ms",
            ]
        )
    return ["collection", "pairwise(D)", "best of the others", "ratio (at most 1.15)", "planning"], rows


def _tighter(collections: list[Collection]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for one in collections[:8]:
        seconds, r = timed(partial(asot.pairwise, one.D, error="1%", progress=False))
        record = r.info["strategy"]
        low, high = (100 * end / r.values.mean() for end in record["error_interval"])
        rows.append(
            [
                one.name,
                record["why"].partition(":")[0],
                f"{low:.2f} to {high:.2f}",
                f"{one.off(r.values):.2f}",
                f"{seconds:.2f} s",
            ]
        )
    return ["collection", "way", "measured, %", "true, %", "seconds"], rows


def _prices(collections: list[Collection]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for one in collections:
        counted = 1e6 * count_load(one.D, None, AllPairs(len(one.D))).exact_pair
        real = 1e6 * one.exact_seconds / one.n_pairs
        rows.append([one.name, f"{counted:.1f}", f"{real:.1f}", f"{real / counted:.2f}"])
    return ["collection", "counted", "measured", "ratio"], rows
