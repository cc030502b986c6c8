"""
A stored run on Dask
====================

``sinks.Store`` writes distances to disk, block by block, and joblib decides who computes them: here a small Dask
cluster. If the run is interrupted, the same call continues where it stopped. Nothing is read back before it is needed.
"""

import tempfile
from pathlib import Path

import joblib
import matplotlib.pyplot as plt
from dask.distributed import Client

import asot

digits, labels, _ = asot.datasets.load_digits(300)
digits = digits[labels.argsort(kind="stable")]
folder = Path(tempfile.mkdtemp())

# %%
# A job that handles a third of the blocks, as on a cluster with three jobs. Values that are not computed yet are NaN.

store = asot.sinks.Store(folder / "run.zarr", part=(1, 3))
part = asot.pairwise_exact(digits, sink=store)
print(part)

# %%
# The same call without ``part``, on Dask workers, computes only the blocks that are missing.

workers = Client(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
)
with workers, joblib.parallel_config(backend="dask"):
    whole = asot.pairwise_exact(
        digits, sink=asot.sinks.Store(folder / "run.zarr")
    )
print(whole)

# %%
# Rows, blocks and neighbors are read from the store; here is every third row and column of the matrix.

near = asot.open_store(folder / "run.zarr").top_k(5)
fig, ax = plt.subplots(layout="constrained")
ax.imshow(whole[:, :][::3, ::3])
ax.set(title="Near digits (dark) are of one class", xticks=[], yticks=[])
print("nearest of the first:", near.indices[0].tolist())
