"""Random splits of two bags of points into bags of the same sizes, as sparse histograms over their distinct points.

A split is drawn and written by a kernel, from a random stream of its own: it depends on the seed, on which
distribution is tested and on its number, and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asot._typing import Float, Indices
from asot.data.distinct import SparseHistograms
from asot.native import Doubles, Int, Ints, Record, entry
from asot.validation import FloatArray

_SEEDS = 2**63
"""Seeds that a kernel takes."""


class Splits(Record):
    """Two bags, and which of their splits are wanted (``native/learn/splits.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("n_kept", Int), ("n_strata", Int), ("place", Ints), ("weights", Doubles), ("order", Ints),
        ("starts", Ints), ("members", Ints), ("taken", Ints), ("seed", Int), ("own", Int), ("low", Int), ("high", Int),
    ]  # fmt: skip


class SplitsOut(Record):
    """Where histograms go (``native/learn/splits.cpp``)."""

    _fields_ = [("offsets", Ints), ("index", Ints), ("masses", Doubles), ("empty", Ints)]  # noqa: RUF012


_split_histograms = entry("split_histograms", Splits, SplitsOut)


@dataclass(frozen=True)
class TwoBags:
    """The n points of a distribution, followed by the m of the control."""

    own: int
    """Which distribution it is: every one has random splits of its own."""
    n_first: int
    place: Indices
    """(n + m,) Column of every point in the histograms; -1 for points without mass, which only change places."""
    weights: Float
    """(n + m,) Travel with their points. 1 where masses are equal, whatever the sizes."""
    strata: Indices | None = None
    """(n + m,) Numbers of strata within which points change places, from 0 on."""


@dataclass(frozen=True)
class Wanted:
    """Splits ``low`` to ``high`` of two bags; split 0 is the observed one."""

    bags: TwoBags
    low: int
    high: int

    def __len__(self) -> int:
        return self.high - self.low


def split_histograms(points: FloatArray, wanted: list[Wanted], seed: int) -> SparseHistograms:
    """Histograms 2t and 2t + 1 over points (V, d) are the two sides of the t-th of all splits that are wanted.

    Raises ValueError with the number of a distribution if one of its splits leaves a side without mass.
    """
    offsets = np.zeros(1 + 2 * sum(map(len, wanted)), dtype=np.int64)
    room = sum(len(own) * int(np.count_nonzero(own.bags.place >= 0)) for own in wanted)
    index, masses, empty = np.empty(room, dtype=np.int64), np.empty(room), np.zeros(1, dtype=np.int64)
    first = 0
    for own in wanted:
        out = SplitsOut(offsets=offsets[first:], index=index, masses=masses, empty=empty)
        _split_histograms(_record(own, seed), out)
        if empty[0]:
            raise NoMassError(own.bags.own)
        first += 2 * len(own)
    used = int(offsets[-1])
    return SparseHistograms(points, offsets, index[:used], masses[:used])


class NoMassError(ValueError):
    """A split of a distribution and the control has a side without mass."""

    def __init__(self, own: int) -> None:
        super().__init__(f"distribution {own} or the control has so few points with mass that a split can have none")
        self.own = own


def _record(wanted: Wanted, seed: int) -> Splits:
    bags = wanted.bags
    n = len(bags.place)
    strata = np.zeros(n, dtype=np.int64) if bags.strata is None else bags.strata
    is_second = np.arange(n) >= bags.n_first
    order = np.argsort(bags.place, kind="stable")
    order = order[np.count_nonzero(bags.place < 0) :]
    sizes = np.bincount(strata)
    return Splits(
        n=n, n_kept=len(order), n_strata=len(sizes), place=np.ascontiguousarray(bags.place, dtype=np.int64),
        weights=np.ascontiguousarray(bags.weights), order=order, starts=np.concatenate([[0], np.cumsum(sizes)]),
        members=np.lexsort([is_second, strata]), taken=sizes - np.bincount(strata[is_second], minlength=len(sizes)),
        seed=seed % _SEEDS, own=bags.own, low=wanted.low, high=wanted.high,
    )  # fmt: skip
