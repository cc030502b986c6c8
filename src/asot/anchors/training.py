"""Robust gradient descent: the loop behind every learned space.

It knows nothing about anchors. It gets arrays to start from, a loss for each batch and a validation error, and returns
the arrays with the smallest error. The start is one of the candidates, so training never makes things worse. If a loss
is not finite, the best arrays are restored and the rate is lowered. Everything needed to continue is kept on the host,
so nothing is lost if a GPU disappears.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asot.run.executors import Progress, ProgressLike

if TYPE_CHECKING:
    from torch import Tensor

State = dict[str, NDArray[Any]]
Tensors = Mapping[str, "Tensor"]

WARM_UP = 0.05
"""Share of the training during which the rate rises to its peak."""

AFTER_A_FAILURE = 0.2
"""What the rate is multiplied by when a loss was not finite."""

MOST_FAILURES = 5
NOTHING_TO_LEARN = 1e-6
"""An error, as a share of the mean distance, below which further training is pointless."""

LONGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class Schedule:
    """How long to train, and how fast."""

    learning_rate: float
    max_epochs: int
    patience: int
    max_time: float | None
    started: float
    """`time.monotonic()` when the learner started; preparation counts."""

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def out_of_time(self) -> bool:
        return self.max_time is not None and self.elapsed() >= self.max_time

    def rate(self, epochs: float) -> float:
        """The rate after this many epochs: a short rise, then half a cosine toward 0, over epochs or time."""
        progress = epochs / self.max_epochs
        if self.max_time is not None:
            progress = max(progress, self.elapsed() / self.max_time)
        progress = min(progress, 1.0)
        rise = min(1.0, (progress + 1e-3) / WARM_UP)
        return self.learning_rate * rise * 0.5 * (1.0 + math.cos(math.pi * progress))


@dataclass
class Outcome:
    """The best arrays and how they were found."""

    state: State
    error: float
    history: dict[str, list[float]] = field(default_factory=dict)

    def record(self, **values: float) -> None:
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)


class DeviceLostError(RuntimeError):
    """A GPU failed while training; what was learned until then is in ``outcome``."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True)
class Lesson:
    """What is to be learned: the mean of ``loss_of(tensors, batch)`` is minimized, ``error_of(tensors)`` measured."""

    rates: Mapping[str, float]
    """For the arrays to be learned, their rate as a share of the schedule's; the others stay as they are."""
    loss_of: Callable[[Tensors, int], Tensor]
    error_of: Callable[[Tensors], float]
    n_batches: int


def train(
    start: State,
    lesson: Lesson,
    schedule: Schedule,
    rng: np.random.RandomState,
    *,
    device: str = "cpu",
    progress: ProgressLike = False,
) -> Outcome:
    """Learn with Adam, from arrays by name; those with the smallest error are kept."""
    outcome = Outcome(dict(start), math.inf)
    with Progress(progress, schedule.max_epochs, "learning anchors", unit="epoch") as bar:
        try:
            _train(outcome, lesson, schedule, rng, device, bar)
        except (RuntimeError, AssertionError) as error:  # torch has no common type for a device that is gone
            if device == "cpu":
                raise
            raise DeviceLostError(f"device {device!r} failed ({error})", outcome) from error
    return outcome


def _train(
    outcome: Outcome, lesson: Lesson, schedule: Schedule, rng: np.random.RandomState, device: str, bar: Progress
) -> None:
    import torch

    rates, n_batches = lesson.rates, lesson.n_batches
    tensors, optimizer = _upload(outcome.state, rates, device)
    outcome.error = _finite(lesson.error_of(tensors))
    outcome.record(epoch=0, loss=math.nan, error=outcome.error, learning_rate=0.0, seconds=schedule.elapsed())
    caution, failures, best_epoch = 1.0, 0, 0
    for epoch in range(1, schedule.max_epochs + 1):
        if outcome.error <= NOTHING_TO_LEARN or schedule.out_of_time():
            break
        total, count, rate = 0.0, 0, 0.0
        for step, batch in enumerate(rng.permutation(n_batches)):
            rate = caution * schedule.rate(epoch - 1 + step / n_batches)
            for group in optimizer.param_groups:
                group["lr"] = rate * group["share"]
            loss = _step(tensors, lesson, optimizer, int(batch))
            total, count = total + loss, count + 1
            if not math.isfinite(loss) or schedule.out_of_time():
                break
        with torch.no_grad():
            error = _finite(lesson.error_of(tensors)) if math.isfinite(total) else math.inf
        outcome.record(epoch=epoch, loss=total / count, error=error, learning_rate=rate, seconds=schedule.elapsed())
        if error < outcome.error:
            outcome.error, best_epoch = error, epoch
            outcome.state = {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}
        bar.advance(1, f"loss {total / count:.3g}, error {100 * outcome.error:.2f} %")
        if not math.isfinite(error):
            failures += 1
            caution *= AFTER_A_FAILURE
            tensors, optimizer = _upload(outcome.state, rates, device)
        if failures == MOST_FAILURES or epoch - best_epoch >= schedule.patience:
            break


def _step(tensors: Tensors, lesson: Lesson, optimizer: Any, batch: int) -> float:
    """One step of descent; its loss, or NaN if the loss or a gradient is not finite. Then nothing has moved."""
    import torch

    optimizer.zero_grad()
    loss = lesson.loss_of(tensors, batch)
    if not bool(torch.isfinite(loss)):
        return math.nan
    torch.autograd.backward(loss)
    length = torch.nn.utils.clip_grad_norm_([tensors[name] for name in lesson.rates], LONGEST_GRADIENT)
    if not bool(torch.isfinite(length)):
        return math.nan
    optimizer.step()
    return float(loss.detach())


def _upload(state: State, rates: Mapping[str, float], device: str) -> tuple[dict[str, Tensor], Any]:
    """Tensors of the arrays, and what learns those that have a rate."""
    import torch

    tensors = {}
    for name, array in state.items():
        dtype = torch.float32 if array.dtype.kind == "f" else None
        tensors[name] = torch.tensor(array, dtype=dtype, device=device, requires_grad=name in rates)
    groups = [{"params": [tensors[name]], "lr": 0.0, "share": share} for name, share in rates.items()]
    return tensors, torch.optim.Adam(groups)


def _finite(error: float) -> float:
    return error if math.isfinite(error) else math.inf
