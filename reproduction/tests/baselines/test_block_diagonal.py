"""BDS-eOT: the iterations of eOT, for stacks of pairs of different sizes."""

from __future__ import annotations

import numpy as np
import pytest
from asot_paper.baselines import block_diagonal, entropic
from asot_paper.baselines.merged import merged_points
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

import asot
from reproduction.tests.baselines.problems import clouds, lattice, with_diagonal
from tests.strategies import extent

torch = pytest.importorskip("torch")

from asot_paper.baselines import bds_eot, stacked, stacked_sinkhorn  # noqa: E402
from asot_paper.baselines.stacked_costs import HostCosts, SummedCosts, TableOfCosts, make_costs  # noqa: E402
from asot_paper.baselines.stacked_sinkhorn import LIMITS  # noqa: E402

REGS = (30.0, 1.0, 0.1, 0.03, 0.01, 1e-3, 1e-6)


def on_cpu(D, E=None, **options):
    return block_diagonal(D, E, device="cpu", **options)


@pytest.mark.parametrize("init", ["ones", "target"])
@pytest.mark.parametrize("reg", REGS)
@pytest.mark.parametrize("make", [clouds, lattice])
def test_it_is_the_iteration_of_eot_for_every_reg(make, reg, init):
    D = make()
    how = {"reg": reg, "pairs": with_diagonal(len(D)), "max_iter": 30, "init": init}
    expected, r = entropic(D, **how), on_cpu(D, **how)
    assert_allclose(r.values, expected.values, rtol=1e-11, atol=1e-13 * extent(D.points))
    assert_allclose(r.marginal_error, expected.marginal_error, atol=1e-12)
    assert set(r.status) == {asot.Status.FIXED_ITERATIONS}
    assert_array_equal(r.n_iter, 30)


@pytest.mark.parametrize("reg", REGS)
def test_float32_is_right_to_a_millionth(reg):
    D = clouds(weighted=True)
    how = {"reg": reg, "pairs": with_diagonal(len(D))}
    r = on_cpu(D, precision="float32", **how)
    assert_allclose(r.values, entropic(D, **how).values, rtol=2e-6, atol=1e-7 * extent(D.points))
    assert r.info["precision"] == "float32"


@pytest.mark.parametrize("scale", [1e-300, 1e-46, 1e42, 1e300])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_values_scale_with_the_points(scale, precision):
    D = clouds()
    scaled = asot.Distributions(scale * D.points, D.offsets)
    expected = scale * entropic(D, reg=0.3).values
    assert_allclose(on_cpu(scaled, reg=scale * 0.3, precision=precision).values / expected, 1.0, rtol=2e-6)


def test_pairs_within_and_out_of_reach_of_the_kernel_share_a_tile():
    near, far = clouds(), clouds(seed=1, shift=300.0)
    how = {"reg": 1.0, "max_iter": 10}
    expected = entropic(near, far, **how)
    for precision in ("float32", "float64"):
        r = on_cpu(near, far, precision=precision, **how)
        assert_allclose(r.values, expected.values, rtol=2e-6 if precision == "float32" else 1e-11)


def test_what_float32_cannot_hold_is_left_to_float64_before_logarithms(monkeypatch):
    monkeypatch.setattr(stacked_sinkhorn, "in_logarithms", lambda *_: pytest.fail("float64 was enough"))
    D = clouds()
    far = asot.Distributions(D.points + 70.0, D.offsets)
    how = {"reg": 1.0, "max_iter": 10}
    expected = entropic(D, far, **how).values  # 120 ε and more
    assert expected.min() > LIMITS[torch.float32].exponent
    assert_allclose(on_cpu(D, far, precision="float32", **how).values, expected, rtol=1e-11)


def test_pairs_that_leave_the_range_are_solved_again():
    """Costs up to 600 ε: the kernel holds, its scalings do not stay within 1e±100."""
    D = asot.Distributions.from_list([[[0.0], [1.0]], [[300.0], [600.0]], [[0.5]]], [[1.0, 1e-80], [1e-80, 1.0], [1.0]])
    how = {"reg": 1.0, "max_iter": 10}
    assert_allclose(on_cpu(D, **how).values, entropic(D, **how).values, rtol=1e-11)
    assert_allclose(on_cpu(D, **how).values[0], 600.0, rtol=1e-3)


@pytest.mark.parametrize("memory", [1, 30_000, "1G"])
def test_answers_do_not_depend_on_memory_or_threads(memory):
    D = clouds(sizes=tuple(range(1, 25)))
    r = on_cpu(D, reg=0.1, memory=memory, n_jobs=2)
    assert_allclose(r.values, entropic(D, reg=0.1).values, rtol=1e-11)


def test_two_collections_are_solved_as_rectangles():
    D, E = clouds(), lattice()
    r = on_cpu(D, E, reg=0.4)
    assert_allclose(r.matrix(), entropic(D, E, reg=0.4).matrix(), rtol=1e-12)
    listed = on_cpu(D, E, reg=0.4, pairs=[(4, 1), (0, 3)])
    assert_allclose(listed.values, r.matrix()[[4, 0], [1, 3]], rtol=1e-13)


def test_a_torch_without_sparse_products_gives_the_same_answers(monkeypatch):
    D = clouds()
    for reg in (0.3, 1e-3):
        expected = on_cpu(D, reg=reg)
        with monkeypatch.context() as patch:
            patch.setattr(stacked, "has_sparse_products", lambda device, dtype: False)
            assert_allclose(on_cpu(D, reg=reg).values, expected.values, rtol=1e-12)


def test_the_number_of_torch_threads_is_put_back():
    before = torch.get_num_threads()
    on_cpu(clouds(), reg=1.0)
    assert torch.get_num_threads() == before


def test_a_call_that_is_stopped_returns():
    solver = bds_eot.BlockDiagonal(
        merged_points(clouds()), reg=0.1, max_iter=10**9, start_at_target=False, precision="auto", device="cpu",
        memory=10**6, n_pairs=2,
    )  # fmt: skip
    assert len(solver.solve(np.array([0, 1]), np.array([2, 3]), np.ones(1, dtype=np.int64)).values) == 2


def test_a_device_without_memory_gets_an_error_that_helps(monkeypatch):
    def fails(*arguments):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(HostCosts, "__call__", fails)
    with pytest.raises(MemoryError, match="cpu ran out of memory with stacks of 1,562 entries; give a smaller budget"):
        on_cpu(clouds(), reg=1.0, memory=250_000)


# ------------------------------------------------------------------------------------------- the parts


def stack_of(points, rows, columns):
    sizes, offsets = torch.from_numpy(points.sizes), torch.from_numpy(points.offsets)
    stack = stacked.Stack(sizes[rows], sizes[columns])
    return stack, stack.of_rows(offsets[rows]), stack.of_columns(offsets[columns])


def test_all_ways_to_the_costs_agree():
    D = clouds(weighted=True)
    points = merged_points(D)
    rows, columns = with_diagonal(len(D)).T.copy()
    stack, row, column = stack_of(points, rows, columns)
    blocks = []
    for i, j in zip(rows, columns, strict=True):
        x, y = (points.distinct[points.point[points.offsets[k] : points.offsets[k + 1]]] for k in (i, j))
        blocks.append(points.unit * cdist(x, y).ravel())
    for costs in (HostCosts(points), TableOfCosts(points, "cpu"), SummedCosts(points, "cpu")):
        found = costs(stack, row, column, rows, columns)
        assert_allclose(found.numpy(), np.concatenate(blocks), rtol=1e-14)


def test_a_table_of_all_distances_is_made_where_it_is_small(monkeypatch):
    points = merged_points(clouds())
    monkeypatch.setattr(torch, "device", lambda name: type("Device", (), {"type": "cuda"}))
    monkeypatch.setattr("asot_paper.baselines.stacked_costs.TableOfCosts", lambda points, device: "table")
    monkeypatch.setattr("asot_paper.baselines.stacked_costs.SummedCosts", lambda points, device: "sums")
    assert make_costs(points, "cuda", memory=10**9, n_entries=1e9) == "table"
    assert make_costs(points, "cuda", memory=10**9, n_entries=100) == "sums"
    assert make_costs(points, "cuda", memory=1000, n_entries=1e9) == "sums"


def test_stacked_blocks_multiply_sum_and_transpose_like_matrices():
    n, m = torch.tensor([2, 1, 3]), torch.tensor([3, 4, 1])
    stack = stacked.Stack(n, m)
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(int(a), int(b))) for a, b in zip(n, m, strict=True)]
    entries = torch.from_numpy(np.concatenate([block.ravel() for block in blocks]))
    x, y = torch.from_numpy(rng.normal(size=8)), torch.from_numpy(rng.normal(size=6))
    by_hand = np.concatenate([block @ part for block, part in zip(blocks, np.split(x.numpy(), [3, 7]), strict=True)])
    assert_allclose(stack.by_row.matrix(entries)(x), by_hand)
    turned = np.concatenate([block.T @ part for block, part in zip(blocks, np.split(y.numpy(), [2, 3]), strict=True)])
    assert_allclose(stack.by_column.matrix(stack.transposed(entries))(y), turned)
    assert_allclose(stack.by_row.log_sum_exp(entries), np.concatenate([logsumexp(b, axis=1) for b in blocks]))
    assert_allclose(stack.largest(entries), [block.max() for block in blocks])
    assert_allclose(stack.sum_of_rows(y), [part.sum() for part in np.split(y.numpy(), [2, 3])])
