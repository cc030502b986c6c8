"""What is known of a pair before any plan is searched: three proven lower bounds, and how large both spaces are."""

from __future__ import annotations

import numpy as np

from asot._typing import Float, Indices
from asot.data.spaces.quantiles import default_bins, eccentricities, lifted, rounding, row_quantiles, space_quantiles
from asot.data.spaces.reading import Spaces

ROUNDING = 1e-7
"""How far a W_2 may be off, in units of the largest distance: squares of distances are differences of products."""

FEWEST_BITS = 62
"""The simplex has so many for a cost and for two sums of costs along paths of up to n points (``CostBits``)."""


def rounded_down(roots: Float, spaces: Spaces, rounding: float = ROUNDING, largest: float = 1.0) -> Float:
    """Roots of energies, less what the solver's rounding may amount to. Costs of up to ``largest`` are integers: an
    energy near 0 may be off by two of their units, and its root by the root of that."""
    index = max(4, (int(spaces.sizes.max()) + 7).bit_length())
    off = max(rounding, float(np.sqrt(2.0 * largest * 2.0 ** (2 * index - FEWEST_BITS))))
    return np.maximum(roots * (1.0 - off) - off, 0.0)


class Bounds:
    """Prepared once from spaces; columns of pairs count from space ``column_start`` on. ``bins``: those of a larger
    collection, if these spaces are a part of it."""

    def __init__(self, spaces: Spaces, p: float, alpha: float, column_start: int, bins: int | None = None) -> None:
        self._p, self._alpha, self._column_start = p, alpha, column_start
        self.bins = default_bins(spaces) if bins is None else bins
        self.quantiles = row_quantiles(spaces, self.bins)  # (points, bins)
        self._whole, self._eccentric = space_quantiles(spaces, self.bins), eccentricities(spaces, p, self.bins)
        self._sizes = sizes_of(spaces)
        self.unit = float(np.ldexp(0.5 if alpha == 1.0 else 1.0, spaces.exponent))
        of_rows, of_spaces = rounding(spaces, self.bins)
        are_rounded = spaces.mass is not None or bool((spaces.sizes != self.bins).any())
        self._errors = of_rows, of_spaces, of_rows if are_rounded else 0.0

    def of(self, rows: Indices, columns: Indices, third: Float) -> Float:
        """(P, 3) lower bounds as distances, rounded down: bins are off by a little, which a norm passes on.

        ``third`` (P,) is the energy of the third one, which is a transport problem of its own.
        """
        columns = columns + self._column_start
        first = self._alpha * lifted(self._eccentric, rows, columns, self._p)
        second = self._alpha * lifted(self._whole, rows, columns, self._p)
        found = [
            self.distance(energy) * (1.0 - 1e-12) - 2.0 * self.unit * error
            for energy, error in zip((first, second, third), self._errors, strict=True)
        ]
        return np.maximum(np.stack(found, axis=1), 0.0)

    def sizes(self, rows: Indices, columns: Indices) -> Float:
        """(P, 4) features of a fit that say how large the spaces of a pair are, in units of a distance."""
        x, y = self._sizes[rows, :2], self._sizes[columns + self._column_start, :2]
        return self.unit * np.concatenate([np.hypot(x, y), np.minimum(x, y)], axis=1)

    def product_price(self, rows: Indices, columns: Indices) -> Float:
        """(P,) what the product of the masses costs, as distances, rounded up: for p = 2 and without features."""
        x, y = self._sizes[rows], self._sizes[columns + self._column_start]
        energy = x[:, 0] ** 2 + y[:, 0] ** 2 - 2.0 * x[:, 2] * y[:, 2]
        return self.distance(energy) * (1.0 + 1e-12) + self.unit * 1e-7

    def distance(self, energy: Float) -> Float:
        """Energies, in the unit of the spaces, as distances by the convention."""
        return np.asarray(np.maximum(energy, 0.0) ** (1.0 / self._p) * self.unit)


def sizes_of(spaces: Spaces) -> Float:
    """(N, 3) of the distances of each space: their root mean square, that of their deviations from the means of rows,
    and their mean."""
    found = np.empty((len(spaces), 3))
    for i in range(len(spaces)):
        own, d = spaces.masses(i), spaces.matrix(i)
        whole, means = float(own @ (d * d) @ own), d @ own
        within = max(0.0, whole - float(own @ (means * means)))
        found[i] = np.sqrt(whole), np.sqrt(within), own @ means
    return found
