"""Finding and loading the library of kernels that suits this processor.

``ASOT_ISA=baseline|avx2|avx512`` takes another one than the best; ``ASOT_NATIVE`` names another folder of libraries,
such as one that was built with sanitizers.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path

LEVELS = ("baseline", "avx2", "avx512")
"""Instruction sets, each faster than the one before. Processors other than x86-64 have only the first."""

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


@functools.cache
def instruction_set() -> str:
    """The name of the instruction set whose kernels run in this process."""
    best = int(_open(LEVELS[0]).asot_processor_level())
    there = [level for level in LEVELS[: best + 1] if _path(level).exists()]
    wish = os.environ.get("ASOT_ISA")
    if wish is None:
        return there[-1]
    if wish not in there:
        raise ValueError(f"ASOT_ISA must be one of {', '.join(there)} on this machine; found {wish!r}")
    return wish


@functools.cache
def library() -> ctypes.CDLL:
    """The kernels for this processor."""
    return _open(instruction_set())


def _path(level: str) -> Path:
    folder = os.environ.get("ASOT_NATIVE") or Path(__file__).with_name("lib")
    return Path(folder, level + _SUFFIX)


def _open(level: str) -> ctypes.CDLL:
    path = _path(level)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"asot's compiled kernels cannot be loaded from {path} ({error}): install asot again with pip, or, in a "
            "clone of its repository, run `python -m pip install --editable .`"
        ) from None
