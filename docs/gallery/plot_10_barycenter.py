"""
Barycenters of digits
=====================

A barycenter is the distribution with the smallest sum of distances to all members of a group. On anchors, it is a
histogram.
"""

import matplotlib.pyplot as plt
import numpy as np

import asot

digits, labels, _ = asot.datasets.load_digits(300)
space = asot.FixedAnchors(np.unique(digits.points, axis=0)).fit(digits).space_
histograms = space.histograms(digits)

fig, axes = plt.subplots(2, 4, figsize=(6, 3.6), layout="constrained")
for digit, ax in enumerate(axes.ravel()):
    middle = asot.barycenter(
        histograms[labels == digit][:12],
        space.cost,
        reg=0.02 * space.cost.max(),
        tol=1e-5,
    )
    rows, columns = np.round(
        8 * space.anchors.T / (space.anchors.max() + 1e-9) * 7 / 8
    ).astype(int)
    image = np.zeros((8, 8))
    image[rows, columns] = middle.masses
    ax.imshow(image, cmap="Blues")
    ax.set_axis_off()
fig.suptitle("Averages that are digits again")
