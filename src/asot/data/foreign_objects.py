"""Which constructor reads what: the sentence for people who pass another library's object where a collection goes.

Objects are recognized by the names of their classes, so that no library is imported for an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_TABLE = 'Distributions.from_table(table, by="patient", points=["x", "y"]), with the names of columns'
_OBJECTS = {
    "anndata.AnnData": 'Distributions.from_anndata(adata, "patient"), with the column of obs that names samples',
    "torch_geometric.Batch": "Distributions.from_graphs(graphs)",
    **dict.fromkeys(("pandas.DataFrame", "polars.DataFrame", "pyarrow.Table"), _TABLE),
}
_GRAPHS = ("networkx", "torch_geometric")


def constructor_for(values: Any) -> str | None:
    """The call that reads an object which is no collection and no list of points; None if it may be such a list."""
    read = _OBJECTS.get(_kind(values))
    if read is not None:
        return f"Use {read}"
    if _kind(values).startswith(_GRAPHS):
        return "Use Distributions.from_graphs([graph, …])"
    if hasattr(values, "toarray") and hasattr(values, "tocsr"):
        return "A sparse matrix of weights over shared points is read by Distributions.from_weights(weights, support)"
    if isinstance(values, str) or hasattr(values, "__fspath__"):
        return "A file is read by asot.load_collection(path)"
    if isinstance(values, Mapping):
        return "Use Distributions.from_list(list(given.values()), ids=list(given))"
    if isinstance(values, np.ndarray):
        return _of_array(values)
    return _of_entries(values) if isinstance(values, (list, tuple)) and values else None


def _of_array(values: Any) -> str:
    if values.ndim == 2:
        return (
            "One distribution is a list of one, [points]; points of several are read by "
            "Distributions.from_groups(points, labels)"
        )
    if values.ndim == 3:
        return "Distributions of equal sizes are read by Distributions.from_list(list(array))"
    return "Points on a line are arrays (n, 1): Distributions.from_list([x[:, None], …])"


def _of_entries(values: Any) -> str | None:
    """By the first entry of a list."""
    kind = _kind(values[0])
    if kind.startswith(_GRAPHS):
        return "Graphs are read by Distributions.from_graphs(graphs)"
    if kind == "anndata.AnnData":
        return "Join them with anndata.concat, and use Distributions.from_anndata(adata, groupby)"
    if isinstance(values[0], str) or (isinstance(values[0], list) and values[0] and isinstance(values[0][0], str)):
        return "Documents are read by Distributions.from_texts(documents, vectors)"
    return None


def _kind(values: Any) -> str:
    """Library and class of an object, such as pandas.DataFrame."""
    return f"{type(values).__module__.split('.')[0]}.{type(values).__name__}"
