"""Which modules of asot the main thread passes in one warm call: ``python -m tests.walks`` prints them.

A call that passes few modules can be followed by reading. Threads solve tiles beside it and are not counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import asot

HERE = Path(asot.__file__).parent


def modules_passed(call: Callable[[], object]) -> list[str]:
    """Modules whose functions run in this thread, in the order in which they are first entered; called when warm."""
    call()
    call()
    passed: dict[str, None] = {}

    def note(frame, event, _argument):
        if event == "call":
            passed.setdefault(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    files = [Path(name) for name in passed]
    return [str(file.relative_to(HERE))[:-3] for file in files if HERE in file.parents]


def clouds(n: int, size: int, dim: int = 3) -> asot.Distributions:
    rng = np.random.default_rng(0)
    return asot.Distributions.from_list([rng.normal(i % 5, 1.0, size=(size + i % 3, dim)) for i in range(n)])


SMALL = clouds(120, 40)
HISTOGRAMS = np.random.default_rng(0).dirichlet(np.ones(12), size=60)
COST = np.abs(np.subtract.outer(np.arange(12.0), np.arange(12.0))) ** 0.9

CALLS: dict[str, Callable[[], object]] = {
    "pairwise": lambda: asot.pairwise(SMALL, error="10%"),
    "pairwise, other": lambda: asot.pairwise(SMALL, p=2, unmatched=30.0, error="20%"),
    "pairwise_exact": lambda: asot.pairwise_exact(SMALL),
    "kneighbors": lambda: asot.kneighbors(SMALL, 5),
    "emd_many": lambda: asot.emd_many(HISTOGRAMS, cost=COST),
    "sinkhorn_many": lambda: asot.sinkhorn_many(HISTOGRAMS, cost=COST, reg=0.5),
}


def main() -> None:
    for name, call in CALLS.items():
        passed = modules_passed(call)
        sys.stdout.write(f"{name}: {len(passed)}\n  {' '.join(passed)}\n")


if __name__ == "__main__":
    main()
