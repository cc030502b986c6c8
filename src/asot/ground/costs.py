"""All ground costs: metrics with their own kernels, functions of those, and tables.

The kernels of `asot.ground.metrics` cover norms and metrics that count coordinates. Three more costs are functions of
the Euclidean distance of prepared points (the squared one, cosine, angles). All others (any name of SciPy or
scikit-learn, a function, a matrix) become a table over the distinct points of the collection.

Each cost says whether it is *proven* to be a metric. Mass that two distributions have on the same point may stay there
only if it is; everything else is solved without that shortcut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from asot._typing import Float, Identity, Indices, Parameters
from asot.ground.metrics import KERNELS, Ground, prepare_metric, refuse_parameters
from asot.native import Double, Doubles, Int, Record, entry
from asot.validation import FloatArray, to_float_array

PLAIN, SQUARE, HALF_SQUARE, ARC = range(4)
"""What is taken of a Euclidean distance e: e, e², e²/2, or the angle 2 arcsin(e/2) between unit vectors.

Where vectors are nearly opposite, the angle is not taken from e alone, whose last digit would change eight of it.
"""

MOST_CHECKED = 64
"""Points of a table whose triangles are checked: a few hundred thousand."""

Metric = str | Callable[[Any, Any], float]

_LARGEST_EXPONENT = 1023
_NO_TABLE = np.empty((0, 0))


class DistanceBlock(Record, code=Int, order=Double, p=Int, stride=Int, width=Int, x=Doubles, y=Doubles, out=Doubles):
    """Points whose distances are wanted (``native/ground/metrics.cpp``)."""


_fill_distances = entry("fill_distances", DistanceBlock)


@dataclass(frozen=True)
class GroundCost:
    """A cost prepared for V points: ``scale`` times what its kernel or table says."""

    name: str
    is_metric: bool
    """Proven to be one."""
    ground: Ground
    transform: int
    scale: float
    table: Float  # (V, V), at most 1; (0, 0) where there is a kernel

    def identity(self) -> Identity:
        """All that costs depend on. A user's function is known by its table: by what it computes."""
        return {
            "name": self.name,
            "is_metric": self.is_metric,
            "ground": self.ground.identity(),
            "transform": self.transform,
            "scale": self.scale,
            "table": self.table,
        }

    @property
    def has_table(self) -> bool:
        return len(self.table) > 0

    @property
    def is_plain(self) -> bool:
        """Whether `Ground` alone describes it, as every part of the package understands it."""
        return self.transform == PLAIN and not self.has_table


def prepare_cost(
    points: FloatArray, metric: Metric, parameters: Parameters | None = None, memory: int = 2**30
) -> GroundCost:
    """Read ``metric`` and ``metric_params`` for some distinct points (V, d); ``memory`` bounds a table."""
    if isinstance(metric, str) and metric in KERNELS:
        ground = prepare_metric(points, metric, parameters)
        return GroundCost(metric, True, ground, PLAIN, _scale_of(ground, metric), _NO_TABLE)
    given = dict(parameters or {})
    if metric == "sqeuclidean":
        refuse_parameters(metric, given)
        ground = prepare_metric(points, "euclidean")
        return GroundCost(metric, False, ground, SQUARE, _scale_of(ground, metric, 2), _NO_TABLE)
    if metric in ("cosine", "angular"):
        refuse_parameters(metric, given)
        ground = prepare_metric(_unit_vectors(points, metric), "euclidean")
        return _on_sphere(metric, ground, HALF_SQUARE if metric == "cosine" else ARC, 1.0)
    if metric in ("haversine", "great_circle"):
        radius = float(given.pop("radius", 1.0))
        refuse_parameters(metric, given)
        if not 0 < radius < np.inf:
            raise ValueError(f"metric {metric!r} needs a positive radius; found {radius!r}")
        return _on_sphere(metric, prepare_metric(_on_globe(points, metric), "euclidean"), ARC, radius)
    return _tabulated(points, metric, given, memory)


def _scale_of(ground: Ground, metric: str, power: int = 1) -> float:
    """What costs of the scaled points are multiplied with."""
    if power * ground.exponent > _LARGEST_EXPONENT:
        raise ValueError(
            f"points reach {np.ldexp(np.abs(ground.points).max(), ground.exponent):.3g}, too far for distances under "
            f"{metric!r} to be numbers; scale them down"
        )
    return 2.0 ** (power * ground.exponent)


def _on_sphere(name: str, ground: Ground, transform: int, scale: float) -> GroundCost:
    """Unit vectors have coordinates of at most 1, whose exponent is 0 or 1: undo it, since angles have no scale."""
    ground = Ground(np.ldexp(ground.points, ground.exponent), ground.code, ground.order, 0, name)
    return GroundCost(name, transform == ARC, ground, transform, scale, _NO_TABLE)


def _unit_vectors(points: FloatArray, metric: str) -> Float:
    x = np.array(points, dtype=np.float64)
    peak = np.maximum(x.max(axis=1, keepdims=True), -x.min(axis=1, keepdims=True))
    if not peak.all():
        raise ValueError(f"metric {metric!r} compares directions, and a point at the origin has none; drop such points")
    x /= peak
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x


def _on_globe(points: FloatArray, metric: str) -> Float:
    """Unit vectors of (latitude, longitude) in radians."""
    if points.shape[1] != 2:
        raise ValueError(
            f"metric {metric!r} reads (latitude, longitude) in radians; points have {points.shape[1]} columns"
        )
    latitude, longitude = np.asarray(points, dtype=np.float64).T
    if np.abs(latitude).max() > np.pi / 2 + 1e-9:
        raise ValueError(
            f"metric {metric!r} reads (latitude, longitude) in radians; found the latitude "
            f"{float(np.abs(latitude).max()):.6g}, more than π/2: convert degrees with np.radians"
        )
    level = np.cos(latitude)
    return np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=1)


def cost_table(cost: GroundCost) -> Float:
    """The costs between all points (V, V), for few points."""
    every = np.arange(len(cost.ground.points))
    plain = plain_distances(cost, every, every)
    if cost.transform == SQUARE:
        plain = plain**2
    elif cost.transform == HALF_SQUARE:
        plain = 0.5 * plain**2
    elif cost.transform == ARC:
        plain = _angles(plain, _between(cost.ground, cost.ground.points, -cost.ground.points))
    return np.asarray(cost.scale * plain)


def _angles(distance: Float, to_opposite: Float) -> Float:
    """Angles between unit vectors, from their distances and those of the one to the other's opposite."""
    near = 2.0 * np.arcsin(np.minimum(1.0, 0.5 * distance))
    return np.where(distance**2 <= 2.0, near, 2.0 * np.arctan2(distance, to_opposite))


def plain_distances(cost: GroundCost, rows: Indices, columns: Indices) -> Float:
    """Distances (R, C) between some of the points, in the unit of the kernel or table.

    Costs that are functions of a Euclidean distance are not applied.
    """
    if cost.has_table:
        return cost.table[np.ix_(rows, columns)]
    points = cost.ground.points
    return _between(cost.ground, points[rows], points[columns])


def _between(ground: Ground, a: Float, b: Float) -> Float:
    """Distances (R, C) between points (R, d) and (C, d) under a prepared metric."""
    d, stride = a.shape[1], (len(b) + 15) & ~15
    x, y = np.zeros((len(a) + 1, d)), np.zeros((d, stride))
    x[: len(a)] = a
    y[:, : len(b)] = b.T
    out = np.empty((len(a) + 1, stride))
    _fill_distances(
        DistanceBlock(code=ground.code, order=ground.order, p=len(a), stride=stride, width=d, x=x, y=y, out=out)
    )
    return np.asarray(out[: len(a), : len(b)])


def _tabulated(points: FloatArray, metric: Metric, given: Parameters, memory: int) -> GroundCost:
    n = len(points)
    if 8 * n * n > memory:
        raise ValueError(
            f"metric {metric!r} has no compiled kernel and is kept as a table over the {n:,} distinct points, which "
            f"takes {8 * n * n / 2**30:.1f} GiB: raise memory=, or use one of {', '.join(KERNELS)}"
        )
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "function")
    if metric == "precomputed":
        table = _looked_up(points, given)
    elif metric == "periodic":
        table = _periodic(points, given)
    else:
        table = _by_scipy_or_sklearn(np.asarray(points, dtype=np.float64), metric, given)
    _check_table(table, name)
    exponent = int(np.frexp(table.max())[1])
    place = np.arange(n, dtype=np.float64)[:, None]
    # Periodic boxes are tori, whose distance is one; every other table is checked where that is quick.
    proven = metric == "periodic" or _triangle_holds(table)
    ground = Ground(place, 0, 2.0, exponent, name)
    return GroundCost(name, proven, ground, PLAIN, float(2.0**exponent), np.ldexp(table, -exponent))


def _looked_up(points: FloatArray, given: Parameters) -> Float:
    matrix = given.pop("distances", None)
    refuse_parameters("precomputed", given)
    if matrix is None:
        raise ValueError(
            "metric='precomputed' needs the distances between the points of the vocabulary: pass "
            "metric_params={'distances': matrix (V, V)}, and points (n, 1) that are indices into it"
        )
    table = np.asarray(to_float_array(matrix, "distances"), dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise ValueError(f"distances must be a square matrix (V, V); found shape {table.shape}")
    place = np.asarray(points)[:, 0]
    if points.shape[1] != 1 or (place != np.rint(place)).any() or place.min() < 0 or place.max() >= len(table):
        raise ValueError(
            "metric='precomputed' reads points (n, 1) that are indices into the matrix of distances, integers from "
            f"0 to {len(table) - 1}"
        )
    chosen = place.astype(np.int64)
    return np.ascontiguousarray(table[np.ix_(chosen, chosen)])


def _periodic(points: FloatArray, given: Parameters) -> Float:
    box = given.pop("box", None)
    refuse_parameters("periodic", given)
    lengths = np.asarray(to_float_array([1.0] if box is None else np.atleast_1d(box), "box"), dtype=np.float64)
    d = points.shape[1]
    if lengths.shape not in ((1,), (d,)) or not (lengths > 0).all():
        raise ValueError(
            f"metric 'periodic' needs positive lengths of the box, one number or {d}: metric_params={{'box': …}}"
        )
    squares = np.zeros((len(points), len(points)))
    for c, length in enumerate(np.broadcast_to(lengths, (d,))):
        x = np.mod(np.asarray(points[:, c], dtype=np.float64), length)
        gap = np.abs(x[:, None] - x)
        squares += np.minimum(gap, length - gap) ** 2
    return np.sqrt(squares)


def _by_scipy_or_sklearn(x: Float, metric: Metric, given: Parameters) -> Float:
    from scipy.spatial import distance

    if len(x) < 2:
        return np.zeros((len(x), len(x)))
    pdist: Any = distance.pdist
    if callable(metric) and getattr(distance, getattr(metric, "__name__", ""), None) is not metric:
        metric = _number_of(metric)
    try:
        return np.asarray(distance.squareform(pdist(x, metric, **given)), dtype=np.float64)
    except ValueError as unknown:
        if callable(metric):
            raise
        from sklearn.metrics import pairwise_distances

        try:
            return np.asarray(pairwise_distances(x, metric=metric, **given), dtype=np.float64)
        except ValueError:
            raise ValueError(
                f"unknown metric {metric!r}, or wrong metric_params ({unknown}); use a name of SciPy or scikit-learn, "
                "'angular', 'great_circle', 'periodic', 'precomputed', or a function of two points"
            ) from None


def _number_of(metric: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of two points, refused where it gives something else than a number.

    It has another name: SciPy looks at that of a function, and one that is called "dice" would get booleans.
    """

    def checked(x: Any, y: Any, **given: Any) -> Any:
        found = metric(x, y, **given)
        if isinstance(found, float):
            return found
        if np.ndim(found) or isinstance(found, (str, bytes, complex)):
            kind = f"an array of shape {np.shape(found)}" if np.ndim(found) else repr(found)
            raise ValueError(f"a metric must give one number for two points (d,), but {kind} came back")
        return found

    return checked


def _check_table(table: Float, name: str) -> None:
    if not np.isfinite(table).all():
        i, j = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(f"metric {name!r} gives {table[i, j]} between distinct points {i} and {j}; it must be finite")
    if table.min() < 0:
        i, j = np.unravel_index(int(table.argmin()), table.shape)
        raise ValueError(f"metric {name!r} gives {table[i, j]:g} between distinct points {i} and {j}; it must be ≥ 0")
    if not np.allclose(table, table.T, rtol=1e-9, atol=0.0):
        raise ValueError(f"metric {name!r} must be symmetric: the distance from x to y and from y to x differ")
    if np.diagonal(table).any():
        i = int(np.flatnonzero(np.diagonal(table))[0])
        raise ValueError(f"metric {name!r} gives {table[i, i]:g} from distinct point {i} to itself; it must be 0")


def _triangle_holds(table: Float) -> bool:
    if len(table) > MOST_CHECKED or np.diagonal(table).any():
        return False
    costs = 0.5 * (table + table.T)
    through = (costs[:, :, None] + costs[None]).min(axis=1)  # the cheapest way through a third point
    return bool((costs <= through + 1e-11 * costs.max() / len(costs)).all())
