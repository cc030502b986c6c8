"""`asot convert`: a collection in another format."""

from __future__ import annotations

import click

from asot.commands import options


@click.command()
@options.collection
@click.option("-o", "--output", type=click.Path(), required=True, help="Where to write: .npz, .csv or .parquet.")
def convert(collection: str, output: str) -> None:
    """Write a COLLECTION in another format.

    Example: asot convert cells.h5ad --groupby patient -o patients.npz
    """
    from asot.data.files import save_collection

    options.check_target(output, collection)
    D = options.load(collection)
    save_collection(D, output)
    options.say(f"{output}: {D!r}")
