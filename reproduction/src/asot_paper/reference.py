"""Exact distances as the reference, computed once per collection.

They are kept in memory and as ``.npy`` files in a folder beside the results, filed under a fingerprint of the data
themselves: all methods, conditions and seeds with the same collection share them, and a changed file or feature is
never compared with old numbers.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import asot
from asot.data.distributions import Distributions
from asot.data.npz import atomic_write, read_array
from asot_paper.problems import fingerprint

Float = NDArray[np.float64]

KEPT_BYTES = 500_000_000
"""Distances kept in memory. NCI1 has 68 MB of them, ZINC's test molecules 100 MB."""


class References:
    """Exact W_1 of all pairs of collections.

    Parameters
    ----------
    folder : Path
        Where the files are; created when the first one is written.
    jobs : int
        Threads to compute with.
    """

    def __init__(self, folder: Path, jobs: int) -> None:
        self._folder, self._jobs = folder, jobs
        self._kept: OrderedDict[str, Float] = OrderedDict()

    def distances(self, D: Distributions) -> Float:
        """W_1 of all pairs i < j (P,), from memory, from the file, or computed now."""
        key = fingerprint(D)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        found = self._read(key, len(D) * (len(D) - 1) // 2)
        if found is None:
            found = asot.pairwise_exact(D, n_jobs=self._jobs, progress=False).values
            self._write(key, found)
        self._keep(key, found)
        return found

    def put(self, D: Distributions, values: Float) -> None:
        """Keep distances that were computed elsewhere."""
        key = fingerprint(D)
        self._write(key, values)
        self._keep(key, values)

    def _keep(self, key: str, values: Float) -> None:
        self._kept[key] = values
        while len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npy"

    def _read(self, key: str, n_pairs: int) -> Float | None:
        """The contents of the file, or None if there is no usable one; a damaged one is computed again."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            values = read_array(path)
        except (ValueError, OSError):
            return None
        whole = values.shape == (n_pairs,) and values.dtype == np.float64 and bool(np.isfinite(values).all())
        return values if whole else None

    def _write(self, key: str, values: Float) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(self._path(key)) as stream:
            np.save(stream, values, allow_pickle=False)
