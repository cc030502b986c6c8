"""What every baseline is given, read once: two collections as one, and the pairs that are wanted."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from asot.data.distributions import read_both
from asot.request import Request
from asot.results.distances import Distances
from asot.results.sinks import Condensed
from asot.run.engine import Ready, Resources, Work, solve_work
from asot.run.executors import ProgressLike
from asot.run.protocols import Notes, Solver


def read(D: Any, E: Any, pairs: ArrayLike | None) -> Request:
    """Check the collections and the pairs of a call."""
    request = Request(*read_both(D, E), listed=pairs)
    _ = request.pairs  # refuses what names no pair
    return request


def run(
    asked: Request, solver: Solver, method: str, *, n_jobs: int | None, memory: int | str | None, progress: ProgressLike
) -> Distances:
    """Let the engine solve the pairs, and say in ``info`` what this is."""
    work = Work(asked.pairs, Ready(solver), notes=Notes({"method": method, "metric": "euclidean", "p": 1}))
    return solve_work(work, Condensed(), Resources(n_jobs, memory, progress))
