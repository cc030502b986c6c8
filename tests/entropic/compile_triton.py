"""Compile the fused Sinkhorn kernels for GPUs that are not there, as the solver would launch them.

Triton is imported inside: a process that collects tests must not have it before its interpreter is chosen.
"""

from __future__ import annotations

import numpy as np

from asot.entropic.options import SinkhornOptions
from asot.entropic.triton_fused import Chip, SinkhornTriton, kernel_of

SHARED_MEMORY = {80: 166_912, 90: 232_448}
"""Bytes that a block may have, by compute capability."""

TYPES = {
    "numbers": "*fp64",
    "listed": "*i64",
    "values": "*fp64",
    "statuses": "*i8",
    "iterations": "*i32",
    "errors": "*fp64",
}
TYPES |= dict.fromkeys(("start", "count", "n_rows", "n_columns"), "i64")


def compiled(target, k, precision, judged, reg=1.0):
    """The compiled kernel for pairs on k anchors."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    cost = 1.0 - np.eye(k)
    options = SinkhornOptions(reg, max_iter=50, tol=1e-3 if judged else None)
    solver = SinkhornTriton(np.eye(k)[:2], None, cost, options, precision=precision)
    data = solver.place("cpu", Chip(SHARED_MEMORY[target], multiprocessors=100, generation=target // 10))
    kernel = kernel_of(data)
    constants = data.constants | {"FAST": True}
    number = "*fp64" if precision == "float64" else "*fp32"

    def type_of(name):
        if name.endswith(("_high", "_low")):
            return "*fp16" if data.tiling.mode == "halves" else number
        if name in ("A", "B", "scratch_u", "scratch_v"):
            return number
        return "constexpr" if name in constants else TYPES.get(name, "i32")

    signature = {name: type_of(name) for name in kernel.arg_names}
    aligned = [n for n, name in enumerate(kernel.arg_names) if signature[name].startswith("*") or name == "zero"]
    source = ASTSource(kernel, signature, constants, {(n,): [["tt.divisibility", 16]] for n in aligned})
    launch = {"num_warps": data.tiling.warps, "num_stages": data.tiling.stages}
    return triton.compile(source, target=GPUTarget("cuda", target, 32), options=launch)


def shared_memory(target, *case):
    """Bytes of shared memory that the kernel needs, and that it may have."""
    return compiled(target, *case).metadata.shared, SHARED_MEMORY[target]
