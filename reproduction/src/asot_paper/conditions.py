"""The two conditions, and what an error is in each (docs/method.md §11).

*As published* repeats what the authors' public code computes: five copies of the one-hot node label, a fixed ε, errors
over the full N × N matrix with its diagonal, and by default the row-0 rule: that code leaves row and column 0 of the
exact and the sliced matrices at zero, but not those of the Sinkhorn matrices. *As described* is what the text says and
what a user would have: four rounds of aggregation, ε in proportion to the costs, errors over distinct pairs. Digits are
the same data in both conditions; ε and the error follow the condition.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from asot.data.distributions import Distributions
from asot_paper.names import DESCRIBED, PUBLISHED

Float = NDArray[np.float64]

PUBLISHED_REG = 0.1
DESCRIBED_SHARE = 0.1 / np.sqrt(10.0)
"""ε as a share of the mean ground cost. As published, different labels are √10 apart, so this is the same ratio."""

COST_PAIRS = 1000
"""Pairs of distributions that the mean ground cost is measured on."""


def features_of(condition: str, name: str) -> str:
    """What the points of a set are, in words."""
    if name == "MNIST":
        return "[row/28, column/28, ink/256] of the pixels with ink, equal masses"
    label = "node label" if name != "ZINC" else {"types": "atom type", "elements": "element"}[zinc_atoms()]
    if condition == PUBLISHED:
        return f"five copies of the one-hot {label}"
    # Spelled as in the stored cells, whose names are made from it.
    return f"one-hot {label} and four rounds of x + sum over neighbours, concatenated"


def zinc_atoms() -> str:
    """What the label of an atom of ZINC is: one of 28 types where RDKit can tell them, else its element."""
    return "types" if find_spec("rdkit") is not None else "elements"


def regularization_rule(condition: str) -> str:
    """How ε is chosen, in words."""
    if condition == PUBLISHED:
        return f"{PUBLISHED_REG}"
    return "0.1/√10 of the mean ground cost"


def regularization(condition: str, D: Distributions) -> float:
    """ε of entropic methods on a collection."""
    return PUBLISHED_REG if condition == PUBLISHED else float(DESCRIBED_SHARE) * mean_ground_cost(D)


def mean_ground_cost(D: Distributions, n_pairs: int = COST_PAIRS) -> float:
    """Mean distance between a point of one distribution and a point of another, over random pairs of distributions.

    The pairs are the same on every call with the same collection.
    """
    rng = np.random.default_rng(0)
    first = rng.integers(len(D), size=n_pairs)
    second = (first + rng.integers(1, max(2, len(D)), size=n_pairs)) % len(D)
    total = 0.0
    for i, j in zip(first, second, strict=True):
        (x, a), (y, b) = D[int(i)], D[int(j)]
        total += float(a @ cdist(x, y) @ b)
    return total / n_pairs


# -------------------------------------------------------------------------------------------------------------- errors


def error_rule(condition: str, row_zero: bool | None) -> str:
    """What the error is, in words."""
    if condition == DESCRIBED:
        return "root mean square over distinct pairs i < j"
    rule = "row and column 0 of exact and sliced matrices are zero" if row_zero else "no row-0 rule"
    return f"root mean square over the full N × N matrix with the diagonal; {rule}"


def root_mean_square_error(
    condition: str,
    estimate: Float,
    exact: Float,
    *,
    diagonal: Float | None = None,
    row_zero: bool | None = None,
) -> float:
    """Error of estimated distances.

    Parameters
    ----------
    condition : "as published" or "as described"
    estimate, exact : (P,)
        All pairs i < j of N distributions, in scipy's condensed order.
    diagonal : (N,), optional
        What an entropic method gives for every distribution with itself. Without it the method is not entropic, and its
        diagonal is zero.
    row_zero : bool
        As published only: whether row and column 0 count as zero in the exact matrix and in matrices of methods that
        are not entropic.
    """
    if condition == DESCRIBED:
        error = float(np.sqrt(np.mean((estimate - exact) ** 2)))
    else:
        from asot_paper.as_published import full_matrix_error

        entropic: dict[str, Any] = {} if diagonal is None else {"diagonal": diagonal, "entropic": True}
        error = full_matrix_error(estimate, exact, row_zero_rule=bool(row_zero), **entropic)
    if not np.isfinite(error):
        raise ValueError("some distances are not finite, so there is no error to report")
    return error
