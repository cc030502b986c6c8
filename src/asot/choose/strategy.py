"""Chooses the method: exact solves, or anchors and a fit, and how many anchors, so that the error is met at the least
cost.

A `Strategy` is a plain record that `info["strategy"]` shows and ``strategy=`` takes back. `Planner` finds one. It
estimates the cost of every candidate (`asot.choose.prices`) and predicts its error from the trials so far. The cheapest
candidate that is predicted to meet the aim is tried: its anchors are learned, and its error is measured on exact pairs,
the same ones for all trials. If it fails, the prediction is corrected and the next one is tried. As soon as exact
solves are the cheapest method left, they are the answer. If it is better than it has to be, fewer anchors are tried
where that would save more than it costs.

What is compared with the aim is a little more than the measured error, since the sample may have been lucky. Where the
two are close to the aim, luck would decide: estimates that happened to look good would be taken, and reported as better
than they are. Then more pairs are solved, for this and all later trials, until the interval of the error decides
(`undecided`, `more_draws`). Where exact pairs of large distributions would be most of the work, only some of them are
solved at first. If these do not decide, either more are solved, or more anchors are tried, whichever costs less: an
error that is far below the aim needs few pairs to be known well enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from asot._typing import Info
from asot.choose.prices import Prices
from asot.estimate.attempts import Attempt
from asot.request import Accuracy, Strategy

GUESS, AT = 0.0175, 32
"""Before any trial: the relative error of a fit with cheap features, at this many anchors."""

DECAY, DOUBT = 0.85, 0.2
"""The error is expected to fall with this power of the number of anchors. That is optimistic: a trial that fails costs
less than anchors that are not needed. Trials with two numbers of anchors show the power itself; they count as much as
the expectation if the logarithms of these numbers differ by `DOUBT`."""

GAIN = {(False, 1): 1.0, (False, 2): 0.9, (False, 4): 0.83, (True, 1): 0.5, (True, 2): 0.4, (True, 4): 0.33}
"""By (bounds as features, spaces): the error relative to that of cheap features in one space (docs/method.md §13)."""

SAFETY = 0.92
"""A strategy is tried if its error is predicted to be below this share of the aim."""

WORTH_IT = 0.9
"""Anchors are only tried if they are estimated to cost less than this share of exact solves."""

CHEAPER = 0.75
"""Where a strategy is better than it has to be, another one is tried that costs less than this share of what is left
of it."""

TRIALS = 4

MOST_DRAWS = 4
"""How many times as many exact pairs are solved at most where an error is close to the aim."""

MOST_SOLVED = 0.125
"""And at most this share of all pairs."""

CLOSE = 0.1
"""An error is close to the aim if it is off by no more than this share of it."""

FIRST_SHARE, LONG, MOST_ON_EXACT = 0.25, 2.0, 0.5
"""Where exact pairs take longer than so many seconds, and are more than half of a strategy's price, a quarter is drawn
first."""

LEAST_RATIO = 0.6
"""Of an error to the upper end of its interval, for what is expected of the next trial: that of a sample with one large
error is smaller, and says little of other anchors."""

PAIRS_PER_KIND = 8
"""Exact pairs that decide, for every kind of pairs."""


def undecided(aim: Accuracy | None, trial: Attempt, n_usual: int = 0) -> bool:
    """Whether the measured error of a trial is close to the aim, and its interval holds the aim.

    With fewer exact pairs than ``n_usual``, every error is close if its interval holds the aim. And where there are
    many kinds of pairs, few of each kind decide nothing.
    """
    if aim is None:
        return False
    n_exact = trial.strategy.n_draws * trial.strategy.n_exact
    few = n_exact < n_usual
    if few and not holds_every_kind(trial):
        return True
    allowed = aim.allowed(trial.mean)
    low, high = trial.interval
    close = trial.cautious >= (1.0 - CLOSE) * allowed and trial.rmse <= (1.0 + CLOSE) * allowed
    return bool((few or close) and low <= allowed < high)


def holds_every_kind(trial: Attempt) -> bool:
    """Whether there are enough exact pairs to look at, however many kinds of pairs there are."""
    return trial.strategy.n_draws * trial.strategy.n_exact >= PAIRS_PER_KIND * trial.n_kinds


def more_draws(
    strategy: Strategy, n_usual: int, n_pairs: int, seconds_left: float, exact_pair: float
) -> Strategy | None:
    """The same with twice as many exact pairs; None if these would be too many, or take longer than is left."""
    new = strategy.n_draws * strategy.n_exact
    few = 2 * new <= MOST_DRAWS * n_usual and (2 * new <= MOST_SOLVED * n_pairs or 2 * new <= n_usual)
    return replace(strategy, n_draws=2 * strategy.n_draws) if few and new * exact_pair < seconds_left else None


@dataclass(frozen=True)
class Judgement:
    """What a trial was measured to be, both errors relative to the mean distance."""

    n_anchors: int | None
    n_spaces: int
    bounds: bool
    relative_error: float
    compared_error: float
    """The one that was compared with the aim: it allows for the sample."""
    met: bool
    price: float
    """Seconds, with what of it has to be solved exactly."""


@dataclass
class Choice:
    """What was chosen, and why."""

    strategy: Strategy
    why: str
    aim: Accuracy | None
    predicted_seconds: float
    cpu_seconds: float = 0.0
    """What of it is estimating all pairs, if the CPU did that."""
    tried: list[Judgement] = field(default_factory=list)
    trial: Attempt | None = None
    """What the accepted trial has computed, to continue with."""

    def record(self) -> Info:
        """For `info["strategy"]`: only numbers, strings and lists."""
        return {
            **asdict(self.strategy),
            "why": self.why,
            "aim": None if self.aim is None else str(self.aim),
            "predicted_seconds": self.predicted_seconds,
            "tried": [asdict(one) for one in self.tried],
        }


class Planner:
    """Finds the cheapest strategy that meets an aim. ``attempt(strategy)`` sets a strategy up and measures it."""

    def __init__(
        self,
        prices: Prices,
        aim: Accuracy | None,
        attempt: Callable[[Strategy], Attempt],
        *,
        seed: int,
        n_anchors: int | None = None,
        given_space: bool = False,
    ) -> None:
        self._prices, self._aim, self._attempt = prices, aim, attempt
        self._n_exact = int(np.clip(prices.n_pairs // 250, 64, 256))
        self._base = Strategy("calibrated", n_exact=self._n_exact, seed=seed, given_space=given_space)
        self._numbers = (n_anchors,) if n_anchors is not None else prices.numbers
        self._first = prices.first_of(self._numbers)
        self._named = n_anchors is not None
        self._spaces = (1,) if given_space else prices.spaces
        self._error, self._decay = GUESS, DECAY  # of cheap features at `AT` anchors, corrected by every trial
        self._errors: dict[tuple[bool, int], dict[int, float]] = {}  # by number of anchors, in the order of trials
        self._share = SAFETY  # of the aim, that a predicted error must be below
        self._mean: float | None = None
        self._spaces_made: dict[int, int] = {}
        self._seen: set[tuple[Any, ...]] = set()

    def choose(self) -> Choice:
        tried: list[Judgement] = []
        best: Choice | None = None
        exact = self._prices.exact
        limit = WORTH_IT * exact
        while len(tried) < TRIALS:
            found = self._cheapest(limit)
            if found is None:
                break
            price, strategy = found
            if not tried and self._few_first(price):
                self._base = replace(self._base, n_exact=math.ceil(FIRST_SHARE * self._n_exact))
                strategy = replace(strategy, n_exact=self._base.n_exact)
                price = self.price(strategy)
            self._seen.add(_brief(strategy))
            spent = self._setup(strategy)
            trial = self._attempt(strategy)
            self._made(strategy)
            self._mean = trial.mean
            trial, more, decided = self._decided(trial, limit - price, may_go_on=len(tried) + 1 < TRIALS)
            met = decided and (self._aim is None or self._aim.met(trial.cautious, trial.mean))
            real = price + more + trial.exact_share * exact
            errors = trial.rmse / (trial.mean or np.inf), trial.cautious / (trial.mean or np.inf)
            tried.append(Judgement(*_brief(strategy), *errors, bool(met), real))
            self._learn_from(strategy, trial)
            if met and real < limit:
                on_cpu = self._prices.on_cpu(strategy.n_anchors or AT, strategy.n_spaces, strategy.bounds)
                best = Choice(trial.strategy, self._praise(strategy, real), self._aim, real, on_cpu, tried, trial)
                if trial.exact_share > 0.0:  # with fewer anchors, it would be larger
                    break
                limit = CHEAPER * (price - spent)
            elif best is None:
                limit -= spent + more
                if met:  # good, but too many exact solves are left: a better space leaves fewer
                    self._error *= 1.5
        return best or Choice(Strategy("exact"), self._blame(tried), self._aim, exact, tried=tried)

    def _decided(self, trial: Attempt, seconds_left: float, *, may_go_on: bool) -> tuple[Attempt, float, bool]:
        """The trial with as many exact pairs as it takes to decide, or as may be solved, what these cost, and whether
        it is to be judged. It is not where more anchors are cheaper than more pairs, if there ``may_go_on`` a trial."""
        spent, exact_pair = 0.0, self._prices.exact_pair
        self._share = SAFETY
        while undecided(self._aim, trial, self._n_exact):
            left = seconds_left - spent
            more = more_draws(trial.strategy, self._n_exact, self._prices.n_pairs, left, exact_pair)
            if more is None:
                break
            seconds = (more.n_draws - trial.strategy.n_draws) * more.n_exact * exact_pair
            if may_go_on and self._finer_is_cheaper(trial, seconds, left):
                return trial, spent, False
            spent += seconds
            trial = self._attempt(more)
            self._base = replace(self._base, n_draws=trial.strategy.n_draws)
        return trial, spent, True

    def _finer_is_cheaper(self, trial: Attempt, seconds: float, seconds_left: float) -> bool:
        """Whether few exact pairs would decide about more anchors, and these cost less than ``seconds`` of pairs.

        If so, `_share` is what the error of those must be below.
        """
        s = trial.strategy
        if s.n_draws * s.n_exact >= self._n_exact or not holds_every_kind(trial) or trial.rmse == 0.0:
            return False
        self._learn_from(s, trial)
        self._share = SAFETY * max(trial.rmse / trial.interval[1], LEAST_RATIO)
        own = self._prices.estimates(s.n_anchors or AT, s.n_spaces, s.bounds)
        found = self._cheapest(seconds_left + own)
        if found is not None and found[0] - own < seconds:
            return True
        self._share = SAFETY
        return False

    def _few_first(self, price: float) -> bool:
        """Whether it is worth beginning with few exact pairs: they may already decide."""
        exact = self._n_exact * self._prices.exact_pair
        return self._aim is not None and exact > LONG and exact > MOST_ON_EXACT * price

    # ------------------------------------------------------------------------------------------------ candidates

    def _candidates(self) -> list[Strategy]:
        numbers = self._numbers if self._first is None or self._mean is not None else (self._first,)
        return [
            replace(self._base, n_anchors=k, n_spaces=s, bounds=b)
            for k in numbers for s in self._spaces for b in self._prices.looks
        ]  # fmt: skip

    def _cheapest(self, limit: float) -> tuple[float, Strategy] | None:
        """What has not been tried, costs less than ``limit`` and is predicted to meet the aim, with its price."""
        ways = [(self.price(s), s) for s in self._candidates() if _brief(s) not in self._seen]
        cheap = [(price, s) for price, s in ways if price < limit and self._hoped(s)]
        return min(cheap, key=lambda way: (way[0], way[1].n_spaces, way[1].bounds), default=None)

    def _factor(self, s: Strategy) -> float:
        k = s.n_anchors or AT
        return float(GAIN[s.bounds, s.n_spaces] * (AT / k) ** self._decay)

    def _hoped(self, s: Strategy) -> bool:
        """Whether a strategy is predicted to meet the aim; anchors that were asked for are tried before that."""
        if self._aim is None or (self._mean is None and (self._named or self._first is not None)):
            return True
        unit = 1.0 if self._aim.relative else self._mean
        return unit is None or self._error * self._factor(s) * unit <= self._share * self._aim.amount

    def _learn_from(self, s: Strategy, trial: Attempt) -> None:
        """Correct the prediction; at least so far that the same would not be tried again."""
        k, relative = s.n_anchors or AT, max(trial.rmse / (trial.mean or np.inf), 1e-9)
        before = self._errors.setdefault((s.bounds, s.n_spaces), {})
        before[k] = relative
        first = next(iter(before))
        reach = np.log(k / first)
        if reach != 0.0:
            fell = np.log(before[first] / relative) * np.sign(reach)
            self._decay = float(max(DOUBT * DECAY + fell, 0.0) / (DOUBT + abs(reach)))
        self._error = relative / self._factor(s)

    # ------------------------------------------------------------------------------------------------ prices

    def price(self, s: Strategy) -> float:
        """Seconds of a strategy: what of its set-up is not made yet, and all pairs."""
        return self._setup(s) + self._prices.estimates(s.n_anchors or AT, s.n_spaces, s.bounds)

    def _setup(self, s: Strategy) -> float:
        k = s.n_anchors or AT
        missing = 0 if s.given_space else max(s.n_spaces - self._spaces_made.get(k, 0), 0)
        return self._prices.trial(k, missing, s.n_exact if self._mean is None else 0)

    def _made(self, s: Strategy) -> None:
        k = s.n_anchors or AT
        self._spaces_made[k] = max(self._spaces_made.get(k, 0), s.n_spaces)

    def _praise(self, s: Strategy, price: float) -> str:
        share = price / self._prices.exact if self._prices.exact > 0 else 1.0
        aim = "no error was requested" if self._aim is None else f"the measured error meets {self._aim}"
        return f"{s}: {aim}, at about {share:.2g} of the price of exact solves"

    def _blame(self, tried: list[Judgement]) -> str:
        if not tried:
            is_cheaper = any(self.price(s) < WORTH_IT * self._prices.exact for s in self._candidates())
            why = f"is expected to meet {self._aim}" if is_cheaper else "would be cheaper"
            return f"exact solves: no estimate {why}"
        return f"exact solves: {failures(tried, self._aim)}, and anything better would cost as much as exact solves"


def failures(tried: list[Judgement], aim: Accuracy | None) -> str:
    """What was tried in vain: the number that was compared with the aim, and how it came about."""
    best = min(tried, key=lambda one: one.compared_error)
    measured, compared = (f"{100 * error:.3g} percent" for error in (best.relative_error, best.compared_error))
    text = f"of {len(tried)} tried, the best estimate was measured to be {measured} off"
    return text if aim is None else f"{text}, {compared} with a margin for the sample, which was compared with {aim}"


def _brief(s: Strategy) -> tuple[int | None, int, bool]:
    return s.n_anchors, s.n_spaces, s.bounds
