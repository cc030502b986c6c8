"""Which exact solver takes what is decided in one place, as its table says."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import asot
from asot.exact import auto
from asot.exact.any_cost import ExactAnyCost
from asot.exact.auto import exact_solver, exact_work
from asot.exact.nested_labels import NestedLabels
from asot.exact.one_dimension import OneDimension
from asot.exact.points import ExactPoints
from asot.exact.small_clouds import SmallClouds
from asot.request import Distance, Request
from asot.run.protocols import Notes

SOLVERS = {"ExactPoints", "SmallClouds", "OneDimension", "NestedLabels", "ExactAnyCost", "ExactPointsCuda"}
HERE = Path(asot.__file__).parent
RNG = np.random.default_rng(0)


def clouds(size, dim, n=70):
    return asot.Distributions.from_list([RNG.normal(size=(size, dim)) for _ in range(n)])


LABELS = asot.Distributions.from_list([RNG.integers(0, 2, size=(4, 1)) * [1, 1] + [0, 2] for _ in range(70)])

TABLE = {
    "a line": (clouds(9, 1), Distance(), OneDimension),
    "a line, another order": (clouds(9, 1), Distance(3.0, "cityblock"), OneDimension),
    "a line with unmatched mass": (clouds(9, 1), Distance(1.0, "euclidean", None, 50.0), ExactAnyCost),
    "nested labels": (LABELS, Distance(1.0, "hamming"), NestedLabels),
    "nested labels, another order": (LABELS, Distance(2.0, "hamming"), ExactAnyCost),
    "small clouds": (clouds(4, 3), Distance(), SmallClouds),
    "few small clouds": (clouds(4, 3, 20), Distance(), ExactPoints),
    "larger clouds": (clouds(9, 3), Distance(), ExactPoints),
    "another metric": (clouds(9, 3), Distance(1.0, "canberra"), ExactPoints),
    "another order": (clouds(9, 3), Distance(2.0), ExactAnyCost),
    "a cost that is no metric": (clouds(9, 3), Distance(1.0, "sqeuclidean"), ExactAnyCost),
    "unmatched mass": (clouds(9, 3), Distance(1.0, "euclidean", None, 50.0), ExactAnyCost),
}


@pytest.mark.parametrize("name", TABLE)
def test_calls_and_searches_use_the_solver_of_the_table(name):
    D, distance, expected = TABLE[name]
    n_pairs = len(D) * (len(D) - 1) // 2
    assert type(exact_solver(D, distance, 0, 2**28, n_pairs=n_pairs)) is expected
    assert type(exact_work(Request(D, None, distance), Notes()).cpu()) is expected


def test_a_store_does_not_know_whether_long_points_had_a_table():
    points = RNG.normal(size=(60, 200))
    D = asot.Distributions.from_weights(RNG.dirichlet(np.ones(60), size=80), points)
    identity = exact_solver(D, Distance(), 0, 2**28, n_pairs=80 * 79 // 2).identity()
    assert identity["solver"] == "points, 2"
    assert exact_solver(D, Distance(), 0, 2**28).identity()["solver"] == "points, 2"


def test_no_other_module_makes_an_exact_solver_of_points():
    makers = set()
    for file in HERE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                named = [node.func, *node.args[:1]]  # itself, or a partial of it
                if SOLVERS & {part.id for part in named if isinstance(part, ast.Name)}:
                    makers.add(str(file.relative_to(HERE)))
    assert makers == {"exact/auto.py"}


@pytest.mark.parametrize(
    "call",
    [
        lambda D: asot.pairwise_exact(D),
        lambda D: asot.pairwise(D, estimate="calibrated", n_anchors=4),
        lambda D: asot.pairwise(D, max_error="1%", n_anchors=4, estimate="anchor"),
        lambda D: asot.pairwise(D, max_error="1%", n_anchors=4, estimate="calibrated"),
        lambda D: asot.kneighbors(D, 3),
    ],
    ids=["exact", "sample", "guaranteed", "guaranteed estimates", "search"],
)
def test_a_solver_that_takes_points_is_used_by_every_call(call, monkeypatch):
    class Another(ExactPoints):
        solved = 0

        def solve(self, rows, columns, stop):
            Another.solved += len(rows)
            return super().solve(rows, columns, stop)

    monkeypatch.setattr(
        auto, "points_solver", lambda histograms, ground, start, *_, **__: Another(histograms, ground, start)
    )
    call(clouds(9, 3))
    assert Another.solved > 0
