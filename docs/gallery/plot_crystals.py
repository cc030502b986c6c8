"""
Near-duplicates among crystals
==============================

A crystal can be written down in many ways: another cell, another origin, another order of its atoms. The distances of
every atom to its nearest neighbors are always the same. So a crystal is a distribution of such rows, and two entries of
a database that are one crystal, or nearly, are two distributions that lie close together. A search by radius finds all
of them, certainly.
"""

import matplotlib.pyplot as plt
import numpy as np

import asot

rng = np.random.default_rng(0)


def written_differently(lattice, places):
    """The same crystal: another cell, origin and order of atoms, all atoms moved by about 0.002 Å."""
    change = np.eye(3, dtype=int)
    change[0, 1], change[2, 0] = rng.integers(-2, 3, size=2)
    positions = places @ lattice + rng.normal(size=3)
    return change @ lattice, rng.permutation(positions) + rng.normal(
        scale=0.002, size=positions.shape
    )


def perovskite():
    """A distorted cube with five atoms, as (cell, shares of its vectors)."""
    places = np.array(
        [
            [0, 0, 0],
            [0.5, 0.5, 0.5],
            [0.5, 0.5, 0],
            [0.5, 0, 0.5],
            [0, 0.5, 0.5],
        ]
    )
    lattice = np.diag(rng.uniform(3.8, 4.2, 3)) + rng.normal(
        scale=0.1, size=(3, 3)
    )
    return lattice, places + rng.normal(scale=0.03, size=places.shape)


known = [perovskite() for _ in range(400)]
copied = rng.choice(400, size=40, replace=False)
entries = [(lattice, places @ lattice) for lattice, places in known]
entries += [written_differently(*known[i]) for i in copied]
D = asot.Distributions.from_structures(entries, k=50)

# %%
# One call finds the copies.

found = asot.radius_neighbors(D, radius=0.02, metric="chebyshev")
pairs = {
    tuple(sorted((i, int(j))))
    for i in range(len(D))
    for j in found.indices[found.indptr[i] : found.indptr[i + 1]]
}
print(f"{len(pairs)} near-duplicates among {len(D)} crystals")
print(
    "all copies found:",
    {(int(original), 400 + t) for t, original in enumerate(copied)} <= pairs,
)

# %%
# Copies are some twenty times closer than crystals that only resemble each other.

nearest = asot.kneighbors(D, 1, metric="chebyshev").distances[:, 0]
is_copy = np.isin(
    np.arange(len(D)), np.concatenate([copied, np.arange(400, 440)])
)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
bins = np.geomspace(nearest.min(), nearest.max(), 40)
ax.hist(
    [nearest[is_copy], nearest[~is_copy]],
    bins,
    stacked=True,
    label=["has a copy", "has none"],
)
ax.axvline(0.02, color="gray", linestyle=":", label="radius")
ax.set_xscale("log")
ax.set_xlabel("distance to the nearest crystal (Å)")
ax.set_ylabel("crystals")
ax.set_title(
    "Two ways to write a crystal lie far below the distance of two crystals"
)
ax.legend()
plt.show()
