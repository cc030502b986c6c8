"""The same work on a GPU."""
