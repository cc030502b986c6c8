"""Persistence diagrams: each is a set of points (birth, death), and each point has mass 1.

What the libraries do with special points:

* points on the diagonal carry no information; they are left out;
* an empty diagram becomes one point on the diagonal and the total 0, so its distance to another diagram is what that
  diagram's points cost without a partner;
* points at infinity (features that never die) have no distance to the diagonal. GUDHI matches them with each other, and
  gives infinity where their numbers differ; with ``keep_essential_parts=False`` it leaves them out, as persim does.
  Here the caller decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.data.reading import label_of
from asot.validation import as_number, can_be_walked, to_float_array


def read_diagrams(
    diagrams: Sequence[Any], infinity: float | str | None, ids: Any
) -> tuple[list[Float], list[Float], NDArray[np.bool_]]:
    """Points (n_i, 2) and masses (n_i,) of every diagram, and which of them have any (N,)."""
    if infinity is not None and infinity != "drop":
        as_number(infinity, np.isfinite, "infinity must be None, 'drop' or a finite number")
    if isinstance(diagrams, (str, bytes, dict)) or not can_be_walked(diagrams):
        raise ValueError(f"diagrams must be a list of arrays (n, 2); found {type(diagrams).__name__}")
    points = [_read_one(i, diagram, infinity, ids) for i, diagram in enumerate(diagrams)]
    held = np.array([own[0, 0] != own[0, 1] for own in points], dtype=bool)
    return points, [np.ones(len(own)) for own in points], held


def _read_one(i: int, diagram: Any, infinity: float | str | None, ids: Any) -> Float:
    name = label_of(i, ids)
    points = np.asarray(to_float_array(diagram, f"diagram {i}"), dtype=np.float64)
    if points.size == 0:
        return np.zeros((1, 2))
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"{name} must be an array (n, 2) of birth and death; found shape {points.shape}")
    if np.isnan(points).any():
        raise ValueError(f"{name} has NaN at point {int(np.argmax(np.isnan(points).any(axis=1)))}; drop it")
    endless = np.isinf(points).any(axis=1)
    if endless.any():
        if infinity is None:
            raise ValueError(
                f"{name} has a point at infinity ({points[endless][0].tolist()}), whose distance to the diagonal is "
                "infinite; pass infinity='drop' to leave such points out (GUDHI with keep_essential_parts=False, "
                "persim) or a number to replace infinity with, such as the largest value of the filtration"
            )
        if infinity == "drop":
            points = points[~endless]
        else:
            points = np.where(np.isinf(points), np.copysign(float(infinity), points), points)
    lively = points[points[:, 0] != points[:, 1]]
    if len(lively):
        return lively
    return points[:1].copy() if len(points) else np.zeros((1, 2))
