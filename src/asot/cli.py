"""The command line: the list of commands, and what happens when one fails.

The commands are in `asot.commands`. Every error ends in one line on stderr and a non-zero exit code; ``--debug`` shows
the traceback instead. Outputs are checked before long work begins.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from difflib import get_close_matches
from typing import Any

import click

from asot import __version__
from asot.printable import printable

COMMANDS = {
    name: module
    for module, names in {
        "cohort": "drivers groups noise outliers",
        "distances": "exact neighbors pairwise plan",
        "files": "convert fit info",
        "store": "gather store",
        **{name: name for name in ("cluster", "demo", "index", "paper", "view")},
    }.items()
    for name in names.split()
}
"""Every command, and the module of `asot.commands` that has it."""


class _Stopped(click.ClickException):
    """Ctrl-C."""

    exit_code = 130  # what shells report for an interrupted program


class _OneLineErrors(click.Group):
    """Commands whose errors are one line: exit code 2 for wrong usage, 130 for Ctrl-C, 1 for everything else."""

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
            click.echo(f"asot: error: {printable(' '.join(error.format_message().split()))}{hint}", err=True)
            sys.exit(error.exit_code)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            close = get_close_matches(cmd_name, COMMANDS, 1)
            if not close:
                return None
            raise click.UsageError(f"there is no command {cmd_name!r}; did you mean {close[0]!r}?", ctx)
        return getattr(importlib.import_module(f"asot.commands.{COMMANDS[cmd_name]}"), cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        from asot.run.executors import lines_without_terminal, quietly  # not for --help: it imports NumPy

        try:
            with warnings.catch_warnings(), quietly() if ctx.params["quiet"] else lines_without_terminal():
                warnings.showwarning = (lambda *_, **__: None) if ctx.params["quiet"] else _show_warning
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise _Stopped("stopped") from interrupt
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if ctx.params["debug"]:
                raise
            raise click.ClickException(_one_line(error)) from error


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning is one line, without the location in the source, which only helps programmers."""
    click.echo(f"asot: warning: {printable(' '.join(str(message).split()))}", err=True)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, (ValueError, OSError, ImportError)) and text:
        return text
    if isinstance(error, MemoryError):
        return text or "there is not enough memory"
    return f"{type(error).__name__}: {text} (asot --debug shows where)"


@click.group(cls=_OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="asot", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the full traceback of an error.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no warnings: only results and errors.")
def cli(debug: bool, quiet: bool) -> None:
    """All Wasserstein distances within a collection of distributions.

    A COLLECTION is an .npz file with arrays points (n, d), offsets (N + 1) and optionally masses (n) and ids (N), or a
    .csv or .parquet table with one row per point: id, coordinates, optionally mass. Or an .h5ad file of cells, with
    --groupby; or a folder of .csv, .npy or .graphml files, one per distribution.
    """


def main() -> None:
    """The entry point ``asot``."""
    cli(prog_name="asot")


if __name__ == "__main__":
    main()
