"""The clouds and pairs of clouds that a caller gives. Imported with torch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asot.gradients.tensors import check_integers, dtype_name
from asot.validation import as_choice, as_pairs


class GivenClouds(NamedTuple):
    """The clouds of one argument: points of all of them, where each begins, and masses or None."""

    points: Tensor  # (n, d)
    offsets: Tensor  # (B + 1,) on the CPU
    masses: Tensor | None  # (n,)
    size: int | None  # of every cloud, where they are of one size

    def __len__(self) -> int:
        return int(self.offsets.shape[0]) - 1

    @classmethod
    def read(cls, points: Tensor, offsets: Any, masses: Tensor | None, name: str, mass_name: str) -> GivenClouds:
        size = None
        if offsets is None:
            batch = points[None] if points.ndim == 2 else points
            if batch.ndim < 3:
                raise ValueError(
                    f"{name} must be (B, n, d), or (n, d) with {name}_offsets; found {tuple(points.shape)}"
                )
            B, size = batch.shape[:2]
            flat, bounds = batch.flatten(2).flatten(0, 1), torch.arange(B + 1, device="cpu") * size
            shape = points.shape[: points.ndim - batch.ndim + 2]
        else:
            if points.ndim != 2:
                raise ValueError(f"{name} must be (n, d) where {name}_offsets are given; found {tuple(points.shape)}")
            flat, bounds = points, _read_offsets(offsets, len(points), f"{name}_offsets")
            shape = points.shape[:1]
        if masses is not None and masses.shape != shape:
            raise ValueError(
                f"{mass_name} must have shape {tuple(shape)}, a mass for each point of {name}; found "
                f"{tuple(masses.shape)}"
            )
        return cls(flat, bounds, None if masses is None else masses.reshape(-1), size)

    def points_of(self, chosen: Tensor, name: str) -> int:
        """How many points the clouds of problems have in all. Refuses one without points, which has no uniform mass."""
        if self.size is not None:
            if self.size == 0 and len(chosen) and self.masses is None:
                raise ValueError(f"problem 0: its cloud in {name} has no points")
            return len(chosen) * self.size
        sizes = self.offsets.diff()[chosen]
        if self.masses is None and bool((sizes == 0).any()):
            raise ValueError(f"problem {int((sizes == 0).int().argmax())}: its cloud in {name} has no points")
        return int(sizes.sum())


def _read_offsets(offsets: Any, n_points: int, name: str) -> Tensor:
    given = check_integers(offsets, name, meaning := "a vector of integers (B + 1,)")
    if given.ndim != 1 or len(given) < 1:
        raise ValueError(f"{name} must be {meaning}; found {dtype_name(given)} {tuple(given.shape)}")
    if given.device.type == "meta":
        raise ValueError(f"{name} must hold numbers; found a tensor on the meta device")
    bounds: Tensor = given.detach().cpu().long().contiguous()
    numbers = bounds.numpy()
    first, last = int(numbers[0]), int(numbers[-1])
    if first != 0 or last != n_points:
        raise ValueError(f"{name} must go from 0 to {n_points}, the number of points; found {first} to {last}")
    falls = numbers[1:] < numbers[:-1]
    if falls.any():
        t = int(falls.argmax())
        raise ValueError(f"problem {t}: {name} must ascend; found {numbers[t + 1]} after {numbers[t]}")
    return bounds


def read_pairs(pairs: Any, n_first: int, n_second: int) -> Tensor:
    """Pairs (P, 2) on the CPU."""
    if pairs is None:
        if n_first != n_second:
            raise ValueError(
                f"x holds {n_first} clouds, y {n_second}; pairs='all' takes every one with every other, and an array "
                "(P, 2) the pairs that it lists"
            )
        each: Tensor = torch.arange(n_first, device="cpu")[:, None].repeat(1, 2)
        return each
    if isinstance(pairs, str):
        as_choice(pairs, "pairs", ("all",))
        both = (torch.arange(n, device="cpu") for n in (n_first, n_second))
        every: Tensor = torch.cartesian_prod(*both).view(-1, 2)
        return every
    listed = as_pairs(np.asarray(pairs.cpu() if isinstance(pairs, torch.Tensor) else pairs), n_first, n_second)
    found: Tensor = torch.tensor(listed, device="cpu")
    return found
