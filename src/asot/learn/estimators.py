"""Exact distances as scikit-learn estimators for pipelines: `asot.WassersteinKernel` and `asot.WassersteinNeighbors`.

Distances do not depend on γ. They are cached by the content of the distributions (`asot.learn.recent`), so a search
over γ solves every pair once, in whichever folds it occurs. Kernels are cached, too, since a search over other
parameters of the pipeline asks for the same ones, and their eigenvalues, again.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from asot._typing import Float, Indices, Parameters
from asot.anchors.base import ReadsCollections
from asot.data.distributions import Distributions
from asot.distances import pairwise, pairwise_exact
from asot.ground.metrics import FROM_POINTS
from asot.index.growing import FEWEST
from asot.index.index import Index
from asot.learn.kernel import Kernel, kernel
from asot.learn.recent import key_of, known_distances, recalled, remember
from asot.neighbors import kneighbors, radius_neighbors
from asot.renamed import prune_of
from asot.results.neighbors import Neighbors, RadiusNeighbors
from asot.run import devices
from asot.run.executors import ProgressLike
from asot.validation import as_choice, as_positive_int

MOST_QUERIES = 64
"""Up to so many queries are asked one by one of what was prepared; more of them are worth a search of their own."""

_DISTANCE = ("p", "metric", "metric_params", "unmatched")
_WHICH = ("space", *_DISTANCE, "prune")
_HOW = ("device", "n_jobs", "memory", "progress")


class _Transformer(ReadsCollections, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    _made = "collection_"

    def _given(self, *names: str) -> dict[str, Any]:
        """Parameters by name."""
        return {name: getattr(self, name) for name in names}


@dataclass(eq=False, repr=False)
class WassersteinKernel(_Transformer):
    """The kernel exp(-γ W_p) with the fitted collection, for ``SVC(kernel="precomputed")`` and similar estimators.

    Parameters
    ----------
    gamma : float, optional
        Default: 1 / (median of the positive distances within the fitted collection).
    psd : {"clip", "shift", None}
        What to do about negative eigenvalues, as in `asot.kernel`.
    p, metric, metric_params, unmatched
        Which distance, as in `asot.pairwise_exact`; `unmatched` is a number or "diagonal".
    error : float or str, optional
        Estimates within this error, as in `asot.pairwise`, such as "2%". Default: exact distances.
    device, n_jobs, memory, progress
        As in `asot.pairwise_exact`.
    random_state : int, RandomState or None
        Seed of estimates; None is a fixed one.

    Attributes
    ----------
    collection_ : Distributions
    kernel_ : Kernel
        The kernel of the fitted collection; ``kernel_.done`` says what was done about negative eigenvalues.
    n_features_in_ : int

    Examples
    --------
    >>> import asot
    >>> from asot.datasets import load_digits
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> digits, labels, _ = load_digits(120)
    >>> model = make_pipeline(asot.WassersteinKernel(), SVC(kernel="precomputed", C=10))
    >>> search = GridSearchCV(model, {"wassersteinkernel__gamma": [1.0, 5.0, 25.0]}, cv=3).fit(digits, labels)
    >>> bool(search.best_score_ > 0.8)
    True
    """

    gamma: float | None = None
    _: KW_ONLY
    psd: str | None = "clip"
    p: float = 1
    metric: str = "euclidean"
    metric_params: Parameters | None = None
    unmatched: Any = None
    error: float | str | None = None
    device: str = "auto"
    n_jobs: int | None = None
    memory: int | str | None = None
    progress: ProgressLike = None
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> WassersteinKernel:
        """Use a collection as the reference for all kernels; ``y`` is not used."""
        D = self._read(X, reset=True)
        key = self._key("kernels", D, self.gamma, self.psd)
        found = recalled(key)
        if found is None:
            found = kernel(self._distances(D, None), self.gamma, psd=self.psd)
            found.matrix.flags.writeable = False  # it may belong to several models
            remember(key, found, 2 * found.matrix.nbytes)
        self.kernel_: Kernel = found
        self.collection_: Distributions = D
        return self

    def transform(self, X: Any) -> Float:
        """Kernel (N, M) of a collection with the fitted one."""
        check_is_fitted(self)
        D = self._read(X, reset=False)
        if key_of(D) == key_of(self.collection_):
            return self.kernel_.matrix.copy()
        return self.kernel_.between(self._distances(D, self.collection_))

    def _distances(self, D: Distributions, E: Distributions | None) -> Float:
        if self.unmatched is not None and not isinstance(self.unmatched, (str, int, float, np.number)):
            raise ValueError("unmatched must be a number or 'diagonal' here; prices of points belong to one collection")
        needed = FROM_POINTS.get(str(self.metric))
        spread = needed is not None and (self.metric_params or {}).get(needed) is None  # that of all points of a call
        return known_distances(None if spread else self._key("known pairs", D.dim), D, E, self._solve)

    def _key(self, *parts: Any) -> bytes | None:
        """Parts, and which distance it is; None if that cannot be told."""
        return key_of(*parts, *self._given(*_DISTANCE, "error", "random_state").values())

    def _solve(self, D: Distributions, E: Distributions | None, pairs: Indices | None) -> Float:
        """Distances (P,) of some pairs, or of all."""
        how = self._given(*_DISTANCE, *_HOW)
        if self.error is None:
            return pairwise_exact(D, E, pairs=pairs, **how).values
        return pairwise(D, E, pairs=pairs, error=self.error, random_state=self.random_state, **how).values


@dataclass(eq=False, repr=False)
class WassersteinNeighbors(_Transformer):
    """Nearest neighbors under the exact W_p (`asot.kneighbors`), with scikit-learn's conventions.

    `fit` prepares the collection once, for queries that come one by one or a few at a time, and `partial_fit` adds to
    it. Without a collection, methods search within the fitted one, where a distribution is not its own neighbor. As a
    transformer, it returns the graph that scikit-learn's estimators read with ``metric="precomputed"``.

    Parameters
    ----------
    n_neighbors : int
        Neighbors of each query, unless a method says otherwise.
    radius : float
        For `radius_neighbors_graph`.
    space, p, metric, metric_params, unmatched, prune, device, n_jobs, memory, progress, random_state
        As in `asot.kneighbors`; prices of single points (an array as `unmatched`) only work for searches within the
        fitted collection.
    recall : float, optional
        As in `asot.kneighbors`: the share of the neighbors to find. Neighbors within a radius are always certain, so
        `radius_neighbors_graph` refuses it.
    bounds
        The old name of `prune`, until 0.3.0.

    Attributes
    ----------
    collection_ : Distributions
        What was fitted.
    n_features_in_ : int

    Examples
    --------
    >>> import asot
    >>> from asot.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> digits, labels, _ = load_digits(300)
    >>> model = make_pipeline(asot.WassersteinNeighbors(3), KNeighborsClassifier(3, metric="precomputed"))
    >>> model.fit(digits[:250], labels[:250]).score(digits[250:], labels[250:])
    0.9
    """

    n_neighbors: int = 5
    _: KW_ONLY
    radius: float = 1.0
    space: Any = None
    p: float = 1
    metric: str = "euclidean"
    metric_params: Parameters | None = None
    unmatched: Any = None
    prune: str = "auto"
    device: str = "auto"
    n_jobs: int | None = None
    memory: int | str | None = None
    progress: ProgressLike = None
    random_state: Any = None
    recall: float | None = None
    bounds: Any = None

    def fit(self, X: Any, y: Any = None) -> WassersteinNeighbors:
        """Prepare a collection for queries, once (`asot.Index`); ``y`` is not used."""
        as_positive_int(self.n_neighbors, "n_neighbors")
        if self.bounds is not None:
            self.prune = prune_of(self.bounds)
        self.collection_: Distributions = self._read(X, reset=True)
        self.__dict__.pop("_index", None)
        self._index_now()
        return self

    def partial_fit(self, X: Any, y: Any = None) -> WassersteinNeighbors:
        """Add distributions behind those that are fitted, which are not prepared again; ``y`` is not used."""
        if not hasattr(self, "collection_"):
            return self.fit(X, y)
        more = self._read(X, reset=False)
        index, n = self._index_now(), len(self.collection_)
        if index is not None:
            index.add(more, ids=np.arange(n, n + len(more)))
        else:
            self.__dict__.pop("_index", None)  # now there may be enough for one
        self.collection_ = self.collection_ + more
        return self

    def _index_now(self) -> Index | None:
        """What was prepared, unless parameters were set since."""
        words = list(self._given(*_WHICH, "device", "random_state").values())
        if not hasattr(self, "_index") or any(a is not b for a, b in zip(words, self._index_words, strict=True)):
            self._index: Index | None = self._prepared()
            self._index_words: list[Any] = words
        return self._index

    def _prepared(self) -> Index | None:
        """An index of the fitted collection, where its answers are those of `asot.kneighbors` with the same options."""
        n, spread = len(self.collection_), self.metric in FROM_POINTS  # taken from queries and collection together
        prices = self.unmatched is not None and not np.isscalar(self.unmatched)
        if self.space is not None or self.prune != "auto" or prices or spread or n < FEWEST:
            return None
        if devices.parse(self.device)[0] == "cuda":
            return None
        index = Index(**self._given(*_DISTANCE, "random_state"))
        index.add(self.collection_, ids=np.arange(n))
        return index

    def __getstate__(self) -> dict[str, Any]:
        """An index has locks, which are not pickled; it is made again with the first query."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_index", "_index_words")}

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Indices | tuple[Float, Indices]:
        """Distances and indices of the nearest fitted distributions of every query, both (N, n_neighbors)."""
        found = self._search(X, n_neighbors)
        return (found.distances, found.indices) if return_distance else found.indices

    def kneighbors_graph(self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity") -> Any:
        """Sparse graph (N, M) with an entry for each neighbor: 1, or its distance with ``mode="distance"``."""
        return _in_mode(self._search(X, n_neighbors).graph(), mode)

    def radius_neighbors_graph(self, X: Any = None, radius: float | None = None, mode: str = "connectivity") -> Any:
        """Sparse graph (N, M) of all fitted distributions within a distance of every query."""
        if self.recall is not None:
            raise ValueError("neighbors within a radius are certain; leave out recall=")
        how = self._given(*_WHICH, *_HOW, "random_state")
        found: RadiusNeighbors = radius_neighbors(*self._sides(X), self.radius if radius is None else radius, **how)
        return _in_mode(found.graph(), mode)

    def transform(self, X: Any) -> Any:
        """Sparse graph of distances (N, M), for ``metric="precomputed"``.

        As in scikit-learn's transformers, it has one more neighbor than ``n_neighbors``, because a query that was
        fitted finds itself first.
        """
        check_is_fitted(self)
        return self._search(X, min(as_positive_int(self.n_neighbors, "n_neighbors") + 1, len(self.collection_))).graph()

    def _search(self, X: Any, n_neighbors: int | None) -> Neighbors:
        """The nearest ones, from an earlier search of the same collections if it has found enough of them.

        A second search looks for twice as many as requested: whoever tries several numbers will try more.
        """
        queries, collection = self._sides(X)
        count = as_positive_int(self.n_neighbors if n_neighbors is None else n_neighbors, "n_neighbors")
        if collection is not None and len(queries) <= MOST_QUERIES:
            index = self._index_now()
            if index is not None:
                return index.query(queries, count, recall=self.recall, **self._given(*_HOW))
        how = self._given(*_WHICH, *_HOW, "random_state")
        if self.recall is not None:  # what was measured holds for this number of neighbors
            return kneighbors(queries, collection, count, **how, recall=self.recall)
        key = key_of("neighbors", queries, collection, *self._given(*_DISTANCE).values())
        found: Neighbors | None = recalled(key)
        if found is None or found.indices.shape[1] < count:
            most = len(queries) - 1 if collection is None else len(collection)
            wanted = count if found is None else max(count, min(2 * count, most))
            found = kneighbors(queries, collection, wanted, **how)
            remember(key, found, found.indices.nbytes + found.distances.nbytes)
        return replace(found, indices=found.indices[:, :count], distances=found.distances[:, :count], n_exact=None)

    def _sides(self, X: Any) -> tuple[Distributions, Distributions | None]:
        """Queries and collection; None for the second if no queries are given, for a search within the fitted ones."""
        check_is_fitted(self)
        if X is None:
            return self.collection_, None
        queries = self._read(X, reset=False)
        return (queries[:] if queries is self.collection_ else queries), self.collection_  # two objects: two sets


def _in_mode(graph: Any, mode: str) -> Any:
    if as_choice(mode, "mode", ("connectivity", "distance")) == "connectivity":
        graph.data[:] = 1.0
    return graph
