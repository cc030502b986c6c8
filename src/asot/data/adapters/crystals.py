"""Crystals: each atom of a cell becomes the distances to its k nearest atoms in the whole, endless crystal.

These rows do not depend on how the cell was chosen, turned or numbered, and atoms that see the same surroundings have
equal rows, so a crystal is a small distribution (the pointwise distance distribution of Widdowson and Kurlin, 2021).
Crystals are close, under the Chebyshev distance between rows, if moving each atom a little makes one of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asot._typing import Float
from asot.data.reading import label_of
from asot.validation import as_positive_int, can_be_walked, refuse_what_cannot_fit, to_float_array

SAME = 1e-9
"""Rows that differ by no more than this share of their largest distance are of atoms with the same surroundings."""

SMALLER = "use a smaller k"

_BLOCK = 2**21
"""Distances that are computed at a time."""


def read_structures(structures: Sequence[Any], k: int, fractional: bool, ids: Any) -> tuple[list[Float], list[Float]]:
    """Rows (n_i, k) and masses (n_i,) of every crystal."""
    k = as_positive_int(k, "k")
    if isinstance(structures, (str, bytes, dict)) or not can_be_walked(structures):
        raise ValueError(
            "structures must be a list of pymatgen structures, ASE atoms or (lattice, positions); found "
            f"{type(structures).__name__}"
        )
    rows, masses = [], []
    for i, structure in enumerate(structures):
        name = label_of(i, ids)
        lattice, positions = _cell_and_positions(structure, fractional, name)
        refuse_what_cannot_fit(16 * len(positions) * k, f"{k:,} neighbors of each atom of {name}", SMALLER)
        unit = 2.0 ** np.frexp(np.abs(lattice).max())[1]
        found, count = _merged(nearest_distances(lattice / unit, positions / unit, k))
        rows.append(found * unit)
        masses.append(count / len(positions))
    return rows, masses


def _cell_and_positions(structure: Any, fractional: bool, name: str) -> tuple[Float, Float]:
    """Cell vectors as rows (3, 3) and Cartesian positions (n, 3)."""
    if hasattr(structure, "frac_coords") and hasattr(structure, "lattice"):  # pymatgen
        cell, places, fractional = structure.lattice.matrix, structure.frac_coords, True
    elif hasattr(structure, "get_positions") and hasattr(structure, "cell"):  # ASE
        if not np.all(structure.pbc):
            raise ValueError(
                f"{name} is periodic along {structure.pbc.tolist()} only; a crystal repeats in all three directions"
            )
        cell, places, fractional = np.asarray(structure.cell), structure.get_positions(), False
    elif isinstance(structure, (tuple, list)) and len(structure) == 2:
        cell, places = structure
    else:
        raise ValueError(
            f"{name} is a {type(structure).__name__}; pass a pymatgen Structure, ASE Atoms or a pair (lattice (3, 3), "
            "positions (n, 3))"
        )
    lattice = _checked(cell, f"the lattice of {name}", (3, 3))
    positions = _checked(places, f"the positions of {name}", (None, 3))
    positions = positions @ lattice if fractional else positions
    if len(positions) == 0:
        raise ValueError(f"{name} has no atoms")
    most = np.abs(lattice).max(axis=1, keepdims=True)  # in this unit, squares stay in range
    shares = lattice / np.where(most > 0, most, 1.0)
    if not most.all() or abs(np.linalg.det(shares / np.linalg.norm(shares, axis=1, keepdims=True))) < 1e-9:
        raise ValueError(f"the cell vectors of {name} lie in a plane; a cell needs a volume")
    return lattice, positions


def _checked(given: Any, what: str, shape: tuple[int | None, int]) -> Float:
    array = np.asarray(to_float_array(given, what), dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != shape[1] or shape[0] not in (None, len(array)):
        raise ValueError(f"{what} must have shape ({shape[0] or 'n'}, {shape[1]}); found {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite numbers")
    return array


def nearest_distances(lattice: Float, positions: Float, k: int) -> Float:
    """(n, k): for every atom the distances to the k nearest others in the crystal, ascending."""
    lattice = _shortened(lattice)
    inverse = np.asarray(np.linalg.inv(lattice), dtype=np.float64)
    places = positions @ inverse
    places -= np.floor(places)
    n = len(places)
    radius = 1.1 * (0.75 / np.pi * (k + 1) / n * abs(np.linalg.det(lattice))) ** (1 / 3)
    while True:
        found = _within(lattice, inverse, places, k, radius)
        if found is not None:
            return found
        radius *= 1.25


def _within(lattice: Float, inverse: Float, places: Float, k: int, radius: float) -> Float | None:
    """The same, if all of them are nearer than ``radius``.

    An atom at the distance r has fractional coordinates that differ by at most r times the length of a column of the
    inverse, so no other copies of the cell need to be looked at.
    """
    n = len(places)
    reach = np.floor(radius * np.linalg.norm(inverse, axis=0) + 1.0).astype(np.int64)
    count = n * int(np.prod(2.0 * reach + 1.0))
    refuse_what_cannot_fit(96 * count, f"{count:,} atoms near a cell", SMALLER)
    shifts = np.stack(np.meshgrid(*(np.arange(-r, r + 1) for r in reach), indexing="ij"), axis=-1).reshape(-1, 3)
    if n * len(shifts) <= k:
        return None
    copies = ((places[:, None] + shifts) @ lattice).reshape(-1, 3)
    own = places @ lattice
    found = np.empty((n, k))
    step = max(1, _BLOCK // len(copies))
    for begin in range(0, n, step):
        gaps = own[begin : begin + step, None] - copies
        squares = np.einsum("ijc,ijc->ij", gaps, gaps)
        at = np.arange(begin, min(begin + step, n))
        squares[at - begin, at * len(shifts) + len(shifts) // 2] = np.inf  # itself, in the cell that was not shifted
        nearest = np.sort(np.partition(squares, k - 1, axis=1)[:, :k], axis=1)
        if nearest[:, -1].max() > radius**2:
            return None
        found[at] = np.sqrt(nearest)
    return found


def _shortened(lattice: Float) -> Float:
    """Cell vectors of the same crystal that are short and nearly perpendicular, so that few copies of it are near."""
    lattice = lattice.copy()
    for _ in range(1000):
        before = lattice.copy()
        for i in range(3):
            for j in range(3):
                if i != j:
                    lattice[i] -= np.rint(lattice[i] @ lattice[j] / (lattice[j] @ lattice[j])) * lattice[j]
        if (lattice == before).all():
            break
    return lattice


def _merged(rows: Float) -> tuple[Float, Float]:
    """Rows that are not the same, in ascending order, and how many atoms have each."""
    rows = rows[np.lexsort(rows.T[::-1])]
    apart = np.abs(np.diff(rows, axis=0)).max(axis=1, initial=0.0) > SAME * rows[:, -1].max()
    first = np.flatnonzero(np.concatenate([[True], apart]))
    return rows[first], np.diff(np.append(first, len(rows))).astype(np.float64)
