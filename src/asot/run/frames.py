"""Results as pandas data frames, with the names of the distributions. pandas is imported only when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asot.validation import as_choice

if TYPE_CHECKING:
    from asot.run.result import Distances, Neighbors


def distances_frame(result: Distances, form: str) -> Any:
    """The labeled matrix ("square"), or one row per pair ("long")."""
    pandas = need_pandas("to_frame")
    if as_choice(form, "form", ("square", "long")) == "square":
        if hasattr(result.pair_set, "pairs"):
            raise ValueError(f"a list of {len(result):,} pairs does not fill a square; use to_frame('long')")
        return pandas.DataFrame(result.matrix(), index=result.ids, columns=result.ids_columns)
    pairs = result.pairs
    columns = {"id_i": result.ids[pairs[:, 0]], "id_j": result.ids_columns[pairs[:, 1]], "distance": result.values}
    more = {name: getattr(result, name) for name in ("lower", "upper", "error")}
    return pandas.DataFrame({**columns, **{name: values for name, values in more.items() if values is not None}})


def neighbors_frame(result: Neighbors) -> Any:
    """One row per neighbor: id, rank (from 1), neighbor and distance."""
    pandas = need_pandas("to_frame")
    n, k = result.indices.shape
    columns = {
        "id": np.repeat(result.ids, k),
        "rank": np.tile(np.arange(1, k + 1), n),
        "neighbor": result.neighbor_ids.ravel(),
        "distance": result.distances.ravel(),
    }
    return pandas.DataFrame(columns)


def need_pandas(call: str) -> Any:
    """pandas, or a sentence that says what to install."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{call} makes a pandas DataFrame: pip install asot[tables]") from error
    return pandas
