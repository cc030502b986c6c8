"""Given anchors: a vocabulary, a pixel grid, or simply the distinct points of the collection."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from numpy.typing import ArrayLike

from asot.anchors.base import AnchorLearner
from asot.anchors.space import AnchorSpace
from asot.data.distinct import distinct_points
from asot.data.distributions import Distributions
from asot.validation import refuse_what_cannot_fit


@dataclass(eq=False, repr=False)
class FixedAnchors(AnchorLearner):
    """Use given anchors, and optionally a given cost between them.

    Parameters
    ----------
    anchors : array-like (k, d), optional
        Default: the distinct points of the fitted collection. Points that *are* anchors do not move, so distances are
        then exact.
    cost : array-like (k, k), optional
        Default: Euclidean distances between the anchors.
    device : {"auto", "cpu", "cuda", "cuda:N"}
        Where `transform` finds nearest anchors. "auto" uses a GPU if there is one and the job is large enough.

    Attributes
    ----------
    space_ : AnchorSpace
    n_features_in_ : int

    Examples
    --------
    >>> import asot
    >>> D = asot.Distributions.from_list([[[0.0], [1.0]], [[1.0], [3.0]]])
    >>> asot.FixedAnchors().fit(D).space_.anchors.ravel()
    array([0., 1., 3.])
    """

    anchors: ArrayLike | None = None
    cost: ArrayLike | None = None
    _: KW_ONLY
    device: str = "auto"

    def _learn(self, D: Distributions) -> AnchorSpace:
        if self.anchors is None:
            if self.cost is not None:
                raise ValueError("a cost needs its anchors; pass anchors as well")
            points, _ = distinct_points(D)
            refuse_what_cannot_fit(
                24 * len(points) ** 2,
                f"a cost between all {len(points):,} distinct points",
                "pass anchors, learn them with KMeansAnchors, or use pairwise_exact",
            )
            return AnchorSpace(points)
        space = AnchorSpace(self.anchors, self.cost)
        space.check_dim(D)
        return space
