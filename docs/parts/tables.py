"""Measured numbers, read from the tables in ``benchmarks/results`` that `python -m benchmarks` wrote.

Charts, the strip on the first page and the README's table all read their numbers here. A number that is asked for and
not there is an error that names the file, so a table that was written again in another form stops the build.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"

UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "h": 3600.0}


@dataclass(frozen=True)
class Table:
    """One table of a report: what stands above it, its columns, and its rows of text."""

    source: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[dict[str, str], ...]

    def find(self, row: str, column: str) -> str:
        """The text in a column, of the row whose first cell begins with these words."""
        found = [one for one in self.rows if one[self.columns[0]].startswith(row)]
        if len(found) != 1 or column not in self.columns:
            raise LookupError(f"{self.source}: no single row {row!r} with a column {column!r} below {self.caption!r}")
        return found[0][column]


@dataclass(frozen=True)
class Report:
    """A file of results: its title, its tables, and what it says about the machine, the versions and the command."""

    name: str
    title: str
    tables: tuple[Table, ...]
    machine: dict[str, str]
    command: str
    text: str

    def table(self, caption: str) -> Table:
        """The table below a line that begins with these words; the first one for no words."""
        found = [one for one in self.tables if one.caption.startswith(caption)]
        if not found:
            raise LookupError(f"{self.name}: no table below a line that begins with {caption!r}")
        return found[0]

    def version(self, package: str) -> str | None:
        """The version of a package that the report names, or None."""
        found = re.search(rf"(?<![\w-]){re.escape(package)} (\d[\w.+]*)", self.text)
        return found[1].removesuffix("+cpu") if found else None


def names() -> list[str]:
    """The reports that are there."""
    return sorted(file.stem for file in RESULTS.glob("*.md"))


@cache
def read(name: str) -> Report:
    """A report by the name of its file."""
    return parse(name, (RESULTS / f"{name}.md").read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Report:
    """A report from its text.

    >>> report = parse("x", "# Title\\n\\nTimes:\\n\\n| case | asot |\\n| --- | --: |\\n| a | 2 ms (met: < 3 ms) |\\n")
    >>> report.table("Times").find("a", "asot"), seconds("2 ms (met: < 3 ms)")
    ('2 ms (met: < 3 ms)', 0.002)
    """
    tables, caption, lines = [], "", text.splitlines()
    for place, line in enumerate(lines):
        if re.fullmatch(r"\|[\s|:-]+\|", line) and place > 0:
            columns = _unique(_cells(lines[place - 1]))
            rows = []
            for row in lines[place + 1 :]:
                if not row.startswith("|"):
                    break
                rows.append(dict(zip(columns, _cells(row), strict=True)))
            tables.append(Table(name, caption, columns, tuple(rows)))
        elif line.strip() and not line.startswith(("|", "#", "-")):
            caption = line.strip().lstrip("*")
    machine = dict(re.findall(r"^- (processor|memory|system|software|date): (.+)$", text, flags=re.M))
    command = re.search(r"^Made by `(.+?)`", text, flags=re.M)
    title = re.search(r"^# (.+)$", text, flags=re.M)
    return Report(name, title[1] if title else name, tuple(tables), machine, command[1] if command else "", text)


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")))


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of columns, the second of the same name with a 2."""
    return tuple(f"{name} {names[:k].count(name) + 1}" if name in names[:k] else name for k, name in enumerate(names))


def number(text: str) -> float:
    """The first number in a text: "1,468.9 ms" is 1468.9, "9.1× (met: ≥ 6×)" is 9.1."""
    found = re.search(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?", text)
    if found is None:
        raise LookupError(f"no number in {text!r}")
    return float(found[0].replace(",", ""))


def seconds(text: str, unit: str = "") -> float:
    """A time in seconds. Its unit stands behind the number, or is given for the whole column."""
    found = re.search(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?\s*(ns|µs|ms|s|h)\b", text)
    return number(text) * UNITS[found[1] if found else unit]


def words(value: float) -> str:
    """A time, for people: three digits and a unit.

    >>> words(1.7e-6), words(0.2379), words(696_240.0)
    ('1.70 µs', '238 ms', '193 h')
    """
    if value >= 3600:
        return f"{value / 3600:.3g} h"
    unit = next((name for name in ("s", "ms", "µs", "ns") if value >= UNITS[name]), "ns")
    scaled = value / UNITS[unit]
    return f"{scaled:,.0f} {unit}" if scaled >= 99.95 else f"{scaled:#.3g} {unit}"
