"""The anchor space: k anchors, the cost between them, and the map from any distribution to a histogram on them.

However the anchors were learned, this is what the rest of the package sees. It owns the shared cost, which is computed
once (docs/method.md §1).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.data.distributions import Distributions, check_mass
from asot.data.reading import stretches
from asot.native import Doubles, Floats, Int, Ints, Record, ShortInts, entry
from asot.run import devices
from asot.run.executors import in_stretches, in_threads
from asot.run.pairs import tiles
from asot.validation import FloatArray, as_cost, as_n_jobs, not_finite, to_float_array

WORTH_A_DEVICE = 10**10
"""Points × anchors × dimensions from which ``device="auto"`` encodes on a GPU: a CPU needs one to six seconds for them,
and a GPU about as long to start."""

POINTS_AT_A_TIME = 2**22
"""Points of which anchors are held at a time, where only histograms are wanted."""

_CHUNK = 256  # points whose distances to all anchors are in memory at a time, here and in C++
_WORTH_A_THREAD = 2**22  # coordinates of points times anchors, about a millisecond of work
_PIECE = 2**26  # coordinates of points times anchors that a thread looks at before it can be stopped


class PointsToAnchors(
    Record, d=Int, wide=Doubles, narrow=Floats, k=Int, exponent=Int, anchors=Doubles, index=Ints, distance=Doubles
):
    """Points, anchors, and where the nearest go (``native/anchors/nearest.cpp``)."""


_nearest_anchors = entry("nearest_anchors", PointsToAnchors, Int, Int)


class Assigned(NamedTuple):
    """Where the n points of a collection go."""

    nearest: NDArray[np.int64]  # (n,) anchors
    distance: NDArray[np.float64]  # (n,) to them


def radii_of(D: Distributions, assigned: Assigned) -> NDArray[np.float64]:
    """Mean distance (N,) of each distribution's points to their anchors."""
    return np.asarray(np.add.reduceat(D.masses * assigned.distance, D.offsets[:-1]))


class AnchorSpace:
    """Anchors with nearest-anchor codes and a shared cost.

    Parameters
    ----------
    anchors : array-like (k, d)
    cost : array-like (k, k), optional
        Cost between anchors; symmetric, ≥ 0, zero on the diagonal. Default: Euclidean distances.

    Attributes
    ----------
    anchors : (k, d) float64
    cost : (k, k) float64
    is_euclidean : bool
        Whether the cost is the Euclidean one, for which error bounds are proven.
    why_no_bounds : str or None
        Why there are no proven error bounds here, or None.

    Examples
    --------
    >>> import asot
    >>> space = asot.AnchorSpace([[0.0, 0.0], [3.0, 4.0]])
    >>> space.cost
    array([[0., 5.],
           [5., 0.]])
    >>> space.encode([[0.1, 0.0], [3.0, 3.9]])
    array([[1., 0.],
           [0., 1.]])
    >>> D = asot.Distributions.from_list([[[0.1, 0.0], [3.0, 3.9]], [[0.0, 0.2]]])
    >>> space.histograms(D)
    array([[0.5, 0.5],
           [1. , 0. ]])
    """

    def __init__(self, anchors: ArrayLike, cost: ArrayLike | None = None) -> None:
        array = np.array(to_float_array(anchors, "anchors"), dtype=np.float64)
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"anchors must be (k, d) with k, d ≥ 1; found shape {array.shape}")
        if odd := not_finite(array):
            raise ValueError(f"anchor {odd[0]} is {array[odd]} in coordinate {odd[1]}; anchors must be finite")
        self.anchors = array
        self.is_euclidean = cost is None
        self.why_no_bounds: str | None = None
        if cost is not None:
            self.why_no_bounds = (
                "for a given cost no bound is proven, because it does not say how far a point is from its anchor; use "
                "pairwise_exact, or a space with Euclidean costs"
            )
        self.cost = euclidean_cost(array) if cost is None else np.array(as_cost(cost, square=True))
        if len(self.cost) != len(array):
            raise ValueError(f"cost is for {len(self.cost)} anchors, but there are {len(array)}")
        self.anchors.flags.writeable = self.cost.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.anchors.flags.writeable = self.cost.flags.writeable = False  # what comes out of a pickle is writeable

    @property
    def n_anchors(self) -> int:
        return len(self.anchors)

    @property
    def dim(self) -> int:
        return int(self.anchors.shape[1])

    @property
    def proven(self) -> AnchorSpace:
        """The space that bounds and calibration use: this one, unless codes are soft."""
        return self

    def __repr__(self) -> str:
        kind = "Euclidean" if self.is_euclidean else "given"
        return (
            f"AnchorSpace: {self.n_anchors} anchors in {self.dim} dimensions, {kind} cost up to {self.cost.max():.4g}"
        )

    def assign(
        self, points: ArrayLike, *, device: str | None = "auto", n_jobs: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Nearest anchor of every point (n,), the first of equals, and the Euclidean distance to it (n,).

        ``device`` is where they are found: None or "cpu", "cuda" or "cuda:N" for a GPU through PyTorch, or "auto" for a
        GPU if there is one with enough memory and the job is large enough. Answers are the same, up to rounding.
        ``n_jobs`` is the number of threads on the CPU.
        """
        return self._assign(self._read_points(points), device, n_jobs)

    def _read_points(self, points: ArrayLike) -> FloatArray:
        array = to_float_array(points, "points", keep_float32=True)
        if array.ndim != 2 or array.shape[1] != self.dim:
            raise ValueError(f"points must be (n, {self.dim}) in this anchor space; found shape {array.shape}")
        if odd := not_finite(array):
            raise ValueError(f"point {odd[0]} is {array[odd]} in coordinate {odd[1]}; points must be finite")
        return array

    def _assign(
        self, points: FloatArray, device: str | None, n_jobs: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The same, for points (n, d) that are known to be finite. The CPU does it on request, or because a GPU would
        not pay off or, with "auto", has too little memory."""
        worth_it = len(points) * self.anchors.size >= WORTH_A_DEVICE
        torch_device = None if device is None else devices.torch_device(device, worth_it=worth_it)
        if torch_device is not None:
            from asot.anchors.nearest_torch import nearest

            try:
                return nearest(points, self.anchors, torch_device)
            except MemoryError:
                if device != "auto":
                    raise
        return _nearest_in_pieces(points, self.anchors, as_n_jobs(n_jobs))

    def encode(self, points: ArrayLike) -> NDArray[np.float64]:
        """Codes (n, k) of points (n, d): 1 at the nearest anchor."""
        index, _ = self.assign(points, device="cpu")
        codes = np.zeros((len(index), self.n_anchors))
        codes[np.arange(len(index)), index] = 1.0
        return codes

    def histograms(self, D: Distributions, *, device: str | None = "auto") -> NDArray[np.float64]:
        """Histograms (N, k) of a collection: each point gives its mass to its nearest anchor. Codes are not stored.

        ``device`` is where nearest anchors are found, as in `assign`.
        """
        check_mass(D)
        if D.vocabulary is not None or D.offsets[-1] <= POINTS_AT_A_TIME:
            return self.histograms_of(D, self.nearest_of(D, device=device)[0])
        histograms = np.empty((len(D), self.n_anchors))
        for low, high in stretches(D.offsets, POINTS_AT_A_TIME):
            part = D[low:high]
            histograms[low:high] = self.histograms_of(part, self.nearest_of(part, device=device)[0])
        return histograms

    def histograms_of(self, D: Distributions, nearest: NDArray[np.int64]) -> NDArray[np.float64]:
        """Histograms (N, k) of a collection whose points have the ``nearest`` anchors (n,)."""
        k = self.n_anchors
        cell = np.repeat(np.arange(len(D)) * k, D.sizes) + nearest
        histograms = np.bincount(cell, weights=D.masses, minlength=len(D) * k).reshape(len(D), k)
        return np.asarray(histograms / histograms.sum(axis=1, keepdims=True), dtype=np.float64)

    def radii(self, D: Distributions, *, device: str | None = "auto") -> NDArray[np.float64]:
        """r_x (N,): mean distance of each distribution's points to their anchors; it is W_1 to its own histogram.

        ``device`` is where nearest anchors are found, as in `assign`.
        """
        return radii_of(D, self.nearest_of(D, device=device))

    def cells(
        self,
        D: Distributions,
        coordinates: NDArray[np.float64] | None = None,
        nearest: NDArray[np.int64] | None = None,
        *,
        n_jobs: int | None = None,
    ) -> Cells:
        """Mass, mean and spread of each distribution's own points in the cell of every anchor it has mass at.

        ``coordinates`` (n, w) may replace the n points of the collection; means and spreads are then computed from
        them. ``nearest`` (n,) are their anchors, if they are already known. ``n_jobs`` is the number of threads.
        """
        index = self.nearest_of(D, device="cpu")[0] if nearest is None else nearest
        x = np.asarray(D.points if coordinates is None else coordinates, dtype=np.float64)
        jobs, k = as_n_jobs(n_jobs), self.n_anchors
        cells, fill = cells_to_fill(D, index, x, k, cell_offsets(D, index, k, jobs))
        in_stretches(D.offsets, fill, jobs)
        return cells

    def check_dim(self, D: Distributions) -> None:
        if D.dim != self.dim:
            raise ValueError(f"the collection is in {D.dim} dimensions, but the anchors are in {self.dim}")

    def nearest_of(self, D: Distributions, *, device: str | None = "auto", n_jobs: int | None = None) -> Assigned:
        """The anchors of all points of a collection; options as in `assign`.

        Histograms, radii and cells of a collection all begin with this. Whoever wants several of them finds it once and
        passes it on (`histograms_of`, `radii_of`, `cells`).
        """
        self.check_dim(D)
        if D.vocabulary is None:
            return Assigned(*self._assign(np.ascontiguousarray(D.points), device, n_jobs))
        support, index = D.vocabulary
        used, place = np.unique(index, return_inverse=True)
        nearest, distance = self._assign(support[used], device, n_jobs)  # every word once
        return Assigned(nearest[place], distance[place])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file (arrays and a JSON header); an existing file is only replaced by a complete one."""
        from asot.anchors.files import save_space

        save_space(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AnchorSpace:
        """Read what `save` wrote. Safe on files from strangers: nothing in them is executed."""
        from asot.anchors.files import load_space

        return load_space(path)


def euclidean_cost(anchors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean distances (k, k), computed from differences and safe at any scale."""
    from scipy.spatial.distance import cdist

    exponent = int(np.frexp(np.abs(anchors).max())[1])
    unit = np.ldexp(anchors, -exponent)
    with np.errstate(over="ignore"):
        cost = np.ldexp(cdist(unit, unit), exponent)
    if not np.isfinite(cost).all():
        raise ValueError("distances between anchors exceed the range of float64; scale the points down")
    return cost


def _nearest_in_pieces(
    points: FloatArray, anchors: NDArray[np.float64], n_jobs: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Nearest anchors and distances (n,), some milliseconds of work at a time, so that Ctrl-C is heard."""
    n, (k, d) = len(points), anchors.shape
    points = np.ascontiguousarray(points)
    exponent = int(np.frexp(np.abs(anchors).max())[1])
    wide = np.zeros(((d + 3) & ~3, (k + 7) & ~7))  # transposed, and padded as the kernel expects
    wide[:d, :k] = np.ldexp(anchors, -exponent).T
    index, distance = np.empty(n, dtype=np.int64), np.empty(n)
    shared = PointsToAnchors(
        d=d, k=k, exponent=exponent, anchors=wide, index=index, distance=distance,
        **{"narrow" if points.dtype == np.float32 else "wide": points},
    )  # fmt: skip
    n_jobs = max(1, min(n_jobs, n * anchors.size // _WORTH_A_THREAD))
    even = -(-n // n_jobs)
    pieces = list(tiles(n, max(_CHUNK, min(even, _PIECE // max(1, anchors.size)))))
    if len(pieces) <= 1:  # to start a thread would take longer
        _nearest_anchors(shared, 0, n)
    else:
        in_threads(lambda part, _: _nearest_anchors(shared, *part), pieces, n_jobs)
    return index, distance


# Cells are what every distribution has near each anchor: two passes over its points, in compiled code. The first counts
# them, the second adds up what is in them. Distributions do not know of each other, so threads take stretches of them,
# and answers do not depend on how many there are.


class PointsAtAnchors(Record, offsets=Ints, nearest=Ints, masses=Doubles, k=Int, width=Int, x=Doubles):
    """Points of distributions, with the anchors that they are near (``native/anchors/cell_means.cpp``)."""


class CellsOut(Record, offsets=Ints, anchor=ShortInts, mass=Doubles, mean=Doubles, variance=Doubles):
    """Where cells go (``native/anchors/cell_means.cpp``)."""


_count_cells = entry("count_cells", PointsAtAnchors, CellsOut, Int, Int)
_fill_cells = entry("fill_cells", PointsAtAnchors, CellsOut, Int, Int)


class Cells(NamedTuple):
    """Summaries of every distribution near each anchor: the cells of distribution i are ``offsets[i]:offsets[i +
    1]``."""

    offsets: NDArray[np.int64]  # (N + 1,)
    anchor: NDArray[np.int32]  # (cells,) ascending within a distribution
    mass: NDArray[np.float64]  # (cells,)
    mean: NDArray[np.float64]  # (cells, w) mean of the distribution's own points there
    variance: NDArray[np.float64]  # (cells,) mean squared distance of these points from their mean


def cell_offsets(D: Distributions, nearest: NDArray[np.int64], n_anchors: int, n_jobs: int) -> NDArray[np.int64]:
    """Where the cells of each distribution begin (N + 1,), which does not depend on coordinates."""
    counts = np.zeros(len(D) + 1, dtype=np.int64)
    points = PointsAtAnchors(offsets=D.offsets, nearest=nearest, masses=D.masses, k=n_anchors, width=0)
    counted = CellsOut(offsets=counts)
    in_stretches(D.offsets, lambda low, high: _count_cells(points, counted, low, high), n_jobs)
    return np.cumsum(counts)


def cells_to_fill(
    D: Distributions, nearest: NDArray[np.int64], x: NDArray[np.float64], n_anchors: int, offsets: NDArray[np.int64]
) -> tuple[Cells, Callable[[int, int], object]]:
    """Cells without content, and a function that fills those of a range of distributions."""
    n_cells = int(offsets[-1])
    anchor = np.empty(n_cells, dtype=np.int32)
    mass, variance, mean = np.empty(n_cells), np.empty(n_cells), np.empty((n_cells, x.shape[1]))
    cells = Cells(offsets, anchor, mass, mean, variance)
    points = PointsAtAnchors(
        offsets=D.offsets, nearest=nearest, masses=D.masses, k=n_anchors, width=x.shape[1], x=np.ascontiguousarray(x)
    )  # fmt: skip
    out = CellsOut(**cells._asdict())
    return cells, lambda low, high: _fill_cells(points, out, low, high)
