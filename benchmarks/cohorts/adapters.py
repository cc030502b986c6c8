"""Other people's data as collections: what reading takes, beside plain NumPy that does the same and checks nothing.

The plain lines are the work that cannot be avoided: for cells the sorting of the labels and one gather of the rows, for
graphs one gather of the neighbors' features and its sums in every round, for documents one look-up of every token and
one gather of the vectors. Both must give the same numbers. Memory is the peak of a fresh process during the call, above
what was there before. The target is what the collection holds plus one column of the input: a number for every cell,
the list of edges, a number for every token.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asot
from benchmarks.common import (
    Options,
    Report,
    Table,
    below,
    in_fresh_process,
    largest_difference,
    race,
    with_peak_memory,
)

NEEDS = {"anndata"}

MOST_TIMES = 3.0
"""Of the time of the NumPy lines."""

TOLERANCE = 1e-5
"""Of the largest number; features are float32, summed in another order."""

WARM_UP = 50


@dataclass(frozen=True)
class Case:
    """One kind of data: how to make it, read it, and do the same in NumPy."""

    what: str
    make: Callable[[int], Any]
    read: Callable[[Any], asot.Distributions]
    gather: Callable[[Any], NDArray[Any]]
    column: Callable[[Any], int]  # bytes of one column of the input
    size: int
    quick: int


# ---------------------------------------------------------------------------------------------------------------- cells


def make_cells(n: int) -> Any:
    """An AnnData of n cells in 30 dimensions and n / 500 samples, in no order."""
    import anndata
    import pandas as pd

    rng = np.random.default_rng(0)
    names = pd.Index([f"P{i:04}" for i in range(max(2, n // 500))], dtype=object)
    sample = pd.Categorical.from_codes(rng.integers(len(names), size=n), categories=names)
    obs = pd.DataFrame({"sample": sample}, index=pd.RangeIndex(n).astype(str))
    adata = anndata.AnnData(obs=obs)
    adata.obsm["X_pca"] = rng.standard_normal((n, 30), dtype=np.float32)
    return adata


def read_cells(adata: Any) -> asot.Distributions:
    return asot.Distributions.from_anndata(adata, "sample")


def gather_cells(adata: Any) -> NDArray[Any]:
    order = np.argsort(adata.obs["sample"].cat.codes.to_numpy(), kind="stable")
    return np.asarray(adata.obsm["X_pca"][order])


# --------------------------------------------------------------------------------------------------------------- graphs


def make_graphs(n: int) -> Any:
    """What a PyTorch Geometric data set in memory holds: n rings with chords of 10 to 40 nodes, 7 features a node."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(10, 41, size=n)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    own = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    m = np.repeat(sizes, sizes)
    ring = np.stack([own, (own + 1) % m])
    chord = np.stack([own[own == 0], (sizes // 2)])
    ends, owner = [ring, ring[::-1], chord, chord[::-1]], np.repeat(np.arange(n), sizes)
    listed = np.concatenate(ends, axis=1)
    graph = np.concatenate([owner, owner, np.arange(n), np.arange(n)])
    order = np.argsort(graph, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(graph))])
    x = np.eye(7, dtype=np.float32)[rng.integers(7, size=offsets[-1])]
    data = _Data(x=x, edge_index=np.ascontiguousarray(listed[:, order]))
    return SimpleNamespace(_data=data, slices={"x": offsets, "edge_index": starts})


class _Data(dict[str, Any]):
    """As much of PyTorch Geometric's ``Data`` as reading needs."""

    __getattr__ = dict.get


def read_graphs(graphs: Any) -> asot.Distributions:
    return asot.Distributions.from_graphs(graphs, rounds=4)


def gather_graphs(graphs: Any) -> NDArray[Any]:
    x, offsets = graphs._data["x"], graphs.slices["x"]
    ends = graphs._data["edge_index"] + np.repeat(offsets[:-1], np.diff(graphs.slices["edge_index"]))
    order = np.argsort(ends[1], kind="stable")
    source, target = ends[0][order], ends[1][order]
    starts = np.searchsorted(target, np.arange(len(x)))  # every node has neighbors here
    found = [x]
    for _ in range(4):
        found.append(found[-1] + np.add.reduceat(found[-1][source], starts))
    return np.concatenate(found, axis=1)


# ------------------------------------------------------------------------------------------------------------ documents


def make_texts(n: int) -> Any:
    """n documents of 50 to 250 tokens, by a power law over 30,000 words with vectors of 300 numbers."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(30_000)], dtype=object)
    sizes = rng.integers(50, 251, size=n)
    drawn = (30_000 * rng.random(int(sizes.sum())) ** 3).astype(np.int64)
    tokens = words[drawn].tolist()
    ends = np.cumsum(sizes).tolist()
    documents = [tokens[start:end] for start, end in itertools.pairwise([0, *ends])]
    vectors = rng.standard_normal((30_000, 300), dtype=np.float32)
    keyed = SimpleNamespace(key_to_index={word: i for i, word in enumerate(words)}, vectors=vectors)
    return SimpleNamespace(documents=documents, vectors=keyed)


def read_texts(texts: Any) -> asot.Distributions:
    return asot.Distributions.from_texts(texts.documents, texts.vectors)


def gather_texts(texts: Any) -> NDArray[Any]:
    place = texts.vectors.key_to_index
    sizes = np.fromiter(map(len, texts.documents), np.int64, len(texts.documents))
    every = itertools.chain.from_iterable(texts.documents)
    token = np.fromiter((place[word] for word in every), np.int64, int(sizes.sum()))
    owner = np.repeat(np.arange(len(sizes)), sizes)
    distinct, counts = np.unique(owner * len(place) + token, return_counts=True)
    used, index = np.unique(distinct % len(place), return_inverse=True)
    support = texts.vectors.vectors[used]
    assert support.shape[1] == 300
    assert len(index) == len(counts)
    return np.asarray(counts / sizes[distinct // len(place)])


CASES = (
    Case(
        "`from_anndata`, 10⁶ cells × 30 in 2,000 samples",
        make_cells,
        read_cells,
        gather_cells,
        lambda adata: 8 * adata.n_obs,
        1_000_000,
        20_000,
    ),
    Case(
        "`from_graphs`, a data set of 10⁵ graphs, 4 rounds",
        make_graphs,
        read_graphs,
        gather_graphs,
        lambda graphs: graphs._data["edge_index"].nbytes,
        100_000,
        2_000,
    ),
    Case(
        "`from_texts`, 20,000 documents of token lists",
        make_texts,
        read_texts,
        gather_texts,
        lambda texts: 8 * sum(map(len, texts.documents)),
        20_000,
        500,
    ),
)


# ------------------------------------------------------------------------------------------------------------ measuring


def run(options: Options) -> Report:
    """Time every adapter here, and read its memory in a process of its own."""
    rows = [_row(number, case, options.quick) for number, case in enumerate(CASES)]
    columns = ["data", "asot", "NumPy", "times", "collection", "one column", "peak above start", "deviation"]
    table = Table("Best of several repeats, one thread:", columns, rows)
    return Report("adapters", "Reading other people's data", __doc__ or "", [table])


def _row(number: int, case: Case, quick: bool) -> list[str]:
    size = case.quick if quick else case.size
    data = case.make(size)
    contestants: dict[str, Callable[[], Any]] = {
        "asot": partial(case.read, data),
        "NumPy": partial(case.gather, data),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = race(contestants, _deviation, repeats=2 if quick else 5, tolerance=TOLERANCE)
    ours, theirs = found.seconds["asot"], found.seconds["NumPy"]
    held, column, peak = in_fresh_process(_memory, number, size)
    return [
        case.what if not quick else f"{case.what} (quick: {size:,})",
        f"{ours:.3f} s",
        f"{theirs:.3f} s",
        below(ours / theirs, MOST_TIMES, "×"),
        f"{held / 1e6:,.0f} MB",
        f"{column / 1e6:,.0f} MB",
        below(peak / 1e6, (held + column) / 1e6, "MB"),
        f"{max(found.deviations.values()):.0e}",
    ]


def _deviation(answers: dict[str, Any]) -> dict[str, float]:
    D, plain = answers["asot"], answers["NumPy"]
    if plain.ndim == 2:
        return {"points": largest_difference(D.points, plain, float(np.abs(plain).max()))}
    return {"masses": largest_difference(np.sort(D.masses), np.sort(plain), 1.0)}


def _memory(number: int, size: int) -> tuple[int, int, int]:
    """Bytes that the collection holds, bytes of one column, and the peak of the call."""
    case = CASES[number]
    small = case.make(WARM_UP * 20)
    case.read(small)
    data = case.make(size)
    _give_back_free_memory()
    D, peak = with_peak_memory(partial(case.read, data))
    parts = [D.offsets, D.masses, D.totals, *(D.vocabulary or (D.points,))]
    return sum(part.nbytes for part in parts), case.column(data), peak


def _give_back_free_memory() -> None:
    """What the making of the data left behind would otherwise be used again, and not be counted."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
