"""Measured numbers that pages say in words or in tables of their own are what the tables of the benchmarks say now.

A table that was measured again shows here which sentence is older than it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from parts.tables import Table, read  # noqa: E402

HALF_UP = 1.0 + 1e-9
"""Python rounds a half to even, or down where a double lies below it; people round it up."""


class Cell(NamedTuple):
    """A number of a report: below a caption, in a row and a column, which of the numbers there, and in which unit."""

    report: str
    caption: str
    row: str
    column: str
    place: int = 0
    unit: float = 1.0
    which: int = 0
    """Of several rows that begin with the same words."""

    def number(self) -> float:
        table = read(self.report).table(self.caption)
        rows = [row for row in table.rows if row[table.columns[0]].startswith(self.row)]
        return self.unit * numbers(rows[self.which][self.column])[self.place] * HALF_UP


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def words_of(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def exact(row: str, column: str, **more: float) -> Cell:
    return Cell("gpu", "Exact", row, column, **more)


def entropic(row: str, column: str, **more: float) -> Cell:
    return Cell("gpu", "Entropic", row, column, **more)


def points(row: str, column: str, **more: float) -> Cell:
    return Cell("gpu_points", "All pairs", row, column, **more)


def estimates(row: str, column: str, which: int, unit: float = 1.0) -> Cell:
    return Cell("gpu_estimates", "Calibrated", row, column, 0, unit, which)


MILLI = 1e-3

SAID = [
    ("docs/gpu.md", "k = 23 | 12.5 M | {:.1f} ms | {:,.0f} ms ({:.0f}×) | {:.1f} ms | {:,.0f} ms ({:.0f}×) |", [
        *(exact("ZINC", column) for column in ("whole call", "CPU threads", "CPU / whole call")),
        entropic("ZINC", "whole call"), *(entropic("ZINC", "paper's algorithm", place=place) for place in (0, 1)),
    ]),
    ("docs/gpu.md", "k = 30 | 8.4 M | {:.1f} ms | {:,.0f} ms ({:.0f}×) | {:.1f} ms | {:,.0f} ms ({:.0f}×) |", [
        *(exact("NCI1", column) for column in ("whole call", "CPU threads", "CPU / whole call")),
        entropic("NCI1", "whole call"), *(entropic("NCI1", "paper's algorithm", place=place) for place in (0, 1)),
    ]),
    ("docs/gpu.md", "k = 60 | 1.1 M | {:.1f} ms | {:,.0f} ms ({:.0f}×) | | |", [
        exact("k = 60", column) for column in ("whole call", "CPU threads", "CPU / whole call")
    ]),
    ("docs/gpu.md", "k = 150 | 0.1 M | {:.1f} ms | {:,.0f} ms ({:.0f}×) | {:.1f} ms | {:,.0f} ms ({:.0f}×) |", [
        *(exact("MNIST", column) for column in ("whole call", "CPU threads", "CPU / whole call")),
        entropic("MNIST", "whole call"), *(entropic("MNIST", "paper's algorithm", place=place) for place in (0, 1)),
    ]),
    *(
        ("docs/gpu.md", "| {:.2f} s | {:.1f} s (" + times + "×) |", [
            points(row, "whole call", unit=MILLI), points(row, "CPU threads"), points(row, "CPU / whole call"),
        ])
        for row, times in (("ZINC", "{:.0f}"), ("NCI1", "{:.0f}"), ("MNIST", "{:.1f}"))
    ),
    *(
        ("docs/gpu.md", f"| {{:.2f}} s, {{:.1f}} % off | {cpu} s | {{:.2f}} s, {{:.1f}} % off | {cpu} s |", [
            estimates(row, column, which, MILLI if column == "whole call" else 1.0)
            for which in (0, 1) for column in ("whole call", "error", "CPU threads")
        ])
        for row, cpu in (("ZINC", "{:.1f}"), ("NCI1", "{:.1f}"), ("MNIST", "{:.2f}"))
    ),
    ("docs/gpu.md", "{:.0f} and {:.0f} ms are left", [estimates("ZINC", "after the fit", which) for which in (0, 1)]),
    ("docs/gpu.md", "exact in {:.1f} s, entropic in {:.1f} s, with {:.1f} GB", [
        Cell("gpu_neighbors", "", "exact", "time"), Cell("gpu_neighbors", "", "entropic", "time"),
        Cell("gpu_neighbors", "", "entropic", "GPU memory"),
    ]),
    ("docs/gpu.md", "The ten nearest of each take {:.0f} s, with {:.1f} GB", [
        Cell("gpu_million", "", "1,000,000", "time"), Cell("gpu_million", "", "1,000,000", "GPU memory")
    ]),
    ("docs/large.md", "[N = 1,000,000 in {:.0f} s](../benchmarks/results/gpu_million.md) | {:,.0f} million", [
        Cell("gpu_million", "", "1,000,000", "time"), Cell("gpu_million", "", "1,000,000", "rate")
    ]),
    ("docs/large.md", "[N = 249,456 in {:.0f} s](../benchmarks/results/gpu_neighbors.md) | {:.0f} million", [
        Cell("gpu_neighbors", "By calibrated", "31", column) for column in ("whole call", "pairs")
    ]),
    ("docs/large.md", "[N = 249,456 in {:.1f} s](../benchmarks/results/gpu_neighbors.md) | {:.0f} million", [
        Cell("gpu_neighbors", "", "entropic", "time"), Cell("gpu_neighbors", "", "entropic", "pairs")
    ]),
    ("docs/large.md", "[N = 249,456 in {:.0f} s](../benchmarks/results/gpu_neighbors.md) | 294", [
        Cell("gpu_neighbors", "Under", "31", "whole call")
    ]),
    ("docs/large.md", "[N = 5,000 in {:.2f} s]", [exact("ZINC", "CPU threads", unit=MILLI)]),
    ("docs/large.md", "[{:.2f} × the plain distance]", [Cell("errorbars", "What does it cost", "NCI1", "calibrated")]),
    ("docs/large.md", "[N = 4,110 in {:.1f} s of one core]", [
        Cell("neighbors", "Time", "NCI1, euclidean", "kneighbors, processor")
    ]),
    ("docs/learned-anchors.md", "in {:.0f} s. On unseen molecules its error was {:.1f} percent, compared with {:.1f}", [
        Cell("anchors_zinc", "220,011", "metric", "training"),
        *(Cell("anchors_zinc", "220,011", row, "error on unseen molecules") for row in ("metric", "k-means")),
    ]),
    *(
        ("docs/learned-anchors.md", 3 * "| {:.1f} / {:.1f} % " + "| {:.1f} s, {:.1f} s | {:.1f}, {:.1f}, {:.1f} µs |", [
            *(
                Cell("anchors", f"Error on pairs of {whose}", row, way)
                for way in ("k-means", "metric", "dictionary") for whose in ("the distributions", "unseen")
            ),
            *(Cell("anchors", "Time to learn", f"{row}, {way}", "training") for way in ("metric", "dictionary")),
            *(
                Cell("anchors", "Time to learn", f"{row}, {way}", "a distribution + a pair", 1)
                for way in ("k-means", "metric", "dictionary")
            ),
        ])
        for row in ("MUTAG", "PTC_MR", "BZR", "ENZYMES", "COX2", "NCI1", "MNIST")
    ),
    *(
        ("docs/method.md", f"| {name} | {{:,.0f}} | {bounds} | {{:.1f}}% | {{:.1f}}% |", [
            Cell("neighbors", "Time", row, "N"), Cell("neighbors", "Pairs", row, "share"),
            Cell("neighbors", "Pairs", row, "floor"),
        ])
        for name, row, bounds in (
            ("MNIST", "MNIST", "projections"), ("ENZYMES", "ENZYMES", "projections"),
            ("NCI1", "NCI1, euclidean", "projections"), ("COX2", "COX2", "relaxed"),
            ("NCI1, canberra", "NCI1, canberra", "potentials"),
        )
    ),
    ("docs/method.md", "the fit without steps was {:.1f} percent off", [
        Cell("gromov", "100 neurons", "asot, the 5 % estimate", "error of the estimate")
    ]),
    *(
        ("docs/training.md", f"| {name} | {{:.2f}} | {{:.2f}} | " + left, [
            Cell("losses", "Two uniform", row, column)
            for column in ("value / exact", "gradient", *(["unused"] if left else []))
        ])
        for name, row, left in (
            ("Chamfer", "Chamfer", "{:.0f}%"), ("geomloss, p = 1, blur = 0.05", "geomloss, p = 1, blur = 0.05", ""),
            ("geomloss, p = 1, blur = 0.001", "geomloss, p = 1, blur = 0.001", ""),
            ("an auction, ε = 0.005, stopped after 50 rounds", "auction, ε = 0.005", "{:.0f}%"),
            ("an auction, ε = 0.002, run to its end", "auction, ε = 0.002", "{:.0f}%"),
        )
    ),
]  # fmt: skip
"""Pages, what they say with a place for each number, and where the numbers come from."""


@pytest.mark.parametrize(("page", "said", "cells"), SAID)
def test_what_a_page_says_is_what_the_table_says(page: str, said: str, cells: list[Cell]) -> None:
    assert said.format(*(cell.number() for cell in cells)) in words_of(page)


def test_centers_of_a_sample_are_as_much_worse_as_the_page_says() -> None:
    sampled = Cell("edges_search", "k-means", "faiss, its sample", "inertia").number()
    assert f"with centers that are {100 * (sampled - 1):.0f} percent worse" in words_of("docs/faq.md")


def column_of(table: Table, name: str) -> list[float]:
    """The errors of a column whose cells hold an error and a time."""
    return [numbers(row[name])[0] for row in table.rows]


def test_other_approximations_are_as_far_off_as_the_page_says() -> None:
    table = read("strategy_rivals").table("Error in percent")
    sliced = ("sliced, 50", "sliced, 500", "tree-sliced, 10", "sliced and lifted, 20")
    several = [error for name in sliced for error in column_of(table, name)]
    linear, anchors = column_of(table, "linear, 64"), column_of(table, "anchors, k = 32")
    said = (
        f"are {min(several):.0f} to {max(several):.0f} percent off, linear ones {min(linear):.0f} to {max(linear):.0f} "
        f"percent, and distances on 32 anchors without calibration {min(anchors):.0f} to {max(anchors):.0f} percent"
    )
    assert said in words_of("docs/which-error.md")
