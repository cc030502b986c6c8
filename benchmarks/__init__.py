"""How fast, how small and how right: measured beside the tools people would use otherwise.

Every benchmark compares answers while it times, and a table is written only when they agree. ``python -m benchmarks``
runs them all; see the README beside this file.
"""
