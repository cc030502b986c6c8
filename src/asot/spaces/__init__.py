"""Distances between metric measure spaces, which have no common coordinates (docs/method.md §18)."""
