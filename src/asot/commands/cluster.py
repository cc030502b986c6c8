"""`asot cluster`: groups of similar distributions, as a table."""

from __future__ import annotations

from typing import Any

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
def cluster(collection: str, output: str, n_clusters: int, **how: Any) -> None:
    """Clusters of a COLLECTION, by distances on anchors; or by the distances of all pairs, if the file holds them.

    Example: asot cluster patients.csv --n-clusters 3 -o clusters.csv
    """
    import asot
    from asot.data.tabular import csv_writer, guarded
    from asot.learn.kmeans import cluster_distances

    options.check_new(output, "clusters", [".csv"], collection)
    if options.kind_of(collection) in ("distances", "matrix"):
        if how["method"] != "medoids" or how["n_anchors"] is not None:
            words = "holds distances, which have medoids and no anchors; leave out those options"
            raise ValueError(f"{collection} {words}")
        r = asot.load_distances(collection)
        ids, labels = r.ids, cluster_distances(r.matrix(), n_clusters, how["random_state"])
    else:
        D = options.load(collection)
        ids, labels = D.ids, asot.WassersteinKMeans(n_clusters, **how).fit(D).labels_
    with csv_writer(output) as writer:
        writer.writerow(["id", "cluster"])
        writer.writerows(zip(map(guarded, ids.tolist()), labels.tolist(), strict=True))
    sizes = sorted((int((labels == c).sum()) for c in range(n_clusters)), reverse=True)
    options.say(f"{output}: {n_clusters} clusters of {', '.join(str(size) for size in sizes)} distributions")
