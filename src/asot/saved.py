"""Results that were kept, in files and stores: read back with what they were made with, so that they can grow."""

from __future__ import annotations

import os
from dataclasses import replace

from asot.choose.model_files import read_model
from asot.results.distances import Distances
from asot.results.files import read_distances
from asot.store.files import open_files
from asot.store.stored import Stored


def load_distances(path: str | os.PathLike[str]) -> Distances:
    """Read the file that ``r.save(path)`` wrote; safe on files from strangers.

    Tables and matrices hold no status: it is then ``Status.UNKNOWN``, and ``info`` is empty. In a table, ids are
    strings, and a list of pairs is assumed to be within one collection if an id appears on both sides. An ``.npz`` file
    also holds what the distances were made with, so that they can be extended.

    >>> import tempfile, pathlib, numpy as np, asot
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "distances.npz"
    >>> asot.emd_many(np.eye(3), cost=1.0 - np.eye(3)).save(target)
    >>> asot.load_distances(target).values
    array([1., 1., 1.])
    """
    result, parts = read_distances(path)
    return result if parts is None else replace(result, model=read_model(parts, result.names, path))


def open_store(path: str | os.PathLike[str]) -> Stored:
    """Open what `sinks.Store` has written, complete or not; nothing is executed or changed.

    Examples
    --------
    >>> import tempfile, numpy as np, asot
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = asot.sinks.Store(folder + "/run.zarr")
    ...     _ = asot.emd_many(np.eye(3), cost=1.0 - np.eye(3), sink=store)
    ...     r = asot.open_store(folder + "/run.zarr")
    ...     r[0, 1], np.asarray(r).tolist()
    (1.0, [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    """
    return Stored(open_files(path), read_model)
