"""`asot plan`: what goes where between two distributions, as a table of point pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from asot.commands import options


@click.command()
@options.collection
@click.argument("first")
@click.argument("second")
@click.option("-o", "--output", type=click.Path(), required=True, help="Where to write (.csv): one line per move.")
@options.distance
def plan(collection: str, first: str, second: str, output: str, p: float, **how: Any) -> None:
    """The optimal transport plan between the distributions FIRST and SECOND of a COLLECTION.

    With --unmatched, mass without a partner has a line with only one of the two points.

    Example: asot plan patients.csv p00 p03 -o plan.csv
    """
    import asot
    from asot.data.tabular import csv_writer

    options.check_new(output, "a plan", [".csv"], collection)
    D = options.load(collection)
    i, j = options.index_of(D, first), options.index_of(D, second)
    found = asot.plan(D, i, j, p=p, exact=True, **how)
    (x, _), (y, _) = D[i], D[j]
    axes = range(D.dim)
    with csv_writer(output) as writer:
        writer.writerow(
            ["point_i", "point_j", "mass", *(f"from_{axis}" for axis in axes), *(f"to_{axis}" for axis in axes)]
        )
        writer.writerows(_lines(found, x, y))
    options.say(f"{output}: W{p:g} = {found.cost:.6g} between {D.ids[i]} and {D.ids[j]}, {found.nnz:,} parts")


def _lines(found: Any, x: Any, y: Any) -> Iterator[list[Any]]:
    """Where mass goes from and to, and the mass; nothing in place of a partner that it has not."""
    nowhere = [""] * x.shape[1]
    entries = found.tocoo()
    for s, t, mass in zip(entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True):
        yield [s, t, mass, *x[s].tolist(), *y[t].tolist()]
    if found.unmatched is not None:
        left, missing = (part.tolist() for part in found.unmatched)
        yield from ([s, "", mass, *x[s].tolist(), *nowhere] for s, mass in enumerate(left) if mass > 0)
        yield from (["", t, mass, *nowhere, *y[t].tolist()] for t, mass in enumerate(missing) if mass > 0)
