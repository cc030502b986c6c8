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

fig, axes = plt.subplots(1, 5, figsize=(10, 2.2), layout="constrained")
for digit, ax in enumerate(axes):
    middle = asot.barycenter(histograms[labels == digit][:12], space.cost, reg=0.02 * space.cost.max(), tol=1e-5)
    asot.plots.barycenter(middle, space.anchors, ax)
    ax.set_title(str(digit))
    ax.set_axis_off()
