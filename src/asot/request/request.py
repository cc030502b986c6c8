"""What a call asks for, once it is read: the part that every method needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from asot.data.distributions import Distributions
from asot.request.accuracy import Accuracy
from asot.request.distance import Distance
from asot.results.sinks import default_sink
from asot.run.engine import Resources
from asot.run.pairs import PairSet, make_pairs
from asot.run.protocols import Sink, SinkBase


@dataclass(eq=False)
class Request:
    """Collections, pairs, which distance, and where answers go. Nobody changes it."""

    D: Distributions
    E: Distributions | None
    distance: Distance = field(default_factory=Distance)
    listed: Any = None
    """The pairs as the user gave them, or None for all of them."""
    sink: Sink[Any] | None = None
    device: str = "auto"
    resources: Resources = field(default_factory=Resources)
    level: str | None = None
    """Which bounds are wanted: "auto" or a level of `asot.bounds.error_bars.make_bounds`, or None."""
    max_error: Accuracy | None = None
    """What no value may be off by."""
    started: float = 0.0
    """When the call began."""

    @cached_property
    def pairs(self) -> PairSet:
        return make_pairs(len(self.D), None if self.E is None else len(self.E), self.listed)

    @cached_property
    def both(self) -> Distributions:
        """All distributions, the second collection after the first."""
        return self.D if self.E is None else self.D + self.E

    @property
    def column_start(self) -> int:
        """Where the columns begin in ``both``."""
        return 0 if self.E is None else len(self.D)

    @property
    def bounded_sink(self) -> SinkBase[Any]:
        """The sink of a run with bounds: they are in the result even if there are no pairs."""
        return default_sink(self.sink, () if self.level is None else ("lower", "upper"))
