"""What follows from third lower bounds that another solver found, as GPUs do: here, the CPU stands in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import asot
from asot import gromov_wasserstein
from asot.data.spaces.reading import read_spaces
from asot.run import devices
from asot.run.engine import Resources, solve_work
from asot.run.protocols import Notes, all_ended
from asot.sinks import Store, TopK
from asot.spaces.bounds import Bounds, rounded_down
from asot.spaces.third_bound import FromThirdBound, third_bound_work

from .made import masses_of, neuron


def neurons(seed: int, sizes: list[int]) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [neuron(rng, n) for n in sizes]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The CPU where `gromov` believes that GPUs solve W_2; tells for which devices it was asked."""
    asked: list[str] = []

    def works(*given: Any) -> Any:
        asked.append(given[3])
        work = third_bound_work(*given[:3], "cpu", *given[4:])
        return replace(work, choice=devices.Choice((0,), "stands in", required=False))

    monkeypatch.setattr(devices, "gpu_count", lambda: 1)
    monkeypatch.setattr(gromov_wasserstein, "third_bound_work", works)
    return asked


@pytest.mark.parametrize("sizes", [[9] * 8, [4, 9, 6, 7, 5, 1, 2, 9]])
@pytest.mark.parametrize("column_start", [0, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_lower_bounds_are_those_of_the_search(sizes: list[int], column_start: int, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    masses = [masses_of(rng, n) for n in sizes] if weighted else None
    matrices = [1e5 * x for x in neurons(0, sizes)]
    spaces = read_spaces(matrices, masses)
    resources = Resources(1, None, False)
    work = third_bound_work(spaces, column_start, None, "cpu", resources, Notes())
    bounds = Bounds(spaces, 2.0, 1.0, column_start)

    def largest(rows: Any, columns: Any, third: Any) -> Any:
        values = bounds.of(rows, columns, rounded_down(third, spaces) ** 2).max(axis=1)
        return all_ended(asot.Status.UNKNOWN, values)

    lower = solve_work(work, FromThirdBound(asot.sinks.Condensed(), largest), resources).values
    cut = column_start or len(matrices)
    own = None if masses is None else masses if column_start == 0 else (masses[:cut], masses[cut:])
    r = asot.gromov(matrices[:cut], matrices[cut:] or None, masses=own)
    np.testing.assert_allclose(lower, r.lower, rtol=1e-5, atol=2e-6 * np.max(matrices[0]))
    assert (lower <= r.values).all()


def test_estimates_without_plans_are_as_good_as_they_say(stand_in: list[str]) -> None:
    rng = np.random.default_rng(1)
    spaces = neurons(1, [24] * 38)
    order = rng.permutation(24)
    spaces += [spaces[0], spaces[1][np.ix_(order, order)]]
    r = asot.gromov(spaces, error="15%")
    truth = asot.gromov(spaces, device="cpu")
    report = r.info["calibration"]
    rmse = float(np.sqrt(((r.values - truth.values) ** 2).mean()))
    assert stand_in == ["auto"]
    assert len(report["weights"]) == 7
    assert {asot.Status(s) for s in r.status} == {asot.Status.ESTIMATED}
    assert rmse <= 0.15 * truth.values.mean()
    assert 0.7 * report["held_out_rmse"] < rmse < 1.3 * report["held_out_rmse"]
    assert (r.lower <= truth.values).all()
    assert (truth.values <= r.upper).all()
    assert (r.lower <= r.values).all()
    matrix = r.matrix()
    assert matrix[0, 38] == matrix[1, 39] == 0.0


@pytest.mark.parametrize("two", [False, True])
def test_the_nearest_by_bounds_from_elsewhere_are_the_same(stand_in: list[str], two: bool) -> None:
    spaces = neurons(2, [10] * 25)
    other = neurons(3, [10] * 12) if two else None
    found = asot.gromov(spaces, other, sink=TopK(3))
    plain = asot.gromov(spaces, other, sink=TopK(3), device="cpu")
    assert stand_in == ["auto", "cpu"]
    np.testing.assert_array_equal(found.distances, plain.distances)
    np.testing.assert_array_equal(found.indices, plain.indices)


def test_what_a_gpu_does_not_do_is_refused(stand_in: list[str], tmp_path: Any) -> None:
    spaces = neurons(4, [6] * 40)
    features = [np.zeros((6, 1))] * 40
    for options, message in (
        ({"p": 1}, "GPUs take p=2 without features"),
        ({"error": "5%", "features": features, "alpha": 0.5}, "GPUs take p=2 without features"),
        ({"error": "5%", "sink": Store(tmp_path / "store")}, "a store is filled by the CPU"),
    ):
        with pytest.raises(ValueError, match=message):
            asot.gromov(spaces, device="cuda", **options)


def test_a_machine_without_gpus_says_so() -> None:
    if devices.gpu_count():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match="device='cuda'"):
        asot.gromov(neurons(5, [5] * 40), error="5%", device="cuda")
