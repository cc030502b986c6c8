"""What nodes of graphs begin with, and what becomes of them in rounds over their neighbors, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.adapters import graphs


def one_hot(labels: NDArray[Any]) -> NDArray[np.float64]:
    """(n, number of labels that occur): 1 in the column of a node's label; columns in the order of the labels."""
    names, column = np.unique(labels, return_inverse=True)
    return graphs.one_hot(column, len(names))


def describe_rounds(start: str, d: int, rounds: int, eps: float) -> str:
    """What the coordinates of a point are."""
    if rounds == 0:
        return f"{start}, {d} dimensions"
    own = "x" if eps == 0 else f"{1 + eps:g} x"
    return f"{start}, and {rounds} rounds of x ← {own} + Σ_neighbors x: {d * (rounds + 1)} dimensions"
