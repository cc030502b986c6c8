"""Distances as an AnnData object: one observation per sample, with the matrix and a graph as scanpy reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.lazy import needed
from asot.results.distances import Distances
from asot.results.frames import need_pandas
from asot.validation import as_positive_int


def distances_to_anndata(result: Distances, obs: Any = None, n_neighbors: int = 15) -> Any:
    """An AnnData of the distributions, ready for scanpy.

    ``obsp["wasserstein"]`` is the matrix of all distances. ``obsp["distances"]`` has those of the nearest neighbors,
    ``obsp["connectivities"]`` exp(-d² / (σ_i σ_j)) with σ the distance to the last neighbor, and ``uns["neighbors"]``
    points scanpy to them, so ``scanpy.tl.umap`` and ``scanpy.tl.leiden`` just work. ``uns["asot"]`` is ``info``.

    Parameters
    ----------
    result : Distances
        All pairs of one collection.
    obs : DataFrame, optional
        What is known about the distributions, with their ids as its index, in any order.
    n_neighbors : int
    """
    anndata = needed("anndata", "to_anndata needs anndata: pip install asot[cells]")
    pandas = need_pandas("to_anndata")
    matrix = result.matrix()
    if not result.pair_set.symmetric:
        raise ValueError("to_anndata needs the distances within one collection, not between two")
    index = pandas.Index([str(name) for name in result.ids], dtype=object)  # anndata writes no other strings to h5ad
    if not index.is_unique:
        raise ValueError("two distributions have the same id; an AnnData needs unique names")
    about = pandas.DataFrame(index=index)
    if obs is not None:
        found = obs.set_axis(obs.index.map(str), axis=0)
        missing = index[~index.isin(found.index)]
        if len(missing):
            raise ValueError(f"obs has no row for {missing[0]!r} ({len(missing):,} of {len(index):,} are missing)")
        about = found.loc[index].set_axis(index, axis=0)
        about = about.astype({name: object for name in about if str(about[name].dtype) in ("str", "string")})
    new = anndata.AnnData(obs=about, var=pandas.DataFrame(index=pandas.Index([], dtype=object)))
    new.obsp["wasserstein"] = matrix
    count = min(as_positive_int(n_neighbors, "n_neighbors"), len(matrix) - 1)
    if count > 0:
        _add_neighbors(new, matrix, count)
    new.uns["asot"] = writable(result.info)
    return new


def _add_neighbors(adata: Any, matrix: NDArray[np.float64], count: int) -> None:
    from scipy import sparse

    n = len(matrix)
    others = matrix + np.diag(np.full(n, np.inf))
    nearest = np.argsort(others, axis=1, kind="stable")[:, :count]
    distance = np.take_along_axis(others, nearest, axis=1)
    width = np.maximum(distance[:, -1], np.finfo(float).tiny)
    rows = np.repeat(np.arange(n), count)
    weight = np.exp(-(distance.ravel() ** 2) / (width[rows] * width[nearest.ravel()]))
    graph = sparse.csr_matrix((distance.ravel(), (rows, nearest.ravel())), shape=(n, n))
    near = sparse.csr_matrix((weight, (rows, nearest.ravel())), shape=(n, n))
    adata.obsp["distances"] = graph
    adata.obsp["connectivities"] = near.maximum(near.T)
    adata.uns["neighbors"] = {
        "connectivities_key": "connectivities",
        "distances_key": "distances",
        "params": {"n_neighbors": count + 1, "method": "gauss", "metric": "wasserstein"},
    }


def writable(value: Any) -> Any:
    """What an h5ad file can hold of a record: no None, no tuples, and strings for unknown objects."""
    if isinstance(value, Mapping):
        return {str(key): writable(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, (list, tuple)):
        if all(isinstance(entry, (bool, int, float, str, np.generic)) for entry in value):
            return np.array(value)
        return {str(i): writable(entry) for i, entry in enumerate(value) if entry is not None}
    return value if isinstance(value, (bool, int, float, str, np.generic, np.ndarray)) else str(value)
