"""One ragged form for every kind of collection.

A collection of N distributions is three flat arrays: all points one after the other, the offsets where each
distribution begins, and a mass for every point. No padding, no Python object per distribution, no copy when a library
already keeps its data this way. All validation of points and masses happens here, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.validation import FloatArray, first_false, to_array, to_float_array


class Distributions:
    """A collection of distributions of any sizes on points of one dimension.

    Parameters
    ----------
    points : array-like (n, d)
        The points of all distributions, one distribution after the other. float32 stays float32.
    offsets : array-like of int (N + 1,)
        Distribution i owns the points ``offsets[i]:offsets[i + 1]``; starts at 0, ends at n, strictly increasing.
    masses : array-like (n,), optional
        Mass of every point, ≥ 0. Each distribution is scaled to total 1; what it had is kept in `totals`. Without
        masses every point of a distribution weighs the same.
    ids : sequence of length N, optional
        Names, used in messages and kept through slicing.

    Attributes
    ----------
    points : (n, d) float32 or float64
    offsets : (N + 1,) int64
    masses : (n,) float64, summing to 1 within every distribution
    totals : (N,) float64, the totals before scaling (1 where no masses were given)

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

    def __init__(
        self,
        points: ArrayLike,
        offsets: ArrayLike,
        masses: ArrayLike | None = None,
        ids: Sequence[Any] | NDArray[Any] | None = None,
    ) -> None:
        self.points = _read_points(points)
        self.offsets = _read_offsets(offsets, len(self.points), ids)
        self._ids = _read_ids(ids, len(self.offsets) - 1)
        self._check_finite()
        self.masses, self.totals = self._normalise(masses)
        self._freeze()

    # ------------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_list(
        cls, arrays: Sequence[Any], masses: Sequence[Any] | None = None, ids: Sequence[Any] | None = None
    ) -> Distributions:
        """From a list of point arrays (n_i, d), and optionally a list of mass arrays (n_i,).

        >>> import asot
        >>> D = asot.Distributions.from_list([[[0, 0], [1, 1]], [[2, 2]]], ids=["left", "right"])
        >>> D.sizes
        array([2, 1])
        """
        blocks = [to_float_array(a, f"distribution {i}", keep_float32=True) for i, a in enumerate(arrays)]
        if not blocks:
            raise ValueError("the collection is empty: from_list needs at least one distribution")
        names = [_label(i, ids) for i in range(len(blocks))]
        for i, block in enumerate(blocks):
            if block.ndim != 2:
                hint = "; use x[:, None] for points on a line" if block.ndim == 1 else ""
                raise ValueError(f"{names[i]} must be points (n, d); found shape {block.shape}{hint}")
            if len(block) == 0:
                raise ValueError(f"{names[i]} is empty; drop it, a distribution needs at least one point")
            if block.shape[1] != blocks[0].shape[1]:
                raise ValueError(
                    f"{names[i]} has points of {block.shape[1]} dimensions, but {names[0]} of {blocks[0].shape[1]}; "
                    "all distributions must share one space"
                )
        offsets = np.cumsum([0, *(len(block) for block in blocks)])
        flat_masses = None
        if masses is not None:
            if len(masses) != len(blocks):
                raise ValueError(f"masses has {len(masses)} entries for {len(blocks)} distributions")
            parts = [to_float_array(m, f"the masses of {names[i]}") for i, m in enumerate(masses)]
            for i, part in enumerate(parts):
                if part.shape != (len(blocks[i]),):
                    raise ValueError(f"{names[i]} has {len(blocks[i])} points but masses of shape {part.shape}")
            flat_masses = np.concatenate(parts)
        return cls(np.concatenate(blocks), offsets, flat_masses, ids)

    @classmethod
    def from_groups(cls, points: ArrayLike, labels: ArrayLike, masses: ArrayLike | None = None) -> Distributions:
        """From points (n, d) and one label per point: points with equal labels form a distribution.

        Distributions are ordered by label and carry it as their id; points keep their order.

        >>> import asot
        >>> D = asot.Distributions.from_groups([[0.0], [5.0], [1.0]], ["b", "a", "b"])
        >>> D.ids
        array(['a', 'b'], dtype='<U1')
        >>> D.sizes
        array([1, 2])
        """
        flat = _read_points(points)
        names = to_array(labels, "labels")
        if names.shape != (len(flat),):
            raise ValueError(
                f"labels must hold one label for each of the {len(flat)} points; found shape {names.shape}"
            )
        missing = names != names  # NaN and NaT
        if np.any(missing):
            raise ValueError(f"label {int(np.argmax(missing))} is missing ({names[missing][0]}); every point needs one")
        try:
            unique, group = np.unique(names, return_inverse=True)
        except TypeError as error:
            raise ValueError(f"labels cannot be ordered: {error}; make them all text or all numbers") from error
        offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=len(unique)))])
        if masses is not None:
            masses = _read_masses(masses, len(flat))
        if np.any(group[1:] < group[:-1]):
            order = np.argsort(group, kind="stable")
            flat = flat[order]
            masses = None if masses is None else masses[order]
        return cls(flat, offsets, masses, unique)

    @classmethod
    def from_weights(cls, weights: Any, support: ArrayLike) -> Distributions:
        """From weights (N, V), dense or scipy.sparse, over a shared vocabulary of points (V, d).

        Only the points a distribution gives weight to are kept.

        >>> import numpy as np, asot
        >>> D = asot.Distributions.from_weights(np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), np.eye(3))
        >>> D.sizes, D.totals
        (array([2, 1]), array([4., 2.]))
        """
        from scipy import sparse

        vocabulary = _read_points(support)
        if not sparse.issparse(weights):
            weights = to_float_array(weights, "weights")
            if weights.ndim != 2:
                raise ValueError(f"weights must be (N, V); found shape {weights.shape}")
        table = sparse.csr_array(weights, dtype=np.float64, copy=True)  # tidied in place below
        if table.shape[1] != len(vocabulary):
            raise ValueError(f"weights are over {table.shape[1]} points, but the support has {len(vocabulary)}")
        table.sum_duplicates()
        table.eliminate_zeros()
        if np.any(np.diff(table.indptr) == 0):
            i = int(np.argmin(np.diff(table.indptr)))
            raise ValueError(f"distribution {i} has zero total mass; drop row {i} of the weights")
        return cls(vocabulary[table.indices], table.indptr, table.data)

    # ------------------------------------------------------------------------------------------------ what it holds

    @property
    def dim(self) -> int:
        """Dimension d of the points."""
        return int(self.points.shape[1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of points of every distribution (N,)."""
        return np.diff(self.offsets)

    @property
    def ids(self) -> NDArray[Any]:
        """Names (N,): as given, or 0..N-1."""
        return np.arange(len(self)) if self._ids is None else self._ids

    def label(self, i: int) -> str:
        """How messages call distribution i."""
        return _label(i, self._ids)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[tuple[FloatArray, NDArray[np.float64]]]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, key: int | np.integer[Any]) -> tuple[FloatArray, NDArray[np.float64]]: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | NDArray[Any]) -> Distributions: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_)):
            i = int(key) + len(self) if key < 0 else int(key)
            if not 0 <= i < len(self):
                raise IndexError(f"distribution {key} of a collection of {len(self)}")
            own = slice(self.offsets[i], self.offsets[i + 1])
            return self.points[own], self.masses[own]
        return self._select(np.arange(len(self))[key])

    def _select(self, chosen: NDArray[np.int64]) -> Distributions:
        """The distributions ``chosen`` (indices, in that order, repeats allowed)."""
        if chosen.ndim != 1 or len(chosen) == 0:
            raise ValueError("the selection is empty: a collection needs at least one distribution")
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        ids = None if self._ids is None else self._ids[chosen]
        return self._from_clean(self.points[rows], offsets, self.masses[rows], self.totals[chosen], ids)

    def __add__(self, other: Distributions) -> Distributions:
        if not isinstance(other, Distributions):
            return NotImplemented
        if self.dim != other.dim:
            raise ValueError(f"cannot join collections in {self.dim} and {other.dim} dimensions")
        ids = None
        if self._ids is not None or other._ids is not None:
            ids = np.concatenate([self.ids.astype(object), other.ids.astype(object)])
        return self._from_clean(
            np.concatenate([self.points, other.points]),
            np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]]),
            np.concatenate([self.masses, other.masses]),
            np.concatenate([self.totals, other.totals]),
            ids,
        )

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
            f"Distributions: {count} of {spread} points (mean {sizes.mean():.1f}, {len(self.points):,} in all) "
            f"in {self.dim} dimension{'s' * (self.dim != 1)}, {self.points.dtype}"
        )

    # ------------------------------------------------------------------------------------------------ construction

    @classmethod
    def _from_clean(
        cls,
        points: FloatArray,
        offsets: NDArray[np.int64],
        masses: NDArray[np.float64],
        totals: NDArray[np.float64],
        ids: NDArray[Any] | None,
    ) -> Distributions:
        """From arrays that were validated and normalised before: masses stay bit for bit what they were."""
        new = cls.__new__(cls)
        new.points, new.offsets, new.masses, new.totals, new._ids = points, offsets, masses, totals, ids
        new._freeze()
        return new

    def _freeze(self) -> None:
        for array in (self.points, self.offsets, self.masses, self.totals, self._ids):
            if array is not None:
                array.flags.writeable = False

    def _owner(self, point: int) -> tuple[str, int]:
        """Name of the distribution that owns a point, and the point's place in it."""
        i = int(np.searchsorted(self.offsets, point, side="right")) - 1
        return self.label(i), point - int(self.offsets[i])

    def _check_finite(self) -> None:
        finite = np.isfinite(self.points)
        if not finite.all():
            row, column = first_false(finite)
            name, place = self._owner(row)
            raise ValueError(
                f"{name} has the coordinate {self.points[row, column]} at point {place}, column {column}; "
                "points must be finite: drop or impute it"
            )

    def _normalise(self, masses: ArrayLike | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Masses scaled to total 1 in every distribution, and the totals they had."""
        sizes = self.sizes
        if masses is None:
            return np.repeat(1.0 / sizes, sizes), np.ones(len(self))
        given = _read_masses(masses, len(self.points))
        finite = np.isfinite(given)
        if not finite.all():
            name, place = self._owner(first_false(finite)[0])
            raise ValueError(
                f"{name} has the mass {given[first_false(finite)]} at point {place}; masses must be finite"
            )
        if given.min() < 0:
            row = first_false(given >= 0)[0]
            name, place = self._owner(row)
            raise ValueError(f"{name} has a negative mass ({given[row]:g} at point {place}); masses must be ≥ 0")
        starts = self.offsets[:-1]
        peaks = np.maximum.reduceat(given, starts)
        if not peaks.all():
            raise ValueError(f"{self.label(int(np.argmin(peaks)))} has zero total mass; drop it or give it mass")
        scaled = given / np.repeat(peaks, sizes)  # first, so that the total neither overflows nor vanishes
        totals = np.add.reduceat(scaled, starts)
        with np.errstate(over="ignore"):  # a total beyond float64 is told as inf
            return scaled / np.repeat(totals, sizes), peaks * totals


def as_distributions(values: Any) -> Distributions:
    """A collection from a `Distributions`, or from a list whose entries are points or (points, masses) tuples.

    scikit-learn's splitters turn a collection into such a list, which is why estimators read one.
    """
    if isinstance(values, Distributions):
        return values
    if isinstance(values, (list, tuple)) and values:
        if all(isinstance(entry, tuple) and len(entry) == 2 for entry in values):
            return Distributions.from_list([p for p, _ in values], [m for _, m in values])
        return Distributions.from_list(values)
    raise TypeError(
        f"expected asot.Distributions or a list of point arrays (n_i, d); found {type(values).__name__}. "
        "See Distributions.from_list, from_groups and from_weights"
    )


def _label(i: int, ids: Any) -> str:
    if ids is None or i >= len(ids):
        return f"distribution {i}"
    name = getattr(ids, "iloc", ids)[i]  # a pandas column is asked for its place, not for its index
    return f"distribution {i} ({str(name)!r})"


def _read_points(points: Any) -> FloatArray:
    array = to_float_array(points, "points", keep_float32=True)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"points must be (n, d) with d ≥ 1; found shape {array.shape}")
    return array.view()  # a view of our own: making it read-only leaves the caller's array as it was


def _read_masses(masses: Any, n_points: int) -> NDArray[np.float64]:
    array = np.asarray(to_float_array(masses, "masses"), dtype=np.float64)
    if array.shape != (n_points,):
        raise ValueError(f"masses must hold one mass for each of the {n_points} points; found shape {array.shape}")
    return array


def _read_offsets(offsets: Any, n_points: int, ids: Any = None) -> NDArray[np.int64]:
    array = to_array(offsets, "offsets")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"offsets must be integers (N + 1,); found {array.dtype} of shape {array.shape}")
    array = array.astype(np.int64)
    if len(array) < 2:
        raise ValueError("the collection is empty: offsets must hold at least two numbers, 0 and the number of points")
    if array[0] != 0 or array[-1] != n_points:
        raise ValueError(
            f"offsets must start at 0 and end at the number of points, {n_points}; found {array[0]} and {array[-1]}"
        )
    steps = np.diff(array)
    if steps.min() < 0:
        i = int(np.argmax(steps < 0))
        raise ValueError(f"offsets must increase, but offsets[{i + 1}] = {array[i + 1]} follows {array[i]}")
    if steps.min() == 0:
        raise ValueError(
            f"{_label(int(np.argmin(steps)), ids)} is empty; drop it, a distribution needs at least one point"
        )
    return array


def _read_ids(ids: Any, n: int) -> NDArray[Any] | None:
    if ids is None:
        return None
    array = to_array(ids, "ids")
    if array.ndim != 1:  # ids that are tuples stay whole
        array = np.empty(len(ids), dtype=object)
        array[:] = list(ids)
    if len(array) != n:
        raise ValueError(f"ids must name each of the {n} distributions; found {len(array)}")
    return array.view()
