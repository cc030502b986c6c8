"""CUDA sources to loaded kernels, compiled at run time by CuPy for the GPU at hand and cached on disk by it."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import Any

FOLDERS = ("gpu", "exact/cuda", "entropic", "run", "estimate")
"""Where the sources are: each next to the solver that launches it."""


def source(name: str) -> str:
    """The text of a kernel file, after the common header; lines that include another file are replaced by its text."""
    return _read("common.cuh") + _read(f"{name}.cu")


def _read(file: str) -> str:
    folder = next(folder for folder in FOLDERS if (resources.files("asot") / folder / file).is_file())
    text = (resources.files("asot") / folder / file).read_text(encoding="utf-8")
    return re.sub(r'^#include "(\w+\.cuh)"$', lambda found: _read(found[1]), text, flags=re.MULTILINE)


def load(name: str, defines: Mapping[str, object]) -> Any:
    """The module ``name`` (cupy.RawModule) for the current GPU, with preprocessor ``defines``."""
    import cupy

    return _load(name, tuple(sorted((key, str(value)) for key, value in defines.items())), cupy.cuda.Device().id)


def load_all(kernels: Sequence[tuple[str, Mapping[str, object]]]) -> None:
    """Compile the kernels (name, defines) side by side, if they are not loaded yet; a file has one of its own name."""
    import cupy

    device = cupy.cuda.Device()

    def one(kernel: tuple[str, Mapping[str, object]]) -> None:
        with device:
            load(*kernel).get_function(kernel[0])

    with ThreadPoolExecutor(max(1, min(len(kernels), os.cpu_count() or 1))) as pool:
        list(pool.map(one, kernels))


@functools.cache
def _load(name: str, defines: tuple[tuple[str, str], ...], device: int) -> Any:
    import cupy

    options = ("-std=c++17", *(f"-D{key}={value}" for key, value in defines))
    return cupy.RawModule(code=source(name), options=options)
