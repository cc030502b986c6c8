"""Which distance a call asks for: its order, its ground metric, and the price of mass without a partner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from asot._typing import Info, Parameters
from asot.ground.costs import Metric
from asot.ground.metrics import KERNELS, NORMS


def as_order(p: Any) -> float:
    """p of W_p."""
    if isinstance(p, bool) or not isinstance(p, (int, float, np.number)) or not 1 <= p < np.inf:
        raise ValueError(f"p must be a finite number ≥ 1; found {p!r}")
    return float(p)


@dataclass(frozen=True)
class Share:
    """Partial transport: only this share of the mass has to be moved, and the rest stays for free."""

    amount: float


def as_share(share: Any, unmatched: Any) -> Any:
    """``share=`` and ``unmatched=`` of a call as one: None, a `Share`, or the price of unmatched mass."""
    if share is None:
        return unmatched
    if unmatched is not None:
        raise ValueError("share= moves a part of the mass and leaves the rest for free; leave out unmatched=")
    if isinstance(share, bool) or not isinstance(share, (int, float, np.number)) or not 0 < share <= 1:
        raise ValueError(f"share must be a number above 0 and up to 1; found {share!r}")
    return None if share == 1 else Share(float(share))


@dataclass(frozen=True)
class Distance:
    """The arguments ``p``, ``metric``, ``metric_params`` and ``unmatched`` of a call."""

    p: float = 1.0
    metric: Metric = "euclidean"
    metric_params: Parameters | None = None
    unmatched: Any = None

    @property
    def is_plain(self) -> bool:
        """Whether it is the Euclidean W_1 of total masses 1, which every part of the package supports."""
        return self.p == 1 and self.unmatched is None and not callable(self.metric) and self.metric == "euclidean"

    @property
    def has_kernel(self) -> bool:
        """Whether it is W_1 with total mass 1 under a metric with its own kernel, which GPUs may solve, too."""
        return self.p == 1 and self.unmatched is None and not callable(self.metric) and self.metric in KERNELS

    def is_sorted(self, dim: int) -> bool:
        """Whether sorting is enough: on a line, all norms are |x - y|."""
        return dim == 1 and self.metric in NORMS and self.unmatched is None

    @property
    def constant(self) -> float | None:
        """The price of unmatched mass, where it is one number."""
        number = isinstance(self.unmatched, (int, float, np.number)) and not isinstance(self.unmatched, bool)
        return float(self.unmatched) if number else None

    @property
    def info(self) -> Info:
        """For ``info`` of a result: what its numbers are."""
        return {"p": int(self.p) if float(self.p).is_integer() else self.p, "rooted": self.p != 1}
