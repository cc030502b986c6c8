"""The README's tables of speed, written from the tables of the benchmarks: ``python docs/parts/readme.py``.

A README is not built, so its numbers are written into it between two marks, by this module alone. A test compares what
stands there with what the tables say now.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from parts.tables import read, seconds, words

README = Path(__file__).resolve().parents[2] / "README.md"
MARKS = ("<!-- measured: {} -->", "<!-- end of {} -->")


def cpu_table() -> str:
    """Exact and entropic distances beside the strongest rivals, one thread each."""
    lines = ["| what | asot | compared with | speedup |", "|---|--:|---|--:|"]
    shared, faster = read("exact_shared").table("Microseconds"), read("exact_shared").table("How many times")
    for k in ("30", "150"):
        rivals = {"`wasserstein.PairwiseEMD` (C++)": "wasserstein", "POT `emd2` in a loop": "POT emd2"}
        lines += _rows(
            f"exact, one shared cost, k = {k}",
            shared.find(k, "asot"),
            [(name, shared.find(k, column), faster.find(k, f"over {column}")) for name, column in rivals.items()],
        )
    points = read("exact_points").table("Time per pair")
    for name, what in (("COX2", "COX2's molecules"), ("ENZYMES", "ENZYMES' proteins")):
        rivals = {
            "SciPy `cdist` + POT's compiled core": ("cdist + core, µs/pair", "than cdist + core"),
            "POT `dist` + `emd2` in a loop": ("POT loop, µs/pair", "times faster than POT loop"),
        }
        lines += _rows(
            f"exact W₁ between {what}",
            points.find(name, "asot, µs/pair"),
            [(rival, *(points.find(name, column) for column in columns)) for rival, columns in rivals.items()],
        )
    entropic = read("entropic").table("50 iterations of all pairs")
    ours = seconds(entropic.find("30", "asot, µs/pair"), "µs")
    for rival, column in (
        ("all targets at once, 15 lines of NumPy", "than 15 lines of NumPy"),
        ("POT `sinkhorn2` with a matrix of targets", "faster than sinkhorn2, a matrix of targets"),
    ):
        times = entropic.find("30", column).split("×")[0]
        first = f"| entropic, k = 30, 50 iterations | {words(ours)} per pair |" if rival.startswith("all") else "| | |"
        lines.append(f"{first} {rival} | {float(times):.1f}× |")
    return "\n".join(lines)


def _rows(what: str, ours: str, rivals: list[tuple[str, str, str]]) -> list[str]:
    """A row for each rival: its name, its microseconds, and how many times faster asot is, as the table says."""
    found = []
    for count, (rival, theirs, times) in enumerate(rivals):
        first = f"| {what} | {words(seconds(ours, 'µs'))} per pair |" if count == 0 else "| | |"
        found.append(f"{first} {rival}: {words(seconds(theirs, 'µs'))} | {times.split('×')[0]}× |")
    return found


def gpu_table() -> str:
    """All pairs on one GPU, from NumPy arrays to NumPy results, and when that was measured: GPUs are rare."""
    exact, entropic = read("gpu").table("Exact"), read("gpu").table("Entropic")
    lines = [
        "| all pairs of | exact | 16 CPU threads | entropic, 50 iterations | the paper's algorithm in PyTorch |",
        "|---|--:|--:|--:|--:|",
    ]
    for size in ("ZINC test size", "NCI1 size"):
        k, n = re.search(r"k = (\d+), N = ([\d,]+)", next(r for r in _first(exact) if r.startswith(size))).groups()
        pairs = float(exact.find(size, "pairs").replace(",", ""))
        cells = [
            exact.find(size, "whole call"), exact.find(size, "CPU threads"),
            entropic.find(size, "whole call"), entropic.find(size, "paper's algorithm"),
        ]  # fmt: skip
        shown = " | ".join(words(seconds(cell)) for cell in cells)
        lines.append(f"| {n} histograms, k = {k} ({pairs / 1e6:.1f} million) | {shown} |")
    date = read("gpu").machine["date"].split(" ")[0]
    return "\n".join([*lines, "", f"This was measured on {date}, with the code of that day."])


def _first(table: object) -> list[str]:
    return [row[table.columns[0]] for row in table.rows]  # type: ignore[attr-defined]


TABLES = {"CPU": cpu_table, "GPU": gpu_table}


def written(text: str) -> str:
    """A README with its tables as they should be."""
    for name, make in TABLES.items():
        begin, end = (mark.format(name) for mark in MARKS)
        if begin not in text or end not in text:
            raise LookupError(f"README.md: no marks {begin!r} and {end!r}")
        head, rest = text.split(begin)
        text = f"{head}{begin}\n\n{make()}\n\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
