"""`asot store` and `asot gather`: what a store holds, and its contents as files. Also ``--store`` and ``--part``."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, cast

import click

from asot.commands import options
from asot.printable import printable

ROWS_AT_A_TIME = 2**22
"""Edges that are written to a table at a time, about."""


def read_part(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """A callback: ``3/20`` is the third of twenty parts."""
    found = None if value is None else re.fullmatch(r"(\d+)/(\d+)", value)
    if value is not None and (found is None or not 1 <= int(found[1]) <= int(found[2])):
        raise click.BadParameter(f"{value!r} is not a part such as 3/20", ctx, param)
    return None if found is None else (int(found[1]), int(found[2]))


store_path = click.option(
    "--store", "store_path", type=click.Path(), help="A store to create or to continue, in place of an output."
)
part = click.option(
    "--part", metavar="I/N", callback=read_part, help="Only this part of the store, such as 3/20; for Slurm arrays."
)


def or_store(command: options.Command) -> options.Command:
    """The options of a command whose answers go to its output or to a store, which it gets as ``sink``."""

    @functools.wraps(command)
    def with_sink(store_path: str | None, part: tuple[int, int] | None, output: str | None, **how: Any) -> Any:
        from asot.sinks import Store

        if store_path is None and (output is None or part is not None):
            raise click.UsageError("give --output, or --store (with --part, if you like)")
        if store_path is not None and output is not None:
            raise click.UsageError("--store keeps the distances; `asot gather` then writes the output")
        return command(output=output, sink=None if store_path is None else Store(store_path, part=part), **how)

    return cast("options.Command", store_path(part(with_sink)))


@click.command()
@click.argument("path", type=click.Path())
def store(path: str) -> None:
    """Show what a store at PATH holds, how much of it is done, and how long the rest will take.

    Example: asot store run.zarr
    """
    import asot

    stored = asot.open_store(path)
    options.say(repr(stored))
    left = stored.seconds_left()
    if left is not None:
        options.say(f"at the rate so far, about {_duration(left)} to go")
    for key, value in sorted(stored.info.items()):
        if key != "store" and len(str(value)) < 80:
            options.say(f"{printable(key):24} {printable(str(value))}")


@click.command()
@click.argument("path", type=click.Path())
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    required=True,
    help="Where to write: .npy (all values in pair order), .npz or .csv (as `asot pairwise` does), .parquet (edges).",
)
@click.option(
    "--n-neighbors", type=click.IntRange(min=1), help="Only the nearest of each, into .csv, .npz or .parquet."
)
def gather(path: str, output: str, n_neighbors: int | None) -> None:
    """Write a complete store at PATH as one file.

    Example: asot gather run.zarr -o distances.npy
    """
    import asot
    from asot.commands.distances import save_neighbors

    options.check_target(output, path)
    stored = asot.open_store(path)
    if not stored.is_complete:
        raise ValueError(f"{path} is not complete ({stored.n_done} of {stored.n_blocks} blocks); run the rest first")
    suffix = Path(output).suffix.lower()
    if n_neighbors is not None or "distances" in stored.fields:
        options.check_new(output, "neighbors", (".csv", ".npz", ".parquet"), path)
        save_neighbors(output, stored.top_k(n_neighbors))
    elif suffix == ".npy":
        stored.condensed(output)
    elif suffix == ".parquet":
        _write_edges(stored, output)
    else:
        options.check_output(output, path)
        stored.distances().save(output)
    options.say(f"{output}: {len(stored):,} pairs from {path}")


def _write_edges(stored: Any, output: str) -> None:
    """One row per pair: row, column, and everything that is stored about it; a strip of rows at a time."""
    import numpy as np

    from asot.data.npz import atomic_write
    from asot.data.tabular import need_pyarrow

    pyarrow = need_pyarrow("Parquet")
    pairs, writer = stored.pair_set, None
    fields = {name: stored.values(name) if hasattr(pairs, "pairs") else None for name in stored.fields}
    with atomic_write(output) as file:
        for start in range(0, len(pairs), ROWS_AT_A_TIME):
            stop = min(start + ROWS_AT_A_TIME, len(pairs))
            rows, columns = pairs.indices(start, stop)
            table = {"row": rows, "column": columns}
            for name, listed in fields.items():
                table[name] = np.asarray(listed[start:stop] if listed is not None else stored.at(rows, columns, name))
            part = pyarrow.table(table)
            writer = pyarrow.parquet.ParquetWriter(file, part.schema) if writer is None else writer
            writer.write_table(part)
        if writer is not None:
            writer.close()


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
