"""A table with its machine and its command, as Markdown: what every module here writes."""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from asot_paper.machine import PACKAGES, machine, versions

T = TypeVar("T")


def arguments(what: str, data: bool = True) -> argparse.ArgumentParser:
    """The options that all commands have."""
    parser = argparse.ArgumentParser(description=what)
    if data:
        parser.add_argument(
            "--data", required=True, type=Path, help="The folder of the data, as docs/datasets.md says."
        )
    parser.add_argument("-o", "--output", type=Path, help="Where to write the table (Markdown).  Default: print it.")
    parser.add_argument("--random-state", type=int, default=0)
    return parser


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What a function returns, and its wall-clock seconds."""
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def cpu_timed(work: Callable[[], T]) -> tuple[T, float]:
    """What a function returns, and its CPU seconds, which other work on the machine hardly changes. For one thread."""
    started = time.process_time()
    return work(), time.process_time() - started


def finish(
    given: argparse.Namespace,
    name: str,
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str],
    rivals: Sequence[str] = (),
) -> None:
    """Print the table, or write it to the output: title, table, notes, and how it was made.

    ``notes`` are paragraphs, ``rivals`` the packages that others' times here were measured with.
    """
    table = [_line(head), _line(["---", *["--:"] * (len(head) - 1)]), *map(_line, rows)]
    text = "\n".join([f"# {title}", "", *table, "", *(f"{note}\n" for note in notes), _made(given, name, rivals), ""])
    if given.output is None:
        sys.stdout.write(text)
        return
    temporary = given.output.with_name(f".{given.output.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(given.output)


def _made(given: argparse.Namespace, name: str, rivals: Sequence[str]) -> str:
    """Command, seed, machine, versions and date."""
    own = ("data", "output", "random_state", "kept", "n_jobs")  # what does not change the numbers
    options = [f"--{key.replace('_', '-')} {_words(value)}" for key, value in vars(given).items() if key not in own]
    command = " ".join([f"python -m asot_paper.elsewhere.{name}", *["--data DATA"] * hasattr(given, "data"), *options])
    here = machine(1)
    found = versions((*(package for package in PACKAGES if package not in rivals), *rivals))
    listed = ", ".join(f"{package} {version}" for package, version in found.items() if version)
    return (
        f"Made by `{command}`, seed {given.random_state}, on {here['cpu']}, {here['cores']} cores, {here['system']}, "
        f"{datetime.date.today()}. Versions: {listed}."
    )


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
