"""
W₁ or W₂?
=========

W₂ averages squared lengths of moves, W₁ plain lengths. Between two samples of normal distributions, W₂ has a formula:
the means' distance, and that of the covariances. The middle of two distributions shows the difference best: under W₁,
anything on the way between them is a middle; under W₂, the middle lies halfway.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import sqrtm

import asot

rng = np.random.default_rng(2)
centers = rng.normal(scale=2.0, size=(12, 2))
shapes = rng.normal(scale=0.7, size=(12, 2, 2))
clouds = asot.Distributions.from_list(
    [
        center + rng.normal(size=(200, 2)) @ shape.T
        for center, shape in zip(centers, shapes, strict=True)
    ]
)
w2 = asot.pairwise_exact(clouds, p=2).matrix()


def by_formula(i, j):
    """W₂ between two normal distributions."""
    S, T = shapes[i] @ shapes[i].T, shapes[j] @ shapes[j].T
    root = sqrtm(S)
    return np.sqrt(
        ((centers[i] - centers[j]) ** 2).sum()
        + np.trace(S + T - 2 * np.real(sqrtm(root @ T @ root)))
    )


i, j = np.triu_indices(12, 1)
expected = np.array([by_formula(a, b) for a, b in zip(i, j, strict=True)])

# %%
# The middle of two blobs, as a histogram on a line of places. ``barycenter`` takes any table of costs: distances for
# W₁, their squares for W₂.

places = np.linspace(0, 1, 81)
cost = np.abs(places[:, None] - places)
blobs = np.exp(
    -(((places - np.array([[0.2], [0.75]])) / np.array([[0.05], [0.1]])) ** 2)
    / 2
)
blobs /= blobs.sum(axis=1, keepdims=True)
middles = {
    "W₁": asot.barycenter(blobs, cost, reg=0.01),
    "W₂": asot.barycenter(blobs, cost**2, reg=0.002),
}

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 4.8), layout="constrained")
left.plot(expected, w2[i, j], "o", markersize=4)
left.axline(
    (expected.mean(), expected.mean()), slope=1, color="gray", linewidth=0.8
)
left.set_title("Samples agree with the formula")
left.set_xlabel("W₂ of the normal distributions")
left.set_ylabel("W₂ of 200 points each")
right.fill_between(places, blobs[0], alpha=0.3, color="gray")
right.fill_between(places, blobs[1], alpha=0.3, color="gray", label="two blobs")
for name, middle in middles.items():
    right.plot(places, middle.masses, label=f"middle under {name}")
right.set_title("Only under W₂ is the middle a blob")
right.set_xlabel("place")
right.set_ylabel("mass")
right.legend()
