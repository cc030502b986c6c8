"""Tables I and II: which cells they need, and how folds become a mean with its spread.

One run of a method gives its error and its times, so both tables read the same cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asot_paper.cells import Cell, make_cell
from asot_paper.methods import METHODS as _METHODS
from asot_paper.methods import Hardware
from asot_paper.names import CONDITIONS, METHODS, PUBLISHED, SETS
from asot_paper.published import paper_seconds, read_published
from asot_paper.scale import Scale

__all__ = ["CONDITIONS", "METHODS", "SETS", "Summary", "groups", "plan", "summarize", "table_text"]

Group = tuple[str, str, str]


def plan(
    conditions: Sequence[str],
    sets: Sequence[str],
    methods: Sequence[str],
    scale: Scale,
    hardware: Hardware,
    *,
    seeds: int = 1,
    row_zero: bool = True,
) -> list[Cell]:
    """The cells of both tables, in the order in which they are best run.

    Folds of one set follow each other, as do the methods of a fold, so that each can use what the one before has
    learned.
    """
    cells = []
    for name in sets:
        for condition in conditions:
            for seed in range(seeds):
                for fold in range(_folds(name, scale)):
                    for method in methods:
                        if _is_wanted(method, name, fold, seed):
                            where: dict[str, Any] = {"fold": fold, "seed": seed, "row_zero": row_zero}
                            cells.append(make_cell("run", condition, name, method, scale, hardware, **where))
    return cells


def _folds(name: str, scale: Scale) -> int:
    return min(scale.folds, scale.zinc_runs) if name == "ZINC" else scale.folds


def _is_wanted(method: str, name: str, fold: int, seed: int) -> bool:
    """Whether this method gives another number for another fold or seed: digits differ by fold, training by both."""
    how = _METHODS[method]
    other_data = fold == 0 or name == "MNIST" or how.space is not None
    return other_data and (seed == 0 or how.repeats)


# --------------------------------------------------------------------------------------------------------- aggregation


@dataclass(frozen=True)
class Summary:
    """Mean of n numbers, their standard deviation, and the standard error of the mean; 0 for a single number."""

    mean: float
    std: float
    standard_error: float
    n: int


def summarize(numbers: Iterable[float]) -> Summary:
    """
    >>> summarize([1.0, 2.0, 3.0])
    Summary(mean=2.0, std=1.0, standard_error=0.577..., n=3)
    """
    values = np.asarray(list(numbers), dtype=np.float64)
    if len(values) == 0:
        raise ValueError("there are no numbers to summarize")
    std = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Summary(float(values.mean()), std, std / float(np.sqrt(len(values))), len(values))


def groups(records: Iterable[Mapping[str, Any]], kind: str = "run") -> dict[Group, list[Mapping[str, Any]]]:
    """Finished cells of a kind by (condition, set, method), in the order of the tables."""
    found: dict[Group, list[Mapping[str, Any]]] = {}
    for record in records:
        if record["kind"] == kind and "error" not in record:
            found.setdefault((record["condition"], record["set"], record["method"]), []).append(record)
    return dict(sorted(found.items(), key=lambda entry: _rank(entry[0])))


def _rank(group: Group) -> tuple[int, ...]:
    orders = (CONDITIONS, SETS, METHODS)
    return tuple(order.index(name) if name in order else len(order) for order, name in zip(orders, group, strict=True))


# ---------------------------------------------------------------------------------------------------------------- text


def table_text(table: str, records: Iterable[Mapping[str, Any]]) -> str:
    """A table for the terminal, condition by condition; the paper's numbers are shown beside ours as published.

    Parameters
    ----------
    table : {"rmse", "seconds"}
        Errors, or times: training + distances.
    records : finished and failed cells; only those of the tables are used
    """
    found = groups(records)
    parts = []
    for condition in CONDITIONS:
        here = {(name, method): cells for (where, name, method), cells in found.items() if where == condition}
        if here:
            parts.append(f"{_TITLES[table]}, {condition}\n\n{_grid(table, here, condition == PUBLISHED)}")
    return "\n\n".join(parts) if parts else "no finished cells"


_TITLES = {
    "rmse": "Root mean square error (mean ± standard error over folds)",
    "seconds": "Seconds (training + distances, mean over folds)",
}


def _grid(table: str, cells: Mapping[tuple[str, str], list[Mapping[str, Any]]], beside_paper: bool) -> str:
    sets = [name for name in SETS if any(name == found for found, _ in cells)]
    methods = [name for name in METHODS if any(name == found for _, found in cells)]
    columns = [["", *methods]]
    for name in sets:
        ours = [_entry(table, cells.get((name, method), [])) for method in methods]
        columns.append([name, *ours])
        if beside_paper:
            columns.append(["paper", *(_paper(table, name, method) for method in methods)])
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _paper(table: str, name: str, method: str) -> str:
    """The paper's number, or nothing if there is none."""
    if table == "rmse":
        error = read_published().get(("rmse", name, method))
        return "" if error is None else f"{error:.4f}"
    seconds = paper_seconds(name, method)
    return "" if seconds is None else " + ".join(f"{part:.4g}" for part in seconds if part)


def _entry(table: str, cells: Sequence[Mapping[str, Any]]) -> str:
    if not cells:
        return "-"
    if table == "seconds":
        cells = [cell for cell in cells if cell.get("timed") is not False]
        if not cells:
            return "untimed"
        training, solving = (summarize(cell[name] for cell in cells).mean for name in ("train_seconds", "seconds"))
        return f"{training:.3g} + {solving:.3g}" if training else f"{solving:.3g}"
    error = summarize(cell["rmse"] for cell in cells)
    return f"{error.mean:.4f} ± {error.standard_error:.4f}" if error.n > 1 else f"{error.mean:.4f}"
