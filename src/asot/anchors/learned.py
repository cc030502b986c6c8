"""The paper's learned spaces, which differ in their codes and in their costs; what they share is in `trainable`.

ASOT-ML: codes from a network, and a cost that is learned with them (docs/method.md §5). ASOT-DL: a dictionary of
anchors, and codes from a few unrolled steps of sparse coding (docs/method.md §4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.soft_codes import metric_codes, unrolled_codes
from asot.anchors.trainable import LearnedAnchors, table_of_distances
from asot.anchors.training import State, Tensors
from asot.validation import as_positive_int

if TYPE_CHECKING:
    from torch import Tensor

PAPER_WEIGHT = 100.0
"""The constant C of the paper's pairs loss."""


@dataclass(eq=False, repr=False)
class MetricAnchors(LearnedAnchors):
    """Learn soft codes and a cost between anchors (ASOT-ML). Needs PyTorch.

    Codes are those of soft nearest anchors, corrected by a network. Costs are the Euclidean distances of an embedding
    of the anchors. Both start from k-means, and are trained for their purpose: to minimize the squared difference
    between W_AS and W_1 on pairs of distributions whose exact W_1 is known.

    Parameters
    ----------
    n_anchors : int, optional
        Number of anchors. Default: the mean size of the distributions. If a collection has fewer distinct points, they
        become the anchors.
    objective : {"distance", "paper"}
        "distance" is the above. "paper" is what the paper defines: codes are normalized non-negative outputs of a
        network, the cost is ‖M w_u - M w_v‖ with a learned matrix M, and the loss compares pairs of *points*. It is
        usually worse than k-means, and is only there for comparison.
    hidden : int or sequence of int
        Widths of the hidden layers of the network that corrects the codes.
    n_pairs : int
        Pairs of distributions to learn from. Their exact W_1 is computed first.
    batch_size : int
        Distributions in a batch; a batch has twice as many pairs.
    learning_rate : float
        The peak learning rate. The rate rises briefly, then falls to 0 along a cosine until ``max_epochs`` or
        ``max_time``.
    max_epochs : int
        Passes over the pairs.
    max_time : float, optional
        Seconds after which training ends, including preparation.
    patience : int
        Training ends after this many epochs without a new best error on the held-out pairs.
    validation_fraction : float
        Share of the distributions (of the pairs, in small collections) that is held out for validation.
    warm_start : bool
        Continue from what an earlier ``fit`` learned. The schedule starts over.
    progress : bool, None or callable
        As in `asot.pairwise`: a bar with loss and error; a function is called with (epochs done, max_epochs).
    device : {"auto", "cpu", "cuda", "cuda:N"}
        Where to learn and encode. "auto" uses a GPU if there is one and the collection is large.
    random_state : int, RandomState or None
        Seed. With an int, the space is the same on every run on the same device.

    Attributes
    ----------
    space_ : LearnedSpace
        Soft codes and a cost that is a pseudometric. Bounds and calibration use the k-means anchors it started from.
    history_ : dict of lists
        ``epoch``, ``loss``, ``error`` (root-mean-square error on the held-out pairs, as a share of the mean distance),
        ``learning_rate`` and ``seconds``; epoch 0 is the start. With ``warm_start``, later fits are appended.
    validation_error_ : float
        The smallest error, which is that of ``space_``.
    n_epochs_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(size=(30, 2)) + rng.normal(size=2) for _ in range(40)])
    >>> learner = asot.MetricAnchors(8, max_epochs=20, random_state=0).fit(D)
    >>> learner.space_
    LearnedSpace: 8 anchors in 2 dimensions, soft codes (metric), learned cost up to ...
    >>> start, end = learner.history_["error"][0], learner.validation_error_
    >>> bool(end < 0.6 * start)
    True
    >>> asot.pairwise(D, space=learner).matrix().shape
    (40, 40)
    """

    kind = "metric"

    _: KW_ONLY
    learning_rate: float = 0.02

    def _begin(self, anchors: NDArray[np.float64], sharpness: float, rng: np.random.RandomState) -> State:
        k, d = anchors.shape
        network = self._network(d, k, rng)
        if self.objective == "distance":
            return {"anchors": anchors, "log_sharpness": np.log(sharpness), "embedding": anchors, **network}
        last = f"weight{len(network) // 2 - 1}"
        network[last] = np.sqrt(2.0 / len(network[last])) * rng.normal(size=network[last].shape)
        return {"fixed_anchors": anchors, "mahalanobis": np.eye(d), **network}

    def _cost_points(self, p: Any) -> Any:
        return p["embedding"] if self.objective == "distance" else p["fixed_anchors"] @ p["mahalanobis"].T

    def _learned(self) -> tuple[str, ...]:
        return ("anchors", "log_sharpness", "embedding") if self.objective == "distance" else ("mahalanobis",)

    def _paper_loss(self, p: Tensors, u: Tensor, z: Tensor) -> Tensor:
        """C · mean (Ĉ - d)² over pairs of points of two halves of the batch, Ĉ = Z_x C_s Z_yᵀ."""
        import torch

        codes = metric_codes(p, u, z, torch)
        half = len(u) // 2
        found = codes[:half] @ table_of_distances(self._cost_points(p)) @ codes[half:].T
        return PAPER_WEIGHT * (found - torch.cdist(u[:half], u[half:])).square().mean()


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
