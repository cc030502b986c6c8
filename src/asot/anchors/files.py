"""Anchor spaces in files: arrays and a JSON header, read safely (`asot.data.npz`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.soft_codes import SoftCodes
from asot.anchors.soft_space import LearnedSpace
from asot.anchors.space import AnchorSpace
from asot.data.expansion import check_expansion
from asot.data.npz import PathLike, load_arrays, naming, read_arrays, read_header, save_arrays


def save_space(space: AnchorSpace, path: PathLike) -> None:
    """Write an anchor space: its anchors (k, d), their cost (k, k) unless it is the Euclidean one, and soft codes."""
    arrays = {"anchors": space.anchors} if space.is_euclidean else {"anchors": space.anchors, "cost": space.cost}
    if not isinstance(space, LearnedSpace):
        save_arrays(path, {"kind": "anchor-space"}, arrays)
        return
    codes = space.codes
    standard = {"centre": codes.center, "spread": codes.spread, "unit": np.asarray(codes.unit)}
    arrays |= {f"codes_{name}": array for name, array in {**standard, **codes.parameters}.items()}
    if space.nearest is not None:
        arrays["nearest"] = space.nearest.anchors
    # A separate kind: a version of asot without soft codes must not mistake it for a space of nearest anchors.
    save_arrays(path, {"kind": "learned-space", "codes": codes.kind, "parameters": sorted(codes.parameters)}, arrays)


def load_space(path: PathLike) -> AnchorSpace:
    """Read an anchor space; safe on files from strangers."""
    header = read_header(path)
    if header is not None and header.get("kind") == "learned-space":
        return _load_learned_space(path, header)
    _, arrays = load_arrays(path, "anchor-space", required=["anchors"], optional=["cost"])
    _check_costs(path, arrays["anchors"])
    with naming(path):
        return AnchorSpace(arrays["anchors"], arrays.get("cost"))


def _load_learned_space(path: PathLike, header: dict[str, Any]) -> AnchorSpace:
    names = header.get("parameters")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) > 1000:
        raise ValueError(f"{path}: the header does not name the parameters of the codes; the file is damaged")
    standard = ["centre", "spread", "unit"]  # the names in files stay as they were first written
    wanted = [f"codes_{name}" for name in [*standard, *names]]
    arrays = read_arrays(path, required=["anchors", "cost", *wanted], optional=["nearest"])
    _check_costs(path, arrays["anchors"], *([arrays["nearest"]] if "nearest" in arrays else []))
    with naming(path):
        if arrays["codes_unit"].shape != () or arrays["codes_unit"].dtype.kind != "f":
            raise ValueError("the array 'codes_unit' must hold one number")
        center, spread = arrays["codes_centre"], arrays["codes_spread"]
        parameters = {name: arrays[f"codes_{name}"] for name in names}
        codes = SoftCodes(str(header.get("codes")), center, spread, float(arrays["codes_unit"]), parameters)
        nearest = AnchorSpace(arrays["nearest"]) if "nearest" in arrays else None
        return LearnedSpace(arrays["anchors"], arrays["cost"], codes, nearest)


def _check_costs(path: PathLike, *anchors: NDArray[Any]) -> None:
    """A few bytes of anchors may need many bytes for the costs between them: (k, k), and scratch memory to compute
    them."""
    check_expansion(sum(32 * len(array) ** 2 for array in anchors if array.ndim == 2), path)
