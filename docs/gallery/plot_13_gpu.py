"""
On a GPU
========

The same call with ``device="auto"`` takes a GPU where there is one and where it pays. The times below were measured on
one NVIDIA H200; they are stored in the repository, since this page is built on machines without a GPU.
"""

import matplotlib.pyplot as plt

# All pairs of 5,000 histograms with 23 bins (12.5 million) and of 4,110 with 30 bins (8.4 million), exact, from NumPy
# arrays to NumPy results: benchmarks/results/gpu.md.
seconds = {"16 CPU threads": (1.464, 1.188), "one H200": (0.0117, 0.0121)}

fig, ax = plt.subplots(layout="constrained")
for shift, (name, values) in enumerate(seconds.items()):
    ax.barh([y + 0.35 * shift for y in range(2)], values, height=0.3, label=name)
ax.set_xscale("log")
ax.set_yticks([0.175, 1.175], ["12.5 million pairs, k = 23", "8.4 million pairs, k = 30"])
ax.set_xlabel("seconds")
ax.legend()
