"""`asot.emd_many`: all pairs of histograms under one metric cost, beside what people use today (METHOD §8).

Ours and wasserstein solve all pairs; POT, which has no call for many pairs, runs in a Python loop over a sample of
them. Our time is that of the whole call: reading the input, checking that the cost is a metric, and solving.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asot
from benchmarks.common import (
    Options,
    Race,
    Report,
    Table,
    largest_difference,
    microseconds,
    race,
    ratio,
)
from benchmarks.made import Histograms, random_pairs, trial_histograms
from benchmarks.peers.peers import Unavailable, WassersteinPeer, pot, wasserstein_peer

NEEDS = {"pot"}

TOLERANCE = 1e-10
"""Of the largest cost."""

OURS, OURS_TWO, LOOP, CORE, PEER = "asot", "asot, 2 threads", "POT emd2", "POT C++ core", "wasserstein"


@dataclass(frozen=True)
class Case:
    """One size, and how many times faster than the others it should be."""

    k: int
    n: int
    over_loop: float
    over_peer: float


CASES = (Case(18, 600, 100, 4.5), Case(30, 400, 80, 6), Case(60, 250, 30, 7), Case(150, 120, 15, 8))
TWO_THREADS = 1.6


def run(options: Options) -> Report:
    """Measure every size and make the report."""
    with wasserstein_peer(options.peers) as peer:
        measured = [_measure(case, peer, options.quick) for case in CASES]
        notes = [_peer_note(peer), *NOTES]
    return Report(
        "exact_shared",
        "Exact distances under one shared cost",
        "All pairs of N histograms on k anchors, Euclidean cost. One thread each, best of interleaved repeats.",
        [_times(measured), _ratios(measured), _agreement(measured)],
        notes,
    )


NOTES = (
    "asot: `emd_many(A, cost=C)`, all pairs, the whole call.",
    "POT emd2: `ot.emd2(a, b, C)` in a loop over a random sample of the same pairs. POT C++ core: the compiled "
    "function below it, `ot.lp.emd_wrap.emd_c`, in the same loop without any of POT's checks.",
    "POT is told to use its NumPy backend only; where it also finds PyTorch its loop is slower.",
    "Deviations are the largest |difference| / max C over all compared pairs and all repeats.",
)


@dataclass(frozen=True)
class Measured:
    case: Case
    n: int
    pairs: dict[str, int]
    outcome: Race

    def per_pair(self, name: str) -> float | None:
        return self.outcome.seconds[name] / self.pairs[name] if name in self.pairs else None

    def over(self, name: str) -> float | None:
        theirs = self.per_pair(name)
        return None if theirs is None else theirs / (self.per_pair(OURS) or np.nan)


def _measure(case: Case, peer: WassersteinPeer | Unavailable, quick: bool) -> Measured:
    n = case.n // 5 if quick else case.n
    h = trial_histograms(case.k, n)
    sample = random_pairs(n, 100 if quick else 1000)
    contestants: dict[str, Any] = {
        OURS: partial(_ours, h, n_jobs=1),
        OURS_TWO: partial(_ours, h, n_jobs=2),
        LOOP: partial(_pot_loop, h, sample),
    }
    if _core() is not None:
        contestants[CORE] = partial(_core_loop, h, sample)
    if isinstance(peer, WassersteinPeer):
        contestants[PEER] = peer.contestant(h, f"k{case.k}")
    outcome = race(contestants, partial(_deviations, h, sample), repeats=2 if quick else 7, tolerance=TOLERANCE)
    pairs = {name: len(sample) if name in (LOOP, CORE) else h.n_pairs for name in contestants}
    print(f"k = {case.k}: {microseconds(outcome.seconds[OURS] / h.n_pairs)} µs per pair", flush=True)
    return Measured(case, n, pairs, outcome)


def _ours(h: Histograms, n_jobs: int) -> NDArray[np.float64]:
    return asot.emd_many(h.masses, cost=h.cost, n_jobs=n_jobs).values


def _pot_loop(h: Histograms, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    emd2 = pot().emd2
    return np.array([emd2(h.masses[i], h.masses[j], h.cost) for i, j in pairs])


def _core() -> Any:
    pot()
    try:
        from ot.lp.emd_wrap import emd_c
    except ImportError:
        return None
    return emd_c


def _core_loop(h: Histograms, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    emd_c = _core()
    return np.array([emd_c(h.masses[i], h.masses[j], h.cost, 100_000, 1)[1] for i, j in pairs])


def _deviations(h: Histograms, pairs: NDArray[np.int64], answers: dict[str, Any]) -> dict[str, float]:
    i, j = pairs.T
    n = len(h.masses)
    sampled = answers[OURS][i * (2 * n - i - 1) // 2 + j - i - 1]  # condensed order
    top = h.cost.max()
    ours = {LOOP: sampled, CORE: sampled, PEER: answers[OURS], OURS_TWO: answers[OURS]}
    return {name: largest_difference(answers[name], ours[name], top) for name in answers if name != OURS}


# ---------------------------------------------------------------------------------------------------------- tables


def _times(measured: list[Measured]) -> Table:
    columns = [OURS, OURS_TWO, PEER, CORE, LOOP]
    rows = [
        [str(m.case.k), str(m.n), f"{m.pairs[OURS]:,}", *(_or_missing(m.per_pair(c), microseconds) for c in columns)]
        for m in measured
    ]
    return Table("Microseconds per pair:", ["k", "N", "pairs", *columns], rows)


def _ratios(measured: list[Measured]) -> Table:
    rows = []
    for m in measured:
        two = (m.per_pair(OURS) or np.nan) / (m.per_pair(OURS_TWO) or np.nan)
        rows.append(
            [
                str(m.case.k),
                _or_missing(m.over(LOOP), lambda value, m=m: ratio(value, m.case.over_loop)),
                _or_missing(m.over(PEER), lambda value, m=m: ratio(value, m.case.over_peer)),
                _or_missing(m.over(CORE), ratio),
                ratio(two, TWO_THREADS),
            ]
        )
    columns = ["k", "over POT emd2", "over wasserstein", "over POT C++ core", "two threads over one"]
    return Table("How many times faster asot is, and the target:", columns, rows)


def _agreement(measured: list[Measured]) -> Table:
    columns = [LOOP, CORE, PEER, OURS_TWO]
    rows = []
    for m in measured:
        worst = m.outcome.deviations
        cells = [f"{worst[c]:.1e} ({m.pairs[c]:,} pairs)" if c in worst else "not available" for c in columns]
        rows.append([str(m.case.k), *cells])
    return Table("Largest difference from asot on one thread, over max C:", ["k", *columns], rows)


def _or_missing(value: float | None, show: Any) -> str:
    return "not available" if value is None else show(value)


def _peer_note(peer: WassersteinPeer | Unavailable) -> str:
    if isinstance(peer, Unavailable):
        return f"wasserstein is not available: {peer}"
    return (
        f"wasserstein {peer.version}: `PairwiseEMD(R=1, beta=1, norm=True, num_threads=1)` on the non-empty anchors of "
        "each histogram, in an environment and process of its own; one fresh process per repeat, best of two runs in "
        "it. It has no shared cost: it computes Euclidean distances from coordinates for every pair."
    )
