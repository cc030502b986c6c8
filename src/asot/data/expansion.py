"""How much memory a file may ask for: a multiple of its own size.

A few bytes can expand to gigabytes: through compression, dictionaries, or a list of anchors whose cost matrix is
quadratic. So before any memory is allocated, the memory that reading will take is compared with the size of the file.
Small files may always take `FLOOR` bytes, which every machine has. If you trust a file, you can lift the limit with an
environment variable.
"""

from __future__ import annotations

import os

from asot.validation import physical_memory

FACTOR = 200
"""Reading may take up to this many times the size of the file."""

FLOOR = 2**28
"""What reading may always take: 256 MB."""

VARIABLE = "ASOT_MAX_EXPANSION"


def check_expansion(n_bytes: int, path: str | os.PathLike[str], size: int | None = None) -> None:
    """Refuse to read a file that asks for more memory than its size accounts for, or than there is.

    ``size``: of all files, where ``path`` is a folder.
    """
    size = os.path.getsize(path) if size is None else size
    if n_bytes > max(FLOOR, _factor() * size):
        raise ValueError(
            f"{path} has {_amount(size)} but takes about {_amount(n_bytes)} of memory to read; files that "
            f"expand by more than {_factor():g} times are refused. If you trust it, set the environment variable "
            f"{VARIABLE}={-(-n_bytes // max(1, size))}"
        )
    memory = physical_memory()
    if memory is not None and n_bytes > memory:
        raise ValueError(f"{path} needs {n_bytes / 1e9:,.1f} GB and this machine has {memory / 1e9:,.1f} GB")


def _factor() -> float:
    text = os.environ.get(VARIABLE)
    if not text:
        return FACTOR
    try:
        factor = float(text)
    except ValueError:
        factor = -1.0
    if not factor >= 1:
        raise ValueError(f"the environment variable {VARIABLE} must be a number ≥ 1; found {text!r}")
    return factor


def _amount(n_bytes: int) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:,.1f} {name}"
    return f"{n_bytes} bytes"
