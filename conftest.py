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


NEEDS_ZARR = {"sink.py", "stored.py"} if importlib.util.find_spec("zarr") is None else set()
"""Modules whose examples write a store; there is no zarr for Python 3.10."""


SLOW = {
    # the paper, and pages of examples
    "reproduction", "docs",
    # kernels for GPUs, which are interpreted
    "simt", "test_cuda.py", "test_cuda_log.py", "test_cuda_points.py", "test_gpu_engine.py", "test_on_emulated_gpu.py",
    "test_on_gpu.py", "test_triton_fused.py",
    # other processes: clusters, browsers, type checkers
    "test_backends.py", "test_cluster.py", "test_page.py", "test_strange_stores.py", "test_types.py",
    # attacks, and long comparisons
    "test_attack.py", "test_attacks.py", "test_every_combination.py", "test_same_bits.py",
    "test_a_fixed_number_of_iterations", "test_bounds_hold_for_any_points_and_any_anchors",
    "test_features_of_any_scale_are_learned", "test_gradients_are_those_of_finite_differences",
    "test_inertia_is_within_a_percent_of_scikit_learns",
    "test_learned_anchors_are_far_better_than_those_of_k_means", "test_memory_does_not_grow_with_the_number_of_points",
    "test_small_files_take_little_memory", "test_sorting_gives_what_a_linear_program_gives",
    "test_the_error_that_was_asked_for_is_met_and_anchors_are_used_where_they_pay",
    "test_the_number_of_threads_changes_no_bit", "test_to_convergence", "test_values_are_those_of_a_proven_plan",
}  # fmt: skip
"""Folders, files and names of tests that `./run_tests fast` leaves out."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SLOW & {*item.path.relative_to(HERE).parts, getattr(item, "originalname", None)}:
            item.add_marker(pytest.mark.slow)


def pytest_configure(config: pytest.Config) -> None:
    """Without a GPU, Triton interprets its kernels. It reads this when it is first imported, by whatever package."""
    if config.getoption("markexpr") != "gpu":
        os.environ.setdefault("TRITON_INTERPRET", "1")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("markexpr") != "gpu" or collection_path.is_dir():
        return (collection_path.parent.name == "store" and collection_path.name in NEEDS_ZARR) or None
    return not any(folder in collection_path.parents for folder in GPU_TESTS) or None
