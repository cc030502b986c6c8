"""The report as Markdown: the template, filled with facts, tables and the names of pictures."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jinja2

from asot_paper.names import CONDITIONS, DESCRIBED, PUBLISHED, SETS
from asot_paper.published import MACHINE, read_published
from asot_paper.report import compare, facts, figures, tables, words
from asot_paper.report.charts import Sheet
from asot_paper.report.data import ReportData

TITLES = {
    "errors": "The paper's 72 errors, cell by cell",
    "misses": "Where ours differ, and what was tried",
    "times": "Table 2: the paper's times and ours",
    "as-described": "Errors as described",
    "times-described": "Times as described",
    "fig3": "Figure 3: error against epoch",
    "fig4": "Figure 4: the number of anchors",
    "scatter": "Exact against estimated distances",
    "scaling": "Time against the number of distributions",
    "found": "What was found about the published numbers",
    "how": "How it was made",
}
_SHOWN_FAILURES = 50


class Figure(NamedTuple):
    """A sheet of charts with a caption; ``name`` ends the name of its file."""

    name: str
    title: str
    caption: str
    sheet: Sheet


class FigureSection(NamedTuple):
    """A section that shows figures."""

    name: str
    title: str
    words: str
    figures: list[Figure]


def make_document(data: ReportData, stem: str) -> tuple[str, list[Figure]]:
    """The report as Markdown, and its pictures. ``stem`` begins the names of their files."""
    sections = [section for section in _figure_sections(data) if section.figures]
    overview = _overview(data)
    context = {**_context(data), "stem": stem, "figures": {"overview": overview}, "figure_sections": sections}
    context["contents"] = [(name, TITLES[name]) for name in TITLES if _is_shown(name, context)]
    text = _environment().get_template("report.md.jinja").render(context)
    return _tidy(text), [*([overview] if overview else []), *(figure for one in sections for figure in one.figures)]


def _context(data: ReportData) -> dict[str, Any]:
    """Everything that the template needs, except pictures."""
    agreement, times = facts.agreement(data), compare.seconds_with_paper(data)
    places = [place for place in data.places if place.device == "cpu"]
    return {
        "titles": TITLES,
        "made": tables.made(data),
        "quick": data.all_quick,
        "agreement": agreement,
        "claims": facts.claims(data),
        "ranking": facts.described_ranking(data),
        "gains": facts.gains(data),
        "speed": facts.speed(data, times),
        "sampled_times": facts.sampled_times(data),
        "our_machine": tables.machine_words(compare.machine_of(places[0])) if places else "",
        "paper_machine": MACHINE,
        "paper": lambda *place: read_published()[place],
        "published_sets": data.sets(PUBLISHED),
        "errors": _by_set(agreement.cells, lambda one: one.ours),
        "runs_words": functools.partial(tables.runs_words, data, PUBLISHED),
        "run_counts": functools.partial(tables.run_counts, data),
        "own_table": tables.own_methods(data),
        "times": _by_set(times, lambda one: one.ours),
        "described_sets": data.sets(DESCRIBED),
        "described_tables": tables.described_errors(data),
        "described_times": tables.described_times(data),
        "places": tables.places_words(data),
        "row_zero": facts.row_zero(data),
        "open_shares": facts.open_ranges(data),
        "commands": tables.commands(data),
        "amount": tables.amount(data),
        "sources": tables.sources(data),
        "failed": [(tables.cell_words(cell), cell["error"]) for cell in data.failed[:_SHOWN_FAILURES]],
        "missing": [(condition, facts.missing(data, condition)) for condition in CONDITIONS],
        "n_other_settings": data.n_other_settings,
    }


def _by_set(cells: Sequence[Any], known: Any) -> list[tuple[str, list[Any]]]:
    """Cells by set, for the sets that have a number of ours."""
    groups = [(name, [one for one in cells if one.set == name]) for name in SETS]
    return [(name, rows) for name, rows in groups if any(known(one) for one in rows)]


def _is_shown(name: str, context: dict[str, Any]) -> bool:
    shown = {
        "errors": "published_sets",
        "misses": "published_sets",
        "times": "times",
        "as-described": "described_sets",
        "times-described": "described_times",
    }
    if name in shown:
        return bool(context[shown[name]])
    return name in ("found", "how") or any(one.name == name for one in context["figure_sections"])


@functools.cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("asot_paper.report"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # the text is Markdown; what comes from data goes through `quote`
    )
    found.filters |= {
        "error": lambda summary: words.with_error(summary, decimals=4),
        "number": words.number,
        "percent": words.percent,
        "duration": words.duration,
        "seconds": tables.seconds_words,
        "thousands": lambda count: f"{count:,}",
        "listed": words.listed,
        "quote": words.quote,
        "cell_name": lambda one: f"{one.method} on {one.set}",
    }
    return found


def _tidy(text: str) -> str:
    """At most one empty line between paragraphs."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip() or (lines and lines[-1]):
            lines.append(line.rstrip())
    return "\n".join(lines).strip() + "\n"


# ------------------------------------------------------------------------------------------------------------- figures

_LEAST_WORDS = f" Errors below {figures.LEAST_RMSE:g} ({figures.LEAST_PERCENT:g} percent) are drawn as that."


def _overview(data: ReportData) -> Figure | None:
    sheet = figures.overview(data)
    caption = (
        f"Root mean square error of distances on anchors, {DESCRIBED}: the paper's methods and ours. Left is better."
    )
    return None if sheet is None else Figure("overview", "Errors at a glance", caption, sheet)


def _figure_sections(data: ReportData) -> list[FigureSection]:
    return [_training(data), _anchors(data), _scatter(data), _scaling(data)]


def _section(name: str, text: str, found: Sequence[tuple[str, str, Sheet | None]]) -> FigureSection:
    shown = [Figure(f"{name}{end}", TITLES[name], caption, sheet) for end, caption, sheet in found if sheet is not None]
    return FigureSection(name, TITLES[name], text, shown)


def _training(data: ReportData) -> FigureSection:
    text = (
        "How the error changes while anchors are trained, pass by pass over the data (epoch by epoch). For the paper's "
        "models as published it is the error over all pairs of the set. For the others it is the error on held-out "
        "pairs of the training folds."
    )
    caption = "Error against epoch: the mean over seeds, with bars from the lowest to the highest." + _LEAST_WORDS
    return _section("fig3", text, [("", caption, figures.training_curves(data))])


def _anchors(data: ReportData) -> FigureSection:
    text = (
        "How error and time depend on the number of anchors k. Each point is the mean of the runs with that k; bars go "
        "from the lowest to the highest of them."
    )
    errors = f"Error against the number of anchors.{_LEAST_WORDS}"
    times = "Seconds for training and all distances against the number of anchors."
    return _section(
        "fig4", text, [("-error", errors, figures.anchor_errors(data)), ("-time", times, figures.anchor_times(data))]
    )


def _scatter(data: ReportData) -> FigureSection:
    text = (
        "Each dot is a pair of distributions: its exact distance, and what a method says. On the diagonal the two are "
        "equal. Bars go from the lower to the upper bound; both are proven."
    )
    found = [
        (f"-{place}", f"{words.quote(name)}, {condition}.", sheet)
        for place, (condition, name, sheet) in enumerate(figures.scatters(data), 1)
    ]
    return _section("scatter", text, found)


def _scaling(data: ReportData) -> FigureSection:
    text = (
        "The number of pairs grows with the square of the number of distributions N. The POT loop calls POT's exact "
        "solver pair after pair. It was measured on a sample of the pairs and scaled up (dashed)."
    )
    caption = "Seconds for all pairs, training included, against N; both axes are logarithmic."
    return _section("scaling", text, [("", caption, figures.scaling(data))])
