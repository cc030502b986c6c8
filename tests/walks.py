"""Which modules of asot the main thread passes in one warm call: ``python -m tests.walks`` prints them.

A call that passes few modules can be followed by reading. Threads solve tiles beside it and are not counted.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

import asot

HERE = Path(asot.__file__).parent


STAGES = {"distances", "neighbors", "histograms", "request", "choose", "estimate", "search", "store", "results"}
"""Rooms that a call goes through: ask, choose, (run,) keep. The others are tools, which every stage may use."""

VALUES = {"request", "data"}
"""Rooms whose objects are handed from stage to stage: asking one of them for something is not going there."""


def room_of(file: str) -> str | None:
    path = Path(file)
    return str(path.relative_to(HERE)).split("/")[0].removesuffix(".py") if HERE in path.parents else None


def stages_entered(call: Callable[[], object]) -> list[str]:
    """The stages that this thread goes through, in order; the same one twice in a row is one.

    A stage is entered where its function is called from another room, but for the engine, which calls its sink for
    every tile. Properties and methods such as ``len`` ask a value, wherever its class is.
    """
    call()
    call()
    entered: list[str] = []

    def note(frame, event, _argument):
        own = room_of(frame.f_code.co_filename)
        if event != "call" or own not in STAGES or is_question(frame):
            return
        caller = frame.f_back
        while caller is not None and room_of(caller.f_code.co_filename) is None:
            caller = caller.f_back
        from_room = None if caller is None else room_of(caller.f_code.co_filename)
        if from_room not in (own, "run") and entered[-1:] != [own]:
            entered.append(own)

    with_profile(note, call)
    return entered


def is_question(frame: FrameType) -> bool:
    """Whether a function is a property, a special method that makes nothing, or a method of a value."""
    owner = frame.f_locals.get("self")
    name = frame.f_code.co_name
    if owner is None or name in ("__init__", "__call__"):
        return False
    is_special = name.startswith("__") and name.endswith("__")
    is_property = isinstance(getattr(type(owner), name, None), (property, functools.cached_property))
    return is_special or is_property or room_of(frame.f_code.co_filename) in VALUES


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
        sys.stdout.write(f"{name}: {len(passed)}\n  {' '.join(passed)}\n")
        sys.stdout.write(f"  stages: {' '.join(stages_entered(call))}\n")


if __name__ == "__main__":
    main()
