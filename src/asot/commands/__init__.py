"""The commands of `asot`. Heavy imports happen inside them, so that ``asot --help`` is quick."""
