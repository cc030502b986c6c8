"""What finds candidates for the nearest, beside `asot.Index`: sliced distances, centroids, MUVERA, and gensim.

Each rival has vectors of fixed length in a flat index of faiss (or of its own), and the candidates that it finds are
solved exactly. How many it needs is chosen on the very queries that are timed, in its favor.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asot
from benchmarks.peers.peers import Unavailable, checked, pot

Encoded = tuple[NDArray[np.float32], NDArray[np.float32], float]
"""Vectors of members and of queries, and seconds to encode a query."""

_RUNNER = Path(__file__).with_name("peer_muvera.py")
_NEW_ENOUGH = ("python3.12", "python3.13", "python3.14")


class FlatCandidates:
    """The members whose vectors are nearest, by faiss."""

    def __init__(self, members: NDArray[np.float32], by_product: bool) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self._index = (faiss.IndexFlatIP if by_product else faiss.IndexFlatL2)(members.shape[1])
        self._index.add(members)

    def __call__(self, query: NDArray[np.float32], count: int) -> NDArray[np.int64]:
        return self._index.search(query[None], count)[1][0]


def centroids(D: asot.Distributions) -> NDArray[np.float32]:
    """Means of distributions (N, d)."""
    return np.add.reduceat(D.masses[:, None] * D.points, D.offsets[:-1]).astype(np.float32)


class Slices:
    """Quantiles of projections on random directions, so that squared distances are those of sliced W₂."""

    def __init__(self, dim: int, directions: int = 64, quantiles: int = 8) -> None:
        turned = np.random.default_rng(0).normal(size=(dim, directions))
        self._directions = turned / np.linalg.norm(turned, axis=0)
        self._levels = (np.arange(quantiles) + 0.5) / quantiles

    def __call__(self, D: asot.Distributions) -> NDArray[np.float32]:
        projected = D.points @ self._directions
        out = np.empty((len(D), len(self._levels), projected.shape[1]), dtype=np.float32)
        for i in range(len(D)):
            rows = slice(D.offsets[i], D.offsets[i + 1])
            y, masses = projected[rows], D.masses[rows]
            order = np.argsort(y, axis=0)
            filled = np.cumsum(masses[order], axis=0)
            places = (filled[None] < self._levels[:, None, None]).sum(axis=1).clip(max=len(y) - 1)
            out[i] = np.take_along_axis(y, np.take_along_axis(order, places, axis=0), axis=0)
        return out.reshape(len(D), -1)


def muvera(members: asot.Distributions, queries: asot.Distributions, folder: Path) -> Encoded | str:
    """Fixed-dimensional encodings by pymuvera, in a process of its own since it needs Python 3.12; or why not.

    Points are centered and lifted to the sphere, where inner products order pairs as distances do.
    """
    python = _muvera_python(folder)
    if python is None:
        return "no Python 3.12 with pymuvera"
    center = members.points.mean(axis=0)
    reach = max(np.linalg.norm(D.points - center, axis=1).max() for D in (members, queries))
    with tempfile.TemporaryDirectory() as exchange:
        given, made = Path(exchange) / "given.npz", Path(exchange) / "made.npz"
        arrays = {}
        for name, D in (("members", members), ("queries", queries)):
            x = (D.points - center) / reach
            lifted = np.sqrt(np.maximum(0.0, 1.0 - (x * x).sum(axis=1)))
            arrays[f"{name}_points"] = np.column_stack([x, lifted]).astype(np.float32)
            arrays[f"{name}_offsets"] = D.offsets
        np.savez(given, **arrays)
        checked([python, str(_RUNNER), str(given), str(made)])
        with np.load(made) as file:
            return file["members"], file["queries"], float(file["seconds"])


def _muvera_python(folder: Path) -> str | None:
    """A Python that has pymuvera: ours, or that of an environment in a folder, which is made if it can be."""
    newer = sys.executable if sys.version_info >= (3, 12) else next(filter(None, map(shutil.which, _NEW_ENOUGH)), None)
    held = folder / "muvera" / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not held.exists():
        if newer is None:
            return None
        try:
            checked([newer, "-m", "venv", str(folder / "muvera")])
            checked([str(held), "-m", "pip", "install", "-q", "pymuvera==0.4.2"])
        except (OSError, Unavailable):
            shutil.rmtree(folder / "muvera", ignore_errors=True)
            return None
    return str(held)


def gensim_distances(members: asot.Distributions) -> Callable[[asot.Distributions], NDArray[np.float64]] | str:
    """All distances of a query by gensim's ``wmdistance``, as its ``WmdSimilarity`` takes them; or why not."""
    try:
        pot()  # which gensim calls, and which is slower if it may look for other libraries of arrays
        from gensim.models import KeyedVectors
    except ImportError:
        return "no gensim"
    vectors: Any = KeyedVectors(members.dim)
    known: dict[bytes, str] = {}

    def tokens(D: asot.Distributions, i: int) -> list[str]:
        rows = slice(D.offsets[i], D.offsets[i + 1])
        counts = np.rint(D.masses[rows] * D.totals[i]).astype(int)
        names = []
        for point, count in zip(D.points[rows], counts, strict=True):
            name = known.setdefault(point.tobytes(), str(len(known)))
            if name not in vectors.key_to_index:
                vectors.add_vectors([name], point[None].astype(np.float32))
            names += [name] * int(count)
        return names

    documents = [tokens(members, i) for i in range(len(members))]

    def distances(query: asot.Distributions) -> NDArray[np.float64]:
        asked = tokens(query, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.array([vectors.wmdistance(asked, document, norm=False) for document in documents])

    return distances
