"""Results as pandas data frames, with the names of the distributions. pandas is imported only when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asot.data.notebook import MOST_ROWS, page_of
from asot.lazy import needed
from asot.validation import as_choice

if TYPE_CHECKING:
    from asot.results.distances import Distances


class ShownAsFrame:
    """What notebooks show of a result that has a table: its sentence, and the first rows."""

    def _repr_html_(self) -> str:
        try:
            frame: Any = self.to_frame()  # type: ignore[attr-defined]
        except ImportError:  # without pandas there is the sentence
            return page_of(repr(self))
        rows = list(frame.head(MOST_ROWS).itertuples(name=None))
        return page_of(repr(self), frame.columns.tolist(), rows, len(frame))


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


def neighbors_frame(result: Any) -> Any:
    """One row per neighbor of a `Neighbors` or `RadiusNeighbors`: id, rank (from 1), neighbor and distance."""
    pandas = need_pandas("to_frame")
    if hasattr(result, "indptr"):
        counts, starts = np.diff(result.indptr), result.indptr[:-1]
    else:
        n, k = result.indices.shape
        counts, starts = np.full(n, k), np.arange(n) * k
    columns = {
        "id": np.repeat(result.ids, counts),
        "rank": np.arange(1, counts.sum() + 1) - np.repeat(starts, counts),
        "neighbor": result.neighbor_ids.ravel(),
        "distance": result.distances.ravel(),
    }
    return pandas.DataFrame(columns)


def need_pandas(call: str) -> Any:
    """pandas, or a sentence that says what to install."""
    return needed("pandas", f"{call} makes a pandas DataFrame: pip install asot[tables]")
