"""CUDA sources to loaded kernels: compiled ahead (`asot.gpu.ahead`) where that was done, and else at run time by CuPy
for the GPU at hand, cached on disk by it."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import Any

from asot.gpu import ahead, cupy

FOLDERS = ("gpu", "exact/cuda", "entropic", "run", "estimate", "spaces")
"""Where the sources are: each next to the solver that launches it."""

Variant = tuple[str, Mapping[str, object]]
"""A kernel file and its defines. A solver's ``variants(shared_memory)`` are those that are compiled ahead, for chips
whose blocks have so many bytes of shared memory (`build_support/gpu_kernels.py` asks for them)."""


@functools.cache
def source(name: str) -> str:
    """The text of a kernel file, after the common header; lines that include another file are replaced by its text."""
    return _read("common.cuh") + _read(f"{name}.cu")


def _read(file: str) -> str:
    folder = next(folder for folder in FOLDERS if (resources.files("asot") / folder / file).is_file())
    text = (resources.files("asot") / folder / file).read_text(encoding="utf-8")
    return re.sub(r'^#include "(\w+\.cuh)"$', lambda found: _read(found[1]), text, flags=re.MULTILINE)


def options_of(defines: Mapping[str, object]) -> tuple[str, ...]:
    """What the compiler is told."""
    return ("-std=c++17", *sorted(f"-D{key}={value}" for key, value in defines.items()))


def load(name: str, defines: Mapping[str, object]) -> Any:
    """The module ``name`` for the current GPU, with preprocessor ``defines``: it has ``get_function``."""
    return _load(name, options_of(defines), cupy.cuda.Device().id)


def load_all(kernels: Sequence[Variant]) -> None:
    """Load the kernels (name, defines) side by side, if they are not yet; a file has one of its own name."""
    device = cupy.cuda.Device()
    keys = [(name, options_of(defines), device.id) for name, defines in kernels]
    if _loaded.issuperset(keys):  # threads would take as long to start as a call with few pairs
        return

    def one(kernel: Variant) -> None:
        with device:
            load(*kernel).get_function(kernel[0])

    with ThreadPoolExecutor(max(1, min(len(kernels), os.cpu_count() or 1))) as pool:
        list(pool.map(one, kernels))
    _loaded.update(keys)


_loaded: set[tuple[str, tuple[str, ...], int]] = set()
"""What `load_all` has loaded: files, options, and numbers of GPUs."""


@functools.cache
def _load(name: str, options: tuple[str, ...], device: int) -> Any:
    text = source(name)
    code = ahead.find(ahead.key_of(text, options), int(cupy.cuda.Device().compute_capability))
    if code is not None:
        try:
            return _Ready(code)
        except cupy.cuda.driver.CUDADriverError:
            pass  # a driver older than the archive
    return cupy.RawModule(code=text, options=options)


class _Ready:
    """A module that was compiled ahead, on the current GPU, with the part of `cupy.RawModule` that is used."""

    def __init__(self, code: bytes) -> None:
        module = cupy.cuda.function.Module()
        module.load(code)
        self.get_function = functools.cache(lambda name: _Function(module.get_function(name)))


class _Function:
    """A kernel, as `cupy.RawKernel`."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def _make_room(self, size: int) -> None:
        driver = cupy.cuda.driver
        driver.funcSetAttribute(self._function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, size)

    max_dynamic_shared_size_bytes = property(fset=_make_room)

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
        self._function(grid, block, args, shared_mem)
