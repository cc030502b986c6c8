"""Names for the types of arrays, as signatures use them; shapes are in docstrings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
"""Numbers: masses, distances, coordinates."""

Indices = NDArray[np.int64]
"""Whole numbers that name rows, columns, points or anchors."""

Info = dict[str, Any]
"""What a result says about how it came about, by name: for people and for files. No code reads it back."""

Identity = dict[str, Any]
"""What answers depend on: plain values and arrays, by name; records of such values may nest."""

Parameters = dict[str, Any]
"""Parameters of a metric, by name: ``metric_params=``."""

Header = dict[str, Any]
"""What a file says about its content, as JSON holds it."""
