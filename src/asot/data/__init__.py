"""Collections of distributions: how they come in, are kept, and are written."""
