"""Which measured numbers are shown as bars, on the page of benchmarks, and on the first page.

A chart names a report, a table and its columns, and the fields it matters to. The numbers themselves stay where they
were written. A report that is not there has no chart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from parts.tables import Report, Table, names, number, read, seconds, words

AREAS = {
    "exact": "Exact, on points",
    "shared": "Exact, one shared cost",
    "other": "Other distances",
    "entropic": "Entropic",
    "gpu": "GPU",
    "search": "Search",
    "estimates": "Estimates",
    "index": "Index",
    "layer": "Layer",
    "gromov": "Gromov–Wasserstein",
}

FIELDS = {
    "cells": "cells",
    "documents": "documents",
    "graphs": "graphs",
    "images": "images and shapes",
    "jets": "jets",
    "diagrams": "diagrams",
    "crystals": "crystals",
    "training": "training",
}
ALL = tuple(FIELDS)

RIVALS_WITH_VERSIONS = ("POT", "scipy", "lapjv", "lapx", "ortools", "faiss-cpu", "gudhi", "gensim", "wwl", "cajal")


@dataclass(frozen=True)
class Chart:
    """Bars of one table: a group per row, a bar per column."""

    area: str
    title: str
    source: str
    fields: tuple[str, ...]
    table: str = ""
    bars: dict[str, str] = field(default_factory=dict)  # contestant: column
    unit: str = ""  # of a column whose cells have none; "%" for errors, "pairs/s" for rates
    rows: tuple[str, ...] = ()  # beginnings of first cells; all rows if empty
    label: str = "{0}"
    packages: tuple[str, ...] = RIVALS_WITH_VERSIONS  # told where the report names their version
    names: dict[str, str] = field(default_factory=dict)  # of contestants, where the table has short ones
    raced: bool = False  # rivals and their times are listed within cells: "core / SciPy"


@dataclass(frozen=True)
class Bar:
    who: str
    value: float
    text: str


@dataclass(frozen=True)
class Group:
    label: str
    bars: tuple[Bar, ...]


CHARTS = (
    Chart(
        "exact", "All pairs of graphs, as bags of nodes", "exact_points", ("graphs", "crystals"),
        "Time per pair", {
            "asot": "asot, µs/pair", "SciPy cdist + POT's compiled core": "cdist + core, µs/pair",
            "POT emd2 in a loop": "POT loop, µs/pair",
        }, "µs", packages=("POT", "scipy"),
    ),
    Chart(
        "exact", "Coming from another library: its call on its own data", "coming_from", ALL, "Times of all pairs",
        {"asot": "asot", "{page}": "theirs"}, label="{their call}, {pairs} pairs",
    ),
    Chart("exact", "Documents: words in 100 dimensions", "edges", ("documents",), "Documents", raced=True),
    Chart("exact", "300 dimensions", "edges", ("documents", "cells", "training"), "300 dimensions", raced=True),
    Chart("exact", "One large pair", "edges", ("cells", "images"), "One large pair, equal", raced=True),
    Chart(
        "exact", "One small pair: for a few points, others are faster", "edges", ("cells", "images", "training"),
        "One pair, equal sizes", raced=True, rows=("n = 5,", "n = 20,", "n = 50,"),
    ),
    Chart("exact", "On a line", "edges", ("cells", "crystals"), "One dimension", raced=True),
    Chart(
        "shared", "All pairs of histograms on k anchors", "exact_shared", ALL, "Microseconds per pair",
        {"asot": "asot", "wasserstein (C++)": "wasserstein", "POT's compiled core": "POT C++ core",
         "POT emd2 in a loop": "POT emd2"}, "µs", label="k = {0}", packages=("wasserstein", "POT"),
    ),
    Chart("shared", "Images, every pixel with a mass", "edges_shared", ("images",), "Images", raced=True),
    Chart("shared", "A few pairs with many anchors", "edges_shared", ("cells", "documents"), "Few pairs", raced=True),
    Chart(
        "other", "W₂, persistence diagrams, events, nested labels", "every_distance",
        ("cells", "diagrams", "jets", "graphs"), "Time per pair", {"asot": "asot, µs", "{rival}": "rival, µs"}, "µs",
    ),
    Chart(
        "entropic", "50 iterations, all pairs, k = 30", "entropic", ALL, "50 iterations at", {"": "µs/pair"}, "µs",
        rows=("asot on", "sinkhorn2, a matrix", "solve_batch sinkhorn", "sinkhorn2 loop"), names={
            "asot on the sample": "asot", "sinkhorn2, a matrix of targets": "POT sinkhorn2, a matrix of targets",
            "sinkhorn2 loop": "POT sinkhorn2 in a loop",
            "solve_batch sinkhorn, batches of 64": "POT solve_batch, batches of 64",
        },
    ),
    Chart(
        "gpu", "Exact, one shared cost, one H200", "gpu", ALL, "Exact", {
            "asot, H200": "whole call", "asot, 16 CPU threads": "CPU threads",
        }, packages=("torch",),
    ),
    Chart(
        "gpu", "Entropic, one H200, beside plain PyTorch", "gpu", ALL, "Entropic", {
            "asot": "whole call", "plain products in PyTorch": "plain products",
            "the paper's algorithm in PyTorch": "paper's algorithm",
        }, rows=("NCI1", "ZINC", "MNIST"), packages=("torch",),
    ),
    Chart(
        "gpu", "Exact, between points, one H200", "gpu_points", ("graphs", "images"), "All pairs",
        {"asot, H200": "whole call", "asot, 16 CPU threads": "CPU threads"}, packages=("torch",),
    ),
    Chart(
        "gpu", "Exact, by size: a pair of points in the plane, one H200", "gpu_sizes",
        ("cells", "images", "diagrams", "jets"), "2 dimensions",
        {"asot, H200": "GPU, pairs/s", "asot, CPU threads": "CPU threads, pairs/s"}, "pairs/s",
        rows=("16", "64", "250", "1,000", "2,048"), label="{0} points, {masses} masses", packages=("torch",),
    ),
    Chart(
        "search", "10 nearest of each, certain", "neighbors", ("graphs", "images"), "Time",
        {"asot kneighbors": "kneighbors", "all pairs": "brute force"},
    ),
    Chart(
        "search", "10 nearest documents, certain", "documents", ("documents",), "Time",
        {"asot kneighbors": "kneighbors", "all pairs": "brute force"},
    ),
    Chart("search", "98 % of the neighbors", "edges_search", ("documents", "cells"), "Neighbors", raced=True),
    Chart(
        "estimates", "Error of an estimate, beside its time for all pairs (MNIST)", "strategy_rivals",
        ("images", "graphs", "cells", "documents"), "Error in percent", {"": "*"}, "%", rows=("MNIST",),
    ),
    Chart(
        "estimates", "200 distributions of 500 or 2,000 points: within 2 %, or exactly", "strategy",
        ("cells", "images"), "", {"asot.pairwise(D)": "seconds", "asot.pairwise_exact(D)": "exact"},
        rows=("cells of", "voxels of", "silhouettes of"), label="{0}: {true, %} % off",
    ),
    Chart(
        "index", "Asking an index of many thousands", "index", ("graphs", "documents", "images"), "",
        {"asot.Index, ": "elapsed"}, rows=("10 nearest, certain", "10 nearest, recall", "brute force"), packages=(),
    ),
    Chart(
        "index", "One query among tweets: until all 10 nearest are found", "index_rivals", ("documents",),
        "3,078 tweets", {"": "ms for all"}, "ms",
    ),
    Chart(
        "layer", "Value and gradient, one thread", "layer", ("training",), "Value and gradient", unit="µs", raced=True,
    ),
    Chart(
        "layer", "Value and gradient of a batch, one H200", "layer_gpu", ("training",), "Forward and backward", {
            "asot, H200": "whole call", "asot, CPU threads": "CPU threads",
            "POT's compiled core in a loop": "POT core in a loop", "POT ot.batch, H200": "ot.batch",
        }, packages=("POT", "torch"),
    ),
    Chart(
        "gromov", "One pair of spaces with n points", "gromov", ("images", "graphs"), "", {"": "*"}, "µs",
    ),
)  # fmt: skip


RAN = {"pot": "POT", "scikit-learn": "scipy", "scanpy": "POT"}
"""What is timed on the pages for those who come from another library, where it has another name."""

NOT_RUN = ("", "–", "—")
"""Cells of rivals that were not installed."""

RACED = {
    "core": "POT's core",
    "POT core": "POT's core",
    "emd2": "POT emd2",
    "product": "matrix product",
    "cancel": "shared mass removed",
    "sort": "np.sort",
    "CDF": "CDFs",
    "pdist": "SciPy pdist",
}
"""Rivals of cells that list several, in words; they may be parts of a sum, as in "product + core"."""

RIVALS = {
    "linear, 64": "linear transport, 64 points",
    "sliced, 50": "sliced, 50 lines",
    "sliced, 500": "sliced, 500 lines",
    "tree-sliced, 10": "tree-sliced, 10 trees",
    "sliced and lifted, 20": "sliced and lifted, 20 lines",
}
"""Columns of the table of estimates, in words."""


def groups(chart: Chart) -> Iterator[Group]:
    """The bars of a chart, in groups that are compared with each other; each begins with asot's own."""
    table = read(chart.source).table(chart.table)
    rows = [row for row in table.rows if not chart.rows or row[table.columns[0]].startswith(chart.rows)]
    if not rows:
        raise LookupError(f"{chart.source}: no row begins with {chart.rows}")
    if chart.source == "strategy_rivals":
        yield _errors(table, rows[0])
    elif chart.source == "gromov":
        yield from _by_size(table)
    elif len(chart.bars) == 1:  # a contestant per row
        ((prefix, column),) = chart.bars.items()
        whose = [(row[table.columns[0]].replace("`", ""), row) for row in rows if row[column] not in NOT_RUN]
        named = [(prefix * (not who.startswith("brute")) + who, row) for who, row in whose]
        yield Group("", tuple(_timed(chart.names.get(who, who), row[column], chart.unit) for who, row in named))
    else:
        bars: dict[str, dict[str, Bar]] = {}  # a rival per row has the same label in several rows
        for row in rows:
            listed = [(_told(who, row, chart), row[column]) for who, column in chart.bars.items()]
            pairs = _raced(row) if chart.raced else listed
            label = _filled(chart.label.replace("{0}", row[table.columns[0]]), row)
            own = [_timed(who, cell, chart.unit) for who, cell in pairs if cell not in NOT_RUN]
            bars.setdefault(label, {}).update({bar.who: bar for bar in own})
        yield from (Group(label, tuple(own.values())) for label, own in bars.items())


def _filled(text: str, row: dict[str, str]) -> str:
    """A text whose {column} became what stands there."""
    for column, cell in row.items():
        text = text.replace("{" + column + "}", cell.strip("`"))
    return text


def _told(who: str, row: dict[str, str], chart: Chart) -> str:
    """The name of a contestant; one that stands in the row, with the version that its report names."""
    name = _filled(who, row)
    if name == who:
        return who
    package = RAN.get(name, name)
    version = read(chart.source).version(package)
    return f"{SPELLED.get(package, package)} {version}" if version else SPELLED.get(name, name)


def _timed(who: str, cell: str, unit: str) -> Bar:
    value = 1 / number(cell) if unit == "pairs/s" else seconds(cell, unit)
    return Bar(who, value, words(value))


def _raced(row: dict[str, str]) -> list[tuple[str, str]]:
    """asot and its rivals, where a cell lists several: "SciPy / core" beside "51.2 µs / 72.1 µs"."""
    ours = next(row[name] for name in ("asot", "asot, µs each") if name in row)
    theirs = next(row[name] for name in ("its time", "its µs each") if name in row)
    rivals = [" + ".join(RACED.get(part, part) for part in one.split(" + ")) for one in row["rival"].split(" / ")]
    return [("asot", ours), *zip(rivals, theirs.split(" / "), strict=True)]


def _errors(table: Table, row: dict[str, str]) -> Group:
    """Errors in percent with their seconds behind them, from cells such as "1.53 / 1.76"."""
    bars = []
    for column in table.columns[2:]:
        error, cost = (number(part) for part in row[column].split("/"))
        who = f"asot, {column}" if column.startswith("error=") else RIVALS.get(column, column)
        bars.append(Bar(who, error, f"{error:.2f} %, in {words(cost)}"))
    return Group(row[table.columns[0]], tuple(bars))


def _by_size(table: Table) -> Iterator[Group]:
    who, size, time = table.columns[:3]
    for n in dict.fromkeys(row[size] for row in table.rows):
        bars = [_timed(row[who], row[time], "µs") for row in table.rows if row[size] == n]
        yield Group(f"n = {n}", tuple(sorted(bars, key=lambda bar: not bar.who.startswith("asot"))))


def is_there(chart: Chart) -> bool:
    return chart.source in names()


SPELLED = {"scipy": "SciPy", "torch": "PyTorch", "faiss-cpu": "faiss", "cajal": "CAJAL", "gudhi": "GUDHI",
           "energyflow": "EnergyFlow", "ott": "OTT"}  # fmt: skip


def said(report: Report, packages: tuple[str, ...]) -> str:
    """The machine, the versions of those who were raced, and the date, in one line."""
    raced = [f"{SPELLED.get(name, name)} {version}" for name in packages if (version := report.version(name))]
    processor = report.machine.get("processor", "").split(";")[0]
    date = report.machine.get("date", "").split(" ")[0]
    return ", ".join([*raced, processor, date])
