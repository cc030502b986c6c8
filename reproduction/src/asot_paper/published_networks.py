"""The two models of the paper's public code: what is learned, codes, costs and losses (docs/method.md §4, 5, 11).

Every loss is written for distinct points and how often each occurs. A sum over points, or over pairs of points, is then
the same sum over a few dozen of them where points are labels of nodes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from asot_paper.as_published import COPIES

if TYPE_CHECKING:
    from torch import Tensor

LAYERS = 20
"""Proximal steps of a code of ASOT-DL."""

FLOOR = 0.01
"""Added to every entry of a code of ASOT-ML before it is normalized."""


class PublishedModel(ABC):
    """Arrays to learn, and what is computed from them. Points are (n, d) float32 on the model's device."""

    name: str

    def __init__(self, dim: int, k: int, seed: int, device: str = "cpu") -> None:
        import torch

        self.device = device
        self._generator = torch.Generator().manual_seed(seed)
        self.parameters: dict[str, Tensor] = {}
        # In this order, and even if unused, so that a seed gives the same numbers as in the public code.
        self._add_layer("threshold0", dim, math.ceil(dim / 2))
        self._add_layer("threshold1", math.ceil(dim / 2), 1)
        self._add("dictionary", (dim, k), k)
        self._add_more(dim, k)
        del self._generator

    def _add(self, name: str, shape: tuple[int, ...], fan: int) -> None:
        import torch

        bound = 1.0 / math.sqrt(fan)
        self.parameters[name] = torch.empty(shape).uniform_(-bound, bound, generator=self._generator).to(self.device)

    def _add_layer(self, name: str, inputs: int, outputs: int) -> None:
        self._add(f"{name}_weight", (outputs, inputs), inputs)
        self._add(f"{name}_bias", (outputs,), inputs)

    def _layer(self, name: str, x: Tensor) -> Tensor:
        return x @ self.parameters[f"{name}_weight"].T + self.parameters[f"{name}_bias"]

    def anchors(self) -> Tensor:
        """(k, d), none below 0."""
        return self.parameters["dictionary"].relu().T

    def frozen(self, device: str | None = None) -> PublishedModel:
        """A copy, on the same or another device, that does not change while this one keeps learning."""
        where = self.device if device is None else device
        other = object.__new__(type(self))
        copies = {name: array.detach().clone().to(where) for name, array in self.parameters.items()}
        other.__dict__ = self.__dict__ | {"parameters": copies, "device": where}
        return other

    @abstractmethod
    def _add_more(self, dim: int, k: int) -> None:
        """Parameters beyond dictionary and thresholds."""

    @abstractmethod
    def codes(self, x: Tensor) -> Tensor:
        """Codes (n, k) ≥ 0."""

    @abstractmethod
    def cost(self) -> Tensor:
        """Cost between anchors (k, k)."""

    @abstractmethod
    def loss(self, x: Tensor, counts: Tensor) -> Tensor:
        """What is minimized over points (n, d) that occur ``counts`` (n,) times."""

    @abstractmethod
    def score(self, x: Tensor, counts: Tensor, loss: float) -> float:
        """What the best epoch is chosen by."""

    def _rebuilding_error(self, x: Tensor, counts: Tensor, codes: Tensor) -> Tensor:
        return _mean((codes @ self.anchors() - x).square().sum(dim=1), counts)


class PublishedDictionary(PublishedModel):
    """ASOT-DL: codes from unrolled proximal steps with a threshold λ(x) from a small network."""

    name = "ASOT-DL"

    def _add_more(self, dim: int, k: int) -> None:
        self.parameters["curvature"] = self.parameters["dictionary"].square().sum()

    def codes(self, x: Tensor) -> Tensor:
        """z ← max(0, z - (Wᵀ(Wz - x) + λ) / c), twenty times, from z = 0."""
        import torch

        step = 1.0 / self.parameters["curvature"]
        threshold = self._layer("threshold1", self._layer("threshold0", x).relu()).relu()  # (n, 1)
        anchors = self.anchors()
        identity = torch.eye(len(anchors), dtype=x.dtype, device=x.device)
        keep = identity - step * (anchors @ anchors.T)  # (k, k)
        push = step * (x @ anchors.T) - step * threshold  # (n, k)
        code = push.relu()
        for _ in range(LAYERS - 1):
            code = (code @ keep + push).relu()
        return code

    def cost(self) -> Tensor:
        return _distances(self.anchors())

    def loss(self, x: Tensor, counts: Tensor) -> Tensor:
        code = self.codes(x)
        length = (code.norm(dim=1) - 1.0).square()
        total = (code.sum(dim=1) - 1.0).square()
        return self._rebuilding_error(x, counts, code) + _mean(length, counts) + _mean(total, counts)

    def score(self, x: Tensor, counts: Tensor, loss: float) -> float:
        return loss


class PublishedMetric(PublishedModel):
    """ASOT-ML: codes from two linear layers, and distances of anchors after a learned linear map."""

    name = "ASOT-ML"

    def __init__(self, dim: int, k: int, seed: int, device: str = "cpu", weight: float = 100.0) -> None:
        super().__init__(dim, k, seed, device)
        self.weight = weight

    def _add_more(self, dim: int, k: int) -> None:
        self._add_layer("code0", dim, 2 * dim)
        self._add_layer("code1", 2 * dim, k)
        width = dim // COPIES if dim % COPIES == 0 else dim  # what the features are made from: the number of labels
        self._add("map", (dim, width), width)

    def codes(self, x: Tensor) -> Tensor:
        raw = self._layer("code1", self._layer("code0", x)).relu() + FLOOR
        return raw / raw.sum(dim=1, keepdim=True)

    def cost(self) -> Tensor:
        return _distances(self.anchors() @ self.parameters["map"])

    def loss(self, x: Tensor, counts: Tensor) -> Tensor:
        """weight · ‖D - Z C_s Zᵀ‖_F / n² over all pairs of the n points."""
        code = self.codes(x)
        gap = _distances(x) - code @ self.cost() @ code.T
        root = counts.sqrt()
        return self.weight * (root[:, None] * gap * root).norm() / counts.sum() ** 2

    def score(self, x: Tensor, counts: Tensor, loss: float) -> float:
        """The public code adds how well anchors reconstruct points, which is not learned here and outweighs the
        loss."""
        import torch

        with torch.no_grad():
            return loss + float(self._rebuilding_error(x, counts, self.codes(x)))


def _mean(values: Tensor, counts: Tensor) -> Tensor:
    return values @ counts / counts.sum()


def _distances(x: Tensor) -> Tensor:
    """Euclidean distances of rows, from differences; their gradient is 0 where rows are equal."""
    import torch

    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
