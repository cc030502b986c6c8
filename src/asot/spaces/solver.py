"""Gromov–Wasserstein energies of pairs of spaces: proven bounds from below, the best plan found from above."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.data.spaces.quantiles import default_bins, eccentricities, lifted, rounding, row_quantiles, space_quantiles
from asot.data.spaces.reading import Spaces
from asot.native import Double, Doubles, Int, Ints, Record, Tile, entry
from asot.run.protocols import TILE_SECONDS, Solution, Solver, Status

FROM_BOUND, FROM_PRODUCT = 1, 2
"""Where descents begin: at the plan of the third lower bound, at the product of the masses."""

MAX_STEPS = 200
TOLERANCE = 1e-9
"""A step that gains less than this share of the energy ends a descent."""


class GromovSpaces(Record):
    """A collection of spaces (``native/gromov/spaces.hpp``)."""

    _fields_ = (
        ("start", Ints), ("matrix_at", Ints), ("distance", Doubles), ("mass", Doubles), ("quantiles", Doubles),
        ("features", Doubles), ("bins", Int), ("dim", Int), ("most", Int), ("p", Double), ("alpha", Double),
        ("starts", Int), ("max_steps", Int), ("tolerance", Double),
    )  # fmt: skip


class GromovAnswers(Record):
    """What a tile answers beside energies (``native/gromov/spaces.hpp``)."""

    _fields_ = (("lower", Doubles), ("first", Doubles), ("gap", Doubles), ("plan", Doubles))


_solve_tile = entry("gromov_tile", GromovSpaces, GromovAnswers, Tile)


class Gromov(Solver):
    """Prepared once from spaces; then solves tiles of pairs. Columns count from space ``column_start`` on.

    ``starts`` is a sum of `FROM_BOUND` and `FROM_PRODUCT`, or 0: then a value is the price of the third bound's plan.
    Where both starts end above a third bound of 0, points are also matched one by one, since symmetric ones look alike.
    """

    def __init__(
        self, spaces: Spaces, p: float, alpha: float, starts: int, column_start: int = 0, bounds: bool = True
    ) -> None:
        self._spaces, self._p, self._alpha, self._column_start = spaces, p, alpha, column_start
        self._most, self._starts, self._has_bounds = int(spaces.sizes.max()), starts, bounds
        bins = default_bins(spaces)
        self._quantiles = row_quantiles(spaces, bins)
        self._whole, self._eccentric = space_quantiles(spaces, bins), eccentricities(spaces, p, bins)
        self._rounding = rounding(spaces, bins)
        self.info: Info = {
            "solver": "conditional gradient on exact transport steps" if starts else "plan of the third lower bound",
            "convention": convention(p, alpha),
            "p": p,
            "alpha": alpha,
            "bins": bins,
            "starts": [name for bit, name in ((1, "third lower bound"), (2, "product")) if starts & bit],
            "device": "cpu",
            "precision": "float64",
            "reg": None,
        }

    def _record(self) -> GromovSpaces:
        s = self._spaces
        return GromovSpaces(
            start=s.start, matrix_at=s.matrix_at, distance=s.distance, mass=s.mass, quantiles=self._quantiles,
            features=s.features, bins=self._quantiles.shape[1], dim=0 if s.features is None else s.features.shape[1],
            most=self._most, p=self._p, alpha=self._alpha, starts=self._starts, max_steps=MAX_STEPS,
            tolerance=TOLERANCE,
        )  # fmt: skip

    def expected_seconds(self, n_pairs: int) -> float:
        return n_pairs * self._seconds()

    def _seconds(self) -> float:
        n = float(np.mean(self._spaces.sizes))
        return (1 + 8 * bin(self._starts).count("1")) * (2e-6 + 4e-9 * n * n + 2e-10 * n**3)

    def identity(self) -> Identity:
        s = self._spaces
        return {
            "solver": "gromov, 1",
            "start": s.start,
            "distance": s.distance,
            "mass": s.mass,
            "features": s.features,
            "exponent": s.exponent,
            "p": self._p,
            "alpha": self._alpha,
            "starts": self._starts,
            "bounds": self._has_bounds,
            "column_start": self._column_start,
        }

    def pairs_per_tile(self, memory: int) -> int:
        return int(max(1, min(TILE_SECONDS / self._seconds(), memory / 64, 2**14)))

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        energy, third, gap, steps = self.energies(rows, columns, stop)
        values = self.distance(energy)
        status = np.full(len(rows), Status.BEST_FOUND, dtype=np.int8)
        spread = self.distance(energy + gap) - values
        if not self._has_bounds:
            return Solution(values, status, steps, error=spread)
        lower = np.minimum(self.bounds(rows, columns, third).max(axis=1), values)
        return Solution(values, status, steps, lower=lower, upper=values, error=spread)

    def energies(
        self, rows: Indices, columns: Indices, stop: Indices, plan: Float | None = None
    ) -> tuple[Float, Float, Float, NDArray[np.int32]]:
        """Best energies (P,), the third lower bound, how far the starts disagree, and steps; ``plan`` (n, m) receives
        the plan of the last pair."""
        n = len(rows)
        energy, third, gap, steps = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int32)
        tile = Tile(n=n, rows=rows, columns=columns + self._column_start, values=energy, steps=steps, stop=stop)
        _solve_tile(self._record(), GromovAnswers(lower=third, first=np.zeros(n), gap=gap, plan=plan), tile)
        return energy, third, gap, steps

    def bounds(self, rows: Indices, columns: Indices, third: Float) -> Float:
        """(P, 3) the lower bounds as distances, rounded down: bins are off by a little, which a norm passes on."""
        columns = columns + self._column_start
        of_rows, of_spaces = self._rounding
        parts = [
            (self._alpha * lifted(self._eccentric, rows, columns, self._p), of_rows),
            (self._alpha * lifted(self._whole, rows, columns, self._p), of_spaces),
            (third, of_rows if self._quantiles_are_rounded() else 0.0),
        ]
        unit = self._unit()
        found = [self.distance(part) * (1.0 - 1e-12) - 2.0 * unit * error for part, error in parts]
        return np.maximum(np.stack(found, axis=1), 0.0)

    def _quantiles_are_rounded(self) -> bool:
        sizes = self._spaces.sizes
        return self._spaces.mass is not None or bool((sizes != self._quantiles.shape[1]).any())

    def features(self, rows: Indices, columns: Indices, stop: Indices) -> Float:
        """Features (P, 4) of pairs for a fit: the three lower bounds and the price of the third one's plan, as
        distances. Only for a solver without starts."""
        price, third, _, _ = self.energies(rows, columns, stop)
        return np.concatenate([self.bounds(rows, columns, third), self.distance(price)[:, None]], axis=1)

    def distance(self, energy: Float) -> Float:
        """Energies, in the unit of the spaces, as distances by the convention."""
        return np.asarray(np.maximum(energy, 0.0) ** (1.0 / self._p) * self._unit())

    def _unit(self) -> float:
        return float(np.ldexp(0.5 if self._alpha == 1.0 else 1.0, self._spaces.exponent))


def convention(p: float, alpha: float) -> str:
    order = f"{p:g}"
    if alpha == 1.0:
        return (
            f"GW_{order} = ½ (min Σ |d_X - d_Y|^{order} T T)^(1/{order}), Mémoli's and CAJAL's; POT's "
            "gromov_wasserstein2 with the square loss is (2 GW_2)²"
        )
    return (
        f"FGW = (min (1 - α) Σ c^{order} T + α Σ |d_X - d_Y|^{order} T T)^(1/{order}) with α = {alpha:g}; POT's "
        "fused_gromov_wasserstein2 with the square loss is FGW²"
    )
