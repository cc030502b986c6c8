"""Where the distances of a run go: the public names of `asot.run.sinks`, ready to be imported."""

from asot.run.sinks import Callback, Condensed, Counts, Dense, Radius, Sink, Tile, TopK
from asot.run.store import Store

__all__ = ["Callback", "Condensed", "Counts", "Dense", "Radius", "Sink", "Store", "Tile", "TopK"]
