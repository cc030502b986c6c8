"""
Jets at a collider
==================

A jet is a spray of particles: points in rapidity and azimuth, with transverse momentum as mass. Two jets rarely have
the same total, so mass without a partner costs R per unit. This is the energy mover's distance, times R.
"""

import matplotlib.pyplot as plt
import numpy as np

import asot

rng = np.random.default_rng(7)


def jet(n_prongs):
    """A toy jet: momentum shared by one, two or three narrow prongs, each a shower of particles."""
    angles = (
        rng.uniform(0, 2 * np.pi) + 2 * np.pi * np.arange(n_prongs) / n_prongs
    )
    centers = (0.3 if n_prongs > 1 else 0.0) * np.column_stack(
        [np.cos(angles), np.sin(angles)]
    )
    prong = rng.integers(n_prongs, size=rng.integers(25, 45))
    directions = centers[prong] + rng.normal(scale=0.05, size=(len(prong), 2))
    momenta = rng.dirichlet(np.ones(len(prong))) * rng.uniform(0.9, 1.1)
    return directions, momenta


prongs = np.repeat([1, 2, 3], 20)
directions, momenta = zip(*(jet(n) for n in prongs), strict=True)
jets = asot.Distributions.from_list(directions, masses=momenta)
distances = asot.pairwise_exact(jets, unmatched=1.0)

# %%
# Jets with one, two and three prongs separate. What remains within a group is mostly their orientation.

fig, axes = plt.subplots(2, 2, figsize=(7, 6), layout="constrained")
axes = axes.ravel()
for count, (ax, i) in enumerate(zip(axes, (0, 20, 40), strict=False)):
    ax.scatter(
        *directions[i].T, s=2000 * momenta[i], alpha=0.5, color=f"C{count}"
    )
    ax.set(
        xlim=(-0.6, 0.6),
        ylim=(-0.6, 0.6),
        aspect="equal",
        title=f"prongs: {prongs[i]}",
    )
asot.plots.map(distances, axes[3], labels=prongs, method="mds")
