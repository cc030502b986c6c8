"""Distances and kernel as a scikit-learn transformer, so that γ can be grid-searched: `asot.WassersteinKernel`.

The distances do not depend on γ. They are cached by the content of the distributions (`asot.learn.recent`), so a
search over γ solves every pair once, in whichever folds it occurs. Kernels are cached, too, since a search over other
parameters of the pipeline asks for the same ones, and their eigenvalues, again.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from asot._typing import Parameters
from asot.anchors.base import ReadsCollections
from asot.data.distributions import Distributions
from asot.distances import pairwise, pairwise_exact
from asot.ground.metrics import FROM_POINTS
from asot.learn.kernel import Kernel, kernel
from asot.learn.recent import key_of, known_distances, recalled, remember
from asot.run.executors import ProgressLike


@dataclass(eq=False, repr=False)
class WassersteinKernel(ReadsCollections, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
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
    _made = "collection_"

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

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Kernel (N, M) of a collection with the fitted one."""
        check_is_fitted(self)
        D = self._read(X, reset=False)
        if key_of(D) == key_of(self.collection_):
            return self.kernel_.matrix.copy()
        return self.kernel_.between(self._distances(D, self.collection_))

    def _distances(self, D: Distributions, E: Distributions | None) -> NDArray[np.float64]:
        if self.unmatched is not None and not isinstance(self.unmatched, (str, int, float, np.number)):
            raise ValueError("unmatched must be a number or 'diagonal' here; prices of points belong to one collection")
        needed = FROM_POINTS.get(str(self.metric))
        spread = needed is not None and (self.metric_params or {}).get(needed) is None  # that of all points of a call
        return known_distances(None if spread else self._key("known pairs", D.dim), D, E, self._solve)

    def _key(self, *parts: Any) -> bytes | None:
        """Parts, and which distance it is; None if that cannot be told."""
        what = ("p", "metric", "metric_params", "unmatched", "error", "random_state")
        return key_of(*parts, *(getattr(self, name) for name in what))

    def _solve(self, D: Distributions, E: Distributions | None, pairs: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Distances (P,) of some pairs, or of all."""
        names = ("p", "metric", "metric_params", "unmatched", "device", "n_jobs", "memory", "progress")
        how = {name: getattr(self, name) for name in names}
        if self.error is None:
            return pairwise_exact(D, E, pairs=pairs, **how).values
        return pairwise(D, E, pairs=pairs, error=self.error, random_state=self.random_state, **how).values
