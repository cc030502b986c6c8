"""Kernels compiled ahead of time, so that the first answer of a GPU need not wait for a compiler.

The package ``asot-cuda`` holds an archive of kernels for current chips, and PTX for later ones. A kernel is known by
a hash of its whole text and its defines: one of another version of asot is never found, and then CuPy compiles the text
as if there were no archive. `build_support/gpu_kernels.py` makes the archive, without a GPU.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

ARCHIVE, INDEX = "kernels.zip", "index.json"

SHARED_MEMORY = {80: (166_912, 101_376), 90: (232_448,), 100: (232_448,)}
"""Compute capabilities that have cubins of their own. A cubin also runs on later chips of the same first digit, so with
each one come the bytes of shared memory of a block on all of these (8.0; 8.6 and 8.9), which decide about layouts."""

PTX_CAPABILITY, PTX_SHARED_MEMORY = 80, (101_376, 232_448)
"""Of chips without cubins (12.0 and later): the driver compiles PTX."""


def key_of(text: str, options: Sequence[str]) -> str:
    """The name of a compiled kernel file."""
    return hashlib.sha256("\0".join((text, *options)).encode()).hexdigest()[:32]


def find(key: str, capability: int) -> bytes | None:
    """The code of a kernel file for a chip of this compute capability (90 for 9.0), if it was compiled ahead."""
    path = archive()
    if path is None:
        return None
    index = _index(path)
    for kind in _kinds(capability):
        if place := index.get(f"{kind}/{key}"):
            member, start, size = place
            return _member(path, member)[start : start + size]
    return None


def _kinds(capability: int) -> list[str]:
    """Folders of the archive that a chip can use, the best first."""
    own = [f"sm_{known}" for known in SHARED_MEMORY if known // 10 == capability // 10 and known <= capability]
    return own[-1:] or (["ptx"] if capability >= PTX_CAPABILITY else [])


@functools.cache
def archive() -> Path | None:
    """The archive of the installed package ``asot-cuda``."""
    found = importlib.util.find_spec("asot_cuda")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).with_name(ARCHIVE)
    return path if path.is_file() else None


@functools.cache
def _index(path: Path) -> dict[str, tuple[str, int, int]]:
    with zipfile.ZipFile(path) as opened:
        index: dict[str, tuple[str, int, int]] = json.loads(opened.read(INDEX))
    return index


@functools.lru_cache(maxsize=4)
def _member(path: Path, member: str) -> bytes:
    """Kernels of one file, for one kind of chip: they are alike, and small together."""
    with zipfile.ZipFile(path) as opened:
        return opened.read(member)
