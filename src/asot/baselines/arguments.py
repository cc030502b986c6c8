"""What every baseline is given, read once: two collections as one, and the pairs that are wanted."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from asot.data.distributions import Distributions, read_both
from asot.results.distances import Distances
from asot.results.sinks import Condensed
from asot.run.engine import Ready, Resources, Work, solve_work
from asot.run.executors import ProgressLike
from asot.run.pairs import PairSet, make_pairs
from asot.run.protocols import Notes, Solver


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


def read(D: Any, E: Any, pairs: ArrayLike | None) -> Asked:
    """Check the collections and the pairs of a call."""
    first, second = read_both(D, E)
    return Asked(first, second, make_pairs(len(first), None if second is None else len(second), pairs))


def run(
    asked: Asked, solver: Solver, method: str, *, n_jobs: int | None, memory: int | str | None, progress: ProgressLike
) -> Distances:
    """Let the engine solve the pairs, and say in ``info`` what this is."""
    info = {"method": method, "metric": "euclidean", "p": 1}
    work = Work(asked.pair_set, Ready(solver), notes=Notes(info))
    return solve_work(work, Condensed(), Resources(n_jobs, memory, progress))
