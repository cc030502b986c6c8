"""Spaces without common coordinates."""
