"""Results: distances in pair order, with a status for each and a record of how they were computed."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Identity, Indices, Info
from asot.data.notebook import MOST_ROWS, page_of
from asot.results.frames import distances_frame
from asot.results.model import NO_MODEL, ModelBase
from asot.results.neighbors import Neighbors
from asot.results.plans import Plans
from asot.run.engine import Resources
from asot.run.executors import ProgressLike
from asot.run.pairs import AllPairs, ListedPairs, PairSet
from asot.run.protocols import Sink, Status

Later = tuple[Callable[..., Info], tuple[Any, ...]]
"""A function that makes fields of a result, and what it is given."""


_new = object.__new__


def nothing() -> None:
    """The default of fields that are no attributes of the class, so that `Distances.quickly` can leave them out."""


@dataclass(frozen=True, eq=False)
class Distances:
    """Distances of a set of pairs.

    Attributes
    ----------
    values : (P,) float64
        In pair order: scipy's condensed order for all pairs of one set, row-major for two sets, as given for a list.
    status : (P,) int8
        `Status` of every pair.
    n_iter : (P,) int32
        Simplex pivots or steps of an assignment (exact), or iterations (entropic) of every pair.
    marginal_error : (P,) float64 or None
        Entropic only: how far, in total mass, the plan's row sums are from the first histogram.
    lower, upper : (P,) float64 or None
        Bounds on the distance between the original distributions, if you asked for them.
    error : (P,) float64 or None
        Calibrated estimates: the expected error, as a standard deviation; measured, not proven. Gromov–Wasserstein
        distances of plans: how far the two starts disagree.
    plans : Plans or None
        Optimal plans and potentials, if you asked for them.
    info : dict
        What the numbers are: metric, solver, device, precision, reg, anchors, seconds, …
    ids, ids_columns : (N,), (M,)
        Names of the rows and of the columns: those of the collections, or 0, 1, 2, …
    sizes : (N,) int64 or None
        Points of the distributions of the rows, where that is known.
    model : Model or None
        What the distances were made with, for `extend` and ``asot.pairwise(new, old, model=r.model)``.

    ``np.asarray(r)`` is ``r.matrix()``, so that SciPy and scikit-learn read it as a matrix of distances.

    Examples
    --------
    >>> import numpy as np, asot
    >>> r = asot.emd_many(np.eye(3), cost=1.0 - np.eye(3))
    >>> r.values
    array([1., 1., 1.])
    >>> r.matrix()
    array([[0., 1., 1.],
           [1., 0., 1.],
           [1., 1., 0.]])
    """

    values: Float
    status: NDArray[np.int8]
    n_iter: NDArray[np.int32]
    pair_set: PairSet = field(repr=False)
    marginal_error: Float | None = None
    lower: Float | None = None
    upper: Float | None = None
    plans: Plans | None = field(default=None, repr=False)
    info: Info = field(default_factory=dict)
    error: Float | None = None
    names: tuple[NDArray[Any] | None, NDArray[Any] | None] = field(default_factory=lambda: (None, None), repr=False)
    checked: bool = field(default=False, repr=False)
    offsets: Indices | None = field(default_factory=nothing, repr=False)  # (N + 1,) of the rows' collection
    model: ModelBase | None = field(default_factory=nothing, repr=False)

    def __post_init__(self) -> None:
        if self.checked:  # by the GPU, or before this copy was made; millions of values take a while to read
            return
        if len(self.values) and np.isnan(self.values.min()):
            row, column = self.pairs[int(np.argmax(np.isnan(self.values)))]
            raise ArithmeticError(f"the distance of the pair ({row}, {column}) is not a number; please report this")
        object.__setattr__(self, "checked", True)

    @classmethod
    def quickly(cls, values: Float, later: tuple[Later, ...]) -> Distances:
        """A result whose other fields without a plain default are made ``later``, when first asked for: making them
        takes longer than solving a small pair."""
        self = _new(cls)
        own = self.__dict__
        own["values"] = values
        own["_later"] = later
        if len(values) > 64 or math.isnan(sum(values.tolist())):  # far quicker than NumPy for a few numbers
            self.__post_init__()
        return self

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if not name.startswith("__"):
            for make, given in own.get("_later", ()):
                for key, value in make(*given).items():
                    own.setdefault(key, value)
            own.pop("_later", None)
            if name in own:
                return own[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        _ = self.info  # makes what is still to be made
        return self.__dict__

    @property
    def ids(self) -> NDArray[Any]:
        """Names of the rows (N,)."""
        return np.arange(self.pair_set.n_rows) if self.names[0] is None else self.names[0]

    @property
    def ids_columns(self) -> NDArray[Any]:
        """Names of the columns (M,): those of the rows within one collection."""
        if self.pair_set.symmetric:
            return self.ids
        return np.arange(self.pair_set.n_columns) if self.names[1] is None else self.names[1]

    @property
    def sizes(self) -> Indices | None:
        """How many points the distributions of the rows have (N,), where that is known."""
        return None if self.offsets is None else np.diff(self.offsets)

    @property
    def pairs(self) -> Indices:
        """The pairs themselves (P, 2), in the order of `values`."""
        if isinstance(self.pair_set, ListedPairs):
            return self.pair_set.pairs
        if len(self.pair_set) == 0:
            return np.empty((0, 2), dtype=np.int64)
        return np.stack(self.pair_set.indices(0, len(self.pair_set)), axis=1)

    def matrix(self) -> Float:
        """(N, N) symmetric with zero diagonal for all pairs of one set, (N, M) for two sets."""
        shape = (self.pair_set.n_rows, self.pair_set.n_columns)
        if isinstance(self.pair_set, ListedPairs):
            raise ValueError(f"a list of {len(self)} pairs does not fill a matrix; use .values with .pairs")
        if isinstance(self.pair_set, AllPairs):
            from scipy.spatial.distance import squareform

            return squareform(self.values, checks=False) if len(self) else np.zeros(shape)
        return self.values.reshape(shape).copy()

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of `matrix()`: (N, N) or (N, M). With it, scikit-learn counts distributions and not pairs."""
        return self.pair_set.n_rows, self.pair_set.n_columns

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("the matrix of distances is computed on request, so copy=False is not possible")
        return np.asarray(self.matrix(), dtype=dtype)

    def to_frame(self, form: str = "square") -> Any:
        """A pandas DataFrame with the ids: "square", the labeled matrix, or "long", one row per pair.

        The long form has the columns id_i, id_j, distance, and lower, upper and error if you asked for them.

        >>> import asot
        >>> D = asot.Distributions.from_list([[[0.0]], [[3.0]]], ids=["eve", "adam"])
        >>> asot.pairwise_exact(D).to_frame()
              eve  adam
        eve   0.0   3.0
        adam  3.0   0.0
        """
        return distances_frame(self, form)

    def above_noise(self, noise: Any = None) -> Distances:
        """The distances less what finite samples alone make of them, √(d² − noise²), and 0 where that is all.

        ``noise`` is ``asot.noise_floor(D)``, or an array (N, N). Bounds are left out; errors stay.

        >>> import numpy as np, asot
        >>> rng = np.random.default_rng(0)
        >>> D = asot.Distributions.from_list([rng.normal(size=(100, 5)) + x for x in np.eye(5)[[0, 0, 1]]])
        >>> r = asot.pairwise_exact(D)
        >>> r.values.round(1), r.above_noise(asot.noise_floor(D)).values.round(1)  # truly 0, √2 and √2
        (array([1.3, 1.9, 1.9]), array([0. , 1.3, 1.3]))
        """
        from asot.results.noise import above_noise

        return above_noise(self, noise)

    def to_anndata(self, obs: Any = None, n_neighbors: int = 15) -> Any:
        """An AnnData with the distributions as observations, ready for scanpy: distances, neighbors and ``info``.

        See `asot.results.anndata.distances_to_anndata` for what is where. ``obs`` is a data frame with the ids as
        its index.
        """
        from asot.results.anndata import distances_to_anndata

        return distances_to_anndata(self, obs, n_neighbors)

    def extend(
        self,
        new: Any,
        *,
        n_jobs: int | None = None,
        memory: int | str | None = None,
        progress: ProgressLike = None,
        sink: Sink[Any] | None = None,
    ) -> Any:
        """Distances over the old distributions and ``new`` ones behind them; only pairs with new ones are computed.

        They are computed as the old ones were: exactly, or with the anchors and the fit of `model`. Old pairs keep
        their values, errors and bounds, bit for bit. Between two collections, ``new`` are further rows. If no
        distribution has an id, numbers go on; otherwise, every new id must be new. Pairs are solved on the CPU.

        >>> import asot
        >>> r = asot.pairwise_exact(asot.Distributions.from_list([[[0.0]], [[3.0]]], ids=["eve", "adam"]))
        >>> r.extend(asot.Distributions.from_list([[[1.0]]], ids=["seth"])).to_frame()
              eve  adam  seth
        eve   0.0   3.0   1.0
        adam  3.0   0.0   2.0
        seth  1.0   2.0   0.0
        """
        if self.model is None:
            raise ValueError(NO_MODEL)
        return self.model.extend(self, new, Resources(n_jobs, memory, progress), sink)

    def identity(self) -> Identity:
        """For a store into which it grows: what it is."""
        return {"values": self.values}

    def at(self, rows: Indices, columns: Indices, field: str = "values") -> NDArray[Any]:
        """The values, or another field, of some of all pairs (P,); rows come before columns within one collection."""
        pairs = self.pair_set
        if isinstance(pairs, ListedPairs):
            raise ValueError("a list of pairs has no rows; use .values with .pairs")
        place = rows * pairs.n_columns + columns
        if isinstance(pairs, AllPairs):
            place = pairs.row_start(rows) + columns - rows - 1
        return getattr(self, field)[place]

    def save(self, path: str | os.PathLike[str], *, collection: bool = True) -> None:
        """Write to a file: ``.npz`` keeps everything, ``.npy`` the matrix, ``.csv`` one line per pair.

        `asot.load_distances` reads it back. An ``.npz`` file can be extended later, so it also has the points of the
        collection; ``collection=False`` leaves them out.
        """
        from asot.results.files import save_distances

        save_distances(self, path, collection=collection)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        if len(self) == 0:
            return "Distances: no pairs"
        unfinished = int(np.count_nonzero(self.status == Status.MAX_ITER))
        tail = f"; {unfinished:,} not converged" if unfinished else ""
        return (
            f"Distances: {len(self):,} pairs, {self.values.min():.4g} to {self.values.max():.4g} "
            f"(mean {self.values.mean():.4g}), {self._how()}{tail}"
        )

    def _repr_html_(self) -> str:
        if not isinstance(self.pair_set, AllPairs) or len(self) == 0:
            return page_of(repr(self))
        n = min(self.shape[0], MOST_ROWS)
        square = self.matrix()[:n, :n]
        return page_of(
            repr(self), self.ids[:n].tolist(), [(self.ids[i], *square[i].tolist()) for i in range(n)], self.shape[0]
        )

    def _how(self) -> str:
        """What the numbers are, and how wrong they may be."""
        report = self.info.get("calibration")
        if report is not None:
            off = 100 * report["held_out_relative"]
            low, high = (100 * end / (report["mean_distance"] or 1.0) for end in report["held_out_rmse_interval"])
            anchors = f", {self.info['n_anchors']} anchors" if "n_anchors" in self.info else ""
            return f"{off:.2g} % rms error ({low:.2g} to {high:.2g} %){anchors}, calibrated"
        if self.info.get("estimate") == "exact":
            return "exact"
        if self.info.get("estimate") == "anchor" and self.info.get("reg") is None:
            most = self.info.get("max_error")
            off = "error not measured" if most is None else f"no value more than {most} off"
            return f"on {self.info.get('n_anchors', '?')} anchors, {off}"
        return str(self.info.get("solver", "unknown solver"))


class StoredResult(ABC):
    """A result on disk: what a call knows besides is written there."""

    @abstractmethod
    def keep_names(self, rows: NDArray[Any], columns: NDArray[Any]) -> None: ...

    @abstractmethod
    def keep_model(self, model: ModelBase) -> None: ...


def named(
    result: Any,
    rows: NDArray[Any] | None,
    columns: NDArray[Any] | None,
    offsets: Indices | None = None,
    model: ModelBase | None = None,
) -> Any:
    """A result that knows its names, offsets and, if not known yet, model; what a user's own sink returned stays."""
    if isinstance(result, Distances):
        return replace(result, names=(rows, columns), offsets=offsets, model=result.model if model is None else model)
    if isinstance(result, Neighbors):
        return replace(result, names=(rows, columns))
    if isinstance(result, StoredResult) and rows is not None and columns is not None:
        result.keep_names(rows, columns)
    return result if model is None else with_model(result, model)


def with_model(result: Any, model: ModelBase) -> Any:
    """A result, or a store, that knows what it was made with; what a user's own sink returned stays as it is."""
    if isinstance(result, Distances):
        return replace(result, model=model)
    if isinstance(result, StoredResult):
        result.keep_model(model)
    return result
