"""Compile the CUDA kernels ahead, for all chips, on a machine without a GPU: ``python build_support/gpu_kernels.py``.

NVRTC, NVIDIA's compiler as a library, comes from PyPI (packaging/build_gpu_kernels installs it for this script). Every
solver lists its own kernels in ``variants``; the archive goes into the package asot-cuda, where `asot.gpu.ahead` finds
it. NVRTC 12.8 is the first that knows capability 10.0, and drivers of CUDA 12 and 13 load what it makes.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from asot.gpu import ahead
from asot.gpu.cuda import Variant, options_of, source

SOLVERS = (
    "asot.run.gpu_transfer",
    "asot.exact.cuda.solver",
    "asot.exact.cuda.points",
    "asot.exact.cuda.any_cost",
    "asot.exact.cuda.own_costs",
    "asot.exact.cuda.cloud_arcs",
    "asot.exact.cuda.cloud_costs",
    "asot.exact.cuda.cloud_pairs",
    "asot.exact.cuda.plan_tables",
    "asot.exact.cuda.large_assignment",
    "asot.entropic.cuda",
    "asot.estimate.cuda",
    "asot.spaces.cuda",
)
"""Modules with ``variants``."""

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "packaging" / "cuda" / "src" / "asot_cuda" / ahead.ARCHIVE
KEPT = ROOT / "build" / "gpu_kernels"


class CompileError(RuntimeError):
    """What NVRTC says about a kernel that it does not compile."""


def variants(shared_memory: int) -> list[Variant]:
    """All kernels that are compiled ahead for a chip whose blocks have so many bytes of shared memory."""
    return [each for name in SOLVERS for each in importlib.import_module(name).variants(shared_memory)]


def jobs(kinds: list[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(kind, kernel file, options) of all that is compiled for the ``kinds``: "sm_90", …, "ptx"."""
    for kind in kinds:
        sizes = ahead.PTX_SHARED_MEMORY if kind == "ptx" else ahead.SHARED_MEMORY[int(kind.removeprefix("sm_"))]
        yield from dict.fromkeys((kind, name, options_of(d)) for size in sizes for name, d in variants(size))


class Nvrtc:
    """NVRTC, loaded from a file."""

    def __init__(self, library: Path) -> None:
        self._lib = ctypes.CDLL(str(library))
        self._lib.nvrtcGetErrorString.restype = ctypes.c_char_p

    def compile(self, text: str, options: tuple[str, ...], kind: str) -> bytes:
        """The cubin of a kernel file for "sm_90" and the like, or "ptx" with the zero that ends it."""
        architecture = f"compute_{ahead.PTX_CAPABILITY}" if kind == "ptx" else kind
        told = [option.encode() for option in (*options, f"--gpu-architecture={architecture}")]
        program = ctypes.c_void_p()
        self._check(self._lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None))
        try:
            if self._lib.nvrtcCompileProgram(program, len(told), (ctypes.c_char_p * len(told))(*told)) != 0:
                raise CompileError(self._fetch(program, "ProgramLog").decode())
            return self._fetch(program, "PTX" if kind == "ptx" else "CUBIN")
        finally:
            self._lib.nvrtcDestroyProgram(ctypes.byref(program))

    def _fetch(self, program: Any, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._lib, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw

    def _check(self, code: int) -> None:
        if code != 0:
            raise RuntimeError(f"NVRTC: {self._lib.nvrtcGetErrorString(code).decode()}")


def find_nvrtc() -> Path:
    """The library of the installed package nvidia-cuda-nvrtc-cu12, or else of a later one."""
    package = importlib.util.find_spec("nvidia")
    folders = [] if package is None else list(package.submodule_search_locations or ())
    for pattern in ("cuda_nvrtc/lib/libnvrtc.so.*", "cu*/lib/libnvrtc.so.*"):
        for folder in folders:
            if found := sorted(Path(folder).glob(pattern)):
                return found[0]
    sys.exit("NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12==12.8.93")


def write(kinds: list[str], place: Path, nvrtc: Nvrtc) -> None:
    """Compile everything and write the archive: one member for every kernel file and kind of chip, and an index.

    What was compiled before is taken from the folder build.
    """
    asked = list(jobs(kinds))
    texts = {name: source(name) for _, name, _ in asked}
    keys = [f"{kind}/{ahead.key_of(texts[name], options)}" for kind, name, options in asked]

    def made_or_known(job: tuple[str, str, tuple[str, ...]], key: str) -> bytes:
        kind, name, options = job
        kept = KEPT / key
        if not kept.exists():
            unfinished = kept.with_suffix(".tmp")
            kept.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(nvrtc.compile(texts[name], options, kind))
            unfinished.replace(kept)
        return kept.read_bytes()

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(made_or_known, asked, keys))
    members: dict[str, bytearray] = {}
    index: dict[str, tuple[str, int, int]] = {}
    for (kind, name, _), key, code in zip(asked, keys, made, strict=True):
        member = members.setdefault(f"{kind}/{name}", bytearray())
        index[key] = f"{kind}/{name}", len(member), len(code)
        member += code
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_suffix(".tmp")
    with zipfile.ZipFile(unfinished, "w") as archive:
        archive.writestr(ahead.INDEX, json.dumps(index), zipfile.ZIP_DEFLATED)
        for member, code in members.items():
            archive.writestr(member, bytes(code), zipfile.ZIP_LZMA)
    unfinished.replace(place)
    sizes = place.stat().st_size / 1e6, sum(map(len, made)) / 1e6
    sys.stdout.write(f"{place}: {len(index)} kernels, {sizes[0]:.2f} MB ({sizes[1]:.0f} MB unpacked)\n")


def main() -> None:
    every = [*(f"sm_{capability}" for capability in ahead.SHARED_MEMORY), "ptx"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=f"which of {', '.join(every)} (default: all)")
    parser.add_argument("--to", type=Path, default=PLACE, help="the archive (default: in packaging/cuda)")
    asked = parser.parse_args()
    if unknown := set(asked.kinds) - set(every):
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(every)}")
    write(asked.kinds or every, asked.to, Nvrtc(find_nvrtc()))


if __name__ == "__main__":
    main()
