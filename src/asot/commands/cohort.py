"""`asot groups`, `noise`, `outliers` and `drivers`: what a cohort of samples says, as lines and as tables."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from asot.commands import options

_table = click.option("-o", "--output", type=click.Path(), help="Where to write the whole table (.csv).")
_permutations = click.option(
    "--n-permutations", type=click.IntRange(min=1), default=999, show_default=True, help="Permutations of each test."
)
SHOWN = 10
"""Rows that are printed; a file has all of them."""


@click.command()
@click.argument("distances", type=click.Path())
@click.argument("labels", type=click.Path())
@click.option("--groups", help="The column of LABELS with the groups.  [default: the second]")
@click.option("--strata", help="A column of LABELS: groups are only exchanged within it, such as batches.")
@click.option("--covariates", multiple=True, help="A column of LABELS that is explained first; may be repeated.")
@_permutations
@options.random_state
@_table
def groups(
    distances: str, labels: str, groups: str | None, strata: str | None, covariates: tuple[str, ...],
    output: str | None, **how: Any,
) -> None:  # fmt: skip
    """Whether groups differ: DISTANCES of all pairs, and LABELS, a .csv of id, group and further columns.

    Example: asot groups distances.npz groups.csv --strata batch
    """
    import asot

    options.check_new(output, "a table", [".csv"], distances, labels)
    r, table = asot.load_distances(distances), _read_table(labels)
    group = groups or str(table.columns[0])
    for name in (group, strata, *covariates):
        _check_column(table, name, labels)
    found = asot.group_differences(
        r, table[group], strata=None if strata is None else table[strata],
        covariates=table[list(covariates)] if covariates else None, **how,
    )  # fmt: skip
    options.say(repr(found))
    low, high = found.effect_interval or (float("nan"), float("nan"))
    options.say(f"effect (ω²) {found.effect:.3f}, 95 % interval {low:.3f} to {high:.3f}")
    options.say(f"by ranks: R {found.rank_statistic:.3f} (p = {found.rank_p_value:.3g})")
    options.say(f"spread of groups: p = {found.dispersion_p_value:.3g}")
    _write(found.to_frame(), output)


@click.command()
@options.collection
@click.option("--n-splits", type=click.IntRange(min=1), default=4, show_default=True, help="Random splits of each.")
@options.n_jobs
@options.random_state
@_table
def noise(collection: str, output: str | None, **how: Any) -> None:
    """How far apart two samples of the same distribution are, for every one in a COLLECTION.

    Example: asot noise patients.csv -o noise.csv
    """
    import asot
    from asot.results.frames import need_pandas

    options.check_new(output, "a table", [".csv"], collection)
    D = options.load(collection)
    floor = asot.noise_floor(D, **how)
    columns = {"size": D.sizes, "noise": floor.values, "extrapolated": floor.extrapolated}
    pandas = need_pandas("asot noise")
    options.say(repr(floor))
    _write(pandas.DataFrame(columns, index=pandas.Index(D.ids, name="id")), output)


@click.command()
@click.argument("distances", type=click.Path())
@click.option("--collection", type=click.Path(), help="The collection itself, to measure its noise.")
@options.how_to_read
@options.n_jobs
@_table
def outliers(distances: str, collection: str | None, n_jobs: int, output: str | None) -> None:
    """Which samples are odd, by the DISTANCES of all pairs, beyond what their sizes explain.

    Example: asot outliers distances.npz --collection patients.csv
    """
    import asot

    options.check_new(output, "a table", [".csv"], distances, collection)
    r = asot.load_distances(distances)
    found = asot.outliers(r, None if collection is None else asot.noise_floor(options.load(collection), n_jobs=n_jobs))
    options.say(repr(found))
    _show(found.to_frame(), output)


@click.command()
@click.argument("table", type=click.Path())
@click.argument("groups", type=click.Path())
@click.option("--labels", required=True, help="The column of TABLE (of obs in .h5ad) with the kind of a point.")
@click.option("--by", help="The column of TABLE that names the sample.  [default: id, or --groupby in .h5ad]")
@options.how_to_read
@click.option(
    "--min-size", type=click.IntRange(min=1), default=10, show_default=True, help="Points of a kind at least."
)
@_permutations
@options.n_jobs
@options.random_state
@_table
def drivers(table: str, groups: str, labels: str, by: str | None, output: str | None, **how: Any) -> None:
    """In which kinds of points groups differ: a TABLE with one row per point, and GROUPS, a .csv of id, group.

    Example: asot drivers cells.csv groups.csv --labels cell_type
    """
    import asot

    options.check_new(output, "a table", [".csv"], table, groups)
    D, kinds = points_with_labels(table, labels, by)
    found = asot.drivers(D, kinds, _read_table(groups).iloc[:, 0], **how)
    options.say(repr(found))
    _show(found.to_frame(), output)


# -------------------------------------------------------------------------------------------------------------- tables


def _read_table(path: str) -> Any:
    """A table by id, which is its first column."""
    from asot.data.tabular import unguarded
    from asot.results.frames import need_pandas

    if not Path(path).is_file():
        raise ValueError(f"cannot read {path}: there is no such file")
    table = need_pandas("reading labels").read_csv(path, dtype={0: str})
    if table.shape[1] < 2:
        raise ValueError(f"{path} needs two columns: id and group")
    own = table.columns[0]
    table[own] = table[own].map(unguarded, na_action="ignore")
    return table.set_index(own)


def _check_column(table: Any, name: str | None, path: str) -> None:
    if name is not None and name not in table.columns:
        close = get_close_matches(name, [str(one) for one in table.columns], 1)
        hint = f"did you mean {close[0]!r}? It has" if close else "it has"
        raise ValueError(f"{path} has no column {name!r}; {hint} {', '.join(map(repr, table.columns))}")


def points_with_labels(path: str, labels: str, by: str | None) -> tuple[Any, Any]:
    """A collection, and the kind of every point in its order."""
    import asot
    from asot.data.reading import factorized
    from asot.data.tabular import unguarded
    from asot.results.frames import need_pandas

    suffix = Path(path).suffix.lower()
    if suffix == ".h5ad":
        from asot.data.foreign_files import columns_of_h5ad

        D = options.load(path)
        groups, kinds = columns_of_h5ad(path, (options.reading()["groupby"], labels))
    elif suffix in (".csv", ".parquet"):
        pandas = need_pandas("asot drivers")
        table = pandas.read_parquet(path) if suffix == ".parquet" else pandas.read_csv(path, nrows=0)
        groupby = by or ("id" if "id" in table.columns else str(table.columns[0]))
        for name in (labels, groupby):
            _check_column(table, name, path)
        if suffix == ".csv":
            table = pandas.read_csv(path, dtype={groupby: str})  # 007 is not 7
            table[groupby] = table[groupby].map(unguarded, na_action="ignore")
        mass = "mass" if "mass" in table.columns else None
        points = [name for name in table.columns if name not in (labels, groupby, mass)]
        D = asot.Distributions.from_table(table, by=groupby, points=points, masses=mass)
        groups, kinds = table[groupby], table[labels]
    else:
        raise ValueError(f"cannot read kinds of points from {path}: it must be a .csv, .parquet or .h5ad file")
    order = factorized(groups, len(groups))[1].argsort(kind="stable")
    return D, kinds.to_numpy()[order]


def _show(table: Any, output: str | None) -> None:
    """The first rows, and all of them in a file."""
    options.say(table.head(SHOWN).reset_index().to_string(index=False, float_format=lambda number: f"{number:.3f}"))
    _write(table, output)


def _write(table: Any, output: str | None) -> None:
    if output is None:
        return
    from asot.data.npz import atomic_write
    from asot.data.tabular import guarded

    safe = table.rename(index=guarded).apply(lambda column: column.map(guarded))
    with atomic_write(output) as stream:
        stream.write(safe.to_csv(lineterminator="\n").encode())
    options.say(f"{output}: {len(table):,} rows")
