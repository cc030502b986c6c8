"""What a result was made with, so that it can grow: the part that results and their files know of it.

How more distances of the same kind are made is written further down (`asot.choose.model`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from numpy.typing import NDArray

from asot._typing import Header
from asot.run.engine import Resources
from asot.run.protocols import Sink


class ModelParts(NamedTuple):
    """A model as a file holds it."""

    header: Header
    arrays: dict[str, NDArray[Any]]


class ModelBase(ABC):
    """What is asked of the model of a result."""

    @abstractmethod
    def extend(self, result: Any, new: Any, resources: Resources, sink: Sink[Any] | None) -> Any:
        """A result over old and new distributions, of which only pairs with new ones are computed."""

    @abstractmethod
    def parts(self, collection: bool = True) -> ModelParts | None:
        """For a file, with the collection if asked for; None if it depends on what no file can hold."""


NO_MODEL = (
    "this result does not know what it was made with, so it cannot be extended: results of asot.pairwise and "
    "asot.pairwise_exact do, in memory and in .npz files (r.save), unless they are distances on anchors "
    "(estimate='anchor', reg=...), means over draws (size_matched) or above noise, or were saved by an older version"
)
