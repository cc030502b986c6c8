"""AnnData in and out: a sample is the distribution of its cells, and distances between samples are an AnnData again.

Cells are gathered into their samples in one pass. A matrix that is sparse, or still on disk, is read in blocks of rows,
so that besides the result only one block is in memory.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.flatten import Flat
from asot.data.reading import by_group, factorized, in_order_of, listed
from asot.validation import FloatArray, refuse_what_cannot_fit, to_float_array

_BLOCK = 2**24
"""How many numbers of a sparse or stored matrix are made dense at a time."""


def flatten_anndata(adata: Any, groupby: str, use_rep: str, masses: Any) -> Flat:
    """Points, offsets, masses and ids: the cells of every sample, in the order of ``obs`` within it."""
    if not all(hasattr(adata, name) for name in ("obs", "obsm", "X", "obs_names")):
        hint = " For a data frame use from_table, for an array from_groups"
        raise ValueError(f"adata must be an AnnData; found {type(adata).__name__}.{hint}")
    if adata.n_obs == 0:
        raise ValueError("the AnnData has no cells")
    unique, group = _samples(adata, groupby)
    offsets, order = by_group(group, len(unique))
    del group  # a column less while the points are gathered
    points = _gathered(_representation(adata, use_rep), order, use_rep)
    return points, offsets, _masses(adata, masses, order), unique


def _samples(adata: Any, groupby: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    if groupby not in adata.obs.columns:
        raise ValueError(f"obs has no column {groupby!r}; it has {listed(list(map(str, adata.obs.columns)))}")
    labels = adata.obs[groupby]
    missing = labels.isna().to_numpy()
    if missing.any():
        i = int(np.argmax(missing))
        raise ValueError(
            f"cell {i} ({str(adata.obs_names[i])!r}) has no {groupby!r}; drop such cells: "
            f"adata[adata.obs[{groupby!r}].notna()]"
        )
    return factorized(labels, len(labels))


def _representation(adata: Any, use_rep: str) -> Any:
    if use_rep == "X":
        if adata.X is None:
            raise ValueError("the AnnData has no X; name a key of obsm or layers in use_rep")
        return adata.X
    for group in (adata.obsm, adata.layers):
        if use_rep in group:
            return group[use_rep]
    known = listed([*adata.obsm.keys(), *adata.layers.keys(), "X"])
    hint = "; compute it with scanpy.pp.pca(adata)" if use_rep == "X_pca" else ""
    raise ValueError(f"there is no {use_rep!r} in obsm or layers; use_rep may be {known}{hint}")


def _gathered(matrix: Any, order: NDArray[np.int64] | None, name: str) -> FloatArray:
    if hasattr(matrix, "reindex"):  # a data frame in obsm
        matrix = matrix.to_numpy()
    if getattr(matrix, "ndim", 2) != 2:
        raise ValueError(f"{name!r} must have one row per cell; found shape {matrix.shape}")
    if isinstance(matrix, np.ndarray):
        dense = to_float_array(np.asarray(matrix), repr(name), keep_float32=True)
        if order is not None:
            return dense[order]
        return dense.copy() if np.may_share_memory(dense, matrix) else dense
    if _is_sparse(matrix) and hasattr(matrix, "to_memory"):
        matrix = matrix.to_memory()  # from a file, where it is smaller than the dense result
    n, d = matrix.shape
    dtype = np.dtype(np.float32 if matrix.dtype in (np.float32, np.float16) else np.float64)
    size = n * d * dtype.itemsize
    advice = "reduce the dimension first, such as with scanpy.pp.pca"
    refuse_what_cannot_fit(size, f"{name!r} as a dense matrix ({n:,} × {d:,})", advice)
    if _is_sparse(matrix):
        warnings.warn(
            f"{name!r} is sparse and is made dense: {n:,} × {d:,} numbers, {size / 1e6:,.0f} MB; distances between "
            "cells in a few principal components are faster and more meaningful",
            stacklevel=5,
        )
    place = np.arange(n)
    if order is not None:
        place[order] = np.arange(n)
    dense = np.empty((n, d), dtype=dtype)
    step = max(1, _BLOCK // d)
    for start in range(0, n, step):
        block = matrix[start : start + step]
        dense[place[start : start + step]] = block.toarray() if hasattr(block, "toarray") else np.asarray(block)
    return dense


def _is_sparse(matrix: Any) -> bool:
    stored = any(name in type(matrix).__name__ for name in ("CSR", "CSC", "Sparse"))
    return stored or hasattr(matrix, "toarray") or hasattr(matrix, "tocsr")


def _masses(adata: Any, masses: Any, order: NDArray[np.int64] | None) -> NDArray[Any] | None:
    if masses is None:
        return None
    if isinstance(masses, str):
        if masses not in adata.obs.columns:
            raise ValueError(f"obs has no column {masses!r}; it has {listed(list(map(str, adata.obs.columns)))}")
        masses = adata.obs[masses]
    given = to_float_array(in_order_of(masses, adata.obs, "masses", "obs"), "masses")
    if given.shape != (adata.n_obs,):
        raise ValueError(f"masses must hold one mass for each of the {adata.n_obs:,} cells; found shape {given.shape}")
    return given if order is None else given[order]
