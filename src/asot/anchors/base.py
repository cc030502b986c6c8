"""What all anchor learners share: scikit-learn's conventions around `fit(collection) → space_`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from asot.anchors.space import AnchorSpace
from asot.data.distributions import Distributions, as_distributions


class ReadsCollections:
    """What estimators accept as X, and their check of its dimension.

    Collections may be `Distributions`, a list of point arrays or of (points, masses) tuples (what scikit-learn's
    splitters turn a collection into), or a plain 2-D array, which is read as in scikit-learn: one sample per row, here
    a distribution of one point. An estimator that was fitted on a collection refuses such an array later: most likely
    it is meant to be the points of one distribution.
    """

    n_features_in_: int

    _made: ClassVar[str]
    """What `fit` makes, and what has an entry for each feature that comes out."""

    @property
    def _n_features_out(self) -> int:
        return len(getattr(self, self._made))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self._made)

    def _read(self, X: Any, *, reset: bool) -> Distributions:
        is_listed = isinstance(X, Distributions) or _holds_points(X)
        D = X if isinstance(X, Distributions) else as_distributions(list(X)) if is_listed else _rows(self, X, reset)
        if not (is_listed or reset or getattr(self, "_fitted_on_rows", True)):
            raise ValueError(
                f"X is an array {np.shape(X)}, but {type(self).__name__} was fitted on a collection; if it holds the "
                "points of one distribution, pass a list of one: [X]"
            )
        if reset:
            self.n_features_in_ = D.dim
            self._fitted_on_rows = not is_listed
        elif D.dim != self.n_features_in_:
            raise ValueError(
                f"X has {D.dim} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input"
            )
        return D


class AnchorLearner(ReadsCollections, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the estimators that learn an `AnchorSpace`.

    A subclass implements `_learn`. If it has a parameter ``device``, collections are encoded there.
    """

    device: str | None = None
    space_: AnchorSpace
    _made = "space_"

    def fit(self, X: Any, y: Any = None) -> AnchorLearner:
        """Learn the anchors of a collection; ``y`` is not used."""
        self.space_ = self._learn(self._read(X, reset=True))
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Histograms (N, k) of a collection on the learned anchors, rows ≥ 0 and summing to 1."""
        check_is_fitted(self)
        return self.space_.histograms(self._read(X, reset=False), device=self.device)

    @abstractmethod
    def _learn(self, D: Distributions) -> AnchorSpace:
        """The space of a collection."""

    @property
    def _n_features_out(self) -> int:
        return self.space_.n_anchors


def _holds_points(X: Any) -> bool:
    """Whether X is a list of points (n_i, d), or of (points, masses)."""
    first = X[0] if isinstance(X, (list, tuple)) and len(X) > 0 else 0
    return bool(np.ndim(first[0] if isinstance(first, tuple) and first else first) == 2)


def _rows(estimator: Any, X: Any, reset: bool) -> Distributions:
    """Rows of an array as distributions of one point."""
    from sklearn.utils.validation import validate_data

    samples = validate_data(estimator, X, reset=reset, dtype=(np.float64, np.float32))
    return Distributions(samples, np.arange(len(samples) + 1))
