"""`asot paper`: a command that another package provides."""

from __future__ import annotations

import click


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def paper(arguments: tuple[str, ...]) -> None:
    """Reproduce the paper's tables and figures (needs the package asot-paper)."""
    from importlib.metadata import entry_points

    found = list(entry_points(group="asot.commands", name="paper"))
    if not found:
        raise click.ClickException("`asot paper` is a separate package: pip install ./reproduction in asot's source")
    command: click.Command = found[0].load()
    with command.make_context("asot paper", list(arguments)) as context:  # not main, which would swallow Ctrl-C
        command.invoke(context)
