"""Near-duplicates of a collection of crystals, all of them and certainly, beside `average-minimum-distance`.

Perovskites and carbon crystals of the data folder, each atom of each copy moved by about 0.002 Å. Two entries are
near-duplicates if they are within 0.01 Å, with 100 neighbors per atom. `amd` computes distances pair by pair; it is
timed on some pairs, and its time for all of them follows. It merges no rows here, so that both compute one number.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import numpy as np

import asot
from benchmarks.common import Options, Report, Table

NEEDS = {"crystals"}

MOVED, RADIUS, NEIGHBORS = 0.002, 0.01, 100


def run(options: Options) -> Report:
    """Rows of distances, the search, and a sample of pairs by amd."""
    assert options.data is not None
    n = 3000 if options.quick else 100_000
    entries, origin = _copies(options.data / "more", n)
    started = time.process_time()
    D = asot.Distributions.from_structures(entries, k=NEIGHBORS)
    rows: list[list[Any]] = [["rows of the nearest distances", f"{time.process_time() - started:.1f} s", ""]]
    started, clock = time.process_time(), time.perf_counter()
    found = asot.radius_neighbors(D, radius=RADIUS, metric="chebyshev", n_jobs=2)
    took, clock = time.process_time() - started, time.perf_counter() - clock
    first = np.repeat(np.arange(n), np.diff(found.indptr))
    strange = int((origin[first] != origin[found.indices]).sum())
    notes = f"{len(first) // 2:,} pairs found, {found.n_exact:,} solved, {strange // 2:,} of different origin"
    rows.append(
        ["radius_neighbors, processor time of two threads", f"{took:.1f} s", f"{clock:.1f} s on the clock; {notes}"]
    )
    rows += _sampled(entries, D, took) if importlib.util.find_spec("amd") else []
    return Report(
        "crystals",
        "Near-duplicates among crystals",
        __doc__ or "",
        [Table(f"{n:,} crystals, {n * (n - 1) // 2:,} pairs:", ["what", "time", "notes"], rows)],
    )


def _copies(folder: Path, n: int) -> tuple[list[tuple[Any, Any]], Any]:
    """n crystals with their atoms moved, and which one each of them was."""
    known = []
    for name in ("crystals_perov_5_val.npz", "crystals_carbon_24_val.npz"):
        with np.load(folder / name) as file:
            lattices, shares, ends = (file[key].astype(float) for key in ("lattice", "frac", "ptr"))
        for cell, (begin, end) in zip(lattices, np.stack([ends[:-1], ends[1:]], axis=1).astype(int), strict=True):
            known.append((cell, shares[begin:end] @ cell))
    rng = np.random.default_rng(0)
    origin = rng.integers(len(known), size=n)
    moved = [(cell, where + rng.normal(scale=MOVED, size=where.shape)) for cell, where in (known[i] for i in origin)]
    return moved, origin


def _sampled(entries: list[tuple[Any, Any]], D: asot.Distributions, ours: float) -> list[list[Any]]:
    """amd on pairs of 40 crystals: its time per pair, for all pairs, and the largest difference of values."""
    import amd

    chosen = np.random.default_rng(1).choice(len(entries), size=40, replace=False)
    sets = [amd.PeriodicSet(entries[i][1], entries[i][0]) for i in chosen]
    rows = [amd.PDD(own, NEIGHBORS, collapse=False) for own in sets]
    amd.EMD(rows[0], rows[1])  # compiles
    started = time.process_time()
    theirs = [amd.EMD(rows[i], rows[j]) for i in range(40) for j in range(i + 1, 40)]
    each = (time.process_time() - started) / len(theirs)
    exact = asot.pairwise_exact(D[chosen], metric="chebyshev").values
    own_rows = asot.Distributions.from_list([row[:, 1:] for row in rows], [row[:, 0] for row in rows])
    same = np.abs(asot.pairwise_exact(own_rows, metric="chebyshev").values - exact).max()
    whole = each * len(D) * (len(D) - 1) / 2
    differ = np.abs(np.array(theirs) - exact).max()
    return [
        [f"amd {amd.__version__}, one pair", f"{1e6 * each:.0f} µs", f"values differ by at most {differ:.1e}"],
        ["exact distances of amd's rows", "", f"differ from ours by at most {same:.1e}"],
        ["amd, all pairs at that rate", f"{whole:,.0f} s", f"{whole / ours:.0f} × ours"],
    ]
