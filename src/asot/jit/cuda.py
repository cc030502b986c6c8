"""CUDA sources to loaded kernels, compiled at run time by CuPy for the GPU at hand and cached on disk by it."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import Any

import numpy as np

from asot.run.pairs import AllPairs, CrossPairs, PairSet

FOLDERS = ("jit", "exact/cuda", "entropic", "run")
"""Where sources lie: each beside the solver that launches it."""


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


def pair_arguments(pairs: PairSet, start: int, stop: int) -> tuple[Any, ...]:
    """The arguments (kind, n_rows, n_columns, listed) by which kernels know the pairs start..stop-1 of a set."""
    import cupy

    kind = 0 if isinstance(pairs, AllPairs) else 1 if isinstance(pairs, CrossPairs) else 2
    if kind == 2:
        listed = cupy.asarray(np.stack(pairs.indices(start, stop), axis=1))  # (P, 2)
    else:
        listed = cupy.empty((0, 2), dtype=np.int64)
    return np.int32(kind), np.int64(pairs.n_rows), np.int64(pairs.n_columns), listed


def launch_over_pairs(kernel: str, size: int, *arguments: Any) -> None:
    """Enqueue a kernel of ``reduce.cu``, whose threads stride over ``size`` pairs."""
    threads, most_blocks = 256, 1024
    blocks = max(1, min(most_blocks, -(-size // threads)))
    load("reduce", {}).get_function(kernel)((blocks,), (threads,), arguments)
