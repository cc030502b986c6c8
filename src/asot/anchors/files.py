"""Anchor spaces in files: arrays and a JSON header, read safely (`asot.data.npz`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Header
from asot.anchors.soft_codes import LearnedSpace, SoftCodes
from asot.anchors.space import AnchorSpace
from asot.data.expansion import check_expansion
from asot.data.npz import PathLike, load_arrays, naming, read_arrays, read_header, save_arrays


def save_space(space: AnchorSpace, path: PathLike) -> None:
    """Write an anchor space: its anchors (k, d), their cost (k, k) unless it is the Euclidean one, and soft codes."""
    save_arrays(path, *space_parts(space))


def space_parts(space: AnchorSpace) -> tuple[Header, dict[str, NDArray[Any]]]:
    """A space as a header and arrays that a file can hold."""
    arrays = {"anchors": space.anchors} if space.is_euclidean else {"anchors": space.anchors, "cost": space.cost}
    if not isinstance(space, LearnedSpace):
        return {"kind": "anchor-space"}, arrays
    codes = space.codes
    standard = {"centre": codes.center, "spread": codes.spread, "unit": np.asarray(codes.unit)}
    arrays |= {f"codes_{name}": array for name, array in {**standard, **codes.parameters}.items()}
    if space.nearest is not None:
        arrays["nearest"] = space.nearest.anchors
    # A separate kind: a version of asot without soft codes must not mistake it for a space of nearest anchors.
    return {"kind": "learned-space", "codes": codes.kind, "parameters": sorted(codes.parameters)}, arrays


def load_space(path: PathLike) -> AnchorSpace:
    """Read an anchor space; safe on files from strangers."""
    header = read_header(path)
    if header is not None and header.get("kind") == "learned-space":
        with naming(path):
            wanted = _names_of_codes(header)
        arrays = read_arrays(path, required=["anchors", "cost", *wanted], optional=["nearest"])
    else:
        header, arrays = load_arrays(path, "anchor-space", required=["anchors"], optional=["cost"])
    return space_of(header, arrays, path)


def space_of(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], path: PathLike) -> AnchorSpace:
    """The space of a header and arrays from the file at ``path``."""
    with naming(path):
        names = [] if header.get("kind") != "learned-space" else ["cost", *_names_of_codes(header)]
        for name in ("anchors", *names):
            if name not in arrays:
                raise ValueError(f"the array {name!r} is missing; the file is damaged")
    # A few bytes of anchors may need many for the costs between them: (k, k), and scratch memory to compute them.
    anchors = [arrays[name] for name in ("anchors", "nearest") if name in arrays]
    check_expansion(sum(32 * len(array) ** 2 for array in anchors if array.ndim == 2), path)
    with naming(path):
        if not names:
            return AnchorSpace(arrays["anchors"], arrays.get("cost"))
        if arrays["codes_unit"].shape != () or arrays["codes_unit"].dtype.kind != "f":
            raise ValueError("the array 'codes_unit' must hold one number")
        center, spread = arrays["codes_centre"], arrays["codes_spread"]
        parameters = {name: arrays[f"codes_{name}"] for name in header["parameters"]}
        codes = SoftCodes(str(header.get("codes")), center, spread, float(arrays["codes_unit"]), parameters)
        nearest = AnchorSpace(arrays["nearest"]) if "nearest" in arrays else None
        return LearnedSpace(arrays["anchors"], arrays["cost"], codes, nearest)


def _names_of_codes(header: Mapping[str, Any]) -> list[str]:
    names = header.get("parameters")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) > 1000:
        raise ValueError("the header does not name the parameters of the codes; the file is damaged")
    standard = ["centre", "spread", "unit"]  # the names in files stay as they were first written
    return [f"codes_{name}" for name in [*standard, *names]]
