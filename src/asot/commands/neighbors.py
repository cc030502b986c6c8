"""`asot neighbors`: the exact nearest neighbors of each distribution, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from asot.commands import options, store

SUFFIXES = (".csv", ".npz")


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
        write_neighbors(output, found, first, second)


def neighbor_lines(found: Any, own: list[Any], others: list[list[Any]]) -> Iterator[list[Any]]:
    """Lines of a table of neighbors, of ids (N,) and those of their neighbors (N, K); the first one is its head."""
    bounded = found.lower is not None
    yield ["id", "rank", "neighbor", "distance", *(["lower"] if bounded else [])]
    for row, name in enumerate(own):
        for rank, neighbor in enumerate(others[row]):
            least = [float(found.lower[row, rank])] if bounded else []
            yield [name, rank + 1, neighbor, float(found.distances[row, rank]), *least]


def write_neighbors(output: str, found: Any, first: Any, second: Any) -> None:
    """Write neighbors as a table or as arrays, and say so; ids are those of the collections, or of an index."""
    from asot.data.npz import plain_ids, save_arrays
    from asot.data.tabular import csv_writer, guarded

    there = first if second is None else second
    if Path(output).suffix.lower() == ".npz":
        ids = {"ids_rows": plain_ids(first.ids), "ids_columns": plain_ids(there.ids)}
        arrays = {"indices": found.indices, "distances": found.distances, **ids}
        if found.lower is not None:
            arrays["lower"] = found.lower
        save_arrays(output, {"kind": "neighbors"}, arrays)
    else:
        own, others = ([guarded(entry) for entry in one.ids.tolist()] for one in (first, there))
        with csv_writer(output) as writer:
            near = [[others[column] for column in row] for row in found.indices]
            writer.writerows(neighbor_lines(found, own, near))
    n_pairs = len(first) * (len(first) - 1) // 2 if second is None else len(first) * len(there)
    solved = f"{found.n_exact:,} of {n_pairs:,} pairs solved"
    if "recall" in found.info:
        low, high = found.info["recall"]["interval"]
        solved += f"; recall {found.info['recall']['measured']:.3f} ({low:.3f} to {high:.3f})"
    options.say(f"{output}: {found.indices.shape[1]} nearest of {len(first):,} distributions; {solved}")
