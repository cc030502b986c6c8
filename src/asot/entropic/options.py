"""The options of every entropic solver and their meaning, in one place for all devices.

The problem: T minimizes ⟨T, C⟩ - ε H(T) over plans with marginals a and b, H(T) = -Σ T (log T - 1). Its solution is
T = diag(u) K diag(v) with K = exp(-C/ε).

*Iteration.* One update of both scalings, rows first: u ← a / (K v), v ← b / (Kᵀ u). Column sums are then exact, and the
*marginal error* is Σ|T1 - a|. One Newton step together with the update before it counts as one iteration, too.

*Loose marginals* (``reg_m``, ρ): T minimizes ⟨T, C⟩ + ε KL(T|a⊗b) + ρ KL(T1|a) + ρ KL(Tᵀ1|b), a and b of any totals.
With T_ij = a_i b_j exp(c_i + d_j - C_ij/ε) and σ = ε/ρ an update is c ← -log(Σ_j b_j exp(d_j - C_ij/ε)) / (1 + σ), and
the same for d. Each contracts the distance to the solution, max |c - c*|, by 1 / (1 + σ), so the rate of an iteration
is at most 1 / (1 + σ)². Row sums should be a e^(-σ c): the marginal error is the distance from these, as a share of the
mass of T. With σ = 0 all of it is the balanced problem.

*Stop.* Without a tolerance: after exactly ``max_iter`` iterations, all of them plain updates. With one: a pair stops
when its marginal error is at most its *goal*, and when the remaining error, extrapolated from the measured rate, is as
well. The goal is ``tol`` times value / max C (at least 1e-4, at most 1), because that is how far a value can be off; no
goal is below rounding. Errors are measured in iterations 5, 10, 20, 30, … One measurement alone decides nothing: it
takes two to know a rate. Pairs that would need many more updates continue with Newton steps.

*Status.* FIXED_ITERATIONS without a tolerance, CONVERGED at the goal, MAX_ITER where ``max_iter`` came first. Inside a
device, OPEN marks pairs that another solver has to finish: their updates are too slow, or left the range of floats.

Solvers differ only in how they compute this: `cpu` and `torch_solver` share the loop of `shared_kernel`, `log_newton`
works in the log domain, `triton_fused` and `cuda` have their twins for GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Info
from asot.renamed import warn_renamed
from asot.validation import as_choice, as_number, as_positive_int, as_reg, as_tol

FIRST_LOOK, LOOK_EVERY = 5, 10
"""Iterations in which marginal errors are checked: the first one, and then at regular intervals."""

PATIENCE = 500
"""On a GPU, a pair that would need more updates than this in all is finished by Newton steps."""

VALUES = ("transport", "regularized", "divergence")
INITS = ("ones", "target")

PRECISIONS = ("auto", "float32", "tf32", "float64")
"""Arithmetic on a GPU."""

SMALLEST_TOL = {"float32": 1e-4, "tf32": 5e-2, "float64": 0.0}
"""Tolerances below these cannot be judged at that precision. A tolerance is relative to a pair's value, which is often
a hundredth of the largest cost, so marginal errors must be known to a hundredth of it."""

GPU_NEEDS = ("cupy", "torch", "triton")
"""Packages that the solver for GPUs needs."""


@dataclass(frozen=True)
class SinkhornOptions:
    """The options of an entropic solve, checked: see `asot.sinkhorn_many` for what they mean to a user."""

    reg: float
    """ε, in the units of the cost."""
    max_iter: int = 1000
    tol: float | None = 1e-9
    value: str = "transport"
    init: str = "ones"
    """First column scaling: 1, or the second histogram."""
    reg_m: float | None = None
    """What it costs to miss a marginal, in the units of the cost; None: marginals are exact."""

    @classmethod
    def read(cls, cost: NDArray[np.float64], **given: Any) -> SinkhornOptions:
        """From what a caller gave, by name, with an error that says what is wrong with it."""
        if given.get("value") == "regularised":
            warn_renamed("value='regularised'", "'regularized'")
            given["value"] = "regularized"
        asked = cls(**given)
        return cls(
            as_reg(asked.reg, cost),
            as_positive_int(asked.max_iter, "max_iter"),
            as_tol(asked.tol),
            as_choice(asked.value, "value", VALUES),
            as_choice(asked.init, "init", INITS),
            _as_reg_m(asked.reg_m, asked.tol),
        )

    @property
    def regularized(self) -> bool:
        """Whether the value of a pair is ⟨T, C⟩ - ε H(T), from which divergences are made, or ⟨T, C⟩."""
        return self.value != "transport"

    @property
    def start_at_target(self) -> bool:
        return self.init == "target"

    @property
    def sigma(self) -> float:
        """ε / reg_m; 0 where marginals are exact."""
        return 0.0 if self.reg_m is None else self.reg / self.reg_m

    @property
    def is_plain(self) -> bool:
        """Whether every update is a plain one with exact marginals, for which there are faster loops."""
        return self.reg_m is None

    @property
    def only_on_cpu(self) -> str | None:
        """Why GPUs do not solve this, if so."""
        if self.reg_m is None:
            return None
        return "reg_m is only solved on the CPU; asot.gradients also solves it on a GPU"

    def info(self, solver: str, device: str, precision: str) -> Info:
        """For `Distances.info`."""
        where = {"solver": solver, "device": device, "precision": precision}
        asked = {"reg": self.reg, "max_iter": self.max_iter, "tol": self.tol}
        return where | asked | ({} if self.reg_m is None else {"reg_m": self.reg_m})


def _as_reg_m(reg_m: Any, tol: Any) -> float | None:
    if reg_m is None:
        return None
    found = as_number(reg_m, lambda rho: 0 < rho < np.inf, "reg_m must be None (exact marginals) or a number > 0")
    if tol is None:
        raise ValueError("reg_m needs a tolerance: unbalanced problems are iterated to convergence; found tol=None")
    return found


class Stopping(NamedTuple):
    """When a pair is done, for the arrays of NumPy or torch. Values and costs are in units of ε."""

    xp: Any
    """The module numpy, or torch."""
    tol: float
    largest: float
    """max C/ε."""
    eps: float
    """The spacing of the floats that are computed with."""

    @property
    def rounding(self) -> float:
        """The uncertainty of exponents, and so of every mass."""
        return 4.5 * self.eps * (1.0 + self.largest)

    def goal(self, values: Any) -> Any:
        """The marginal error at which pairs with these values have the requested accuracy."""
        return (self.tol * (values / max(self.largest, 1e-30)).clip(1e-4, 1.0)).clip(self.rounding)

    def remaining(self, error: Any, rate: Any) -> Any:
        """What is still missing is a geometric tail: error · (1 + rate + rate² + …). Noise has no rate."""
        return self.xp.where(error < 45 * self.eps, error, error / (1.0 - rate).clip(self.eps))

    def updates_needed(self, error: Any, rate: Any) -> Any:
        """How many more plain updates would be enough, for a goal of a hundredth of the tolerance."""
        goal = max(1e-2 * self.tol, self.rounding)
        missing = (goal / self.remaining(error, rate)).clip(1e-30, 1.0)
        return self.xp.log(missing) / self.xp.log(rate.clip(1e-9, 1.0 - self.eps))


def choose_precision(precision: str, tol: float | None) -> str:
    """float32 (three TF32 products) if that gives the requested accuracy, otherwise float64."""
    if precision == "auto":
        return "float32" if tol is None or tol >= SMALLEST_TOL["float32"] else "float64"
    if tol is not None and tol < SMALLEST_TOL[precision]:
        raise ValueError(
            f"tol={tol:g} cannot be met in {precision}; use precision='float64', or tol={SMALLEST_TOL[precision]:g} "
            "or more"
        )
    return precision
