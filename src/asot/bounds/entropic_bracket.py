"""What an unfinished or blurred entropic solve still proves about the exact anchor problem (docs/method.md §6).

*Lower*: potentials ε·log u are made feasible by c-transforms; the dual value of feasible potentials is at most the
optimum, no matter how far the iteration got. *Upper*: the plan diag(u) K diag(v) is rounded to one whose marginals are
exact (Altschuler, Weed, Rigollet 2017): rows and columns that are too full are scaled down, and what is then missing is
added as a product. A plan with the right marginals costs at least the optimum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.entropic.cpu import Scalings
from asot.native import Doubles, Int, Ints, Record, entry


class ScaledPairs(Record):
    """Pairs with their potentials, and where their bounds go (``native/bounds/entropic_bracket.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("n", Int), ("k", Int), ("l", Int), ("A", Doubles), ("B", Doubles), ("Phi", Doubles), ("Psi", Doubles),
        ("M", Doubles), ("lower", Doubles), ("upper", Doubles), ("stop", Ints),
    ]  # fmt: skip


_bracket = entry("entropic_bracket", ScaledPairs)


def anchor_bounds(s: Scalings, stop: NDArray[np.int64]) -> tuple[Float, Float]:
    """Lower and upper bounds (P,) on the exact anchor distance, rounded outward."""
    lower, upper = np.zeros(len(s.a)), np.zeros(len(s.a))
    k, l = s.M.shape
    _bracket(
        ScaledPairs(
            n=len(s.a), k=k, l=l, A=s.a, B=s.b, Phi=s.phi, Psi=s.psi, M=s.M, lower=lower, upper=upper, stop=stop
        )
    )
    slack = 1e-13 * float(s.M.max()) * len(s.M)
    return s.reg * np.maximum(lower - slack, 0.0), s.reg * (upper + slack)
