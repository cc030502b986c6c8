"""What a call asks for, once it is read: which distance, how accurate, of which pairs, and where answers go."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Info, Parameters
from asot.data.distributions import Distributions, check_mass
from asot.ground.costs import Metric
from asot.ground.metrics import KERNELS, NORMS
from asot.results.sinks import default_sink
from asot.run.devices import parse
from asot.run.engine import Resources
from asot.run.pairs import PairSet, make_pairs
from asot.run.protocols import Sink, SinkBase
from asot.validation import as_choice, as_number, as_positive_int, as_seed, check_sink, is_number


def as_order(p: Any) -> float:
    """p of W_p."""
    if type(p) is int and p == 1:  # the usual one: a pair of five points takes no longer than the questions below
        return 1.0
    return as_number(p, lambda p: 1 <= p < np.inf, "p must be a finite number ≥ 1")


@dataclass(frozen=True)
class Share:
    """Partial transport: only this share of the mass has to be moved, and the rest stays for free."""

    amount: float


def read_distance(p: Any, metric: Metric, metric_params: Any, unmatched: Any, share: Any = None) -> Distance:
    order = as_order(p)
    if share is not None:
        if unmatched is not None:
            raise ValueError("share= moves a part of the mass and leaves the rest for free; leave out unmatched=")
        amount = as_number(share, lambda share: 0 < share <= 1, "share must be a number above 0 and up to 1")
        unmatched = None if amount == 1 else Share(amount)
    return Distance(order, metric, metric_params, unmatched)


@dataclass(frozen=True)
class Distance:
    """The arguments ``p``, ``metric``, ``metric_params`` and ``unmatched`` of a call; a `Share` is in the last one."""

    p: float = 1.0
    metric: Metric = "euclidean"
    metric_params: Parameters | None = None
    unmatched: Any = None

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is the Euclidean W_1 of total masses 1, which every part of the package supports."""
        return self.p == 1 and self.unmatched is None and not callable(self.metric) and self.metric == "euclidean"

    @property
    def matches_all(self) -> bool:
        """Whether every distribution has the total 1, so that no mass is left without a price."""
        return self.unmatched is None or isinstance(self.unmatched, Share)

    @property
    def has_kernel(self) -> bool:
        """Whether it is W_1 with total mass 1 under a metric with its own kernel, which GPUs may solve, too."""
        return self.p == 1 and self.unmatched is None and not callable(self.metric) and self.metric in KERNELS

    def is_sorted(self, dim: int) -> bool:
        """Whether sorting is enough: on a line, all norms are |x - y|."""
        return dim == 1 and self.metric in NORMS and self.unmatched is None

    @property
    def constant(self) -> float | None:
        """The price of unmatched mass, where it is one number."""
        return float(self.unmatched) if is_number(self.unmatched) else None

    @property
    def info(self) -> Info:
        """For ``info`` of a result: what its numbers are."""
        return {"p": int(self.p) if float(self.p).is_integer() else self.p, "rooted": self.p != 1}


@dataclass(frozen=True)
class Accuracy:
    """An error that is accepted: a number in distance units, or a share of a distance."""

    amount: float
    relative: bool

    def allowed(self, distance: float) -> float:
        """The error that is accepted for distances of this size."""
        return self.amount * distance if self.relative else self.amount

    def met(self, error: float, mean: float) -> bool:
        """Whether a measured error is accepted where distances are ``mean`` on average."""
        return error <= self.allowed(mean)

    def half_widths(self, lower: Float) -> Float:
        """The half-widths (P,) that are accepted for distances of at least ``lower``."""
        return self.amount * lower if self.relative else np.full(len(lower), self.amount)

    def too_wide(self, lower: Float, upper: Float) -> NDArray[np.bool_]:
        """Pairs whose half-width exceeds what is accepted. A share is taken of the lower end, so that it holds."""
        return 0.5 * (upper - lower) > self.half_widths(lower)

    def __str__(self) -> str:
        return f"{100 * self.amount:g}%" if self.relative else f"{self.amount:g}"


DEFAULT_ERROR, DEFAULT_AIM = "2%", Accuracy(0.02, relative=True)
"""As a caller writes it, and as it is read."""


def as_error(value: Any) -> Accuracy | None:
    """``error=``: a share of the mean distance as in ``"2%"``, a number in its units, or None."""
    rule = "error must be a share of the mean distance such as '2%' (more than 0, less than 100%), a number > 0 in the "
    return _read(value, rule + "units of the distance, or None for no aim")


def as_max_error(value: Any) -> Accuracy | None:
    """``max_error=``: a number in the units of the distance, a share of it as in ``"2%"``, or None."""
    rule = "max_error must be a number > 0 in the units of the distance, or a share of it such as '2%', less than 100%"
    return _read(value, rule)


def _read(value: Any, rule: str) -> Accuracy | None:
    if value is None:
        return None
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
    amount = float(match[1]) / 100 if match else float(value) if is_number(value) else np.nan
    if not 0 < amount < (1.0 if match else np.inf):
        raise ValueError(f"{rule}; found {value!r}")
    return Accuracy(amount, relative=match is not None)


@dataclass(frozen=True)
class Strategy:
    """One method to compute the distances of a collection.

    ``kind`` is "exact" or "calibrated". For the latter: ``n_anchors`` in each of ``n_spaces`` spaces, whether proven
    ``bounds`` are features of the fit, ``n_exact`` pairs to fit it, the ``seed`` of anchors and pairs, ``drawn_at``,
    the number of anchors of the space by which these pairs were chosen, and ``n_draws``, how many times ``n_exact`` of
    them were drawn.
    """

    kind: str
    n_anchors: int | None = None
    n_spaces: int = 1
    bounds: bool = False
    n_exact: int = 0
    seed: int = 0
    given_space: bool = False
    drawn_at: int | None = None
    n_draws: int = 1

    def __str__(self) -> str:
        if self.kind == "exact":
            return "exact solves"
        spaces = "" if self.n_spaces == 1 else f"{self.n_spaces} × "
        features = ", with bounds as features" if self.bounds else ""
        return f"{spaces}{self.n_anchors} anchors, calibrated{features}"


def as_strategy(record: Any, has_space: bool) -> Strategy:
    """Read ``strategy=``: what `info["strategy"]` of another call holds."""
    if not isinstance(record, dict) or record.get("kind") not in ("exact", "calibrated"):
        raise ValueError(
            "strategy must be r.info['strategy'] of another call, a dict whose 'kind' is 'exact' or "
            f"'calibrated'; found {record!r}"
        )
    found = Strategy(**{name: record[name] for name in Strategy.__dataclass_fields__ if name in record})
    if found.kind == "calibrated":
        if found.given_space and not has_space:
            raise ValueError("this strategy was made with your own space; pass the same space= again")
        for name in ("n_spaces", "n_exact", "n_draws", *(() if found.given_space else ("n_anchors",))):
            as_positive_int(getattr(found, name), f"strategy[{name!r}]")
    return found


@dataclass(frozen=True)
class Goal:
    """How accurate values of `asot.pairwise` are to be, and what the caller decides about the way there."""

    aim: Accuracy | None
    """The error to meet on the average; None accepts any."""
    seed: int
    estimate: str = "auto"
    reg: Any = None
    space: Any = None
    """Anchors, or what learns them; None: the strategy decides."""
    n_anchors: int | None = None
    strategy: Strategy | None = None
    """A strategy that was chosen before, or that was named."""


def read_goal(
    error: Any, random_state: Any, estimate: Any, reg: Any, space: Any, n_anchors: Any, strategy: Any
) -> Goal:
    as_choice(estimate, "estimate", ("auto", "anchor", "calibrated"))
    if n_anchors is not None:
        if space is not None:
            raise ValueError("n_anchors only applies if the space is learned here; pass either space or n_anchors")
        n_anchors = None if n_anchors == "auto" else as_positive_int(n_anchors, "n_anchors")
    way = None if strategy is None else as_strategy(strategy, space is not None)
    return Goal(as_error(error), as_seed(random_state), estimate, reg, space, n_anchors, way)


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

    def __post_init__(self) -> None:
        if self.distance.matches_all:
            check_mass(self.D, self.E)

    @cached_property
    def pairs(self) -> PairSet:
        return make_pairs(len(self.D), None if self.E is None else len(self.E), self.listed)

    @cached_property
    def both(self) -> Distributions:
        """All distributions, the second collection after the first."""
        return self.D if self.E is None else self.D + self.E

    @cached_property
    def wants_gpu(self) -> bool:
        """Whether a GPU was named."""
        return parse(self.device)[0] == "cuda"

    @property
    def column_start(self) -> int:
        """Where the columns begin in ``both``."""
        return 0 if self.E is None else len(self.D)

    @property
    def names(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Ids of rows and columns."""
        return self.D.ids, (self.D if self.E is None else self.E).ids

    @property
    def bounded_sink(self) -> SinkBase[Any]:
        """The sink of a run with bounds: they are in the result even if there are no pairs."""
        return default_sink(self.sink, () if self.level is None else ("lower", "upper"))


def check_together(request: Request, goal: Goal, bounds: bool | str) -> None:
    """Refuse options of `asot.pairwise` that make no sense together."""
    check_sink(request.sink)
    estimate, reg = goal.estimate, goal.reg
    if reg is not None and goal.aim not in (DEFAULT_AIM, None):
        raise ValueError(
            "error= applies to W_1, but entropic distances (reg=) are a different quantity; leave out error"
        )
    if goal.strategy is not None and goal.n_anchors not in (None, goal.strategy.n_anchors):
        raise ValueError(f"strategy= is for {goal.strategy}; leave out n_anchors={goal.n_anchors}")
    if goal.strategy is not None and (estimate != "auto" or reg is not None):
        raise ValueError("strategy= already says how values are computed; leave out estimate and reg")
    n = len(request.D) + (0 if request.E is None else len(request.E))
    if estimate == "calibrated" and reg is not None:
        raise ValueError("estimate='calibrated' corrects the exact anchor distance; use reg=None")
    if estimate == "calibrated" and n < 3:
        raise ValueError(
            f"estimate='calibrated' is fitted on exact pairs and needs at least three distributions; found {n}: "
            "use pairwise_exact"
        )
    if bounds and isinstance(request.sink, SinkBase) and request.sink.only_values:
        raise ValueError(
            f"sinks.{type(request.sink).__name__} only keeps values, so bounds would be lost; use the default sink, "
            "TopK, or your own sink, which can read them from its tiles"
        )
    beside_plain = request.level is not None and request.distance.is_plain and (estimate == "anchor" or reg is not None)
    if request.wants_gpu and beside_plain:
        raise ValueError(
            "bounds beside distances on anchors, entropic ones too, need their plans, which device="
            f"{str(request.device)!r} does not keep; use device='auto' or 'cpu', or leave them out"
        )
    _ = request.pairs  # refuses what names no pair
    if request.distance.is_plain:
        return
    if reg is not None:
        raise ValueError(
            "reg= is for p=1, metric='euclidean' and total masses 1; for another distance pass its cost yourself: "
            "asot.sinkhorn_many(space.histograms(D), cost=space.cost**p, reg=..., reg_m=...)"
        )
    if request.level not in (None, "auto", "radius"):
        raise ValueError(
            f"bounds={request.level!r} is for p=1, metric='euclidean' and total masses 1; use bounds=True or 'radius'"
        )
