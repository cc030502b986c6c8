"""Lower bounds that save a search most of its solves."""
