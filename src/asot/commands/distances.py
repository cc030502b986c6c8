"""`asot pairwise` and `asot exact`: distances of all pairs, from files to files."""

from __future__ import annotations

from typing import Any

import click

from asot.commands import options, store


@click.command()
@options.collection
@options.other
@options.output
@store.or_store
@click.option(
    "--error",
    default="2%",
    show_default=True,
    callback=options.read_share,
    help="Root-mean-square error that you accept, such as 0.5 or 5%, or 'none' for any.",
)
@click.option(
    "--max-error",
    callback=options.read_share,
    help="Largest error of any distance, such as 0.5 or 5%: proven, or else solved exactly.",
)
@click.option(
    "--estimate",
    type=click.Choice(["auto", "anchor", "calibrated"]),
    default="auto",
    show_default=True,
    help="auto meets the error; anchor is the plain distance on the anchors; calibrated corrects it.",
)
@options.distance
@click.option("--space", type=click.Path(), help="Anchor space from `asot fit`.  [default: learned if that pays off]")
@options.n_anchors
@click.option(
    "--reg",
    metavar="FLOAT|auto",
    callback=options.number_or("auto"),
    help="Entropic distances on the anchors, with this ε or one chosen from the costs.",
)
@options.device
@options.n_jobs
@options.memory
@options.random_state
@click.option("--bounds", is_flag=True, help="Add proven bounds on the true distance of every pair.")
@click.option("--calibrated", is_flag=True, hidden=True, help="The same as --estimate calibrated.")
def pairwise(
    collection: str, other: str | None, output: str | None, space: str | None, calibrated: bool, **how: Any
) -> None:
    """Distances as accurate as you ask for: all pairs of a COLLECTION, or every pair with an OTHER one.

    Example: asot pairwise patients.csv -o distances.npz
    """
    import asot
    from asot.anchors.files import load_space

    options.check_output(output, collection, other, space)
    if space is not None and how["n_anchors"] is not None:
        raise click.UsageError("--space brings its own anchors; leave out --n-anchors")
    first, second = options.load_both(collection, other)
    how |= {"space": None if space is None else load_space(space)} | ({"estimate": "calibrated"} if calibrated else {})
    options.finish(output, asot.pairwise(first, second, **how))


@click.command()
@options.collection
@options.other
@options.output
@store.or_store
@options.distance
@options.n_jobs
@options.memory
def exact(collection: str, other: str | None, output: str | None, **how: Any) -> None:
    """Exact W_p on the original points: all pairs of a COLLECTION, or every pair with an OTHER one.

    Example: asot exact patients.csv -o distances.csv
    """
    import asot

    options.check_output(output, collection, other)
    options.finish(output, asot.pairwise_exact(*options.load_both(collection, other), **how))
