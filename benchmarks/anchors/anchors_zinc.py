"""Learning anchors of ZINC-250k's 220,011 training molecules on a GPU: time, error and memory.

The space is learned on the training molecules, about five million nodes, and judged on pairs of test molecules.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import asot
from benchmarks.common import Options, Report, Table, below, with_peak_memory
from benchmarks.data import zinc_collection
from benchmarks.made import random_pairs

NEEDS = {"gpu", "molecules"}

N_TRAINING, N_TEST = 220_011, 5_000
LIMIT_SECONDS = 300.0


def run(options: Options) -> Report:
    assert options.data is not None
    everything = zinc_collection(options.data)
    training, test = everything[:N_TRAINING], everything[-N_TEST:]
    if options.quick:
        training, test = training[:2000], test[:200]
    pairs = random_pairs(len(test), 5000)
    exact = asot.pairwise_exact(test, pairs=pairs, n_jobs=-1, progress=False).values
    learners: dict[str, Any] = {
        "k-means": asot.KMeansAnchors(random_state=0, device="cuda"),
        "metric": asot.MetricAnchors(n_pairs=20_000, max_epochs=20, random_state=0, device="cuda", progress=True),
        "dictionary": asot.DictionaryAnchors(n_pairs=20_000, max_epochs=20, random_state=0, device="cuda"),
    }
    rows = []
    for name, learner in learners.items():
        started = time.perf_counter()
        _, grown = with_peak_memory(lambda learner=learner: learner.fit(training))
        seconds = time.perf_counter() - started
        found = asot.pairwise(test, space=learner, pairs=pairs, n_jobs=-1, progress=False, estimate="anchor").values
        error = float(np.sqrt(np.mean((found - exact) ** 2)) / exact.mean())
        k = str(learner.space_.n_anchors)
        rows.append([name, k, f"{100 * error:.2f} %", below(seconds, LIMIT_SECONDS, "s"), f"{grown / 1e6:,.0f} MB"])
    columns = ["anchors", "k", "error on unseen molecules", "training", "memory of the host"]
    table = Table(f"{len(training):,} molecules, {len(training.points):,} nodes", columns, rows)
    introduction = "Errors are the root mean square of W_AS − W₁ on pairs of test molecules, as a share of the mean W₁."
    return Report("anchors_zinc", "Learned anchors of ZINC on a GPU", introduction, [table])
