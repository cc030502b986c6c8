"""``pytest -m gpu`` runs the tests that need a GPU, and reads nothing else; ``-m "not slow"`` leaves out slow ones.

The first works on a GPU machine that has pytest, PyTorch with Triton, CuPy and the package's own dependencies, but none
of the packages that the other tests compare with.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GPU_TESTS = (HERE / "tests" / "gpu", HERE / "reproduction" / "tests" / "gpu")


NEEDS_ZARR = {"store.py", "stored.py"} if importlib.util.find_spec("zarr") is None else set()
"""Modules whose examples write a store; there is no zarr for Python 3.10."""


SLOW_FILES = {
    "test_attacks.py",
    "test_attack.py",
    "test_cuda.py",
    "test_cuda_log.py",
    "test_cuda_points.py",
    "test_gpu_engine.py",
    "test_on_emulated_gpu.py",
    "test_on_gpu.py",
    "test_simt.py",
    "test_triton_fused.py",
}
"""Files of tests that take long: attacks, and kernels for GPUs, which are interpreted."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in SLOW_FILES:
            item.add_marker(pytest.mark.slow)


def pytest_configure(config: pytest.Config) -> None:
    """Without a GPU, Triton interprets its kernels. It reads this when it is first imported, by whatever package."""
    if config.getoption("markexpr") != "gpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("markexpr") != "gpu" or collection_path.is_dir():
        return (collection_path.parent.name == "run" and collection_path.name in NEEDS_ZARR) or None
    return not any(folder in collection_path.parents for folder in GPU_TESTS) or None
