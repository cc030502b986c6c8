"""MNIST's handwritten digits as distributions: an image is the bag of its inked pixels, and a point is the position and
ink of a pixel.

All pixels have the same mass; how dark a pixel is, is its third coordinate.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.datasets.dataset import Dataset
from asot.validation import as_choice
from asot_paper.datasets import catalogue
from asot_paper.datasets.archives import unpack
from asot_paper.datasets.fetch import obtain
from asot_paper.datasets.folder import PathLike

_IMAGES, _LABELS = 2051, 2049  # the numbers that idx files begin with
_LARGEST = 2**26  # bytes of unpacked images; MNIST's have 47 million


def load_mnist(split: str = "test", *, folder: PathLike | None = None, download: bool = True) -> Dataset:
    """MNIST: each image is the set of points (row / 28, column / 28, ink / 256) of its inked pixels, all of one mass.

    Parameters
    ----------
    split : "train" (60,000 images) or "test" (10,000)
    folder : path, optional
        The data folder; the four original files are in ``mnist/`` of it. By default the folder that the environment
        variable ``ASOT_DATA`` names, or else the user's cache.
    download : bool
        Whether to download missing files. A line on stderr says what is downloaded.

    Returns
    -------
    Dataset
        With the digits, 0 to 9, as labels.

    Examples
    --------
    >>> from asot.datasets import load_mnist
    >>> digits, labels, about = load_mnist("test")     # doctest: +SKIP
    >>> digits                                         # doctest: +SKIP
    Distributions: 10,000 distributions of 44 to 311 points (mean 151.1, 1,511,219 in all) in 3 dimensions, float64
    """
    images, labels, about = read_mnist(split, folder=folder, download=download)
    image, row, column = np.nonzero(images)
    points = np.column_stack([row / 28, column / 28, images[image, row, column] / 256])
    offsets = np.searchsorted(image, np.arange(len(images) + 1))
    return Dataset(Distributions(points, offsets), labels, about)


def read_mnist(
    split: str, *, folder: PathLike | None = None, download: bool = True
) -> tuple[NDArray[np.uint8], NDArray[np.int64], dict[str, str]]:
    """Images (N, 28, 28), ink from 0 to 255, their digits (N,), and where they came from."""
    files = catalogue.MNIST[as_choice(split, "split", ("train", "test"))]
    found = [obtain(file, folder, download=download) for file in files]
    images, labels = (_read_idx(one.path, magic) for one, magic in zip(found, (_IMAGES, _LABELS), strict=True))
    if len(images) != len(labels):
        raise ValueError(f"{found[0].path} has {len(images):,} images, {found[1].path} {len(labels):,} labels")
    about = {
        "name": f"MNIST ({split})",
        "features": "row / 28, column / 28 and ink / 256 of the inked pixels, all of one mass",
        "source": ", ".join(str(one.path) for one in found),
        "home": files[0].urls[0].rpartition("/")[0],
        "verified": found[0].verified,
    }
    return images, labels.astype(np.int64), about


def _read_idx(path: Path, magic: int) -> NDArray[np.uint8]:
    """The bytes of an idx file in their shape: (N, 28, 28) images or (N,) labels."""
    raw = unpack(path, _LARGEST)
    found = int.from_bytes(raw[:4], "big")
    if found != magic:
        raise ValueError(f"{path} is not the idx file that it should be: it begins with {found}, not {magic}")
    n_axes = magic % 256
    begin = 4 * (n_axes + 1)
    shape = [int.from_bytes(raw[place : place + 4], "big") for place in range(4, begin, 4)]
    if shape[1:] != [28, 28][: n_axes - 1] or len(raw) - begin != math.prod(shape):
        raise ValueError(f"{path} claims the shape {tuple(shape)}, but {max(len(raw) - begin, 0):,} bytes are there")
    return np.frombuffer(raw, np.uint8, offset=begin).reshape(shape)
