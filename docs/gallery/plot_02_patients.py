"""
Patients as bags of cells
=========================

Each patient is a cloud of cells in a few principal components. In one condition, a population of cells grows. The
distances between patients show it, and sorting the matrix reveals the two groups.
"""

import numpy as np

import asot

rng = np.random.default_rng(0)
condition = np.repeat(["healthy", "ill"], 10)
clouds = []
for one in condition:
    share = (
        rng.uniform(0.05, 0.15) if one == "healthy" else rng.uniform(0.35, 0.55)
    )
    n = rng.integers(150, 250)
    grown = rng.random(n) < share
    clouds.append(rng.normal(size=(n, 5)) + 3.0 * grown[:, None])
names = [f"{one[0].upper()}{i:02d}" for i, one in enumerate(condition)]
patients = asot.Distributions.from_list(clouds, ids=names)
distances = asot.pairwise_exact(patients, n_jobs=-1)

# %%
# Both groups are easy to see, and so are the patients in between.

asot.plots.matrix(distances, labels=condition)
