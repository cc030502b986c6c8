"""A process that changes an index and says so after every change, until it is killed: ``python killed_writer.py PATH
SEED START``. The changes are those of `histories.step`, which its parent repeats on a plain list."""

from __future__ import annotations

import sys

import numpy as np

import asot
from tests.index.histories import PlainList, step


def replayed(seed, count):
    """The plain list after this many changes."""
    plain = PlainList()
    for turn in range(count):
        step(np.random.default_rng([seed, turn]), _Nothing(), plain)
    return plain


class _Nothing:
    def add(self, *given, **words):
        pass

    def remove(self, *given):
        pass


if __name__ == "__main__":
    path, seed, start = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    index = asot.Index.open(path, mode="r+")
    plain = replayed(seed, start)
    print("ready", flush=True)  # noqa: T201
    for turn in range(start, 10_000):
        step(np.random.default_rng([seed, turn]), index, plain)
        print(turn + 1, flush=True)  # noqa: T201
        if turn % 9 == 8:
            index.compact()
