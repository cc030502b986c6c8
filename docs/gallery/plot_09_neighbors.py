"""
Exact neighbors from few solves
===============================

The nearest neighbors are those of brute force, ties included. How many pairs have to be solved depends on the data:
only a few where cheap bounds are good.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter

import asot

rng = np.random.default_rng(4)
shares = []
sizes = (100, 200, 400, 800)
for n in sizes:
    D = asot.Distributions.from_list(
        [
            rng.normal(3 * rng.normal(size=2), 1.0, size=(15, 2))
            for _ in range(n)
        ]
    )
    found = asot.kneighbors(D, n_neighbors=5)
    shares.append(found.n_exact / (n * (n - 1) / 2))

# %%
# The larger the collection, the smaller the share.

fig, ax = plt.subplots(layout="constrained")
ax.loglog(sizes, shares, "o-")
ax.set_xticks(sizes, sizes, minor=False)
ax.set_xticks([], minor=True)
ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
ax.set_xlabel("distributions")
ax.set_ylabel("share of the pairs that were solved")
ax.set_title(f"{shares[-1]:.0%} of the pairs are enough")
