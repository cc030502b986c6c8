"""``asot paper``: parse, plan, run, print. Nothing heavy is loaded before a command begins its work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from asot_paper.names import CONDITIONS, DESCRIBED, METHODS, PUBLISHED, SETS, pick

if TYPE_CHECKING:
    from asot_paper.cells import Cell
    from asot_paper.methods import Hardware
    from asot_paper.runner import Outcome
    from asot_paper.scale import Scale
    from asot_paper.store import Results

Plan = Callable[["Wanted"], list["Cell"]]

_CONDITIONS = {"published": (PUBLISHED,), "described": (DESCRIBED,), "both": CONDITIONS}


@click.group()
def paper() -> None:
    """The paper's tables and figures, run again on the real data.

    There are two conditions, never mixed: as published (what the authors' code computes) and as described (what the
    paper's text says). Finished cells are kept in a results file and not run again.
    """


class Wanted:
    """The options of a command, read and checked."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.scale = _scale(options)
        self.conditions = _CONDITIONS[options["condition"]]
        self.results = Path(options["results"])
        self.row_zero = not options["no_row_zero_rule"]
        self.seeds = int(options.get("seeds", 1))
        self.hardware = _hardware(options)
        self.sets = self.pick_sets(self.scale.sets)
        self._refuse_idle_options()

    def _refuse_idle_options(self) -> None:
        """No option is accepted and then ignored."""
        if "ZINC" not in self.sets and (self.options.get("zinc_graphs") or self.options.get("zinc_runs")):
            raise ValueError("--zinc-graphs and --zinc-runs are for ZINC, which is not among the sets; drop them")
        if PUBLISHED not in self.conditions and (not self.row_zero or self.options.get("epochs")):
            raise ValueError("--no-row-zero-rule and --epochs are for --condition published or both; drop them")

    def pick_sets(self, default: Sequence[str]) -> tuple[str, ...]:
        """The sets asked for, or a figure's own that this scale has; a set that the quick scale leaves out is an
        error."""
        if self.options["sets"] is None:
            return tuple(name for name in default if name in self.scale.sets)
        chosen = pick(self.options["sets"], SETS, "set")
        missing = [name for name in chosen if name not in self.scale.sets]
        if missing:
            raise ValueError(f"--quick leaves {' and '.join(missing)} out; drop them from --sets, or drop --quick")
        return chosen

    def narrowed(self, sets: Sequence[str]) -> tuple[str, ...]:
        """Those of a figure's sets that are asked for."""
        return tuple(name for name in sets if name in self.sets)

    def methods(self, valid: Sequence[str] = METHODS) -> tuple[str, ...]:
        """The methods asked for, of those that a table or figure has."""
        return pick(self.options["methods"], valid, "method")

    def narrowed_methods(self, valid: Sequence[str]) -> tuple[str, ...]:
        """Those of a figure's methods that are asked for, which may be none."""
        return tuple(name for name in valid if name in self.methods())

    @property
    def everywhere(self) -> dict[str, Any]:
        return {"scale": self.scale, "hardware": self.hardware}


def _scale(options: dict[str, Any]) -> Scale:
    from dataclasses import replace

    from asot_paper.scale import FULL, QUICK

    scale = QUICK if options["quick"] else FULL
    names = ("folds", "zinc_graphs", "zinc_runs")
    changes = {name: options[name] for name in names if options.get(name) is not None}
    if options.get("zinc_graphs") is not None:
        changes["published_zinc_graphs"] = options["zinc_graphs"]
    if options.get("epochs") is not None:
        changes |= dict.fromkeys(("published_epochs", "zinc_epochs"), options["epochs"])
    return replace(scale, **changes)


def _hardware(options: dict[str, Any]) -> Hardware:
    """Without a GPU, "auto" is the CPU: then a results file does not depend on how it was asked."""
    from asot.run import devices
    from asot_paper.machine import gpu_name
    from asot_paper.methods import Hardware

    device = options["device"]
    devices.parse(device)
    found = "cpu" if device == "auto" and gpu_name() is None else device
    hardware = Hardware(found, options["jobs"], alone=not options["untimed"])
    if hardware.threads < 1:
        raise ValueError(f"--jobs must be a number of threads or -1 for every core; found {options['jobs']}")
    return hardware


# ------------------------------------------------------------------------------------------------------------- options


_RESULTS = click.option(
    "--results", type=click.Path(), default="results.json", show_default=True, help="Where finished cells are kept."
)
_FOLDS = click.option(
    "--folds", type=click.IntRange(1, 10), help="How many of the ten are run.  [default: 10; quick: 1]"
)
_SEEDS = click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Seeds 0, 1, … to run.")
_EPOCHS = click.option("--epochs", type=click.IntRange(min=1), help="Of the authors' models.  [default: 500; ZINC: 50]")
_ZINC_GRAPHS = click.option(
    "--zinc-graphs",
    type=click.IntRange(min=100),
    help="Molecules to learn from.  [default: 10000; the authors' models: all 220011]",
)
_ZINC_RUNS = click.option(
    "--zinc-runs", type=click.IntRange(1, 10), help="How often ZINC is learned, up to --folds.  [default: 1]"
)
_OPTIONS = (
    click.option("--sets", help="Such as MUTAG,BZR.  [default: all that the table or figure has]"),
    click.option("--methods", help="Such as SW,ASOT-k.  [default: all that the table or figure has]"),
    click.option("--condition", type=click.Choice(list(_CONDITIONS)), default="both", show_default=True),
    _FOLDS,
    _SEEDS,
    click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N."),
    click.option("--jobs", type=int, default=-1, show_default=True, help="Threads; -1 means every core."),
    click.option("--data", type=click.Path(), help="Folder of the data sets.  [default: $ASOT_DATA, or the cache]"),
    click.option("--download/--no-download", default=True, show_default=True, help="Fetch data sets that are missing."),
    click.option("--quick", is_flag=True, help="All but NCI1 and ZINC, one fold, few epochs: minutes, not hours."),
    click.option("--no-row-zero-rule", is_flag=True, help="As published, but row 0 counts in every matrix."),
    _EPOCHS,
    _ZINC_GRAPHS,
    _ZINC_RUNS,
    click.option("--untimed", is_flag=True, help="Other work runs beside this: keep errors, show no times."),
    click.option("--dry-run", is_flag=True, help="List the cells and which are finished."),
    _RESULTS,
)


def _with_options(*without: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of all commands except those that this one does not use."""
    options = [option for option in _OPTIONS if option not in without]
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


# ------------------------------------------------------------------------------------------------------------ commands


@paper.command()
@_with_options()
def table1(**options: Any) -> None:
    """Table I: errors of all methods on all sets, beside the paper's."""
    _table("rmse", options)


@paper.command()
@_with_options()
def table2(**options: Any) -> None:
    """Table II: seconds, training + distances. It shares its cells with table1."""
    _table("seconds", options)


@paper.command()
@_with_options(_FOLDS, _ZINC_RUNS)
def fig3(**options: Any) -> None:
    """Figure 3: error against epoch, for three sets."""
    _figure(_fig3_cells, options)


@paper.command()
@_with_options(_FOLDS, _SEEDS, _EPOCHS, _ZINC_GRAPHS, _ZINC_RUNS)
def fig4(**options: Any) -> None:
    """Figure 4: error and time against the number of anchors, MUTAG and MNIST."""
    _figure(_fig4_cells, options)


@paper.command()
@_with_options(_SEEDS, _EPOCHS, _ZINC_GRAPHS, _ZINC_RUNS)
def trials(**options: Any) -> None:
    """What the paper's program may have done where its errors do not come back."""
    _figure(_trial_cells, options)


_REPORT = (
    click.option("--markdown", type=click.Path(), help="The report as Markdown.  [default: the results' name, .md]"),
    click.option("--html", type=click.Path(), help="The report as one page.  [default: the results' name, .html]"),
)


def _with_report(command: Callable[..., None]) -> Callable[..., None]:
    return functools.reduce(lambda decorated, option: option(decorated), reversed(_REPORT), command)


@paper.command("all")
@_with_options()
@_with_report
def everything(markdown: str | None, html: str | None, **options: Any) -> None:
    """Both tables, all figures, the trials, and the report.

    Time against N is always measured with its own four methods.
    """
    wanted = Wanted(options)
    cells = _all_cells(wanted)
    outcome = _run(wanted, cells)
    if outcome is None:
        return
    _print_tables(("rmse", "seconds"), wanted, cells)
    _write_report(str(wanted.results), markdown, html)
    _finish(outcome)


@paper.command()
@_RESULTS
@_with_report
def report(results: str, markdown: str | None, html: str | None) -> None:
    """Write the report of a results file, as Markdown and as one HTML page."""
    _write_report(results, markdown, html)


@paper.command()
@click.argument("others", nargs=-1, required=True, type=click.Path())
@_RESULTS
def merge(results: str, others: tuple[str, ...]) -> None:
    """Add the finished cells of OTHERS, results files from other machines, to one results file.

    Cells that are there stay, but for untimed ones of which a timed one comes.
    """
    from asot_paper.store import open_results, read_cells

    found = [record for other in others for record in read_cells(other) if "error" not in record]
    with open_results(results) as kept:
        new: dict[str, Any] = {}
        for record in found:
            rival = new.get(record["key"]) or kept.finished(record["key"])
            if rival is None or (rival.get("timed") is False and record.get("timed") is not False):
                new[record["key"]] = record
        kept.add_all(new.values())
    click.echo(f"{results}: {len(new)} cells added, {len(kept)} in all")


# ------------------------------------------------------------------------------------------------------------- working


def _table(table: str, options: dict[str, Any]) -> None:
    wanted = Wanted(options)
    cells = _table_cells(wanted)
    outcome = _run(wanted, cells)
    if outcome is not None:
        _print_tables((table,), wanted, cells)
        _finish(outcome)


def _figure(plan: Plan, options: dict[str, Any]) -> None:
    wanted = Wanted(options)
    outcome = _run(wanted, plan(wanted))
    if outcome is not None:
        click.echo(f"{wanted.results}: {outcome.kept + outcome.ran - len(outcome.failed)} cells; see asot paper report")
        _finish(outcome)


def _table_cells(wanted: Wanted) -> list[Cell]:
    from asot_paper import tables

    rule: dict[str, Any] = {"seeds": wanted.seeds, "row_zero": wanted.row_zero}
    return tables.plan(wanted.conditions, wanted.sets, wanted.methods(), **wanted.everywhere, **rule)


def _fig3_cells(wanted: Wanted) -> list[Cell]:
    from asot_paper import fig3 as figure

    rule: dict[str, Any] = {"seeds": wanted.seeds, "row_zero": wanted.row_zero}
    sets, methods = wanted.pick_sets(figure.SETS), wanted.methods(figure.METHODS)
    return figure.plan(wanted.conditions, sets, methods, **wanted.everywhere, **rule)


def _fig4_cells(wanted: Wanted) -> list[Cell]:
    from asot_paper import fig4 as figure

    sets, methods = pick(wanted.options["sets"], figure.SETS, "set"), wanted.methods(figure.METHODS)
    return figure.plan(wanted.conditions, sets, methods, **wanted.everywhere, row_zero=wanted.row_zero)


def _trial_cells(wanted: Wanted) -> list[Cell]:
    from asot_paper import trials

    if PUBLISHED not in wanted.conditions:
        raise ValueError("trials are made as published; drop --condition described")
    return trials.plan(wanted.sets, wanted.methods(), **wanted.everywhere)


def _all_cells(wanted: Wanted) -> list[Cell]:
    """Everything there is, of the sets and methods asked for."""
    from asot_paper import fig3, fig4, scaling, scatter

    rule: dict[str, Any] = {**wanted.everywhere, "row_zero": wanted.row_zero}
    cells = _table_cells(wanted)
    conditions, sets, methods = wanted.conditions, wanted.narrowed, wanted.narrowed_methods
    cells += fig3.plan(conditions, sets(fig3.SETS), methods(fig3.METHODS), seeds=wanted.seeds, **rule)
    cells += fig4.plan(conditions, sets(fig4.SETS), methods(fig4.METHODS), **rule)
    if PUBLISHED in conditions and not wanted.scale.quick:
        cells += _trial_cells(wanted)
    if DESCRIBED in conditions:
        cells += scatter.plan(sets(scatter.SETS), methods(scatter.METHODS), **wanted.everywhere)
        cells += scaling.plan(wanted.sets, **wanted.everywhere)
    return cells


def _run(wanted: Wanted, cells: list[Cell]) -> Outcome | None:
    """Run cells, or list them under ``--dry-run`` and return None."""
    from asot.data.npz import check_writable
    from asot_paper.runner import run_cells
    from asot_paper.store import Results, open_results, read_cells
    from asot_paper.workshop import Workshop

    if wanted.options["dry_run"]:
        records = read_cells(wanted.results) if wanted.results.exists() else []
        click.echo(_listing(cells, Results(wanted.results, records)))
        return None
    check_writable(wanted.results)
    with open_results(wanted.results) as results:
        where = {"folder": wanted.options["data"], "download": wanted.options["download"]}
        return run_cells(cells, results, Workshop.beside(wanted.results, **wanted.everywhere, **where))


def _listing(cells: list[Cell], results: Results) -> str:
    """One line for each kind, condition, set and method."""
    by_group: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        by_group.setdefault(cell.group, []).append(cell)
    lines = []
    for group, members in by_group.items():
        todo = [cell for cell in members if results.finished(cell.key) is None]
        failed = sum(results.failure(cell.key) is not None for cell in todo)
        states = [f"{len(members) - len(todo)} of {len(members)} finished", f"{failed} failed" if failed else ""]
        name = "{:<9}{:<14}{:<9}{:<18}".format(*group)
        lines.append(name + ", ".join(filter(None, states)))
    finished = sum(results.finished(cell.key) is not None for cell in cells)
    return "\n".join([*lines, f"{len(cells)} cells, {finished} finished, {len(cells) - finished} to go"])


def _print_tables(tables: Sequence[str], wanted: Wanted, cells: Sequence[Cell]) -> None:
    from asot_paper.store import read_cells
    from asot_paper.tables import table_text

    keys = {cell.key for cell in cells if cell.kind == "run"}
    records = [record for record in read_cells(wanted.results) if record["key"] in keys]
    click.echo("\n\n".join(table_text(table, records) for table in tables))


def _write_report(results: str, markdown: str | None, html: str | None) -> None:
    from asot_paper.report import write_report

    stem = Path(results).with_suffix("")
    pages = markdown or f"{stem}.md", html or f"{stem}.html"
    write_report(results, *pages)
    click.echo(f"report: {pages[0]}, {pages[1]}")


def _finish(outcome: Outcome) -> None:
    """Name the cells that failed, once for each message, and end with an error if there are any."""
    if not outcome.failed:
        return
    by_message: dict[str, list[Cell]] = {}
    for cell, message in outcome.failed:
        by_message.setdefault(message, []).append(cell)
    for message, cells in by_message.items():
        more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
        click.echo(f"failed: {cells[0]}{more}: {message}", err=True)
    raise click.ClickException(
        f"{len(outcome.failed)} of {outcome.kept + outcome.ran} cells failed; they are run again next time"
    )
