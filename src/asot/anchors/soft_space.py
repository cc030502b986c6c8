"""The space of a learner with soft codes: each point spreads its mass over several anchors.

The rest of the package uses it like any other space. But soft codes have no error bound: two different points may have
equal codes, and then no inequality relates the anchor distance to W_1 (docs/method.md §1). Bounds and calibration use
the nearest anchors that learning started from, which the space keeps along with what it learned.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.anchors.soft_codes import SoftCodes
from asot.anchors.space import AnchorSpace
from asot.data.distributions import Distributions

WHY_NO_BOUNDS = (
    "its codes are soft: two different points may have the same code, so no bound is proven for the anchor distance; "
    "use a space of KMeansAnchors or FixedAnchors, or pairwise_exact"
)


class LearnedSpace(AnchorSpace):
    """Anchors with learned soft codes and a learned cost.

    Parameters
    ----------
    anchors : array-like (k, d)
    cost : array-like (k, k)
    codes : SoftCodes
    nearest : AnchorSpace, optional
        Where learning started: nearest anchors with Euclidean costs, for bounds and calibration.

    Examples
    --------
    >>> import numpy as np, asot
    >>> from asot.anchors.soft_codes import SoftCodes
    >>> network = {"weight0": np.zeros((1, 2)), "bias0": np.zeros(2)}
    >>> nearest = {"anchors": np.array([[0.0], [1.0]]), "log_sharpness": np.array(0.0), **network}
    >>> codes = SoftCodes("metric", np.zeros(1), np.ones(1), 1.0, nearest)
    >>> space = LearnedSpace([[0.0], [1.0]], 1.0 - np.eye(2), codes)
    >>> space.encode([[0.5], [5.0]]).round(3)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    def __init__(
        self, anchors: ArrayLike, cost: ArrayLike, codes: SoftCodes, nearest: AnchorSpace | None = None
    ) -> None:
        super().__init__(anchors, cost)
        if (codes.n_anchors, codes.dim) != (self.n_anchors, self.dim):
            raise ValueError(
                f"the codes are for {codes.n_anchors} anchors in {codes.dim} dimensions, but the space has "
                f"{self.n_anchors} in {self.dim}"
            )
        if nearest is not None:
            _check_nearest(nearest, self.dim)
        self.codes = codes
        self.nearest = nearest
        self.why_no_bounds = WHY_NO_BOUNDS if nearest is None else None

    def __repr__(self) -> str:
        return (
            f"LearnedSpace: {self.n_anchors} anchors in {self.dim} dimensions, soft codes ({self.codes.kind}), "
            f"learned cost up to {self.cost.max():.4g}"
        )

    @property
    def proven(self) -> AnchorSpace:
        """The nearest anchors that learning started from: their bounds hold for W_1."""
        return self if self.nearest is None else self.nearest

    def encode(self, points: ArrayLike) -> NDArray[np.float64]:
        """Codes (n, k) of points (n, d): rows ≥ 0 that sum to 1."""
        return self.codes.encode(self._read_points(points))

    def histograms(self, D: Distributions, *, device: str | None = "auto") -> NDArray[np.float64]:
        """Histograms (N, k) of a collection: each point spreads its mass by its code. Codes are not stored."""
        if D.dim != self.dim:
            raise ValueError(f"the collection is in {D.dim} dimensions, but the anchors are in {self.dim}")
        return self.codes.histograms(D, device)

    def assign(self, points: ArrayLike, *, device: str | None = "auto", n_jobs: int | None = None) -> NoReturn:
        """Not available: a point in this space does not belong to a single anchor."""
        self._assign()

    def _assign(self, *_: object) -> NoReturn:
        raise ValueError(f"this space has no nearest anchors: {WHY_NO_BOUNDS}")

    def radii(self, D: Distributions, *, device: str | None = "auto") -> NoReturn:
        """Not available: the radius of §6 needs nearest anchors."""
        raise ValueError(f"this space has no radii: {WHY_NO_BOUNDS}")


def _check_nearest(nearest: AnchorSpace, dim: int) -> None:
    """Refuse a space without proven bounds."""
    if not isinstance(nearest, AnchorSpace) or isinstance(nearest, LearnedSpace) or nearest.why_no_bounds is not None:
        raise ValueError(f"nearest must be a space of nearest anchors with Euclidean costs; found {nearest!r}")
    if nearest.dim != dim:
        raise ValueError(f"the nearest anchors are in {nearest.dim} dimensions, but the space is in {dim}")
