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
@click.option("--kinds", help="A column of the collection, such as cell_type: plans are summed up by it.")
@click.option("--noise", is_flag=True, help="Mark pairs that are no farther apart than samples of one distribution.")
@click.option("--all-points", is_flag=True, help="Keep the points of a large collection, for a large page.")
@click.option("--title", help="Title of the page.")
def view(
    distances: str, output: str | None, collection: str | None, labels: str | None, kinds: str | None, noise: bool,
    all_points: bool, title: str | None,
) -> None:  # fmt: skip
    """One HTML page to explore DISTANCES: matrix, map, neighbors, plans, error bars.

    Example: asot view distances.npz --collection patients.csv
    """
    from asot.commands.cohort import points_with_labels
    from asot.learn.noise import noise_floor
    from asot.saved import load_distances
    from asot.view import write_page

    target = output or str(Path(distances).with_suffix(".html"))
    for flag, asked in (("--kinds", kinds), ("--noise", noise), ("--all-points", all_points)):
        if asked and collection is None:
            raise click.UsageError(f"{flag} needs the points themselves: add --collection")
    options.check_new(target, "a page", (".html", ".htm"), distances, collection, labels)
    r = load_distances(distances)
    D, own = None, None
    if collection is not None:
        D, own = (options.load(collection), None) if kinds is None else points_with_labels(collection, kinds, None)
    groups = None if labels is None else options.read_labels(labels, r, D)
    floor = noise_floor(D, random_state=0) if D is not None and noise else None
    left_out = write_page(
        target, r, D, labels=groups, kinds=own, noise=floor, all_points=all_points, title=title or Path(distances).stem
    )
    if left_out:
        click.echo(f"asot: warning: {left_out}", err=True)
    options.say(f"{target}: {r.pair_set.n_rows:,} distributions; open it in a browser")
