"""Learned anchors."""
