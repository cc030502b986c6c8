"""The commands of `asot`, one file each. Heavy imports happen inside them, so that ``asot --help`` is quick."""
