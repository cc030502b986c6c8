"""Lower bounds that spare a search most of its solves."""
