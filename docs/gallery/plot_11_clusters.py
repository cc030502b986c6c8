"""
Clusters of distributions
=========================

`WassersteinKMeans` groups distributions around medoids, which are actual members of the collection that you can look
at.
"""

import matplotlib.pyplot as plt

import asot

digits, labels, about = asot.datasets.load_digits(300)
model = asot.WassersteinKMeans(10, random_state=0).fit(digits)

# %%
# The ten medoids.

fig, axes = plt.subplots(1, 10, figsize=(10, 1.4), layout="constrained")
for ax, i in zip(axes, model.medoid_indices_, strict=True):
    ax.imshow(about["images"][i], cmap="gray_r")
    ax.set_axis_off()
