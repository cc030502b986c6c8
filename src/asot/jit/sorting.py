"""Short lists of integers in ascending order: most distributions have a few dozen points."""

from __future__ import annotations

from asot.jit.compiled import inlined

FEW = 48
"""Up to this many, each is put in its place among those before it."""


@inlined
def sort_keys(keys, n):  # type: ignore[no-untyped-def]
    """Sort the first n of some integers, in place."""
    if n > FEW:
        keys[:n].sort()
        return
    for m in range(1, n):
        key = keys[m]
        t = m
        while t > 0 and keys[t - 1] > key:
            keys[t] = keys[t - 1]
            t -= 1
        keys[t] = key
