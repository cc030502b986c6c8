"""What a caller means by ``space=``: a space, a fitted learner, or one that is not fitted yet."""

from __future__ import annotations

from typing import Any

from asot.anchors.space import AnchorSpace
from asot.data.distributions import Distributions
from asot.validation import as_seed


def is_fitted(space: Any) -> bool:
    """Whether a space or a learner was made before this call."""
    return isinstance(space, AnchorSpace) or hasattr(space, "space_")


def fitted_space(space: Any, pooled: Distributions, random_state: Any, device: str = "auto") -> AnchorSpace:
    """The space a caller means: itself, that of a learner, or one that is learned here.

    What is learned here repeats itself: without a seed of its own, a learner gets that of the call, and None is 0.
    """
    if isinstance(space, AnchorSpace):
        return space
    if space is None:
        from asot.anchors.kmeans import KMeansAnchors  # loads scikit-learn, which takes a second

        space = KMeansAnchors(device=device)
    if not hasattr(space, "fit"):
        raise TypeError(f"space must be an AnchorSpace or an anchor learner such as KMeansAnchors(); found {space!r}")
    if not is_fitted(space):
        from sklearn.base import clone

        learner = clone(space)
        if learner.get_params(deep=False).get("random_state", 0) is None:
            learner.set_params(random_state=as_seed(random_state) % 2**32)
        space = learner.fit(pooled)
    return space.space_
