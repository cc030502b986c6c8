"""Where the distances of a run go: the sinks of `asot.results.sinks` and a store, ready to be imported."""

from asot.results.sinks import *  # noqa: F403
from asot.results.sinks import __all__ as _sinks
from asot.run.protocols import Sink as Sink
from asot.run.protocols import Tile as Tile
from asot.store.sink import Store as Store

__all__ = [*_sinks, "Sink", "Store", "Tile"]
