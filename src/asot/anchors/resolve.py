"""What a caller means by ``space=``: a space, a fitted learner, or one that is not fitted yet."""

from __future__ import annotations

from typing import Any

from asot.anchors.space import AnchorSpace
from asot.data.distributions import Distributions


def fitted_space(space: Any, pooled: Distributions, random_state: Any, device: str = "auto") -> AnchorSpace:
    """The space a caller means: itself, that of a learner, or one that is learned here."""
    if isinstance(space, AnchorSpace):
        return space
    if space is None:
        from asot.anchors.kmeans import KMeansAnchors  # loads scikit-learn, which takes a second

        space = KMeansAnchors(random_state=random_state, device=device)
    if not hasattr(space, "fit"):
        raise TypeError(f"space must be an AnchorSpace or an anchor learner such as KMeansAnchors(); found {space!r}")
    if not hasattr(space, "space_"):
        from sklearn.base import clone

        space = clone(space).fit(pooled)
    fitted: AnchorSpace = space.space_
    return fitted
