"""Names for the types of arrays, as signatures use them; shapes are in docstrings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
"""Numbers: masses, distances, coordinates."""

Indices = NDArray[np.int64]
"""Whole numbers that name rows, columns, points or anchors."""
