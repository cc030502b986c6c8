"""`asot info`: what a file holds, in one line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from asot.commands import options

if TYPE_CHECKING:
    from asot.anchors.space import AnchorSpace


@click.command()
@click.argument("file", type=click.Path())
def info(file: str) -> None:
    """Show what a FILE holds: a collection, an anchor space or distances.

    Example: asot info patients.csv
    """
    options.say(f"{file}: {_describe(file)}")


def _describe(path: str) -> str:
    from asot.anchors.files import load_space
    from asot.data.files import load_collection
    from asot.data.npz import read_header
    from asot.saved import load_distances

    suffix = Path(path).suffix.lower()
    if suffix == ".h5ad":
        from asot.data.foreign_files import describe_h5ad

        return describe_h5ad(path)
    if suffix == ".npy":
        return _describe_matrix(path)
    if suffix == ".csv":
        from asot.data.tabular import summarize_distances

        return summarize_distances(path) or repr(load_collection(path))
    kind = (read_header(path) or {}).get("kind") if suffix == ".npz" else None
    if kind == "anchor-space":
        return describe_space(load_space(path))
    if kind == "learned-space":
        return repr(load_space(path))
    if kind == "distances":
        return repr(load_distances(path))
    return repr(load_collection(path))


def describe_space(space: AnchorSpace) -> str:
    """A readable description of an anchor space."""
    k, d = space.anchors.shape
    return f"AnchorSpace: {k:,} anchors in {d} dimension{'s' * (d != 1)}, costs up to {space.cost.max():.4g}"


def _describe_matrix(path: str) -> str:
    from asot.data.npz import read_array

    matrix = read_array(path)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise ValueError(f"{path} holds {matrix.dtype} of shape {matrix.shape}, not a matrix of distances")
    spread = f", {matrix.min():.4g} to {matrix.max():.4g}" if matrix.size else ""
    return f"Matrix of distances: {matrix.shape[0]:,} × {matrix.shape[1]:,}, {matrix.dtype}{spread}"
