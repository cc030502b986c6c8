"""Exact transport: the integer simplex, and everything that feeds it."""
