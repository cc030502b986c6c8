"""Handwritten digits as distributions: the data of the demo, embedded in scikit-learn, so nothing is downloaded."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.validation import as_positive_int


def load_digits(n: int | None = None) -> tuple[Distributions, NDArray[np.int64], NDArray[np.float64]]:
    """scikit-learn's 1,797 digits, each a bag of its pixels: sizes vary with the ink.

    Parameters
    ----------
    n : int, optional
        Only the first n digits.

    Returns
    -------
    digits : Distributions
        Points (row / 8, column / 8) of the pixels that are not blank, with the ink as mass.
    labels : (N,) int64
        Which digit it is, 0 to 9.
    images : (N, 8, 8) float64
        The images, ink from 0 to 16.

    Examples
    --------
    >>> from asot.datasets import load_digits
    >>> digits, labels, images = load_digits(100)
    >>> digits
    Distributions: 100 distributions of 26 to 38 points (mean 32.1, 3,211 in all) in 2 dimensions, float64
    """
    from sklearn.datasets import load_digits as load_images

    bunch = load_images()
    images = np.asarray(bunch.images, dtype=np.float64)  # (1797, 8, 8)
    labels = np.asarray(bunch.target, dtype=np.int64)
    if n is not None:
        n = as_positive_int(n, "n")
        if n > len(images):
            raise ValueError(f"n={n}, but there are only {len(images):,} digits")
        images, labels = images[:n], labels[:n]
    rows, columns = np.indices(images.shape[1:])
    support = np.column_stack([rows.ravel(), columns.ravel()]) / images.shape[1]  # (64, 2)
    return Distributions.from_weights(images.reshape(len(images), -1), support), labels, images
