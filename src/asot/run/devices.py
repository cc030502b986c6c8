"""Which hardware to use: reads ``device``, decides when a GPU pays off, and says why it is not used.

If the user names a GPU, it does the work or the call fails with a reason. With ``device="auto"``, the work then goes to
the CPU, and the reason is kept in ``info``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from asot.gpu import ahead, cupy

START_SECONDS, COMPILE_SECONDS = 0.7, 2.5
"""What a first call takes longer (`python -m benchmarks gpu_startup`): CuPy and CUDA start, and kernels are loaded, or
compiled where the package asot-cuda is not installed."""

LATER_CALL_SECONDS = 0.05
"""Seconds of CPU work from which "auto" uses a GPU that has been used before, if nobody knows better."""

OLDEST_CAPABILITY = 70
"""Volta (7.0): the first generation whose threads of a warp can wait for each other by name."""

_INSTALL = {
    "cupy": "CuPy is not installed; pip install 'asot[cuda12]' (or 'asot[cuda13]')",
    "torch": "PyTorch is not installed; pip install 'asot[cuda12]' (or 'asot[cuda13]')",
    "triton": "Triton is not installed; it comes with PyTorch for CUDA on Linux",
}

_awake = False


@dataclass(frozen=True)
class Choice:
    """Where a call runs."""

    gpus: tuple[int, ...]
    """CUDA device numbers; none means the CPU."""
    reason: str
    """Why, for `info`."""
    required: bool
    """Whether the user named the GPU: then a failure is an error, without a fallback."""

    @property
    def name(self) -> str:
        return " + ".join(f"cuda:{gpu}" for gpu in self.gpus) or "cpu"


UNASKED = Choice((), "", required=False)
"""The CPU, where no other device is a question."""


def on_cpu(device: Any, reason: str) -> Choice:
    """The CPU, because GPUs have nothing to offer; with ``device="cpu"``, that is the reason."""
    return Choice((), "asked for" if parse(device)[0] == "cpu" else reason, required=False)


def choose(
    device: Any,
    *,
    needs: Sequence[str] = ("cupy",),
    cpu_seconds: float,
    gpu_seconds: float = LATER_CALL_SECONDS,
    unfit: str | None = None,
) -> Choice:
    """Decide where to solve.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "cuda:N"}
        "cuda" uses every visible GPU, "cuda:N" one of them.
    needs : packages that the GPU solver needs
    cpu_seconds : estimate of the work, in seconds of the CPU threads that would do it
    gpu_seconds : the same on a GPU that has been used before; "auto" takes it if the CPU is slower than that, and than
        starting it where it has not been used
    unfit : why no GPU solver can take this problem, if so
    """
    global _awake
    kind, number = parse(device)
    if kind == "cpu":
        return Choice((), "asked for", required=False)
    required = kind == "cuda"
    if not required and cpu_seconds < gpu_seconds + (0.0 if _awake else _start_seconds()):
        return Choice((), "too little work for a GPU", required=False)
    obstacle = unfit or _obstacle(tuple(needs)) or _missing(device, number, gpu_count)
    if obstacle is not None:
        if required:
            raise ValueError(f"device={str(device)!r} cannot be used: {obstacle} (device='cpu' solves on the CPU)")
        return Choice((), obstacle, required=False)
    _awake = True
    gpus = tuple(range(gpu_count())) if number is None else (number,)
    return Choice(gpus, "asked for" if required else f"about {cpu_seconds:.2g} s of CPU work", required)


def worth_from(device: Any) -> float:
    """Seconds of CPU work from which `choose` takes a GPU that has been used before."""
    return 0.0 if parse(device)[0] == "cuda" else LATER_CALL_SECONDS


def torch_device(device: Any, worth_it: bool) -> str | None:
    """The torch device for ``device``, or None if NumPy on the CPU should do the work."""
    kind, number = parse(device)
    if kind == "cpu" or (kind == "auto" and not worth_it):
        return None
    obstacle = _torch_obstacle() or _missing(device, number, lambda: sys.modules["torch"].cuda.device_count())
    if obstacle is None:
        return "cuda" if number is None else f"cuda:{number}"
    if kind == "cuda":
        raise ValueError(f"device={str(device)!r} cannot be used: {obstacle} (device='cpu' works on the CPU)")
    return None


def of_points(device: Any) -> str:
    """Where a call that solves pairs on ``device`` learns anchors and finds nearest ones, unless it is told.

    A GPU is asked for because of the pairs. It takes the points, too, if they are so many that PyTorch, which takes
    seconds to load, pays; a GPU with a number of its own takes them always.
    """
    kind, number = parse(device)
    return "auto" if kind == "cuda" and not number else str(device)


def parse(device: Any) -> tuple[str, int | None]:
    """("auto" | "cpu" | "cuda", number or None) of a device name or a torch.device."""
    if isinstance(device, str) and device in ("auto", "cpu"):
        return device, None
    match = re.fullmatch(r"(auto|cpu)|cuda(?::(\d+))?", str(device))
    if match is None:
        raise ValueError(f"unknown device {device!r}; use 'auto', 'cpu', 'cuda' or 'cuda:N'")
    return match[1] or "cuda", None if match[2] is None else int(match[2])


def gpu_count() -> int:
    """The number of GPUs that CUDA lists for this process; 0 without CuPy or without a working driver."""
    return 0 if _cupy_obstacle() is not None else int(cupy.cuda.runtime.getDeviceCount())


def _start_seconds() -> float:
    return START_SECONDS + (COMPILE_SECONDS if ahead.archive() is None else 0.0)


def _missing(device: Any, number: int | None, count: Callable[[], int]) -> str | None:
    """Why a GPU with a number is not there, if so."""
    if number is None or number < (n := count()):
        return None
    has = "1 GPU (cuda:0)" if n == 1 else f"{n} GPUs (cuda:0 to cuda:{n - 1})" if n else "no GPU"
    return f"{device} does not exist; this machine has {has}"


def _obstacle(needs: tuple[str, ...]) -> str | None:
    """Why a GPU solver that needs these packages cannot run, as a sentence with the remedy; None if it can."""
    for package in needs:
        if importlib.util.find_spec(package) is None:
            return _INSTALL[package]
    if "torch" in needs and (obstacle := _torch_obstacle()) is not None:
        return obstacle
    return _cupy_obstacle()


@functools.cache
def _cupy_obstacle() -> str | None:
    try:
        importlib.import_module("cupy")
    except ImportError as error:
        return _INSTALL["cupy"] if importlib.util.find_spec("cupy") is None else f"CuPy does not load: {error}"
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
        old = [gpu for gpu in range(count) if int(cupy.cuda.Device(gpu).compute_capability) < OLDEST_CAPABILITY]
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if "InsufficientDriver" in str(error):
            return "the NVIDIA driver is too old for the installed CuPy; update the driver or install another CuPy"
        return f"CUDA finds no GPU ({error})"
    if count == 0:
        return "CUDA finds no GPU"
    return f"cuda:{old[0]} is older than compute capability 7.0" if old else None


@functools.cache
def _torch_obstacle() -> str | None:
    try:
        import torch
    except ImportError as error:
        return _INSTALL["torch"] if importlib.util.find_spec("torch") is None else f"PyTorch does not load: {error}"
    if torch.version.cuda is None:
        return "the installed PyTorch has no CUDA; install a CUDA build of it"
    if not torch.cuda.is_available():
        return "PyTorch finds no usable GPU: there is none, or its driver is too old"
    return None


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Limits PyTorch to this many threads inside the block: one, if tiles or batches are small."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
