"""Where the distances of a run go: the public names of `asot.results.sinks`, ready to be imported."""

from asot.results.sinks import Callback, Condensed, Counts, Dense, Radius, TopK
from asot.run.protocols import Sink, Tile
from asot.store.sink import Store

__all__ = ["Callback", "Condensed", "Counts", "Dense", "Radius", "Sink", "Store", "Tile", "TopK"]
