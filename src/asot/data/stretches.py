"""A collection in stretches: neighboring distributions that together have no more points than memory has room for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.reading import read_offsets
from asot.validation import as_positive_int


def stretches(offsets: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of distributions with at most ``most`` points, unless one alone has more.

    >>> list(stretches(np.array([0, 2, 4, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    low, n = 0, len(offsets) - 1
    while low < n:
        high = int(np.searchsorted(offsets, offsets[low] + most, side="right")) - 1
        yield low, max(low + 1, high)
        low = max(low + 1, high)


def read_blocks(make: Any, points: Any, offsets: Any, masses: Any, ids: Any, most: Any) -> Iterator[tuple[slice, Any]]:
    """Arguments of the collections of the stretches; ``points`` and ``masses`` are only ever asked for slices."""
    size = as_positive_int(most, "max_points")
    checked = read_offsets(offsets, int(points.shape[0]), ids)
    if masses is not None and tuple(masses.shape) != (int(checked[-1]),):
        raise ValueError(f"masses must hold one mass for each of the {checked[-1]} points; found {masses.shape}")
    names = np.arange(len(checked) - 1) if ids is None else np.asarray(ids)
    for low, high in stretches(checked, size):
        own = slice(int(checked[low]), int(checked[high]))
        weights = None if masses is None else masses[own]
        yield slice(low, high), make(points[own], checked[low : high + 1] - own.start, weights, names[low:high])
