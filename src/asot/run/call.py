"""What a call of `asot.pairwise` asks for, once it is read: the part that every method needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from asot.bounds.calibration import Running
from asot.bounds.guarantee import MaxError
from asot.data.distributions import Distributions
from asot.exact.wanted import Wanted
from asot.run.pairs import PairSet
from asot.run.sinks import Condensed, Sink

PLAIN = Wanted()
"""The Euclidean W_1 of total masses 1."""


@dataclass(frozen=True)
class Call:
    """Collections, pairs, and where answers go."""

    D: Distributions
    E: Distributions | None
    pairs: PairSet
    listed: Any
    """The pairs as the user gave them, or None."""
    sink: Sink[Any] | None
    device: str
    running: Running
    level: str | None
    """Which bounds are wanted: "auto" or a level of `asot.bounds.error_bars.make_bounds`, or None."""
    accepted: MaxError | None
    started: float
    """When the call began."""
    wanted: Wanted = PLAIN

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
    def bounded_sink(self) -> Sink[Any] | None:
        """The sink of a run with bounds: they are in the result even if there are no pairs."""
        if self.sink is None and self.level is not None:
            return cast("Sink[Any]", Condensed(extras=("lower", "upper")))
        return self.sink
