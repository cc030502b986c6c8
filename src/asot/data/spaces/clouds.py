"""Spaces as clouds of sorted distances: what `Distributions.from_spaces` holds (docs/method.md §18)."""

from __future__ import annotations

from typing import Any

import numpy as np

from asot.data.flatten import Flat
from asot.data.spaces.quantiles import default_bins, row_quantiles
from asot.data.spaces.reading import as_gromov_order, read_spaces
from asot.validation import as_positive_int, refuse_what_cannot_fit


def flatten_spaces(X: Any, p: Any, masses: Any, bins: Any) -> Flat:
    """Points (n, bins), offsets, masses and ids: their W_p under the L^p distance is the third lower bound."""
    order, spaces = as_gromov_order(p), read_spaces(X, masses)
    width = default_bins(spaces) if bins is None else as_positive_int(bins, "bins")
    refuse_what_cannot_fit(16 * int(spaces.start[-1]) * width, f"{width:,} bins of every point", "use fewer bins=")
    scale = np.ldexp(0.5 * width ** (-1.0 / order), spaces.exponent)
    return row_quantiles(spaces, width) * scale, spaces.start, spaces.mass, spaces.ids
