"""`asot pairwise`, `exact`, `neighbors` and `plan`: distances, and what goes where, from files to files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from asot.commands import options, store

SUFFIXES = (".csv", ".npz")


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


@click.command()
@options.collection
@options.other
@click.option(
    "-o", "--output", type=click.Path(), help="Where to write: .csv (one line per neighbor) or .npz; or use --store."
)
@store.or_store
@options.n_neighbors
@options.distance
@click.option(
    "--recall", type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Find this share of the neighbors, such as 0.98, with fewer solves. By default, all of them.",
)  # fmt: skip
@options.n_jobs
@options.memory
def neighbors(collection: str, other: str | None, output: str | None, n_neighbors: int, **how: Any) -> None:
    """The nearest neighbors of each distribution in a COLLECTION, under the exact W_p.

    Searches within the COLLECTION, or in an OTHER one.

    Example: asot neighbors patients.csv --n-neighbors 3 -o nearest.csv
    """
    import asot

    options.check_new(output, "neighbors", SUFFIXES, collection, other)
    first, second = options.load_both(collection, other)
    found = asot.kneighbors(first, second, n_neighbors, **how)
    if output is None:
        options.say(repr(found))
    else:
        write_neighbors(output, found)


def neighbor_lines(found: Any, guard: Callable[[Any], Any] = lambda entry: entry) -> Iterator[list[Any]]:
    """Lines of a table of neighbors, the first of which is its head; ids are as ``guard`` has them."""
    bounded = found.lower is not None
    yield ["id", "rank", "neighbor", "distance", *(["lower"] if bounded else [])]
    for row, (name, others) in enumerate(zip(found.ids.tolist(), found.neighbor_ids.tolist(), strict=True)):
        for rank, neighbor in enumerate(others):
            least = [float(found.lower[row, rank])] if bounded else []
            yield [guard(name), rank + 1, guard(neighbor), float(found.distances[row, rank]), *least]


def save_neighbors(output: str, found: Any) -> None:
    """Write neighbors as a table or as arrays."""
    import numpy as np

    from asot.data.npz import atomic_write, plain_ids, save_arrays
    from asot.data.tabular import csv_writer, guarded

    suffix = Path(output).suffix.lower()
    if suffix == ".npz":
        columns = range(found.info["n_columns"]) if found.names[1] is None else found.names[1]
        arrays = {"indices": found.indices, "distances": found.distances}
        arrays |= {"ids_rows": plain_ids(found.ids), "ids_columns": plain_ids(np.asarray(columns))}
        if found.lower is not None:
            arrays["lower"] = found.lower
        save_arrays(output, {"kind": "neighbors"}, arrays)
    elif suffix == ".parquet":
        with atomic_write(output) as file:
            found.to_frame().to_parquet(file)
    else:
        with csv_writer(output) as writer:
            writer.writerows(neighbor_lines(found, guarded))


def write_neighbors(output: str, found: Any) -> None:
    """Write what a search found, and say so."""
    save_neighbors(output, found)
    solved = f"{found.n_exact:,} of {found.info['n_pairs']:,} pairs solved"
    if "recall" in found.info:
        low, high = found.info["recall"]["interval"]
        solved += f"; recall {found.info['recall']['measured']:.3f} ({low:.3f} to {high:.3f})"
    options.say(f"{output}: {found.indices.shape[1]} nearest of {len(found):,} distributions; {solved}")


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
