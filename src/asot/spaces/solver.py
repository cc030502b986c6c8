"""Gromov–Wasserstein energies of pairs of spaces: proven bounds from below, the best plan found from above."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.data.spaces.reading import Spaces
from asot.exact.price import PricedSolver
from asot.native import Double, Doubles, Int, Ints, Record, Tile, entry
from asot.run.protocols import IN_FLOAT64, Solution, Status, all_ended, identity_of
from asot.spaces.bounds import Bounds

FROM_BOUND, FROM_PRODUCT = 1, 2
"""Where descents begin: at the plan of the third lower bound, at the product of the masses."""

MAX_STEPS = 200
TOLERANCE = 1e-9
"""A step that gains less than this share of the energy ends a descent."""


POWER_SECONDS, GAP_SECONDS = 3e-8, 5e-10
"""Of one |x - y|^p, and of one |x - y|."""


class GromovSpaces(
    Record, start=Ints, matrix_at=Ints, distance=Doubles, mass=Doubles, quantiles=Doubles, features=Doubles, bins=Int,
    dim=Int, most=Int, p=Double, alpha=Double, starts=Int, max_steps=Int, tolerance=Double,
):  # fmt: skip
    """A collection of spaces (``native/gromov/spaces.hpp``)."""


class GromovAnswers(Record, lower=Doubles, first=Doubles, gap=Doubles, plan=Doubles):
    """What a tile answers beside energies (``native/gromov/spaces.hpp``)."""


class Energies(NamedTuple):
    """What is found of P pairs, in the unit of the spaces."""

    energy: Float  # (P,) of the best plan
    third: Float  # (P,) the third lower bound
    first: Float  # (P,) of its plan
    gap: Float  # (P,) how far the starts disagree
    steps: NDArray[np.int32]  # (P,)


_solve_tile = entry("gromov_tile", GromovSpaces, GromovAnswers, Tile)


class Gromov(PricedSolver):
    """Prepared once from spaces; then solves tiles of pairs. Columns count from space ``column_start`` on.

    ``starts`` is a sum of `FROM_BOUND` and `FROM_PRODUCT`, or 0: then a value is the price of the third bound's plan.
    Where both starts end above a third bound of 0, an isometry is looked for, since symmetric points look alike.
    """

    def __init__(
        self,
        spaces: Spaces,
        p: float,
        alpha: float,
        starts: int,
        column_start: int = 0,
        bounds: bool = True,
        *,
        max_steps: int = MAX_STEPS,
        bins: int | None = None,
    ) -> None:
        self.spaces, self._p, self._alpha, self.column_start = spaces, p, alpha, column_start
        self._most, self.has_bounds = int(spaces.sizes.max()), bounds
        self.bounds = Bounds(spaces, p, alpha, column_start, bins)
        self._begin(starts, max_steps)

    def _begin(self, starts: int, max_steps: int) -> None:
        self._starts, self._max_steps, sizes = starts, max_steps, self.spaces.sizes
        n, steps = float(np.mean(sizes)), min(4, max_steps) * bin(starts).count("1")
        self._seconds = (1 + steps) * (2e-6 + 4e-9 * n * n + 2e-10 * n**3)
        if self._p != 2:  # |d - d'|^p of all pairs of points with the arcs of a plan, and with all for the product
            entries = float(np.mean(sizes.astype(np.float64) ** 2))
            arcs = (1 + 2 * steps) * n + (entries if starts & FROM_PRODUCT else 0.0)
            self._seconds += (POWER_SECONDS if self._p != 1 else GAP_SECONDS) * entries * arcs
        self.info: Info = {
            "solver": "conditional gradient on exact transport steps" if starts else "plan of the third lower bound",
            "convention": convention(self._p, self._alpha),
            "p": self._p,
            "alpha": self._alpha,
            "bins": self.bounds.bins,
            "starts": [name for bit, name in ((1, "third lower bound"), (2, "product")) if starts & bit],
            **IN_FLOAT64,
        }

    def near_bound(self, steps: int) -> Gromov:
        """The same pairs, with bounds, and as values the prices after so many steps from the third bound's plan."""
        other = copy.copy(self)
        other.has_bounds = True
        other._begin(FROM_BOUND if steps else 0, steps)
        return other

    def _record(self) -> GromovSpaces:
        s = self.spaces
        return GromovSpaces.of(
            s, quantiles=self.bounds.quantiles, bins=self.bounds.bins, most=self._most, p=self._p, alpha=self._alpha,
            dim=0 if s.features is None else s.features.shape[1], starts=self._starts, max_steps=self._max_steps,
            tolerance=TOLERANCE,
        )  # fmt: skip

    def identity(self) -> Identity:
        s = self.spaces
        return identity_of(
            "gromov, 2", start=s.start, distance=s.distance, mass=s.mass, features=s.features, exponent=s.exponent,
            p=self._p, alpha=self._alpha, starts=self._starts, max_steps=self._max_steps, bounds=self.has_bounds,
            column_start=self.column_start,
        )  # fmt: skip

    def solve(self, rows: Indices, columns: Indices, stop: Indices) -> Solution:
        found = self.energies(rows, columns, stop)
        values = self.bounds.distance(found.energy)
        spread = self.bounds.distance(found.energy + found.gap) - values
        if not self.has_bounds:
            return all_ended(Status.BEST_FOUND, values, found.steps, error=spread)
        lower = np.minimum(self.bounds.of(rows, columns, found.third).max(axis=1), values)
        return all_ended(Status.BEST_FOUND, values, found.steps, lower=lower, upper=values, error=spread)

    def energies(self, rows: Indices, columns: Indices, stop: Indices, plan: Float | None = None) -> Energies:
        """Of pairs; ``plan`` (n, m) receives the plan of the last one."""
        n = len(rows)
        energy, third, first, gap = (np.zeros(n) for _ in range(4))
        steps = np.zeros(n, dtype=np.int32)
        tile = Tile(n=n, rows=rows, columns=columns + self.column_start, values=energy, steps=steps, stop=stop)
        _solve_tile(self._record(), GromovAnswers(lower=third, first=first, gap=gap, plan=plan), tile)
        return Energies(energy, third, first, gap, steps)


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
