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
    "simt", "test_cuda.py", "test_cuda_any_cost.py", "test_cuda_cloud_arcs.py", "test_cuda_log.py",
    "test_cuda_large_assignment.py", "test_cuda_own_costs.py",
    "test_cuda_points.py", "test_gpu_engine.py", "test_on_emulated_gpu.py", "test_on_gpu.py", "test_triton_fused.py",
    # other processes: clusters, browsers, type checkers
    "test_backends.py", "test_cluster.py", "test_command_line_page.py", "test_demo.py", "test_fused.py",
    "test_index_beside_a_writer.py", "test_index_killed.py",
    "test_page.py", "test_strange_stores.py", "test_types.py", "test_a_killed_search_goes_on",
    "test_demo_prints_a_table_and_draws_a_picture", "test_torch_compiles_clouds_as_one_graph",
    # attacks, and long comparisons
    "test_attack.py", "test_attacks.py", "test_every_combination.py", "test_same_bits.py",
    "test_a_cost_with_one_broken_triangle_is_still_solved_right", "test_a_damaged_folder_is_refused",
    "test_a_fixed_number_of_iterations", "test_bounds_hold_for_any_points_and_any_anchors",
    "test_by_chance_p_values_are_even", "test_emd_many_takes_the_graph_at_any_scale_and_with_any_threads",
    "test_exact_values_agree_with_highs", "test_features_of_any_scale_are_learned",
    "test_gradients_are_those_of_finite_differences",
    "test_gradients_in_histograms_and_points", "test_gradients_in_points_are_finite_differences",
    "test_gradients_in_two_sets_and_their_cost", "test_inertia_is_within_a_percent_of_scikit_learns",
    "test_kinds_of_cells_come_from_an_h5ad_file",
    "test_learned_anchors_are_far_better_than_those_of_k_means", "test_memory_does_not_grow_with_the_number_of_points",
    "test_metric_costs", "test_partial_transport_agrees_with_a_linear_program_and_its_plan",
    "test_primal_equals_dual_on_every_pair", "test_no_bound_is_above_the_price_of_any_plan",
    "test_p_values_of_groups_are_uniform_with_strata_unequal_sizes_and_ties",
    "test_p_values_of_perturbations_are_uniform_with_strata_and_unequal_sizes", "test_projections_agree_with_pot",
    "test_scikit_learns_maps_read_a_result_as_it_is", "test_small_files_take_little_memory",
    "test_sorting_gives_what_a_linear_program_gives",
    "test_the_error_that_was_asked_for_is_met_and_anchors_are_used_where_they_pay",
    "test_the_number_of_threads_changes_no_bit", "test_the_odd_one_is_found_and_small_samples_are_not_odd",
    "test_the_true_share_is_rarely_below_the_stated_one", "test_threads_and_memory_do_not_change_the_answer",
    "test_to_convergence", "test_values_agree_with_a_long_double_reference",
    "test_wild_rectangular_problems_agree_with_the_reference",
    "test_values_and_gradients_are_those_of_sinkhorn_many",
    "test_values_are_those_of_a_proven_plan", "test_values_of_costs_are_those_of_emd_batch",
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
