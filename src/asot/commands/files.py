"""`asot info`, `convert` and `fit`: what a file holds, in another format, and anchors for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from asot.saved import load_distances

    kind = options.kind_of(path)
    if kind == "cells":
        from asot.data.foreign_files import describe_h5ad

        return describe_h5ad(path)
    if kind == "matrix":
        return _describe_matrix(path)
    if kind == "anchor-space":
        return describe_space(load_space(path))
    readers = {"learned-space": load_space, "distances": load_distances}
    return repr(readers.get(kind, load_collection)(path))


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


@click.command()
@options.collection
@click.option("-o", "--output", type=click.Path(), required=True, help="Where to write: .npz, .csv or .parquet.")
def convert(collection: str, output: str) -> None:
    """Write a COLLECTION in another format.

    Example: asot convert cells.h5ad --groupby patient -o patients.npz
    """
    from asot.data.files import COLLECTION_SUFFIXES, save_collection

    options.check_new(output, "a collection", COLLECTION_SUFFIXES, collection)
    D = options.load(collection)
    save_collection(D, output)
    options.say(f"{output}: {D!r}")


@click.command()
@options.collection
@click.option("-o", "--output", type=click.Path(), required=True, help="Where to write the anchor space (.npz).")
@options.n_anchors
@options.device
@options.random_state
def fit(collection: str, output: str, **how: Any) -> None:
    """Learn an anchor space on a COLLECTION.

    Example: asot fit patients.csv --n-anchors 32 -o anchors.npz
    """
    import asot
    from asot.anchors.files import save_space

    options.check_new(output, "an anchor space", [".npz"], collection)
    space = asot.KMeansAnchors(**how).fit(options.load(collection)).space_
    save_space(space, output)
    options.say(f"{output}: {describe_space(space)}")
