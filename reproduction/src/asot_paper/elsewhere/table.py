"""A table with its machine and its command, as Markdown: what every module here writes."""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import asot


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


def finish(
    given: argparse.Namespace, name: str, title: str, head: Sequence[str], rows: Sequence[Sequence[str]], notes: str
) -> None:
    """Print the table, or write it to the output."""
    lines = [f"# {title}", "", notes, "", _line(head), _line(["---"] * len(head)), *map(_line, rows), ""]
    command = f"python -m asot_paper.elsewhere.{name}"
    machine = (
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, asot {asot.__version__}"
    )
    lines += [f"`{command}`, seed {given.random_state}, {machine}, {datetime.date.today()}.", ""]
    text = "\n".join(lines)
    if given.output is None:
        sys.stdout.write(text)
        return
    temporary = given.output.with_name(f".{given.output.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(given.output)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
