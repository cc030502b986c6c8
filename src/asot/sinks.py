"""Where the distances of a run go: the public names of `asot.run.sinks`, ready to be imported."""

from asot.run.sinks import Callback, Condensed, Dense, Histogram, Radius, Sink, TopK

__all__ = ["Callback", "Condensed", "Dense", "Histogram", "Radius", "Sink", "TopK"]
