"""Jets and collider events: a particle is a point in rapidity and azimuth, and its transverse momentum is the mass.

EnergyFlow keeps events as one array (N, M, 3 or 4), filled up with rows of zeros; uproot gives awkward arrays.
Both become flat rows with offsets, without a loop over the events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.flatten import Flat
from asot.data.reading import label_of, owner_of
from asot.validation import FloatArray, as_choice, not_finite, to_array, to_float_array

_COLUMNS = {"hadronic": ("pt", "y", "phi"), "cartesian": ("E", "px", "py", "pz")}
_ALSO_CALLED = {"pt": ("pT", "Pt"), "y": ("rapidity", "eta"), "E": ("e", "energy")}


def flatten_jets(events: Any, coords: str, center: bool, ids: Any) -> Flat:
    """Points (n, 2) of rapidity and azimuth, offsets, transverse momenta and ids."""
    as_choice(coords, "coords", tuple(_COLUMNS))
    rows, offsets = _rows(events, coords, ids)  # (n, 3 or 4)
    if odd := not_finite(rows):
        name, place = owner_of(odd[0], offsets, ids, "event")
        raise ValueError(f"{name} has {rows[odd]} at particle {place}, column {odd[1]}; drop the particle")
    if coords == "cartesian":
        rows = _in_hadronic(rows, offsets, ids)
    momentum = rows[:, 0]
    if momentum.size and momentum.min() < 0:
        name, place = owner_of(int(np.argmax(momentum < 0)), offsets, ids, "event")
        raise ValueError(f"{name} has a negative transverse momentum ({momentum.min():g} at particle {place})")
    real = momentum > 0  # all else is padding, or has no weight
    counts = np.add.reduceat(np.append(real, False), offsets[:-1], dtype=np.int64) * (np.diff(offsets) > 0)
    if len(counts) == 0 or not counts.all():
        name = label_of(int(np.argmin(counts)), ids, "event") if len(counts) else "events"
        raise ValueError(f"{name} has no particle with transverse momentum; drop it")
    rows, offsets = rows[real], np.concatenate([[0], np.cumsum(counts)])
    points = np.ascontiguousarray(rows[:, 1:3])
    if center:
        _center(points, rows[:, 0].astype(np.float64), offsets)
    return points, offsets, rows[:, 0], ids


def _rows(events: Any, coords: str, ids: Any) -> tuple[FloatArray, NDArray[np.int64]]:
    """Particles (n, 3 or 4) of all events, padding and all, and where events begin."""
    width = len(_COLUMNS[coords])
    if type(events).__module__.split(".")[0] == "awkward":
        return _of_awkward(events, coords)
    if isinstance(events, (list, tuple)) and events and np.ndim(events[0]) == 2:
        blocks = [to_float_array(one, label_of(i, ids, "event"), keep_float32=True) for i, one in enumerate(events)]
        for i, block in enumerate(blocks):
            if block.ndim != 2 or block.shape[1] < width:
                name = label_of(i, ids, "event")
                raise ValueError(f"{name} must be particles (n, {_named(coords)}); found {block.shape}")
        return np.concatenate([block[:, :width] for block in blocks]), np.cumsum([0, *map(len, blocks)])
    array = to_array(events, "events")
    if array.ndim != 3 or array.shape[2] < width or 0 in array.shape:
        hint = "; pass events[None] for a single one" if array.ndim == 2 else ""
        raise ValueError(f"events must be (N, M, {_named(coords)}); found shape {array.shape}{hint}")
    table = to_float_array(array[:, :, :width], "events", keep_float32=True)
    return table.reshape(-1, width), np.arange(len(table) + 1) * table.shape[1]


def _of_awkward(events: Any, coords: str) -> tuple[FloatArray, NDArray[np.int64]]:
    """From N * var * {pt, y, phi} or N * var * (3 or 4)."""
    import awkward

    if events.ndim < 2:
        raise ValueError(f"events must hold a list of particles for every event; found {events.type}")
    sizes = np.asarray(awkward.num(events, axis=1), dtype=np.int64)
    particles = awkward.flatten(events, axis=1)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    width = len(_COLUMNS[coords])
    if not particles.fields:
        try:
            table = awkward.to_numpy(particles)
        except ValueError as error:
            raise ValueError(f"events must hold particles of {width} numbers each; found {events.type}") from error
        if table.ndim != 2 or table.shape[1] < width:
            raise ValueError(f"events must hold particles ({_named(coords)}); found {events.type}")
        return to_float_array(table[:, :width], "events", keep_float32=True), offsets
    columns = []
    for name in _COLUMNS[coords]:
        known = next((other for other in (name, *_ALSO_CALLED.get(name, ())) if other in particles.fields), None)
        if known is None:
            raise ValueError(f"events has no field {name!r}; its fields are {', '.join(map(repr, particles.fields))}")
        columns.append(to_float_array(awkward.to_numpy(particles[known]), known, keep_float32=True))
    return np.column_stack(columns), offsets


def _in_hadronic(rows: FloatArray, offsets: NDArray[np.int64], ids: Any) -> FloatArray:
    """(pT, y, φ) from (E, px, py, pz)."""
    energy, px, py, pz = rows.T
    momentum = np.hypot(px, py)
    slow = (momentum > 0) & ~(energy > np.abs(pz))
    if slow.any():
        i = int(np.argmax(slow))
        name, place = owner_of(i, offsets, ids, "event")
        raise ValueError(
            f"{name} has a particle with E = {energy[i]:g}, not above |pz| = {abs(pz[i]):g} (particle {place}); "
            "columns must be E, px, py, pz"
        )
    share = np.divide(pz, energy, out=np.zeros_like(pz), where=momentum > 0)
    return np.column_stack([momentum, np.arctanh(share), np.arctan2(py, px)])


def _center(points: FloatArray, momentum: NDArray[np.float64], offsets: NDArray[np.int64]) -> None:
    """Move every event's mean direction to the origin, across the cut of the azimuth where it lies on it."""
    starts, sizes = offsets[:-1], np.diff(offsets)
    total = np.add.reduceat(momentum, starts)
    peak = np.repeat(np.maximum.reduceat(momentum, starts), sizes)
    hardest = np.minimum.reduceat(np.where(momentum == peak, np.arange(len(momentum)), len(momentum)), starts)
    turn = points[:, 1] - np.repeat(points[hardest, 1], sizes)
    points[:, 1] = turn - 2 * np.pi * np.round(turn / (2 * np.pi))
    for column in points.T:
        column -= np.repeat(np.add.reduceat(momentum * column, starts) / total, sizes).astype(points.dtype)


def _named(coords: str) -> str:
    return f"{len(_COLUMNS[coords])} or more: {', '.join(_COLUMNS[coords])}"
