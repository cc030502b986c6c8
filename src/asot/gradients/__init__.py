"""Distances that torch can differentiate: losses, layers and pairings for training.

`emd` takes a cost matrix per problem, `wasserstein` two batches of clouds or ragged ones, `assign` returns the optimal
permutation, and `emd_many` and `sinkhorn_many` take many histograms over one shared cost. torch is imported when a
function is called.
"""

from asot.gradients.clouds import assign, wasserstein
from asot.gradients.own_costs import emd
from asot.gradients.shared_cost import emd_many, sinkhorn_many

__all__ = ["assign", "emd", "emd_many", "sinkhorn_many", "wasserstein"]
