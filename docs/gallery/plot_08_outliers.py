"""
Which distributions are odd?
============================

The distance to the tenth nearest neighbor is a simple and effective outlier score. `kneighbors` finds the neighbors
under the exact W₁ and only solves the pairs that bounds cannot rule out.
"""

import matplotlib.pyplot as plt
import numpy as np

import asot

digits, labels, about = asot.datasets.load_digits(600)
found = asot.kneighbors(digits, n_neighbors=10, n_jobs=-1)
score = found.distances[:, -1]
order = np.argsort(score)
print(f"{found.n_exact:,} of {600 * 599 // 2:,} pairs were solved")

# %%
# The most ordinary digits are on top, the oddest at the bottom.

fig, axes = plt.subplots(4, 6, figsize=(6, 4.2), layout="constrained")
for ax, i in zip(axes.ravel(), [*order[:12], *order[-12:]], strict=True):
    ax.imshow(
        about["images"][i], cmap="Blues" if i in order[:12] else "Oranges"
    )
    ax.set_axis_off()
fig.suptitle("The most ordinary digits (blue) and the oddest (orange)")
