"""Exact solves: one cost, costs of points, and the edges where others have special tools."""
