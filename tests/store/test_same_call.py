"""A store belongs to one call: functions are known by what they compute, and estimates repeat themselves."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

import asot
from asot.run.engine import Resources, Work, solve_work
from asot.run.pairs import AllPairs
from asot.run.protocols import Solution, Solver
from asot.sinks import Store
from asot.store.identity import array_hash, fingerprint

pytest.importorskip("zarr")

RNG = np.random.default_rng(0)
D = asot.Distributions.from_list([RNG.normal(size=(4, 2)) for _ in range(8)])


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x, y):
        return self.factor * np.abs(x - y).sum()


def function_of_one_name(exponent):
    def distance(x, y):
        return (np.abs(x - y) ** exponent).sum() ** (1 / exponent)

    return distance


def blocks(x, y, factor):
    return factor * np.abs(x - y).sum()


PAIRS = {
    "lambdas": (lambda x, y: np.abs(x - y).sum(), lambda x, y: np.abs(x - y).max()),
    "functions of one name": (function_of_one_name(1), function_of_one_name(3)),
    "objects": (Scaled(1.0), Scaled(2.0)),
    "partials": (functools.partial(blocks, factor=1.0), functools.partial(blocks, factor=2.0)),
    "bound methods": (Scaled(1.0).__call__, Scaled(2.0).__call__),
}
CALLS = {
    "exact": lambda metric, sink: asot.pairwise_exact(D, metric=metric, sink=sink),
    "pairwise": lambda metric, sink: asot.pairwise(D, metric=metric, sink=sink),
    "neighbors": lambda metric, sink: asot.kneighbors(D, 2, metric=metric, sink=sink),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("functions", PAIRS.values(), ids=PAIRS)
def test_another_function_is_another_call(tmp_path, functions, call):
    first, second = functions
    assert call(first, Store(tmp_path / "f.zarr")).is_complete
    assert call(first, Store(tmp_path / "f.zarr")).is_complete
    with pytest.raises(ValueError, match="holds the result of another call"):
        call(second, Store(tmp_path / "f.zarr"))


def test_a_function_is_known_by_what_it_computes(tmp_path):
    call = CALLS["exact"]
    call(function_of_one_name(1), Store(tmp_path / "f.zarr"))
    assert call(function_of_one_name(1), Store(tmp_path / "f.zarr")).is_complete  # another object, the same distances


def test_parameters_of_a_function_are_part_of_the_call(tmp_path):
    asot.pairwise_exact(D, metric=blocks, metric_params={"factor": 1.0}, sink=Store(tmp_path / "f.zarr"))
    with pytest.raises(ValueError, match="holds the result of another call"):
        asot.pairwise_exact(D, metric=blocks, metric_params={"factor": 2.0}, sink=Store(tmp_path / "f.zarr"))


@pytest.mark.parametrize(
    "value", [print, Scaled(1.0), object(), lambda: 0], ids=["builtin", "object", "bare", "lambda"]
)
def test_what_cannot_be_told_apart_is_refused(value):
    with pytest.raises(ValueError, match="cannot for 'b', which is of type"):
        fingerprint({"a": {"b": value}})


def test_values_without_parts_have_fingerprints_of_their_own():
    assert fingerprint({"a": b"x"}) != fingerprint({"a": b"y"})
    assert fingerprint({"a": {1, 2}}) == fingerprint({"a": {2, 1}}) != fingerprint({"a": {1, 3}})
    assert fingerprint({"a": 1j}) != fingerprint({"a": 2j})


def test_every_entry_of_an_array_of_objects_counts():
    long = np.array(["a"] * 5000, dtype=object)
    other = long.copy()
    other[2500] = "b"
    assert array_hash(long) != array_hash(other)


# ------------------------------------------------------------------------------------------------- identity

SPACES = asot.KMeansAnchors(8, random_state=0).fit(D).space_
HISTOGRAMS = RNG.dirichlet(np.ones(4), size=6)
SOLVERS = {
    "points": lambda sink: asot.pairwise_exact(D, sink=sink),
    "any cost": lambda sink: asot.pairwise_exact(D, p=2, unmatched=30.0, sink=sink),
    "line": lambda sink: asot.pairwise_exact(LINE, sink=sink),
    "nested labels": lambda sink: asot.pairwise_exact(LABELS, metric="hamming", sink=sink),
    "shared cost": lambda sink: asot.emd_many(HISTOGRAMS, cost=1.0 - np.eye(4), sink=sink),
    "entropic": lambda sink: asot.sinkhorn_many(HISTOGRAMS, cost=1.0 - np.eye(4), reg=0.1, sink=sink),
    "debiased": lambda sink: asot.sinkhorn_many(
        HISTOGRAMS, cost=1.0 - np.eye(4), reg=0.1, value="divergence", sink=sink
    ),
    "bounded anchors": lambda sink: asot.pairwise(D, space=SPACES, estimate="anchor", bounds=True, sink=sink),
    "estimates": lambda sink: asot.pairwise(D, space=SPACES, estimate="calibrated", sink=sink),
    "guaranteed": lambda sink: asot.pairwise(D, space=SPACES, estimate="anchor", max_error=0.1, sink=sink),
    "gromov": lambda sink: asot.gromov(D, sink=sink),
}
LINE = asot.Distributions.from_list([RNG.normal(size=(4, 1)) for _ in range(8)])
LABELS = asot.Distributions.from_list([RNG.integers(0, 2, size=(4, 1)) * [1, 1] + [0, 2] for _ in range(8)])


def manifest(path):
    return json.loads((path / "zarr.json").read_text())["attributes"]["asot"]


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_declare_plain_values_under_names_of_their_own(tmp_path, name):
    store = tmp_path / "s.zarr"
    assert SOLVERS[name](Store(store)).is_complete
    inputs = manifest(store)["inputs"]
    assert inputs["inputs.solver"].startswith(name)
    assert inputs["inputs.solver"].rsplit(", ")[-1].isdecimal()
    assert not any(part.startswith("_") for key in inputs for part in key.split("."))
    assert SOLVERS[name](Store(store)).is_complete


def test_another_wording_of_what_a_solver_is_leaves_the_store_alone(tmp_path):
    assert SOLVERS["points"](Store(tmp_path / "s.zarr")).is_complete
    content = json.loads((tmp_path / "s.zarr" / "zarr.json").read_text())
    content["attributes"]["asot"]["settings"]["solver"] = "simplex, as it was called"
    (tmp_path / "s.zarr" / "zarr.json").write_text(json.dumps(content))
    assert SOLVERS["points"](Store(tmp_path / "s.zarr")).is_complete


def test_a_solver_without_identity_goes_into_no_store(tmp_path):
    class Silent(Solver):
        info = {"solver": "silent"}  # noqa: RUF012

        def pairs_per_tile(self, memory):
            return 10

        def solve(self, rows, columns, stop):
            return Solution(rows + 0.0, np.zeros(len(rows), np.int8), np.zeros(len(rows), np.int32))

    with pytest.raises(ValueError, match="Silent does not say what its answers depend on"):
        solve_work(Work(AllPairs(4), Silent), Store(tmp_path / "s.zarr"), Resources())


# ----------------------------------------------------------------------------------------- estimates repeat themselves

CLOUDS = asot.Distributions.from_list([RNG.normal(i % 3, 1.0, size=(6, 2)) for i in range(130)])
ESTIMATES = {
    "calibrated": {"estimate": "calibrated", "n_anchors": 8},
    "anchor": {"estimate": "anchor", "n_anchors": 8},
    "entropic": {"estimate": "anchor", "n_anchors": 8, "reg": "auto"},
    "another order": {"estimate": "calibrated", "n_anchors": 8, "p": 2},
    "a learner": {"estimate": "calibrated", "space": asot.KMeansAnchors(8)},
    "to an error": {"error": "20%"},
}


@pytest.mark.parametrize("options", ESTIMATES.values(), ids=ESTIMATES)
def test_without_a_seed_an_estimate_repeats_itself(options):
    first, second = (asot.pairwise(CLOUDS, **options).values for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("options", ESTIMATES.values(), ids=ESTIMATES)
def test_parts_of_an_estimate_and_a_second_call_share_a_store(tmp_path, options):
    for number in (2, 1):
        part = asot.pairwise(CLOUDS, sink=Store(tmp_path / "e.zarr", part=(number, 3)), **options)
    assert not part.is_complete
    stored = asot.pairwise(CLOUDS, sink=Store(tmp_path / "e.zarr"), **options)
    assert stored.is_complete
    np.testing.assert_allclose(
        stored.values(), asot.pairwise(CLOUDS, **options).values, rtol=1e-9
    )  # entropic: rounding


def test_a_seed_of_the_learner_or_of_the_call_still_counts():
    values = [
        asot.pairwise(
            CLOUDS, estimate="anchor", space=asot.KMeansAnchors(8, random_state=own), random_state=seed
        ).values
        for own, seed in [(3, None), (3, 5), (None, 5), (None, None)]
    ]
    np.testing.assert_array_equal(values[0], values[1])
    assert not np.array_equal(values[1], values[2])
    assert not np.array_equal(values[2], values[3])
