"""The command line: parse, call, print.

Heavy imports happen inside the commands, so that ``asot --help`` is quick. Whatever goes wrong ends in one line on
stderr and a non-zero exit code; ``--debug`` shows the trace instead. Outputs are checked before long work begins.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from asot import __version__

if TYPE_CHECKING:
    from asot.anchors.space import AnchorSpace
    from asot.data.distributions import Distributions


class _Stopped(click.ClickException):
    """Ctrl-C."""

    exit_code = 130  # what shells report for an interrupted program


class _OneLineErrors(click.Group):
    """Commands whose errors are one line: exit code 2 for a wrong call, 1 for all else, 130 for Ctrl-C."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        run: Any = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **extra)
        try:
            sys.exit(run(*args, standalone_mode=False, **extra) or 0)
        except _Stopped as error:
            click.echo("asot: stopped", err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            hint = " (see --help)" if isinstance(error, click.UsageError) else ""
            click.echo(f"asot: error: {' '.join(error.format_message().split())}{hint}", err=True)
            sys.exit(error.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise _Stopped("stopped") from interrupt
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if ctx.params["debug"]:
                raise
            raise click.ClickException(_one_line(error)) from error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, (ValueError, OSError, ImportError)) and text:
        return text
    if isinstance(error, MemoryError):
        return text or "there is not enough memory"
    return f"{type(error).__name__}: {text} (asot --debug shows where)"


def _read_reg(ctx: click.Context, param: click.Parameter, value: str | None) -> float | str | None:
    if value is None or value == "auto":
        return value
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor 'auto'", ctx, param) from None


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"--max-error is a number or a share such as 5%; found {text!r}") from None


_SUFFIX_HELP = "Where to write: .npy (matrix), .npz (everything) or .csv (one line per pair)."
_collection = click.argument("collection", type=click.Path())
_other = click.argument("other", type=click.Path(), required=False)
_output = click.option("-o", "--output", type=click.Path(), required=True, help=_SUFFIX_HELP)
_n_anchors = click.option(
    "--n-anchors", type=click.IntRange(min=1), help="Number of anchors.  [default: the mean size of a distribution]"
)
_jobs = click.option("--jobs", type=int, default=-1, show_default=True, help="Threads; -1 means every core.")
_memory = click.option("--memory", help="Budget for scratch memory, such as 2G.  [default: 1G]")
_device = click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N; auto takes GPUs where they pay."
)
_seed = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the anchors.")


@click.group(cls=_OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="asot", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the full trace of an error.")
def cli(debug: bool) -> None:
    """All Wasserstein distances within a collection of distributions.

    A COLLECTION is an .npz file with arrays points (n, d), offsets (N + 1) and optionally masses (n) and ids (N), or a
    .csv or .parquet table with one row per point: id, coordinates, optionally mass.
    """


@cli.command()
@click.option("--out", type=click.Path(), default="asot-demo.png", show_default=True, help="The picture to draw.")
@click.option("--n", type=click.IntRange(min=3), help="Number of digits.  [default: all 1,797]")
@_n_anchors
@_jobs
@_seed
def demo(out: str, n: int | None, n_anchors: int | None, jobs: int, seed: int) -> None:
    """Distances between all of scikit-learn's digits: a table and a picture."""
    from asot.data.npz import check_writable
    from asot.demo import run_demo
    from asot.demo_picture import check_suffix, draw

    check_suffix(out)
    check_writable(out)
    found = run_demo(n, n_anchors, n_jobs=jobs, random_state=seed)
    click.echo(found.table())
    if not _has_matplotlib():
        click.echo(f"{'picture':<18}needs matplotlib: pip install asot[plots]")
        return
    draw(found, out)
    click.echo(f"{'picture':<18}{out}")


def _has_matplotlib() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


@cli.command()
@_collection
@click.option("-o", "--output", type=click.Path(), required=True, help="Where to write the anchor space (.npz).")
@_n_anchors
@_device
@_seed
def fit(collection: str, output: str, n_anchors: int | None, device: str, seed: int) -> None:
    """Learn an anchor space on a COLLECTION."""
    import asot
    from asot.data.files import load_collection, save_space
    from asot.data.npz import check_writable

    if Path(output).suffix.lower() != ".npz":
        raise ValueError(f"cannot write an anchor space to {output}: its name must end in .npz")
    check_writable(output)
    learner = asot.KMeansAnchors(n_anchors, random_state=seed, device=device)
    space = learner.fit(load_collection(collection)).space_
    save_space(space, output)
    click.echo(f"{output}: {_describe_space(space)}")


@cli.command()
@_collection
@_other
@_output
@click.option("--space", type=click.Path(), help="Anchor space from `asot fit`.  [default: learned on the collection]")
@_n_anchors
@click.option(
    "--reg",
    metavar="FLOAT|auto",
    callback=_read_reg,
    help="Entropic, with this ε or one chosen from the costs.  [default: exact on the anchors]",
)
@_device
@_jobs
@_memory
@_seed
@click.option("--bounds", is_flag=True, help="Bounds on the original distance of every pair.")
@click.option("--calibrated", is_flag=True, help="Correct the distances by a fit on 64 pairs that are solved exactly.")
@click.option("--max-error", help="Solve exactly what is not certain to be within this error, such as 0.5 or 5%.")
def pairwise(
    collection: str,
    other: str | None,
    output: str,
    space: str | None,
    n_anchors: int | None,
    reg: float | str | None,
    device: str,
    jobs: int,
    memory: str | None,
    seed: int,
    bounds: bool,
    calibrated: bool,
    max_error: str | None,
) -> None:
    """Distances on anchors: all pairs of a COLLECTION, or every pair with an OTHER one."""
    import asot
    from asot.data.files import load_collection, load_space

    _check_output(output)
    if space is not None and n_anchors is not None:
        raise click.UsageError("--space brings its own anchors; leave out --n-anchors")
    first = load_collection(collection)
    second = None if other is None else load_collection(other)
    learner = asot.KMeansAnchors(n_anchors, random_state=seed, device=device)
    how: dict[str, Any] = {"reg": reg, "bounds": bounds, "device": device, "n_jobs": jobs, "memory": memory}
    how["estimate"] = "calibrated" if calibrated else "anchor"
    how["max_error"] = max_error if max_error is None or max_error.endswith("%") else _read_number(max_error)
    result = asot.pairwise(first, second, space=learner if space is None else load_space(space), **how)
    _finish(output, result, first, second)


@cli.command()
@_collection
@_other
@_output
@click.option("--metric", default="euclidean", show_default=True, help="Ground metric, named as in scipy's cdist.")
@_jobs
@_memory
def exact(collection: str, other: str | None, output: str, metric: str, jobs: int, memory: str | None) -> None:
    """Exact W1 on the original points: all pairs of a COLLECTION, or every pair with an OTHER one."""
    import asot
    from asot.data.files import load_collection

    _check_output(output)
    first = load_collection(collection)
    second = None if other is None else load_collection(other)
    _finish(output, asot.pairwise_exact(first, second, metric=metric, n_jobs=jobs, memory=memory), first, second)


@cli.command()
@click.argument("file", type=click.Path())
def info(file: str) -> None:
    """Tell what a FILE holds: a collection, an anchor space or distances."""
    click.echo(f"{file}: {_describe(file)}")


def _check_output(output: str) -> None:
    from asot.data.files import check_distances_suffix, check_writable

    check_distances_suffix(output)
    check_writable(output)


def _finish(output: str, result: Any, first: Distributions, second: Distributions | None) -> None:
    from asot.data.files import save_distances

    save_distances(output, result, first.ids, None if second is None else second.ids)
    click.echo(f"{output}: {result!r}")


def _describe(path: str) -> str:
    from asot.data.files import load_collection, load_distances, load_space, read_header

    suffix = Path(path).suffix.lower()
    if suffix == ".npy":
        return _describe_matrix(path)
    if suffix == ".csv":
        from asot.data.tabular import summarise_distances

        return summarise_distances(path) or repr(load_collection(path))
    kind = (read_header(path) or {}).get("kind") if suffix == ".npz" else None
    if kind == "anchor-space":
        return _describe_space(load_space(path))
    if kind == "learned-space":
        return repr(load_space(path))
    if kind == "distances":
        return repr(load_distances(path))
    return repr(load_collection(path))


def _describe_space(space: AnchorSpace) -> str:
    k, d = space.anchors.shape
    return f"AnchorSpace: {k:,} anchors in {d} dimension{'s' * (d != 1)}, costs up to {space.cost.max():.4g}"


def _describe_matrix(path: str) -> str:
    from asot.data.npz import read_array

    matrix = read_array(path)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise ValueError(f"{path} holds {matrix.dtype} of shape {matrix.shape}, not a matrix of distances")
    spread = f", {matrix.min():.4g} to {matrix.max():.4g}" if matrix.size else ""
    return f"Matrix of distances: {matrix.shape[0]:,} × {matrix.shape[1]:,}, {matrix.dtype}{spread}"


@cli.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def paper(arguments: tuple[str, ...]) -> None:
    """The paper's tables and figures, run again (from the package asot-paper)."""
    from importlib.metadata import entry_points

    found = list(entry_points(group="asot.commands", name="paper"))
    if not found:
        raise click.ClickException("`asot paper` is a package of its own: pip install ./reproduction in asot's source")
    command: click.Command = found[0].load()
    command.main(list(arguments), prog_name="asot paper", standalone_mode=False)


def main() -> None:
    """The entry point ``asot``."""
    cli(prog_name="asot")


if __name__ == "__main__":
    main()
