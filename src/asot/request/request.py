"""What a call of `asot.pairwise` asks for, once it is read: the part that every method needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from asot.data.distributions import Distributions
from asot.request.accuracy import MaxError
from asot.request.distance import Distance
from asot.results.sinks import Condensed, default_sink
from asot.run.pairs import PairSet
from asot.run.protocols import Sink
from asot.run.work import Resources

PLAIN = Distance()
"""The Euclidean W_1 of total masses 1."""


@dataclass(frozen=True)
class Request:
    """Collections, pairs, and where answers go."""

    D: Distributions
    E: Distributions | None
    pairs: PairSet
    listed: Any
    """The pairs as the user gave them, or None."""
    sink: Sink[Any] | None
    device: str
    running: Resources
    level: str | None
    """Which bounds are wanted: "auto" or a level of `asot.bounds.error_bars.make_bounds`, or None."""
    accepted: MaxError | None
    started: float
    """When the call began."""
    wanted: Distance = PLAIN

    @cached_property
    def both(self) -> Distributions:
        """All distributions, the second collection after the first."""
        return self.D if self.E is None else self.D + self.E

    @property
    def column_start(self) -> int:
        """Where the columns begin in ``both``."""
        return 0 if self.E is None else len(self.D)

    @property
    def options(self) -> dict[str, Any]:
        return {"n_jobs": self.running.n_jobs, "memory": self.running.memory, "progress": self.running.progress}

    @property
    def bounded_sink(self) -> Sink[Any]:
        """The sink of a run with bounds: they are in the result even if there are no pairs."""
        if self.sink is None and self.level is not None:
            return Condensed(extras=("lower", "upper"))
        return default_sink(self.sink)
