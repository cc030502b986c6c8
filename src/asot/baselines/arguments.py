"""What every baseline is given, read once: two collections as one, and the pairs that are wanted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.data.distributions import Distributions, read_both
from asot.results.distances import Distances
from asot.results.sinks import distances_of
from asot.run.pairs import AllPairs, ListedPairs, PairSet, make_pairs
from asot.run.progress import ProgressLike
from asot.run.protocols import Notes, Solver
from asot.validation import refuse_what_cannot_fit


class Asked(NamedTuple):
    """The input of a call."""

    D: Distributions
    E: Distributions | None
    pair_set: PairSet

    @property
    def both(self) -> Distributions:
        """The second collection behind the first."""
        return self.D if self.E is None else self.D + self.E

    @property
    def column_start(self) -> int:
        """Where the columns of the pairs begin in `both`."""
        return 0 if self.E is None else len(self.D)

    def label(self, i: int) -> str:
        """How messages call distribution i of `both`."""
        if self.E is None or i < len(self.D):
            return self.D.label(i)
        return f"{self.E.label(i - len(self.D))} of the second collection"

    def refuse_large_pairs(self, sizes: NDArray[np.int64], bytes_per_entry: int) -> None:
        """Refuse pairs whose matrix (n, m) cannot fit; ``sizes`` are those of `both`."""
        i, j = self._largest_pair(sizes)
        refuse_what_cannot_fit(
            bytes_per_entry * int(sizes[i]) * int(sizes[j]),
            f"the kernel of {self.label(i)} ({sizes[i]:,} points) and {self.label(j)} ({sizes[j]:,} points)",
            "use asot.pairwise, which goes through anchors",
        )

    def _largest_pair(self, sizes: NDArray[np.int64]) -> tuple[int, int]:
        if len(self.pair_set) == 0:
            return 0, 0
        if isinstance(self.pair_set, ListedPairs):
            rows, columns = self.pair_set.indices(0, len(self.pair_set))
        elif isinstance(self.pair_set, AllPairs):
            rows, columns = np.argsort(sizes)[[-1]], np.argsort(sizes)[[-2]]
        else:
            rows, columns = np.argsort(sizes[: len(self.D)])[[-1]], np.argsort(sizes[len(self.D) :])[[-1]]
        columns = columns + self.column_start
        t = int(np.argmax(sizes[rows] * sizes[columns]))
        return int(rows[t]), int(columns[t])


def read(D: Any, E: Any, pairs: ArrayLike | None) -> Asked:
    """Check the collections and the pairs of a call."""
    first, second = read_both(D, E)
    return Asked(first, second, make_pairs(len(first), None if second is None else len(second), pairs))


def run(
    asked: Asked,
    solver: Solver,
    method: str,
    *,
    n_jobs: int | None,
    memory: int | str | None,
    progress: ProgressLike,
) -> Distances:
    """Let the engine solve the pairs, and say in ``info`` what this is."""
    info = {"method": method, "metric": "euclidean", "p": 1}
    result: Distances = distances_of(
        asked.pair_set, solver, n_jobs=n_jobs, memory=memory, progress=progress, notes=Notes(info)
    )
    return result


def as_reg_of_points(reg: Any, largest: float) -> float:
    """ε from a number > 0 that float64 can resolve beside distances up to ``largest``."""
    if isinstance(reg, bool) or not isinstance(reg, (int, float, np.number)) or not 0 < reg < np.inf:
        raise ValueError(f"reg must be a number > 0, in the units of the distance; found {reg!r}")
    if reg < 1e-8 * largest:
        raise ValueError(
            f"reg = {reg:g} is less than 1e-8 of the largest distance of two points (up to {largest:g}): float64 "
            "cannot resolve it; use ot_emd for the exact limit"
        )
    return float(reg)


def as_weight(reg: Any) -> float:
    """Weight of an entropy that may be left out: a number ≥ 0."""
    if isinstance(reg, bool) or not isinstance(reg, (int, float, np.number)) or not 0 <= reg < np.inf:
        raise ValueError(f"reg must be a number ≥ 0; found {reg!r}")
    return float(reg)


def as_truth(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False; found {value!r}")
    return bool(value)
