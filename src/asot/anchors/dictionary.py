"""ASOT-DL: a dictionary of anchors, and codes from a few unrolled steps of sparse coding (docs/method.md §4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.codes import unrolled_codes
from asot.anchors.learned import LearnedAnchors
from asot.anchors.training import State, Tensors
from asot.progress import ProgressLike
from asot.validation import as_positive_int

if TYPE_CHECKING:
    from torch import Tensor


class DictionaryAnchors(LearnedAnchors):
    """Learn anchors as a dictionary, with codes from unrolled sparse coding (ASOT-DL). Needs PyTorch.
    """

    kind = "dictionary"

    def __init__(
        self,
        n_anchors: int | None = None,
        *,
        n_layers: int = 8,
        objective: str = "distance",
        loss_weights: Sequence[float] = (1.0, 1.0, 1.0),
        hidden: int | Sequence[int] = (64,),
        n_pairs: int = 5000,
        batch_size: int = 128,
        learning_rate: float = 0.01,
        max_epochs: int = 40,
        max_time: float | None = None,
        patience: int = 10,
        validation_fraction: float = 0.15,
        warm_start: bool = False,
        progress: ProgressLike = False,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_anchors = n_anchors
        self.n_layers = n_layers
        self.objective = objective
        self.loss_weights = loss_weights
        self.hidden = hidden
        self.n_pairs = n_pairs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.max_time = max_time
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.progress = progress
        self.device = device
        self.random_state = random_state

    def _begin(self, anchors: NDArray[np.float64], sharpness: float, rng: np.random.RandomState) -> State:
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

    def _rates(self) -> dict[str, float]:
        return {"anchors": 1.0, "log_sharpness": 1.0, "log_step": 1.0}

    def _paper_loss(self, p: Tensors, u: Tensor, z: Tensor) -> Tensor:
        """α L_rc + β L_l2 + γ L_sp: points are rebuilt, codes have length 1 and total 1, hence are near one-hot."""
        import torch

        code = unrolled_codes(p, u, z, torch)
        rebuilt = 0.5 * (code @ p["anchors"] - u).square().sum(dim=1).mean()
        length = ((code.square().sum(dim=1) + 1e-12).sqrt() - 1.0).square().mean()
        total = (code.sum(dim=1) - 1.0).square().mean()
        alpha, beta, gamma = self.loss_weights
        return alpha * rebuilt + beta * length + gamma * total
