"""ASOT-DL: a dictionary of anchors, and codes from a few unrolled steps of sparse coding (docs/method.md §4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.soft_codes import unrolled_codes
from asot.anchors.trainable import LearnedAnchors
from asot.anchors.training import State, Tensors
from asot.validation import as_positive_int

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(eq=False, repr=False)
class DictionaryAnchors(LearnedAnchors):
    """Learn anchors as a dictionary, with codes from unrolled sparse coding (ASOT-DL). Needs PyTorch.

    A code is the result of ``n_layers`` proximal gradient steps from the soft nearest anchor: weights ≥ 0 that
    reconstruct the point from the anchors. They are scaled to total 1, so that every point keeps its mass; a point
    whose code is all zeros gives its mass to its (soft) nearest anchor. Costs are Euclidean distances between the
    anchors. Anchors may be negative; they start from k-means.

    Parameters
    ----------
    n_anchors : int, optional
        Number of anchors. Default: the mean size of the distributions. If a collection has fewer distinct points, they
        become the anchors.
    n_layers : int
        Proximal steps. All of them share the anchors and one learned step, which starts at a safe value.
    objective : {"distance", "paper"}
        "distance" minimizes the squared difference between W_AS and W_1 on pairs of distributions whose exact W_1 is
        known. "paper" is the paper's objective: points are reconstructed by codes that are nearly one-hot.
    loss_weights : (α, β, γ)
        Weights of the paper's three losses: reconstruction, length 1, total 1.
    hidden : int or sequence of int
        Widths of the hidden layers of the network that chooses λ, the threshold of every point.
    n_pairs, batch_size, learning_rate, max_epochs, max_time, patience, validation_fraction, warm_start, progress
        As in `MetricAnchors`.
    device, random_state
        As in `MetricAnchors`.

    Attributes
    ----------
    space_, history_, validation_error_, n_epochs_, n_features_in_
        As in `MetricAnchors`.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(size=(30, 2)) + rng.normal(size=2) for _ in range(40)])
    >>> learner = asot.DictionaryAnchors(8, max_epochs=20, random_state=0).fit(D)
    >>> learner.transform(D).shape
    (40, 8)
    >>> bool(learner.validation_error_ < learner.history_["error"][0])
    True
    """

    kind = "dictionary"

    _: KW_ONLY
    n_layers: int = 8
    loss_weights: Sequence[float] = (1.0, 1.0, 1.0)

    def _begin(self, anchors: NDArray[np.float64], sharpness: float, rng: np.random.RandomState) -> State:
        weights = np.asarray(self.loss_weights)
        if weights.shape != (3,) or weights.dtype.kind not in "fiu" or not (weights >= 0).all():
            raise ValueError(f"loss_weights must be three numbers ≥ 0; found {self.loss_weights!r}")
        safe_step = float(np.linalg.norm(anchors, 2)) ** 2 or 1.0  # the largest curvature of ½‖Wᵀcode - u‖²
        return {
            "anchors": anchors,
            "log_sharpness": np.log(sharpness),
            "log_step": np.log(safe_step),
            "n_layers": np.asarray(as_positive_int(self.n_layers, "n_layers")),
            **self._network(anchors.shape[1], 1, rng),
        }

    def _cost_points(self, p: Any) -> Any:
        return p["anchors"]

    def _learned(self) -> tuple[str, ...]:
        return ("anchors", "log_sharpness", "log_step")

    def _paper_loss(self, p: Tensors, u: Tensor, z: Tensor) -> Tensor:
        """α L_rc + β L_l2 + γ L_sp: points are reconstructed, and codes have length 1 and total 1, so they are nearly
        one-hot."""
        import torch

        code = unrolled_codes(p, u, z, torch)
        rebuilt = 0.5 * (code @ p["anchors"] - u).square().sum(dim=1).mean()
        length = ((code.square().sum(dim=1) + 1e-12).sqrt() - 1.0).square().mean()
        total = (code.sum(dim=1) - 1.0).square().mean()
        alpha, beta, gamma = self.loss_weights
        return alpha * rebuilt + beta * length + gamma * total
