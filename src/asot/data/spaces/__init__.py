"""Metric measure spaces: distance matrices with masses, as people have them, and as clouds of sorted distances."""
