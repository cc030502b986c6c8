"""
Clusters of distributions
=========================

`WassersteinKMeans` groups distributions around medoids, which are actual members of the collection that you can look
at.
"""

import matplotlib.pyplot as plt
import numpy as np

import asot

digits, labels, about = asot.datasets.load_digits(300)
model = asot.WassersteinKMeans(10, random_state=0).fit(digits)

# %%
# Five of the ten medoids, and some of the digits around them.

fig, axes = plt.subplots(5, 8, figsize=(6, 4.2), layout="constrained")
for row, c in zip(axes, range(5), strict=True):
    others = np.flatnonzero(model.labels_ == c)
    shown = [
        model.medoid_indices_[c],
        *others[others != model.medoid_indices_[c]][:7],
    ]
    for ax in row:
        ax.set_axis_off()
    for ax, i in zip(row, shown, strict=False):
        ax.imshow(
            about["images"][i], cmap="Oranges" if ax is row[0] else "gray_r"
        )
fig.suptitle("One digit (orange) stands for its whole cluster")
