"""What several baselines ask of their arguments: weights of entropies, yes or no, pairs that fit into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.request import Request
from asot.run.pairs import AllPairs, ListedPairs
from asot.validation import refuse_what_cannot_fit


def refuse_large_pairs(asked: Request, sizes: NDArray[np.int64], bytes_per_entry: int) -> None:
    """Refuse pairs whose matrix (n, m) cannot fit; ``sizes`` are those of both collections, one behind the other."""
    i, j = _largest_pair(asked, sizes)
    refuse_what_cannot_fit(
        bytes_per_entry * int(sizes[i]) * int(sizes[j]),
        f"the kernel of {_label(asked, i)} ({sizes[i]:,} points) and {_label(asked, j)} ({sizes[j]:,} points)",
        "use asot.pairwise, which goes through anchors",
    )


def _label(asked: Request, i: int) -> str:
    """How messages call distribution i of both."""
    if asked.E is None or i < len(asked.D):
        return asked.D.label(i)
    return f"{asked.E.label(i - len(asked.D))} of the second collection"


def _largest_pair(asked: Request, sizes: NDArray[np.int64]) -> tuple[int, int]:
    pairs = asked.pairs
    if len(pairs) == 0:
        return 0, 0
    if isinstance(pairs, ListedPairs):
        rows, columns = pairs.indices(0, len(pairs))
    elif isinstance(pairs, AllPairs):
        rows, columns = np.argsort(sizes)[[-1]], np.argsort(sizes)[[-2]]
    else:
        rows, columns = np.argsort(sizes[: len(asked.D)])[[-1]], np.argsort(sizes[len(asked.D) :])[[-1]]
    columns = columns + asked.column_start
    t = int(np.argmax(sizes[rows] * sizes[columns]))
    return int(rows[t]), int(columns[t])


def as_reg_of_points(reg: Any, largest: float) -> float:
    """ε from a number > 0 that float64 can resolve beside distances up to ``largest``."""
    if isinstance(reg, bool) or not isinstance(reg, (int, float, np.number)) or not 0 < reg < np.inf:
        raise ValueError(f"reg must be a number > 0, in the units of the distance; found {reg!r}")
    if reg < 1e-8 * largest:
        raise ValueError(
            f"reg = {reg:g} is less than 1e-8 of the largest distance of two points (up to {largest:g}): float64 "
            "cannot resolve it; use asot.pairwise_exact for the exact limit"
        )
    return float(reg)


def as_weight(reg: Any) -> float:
    """Weight of an entropy that may be left out: a number ≥ 0."""
    if isinstance(reg, bool) or not isinstance(reg, (int, float, np.number)) or not 0 <= reg < np.inf:
        raise ValueError(f"reg must be a number ≥ 0; found {reg!r}")
    return float(reg)


def as_truth(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False; found {value!r}")
    return bool(value)
