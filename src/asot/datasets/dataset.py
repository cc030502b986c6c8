"""What every loader returns: the collection, what is known about its members, and where it came from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions


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
