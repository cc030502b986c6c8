"""How accurate values must be: on the average (``error=``), or each of them (``max_error=``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Aim:
    """The requested error: a share of the mean distance, or a number in distance units."""

    amount: float
    relative: bool

    def met(self, rmse: float, mean: float) -> bool:
        return rmse <= self.allowed(mean)

    def allowed(self, mean: float) -> float:
        return self.amount * mean if self.relative else self.amount

    def __str__(self) -> str:
        return f"{100 * self.amount:g}%" if self.relative else f"{self.amount:g}"


def as_aim(value: Any, name: str = "error") -> Aim | None:
    """None, a number in the units of the distance, or a share of the mean distance as in ``"2%"``."""
    if value is None:
        return None
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    amount = float(match[1]) / 100 if match else float(value) if number else np.nan
    if not 0 < amount < (1.0 if match else np.inf):
        raise ValueError(
            f"{name} must be a share of the mean distance such as '2%' (more than 0, less than 100%), a number > 0 in "
            f"the units of the distance, or None for no aim; found {value!r}"
        )
    return Aim(amount, relative=match is not None)


@dataclass(frozen=True)
class MaxError:
    """The largest error that is accepted: an absolute one, or a share of the distance itself."""

    amount: float
    relative: bool

    def allowed(self, lower: Float) -> Float:
        """The half-width (P,) that is accepted for distances of at least ``lower``."""
        return self.amount * lower if self.relative else np.full(len(lower), self.amount)

    def too_wide(self, lower: Float, upper: Float) -> NDArray[np.bool_]:
        """Pairs whose half-width exceeds what is accepted. A share is taken of the lower end, so that it holds."""
        return 0.5 * (upper - lower) > self.allowed(lower)

    def __str__(self) -> str:
        return f"{100 * self.amount:g}%" if self.relative else f"{self.amount:g}"


def as_max_error(value: Any) -> MaxError:
    """A number in the units of the distance, or a share of it as in ``"2%"``."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    amount = float(match[1]) / 100 if match else float(value) if number else np.nan
    if not 0 < amount < (1.0 if match else np.inf):
        raise ValueError(
            "max_error must be a number > 0 in the units of the distance, or a share of it such as '2%', less than "
            f"100%; found {value!r}"
        )
    return MaxError(amount, relative=match is not None)
