"""`asot cluster`: groups of similar distributions, as a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import click

from asot.commands import options


@click.command()
@options.collection
@click.option("-o", "--output", type=click.Path(), required=True, help="Where to write (.csv): id, cluster.")
@click.option("--n-clusters", type=click.IntRange(min=1), default=8, show_default=True, help="How many clusters.")
@click.option(
    "--method",
    type=click.Choice(["medoids", "barycenters"]),
    default="medoids",
    show_default=True,
    help="What a center is: a member of its cluster, or a barycenter.",
)
@options.n_anchors
@options.device
@options.n_jobs
@options.random_state
def cluster(
    collection: str,
    output: str,
    n_clusters: int,
    method: str,
    n_anchors: int | None,
    device: str,
    n_jobs: int,
    random_state: int,
) -> None:
    """Clusters of a COLLECTION, by distances on anchors.

    Example: asot cluster patients.csv --n-clusters 3 -o clusters.csv
    """
    import asot
    from asot.data.npz import atomic_write
    from asot.data.tabular import guarded

    if Path(output).suffix.lower() != ".csv":
        raise ValueError(f"cannot write clusters to {output}: its name must end in .csv")
    options.check_target(output, collection)
    D = options.load(collection)
    model = asot.WassersteinKMeans(
        n_clusters, method=method, n_anchors=n_anchors, device=device, n_jobs=n_jobs, random_state=random_state
    ).fit(D)
    with atomic_write(output) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["id", "cluster"])
        writer.writerows(zip(map(guarded, D.ids.tolist()), model.labels_.tolist(), strict=True))
        text.detach()
    sizes = sorted((int((model.labels_ == c).sum()) for c in range(n_clusters)), reverse=True)
    options.say(f"{output}: {n_clusters} clusters of {', '.join(str(size) for size in sizes)} distributions")
