"""Distances of every column alone: which channel, gene or coordinate differs, and which samples lack it.

A column is a collection on a line, where distances are a matter of sorting. Samples of different panels need not have
the same columns: distances of a column are between those that have it, and how many do is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.data.distributions import Distributions, as_distributions, check_mass
from asot.data.reading import listed
from asot.distances import pairwise_exact
from asot.results.distances import Distances
from asot.results.frames import ShownAsFrame, need_pandas
from asot.run.executors import Progress, ProgressLike


@dataclass(frozen=True, eq=False)
class ColumnDistances(ShownAsFrame):
    """Distances of every pair, in every column alone. ``c["CD4"]`` are the `Distances` of a column.

    Attributes
    ----------
    columns : tuple of str
    ids : (N,)
    values : (columns, P) float64
        In pair order (scipy's condensed order); NaN where one of the two lacks the column.
    n_samples : (columns,) int64
        How many distributions have the column.
    """

    columns: tuple[Any, ...]
    ids: NDArray[Any]
    values: Float = field(repr=False)
    n_samples: NDArray[np.int64]
    _found: tuple[Distances, ...] = field(repr=False)

    def __getitem__(self, column: Any) -> Distances:
        """The distances of a column, among the distributions that have it."""
        if column not in self.columns:
            raise KeyError(f"there is no column {column!r}; the columns are {listed(self.columns, 8)}")
        return self._found[self.columns.index(column)]

    def __len__(self) -> int:
        return len(self.columns)

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row per column: how many samples have it, and mean and largest distance."""
        rows = [
            {"n_samples": int(n), "mean": float(own.values.mean()) if len(own) else np.nan,
             "largest": float(own.values.max()) if len(own) else np.nan}
            for n, own in zip(self.n_samples, self._found, strict=True)
        ]  # fmt: skip
        pandas = need_pandas("to_frame")
        return pandas.DataFrame(rows, index=pandas.Index(list(self.columns), name="column"))

    def __repr__(self) -> str:
        lacking = int((self.n_samples < len(self.ids)).sum())
        tail = f"; {lacking:,} columns are missing in some" if lacking else ""
        return f"ColumnDistances: {len(self):,} columns of {len(self.ids):,} distributions{tail}"


def pairwise_columns(
    D: Any, *, columns: Sequence[Any] | None = None, p: float = 1, n_jobs: int | None = None,
    progress: ProgressLike = None,
) -> ColumnDistances:  # fmt: skip
    """W_p of all pairs of a collection in every column alone.

    Parameters
    ----------
    D : Distributions (N), or a list or dict of data frames
        Data frames may have different columns: distances are between those that have one. The keys of a dict are ids.
    columns : sequence, optional
        Names of the columns of a collection (default: 0, 1, 2, …), or those wanted of data frames (default: all).
    p, n_jobs, progress
        As in `pairwise_exact`.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(size=(50, 2)) + [0.0, i] for i in range(3)])
    >>> found = asot.pairwise_columns(D, columns=["CD3", "CD4"])
    >>> found.to_frame().round(1)
            n_samples  mean  largest
    column
    CD3             3   0.3      0.4
    CD4             3   1.3      1.9
    >>> found["CD4"].values.shape
    (3,)
    """
    names, ids, samples = _read(D, columns)
    rows, others = np.triu_indices(len(ids), 1)
    values, counts, found = np.full((len(names), len(rows)), np.nan), np.zeros(len(names), dtype=np.int64), []
    with Progress(progress, len(names), "columns", unit="column") as shown:
        for c, name in enumerate(names):
            has = np.array([i for i, (columns_of, _) in enumerate(samples) if name in columns_of], dtype=np.int64)
            points = [np.asarray(samples[i][0][name], dtype=np.float64)[:, None] for i in has]
            one = Distributions.from_list(points, [samples[i][1] for i in has], ids=ids[has].tolist())
            own = pairwise_exact(one, p=p, n_jobs=n_jobs, progress=False)
            inside = np.isin(rows, has) & np.isin(others, has)
            values[c, inside] = own.values
            counts[c] = len(has)
            found.append(own)
            shown.advance(1)
    return ColumnDistances(tuple(names), ids, values, counts, tuple(found))


def _read(D: Any, columns: Sequence[Any] | None) -> tuple[list[Any], NDArray[Any], list[tuple[dict[Any, Any], Float]]]:
    """Names of the columns, ids, and of every distribution its columns (n,) by name and its masses (n,)."""
    entries = list(D.values()) if isinstance(D, Mapping) else D
    if isinstance(entries, (list, tuple)) and entries and all(hasattr(frame, "columns") for frame in entries):
        ids = np.array(list(D)) if isinstance(D, Mapping) else np.arange(len(entries))
        all_names = list(dict.fromkeys(name for frame in entries for name in frame.columns))
        wanted = all_names if columns is None else list(columns)
        for name in wanted:
            if name not in all_names:
                raise ValueError(f"no sample has a column {name!r}")
        held = [{name: frame[name].to_numpy() for name in frame.columns if name in wanted} for frame in entries]
        return wanted, ids, [(own, np.ones(len(frame))) for own, frame in zip(held, entries, strict=True)]
    D = as_distributions(D)
    check_mass(D)
    names = list(range(D.dim)) if columns is None else list(columns)
    if len(names) != D.dim:
        raise ValueError(f"columns has {len(names)} names for the {D.dim} columns of the collection")
    return names, D.ids, [(dict(zip(names, points.T, strict=True)), masses) for points, masses in D]
