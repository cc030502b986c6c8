"""`asot plan`: what goes where between two distributions, as a table of point pairs."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import click

from asot.commands import options


@click.command()
@options.collection
@click.argument("first")
@click.argument("second")
@click.option("-o", "--output", type=click.Path(), required=True, help="Where to write (.csv): a line per part moved.")
def plan(collection: str, first: str, second: str, output: str) -> None:
    """The optimal transport plan between the distributions FIRST and SECOND of a COLLECTION.

    Example: asot plan patients.csv p00 p03 -o plan.csv
    """
    import asot
    from asot.data.npz import atomic_write

    if Path(output).suffix.lower() != ".csv":
        raise ValueError(f"cannot write a plan to {output}: its name must end in .csv")
    options.check_target(output, collection)
    D = options.load(collection)
    i, j = options.index_of(D, first), options.index_of(D, second)
    found = asot.plan(D, i, j, exact=True)
    (x, _), (y, _) = D[i], D[j]
    entries = found.tocoo()
    axes = range(D.dim)
    with atomic_write(output) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(
            ["point_i", "point_j", "mass", *(f"from_{axis}" for axis in axes), *(f"to_{axis}" for axis in axes)]
        )
        for p, q, mass in zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True):
            writer.writerow([p, q, mass, *x[p].tolist(), *y[q].tolist()])
        text.detach()
    click.echo(f"{output}: W1 = {found.cost:.6g} between {D.ids[i]} and {D.ids[j]}, {entries.nnz:,} parts")
