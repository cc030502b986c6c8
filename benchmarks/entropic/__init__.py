"""Sinkhorn."""
