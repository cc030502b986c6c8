"""
A map of handwritten digits
===========================

A digit is a bag of pixels with ink. The distance between two of them is the least work needed to move the ink of one to
the ink of the other. On a map drawn from these distances, digits of the same class end up together.
"""

import asot

digits, labels, _ = asot.datasets.load_digits(300)
distances = asot.pairwise_exact(digits, n_jobs=-1)
print(distances)

# %%
# Colors are the classes, which the distances know nothing about.

asot.plots.map(distances, labels=labels)
