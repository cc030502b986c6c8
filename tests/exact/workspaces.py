"""A workspace of NumPy arrays, which Python can read; kernels make theirs of spans."""

from __future__ import annotations

import numpy as np

from asot.exact.workspace import Workspace
from asot.jit.lanes import LANES


def make_workspace(max_sources: int, max_sinks: int, max_nodes: int) -> Workspace:
    """As large as the one that kernels make for as many sources, sinks and nodes."""
    m = max_nodes + 2 * LANES
    words = -(-m // (64 * LANES)) * LANES
    block = max_sources * (max_sinks + LANES)
    sizes = {"cost": block, "keys": block, "below": m * words, "moved": words, "passed": words}
    short = {"source", "sink", "parent", "child", "hung_on", "slot", "owner"}
    arrays = {
        name: np.empty(sizes.get(name, m), np.int32 if name in short else np.int64) for name in Workspace._fields[2:]
    }
    return Workspace(memory=arrays["keys"], m=m, **arrays)
