"""Ground metrics: their names and parameters, and points prepared for their kernels.

The names and definitions are those of scipy's ``cdist``, as far as they are metrics (W_1 is one only then). Kernels are
in ``native/common/metrics.hpp``. In every metric here a coordinate in which both points are 0 adds nothing; callers may
leave it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from asot._typing import Float, Identity, Parameters
from asot.validation import FloatArray, to_float_array

EUCLIDEAN, CITYBLOCK, CHEBYSHEV, MINKOWSKI, CANBERRA, HAMMING, JACCARD, ROGERSTANIMOTO, SOKALSNEATH, JENSENSHANNON = (
    range(10)
)

CODES = {
    "euclidean": EUCLIDEAN,
    "cityblock": CITYBLOCK,
    "manhattan": CITYBLOCK,
    "chebyshev": CHEBYSHEV,
    "minkowski": MINKOWSKI,
    "canberra": CANBERRA,
    "hamming": HAMMING,
    "jaccard": JACCARD,
    "rogerstanimoto": ROGERSTANIMOTO,
    "sokalsneath": SOKALSNEATH,
    "jensenshannon": JENSENSHANNON,
    "seuclidean": EUCLIDEAN,
    "mahalanobis": EUCLIDEAN,
}
KERNELS = tuple(CODES)
"""Names of the metrics here."""

ON_GPUS = frozenset(range(EUCLIDEAN, JENSENSHANNON + 1))
"""Codes that ``exact/cuda/points_metric.cuh`` has, too; other metrics are solved on the CPU."""

_BOOLEAN = {JACCARD, ROGERSTANIMOTO, SOKALSNEATH}
_LENGTHS = frozenset({EUCLIDEAN, CITYBLOCK, CHEBYSHEV, MINKOWSKI})
"""Codes of the norms that `norm` and the bounds of searches know (``native/search/cascade.cpp``)."""

_HOMOGENEOUS = {*_LENGTHS}
"""Codes of all metrics that scale with the points, d(sx, sy) = s d(x, y): kernels see points at the scale of 1."""

ROUGH = {JENSENSHANNON: 1e-6}
"""What small distances under a code may be off by, where the largest are about 1: bounds are lowered by it. A
Jensen-Shannon distance is the root of a difference: near 0 it has half the digits of the others."""

NORMS = frozenset({"euclidean", "cityblock", "manhattan", "chebyshev", "minkowski"})
"""Metrics of the points as they are: on a line all of them are |x - y|."""

FROM_POINTS = {"seuclidean": "V", "mahalanobis": "VI"}
"""Metrics with a parameter that is computed from the points of a call where it is not given."""

TRANSFORMED = frozenset(FROM_POINTS)
"""Metrics that are another one between transformed points. What is not a point of the collection, such as an anchor or
the diagonal of a diagram, is not transformed with them, and is not compared by these metrics."""

_PARAMETERS = {"minkowski": "p", **FROM_POINTS}


@dataclass(frozen=True)
class Ground:
    """A metric prepared for a set of points: distances are 2^exponent times those of ``points`` under ``code``."""

    points: Float  # (n, d)
    code: int
    order: float  # p of the Minkowski metric; the dimension for those that count coordinates
    exponent: int
    name: str

    def identity(self) -> Identity:
        """All that distances depend on, by the names that stores know it by."""
        return {
            "points": self.points,
            "code": self.code,
            "order": self.order,
            "exponent": self.exponent,
            "name": self.name,
        }

    @property
    def is_norm(self) -> bool:
        """Whether it is a norm of the difference of two points, and a known one."""
        return self.code in _LENGTHS

    @property
    def span(self) -> float:
        """No two points are farther apart: the size of the box around them, or infinite if the metric is no norm."""
        if not self.is_norm:
            return np.inf
        return float(np.ldexp(norm(np.ptp(self.points, axis=0)[None], self.code, self.order)[0], self.exponent))


def norm(x: Float, code: int, order: float) -> Float:
    """Lengths (n,) of vectors (n, d) under a norm."""
    size = np.abs(x)
    if code == CHEBYSHEV:
        return np.asarray(size.max(axis=1))
    if code == CITYBLOCK:
        return np.asarray(size.sum(axis=1))
    power = 2.0 if code == EUCLIDEAN else order
    most = size.max(axis=1, keepdims=True)
    part = size / np.where(most > 0, most, 1.0)
    return np.asarray(most[:, 0] * (part**power).sum(axis=1) ** (1.0 / power))


def prepare_metric(points: FloatArray, metric: str, parameters: Parameters | None = None) -> Ground:
    """Check a metric's name and parameters and transform the points to what its kernel expects."""
    if metric not in CODES:
        raise ValueError(
            f"unknown metric {metric!r}, or one that violates the triangle inequality; use one of "
            + ", ".join(sorted(CODES))
        )
    given = dict(parameters or {})
    parameter = given.pop(_PARAMETERS.get(metric, ""), None)
    refuse_parameters(metric, given)
    code = CODES[metric]
    x = np.ascontiguousarray(points, dtype=np.float64)
    order = float(x.shape[1])
    if metric == "minkowski":
        order = 2.0 if parameter is None else float(parameter)
        if not order >= 1.0:
            raise ValueError(f"metric 'minkowski' needs p ≥ 1 to be a metric; found {parameter!r}")
        code = {1.0: CITYBLOCK, 2.0: EUCLIDEAN, np.inf: CHEBYSHEV}.get(order, code)  # kernels without powers
    elif metric in TRANSFORMED:
        x = _to_unit_spread(x, metric, parameter)
    elif code in _BOOLEAN:
        if not np.isin(x, (0.0, 1.0)).all():
            raise ValueError(f"metric {metric!r} compares truth values; points must be 0 or 1")
    elif code == JENSENSHANNON:
        if x.min() < 0 or not x.any(axis=1).all():
            raise ValueError("metric 'jensenshannon' compares probability vectors; points must be ≥ 0 and not all 0")
        x = x / x.max(axis=1, keepdims=True)  # first, so that sums neither overflow nor vanish
        x = x / x.sum(axis=1, keepdims=True)
    exponent = int(np.frexp(max(x.max(), -x.min()))[1]) if code in _HOMOGENEOUS else 0
    room = None if np.may_share_memory(x, points) else x
    if abs(exponent) < 1000:  # equal, and far faster
        scaled = np.multiply(x, 2.0**-exponent, out=room)
    else:
        scaled = np.ldexp(x, -exponent)
    return Ground(scaled, code, order, exponent, metric)


def refuse_parameters(metric: str, given: Parameters) -> None:
    if given:
        raise ValueError(f"metric {metric!r} takes no parameter {', '.join(map(repr, given))}")


def _to_unit_spread(x: Float, metric: str, given: Any) -> Any:
    """Points whose Euclidean distances are the standardized or Mahalanobis ones of x.

    An offset that all points share would cost digits, and is left out. Where the spread comes from the points, they are
    first brought to the scale of 1, which changes nothing but the range of the squares.
    """
    x = x - _common_offset(x)
    if given is None:
        x = np.ldexp(x, -int(np.frexp(np.abs(x).max())[1]))
    return x / np.sqrt(_variances(x, given)) if metric == "seuclidean" else x @ _whitening(x, given)


def _common_offset(x: Float) -> Float:
    """Per coordinate (d,), a number whose difference to all others is exact, or 0.

    Between half and twice a number it is. Any other choice would round near points by the size of far ones.
    """
    low, high = x.min(axis=0), x.max(axis=0)
    with np.errstate(over="ignore"):
        is_common = ((low > 0) & (high <= 2 * low)) | ((high < 0) & (low >= 2 * high))
    return np.where(is_common, x[0], 0.0)


def _variances(x: Float, given: Any) -> Float:
    d = x.shape[1]
    variances = np.zeros(d)
    if given is not None:
        variances = np.asarray(to_float_array(given, "V"), np.float64)
    elif len(x) > 1:
        variances = np.var(x, axis=0, ddof=1)
    if variances.shape != (d,) or not ((variances > 0) & np.isfinite(variances)).all():
        raise ValueError(
            f"metric 'seuclidean' needs a positive variance for each of the {d} coordinates; "
            "drop constant ones or pass metric_params={'V': ...}"
        )
    return variances


def _whitening(x: Float, given: Any) -> Float:
    """L with L Lᵀ = VI, so that the Mahalanobis distance is the Euclidean one after x → x L."""
    d = x.shape[1]
    try:
        if given is not None:
            inverse = np.asarray(to_float_array(given, "VI"), np.float64)
        elif len(x) > d:
            inverse = np.linalg.inv(np.cov(x.T).reshape(d, d))
        else:
            inverse = np.zeros((0, 0))  # too few points for a covariance
        if inverse.shape == (d, d) and np.isfinite(inverse).all():
            return np.linalg.cholesky(0.5 * (inverse + inverse.T))
    except np.linalg.LinAlgError:
        pass
    raise ValueError(
        f"metric 'mahalanobis' needs a positive definite ({d}, {d}) inverse covariance; "
        "pass metric_params={'VI': ...}"
    )
