"""Metric measure spaces: distance matrices with masses, compared without common coordinates (docs/method.md §18)."""
