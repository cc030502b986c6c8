"""Collections of distributions: how they are read, stored and written."""
