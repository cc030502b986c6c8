"""From distances to a kernel: exp(-γ W), and what to do if it is not positive semidefinite.

W_1 on a line makes the Laplacian kernel positive semidefinite; in more dimensions, and for estimates, it may have
negative eigenvalues. Support vector machines want none. `kernel` checks, repairs the kernel in the way you choose, and
says what it did.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.data.belonging import check_same_ids
from asot.data.notebook import page_of
from asot.results.distances import Distances
from asot.validation import as_choice, as_number, first_false, to_float_array


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel matrix, and how it was made. ``np.asarray`` gives the matrix.

    Attributes
    ----------
    matrix : (N, N) float64
    gamma : float
    smallest_eigenvalue : float or None
        The smallest eigenvalue of exp(-γ W), before any repair; None if it was not checked (``psd=None``).
    done : str
        What was done, as a sentence.
    ids : (N,) or None
        Names of the distributions, where the distances had some.
    """

    matrix: NDArray[np.float64] = field(repr=False)
    gamma: float
    smallest_eigenvalue: float | None
    done: str
    _keep: NDArray[np.float64] | None = field(default=None, repr=False)  # (N, N) projector on what was not clipped
    ids: NDArray[Any] | None = field(default=None, repr=False)

    def between(self, distances: Any) -> NDArray[np.float64]:
        """The kernel (M, N) of new distributions with those of this kernel, from their distances (M, N).

        If eigenvalues were clipped, the new rows are projected in the same way, so that they fit a model that was
        trained on `matrix`.
        """
        values = as_matrix(distances)
        if values.shape[1] != len(self.matrix):
            raise ValueError(
                f"distances are to {values.shape[1]} distributions, but the kernel has {len(self.matrix)}; pass "
                "the distances from the new distributions (rows) to those of the kernel (columns)"
            )
        if self.ids is not None and hasattr(distances, "ids_columns"):
            check_same_ids(self.ids, distances.ids_columns, "the columns are not the distributions of the kernel")
        rows = np.exp(-self.gamma * values)
        return rows if self._keep is None else np.asarray(rows @ self._keep, dtype=np.float64)

    def _repr_html_(self) -> str:
        return page_of(f"Kernel of {len(self):,} distributions, γ = {self.gamma:.4g}; done: {self.done}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.matrix.shape

    @property
    def ndim(self) -> int:
        return self.matrix.ndim

    @property
    def dtype(self) -> np.dtype[np.float64]:
        return self.matrix.dtype

    def __len__(self) -> int:
        return len(self.matrix)

    def __getitem__(self, key: Any) -> Any:
        return self.matrix[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.matrix, dtype=dtype) if copy else np.asarray(self.matrix, dtype=dtype)


def kernel(distances: Distances | ArrayLike, gamma: float | None = None, *, psd: str | None = "clip") -> Kernel:
    """The Laplacian kernel exp(-γ W) of all pairs of a collection.

    Parameters
    ----------
    distances : Distances, or array-like (N, N)
        All pairs of one collection.
    gamma : float, optional
        Default: 1 / (median of the positive distances).
    psd : {"clip", "shift", None}
        What to do about negative eigenvalues: set them to 0, add the size of the most negative one to the diagonal, or
        do not check for them, which saves an eigenvalue problem of size N.

    Returns
    -------
    Kernel
        ``matrix``, ``done`` (what was done), and ``between(distances)`` for new distributions.

    Examples
    --------
    >>> import asot
    >>> from asot.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> digits, labels, _ = load_digits(200)
    >>> train, test = digits[:150], digits[150:]
    >>> K = asot.kernel(asot.pairwise_exact(train))
    >>> K.done
    'nothing: the kernel is positive semidefinite (smallest eigenvalue 0.116)'
    >>> model = SVC(kernel="precomputed", C=10).fit(K, labels[:150])
    >>> model.score(K.between(asot.pairwise_exact(test, train)), labels[150:]) > 0.8
    True
    """
    values = as_matrix(distances)
    if values.shape[0] != values.shape[1]:
        raise ValueError(
            f"a kernel needs the distances of all pairs of one collection; found shape {values.shape}. For new "
            "distributions, use kernel(...).between(distances)"
        )
    if np.abs(values - values.T).max() > 1e-9 * values.max():
        raise ValueError("distances are not symmetric; a kernel needs those of all pairs of one collection")
    if psd is not None:
        as_choice(psd, "psd", ("clip", "shift"))
    if gamma is None:
        positive = values[values > 0]
        gamma = 1.0 / float(np.median(positive)) if positive.size else 1.0
    rate = as_number(gamma, lambda rate: 0 < rate < np.inf, "gamma must be None or a number > 0")
    matrix = np.exp(-rate * values)
    matrix = 0.5 * (matrix + matrix.T)
    ids = getattr(distances, "ids", None)
    if psd is None:
        done = "nothing, as requested: the kernel was not checked for negative eigenvalues"
        return Kernel(matrix, rate, None, done, ids=ids)
    eigenvalues = np.linalg.eigvalsh(matrix)
    smallest = float(eigenvalues[0])
    negative = int((eigenvalues < -len(matrix) * np.finfo(float).eps * eigenvalues[-1]).sum())
    if negative == 0:
        done = f"nothing: the kernel is positive semidefinite (smallest eigenvalue {max(smallest, 0.0):.3g})"
        return Kernel(matrix, rate, smallest, done, ids=ids)
    count = f"{negative} of {len(matrix)} eigenvalues negative, down to {smallest:.3g}"
    if psd == "clip":
        from scipy.linalg import eigh

        values, vectors = eigh(matrix, subset_by_index=(0, negative - 1))
        clipped, keep = matrix - (vectors * values) @ vectors.T, np.eye(len(matrix)) - vectors @ vectors.T
        return Kernel(0.5 * (clipped + clipped.T), rate, smallest, f"clipped: {count}, set to 0", keep, ids)
    shifted = matrix - smallest * np.eye(len(matrix))
    return Kernel(shifted, rate, smallest, f"shifted: {count}, {-smallest:.3g} added to the diagonal", ids=ids)


def as_matrix(distances: Any) -> NDArray[np.float64]:
    values = distances.matrix() if isinstance(distances, Distances) else to_float_array(distances, "distances")
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"distances must be a matrix or a Distances; found shape {values.shape}")
    good = np.isfinite(values) & (values >= 0)
    if not good.all():
        i, j = first_false(good)
        raise ValueError(f"distance ({i}, {j}) is {values[i, j]}; distances must be finite and ≥ 0")
    return np.asarray(values, dtype=np.float64)
