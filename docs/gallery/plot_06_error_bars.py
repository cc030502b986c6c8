"""
How wrong can it be?
====================

Distances through anchors are approximate. Each one comes with an interval that contains the true W₁. This is proven,
not estimated.
"""

import numpy as np

import asot

rng = np.random.default_rng(3)
clouds = [rng.normal(rng.normal(size=3), 1.0, size=(200, 3)) for _ in range(30)]
D = asot.Distributions.from_list(clouds)
r = asot.pairwise(
    D,
    space=asot.KMeansAnchors(24, random_state=0),
    bounds=True,
    estimate="anchor",
)
exact = asot.pairwise_exact(D, n_jobs=-1)
print(
    "intervals that hold:",
    np.mean((r.lower <= exact.values) & (exact.values <= r.upper)),
)

# %%
# Bars are the intervals.

asot.plots.errors(r)
