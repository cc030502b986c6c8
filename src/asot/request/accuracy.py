"""How accurate values must be: on the average (``error=``), or each of them (``max_error=``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float


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


def as_error(value: Any) -> Accuracy | None:
    """``error=``: a share of the mean distance as in ``"2%"``, a number in its units, or None."""
    return None if value is None else _read(
        value, "error must be a share of the mean distance such as '2%' (more than 0, less than 100%), a number > 0 in "
        "the units of the distance, or None for no aim",
    )  # fmt: skip


def as_max_error(value: Any) -> Accuracy | None:
    """``max_error=``: a number in the units of the distance, a share of it as in ``"2%"``, or None."""
    return None if value is None else _read(
        value, "max_error must be a number > 0 in the units of the distance, or a share of it such as '2%', less than "
        "100%",
    )  # fmt: skip


def _read(value: Any, rule: str) -> Accuracy:
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    amount = float(match[1]) / 100 if match else float(value) if number else np.nan
    if not 0 < amount < (1.0 if match else np.inf):
        raise ValueError(f"{rule}; found {value!r}")
    return Accuracy(amount, relative=match is not None)
