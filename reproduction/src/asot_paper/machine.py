"""What numbers depend on besides settings: versions of packages, processor, threads, GPU."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path

import asot

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "POT")


@functools.cache
def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str | None]:
    """Version of Python and of every package involved; None for one that is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version(), "asot": asot.__version__}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def machine(threads: int) -> dict[str, str | int | None]:
    """Processor, number of cores, threads that were used, and the GPU if there is one."""
    return {"cpu": _cpu(), "cores": _cores(), "threads": threads, "gpu": gpu_name(), "system": platform.system()}


@functools.cache
def _cpu() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine() or "unknown"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def gpu_name() -> str | None:
    """Name of the first GPU that PyTorch or CuPy can use."""
    if importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            return str(torch.cuda.get_device_name(0))
    from asot.run import devices

    if devices.gpu_count() == 0:
        return None
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
