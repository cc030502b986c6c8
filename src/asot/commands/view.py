"""`asot view`: a result as one page to explore."""

from __future__ import annotations

from pathlib import Path

import click

from asot.commands import options


@click.command()
@click.argument("distances", type=click.Path())
@click.option("-o", "--output", type=click.Path(), help="The page.  [default: next to the distances, .html]")
@click.option("--collection", type=click.Path(), help="The collection itself, so that the page can show plans.")
@options.how_to_read
@click.option("--labels", type=click.Path(), help="A .csv of id, group: shown by color.")
@click.option("--title", help="Title of the page.")
def view(distances: str, output: str | None, collection: str | None, labels: str | None, title: str | None) -> None:
    """One HTML page to explore DISTANCES: matrix, map, neighbors, plans, error bars.

    Example: asot view distances.npz --collection patients.csv
    """
    from asot.saved import load_distances
    from asot.view import write_page

    target = output or str(Path(distances).with_suffix(".html"))
    if Path(target).suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"cannot write a page to {target}: its name must end in .html")
    options.check_target(target, distances, collection, labels)
    r = load_distances(distances)
    D = None if collection is None else options.load(collection)
    groups = None if labels is None else options.read_labels(labels, r, D)
    write_page(target, r, D, labels=groups, title=title or Path(distances).stem)
    options.say(f"{target}: {r.pair_set.n_rows:,} distributions; open it in a browser")
