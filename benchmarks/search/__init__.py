"""Neighbors, certain and at a stated recall."""
