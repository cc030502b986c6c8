"""Which modules of asot the main thread passes in one warm call: ``python -m tests.walks`` prints them.

A call that passes few modules can be followed by reading. Threads solve tiles beside it and are not counted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import asot

HERE = Path(asot.__file__).parent


EXEMPT = {"run", "exact", "entropic", "native", "validation"}
"""Rooms that may be entered again and again: the engine, solvers, kernels, and checks of arguments."""


def room_of(file: str) -> str | None:
    path = Path(file)
    return str(path.relative_to(HERE)).split("/")[0].removesuffix(".py") if HERE in path.parents else None


def times_entered(call: Callable[[], object]) -> Counter[str]:
    """How often this thread goes from one room into another, by the room it enters; the engine's own calls aside."""
    call()
    call()
    entered: Counter[str] = Counter()

    def note(frame, event, _argument):
        own = room_of(frame.f_code.co_filename)
        if event != "call" or own is None or own in EXEMPT:
            return
        caller = frame.f_back
        while caller is not None and room_of(caller.f_code.co_filename) is None:
            caller = caller.f_back
        if caller is None or room_of(caller.f_code.co_filename) not in (own, "run"):
            entered[own] += 1

    with_profile(note, call)
    return entered


def with_profile(note: Callable[..., None], call: Callable[[], object]) -> None:
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)


def modules_passed(call: Callable[[], object]) -> list[str]:
    """Modules whose functions run in this thread, in the order in which they are first entered; called when warm."""
    call()
    call()
    passed: dict[str, None] = {}

    def note(frame, event, _argument):
        if event == "call":
            passed.setdefault(frame.f_code.co_filename)

    with_profile(note, call)
    files = [Path(name) for name in passed]
    return [str(file.relative_to(HERE))[:-3] for file in files if HERE in file.parents]


def clouds(n: int, size: int, dim: int = 3) -> asot.Distributions:
    rng = np.random.default_rng(0)
    return asot.Distributions.from_list([rng.normal(i % 5, 1.0, size=(size + i % 3, dim)) for i in range(n)])


SMALL, FEWER = clouds(120, 40), clouds(80, 40)
HISTOGRAMS = np.random.default_rng(0).dirichlet(np.ones(12), size=60)
MANY = np.random.default_rng(0).dirichlet(np.ones(12), size=400)
COST = np.abs(np.subtract.outer(np.arange(12.0), np.arange(12.0))) ** 0.9

CALLS: dict[str, Callable[[], object]] = {
    "pairwise": lambda: asot.pairwise(SMALL, error="10%"),
    "pairwise, other": lambda: asot.pairwise(SMALL, p=2, unmatched=30.0, error="20%"),
    "pairwise_exact": lambda: asot.pairwise_exact(SMALL),
    "kneighbors": lambda: asot.kneighbors(FEWER, 5),
    "kneighbors, projected": lambda: asot.kneighbors(SMALL, 5),
    "emd_many": lambda: asot.emd_many(HISTOGRAMS, cost=COST),
    "emd_many, many": lambda: asot.emd_many(MANY, cost=COST),
    "sinkhorn_many": lambda: asot.sinkhorn_many(HISTOGRAMS, cost=COST, reg=0.5),
}


def main() -> None:
    for name, call in CALLS.items():
        passed = modules_passed(call)
        entered = times_entered(call)
        sys.stdout.write(f"{name}: {len(passed)}\n  {' '.join(passed)}\n")
        sys.stdout.write(f"  rooms entered {entered.total()} times: {dict(entered)}\n")


if __name__ == "__main__":
    main()
