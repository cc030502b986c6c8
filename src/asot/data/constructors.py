"""All the ways to make a collection, in one place.

Each is thin. Lists, labels and weights are read by `asot.data.flatten`; data from other libraries is read by an adapter
in `asot.data.adapters`, which is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from asot.data.flatten import flatten_groups, flatten_list, flatten_weights

if TYPE_CHECKING:
    from asot.data.distributions import Distributions


class Constructors:
    """Class methods of `Distributions`."""

    _taken: Callable[..., Distributions]
    _on_support: Callable[..., Distributions]

    @classmethod
    def from_list(
        cls, arrays: Sequence[Any], masses: Sequence[Any] | None = None, ids: Sequence[Any] | None = None
    ) -> Distributions:
        """From a list of point arrays (n_i, d), and optionally a list of mass arrays (n_i,).

        Or a list of (points, masses) tuples, as ``list(D)`` gives them. The index of a pandas column of arrays becomes
        the ids, unless pandas made it up.

        >>> import asot
        >>> D = asot.Distributions.from_list([[[0, 0], [1, 1]], [[2, 2]]], ids=["left", "right"])
        >>> D.sizes
        array([2, 1])
        """
        return cls._taken(*flatten_list(arrays, masses, ids))

    @classmethod
    def blocks(
        cls,
        points: Any,
        offsets: Any,
        masses: Any = None,
        ids: Sequence[Any] | None = None,
        *,
        max_points: int = 1_000_000,
    ) -> Iterator[tuple[slice, Distributions]]:
        """A collection that is larger than memory, some distributions at a time, each with its place in the whole.

        Parameters
        ----------
        points : array (n, d) that can be sliced: a Zarr array, an HDF5 data set, a NumPy memory map
        offsets, masses, ids
            As in `Distributions`; masses may be such an array, too. Ids are the places in the whole by default.
        max_points : int
            Points of a block at most, unless a single distribution has more.

        >>> import numpy as np, asot
        >>> points = np.arange(12.0).reshape(6, 2)
        >>> for place, D in asot.Distributions.blocks(points, [0, 2, 3, 6], max_points=3):
        ...     print(place, D.sizes)
        slice(0, 2, None) [2 1]
        slice(2, 3, None) [3]
        """
        from asot.data.reading import read_blocks

        return read_blocks(cls, points, offsets, masses, ids, max_points)

    @classmethod
    def from_groups(cls, points: Any, labels: Any, masses: Any = None) -> Distributions:
        """From points (n, d) and one label per point: points with equal labels form a distribution.

        Distributions are ordered by label, and the label becomes their id; points keep their order. Points, labels and
        masses with a pandas index are aligned by that index. With a data frame, ``labels`` and ``masses`` may be the
        names of its columns; all others are coordinates.

        >>> import asot
        >>> D = asot.Distributions.from_groups([[0.0], [5.0], [1.0]], ["b", "a", "b"])
        >>> D.ids
        array(['a', 'b'], dtype='<U1')
        >>> D.sizes
        array([1, 2])
        """
        return cls._taken(*flatten_groups(points, labels, masses))

    @classmethod
    def from_weights(cls, weights: Any, support: Any, ids: Sequence[Any] | None = None) -> Distributions:
        """From weights (N, V), dense or scipy.sparse, over a shared vocabulary of points (V, d).

        Only points with weight become part of a distribution. The vocabulary is stored once, and the points of a
        distribution are looked up in it.

        >>> import numpy as np, asot
        >>> D = asot.Distributions.from_weights(np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), np.eye(3))
        >>> D.sizes, D.totals
        (array([2, 1]), array([4., 2.]))
        """
        vocabulary, index, offsets, masses, names = flatten_weights(weights, support, ids)
        return cls._on_support(vocabulary, index, offsets, masses, names, is_own=True)

    @classmethod
    def from_table(cls, table: Any, by: str, points: str | Sequence[str], masses: str | None = None) -> Distributions:
        """From a pandas, polars or Arrow table, by column name.

        Parameters
        ----------
        table : data frame or table
            Long: one row per point. Or nested: one row per distribution, with lists in the columns of points.
        by : str
            The column that names the distribution of a row.
        points : list of str
            The columns of the coordinates. Nested tables have lists of numbers in them, or one column of points.
        masses : str, optional
            The column of the masses.

        Distributions are ordered by name; those of a nested table keep the order of its rows.

        >>> import pandas as pd, asot
        >>> cells = pd.DataFrame({"patient": ["eve", "adam", "eve"], "x": [0.0, 5.0, 1.0], "y": [0.0, 0.0, 2.0]})
        >>> D = asot.Distributions.from_table(cells, by="patient", points=["x", "y"])
        >>> D.ids.tolist(), D.sizes.tolist()
        (['adam', 'eve'], [1, 2])
        """
        from asot.data.adapters.table import flatten_table

        return cls._taken(*flatten_table(table, by, points, masses))

    @classmethod
    def from_anndata(cls, adata: Any, groupby: str, *, use_rep: str = "X_pca", masses: Any = None) -> Distributions:
        """From an AnnData: the cells of every sample.

        Parameters
        ----------
        adata : AnnData
            In memory, a view, or backed by a file.
        groupby : str
            The column of ``obs`` that names the sample of a cell.
        use_rep : str
            The coordinates of a cell: a key of ``obsm`` (such as "X_pca" or "X_umap"), "X" for the matrix itself, or a
            key of ``layers``. A sparse matrix is made dense, with a warning.
        masses : str or array-like (n_cells,), optional
            A column of ``obs``, or a mass for every cell.

        >>> import anndata, asot                                              # doctest: +SKIP
        >>> D = asot.Distributions.from_anndata(adata, "patient")              # doctest: +SKIP
        """
        from asot.data.adapters.cells import flatten_anndata

        return cls._taken(*flatten_anndata(adata, groupby, use_rep, masses))

    @classmethod
    def from_graphs(
        cls,
        graphs: Any,
        *,
        features: str | Callable[[Any], Any] | None = None,
        rounds: int = 4,
        attributes: str | None = None,
        edge_weight: str | None = None,
        eps: float = 0.0,
        ids: Sequence[Any] | None = None,
    ) -> Distributions:
        """From networkx or PyTorch Geometric graphs: a graph is the bag of its nodes' features.

        Parameters
        ----------
        graphs : list of graphs, or a data set
            networkx graphs, PyTorch Geometric ``Data`` objects, a ``Batch``, a data set in memory, or what
            `asot.datasets.load_tu_graphs` returns.
        features : {"sum", "mean", "wl"} or callable, optional
            What a node is. "sum" (the default): x ← (1 + eps) x + Σ_neighbors x, all rounds concatenated, as in the
            paper. "mean": x ← (x + mean over neighbors) / 2, as in WWL for real features. "wl": Weisfeiler-Lehman
            labels, one per round, to be compared with ``metric="hamming"``. A function takes a graph and returns the
            features of its nodes (n, d).
        rounds : int
            How many steps away a node can see; of no use to a function.
        attributes : str, optional
            The node attribute to start from. Strings and integers are labels, everything else is numeric. Default:
            PyTorch Geometric's ``x`` if there is one; otherwise all nodes start alike.
        edge_weight : str, optional
            The edge attribute that holds weights. By default, every edge has weight 1.
        eps : float
            Extra weight of a node relative to its neighbors, with "sum".
        ids : sequence, optional
            Names of the graphs.

        Graphs that are to be compared must be read in one call, so that a label has the same column in all of them.

        >>> import networkx as nx, asot                                        # doctest: +SKIP
        >>> D = asot.Distributions.from_graphs([nx.path_graph(4), nx.cycle_graph(5)], rounds=2)  # doctest: +SKIP
        """
        from asot.data.adapters.graph_collections import flatten_graphs

        flat = flatten_graphs(graphs, features, rounds, attributes, edge_weight, eps)
        return cls._taken(*flat, None, ids)

    @classmethod
    def from_texts(
        cls,
        documents: Any,
        vectors: Any,
        *,
        words: Sequence[str] | None = None,
        idf: bool = False,
        norm: bool = False,
        unknown: str = "warn",
        ids: Sequence[Any] | None = None,
    ) -> Distributions:
        """From documents and word vectors: a document is the bag of its words, each with its count as mass.

        Parameters
        ----------
        documents : list of lists of str, or sparse matrix (N, V)
            Tokens; or counts over a vocabulary, as from scikit-learn's ``CountVectorizer`` and ``TfidfVectorizer``,
            with `words` naming the columns.
        vectors : gensim KeyedVectors, dict, data frame or array
            The vector of every word: ``{word: vector}``, a frame with the words as its index, or an array (V, d) whose
            rows belong to `words`.
        words : sequence of str, optional
            The words of the columns of a matrix, or of the rows of an array of vectors.
        idf : bool
            Multiply counts by ln((1 + N) / (1 + df)) + 1, as scikit-learn does: rare words weigh more.
        norm : bool
            Scale vectors to length 1, as gensim's ``wmdistance`` does; Kusner's word mover's distance does not.
        unknown : {"warn", "drop", "raise"}
            What to do about words without a vector. By default, they are left out, and a warning says how many.
        ids : sequence, optional
            Names of the documents.

        The vectors of the words that occur are stored once, not for every document.

        >>> import asot
        >>> vectors = {"cat": [0.0, 1.0], "dog": [0.2, 1.0], "bus": [3.0, 0.0]}
        >>> D = asot.Distributions.from_texts([["cat", "dog", "cat"], ["bus"]], vectors)
        >>> D.masses.round(3).tolist()
        [0.667, 0.333, 1.0]
        """
        from asot.data.adapters.texts import flatten_texts

        return cls._on_support(*flatten_texts(documents, vectors, words, idf, norm, unknown, ids), is_own=True)

    @classmethod
    def from_images(cls, stack: Any, ids: Sequence[Any] | None = None) -> Distributions:
        """From gray images (N, H, W): the ink of a pixel is mass at its position (row, column).

        Distances are in pixels. Blank pixels are left out.

        >>> import numpy as np, asot
        >>> D = asot.Distributions.from_images(np.array([[[0, 2], [0, 0]], [[0, 0], [3, 1]]]))
        >>> D.points.tolist(), D.masses.tolist()
        ([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [1.0, 0.75, 0.25])
        """
        from asot.data.adapters.images import flatten_images

        return cls._on_support(*flatten_images(stack, ids), is_own=True)

    @classmethod
    def from_jets(
        cls, events: Any, *, coords: str = "hadronic", center: bool = False, ids: Sequence[Any] | None = None
    ) -> Distributions:
        """From collider events: a particle is a point (y, φ), and its transverse momentum is the mass.

        Parameters
        ----------
        events : array-like (N, M, 3 or 4), list of arrays (n_i, 3 or 4), or awkward array
            As EnergyFlow has them, filled up with rows of zeros, which are left out; or awkward lists of particles,
            with the fields pt, y (or rapidity, or eta) and phi, or without names. Further columns, such as particle
            ids or masses, do not count.
        coords : {"hadronic", "cartesian"}
            Columns are (pT, y, φ) or (E, px, py, pz).
        center : bool
            Move the mean direction of every event to the origin, as is done to compare jets. Otherwise an azimuth
            just below π is far from one just above -π, unless the ground metric is "periodic".
        ids : sequence, optional
            Names of the events.

        Totals are kept, so the energy mover's distance times R is that with ``unmatched=R``:

        >>> import numpy as np, asot
        >>> events = np.array([[[5.0, 0.0, 0.1], [0.0, 0.0, 0.0]], [[3.0, 0.0, 0.1], [1.0, 0.4, 0.1]]])
        >>> D = asot.Distributions.from_jets(events)
        >>> D.sizes, D.totals
        (array([1, 2]), array([5., 4.]))
        >>> asot.pairwise_exact(D, unmatched=1.0).values.round(3)
        array([1.4])
        """
        from asot.data.adapters.jets import flatten_jets

        return cls._taken(*flatten_jets(events, coords, center, ids))

    @classmethod
    def from_diagrams(
        cls, diagrams: Sequence[Any], *, infinity: float | str | None = None, ids: Sequence[Any] | None = None
    ) -> Distributions:
        """From persistence diagrams (n_i, 2) of births and deaths, which may be empty; every point has mass 1.

        Parameters
        ----------
        diagrams : list of array-like (n_i, 2)
        infinity : float or "drop", optional
            What to do with points at infinity: a number to replace infinity with, or "drop". None refuses them.
        ids : sequence of length N, optional

        Points on the diagonal are left out. An empty diagram becomes one of them, such as (0, 0), and has the total 0:
        it has distances where ``unmatched=`` says what points without a partner cost. With "diagonal", they are those
        of GUDHI:

        >>> import asot
        >>> D = asot.Distributions.from_diagrams([[[0.0, 1.0], [0.2, 0.5]], [[0.0, 1.2]]])
        >>> asot.pairwise_exact(D, p=1, metric="chebyshev", unmatched="diagonal").values.round(3)
        array([0.35])
        """
        from asot.data.adapters.diagrams import read_diagrams

        points, masses, held = read_diagrams(diagrams, infinity, ids)
        D = cls.from_list(points, masses, ids)
        return D._replaced(totals=D.totals * held)

    @classmethod
    def from_spaces(cls, X: Any, *, p: float = 2, masses: Any = None, bins: int | None = None) -> Distributions:
        """From spaces that are known by their distances: clouds whose W_p is a lower bound of `asot.gromov`.

        A point of a space becomes its sorted distances to all points, as a quantile function that is averaged over
        ``bins`` bins, scaled so that the W_p between two clouds is the third lower bound of GW_p, the ½ included. So
        `pairwise_exact`, `kneighbors` and stores apply to shapes and graphs without common features.

        Parameters
        ----------
        X, masses
            Spaces, as in `asot.gromov`.
        p : float from 1 to 16
            Compute the distances with this order. For p = 2, that is ``pairwise_exact(D, p=2)``; others need the
            ground distance of that order, too: ``pairwise_exact(D, p=p, metric="minkowski", metric_params={"p": p})``.
        bins : int, optional
            Default: the number of points, which loses nothing where all spaces have as many, with equal masses; at
            most 128 otherwise. Fewer bins are faster, and still a lower bound.

        >>> import numpy as np, asot
        >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
        >>> asot.pairwise_exact(asot.Distributions.from_spaces([line, 2 * line]), p=2).values.round(6)
        array([0.790569])
        """
        from asot.data.spaces.quantiles import flatten_spaces

        return cls._taken(*flatten_spaces(X, p, masses, bins))

    @classmethod
    def from_structures(
        cls, structures: Sequence[Any], *, k: int = 100, fractional: bool = False, ids: Sequence[Any] | None = None
    ) -> Distributions:
        """From crystals: every atom of a cell becomes the distances to its k nearest atoms in the endless crystal.

        Parameters
        ----------
        structures : list of pymatgen structures, ASE atoms, or pairs (lattice (3, 3), positions (n_i, 3))
            Cell vectors are the rows of a lattice.
        k : int
        fractional : bool
            Whether positions of pairs are shares of the cell vectors instead of Cartesian coordinates.
        ids : sequence of length N, optional

        Atoms with the same surroundings are one point (k,) with the mass of all of them. Compare with
        ``metric="chebyshev"``; crystals that are equal but for the choice of their cell have the distance 0:

        >>> import numpy as np, asot
        >>> body_centered = (np.eye(3), [[0, 0, 0], [0.5, 0.5, 0.5]])
        >>> primitive = (0.5 * np.array([[-1, 1, 1], [1, -1, 1], [1, 1, -1]]), [[0, 0, 0]])
        >>> D = asot.Distributions.from_structures([body_centered, primitive, (np.eye(3), [[0, 0, 0]])], k=20)
        >>> asot.pairwise_exact(D, metric="chebyshev").values.round(3)
        array([0.   , 0.548, 0.548])
        """
        from asot.data.adapters.crystals import read_structures

        return cls.from_list(*read_structures(structures, k, fractional, ids), ids)
