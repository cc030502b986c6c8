"""Which distribution is odd? Not simply the one that is far from all others: small samples always are.

Each distance is divided by what it should be at the sizes of the pair: noise and what two of this collection usually
are apart, √(noise² + usual²), with a noise floor, and otherwise what sizes explain of the distances themselves. The
median of these ratios over all others is compared with the same number of all others, in robust standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float
from asot.data.belonging import ids_of
from asot.data.squares import in_range
from asot.learn.kernel import as_matrix
from asot.results.frames import ShownAsFrame, need_pandas
from asot.results.noise import noise_matrix

LIMIT = 3.5
"""Scores above this are called outliers (Iglewicz and Hoaglin 1993)."""

MOST_STEPS = 20
"""Rounds of the fit of distances to sizes."""


@dataclass(frozen=True, eq=False)
class Outliers(ShownAsFrame):
    """How odd each distribution is.

    Attributes
    ----------
    ids : (N,)
    distance : (N,) float64
        Median distance to the others; above noise with a noise floor.
    ratio : (N,) float64
        Median ratio of the distances to the others to what they should be at these sizes; 1 is usual.
    score : (N,) float64
        How far that is above the usual, in robust standard deviations; negative for those in the middle.
    is_outlier : (N,) bool
        Scores above 3.5.
    how : str
        What was done about noise.
    """

    ids: NDArray[Any]
    distance: Float
    ratio: Float
    score: Float
    how: str

    @property
    def is_outlier(self) -> NDArray[np.bool_]:
        return np.asarray(self.score > LIMIT)

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row per distribution, the oddest first."""
        columns = {"score": self.score, "ratio": self.ratio, "distance": self.distance, "is_outlier": self.is_outlier}
        pandas = need_pandas("to_frame")
        frame = pandas.DataFrame(columns, index=pandas.Index(self.ids, name="id"))
        return frame.iloc[np.argsort(-self.score, kind="stable")]

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        odd = np.argsort(-self.score, kind="stable")[: int(self.is_outlier.sum())]
        shown = ", ".join(f"{self.ids[i]} ({self.score[i]:.1f})" for i in odd[:5]) + (", …" if len(odd) > 5 else "")
        return f"Outliers: {len(odd):,} of {len(self):,}{': ' * (len(odd) > 0)}{shown}; {self.how}"


def outliers(r: Any, noise: Any = None) -> Outliers:
    """Which distributions are far from all others, beyond what their sample sizes explain.

    Parameters
    ----------
    r : Distances, or array-like (N, N)
        All pairs of one collection.
    noise : NoiseFloor or array-like (N, N), optional
        ``asot.noise_floor(D)``. Without it, what the sizes of samples explain is fitted to the distances themselves,
        where the result knows the sizes.

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> sizes = [15, 15, *[150] * 18]  # two small samples, and one that is odd
    >>> D = asot.Distributions.from_list([rng.normal(i == 7, 1.0, size=(n, 3)) for i, n in enumerate(sizes)])
    >>> asot.outliers(asot.pairwise_exact(D), asot.noise_floor(D)).to_frame().index.tolist()[:1]
    [7]
    """
    matrix, exponent = in_range(as_matrix(r))
    n = len(matrix)
    if matrix.shape != (n, n):
        raise ValueError("outliers are found by the distances of all pairs of one collection, a square matrix")
    if n < 4:
        raise ValueError(f"among {n} distributions none can be called odd; it takes at least 4")
    ids = ids_of(r, n)
    sizes = getattr(noise, "sizes", getattr(r, "sizes", None))
    left, expected, noisy = matrix, np.full_like(matrix, _median(matrix)), 0.0
    how = "as they are" + (", because sample sizes are not known" if sizes is None else "")
    if noise is not None:
        squares = np.ldexp(noise_matrix(noise, n, ids), -exponent) ** 2
        left = np.sqrt(np.maximum(matrix**2 - squares, 0.0))
        expected, how = np.sqrt(squares + _median(left) ** 2), "above the noise floor"
        noisy = min(_median(squares) / max(_median(matrix**2), np.finfo(float).tiny), 1.0)
    if sizes is not None and len(np.unique(sizes)) > 1:
        expected = expected * _by_size(matrix / np.maximum(expected, np.finfo(float).tiny), sizes)
        if noise is None:
            how, noisy = "as shares of what sample sizes explain", 1.0
    ratio = _typical(matrix / np.maximum(expected, np.finfo(float).tiny))
    return Outliers(ids, np.ldexp(_typical(left), exponent), ratio, _score(ratio, sizes, noisy), how)


def _score(ratio: Float, sizes: NDArray[np.int64] | None, noisy: float) -> Float:
    """How far ratios are above the usual, in robust standard deviations; those of small samples vary more, in as far as
    distances are noise."""
    middle = float(np.median(ratio))
    spread = 1.4826 * float(np.median(np.abs(ratio - middle)))
    spread = spread or float(np.abs(ratio - middle).mean()) * 1.2533 or 1.0
    fewer = 0.0 if sizes is None else np.maximum(np.median(sizes) / sizes - 1.0, 0.0)
    return np.asarray((ratio - middle) / (spread * np.sqrt(1.0 + noisy * fewer)), dtype=np.float64)


def _median(matrix: Float) -> float:
    return float(np.median(matrix[np.triu_indices(len(matrix), 1)]))


def _typical(matrix: Float) -> Float:
    """The median over all others (N,)."""
    apart = ~np.eye(len(matrix), dtype=bool)
    return np.array([np.median(row[others]) for row, others in zip(matrix, apart, strict=True)])


def _by_size(matrix: Float, sizes: NDArray[np.int64]) -> Float:
    """What distances are at the sizes of a pair: c (½/n + ½/m)^α, fitted to the logarithms with outliers left aside."""
    i, j = np.triu_indices(len(matrix), 1)
    values = matrix[i, j]
    used = values > 0
    if used.sum() < 3:
        return np.ones_like(matrix)
    both = np.log(0.5 / sizes[:, None] + 0.5 / sizes)
    design = np.column_stack([np.ones(used.sum()), both[i, j][used]])
    target, weight = np.log(values[used]), np.ones(used.sum())
    fit = np.zeros(2)
    for _ in range(MOST_STEPS):  # least absolute deviations, by weights
        fit = np.linalg.lstsq(design * weight[:, None], target * weight, rcond=None)[0]
        weight = 1.0 / np.sqrt(np.maximum(np.abs(target - design @ fit), 1e-6))
    return np.asarray(np.exp(fit[0] + np.clip(fit[1], -1.0, 1.0) * both), dtype=np.float64)
