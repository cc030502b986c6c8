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
    from asot import baselines, datasets, gradients, plots, sinks
    from asot.anchors.dictionary import DictionaryAnchors
    from asot.anchors.fixed import FixedAnchors
    from asot.anchors.kmeans import KMeansAnchors
    from asot.anchors.metric import MetricAnchors
    from asot.anchors.space import AnchorSpace
    from asot.data.distributions import Distributions
    from asot.data.files import load_collection
    from asot.distances import pairwise, pairwise_exact
    from asot.histograms import emd, emd_many, sinkhorn_many
    from asot.learn.barycenter import Barycenter, barycenter
    from asot.learn.groups import GroupDifferences, group_differences
    from asot.learn.kernel import Kernel, kernel
    from asot.learn.kernel_estimator import WassersteinKernel
    from asot.learn.kmeans import WassersteinKMeans
    from asot.learn.neighbors_estimator import WassersteinNeighbors
    from asot.learn.noise import NoiseFloor, noise_floor
    from asot.learn.size_matched import size_matched
    from asot.neighbors import RadiusNeighbors, kneighbors, radius_neighbors
    from asot.plans import TransportPlan, plan
    from asot.run.distance_files import load_distances
    from asot.run.plans import Plans
    from asot.run.result import Distances, Neighbors, Status
    from asot.run.stored import Stored, open_store

_HOMES = {
    "AnchorSpace": "asot.anchors.space",
    "Barycenter": "asot.learn.barycenter",
    "DictionaryAnchors": "asot.anchors.dictionary",
    "Distances": "asot.run.result",
    "Distributions": "asot.data.distributions",
    "FixedAnchors": "asot.anchors.fixed",
    "KMeansAnchors": "asot.anchors.kmeans",
    "GroupDifferences": "asot.learn.groups",
    "Kernel": "asot.learn.kernel",
    "MetricAnchors": "asot.anchors.metric",
    "Neighbors": "asot.run.result",
    "NoiseFloor": "asot.learn.noise",
    "Plans": "asot.run.plans",
    "RadiusNeighbors": "asot.neighbors",
    "Status": "asot.run.result",
    "Stored": "asot.run.stored",
    "TransportPlan": "asot.plans",
    "WassersteinKMeans": "asot.learn.kmeans",
    "WassersteinKernel": "asot.learn.kernel_estimator",
    "WassersteinNeighbors": "asot.learn.neighbors_estimator",
    "barycenter": "asot.learn.barycenter",
    "emd": "asot.histograms",
    "emd_many": "asot.histograms",
    "group_differences": "asot.learn.groups",
    "kernel": "asot.learn.kernel",
    "kneighbors": "asot.neighbors",
    "load_collection": "asot.data.files",
    "load_distances": "asot.run.distance_files",
    "noise_floor": "asot.learn.noise",
    "open_store": "asot.run.stored",
    "pairwise": "asot.distances",
    "pairwise_exact": "asot.distances",
    "plan": "asot.plans",
    "radius_neighbors": "asot.neighbors",
    "sinkhorn_many": "asot.histograms",
    "size_matched": "asot.learn.size_matched",
}

__all__ = [
    "AnchorSpace",
    "Barycenter",
    "DictionaryAnchors",
    "Distances",
    "Distributions",
    "FixedAnchors",
    "GroupDifferences",
    "KMeansAnchors",
    "Kernel",
    "MetricAnchors",
    "Neighbors",
    "NoiseFloor",
    "Plans",
    "RadiusNeighbors",
    "Status",
    "Stored",
    "TransportPlan",
    "WassersteinKMeans",
    "WassersteinKernel",
    "WassersteinNeighbors",
    "barycenter",
    "baselines",
    "datasets",
    "emd",
    "emd_many",
    "gradients",
    "group_differences",
    "kernel",
    "kneighbors",
    "load_collection",
    "load_distances",
    "noise_floor",
    "open_store",
    "pairwise",
    "pairwise_exact",
    "plan",
    "plots",
    "radius_neighbors",
    "sinkhorn_many",
    "sinks",
    "size_matched",
]


def __getattr__(name: str) -> Any:
    if name in ("baselines", "datasets", "gradients", "plots", "sinks"):
        return importlib.import_module(f"asot.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'asot' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(["__version__", *__all__])
