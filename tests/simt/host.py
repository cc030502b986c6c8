"""Run the CUDA kernels of asot on the CPU, from Python, with NumPy arrays.

The text that CuPy would compile for a GPU is compiled by g++ behind `simt.hpp`, which gives CUDA's words a meaning on
the host. Every array stands between guards that must survive, so that a store outside of it is found too.

    lib = host.build("sinkhorn_log", {"SOME_DEFINE": 1})
    host.launch(lib, "a_kernel", [np.arange(3.0), 2.0, np.int32(5)], grid=1, block=32, order_seed=host.REVERSE)

Kernels are ``extern "C" __global__``. As with CuPy, a scalar must have the type of the kernel's parameter: a Python int
is an i64, a float a double, ``np.int32(5)`` an int.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asot.gpu.cuda import source

FORWARD, REVERSE = 0, -1
"""Orders of the threads between two barriers; a positive number is the seed of a random order."""

ORDERS = (FORWARD, REVERSE, 1, 2)
"""Orders that a kernel should be tried in: an answer that depends on them is a missing barrier."""

COMPILER = shutil.which("g++")

KEPT = Path(__file__).parents[2] / ".pytest_cache" / "simt"
"""Compiled kernels, under the hash of their text: both workers of a run use them, and the next run."""

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="g++ is not installed, and kernels are compiled with it")

GUARD_BYTES = 256
POISON = 0xDB


@functools.cache
def _compiler_version() -> str:
    return subprocess.run([str(COMPILER), "--version"], capture_output=True, text=True, check=True).stdout


class SimtError(RuntimeError):
    """What a GPU would answer with a hang, or with anything at all."""


def build(name: str, defines: Mapping[str, object], launcher: str = "") -> ctypes.CDLL:
    """Compile ``src/asot/**/<name>.cu`` with preprocessor ``defines``.

    ``launcher`` names the kernels that `launch` will be asked for, with spaces between them: all, if it is empty.
    """
    return compile_source(source(name), [f"-D{key}={value}" for key, value in sorted(defines.items())], launcher)


def compile_text(text: str, defines: Mapping[str, object]) -> ctypes.CDLL:
    """Compile kernels given as text, behind ``common.cuh``."""
    common = (resources.files("asot") / "gpu" / "common.cuh").read_text(encoding="utf-8")
    return compile_source(common + text, [f"-D{key}={value}" for key, value in sorted(defines.items())])


def compile_source(text: str, flags: Sequence[str], launcher: str = "") -> ctypes.CDLL:
    """Compile what NVRTC would be given. A text is compiled once: the library is kept in pytest's cache folder."""
    if COMPILER is None:
        pytest.skip("g++ is not installed, and kernels are compiled with it")
    kernels = launcher.split() or re.findall(r'extern "C" __global__ void (?:__launch_bounds__\(.*?\) )?(\w+)', text)
    headers = [Path(__file__).with_name(file).read_text(encoding="utf-8") for file in ("simt.hpp", "words.hpp")]
    exports = [f"SIMT_EXPORT({kernel})" for kernel in kernels]
    return _compile("\n".join([*headers, text, *exports, ""]), tuple(flags))


@functools.cache
def _compile(text: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    command = (str(COMPILER), "-std=c++17", "-O2", "-Wall", "-Wno-unused", "-fPIC", "-shared", "-U_FORTIFY_SOURCE")
    name = hashlib.sha256("\0".join((text, *command, *flags, _compiler_version())).encode()).hexdigest()[:32]
    library = KEPT / f"{name}.so"
    if not library.exists():
        # Compiled elsewhere: a test run that clears pytest's cache would take the folder away from under the compiler.
        with tempfile.TemporaryDirectory() as folder:
            source_file, made = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
            source_file.write_text(text, encoding="utf-8")
            compiling = (*command, *flags, "-o", str(made), str(source_file))
            done = subprocess.run(compiling, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SimtError(f"g++ does not compile the kernel:\n{done.stderr}")
            _keep(made, library)
            return _loaded(made)
    return _loaded(library)


def _keep(made: Path, library: Path) -> None:
    """Put a library into the cache in one step, since another process may be compiling the same."""
    beside = library.with_name(f"{library.name}.{os.getpid()}.{threading.get_ident()}")
    with contextlib.suppress(OSError):  # where the cache cannot be written, or vanishes, the next run compiles again
        KEPT.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, beside)
        beside.replace(library)


def _loaded(library: Path) -> ctypes.CDLL:
    lib = ctypes.CDLL(str(library))
    lib.simt_message.restype = ctypes.c_char_p
    return lib


def launch(
    lib: ctypes.CDLL,
    kernel: str,
    kernel_args: Sequence[Any],
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    shared_bytes: int = 0,
    order_seed: int = FORWARD,
    most_switches: int = 2 * 10**8,
) -> None:
    """Run a kernel; arrays it may write to are changed in place. Raises `SimtError` where it is used wrongly.

    Parameters
    ----------
    lib : what `build` returned
    kernel : the kernel's name
    kernel_args : NumPy arrays for pointers (an array of size 0 for a null pointer), scalars of the exact type
    grid, block : int or up to three ints
    shared_bytes : int
        Dynamic shared memory of a block. It begins as poison.
    order_seed : `FORWARD`, `REVERSE` or a positive seed of a random order
    most_switches : int
        Bound on how often a thread may be resumed, so that a loop without end is found.
    """
    signature = getattr(lib, f"simt_signature_{kernel}")
    signature.restype = ctypes.c_char_p
    types = signature().decode().split()
    if len(types) != len(kernel_args):
        raise SimtError(f"{kernel} takes {len(types)} arguments, not {len(kernel_args)}")
    arguments = [_Argument(f"argument {t} of {kernel}", types[t], value) for t, value in enumerate(kernel_args)]
    addresses = (ctypes.c_void_p * len(arguments))(*(argument.address for argument in arguments))
    code = getattr(lib, f"simt_launch_{kernel}")(
        addresses,
        (ctypes.c_uint * 3)(*_three(grid)),
        (ctypes.c_uint * 3)(*_three(block)),
        ctypes.c_size_t(shared_bytes),
        ctypes.c_longlong(order_seed),
        ctypes.c_longlong(most_switches),
    )
    if code != 0:
        raise SimtError(f"{kernel}: {lib.simt_message().decode()}")
    for argument in arguments:
        argument.give_back()


def _three(size: int | tuple[int, ...]) -> tuple[int, ...]:
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return sizes + (1,) * (3 - len(sizes))


class _Argument:
    """One argument of a kernel: where it lies, and for an array the guarded copy that the kernel works on."""

    def __init__(self, what: str, type_: str, value: Any) -> None:
        self._what = what
        self._array, self._written = None, type_[0] == "p"
        if type_[0] in "pc":
            self._guard(type_[1:], value)
        else:
            scalar = np.asarray(value)
            if scalar.ndim or scalar.dtype != np.dtype(type_):
                raise SimtError(f"{what} is a {type_}, not {value!r} ({scalar.dtype})")
            self._cell = scalar.reshape(1).copy()
        self.address = self._cell.ctypes.data

    def _guard(self, type_: str, array: Any) -> None:
        fits = isinstance(array, np.ndarray) and array.flags.c_contiguous
        if not fits or (type_ != "*" and array.dtype != np.dtype(type_)):
            raise SimtError(f"{self._what} is a contiguous array of {type_}, not {getattr(array, 'dtype', array)!r}")
        if array.size == 0:
            self._cell = np.zeros(1, dtype=np.uint64)
            return
        self._array = array
        self._memory = np.full(array.nbytes + 2 * GUARD_BYTES, POISON, dtype=np.uint8)
        self._inside = self._memory[GUARD_BYTES : GUARD_BYTES + array.nbytes]
        self._inside[:] = array.reshape(-1).view(np.uint8)
        self._cell = np.array([self._inside.ctypes.data], dtype=np.uint64)

    def give_back(self) -> None:
        if self._array is None:
            return
        guards = np.concatenate([self._memory[:GUARD_BYTES], self._memory[-GUARD_BYTES:]])
        if (guards != POISON).any():
            raise SimtError(f"{self._what} was written outside of its {self._array.size} elements")
        if self._written:
            self._array.reshape(-1).view(np.uint8)[:] = self._inside
