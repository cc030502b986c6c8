"""All Wasserstein distances within a collection of distributions.

>>> import numpy as np, asot
>>> rng = np.random.default_rng(0)
>>> D = asot.Distributions.from_list([rng.normal(size=(n, 2)) for n in (5, 8, 13)])
>>> asot.pairwise_exact(D).matrix().shape
(3, 3)

Names are loaded when first used, so that ``import asot`` is quick and optional packages stay optional.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from asot import differentiable, sinks
    from asot.anchors.dictionary import DictionaryAnchors
    from asot.anchors.fixed import FixedAnchors
    from asot.anchors.kmeans import KMeansAnchors
    from asot.anchors.metric import MetricAnchors
    from asot.anchors.space import AnchorSpace
    from asot.distributions import Distributions
    from asot.result import Distances, Neighbors, Status
    from asot.shared_cost import emd, emd_many, sinkhorn_many
    from asot.transports import Plans
    from asot.wasserstein import pairwise, pairwise_exact

_HOMES = {
    "AnchorSpace": "asot.anchors.space",
    "DictionaryAnchors": "asot.anchors.dictionary",
    "Distances": "asot.result",
    "Distributions": "asot.distributions",
    "FixedAnchors": "asot.anchors.fixed",
    "KMeansAnchors": "asot.anchors.kmeans",
    "MetricAnchors": "asot.anchors.metric",
    "Neighbors": "asot.result",
    "Plans": "asot.transports",
    "Status": "asot.result",
    "emd": "asot.shared_cost",
    "emd_many": "asot.shared_cost",
    "pairwise": "asot.wasserstein",
    "pairwise_exact": "asot.wasserstein",
    "sinkhorn_many": "asot.shared_cost",
}

__all__ = [
    "AnchorSpace",
    "DictionaryAnchors",
    "Distances",
    "Distributions",
    "FixedAnchors",
    "KMeansAnchors",
    "MetricAnchors",
    "Neighbors",
    "Plans",
    "Status",
    "differentiable",
    "emd",
    "emd_many",
    "pairwise",
    "pairwise_exact",
    "sinkhorn_many",
    "sinks",
]


def __getattr__(name: str) -> Any:
    if name in ("differentiable", "sinks"):
        return importlib.import_module(f"asot.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'asot' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
