"""What a call asks for, once it is read: the part that every method needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from asot.data.distributions import Distributions
from asot.request.accuracy import Accuracy
from asot.request.distance import Distance
from asot.results.sinks import Condensed, default_sink
from asot.run.pairs import ListedPairs, PairSet, make_pairs
from asot.run.protocols import Sink
from asot.run.work import Resources

MOST_NAMED = 0.5
"""A list of pairs that names no more than this share of all distributions is solved without the others."""

SPREAD_OF = ("seuclidean", "mahalanobis")
"""Metrics that may take a parameter from all points."""


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

    def of_named(self) -> Request | None:
        """The same pairs of the distributions that they name alone, if these are few; None if they are not.

        Then nothing else has to be prepared. It is not done where answers depend on all points (a spread, prices by
        point), nor for a sink, which is told the numbers of all.
        """
        pairs, metric = self.pairs, self.distance.metric
        prices = self.distance.unmatched is not None and np.ndim(self.distance.unmatched) > 0
        if not isinstance(pairs, ListedPairs) or self.sink is not None or prices or metric in SPREAD_OF:
            return None
        rows, columns = pairs.pairs.T
        named = [np.unique(pairs.pairs)] if self.E is None else [np.unique(rows), np.unique(columns)]
        there = [self.D] if self.E is None else [self.D, self.E]
        if sum(map(len, named)) > MOST_NAMED * sum(map(len, there)):
            return None
        few = [own[chosen] for own, chosen in zip(there, named, strict=True)]
        listed = np.stack([np.searchsorted(named[0], rows), np.searchsorted(named[-1], columns)], axis=1)
        return replace(self, D=few[0], E=None if self.E is None else few[1], listed=listed)

    @property
    def bounded_sink(self) -> Sink[Any]:
        """The sink of a run with bounds: they are in the result even if there are no pairs."""
        if self.sink is None and self.level is not None:
            return Condensed(extras=("lower", "upper"))
        return default_sink(self.sink)
