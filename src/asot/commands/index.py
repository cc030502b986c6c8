"""`asot index`: add distributions to an index on disk, remove some, and ask it for neighbors."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from asot.commands import options

if TYPE_CHECKING:
    from asot.index.index import Index

_folder = click.argument("folder", type=click.Path())


@click.group()
def index() -> None:
    """An index of distributions: a folder that grows, and answers exact nearest-neighbor queries.

    Every change is on disk when its command ends.

    Example: asot index add molecules.index known.npz
    """


@index.command()
@_folder
@options.collection
@click.option("--replace", is_flag=True, help="Replace members that have an id of the COLLECTION.")
@options.distance
def add(folder: str, collection: str, replace: bool, **words: Any) -> None:
    """Add the distributions of a COLLECTION to the index in FOLDER, which is made if it is not there.

    --p, --metric and --unmatched say which distance a new index has.
    """
    import asot

    members = options.load(collection)
    if not Path(folder).exists():
        made = asot.Index(**words)
        made.add(members)
        made.save(folder)
        options.say(f"{folder}: {len(made):,} added, {len(made):,} members")
        return
    _refuse_other_distance(folder, words)
    with asot.Index.open(folder, mode="r+") as opened:
        known = [] if replace or members.given_ids is None else [name for name in members.ids if name in opened]
        if known:
            raise ValueError(f"{known[0]!s} is in the index already, and nothing was added; --replace replaces members")
        opened.add(members, replace=replace)
        options.say(f"{folder}: {len(members):,} added, {len(opened):,} members")


def _refuse_other_distance(folder: str, words: dict[str, Any]) -> None:
    """An index keeps its distance; options that were given must not contradict it."""
    import asot

    context = click.get_current_context()
    known = asot.Index.open(folder).info
    for name, value in words.items():
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if given and value != known[name]:
            raise ValueError(f"{folder} has {name}={known[name]!r}, not {value!r}; leave out --{name}, or make another")


@index.command()
@_folder
@click.argument("ids", nargs=-1, required=True)
def remove(folder: str, ids: tuple[str, ...]) -> None:
    """Remove the members with these IDS from the index in FOLDER."""
    with _opened(folder, "r+") as opened:
        before = len(opened)
        are_numbers = [name not in opened and name.removeprefix("-").isdecimal() for name in ids]
        opened.remove([int(name) if number else name for name, number in zip(ids, are_numbers, strict=True)])
        options.say(f"{folder}: {before - len(opened):,} removed, {len(opened):,} members")


def _opened(folder: str, mode: Literal["r", "r+"] = "r") -> Index:
    import asot

    if not Path(folder).exists():
        raise FileNotFoundError(f"there is no index at {folder}: asot index add {folder} COLLECTION makes one")
    return asot.Index.open(folder, mode=mode)


@index.command()
@_folder
@options.collection
@click.option("-o", "--output", type=click.Path(), help="Where to write: .csv (one line per neighbor) or .npz.")
@options.n_neighbors
@click.option(
    "--recall", type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Find this share of the neighbors, such as 0.98, with fewer solves. By default, and for so few queries that "
    "learning how would take longer (some 400), all of them.",
)  # fmt: skip
@click.option(
    "--max-solves",
    type=click.IntRange(min=1),
    help="Solve no more pairs than this for a query. The column "
    "lower then says what is certain: no neighbor of that rank is nearer.",
)
@options.n_jobs
def query(folder: str, collection: str, output: str | None, n_neighbors: int, recall: float | None, **how: Any) -> None:
    """The nearest members of each distribution of a COLLECTION, in the index in FOLDER.

    Example: asot index query molecules.index new.npz --n-neighbors 10 -o nearest.csv
    """
    from asot.commands.distances import SUFFIXES, neighbor_lines, write_neighbors
    from asot.index.recall import PAYS_FROM, as_recall

    share = None if recall is None else as_recall(recall)
    options.check_new(output, "neighbors", SUFFIXES, collection)
    if output is not None and Path(folder).resolve() in Path(output).resolve().parents:
        raise ValueError(f"{output} would be among the files of the index {folder}; write it elsewhere")
    queries, opened = options.load(collection), _opened(folder)
    found = opened.query(queries, n_neighbors, recall=share if len(queries) >= PAYS_FROM else None, **how)
    if output is None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows(neighbor_lines(found))
        options.say(text.getvalue().removesuffix("\n"))
    else:
        write_neighbors(output, found)


@index.command()
@_folder
def info(folder: str) -> None:
    """What the index in FOLDER holds."""
    known = _opened(folder).info
    for name in ("members", "removed", "points", "bytes", "p", "metric", "unmatched", "bounds", "compact_pays"):
        options.say(f"{name}: {json.dumps(known[name])}")
