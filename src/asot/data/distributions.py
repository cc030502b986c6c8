"""One ragged form for every kind of collection.

A collection of N distributions is three flat arrays: all points one after the other, the offsets where each
distribution begins, and a mass for every point. No padding, no Python object per distribution, no copy when a library
already keeps its data this way. All checks of points and masses happen here, once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot._typing import Float, Indices
from asot.data.belonging import as_selection, is_pandas_index
from asot.data.constructors import Constructors
from asot.data.flatten import with_equal_columns
from asot.data.foreign_objects import constructor_for
from asot.data.normalized import check_finite, normalized
from asot.data.notebook import MOST_ROWS, page_of
from asot.data.reading import ends_in_nul, in_order_of, label_of, read_ids, read_offsets, read_points
from asot.validation import FloatArray, as_index


class UnknownId(KeyError, ValueError):
    """A name that no distribution has, or that several have."""

    def __str__(self) -> str:
        return str(self.args[0])


class Distributions(Constructors):
    """A collection of distributions of any sizes, whose points all have the same dimension.

    Parameters
    ----------
    points : array-like (n, d)
        The points of all distributions, one distribution after the other. float32 stays float32.
    offsets : array-like of int (N + 1,)
        Distribution i owns the points ``offsets[i]:offsets[i + 1]``; starts at 0, ends at n, strictly increasing.
    masses : array-like (n,), optional
        Mass of every point, ≥ 0. Each distribution is scaled to total 1; its original total is kept in `totals`.
        Without masses, every point of a distribution has the same mass.
    ids : sequence of length N, optional
        Names, used in messages and kept through slicing.

    Attributes
    ----------
    points : (n, d) float32 or float64
    offsets : (N + 1,) int64
    masses : (n,) float64, summing to 1 within every distribution
    totals : (N,) float64, the totals before scaling (1 where no masses were given; 0 of an empty diagram)

    Examples
    --------
    >>> import numpy as np, asot
    >>> D = asot.Distributions(np.arange(10.0).reshape(5, 2), offsets=[0, 3, 5])
    >>> D
    Distributions: 2 distributions of 2 to 3 points (mean 2.5, 5 in all) in 2 dimensions, float64
    >>> points, masses = D[1]
    >>> masses
    array([0.5, 0.5])
    """

    points: FloatArray
    offsets: Indices
    masses: Float
    totals: Float

    def __init__(
        self,
        points: ArrayLike,
        offsets: ArrayLike,
        masses: ArrayLike | None = None,
        ids: Sequence[Any] | NDArray[Any] | None = None,
    ) -> None:
        self._build(read_points(points), offsets, in_order_of(masses, points, "masses"), ids)

    def _build(self, points: FloatArray, offsets: Any, masses: Any, ids: Any) -> None:
        """From points that only this collection can change, and the rest as given."""
        checked = read_offsets(offsets, len(points), ids)
        names = read_ids(ids, len(checked) - 1)
        check_finite(points, checked, names)
        scaled, totals = normalized(masses, checked, names)
        self._set(points=points, offsets=checked, masses=scaled, totals=totals, _ids=names)

    # ------------------------------------------------------------------------------------------------ what it holds

    def __getattr__(self, name: str) -> Any:
        if name != "points" or "_support" not in self.__dict__:
            raise AttributeError(f"'Distributions' object has no attribute {name!r}")
        self._set(points=self._support[self._index])  # looked up when first needed
        return self.__dict__["points"]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a collection cannot be changed: make a new one with other {name}")

    @property
    def dim(self) -> int:
        """Dimension d of the points."""
        own = self.__dict__
        return own["_support" if "_support" in own else "points"].shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        own = self.__dict__
        return own["_support" if "_support" in own else "points"].dtype

    @property
    def shape(self) -> tuple[int]:
        """(N,). With it, scikit-learn's splitters return collections."""
        return (len(self),)

    @property
    def vocabulary(self) -> tuple[FloatArray, NDArray[Any]] | None:
        """What `from_weights` was given: points (V, d), and the index of every point among them (n,); else None."""
        return (self._support, self._index) if "_support" in self.__dict__ else None

    @property
    def sizes(self) -> Indices:
        """Number of points of every distribution (N,)."""
        return np.diff(self.offsets)

    @property
    def ids(self) -> NDArray[Any]:
        """Names (N,): as given, or 0..N-1."""
        return np.arange(len(self)) if self._ids is None else self._ids

    @property
    def given_ids(self) -> NDArray[Any] | None:
        """Names (N,) as given, or None."""
        return cast("NDArray[Any] | None", self._ids)

    def label(self, i: int) -> str:
        """The name of distribution i in messages."""
        return label_of(i, self._ids)

    def place(self, key: Any, name: str = "the distribution") -> int:
        """The index of a distribution, from an id that is a string or an index that may count from the end.

        >>> import asot
        >>> asot.Distributions.from_list([[[0.0]], [[1.0]]], ids=["eve", "adam"]).place("adam")
        1
        """
        if not isinstance(key, str):
            return as_index(key, name, len(self))
        if self.ids.dtype.kind == "U" and not ends_in_nul(key):
            return self._only(key, np.flatnonzero(self.ids == key).tolist())
        return self._only(key, [i for i, one in enumerate(self.ids.tolist()) if one == key])

    def _only(self, key: Any, found: list[int]) -> int:
        if len(found) == 1:
            return found[0]
        if len(found) > 1:
            raise UnknownId(f"{len(found)} distributions are called {key!r}; use an index, such as {found[0]}")
        raise UnknownId(f"no distribution is called {key!r}; the ids begin with {str(self.ids[0])!r}")

    def _called(self, names: list[Any]) -> Indices:
        """The indices of the distributions with these ids."""
        found: dict[Any, list[int]] = {key: [] for key in names}
        for i, key in enumerate(self.ids.tolist()):
            if key in found:
                found[key].append(i)
        return np.array([self._only(key, found[key]) for key in names], dtype=np.int64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file: ``.npz``, which keeps everything, or a table, ``.csv`` or ``.parquet``.

        `asot.load_collection` reads it back.
        """
        from asot.data.files import save_collection

        save_collection(self, path)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[tuple[FloatArray, Float]]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, key: int | np.integer[Any] | str) -> tuple[FloatArray, Float]: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | list[str] | NDArray[Any]) -> Distributions: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:  # how scikit-learn's splitters ask
            key = key[0]
        if isinstance(key, str):
            key = self.place(key)
        if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
            i = int(key) + len(self) if key < 0 else int(key)
            if not 0 <= i < len(self):
                raise IndexError(f"distribution {key} of a collection of {len(self)}")
            own = slice(self.offsets[i], self.offsets[i + 1])
            if "points" in self.__dict__:
                return self.points[own], self.masses[own]
            return frozen(self._support[self._index[own]]), self.masses[own]
        return self._select(np.arange(len(self))[key] if isinstance(key, slice) else self._chosen(key))

    def _chosen(self, key: Any) -> Indices:
        """The indices that a list, an array or something of pandas selects: indices, a mask, or ids."""
        values, by_id = key, False
        if not isinstance(key, np.ndarray):
            values = np.asarray(None if isinstance(key, tuple) else as_selection(key, self.ids))
            by_id = is_pandas_index(key) and values.dtype != np.bool_
        if values.size == 0:
            return np.empty(0, dtype=np.int64)
        if values.ndim == 1 and (by_id or isinstance(values[0], str)):
            return self._called(key if isinstance(key, list) else values.tolist())
        if values.ndim != 1 or values.dtype.kind not in "iub":
            raise IndexError(
                "distributions are selected by a slice, a list of indices or ids, a mask or a pandas index; "
                f"found {key!r}"
            )
        try:
            return np.arange(len(self))[values]
        except IndexError as error:
            raise IndexError(f"a collection of {len(self)} distributions: {error}") from error

    def _select(self, chosen: Indices) -> Distributions:
        """The distributions ``chosen`` (indices, in that order, repeats allowed)."""
        if chosen.ndim != 1 or len(chosen) == 0:
            raise ValueError("the selection is empty: a collection needs at least one distribution")
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        rest = {
            "offsets": offsets,
            "masses": self.masses[rows],
            "totals": self.totals[chosen],
            "_ids": None if self._ids is None else self._ids[chosen],
        }
        if "_support" in self.__dict__:
            return self._from_clean(_support=self._support, _index=self._index[rows], **rest)
        return self._from_clean(points=self.points[rows], **rest)

    def __add__(self, other: Distributions) -> Distributions:
        if not isinstance(other, Distributions):
            return NotImplemented
        if self.dim != other.dim:
            raise ValueError(f"cannot join collections in {self.dim} and {other.dim} dimensions")
        ids = None
        if self._ids is not None or other._ids is not None:
            ids = np.concatenate([self.ids.astype(object), other.ids.astype(object)])
        rest = {
            "offsets": np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]]),
            "masses": np.concatenate([self.masses, other.masses]),
            "totals": np.concatenate([self.totals, other.totals]),
            "_ids": ids,
        }
        if "_support" not in self.__dict__ or "_support" not in other.__dict__:
            return self._from_clean(points=np.concatenate([self.points, other.points]), **rest)
        if self._support is other._support:
            return self._from_clean(_support=self._support, _index=np.concatenate([self._index, other._index]), **rest)
        support = np.concatenate([self._support, other._support])
        index = np.concatenate([self._index, len(self._support) + other._index])
        return self._from_clean(_support=support, _index=index, **rest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Distributions):
            return NotImplemented
        mine = (self.points, self.offsets, self.masses, self.totals, self.ids)
        theirs = (other.points, other.offsets, other.masses, other.totals, other.ids)
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        sizes = self.sizes
        count = f"{len(self):,} distribution{'s' * (len(self) != 1)}"
        spread = f"{sizes.min():,}" if sizes.min() == sizes.max() else f"{sizes.min():,} to {sizes.max():,}"
        return (
            f"Distributions: {count} of {spread} points (mean {sizes.mean():.1f}, {self.offsets[-1]:,} in all) "
            f"in {self.dim} dimension{'s' * (self.dim != 1)}, {self.dtype}"
        )

    def _repr_html_(self) -> str:
        rows = [(self.ids[i], int(self.sizes[i]), float(self.totals[i])) for i in range(min(len(self), MOST_ROWS))]
        return page_of(repr(self), ("points", "total mass"), rows, len(self))

    # ------------------------------------------------------------------------------------------------ construction

    @classmethod
    def _taken(cls, points: FloatArray, offsets: Any, masses: Any, ids: Any) -> Distributions:
        """From points that were made for it."""
        new = cls.__new__(cls)
        new._build(points, offsets, masses, ids)
        return new

    @classmethod
    def _on_support(
        cls, support: FloatArray, index: NDArray[Any], offsets: Any, masses: Any, ids: Any, is_own: bool = False
    ) -> Distributions:
        """Over points (V, d) that many distributions share: point t of the collection is ``support[index[t]]``.

        ``is_own``: the masses were made for it, and are scaled in place.
        """
        checked = read_offsets(offsets, len(index), ids)
        names = read_ids(ids, len(checked) - 1)
        bad = ~np.asarray(np.isfinite(support).all(axis=1))
        if bad.any() and bad[index].any():
            check_finite(support[index], checked, names)
        scaled, totals = normalized(masses, checked, names, is_own)
        return cls._from_clean(
            _support=support, _index=index, offsets=checked, masses=scaled, totals=totals, _ids=names
        )

    @classmethod
    def _from_clean(cls, **parts: NDArray[Any] | None) -> Distributions:
        """From arrays that were validated and normalized before: masses stay bit for bit what they were."""
        new = cls.__new__(cls)
        new._set(**parts)
        return new

    def _replaced(self, **parts: NDArray[Any]) -> Distributions:
        """The same collection with other parts, which must be valid."""
        return self._from_clean(**{**self.__getstate__(), **parts})

    def _set(self, **parts: NDArray[Any] | None) -> None:
        for name, array in parts.items():
            self.__dict__[name] = None if array is None else frozen(array)

    def __getstate__(self) -> dict[str, Any]:
        lazy = "_support" in self.__dict__
        return {name: array for name, array in self.__dict__.items() if not (lazy and name == "points")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**state)  # what comes out of a pickle is writeable


def as_distributions(values: Any) -> Distributions:
    """A collection from a `Distributions`, or from a list whose entries are points or (points, masses) tuples.

    scikit-learn's splitters turn a collection into such a list, which is why estimators read one.
    """
    if isinstance(values, Distributions):
        return values
    hint = constructor_for(values)
    if hint is None and isinstance(values, (list, tuple)):
        return Distributions.from_list(values)
    raise TypeError(
        f"expected asot.Distributions or a list of point arrays (n_i, d); found {type(values).__name__}. "
        + (hint or "See Distributions.from_list, from_groups and from_weights")
    )


def read_both(D: Any, E: Any) -> tuple[Distributions, Distributions | None]:
    """One collection or two, which must share a space."""
    first = as_distributions(D)
    if E is None:
        return first, None
    if isinstance(D, (list, tuple)) and D and isinstance(E, (list, tuple)):
        E = with_equal_columns([D[0], *E])[1:]
    second = as_distributions(E)
    if first.dim != second.dim:
        raise ValueError(
            f"the two collections are in {first.dim} and {second.dim} dimensions; they must share one space"
        )
    return first, second


def check_mass(*collections: Distributions | None) -> None:
    """Refuse empty diagrams where all mass is matched."""
    for D in collections:
        if D is not None and not D.totals.all():
            raise ValueError(
                f"{D.label(int(np.argmin(D.totals)))} is an empty diagram: without mass it has distances only where "
                "unmatched points have a price; pass unmatched='diagonal', or leave it out"
            )


def trusted(points: FloatArray, offsets: Indices, masses: Float, totals: Float) -> Distributions:
    """A collection from arrays that were validated and normalized before, bit for bit, without ids.

    Points (n, d), offsets (N + 1,), masses (n,) of total 1 each, and the totals (N,) that they had.
    """
    return Distributions._from_clean(points=points, offsets=offsets, masses=masses, totals=totals, _ids=None)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view, which cannot be made writeable while its base is not."""
    if isinstance(array.base, np.ndarray) and not array.base.flags.writeable:
        return array  # it already is one
    array.flags.writeable = False
    return array.view()
