"""Distances and kernel as a scikit-learn transformer, so that γ can be grid-searched: `asot.WassersteinKernel`.

The distances do not depend on γ. They are cached by the content of the collections (`asot.learn.recent`), so a search
over γ solves the pairs of every fold once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from asot.anchors.base import ReadsCollections
from asot.data.distributions import Distributions
from asot.distances import pairwise_exact
from asot.learn.kernel import Kernel, kernel
from asot.learn.recent import key_of, recalled, remember
from asot.run.progress import ProgressLike
from asot.run.sinks import Dense


class WassersteinKernel(ReadsCollections, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The kernel exp(-γ W_1) with the fitted collection, for ``SVC(kernel="precomputed")`` and similar estimators.

    Parameters
    ----------
    gamma : float, optional
        Default: 1 / (median of the positive distances within the fitted collection).
    psd : {"clip", "shift", None}
        What to do about negative eigenvalues, as in `asot.kernel`.
    metric, metric_params
        Ground metric, as in `asot.pairwise_exact`.
    device, n_jobs, memory, progress
        As in `asot.pairwise_exact`.

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

    def __init__(
        self,
        gamma: float | None = None,
        *,
        psd: str | None = "clip",
        metric: str = "euclidean",
        metric_params: dict[str, Any] | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        memory: int | str | None = None,
        progress: ProgressLike = None,
    ) -> None:
        self.gamma = gamma
        self.psd = psd
        self.metric = metric
        self.metric_params = metric_params
        self.device = device
        self.n_jobs = n_jobs
        self.memory = memory
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> WassersteinKernel:
        """Use a collection as the reference for all kernels; ``y`` is not used."""
        D = self._read(X, reset=True)
        self.kernel_: Kernel = kernel(self._distances(D, None), self.gamma, psd=self.psd)
        self.collection_: Distributions = D
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Kernel (N, M) of a collection with the fitted one."""
        check_is_fitted(self, "kernel_")
        D = self._read(X, reset=False)
        if key_of(D) == key_of(self.collection_):
            return self.kernel_.matrix.copy()
        return self.kernel_.between(self._distances(D, self.collection_))

    def _distances(self, D: Distributions, E: Distributions | None) -> NDArray[np.float64]:
        key = key_of("distances", D, E, self.metric, self.metric_params)
        found: NDArray[np.float64] | None = recalled(key)
        if found is None:
            names = ("metric", "metric_params", "device", "n_jobs", "memory", "progress")
            found = pairwise_exact(D, E, sink=Dense(), **{name: getattr(self, name) for name in names})
            found.flags.writeable = False
            remember(key, found, found.nbytes)
        return found

    @property
    def _n_features_out(self) -> int:
        return len(self.collection_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "kernel_")
