"""What every loader returns: a collection, what is known about its members, where it came from; and the digits.

The digits are the data of the demo, embedded in scikit-learn, so nothing is downloaded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.validation import as_positive_int


class Dataset(NamedTuple):
    """A collection with what is known about it.

    Attributes
    ----------
    distributions : Distributions
    labels : (N,) int64, or None
        The class of every distribution, where the data have classes.
    about : dict
        ``name``; ``features``, what the coordinates of a point are; ``source``, the files that were read; ``home``,
        where such files come from; ``verified``, by what the files were recognized: "sha256", "content" (other bytes
        than the known ones, but the same graphs, labels and classes; node attributes are not compared, and it says so
        where they were asked for) or "no checksum is known".
    """

    distributions: Distributions
    labels: NDArray[np.int64] | None
    about: dict[str, Any]

    def __repr__(self) -> str:
        classes = "no labels" if self.labels is None else f"{len(np.unique(self.labels)):,} classes"
        return f"Dataset {self.about.get('name', '')}: {self.distributions!r}; {classes}"


def load_digits(n: int | None = None) -> Dataset:
    """scikit-learn's 1,797 digits, each a bag of its pixels: sizes vary with the ink.

    Parameters
    ----------
    n : int, optional
        Only the first n digits.

    Returns
    -------
    Dataset
        The distributions are points (row / 8, column / 8) of the pixels that are not blank, with the ink as mass.
        Labels are the digits, 0 to 9. ``about["images"]`` (N, 8, 8) has the images, ink from 0 to 16.

    Examples
    --------
    >>> from asot.datasets import load_digits
    >>> digits, labels, about = load_digits(100)
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
    about = {
        "name": "digits",
        "features": "row / 8 and column / 8 of the pixels with ink",
        "source": "scikit-learn's load_digits",
        "images": images,
    }
    return Dataset(Distributions.from_weights(images.reshape(len(images), -1), support), labels, about)
