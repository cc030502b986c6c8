"""Options that several commands share. Each has the name of the argument in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from asot.printable import printable

if TYPE_CHECKING:
    from asot.data.distributions import Distributions

Command = TypeVar("Command", bound=Callable[..., Any])
_READING = "asot.reading"
"""Where the context keeps how collections are read."""


def say(text: str) -> None:
    """Print what may contain names out of anybody's file."""
    click.echo(printable(text, keep="\n"))


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """A callback: how to read collections is for `load`, not for the commands."""
    if value is not None:
        ctx.meta.setdefault(_READING, {})[param.name] = value


def how_to_read(command: Command) -> Command:
    """The options of a command that reads collections."""
    for flag, words in (
        ("--attributes", "Of a folder of graphs: the node attribute to begin with.  [default: all nodes begin alike]"),
        ("--use-rep", "Of an .h5ad file: where cells lie, a key of obsm or layers, or X.  [default: X_pca]"),
        ("--groupby", "Of an .h5ad file: the column of obs that names the sample of a cell."),
    ):
        command = click.option(flag, help=words, callback=_remember, expose_value=False)(command)
    return command


def collection(command: Command) -> Command:
    """The argument COLLECTION, and the options that say how to read it."""
    return click.argument("collection", type=click.Path())(how_to_read(command))


other = click.argument("other", type=click.Path(), required=False)
output = click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Where to write: .npy (matrix), .npz (everything) or .csv (one line per pair).",
)
n_neighbors = click.option(
    "--n-neighbors", type=click.IntRange(min=1), default=5, show_default=True, help="How many of each."
)
n_anchors = click.option("--n-anchors", type=click.IntRange(min=1), help="Number of anchors.  [default: chosen]")
n_jobs = click.option("--n-jobs", type=int, default=-1, show_default=True, help="Threads; -1 means every core.")
memory = click.option("--memory", help="Budget for scratch memory, such as 2G.  [default: 1G]")
device = click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N; auto uses GPUs if they pay off."
)
random_state = click.option(
    "--random-state", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of everything random."
)
order = click.option(
    "--p", type=click.FloatRange(min=1), default=1, show_default=True, help="Order of the distance W_p."
)
metric = click.option(
    "--metric", default="euclidean", show_default=True, help="Ground metric, named as in scipy's cdist."
)


def number_or(word: str) -> Callable[[click.Context, click.Parameter, str | None], float | str | None]:
    """A callback for options that take a number or one word."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> float | str | None:
        try:
            return value if value in (None, word) else float(value)
        except ValueError:
            raise click.BadParameter(f"{value!r} is neither a number nor {word!r}", ctx, param) from None

    return read


unmatched = click.option(
    "--unmatched",
    metavar="FLOAT|diagonal",
    callback=number_or("diagonal"),
    help="Take masses as they are; mass without a partner costs this, or its distance to the diagonal.",
)


def read_share(ctx: click.Context, param: click.Parameter, value: str | None) -> float | str | None:
    """A callback: a number in the units of the distance, a share such as 5%, or none."""
    if value in (None, "none"):
        return None
    try:
        return value if value.endswith("%") else float(value)
    except ValueError:
        raise click.UsageError(f"{param.opts[0]} is a number or a share such as 5%; found {value!r}") from None


def distance(command: Command) -> Command:
    return order(metric(unmatched(command)))


def check_output(path: str | None, *inputs: str | None) -> None:
    """Refuse an output that cannot be written, or that would replace an input, before the work begins."""
    from asot.results.files import DISTANCE_SUFFIXES

    check_new(path, "distances", DISTANCE_SUFFIXES, *inputs)


def check_new(path: str | None, what: str, suffixes: Sequence[str], *inputs: str | None) -> None:
    """`check_target` of what will be written, if anything, after a look at how its name ends."""
    from asot.data.npz import suffix_of

    if path is not None:
        suffix_of(path, suffixes, f"write {what} to")
        check_target(path, *inputs)


def check_target(path: str, *inputs: str | None) -> None:
    """Refuse to overwrite an input, or to write into a folder that cannot be written to."""
    from asot.data.npz import check_writable

    for read in inputs:
        if read is not None and _same_file(path, read):
            raise ValueError(f"{path} would replace the input {read}; give the output another name")
    check_writable(path)


def _same_file(first: str, second: str) -> bool:
    if Path(first).exists() and Path(second).exists():
        return os.path.samefile(first, second)
    return os.path.realpath(first) == os.path.realpath(second)


def reading() -> dict[str, str]:
    """How collections are to be read, as the options say."""
    return click.get_current_context().meta.get(_READING, {})


def kind_of(path: str) -> str:
    """What a file holds, as far as its name and its beginning say: a collection, unless they say something else."""
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        from asot.data.npz import read_header

        return str((read_header(path) or {}).get("kind"))
    if suffix == ".csv" and not os.path.isdir(path):
        from asot.data.tabular import csv_rows

        with csv_rows(path) as rows:
            return "distances" if next(rows, [])[:3] == ["id_i", "id_j", "distance"] else "distributions"
    return {".npy": "matrix", ".h5ad": "cells"}.get(suffix, "distributions")


def load(path: str) -> Distributions:
    """The collection that a file or a folder holds."""
    from asot.data.files import load_collection

    return load_collection(path, **reading())


def load_both(path: str, other: str | None) -> tuple[Distributions, Distributions | None]:
    """One collection, or two; graphs of both are read together, so that their labels have the same columns."""
    if other is not None and os.path.isdir(path) and os.path.isdir(other):
        from asot.data.foreign_files import folder_files, load_graphs

        first, second = folder_files(path), folder_files(other)
        if first[0].suffix.lower() == second[0].suffix.lower() == ".graphml":
            both = load_graphs([*first, *second], reading().get("attributes"))
            return both[: len(first)], both[len(first) :]
    return load(path), None if other is None else load(other)


def index_of(D: Distributions, name: str) -> int:
    """Which distribution a user means: by its id, or by its number."""
    ids = [str(one) for one in D.ids]
    if name in ids:
        return ids.index(name)
    try:
        number = int(name)
    except ValueError:
        shown = ", ".join(ids[:5]) + ("…" if len(ids) > 5 else "")
        close = get_close_matches(name, ids, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {shown}"
        raise ValueError(f"no distribution is called {name!r}; {hint}") from None
    if not 0 <= number < len(D):
        raise ValueError(f"there is no distribution {number}; they are numbered 0 to {len(D) - 1}")
    return number


def read_labels(path: str, r: Any, D: Distributions | None) -> list[str]:
    """Groups in the order of a result's distributions, from a table of id and group."""
    import csv

    from asot.data.tabular import unguarded
    from asot.plots import names_of

    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    known: dict[str, str] = {}
    for row in rows[1:]:
        name = unguarded(row[0])
        if len(row) >= 2 and known.setdefault(name, row[1]) != row[1]:
            raise ValueError(f"{path} has two groups for {name!r}: {known[name]!r} and {row[1]!r}")
    names = names_of(r) if D is None else [str(one) for one in D.ids]
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"{path} has no group for {missing[0]!r} ({len(missing):,} of {len(names):,} are missing)")
    return [known[name] for name in names]


def finish(output: str | None, result: Any) -> None:
    """Write distances, unless they are in a store already, and say what was written."""
    from asot.results.files import save_distances

    if output is not None:
        save_distances(result, output)
    say(repr(result) if output is None else f"{output}: {result!r}")
