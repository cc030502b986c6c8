"""Exact transport: the integer simplex, and all that feeds it."""
