"""ASOT-ML: codes from a network, and a cost that is learned with them (docs/method.md §5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asot.anchors.codes import metric_codes
from asot.anchors.learned import LearnedAnchors, _distances
from asot.anchors.training import State, Tensors
from asot.progress import ProgressLike

if TYPE_CHECKING:
    from torch import Tensor

PAPER_WEIGHT = 100.0
"""The constant C of the paper's pairs loss."""


class MetricAnchors(LearnedAnchors):
    """Learn soft codes and a cost between anchors (ASOT-ML). Needs PyTorch.
    """

    kind = "metric"

    def __init__(
        self,
        n_anchors: int | None = None,
        *,
        objective: str = "distance",
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
        self.objective = objective
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
        k, d = anchors.shape
        network = self._network(d, k, rng)
        if self.objective == "distance":
            return {"anchors": anchors, "log_sharpness": np.log(sharpness), "embedding": anchors, **network}
        last = f"weight{len(network) // 2 - 1}"
        network[last] = np.sqrt(2.0 / len(network[last])) * rng.normal(size=network[last].shape)
        return {"fixed_anchors": anchors, "mahalanobis": np.eye(d), **network}

    def _cost_points(self, p: Any) -> Any:
        return p["embedding"] if self.objective == "distance" else p["fixed_anchors"] @ p["mahalanobis"].T

    def _rates(self) -> dict[str, float]:
        if self.objective == "distance":
            return {"anchors": 1.0, "log_sharpness": 1.0, "embedding": 1.0}
        return {"mahalanobis": 1.0}

    def _paper_loss(self, p: Tensors, u: Tensor, z: Tensor) -> Tensor:
        """C · mean (Ĉ - d)² over pairs of points of two halves of the batch, Ĉ = Z_x C_s Z_yᵀ."""
        import torch

        codes = metric_codes(p, u, z, torch)
        half = len(u) // 2
        found = codes[:half] @ _distances(self._cost_points(p)) @ codes[half:].T
        return PAPER_WEIGHT * (found - torch.cdist(u[:half], u[half:])).square().mean()
