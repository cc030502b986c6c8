"""TU collections of graphs (Morris et al. 2020), read from their archives: every graph is the bag of its nodes.

An archive holds a few text tables. Nodes are numbered from 1 through the whole collection, labels are any integers,
nodes may have no neighbor, and most tables may be missing. All of this is handled, and anything invalid raises an error
that names the table and the line.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.adapters.graphs import check_edges_stay_inside, from_pyg
from asot.datasets.dataset import Dataset
from asot_paper.datasets import catalogue
from asot_paper.datasets.archives import ZipMembers, open_zip
from asot_paper.datasets.features import describe_rounds, one_hot
from asot_paper.datasets.fetch import Found, obtain
from asot_paper.datasets.folder import PathLike
from asot_paper.datasets.tu_text import read_floats, read_integers

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_LIST_OF_NAMES = "https://chrsmrrs.github.io/datasets/docs/datasets/"


def load_tu(
    name: str,
    *,
    rounds: int = 4,
    eps: float = 0.0,
    attributes: bool = False,
    folder: PathLike | None = None,
    download: bool = True,
) -> Dataset:
    """A TU collection of graphs: every graph is the bag of its nodes' features, all with the same mass.

    Parameters
    ----------
    name : str
        "MUTAG", "PTC_MR", "ENZYMES", "BZR", "COX2", "NCI1", whose checksums are known, or any other name of the
        TUDataset collection.
    rounds, eps : int, float
        How node features are computed from what nodes start with, see `graph_features`.
    attributes : bool
        Start from the real-valued attributes of the nodes in place of their labels. Few collections have them.
    folder : path, optional
        The data folder; the archive is ``tu/NAME.zip`` in it. By default the folder that the environment variable
        ``ASOT_DATA`` names, or else the user's cache.
    download : bool
        Whether to download a missing archive. A line on stderr says what is downloaded.

    Returns
    -------
    Dataset
        With the class of every graph as labels (None if the collection has none). Nodes start with their one-hot
        labels, with a column for each label that occurs. In a collection without node labels, all nodes start with the
        number 1; ``about["features"]`` says so.

    Examples
    --------
    >>> from asot.datasets import load_tu
    >>> graphs, labels, about = load_tu("MUTAG")             # doctest: +SKIP
    >>> graphs                                               # doctest: +SKIP
    Distributions: 188 distributions of 10 to 28 points (mean 17.9, 3,371 in all) in 35 dimensions, float64
    """
    _check_name(name)
    found = _archive(name, folder, download)
    graphs = read_tu(found.path, name, attributes=attributes)
    start, described = _start(graphs, rounds, found.path)
    D = from_pyg(start, graphs.edges.T, graphs.graph, rounds=rounds, eps=eps)
    about = {
        "name": name,
        "features": describe_rounds(described, start.shape[1], rounds, eps),
        "source": str(found.path),
        "home": catalogue.tu_archive(name).urls[0],
        "verified": "content, without the attributes" if attributes and found.verified == "content" else found.verified,
    }
    return Dataset(D, graphs.classes, about)


def load_tu_graphs(
    name: str, *, attributes: bool = False, folder: PathLike | None = None, download: bool = True
) -> TUGraphs:
    """The graphs themselves of a TU set, for `Distributions.from_graphs` with features of your choice.

    Arguments are those of `load_tu`.

    >>> from asot.datasets import load_tu_graphs
    >>> graphs = load_tu_graphs("MUTAG")                                       # doctest: +SKIP
    >>> asot.Distributions.from_graphs(graphs, features="wl", rounds=3)        # doctest: +SKIP
    """
    _check_name(name)
    return read_tu(_archive(name, folder, download).path, name, attributes=attributes)


@dataclass(frozen=True, eq=False)
class TUGraphs:
    """What a TU archive says: n nodes in N graphs, m listed edges."""

    graph: NDArray[np.int64]  # (n,) from 0
    edges: NDArray[np.int64]  # (m, 2) nodes from 0
    node_labels: NDArray[np.int64] | None  # (n, columns), mostly one column
    node_attributes: NDArray[np.float64] | None  # (n, columns), if they were asked for
    classes: NDArray[np.int64] | None  # (N,)

    @property
    def n_graphs(self) -> int:
        return int(self.graph.max()) + 1

    def start(self, attributes: str | None = None) -> NDArray[np.float64]:
        """What nodes begin with (n, d): "labels" one-hot, "attributes", or 1; None takes the first there is."""
        if attributes not in (None, "labels", "attributes"):
            raise ValueError(f"attributes must be None, 'labels' or 'attributes' for a TU set; found {attributes!r}")
        if attributes == "attributes" or (attributes is None and self.node_labels is None):
            if self.node_attributes is not None:
                return self.node_attributes
            if attributes is not None:
                raise ValueError("these graphs have no node attributes; load them with attributes=True, if they exist")
        if self.node_labels is not None:
            return np.hstack([one_hot(column) for column in self.node_labels.T])
        if attributes is not None:
            raise ValueError("these graphs have no node labels")
        return np.ones((len(self.graph), 1))


def read_tu(path: Path, name: str, *, attributes: bool = False) -> TUGraphs:
    """Read and check the archive of the set ``name``; node attributes only if they are asked for."""
    with open_zip(path) as members:
        graph = _integers(members, f"{name}_graph_indicator.txt", columns=1)[:, 0] - 1
        edges = _integers(members, f"{name}_A.txt", columns=2) - 1
        labels = _integers_if_there(members, f"{name}_node_labels.txt")
        numbers = _floats(members, f"{name}_node_attributes.txt") if attributes else None
        classes = _integers_if_there(members, f"{name}_graph_labels.txt", columns=1)
    what = f"{path}: {name}"
    _check_graph(graph, f"{what}_graph_indicator.txt")
    check_edges_stay_inside(edges, graph, f"{what}_A.txt", first=1)
    n_graphs = int(graph.max()) + 1
    for table, rows, kind, noun in (
        (labels, len(graph), "node_labels", "nodes"),
        (numbers, len(graph), "node_attributes", "nodes"),
        (classes, n_graphs, "graph_labels", "graphs"),
    ):
        if table is not None and len(table) != rows:
            raise ValueError(
                f"{what}_{kind}.txt has {len(table):,} lines, but there are {rows:,} {noun}; "
                "the archive is truncated or damaged"
            )
    return TUGraphs(graph, edges, labels, numbers, None if classes is None else classes[:, 0])


def graphs_digest(graphs: TUGraphs) -> str:
    """sha256 of graphs, labels and classes, no matter how they are packed and written."""
    digest = hashlib.sha256()
    for table in (graphs.graph, graphs.edges, graphs.node_labels, graphs.classes):
        if table is None:
            digest.update(b"none")
        else:
            digest.update(str(table.shape).encode())
            digest.update(np.ascontiguousarray(table, dtype="<i8").tobytes())
    return digest.hexdigest()


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"name must be the name of a TU set, such as 'MUTAG' (see {_LIST_OF_NAMES}); found {name!r}")
    if name not in catalogue.TU_GRAPHS and name.upper() in catalogue.TU_GRAPHS:
        raise ValueError(f"there is no TU set {name!r}; did you mean {name.upper()!r}?")


def _archive(name: str, folder: PathLike | None, download: bool) -> Found:
    """The archive of a set, verified by what is known about it."""
    known = catalogue.TU_GRAPHS.get(name)
    try:
        return obtain(
            catalogue.tu_archive(name),
            folder,
            download=download,
            same_content=None if known is None else lambda path: graphs_digest(read_tu(path, name)) == known,
            check=lambda path: read_tu(path, name),
        )
    except ConnectionError as error:
        raise ConnectionError(f"{error}. The names of TU sets are at {_LIST_OF_NAMES}") from error


def _check_graph(graph: NDArray[np.int64], what: str) -> None:
    if len(graph) == 0:
        raise ValueError(f"{what} is empty: the collection has no node")
    if graph.min() < 0:
        raise ValueError(f"{what} names the graph {graph.min() + 1}; graphs are numbered from 1")
    if graph.max() >= len(graph):
        raise ValueError(f"{what} names the graph {graph.max() + 1:,}, but has only {len(graph):,} lines")
    sizes = np.bincount(graph)
    if sizes.min() == 0:
        raise ValueError(f"{what} gives no node to graph {int(np.argmin(sizes)) + 1}; every graph needs a node")


def _start(graphs: TUGraphs, rounds: Any, path: Path) -> tuple[NDArray[np.float64], str]:
    """What nodes start with (n, d), and its name."""
    if graphs.node_attributes is not None:
        return graphs.node_attributes, "node attributes"
    if graphs.node_labels is not None:
        return np.hstack([one_hot(column) for column in graphs.node_labels.T]), "one-hot node labels"
    if rounds == 0:
        raise ValueError(f"{path} has no node labels, so with rounds=0 all nodes are alike; use rounds=1 or more")
    return np.ones((len(graphs.graph), 1)), "the number 1 (there are no node labels)"


def _integers_if_there(members: ZipMembers, name: str, columns: int | None = None) -> NDArray[np.int64] | None:
    return _integers(members, name, columns) if name in members else None


def _integers(members: ZipMembers, name: str, columns: int | None = None) -> NDArray[np.int64]:
    return read_integers(members.read(name), f"{members.path}: {name}", columns)


def _floats(members: ZipMembers, name: str) -> NDArray[np.float64]:
    return read_floats(members.read(name), f"{members.path}: {name}")
