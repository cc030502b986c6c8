"""`pairwise` for every distance but the Euclidean W_1: other orders, other metrics, mass that stays unmatched.

Estimates go through few points (`asot.estimate.coarse`), with the same fit and the same measured errors as those of
W_1. They are made for norms, in which points have means, and for prices of unmatched mass that are known at every
place. All else is solved exactly, and ``info["strategy"]`` says so.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.space import AnchorSpace
from asot.bounds.error_bars import check_proven
from asot.bounds.guarantee import Guaranteed
from asot.choose.aim import allow_for_choice, measured, solve_all, timed
from asot.choose.attempts import Attempt, learn_space, share_too_wide
from asot.choose.strategy import DECAY, SAFETY, WORTH_IT, Choice, Strategy, failures, judged, more_draws, undecided
from asot.data.distinct import sparse_histograms
from asot.data.distributions import trusted
from asot.estimate.calibration import EXACT_PAIRS, Calibration, ExactSample, draw_exact, solve_exactly
from asot.estimate.coarse import NORM_NAMES, Cells, Coarse, CoarseValues
from asot.estimate.solver import Estimates
from asot.exact.solvers import cpu_solver, is_plain
from asot.ground.metrics import KERNELS, Ground, prepare_metric
from asot.request.accuracy import Aim
from asot.request.request import Request
from asot.run import devices, engine
from asot.run.executors import one_thread_per_product
from asot.run.pairs import ListedPairs, make_pairs
from asot.run.protocols import Solver
from asot.run.work import Ready, Work, solve_work
from asot.validation import as_bytes

Float = NDArray[np.float64]
Indices = NDArray[np.int64]

NUMBERS = (16, 32, 64, 128, 256, 512)
"""Numbers of places that are considered."""

FIRST, TRIALS = 32, 3


def solve_other_distance(
    call: Request,
    aim: Aim | None,
    estimate: str,
    reg: Any,
    seed: int,
    *,
    space: AnchorSpace | None,
    n_anchors: int | None,
    strategy: Strategy | None,
) -> Any:
    """What the sink makes of the distances that a call asks for."""
    _refuse(call, reg)
    with one_thread_per_product():
        began = time.perf_counter()
        problem = _Problem(call)
        if space is not None:
            check_proven(space, "another distance than the Euclidean W_1")
        if problem.why_exact is not None and (space is not None or (strategy is not None and strategy.kind != "exact")):
            raise ValueError(f"{problem.why_exact}; leave out estimate, space and strategy, or use pairwise_exact")
        estimated = estimate != "auto" or (strategy is not None and strategy.kind != "exact")
        if estimated and devices.parse(call.device)[0] == "cuda":
            raise ValueError(
                f"device={str(call.device)!r} has no estimates for p > 1, other metrics or unmatched mass; "
                "use device='auto' or 'cpu'"
            )
        if estimate == "anchor":
            assert space is not None
            return _on_anchors(problem, space)
        if estimate == "calibrated":
            assert space is not None
            strategy = Strategy("calibrated", space.n_anchors, 1, True, EXACT_PAIRS, seed, given_space=True)
        choice = (
            _take(problem, strategy, space) if strategy is not None else _choose(problem, aim, seed, space, n_anchors)
        )
        planning = time.perf_counter() - began - (0.0 if choice.trial is None else choice.trial.seconds)
        record = {**choice.record(), **measured(choice)}
        info = {**call.wanted.info, "strategy": record, "started": call.started}
        result = solve_all(call, info) if choice.trial is None else _estimated(problem, choice.trial, info)
    return timed(result, record, planning)


def _refuse(call: Request, reg: Any) -> None:
    if reg is not None:
        raise ValueError(
            "reg= is for p=1, metric='euclidean' and total masses 1; for another distance pass its cost yourself: "
            "asot.sinkhorn_many(space.histograms(D), cost=space.cost**p, reg=..., reg_m=...)"
        )
    if call.level not in (None, "auto", "radius"):
        raise ValueError(
            f"bounds={call.level!r} is for p=1, metric='euclidean' and total masses 1; use bounds=True or 'radius'"
        )


# ------------------------------------------------------------------------------------------------ the problem


class _Problem:
    """A call's collections over their distinct points, and why estimates cannot be made of them, if so."""

    def __init__(self, call: Request) -> None:
        self.call, self.wanted = call, call.wanted
        self.memory = as_bytes(call.running.memory, engine.DEFAULT_MEMORY)
        self.histograms = sparse_histograms(call.both)
        self._ground: Ground | None = None
        if not callable(self.wanted.metric) and self.wanted.metric in KERNELS:
            self._ground = prepare_metric(self.histograms.points, self.wanted.metric, self.wanted.metric_params)
        self.why_exact = self._why_exact()

    @property
    def ground(self) -> Ground:
        assert self._ground is not None
        return self._ground

    def _why_exact(self) -> str | None:
        wanted = self.wanted
        if self._ground is None or self._ground.code not in NORM_NAMES:
            name = getattr(wanted.metric, "__name__", wanted.metric)
            return f"estimates need a metric that is a norm, and {name!r} is not known as one"
        if wanted.unmatched is None or (isinstance(wanted.unmatched, str) and wanted.unmatched == "diagonal"):
            return None
        if wanted.constant is None:
            return "estimates need prices of unmatched mass that are known everywhere: a number or 'diagonal'"
        half = 0.5 * self._ground.span
        if wanted.constant < half:
            return f"estimates need a price of unmatched mass of at least half of what all points span ({half:.6g})"
        return None

    def exact_solver(self) -> Solver:
        """For the original problems, on the CPU."""
        w = self.wanted
        return cpu_solver(
            self.call.both, w.p, w.metric, w.metric_params, w.unmatched, self.call.column_start, self.memory,
            self.histograms,
        )  # fmt: skip

    def exact_pairs(self, rows: Indices, columns: Indices) -> Float:
        """The original distances (P,) of some pairs; columns count from the beginning of the first collection."""
        w, n = self.wanted, len(self.call.both)
        solver = cpu_solver(
            self.call.both, w.p, w.metric, w.metric_params, w.unmatched, 0, self.memory, self.histograms
        )  # fmt: skip
        listed = ListedPairs(np.stack([rows, columns], axis=1), n, n, symmetric=True)
        return solve_exactly(listed, solver, self.call.running)

    def learned(self, k: int, seed: int) -> AnchorSpace:
        """k anchors among the points as the metric sees them."""
        h = self.histograms
        seen = trusted(self.ground.points[h.index], h.offsets, h.masses, self.call.both.totals)
        return learn_space(seen, k, seed, self.call.running)

    def coarse(self, space: AnchorSpace, *, learned: bool = False, on_anchors: bool = False) -> Coarse:
        """The collection on few places; ``learned`` tells that the space is one of `learned`."""
        cell, _ = space.assign(self.ground.points if learned else self.histograms.points)
        places = np.ldexp(space.anchors, -self.ground.exponent) if on_anchors else None
        return Coarse(
            self.histograms, self.call.both.totals, self.ground, self.wanted, Cells(cell, space.n_anchors, places),
            self.call.column_start, self.memory,
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------ choosing


def _choose(problem: _Problem, aim: Aim | None, seed: int, space: AnchorSpace | None, n_anchors: int | None) -> Choice:
    """Places are added until the measured error meets the aim, or exact solves are no dearer."""
    call = problem.call
    n_pairs = len(call.pairs)
    exact_pair = _seconds(problem.exact_solver())
    exact = n_pairs * exact_pair
    why = _nothing_to_estimate(problem, exact)
    if why is not None:
        return Choice(Strategy("exact"), f"exact solves: {why}", aim, exact)
    n_exact = int(np.clip(n_pairs // 250, EXACT_PAIRS, 256))
    base = Strategy("calibrated", None, 1, True, n_exact, seed, given_space=space is not None)
    size = float(np.diff(problem.histograms.offsets).mean())
    fixed = n_anchors if space is None else space.n_anchors
    numbers = [fixed] if fixed is not None else [k for k in NUMBERS if 2 * k <= size]
    tried: list[dict[str, Any]] = []
    trial: Attempt | None = None
    spent, hoped = n_exact * exact_pair, 0.0
    k = None if not numbers else FIRST if FIRST in numbers else numbers[-1]
    while k is not None and len(tried) < TRIALS:
        price = _price(problem, k, n_pairs, exact_pair)
        if spent + price >= WORTH_IT * exact:
            break
        strategy = replace(base, n_anchors=k, drawn_at=k if trial is None else trial.strategy.drawn_at)
        trial = _attempt(problem, strategy, space, trial)
        while undecided(aim, trial):
            more = more_draws(trial.strategy, n_pairs, WORTH_IT * exact - spent - price, exact_pair)
            if more is None:
                break
            spent += (more.n_draws - trial.strategy.n_draws) * n_exact * exact_pair
            trial = _attempt(problem, more, space, trial)
        base = replace(base, n_draws=trial.strategy.n_draws)
        met = aim is None or aim.met(trial.cautious, trial.mean)
        real = price + trial.exact_share * exact
        tried.append({"n_anchors": k, **judged(trial), "met": bool(met), "price": real})
        if met and spent + real < WORTH_IT * exact:
            goal = "no error was asked for" if aim is None else f"the measured error meets {aim}"
            text = f"{strategy}: {goal}, at about {real / exact:.2g} of the price of exact solves"
            return allow_for_choice(Choice(trial.strategy, text, aim, real, tried, trial))
        spent += 0.1 * price + 2048 * price / max(n_pairs, 1)
        allowed = 0.0 if aim is None else SAFETY * aim.allowed(trial.mean)
        reached = {more: trial.cautious * (k / more) ** DECAY for more in numbers if more > k}
        hoped = min((more for more, error in reached.items() if error <= allowed), default=0)
        k = hoped or None
    best = "" if not tried else f"{failures(tried, aim)}; "
    return Choice(Strategy("exact"), f"exact solves: {best}no estimate would be cheaper", aim, exact, tried)


def _nothing_to_estimate(problem: _Problem, exact: float) -> str | None:
    call, wanted = problem.call, problem.wanted
    if problem.why_exact is not None:
        return problem.why_exact
    if devices.parse(call.device)[0] == "cuda":
        return f"device={call.device!r} was asked for, and estimates are made on the CPU"
    if len(call.both) < 3 or len(call.pairs) <= EXACT_PAIRS:
        return "so few pairs leave nothing to estimate"
    plain = is_plain(call.both, wanted.p, wanted.metric, wanted.unmatched, call.device)
    if plain and devices.choose(call.device, needs=("cupy",), cpu_seconds=exact).gpus:
        return "a GPU solves them sooner than the CPU estimates them"
    return None


def _seconds(solver: Any) -> float:
    expected: float = solver.expected_seconds(1000) / 1000
    return expected


def _price(problem: _Problem, k: int, n_pairs: int, exact_pair: float) -> float:
    """Seconds to estimate all pairs with k places: smaller problems of the same kind, and learning the places."""
    size = float(np.diff(problem.histograms.offsets).mean())
    share = min(1.0, k / size)
    n = len(problem.histograms.points)
    return n_pairs * (1e-5 + exact_pair * share**2) + n * k * 1e-8 + 0.05


def _take(problem: _Problem, strategy: Strategy, space: AnchorSpace | None) -> Choice:
    """Carry out a strategy that was chosen before."""
    exact_pair = _seconds(problem.exact_solver())
    exact = len(problem.call.pairs) * exact_pair
    if strategy.kind == "exact":
        return Choice(strategy, "exact solves, as asked for", None, exact)
    trial = _attempt(problem, strategy, space, None)
    price = _price(problem, trial.n_anchors, len(problem.call.pairs), exact_pair)
    return Choice(trial.strategy, f"{strategy}, as asked for", None, price, trial=trial)


def _attempt(problem: _Problem, strategy: Strategy, space: AnchorSpace | None, earlier: Attempt | None) -> Attempt:
    """Set a strategy up; its exact pairs are those of an ``earlier`` attempt, or drawn at ``strategy.drawn_at``."""
    call, began = problem.call, time.perf_counter()
    strategy = replace(strategy, drawn_at=strategy.drawn_at or strategy.n_anchors)
    coarse = _seen(problem, strategy.n_anchors, strategy.seed, space)
    if earlier is None or earlier.strategy.n_draws < strategy.n_draws:
        same = strategy.drawn_at == strategy.n_anchors
        first = coarse if same else _seen(problem, strategy.drawn_at, strategy.seed, space)
        pairs = make_pairs(len(call.D), None if call.E is None else len(call.E))
        sample: ExactSample = draw_exact(
            first, call.both, pairs, strategy.n_exact, strategy.seed, call.running, problem.exact_pairs,
            n_draws=strategy.n_draws, known=None if earlier is None else earlier.sample,
        )  # fmt: skip
    else:
        sample = earlier.sample
    calibration = Calibration(coarse, sample, call.running)
    share = share_too_wide(call.accepted, calibration, sample)
    spent = time.perf_counter() - began + (0.0 if earlier is None else earlier.seconds)
    n_anchors = space.n_anchors if space is not None else int(strategy.n_anchors or 0)
    return Attempt(strategy, coarse, sample, calibration, share, n_anchors, spent)


def _seen(problem: _Problem, k: int | None, seed: int, space: AnchorSpace | None) -> Coarse:
    if space is not None:
        return problem.coarse(space.proven)
    assert k is not None
    return problem.coarse(problem.learned(k, seed), learned=True)


# ------------------------------------------------------------------------------------------------ carrying out


def _on_anchors(problem: _Problem, space: AnchorSpace) -> Any:
    """The distance between histograms on the anchors, as the paper defines it for p = 1."""
    call = problem.call
    if space.proven is not space:
        raise ValueError("p, metric and unmatched need nearest anchors, not soft codes; use estimate='auto'")
    if call.wanted.metric in ("seuclidean", "mahalanobis"):
        raise ValueError(f"anchors are not compared by metric={call.wanted.metric!r}; use estimate='auto'")
    solver: Solver = CoarseValues(problem.coarse(space, on_anchors=True), give_bounds=call.level is not None)
    if call.accepted is not None:
        solver = Guaranteed(solver, call.D, call.E, call.accepted, problem.exact_solver())
    info = {**call.wanted.info, "n_anchors": space.n_anchors, "estimate": "anchor", "started": call.started}
    return solve_work(Work(call.pairs, Ready(solver), info=info), call.bounded_sink, **call.options)


def _estimated(problem: _Problem, trial: Attempt, info: dict[str, Any]) -> Any:
    call = problem.call
    solver: Solver = Estimates(trial.features, trial.calibration, give_bounds=call.level is not None)
    if call.accepted is not None:
        solver = Guaranteed(solver, call.D, call.E, call.accepted, problem.exact_solver())
    info = {**info, "n_anchors": trial.n_anchors, "estimate": "calibrated"}
    return solve_work(Work(call.pairs, Ready(solver), info=info), call.bounded_sink, **call.options)
