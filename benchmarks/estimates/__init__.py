"""Estimates: how far off they are, what they cost, and what the default call chooses."""
