"""Error against time, for us and for other ways to many Wasserstein distances (`benchmarks.estimates.rivals`).

Rivals are rescaled to 64 exact pairs, as many as our own fit uses; what these pairs cost is not counted. Seconds are
CPU seconds of one thread for all pairs, extrapolated from the checked pairs for rivals and for large exact problems.
Wormhole (PyPI: WassersteinWormhole) was not run: it trains a network for every collection, with JAX.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import asot
from benchmarks.common import Options, Report, Table
from benchmarks.estimates.large_collections import cells
from benchmarks.estimates.rivals import bounds_features, linear_features, rescaled, sliced_features, tree_features
from benchmarks.estimates.strategy import Collection, makers, prepare, timed, warm_up
from benchmarks.made import random_pairs

NEEDS = {"graphs", "images"}

FITTED = 64
SLOPE = 8
"""How many times as many pairs the second sample has, from which the time of all is extrapolated."""
SHOWN = ("COX2", "MNIST", "tweets", "cells of 500", "voxels of 500", "silhouettes of 500")
NOTES = ("Rivals are NumPy around compiled parts; sliced distances are asot's own compiled ones.",)


def run(options: Options) -> Report:
    """Measure every way on six collections."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up()
        for features in (sliced_features(4), linear_features(8), bounds_features(4), tree_features(1)):
            features(cells(20, 30), random_pairs(20, 20))
        known = makers(options)
        chosen = [prepare(name, known[name]) for name in SHOWN if name in known]
        table = Table("Error in percent / CPU seconds for all pairs:", *_rivals(chosen))
    return Report("strategy_rivals", "Error against time", __doc__ or "", [table], NOTES)


def _rivals(collections: list[Collection]) -> tuple[list[str], list[list[str]]]:
    ways: dict[str, Callable[[Collection], tuple[float, float]]] = {
        'error="5%"': partial(_ours, error="5%"),
        'error="2%"': partial(_ours, error="2%"),
        'error="1%"': partial(_ours, error="1%"),
        "anchors, k = 32": partial(_ours, estimate="anchor", n_anchors=32, random_state=0),
        "sliced, 50": partial(_rival, sliced_features(50)),
        "sliced, 500": partial(_rival, sliced_features(500)),
        "tree-sliced, 10": partial(_rival, tree_features(10)),
        "linear, 64": partial(_rival, linear_features(64)),
        "sliced and lifted, 20": partial(_rival, bounds_features(20)),
    }
    rows = []
    for one in collections:
        cells_of = [f"{error:.2f} / {seconds:.2f}" for error, seconds in (way(one) for way in ways.values())]
        rows.append([one.name, f"0 / {one.exact_seconds:.2f}", *cells_of])
    return ["collection", "exact", *ways], rows


def _ours(one: Collection, **options: Any) -> tuple[float, float]:
    seconds, r = timed(partial(asot.pairwise, one.D, progress=False, **options))
    return one.off(r.values), seconds


def _rival(features: Any, one: Collection) -> tuple[float, float]:
    """Error on the checked pairs that were not fitted, and seconds for all pairs, from those of two samples."""
    more = random_pairs(len(one.D), SLOPE * len(one.pairs))
    seconds, found = timed(partial(features, one.D, one.pairs))
    longer, _ = timed(partial(features, one.D, more))
    per_pair = max(longer - seconds, 0.0) / (len(more) - len(one.pairs))
    values = rescaled(found, one.exact[:FITTED], np.arange(FITTED))[FITTED:]
    exact = one.exact[FITTED:]
    off = 100 * float(np.sqrt(np.mean((values - exact) ** 2)) / exact.mean())
    return off, seconds + per_pair * (one.n_pairs - len(one.pairs))
