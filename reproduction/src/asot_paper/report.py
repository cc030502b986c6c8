"""The report of ``asot paper``: from a results file to a Markdown text with pictures and to one page.

Both show the same document. It is put together here, section by section, and written whole or not at all.
"""

from __future__ import annotations

import os
from pathlib import Path

from asot.data.npz import PathLike, atomic_write, naming
from asot_paper import report_figures, report_statements
from asot_paper.names import DESCRIBED
from asot_paper.pictures import Sheet, make_axis, standalone
from asot_paper.published import read_published
from asot_paper.report_about import QUICK_WORDS, gaps, how_it_was_made
from asot_paper.report_comparisons import same_anchors
from asot_paper.report_data import LOOP, ReportData
from asot_paper.report_document import Block, Document, Figure, Section, Text, listed, quote
from asot_paper.report_findings import findings
from asot_paper.report_html import to_html
from asot_paper.report_markdown import to_markdown
from asot_paper.report_sections import described_errors, published_errors
from asot_paper.report_times import run_times
from asot_paper.store import read_cells


def write_report(
    results_path: PathLike,
    markdown_path: PathLike | None = None,
    html_path: PathLike | None = None,
    published: PathLike | None = None,
) -> None:
    """Write the report of a results file.

    Parameters
    ----------
    results_path : path
        The file that ``asot paper`` writes its cells to.
    markdown_path : path, optional
        Where to write the Markdown text. Its pictures are written beside it, named after it: ``paper.md`` has
        ``paper-overview.svg`` and others.
    html_path : path, optional
        Where to write the page, one file that needs no other.
    published : path, optional
        A table of the paper's numbers, with columns table, set, method, value, spread, source. It adds to the few that
        are known here.
    """
    if markdown_path is None and html_path is None:
        raise ValueError("nothing to write: give a name for the Markdown text, for the page, or for both")
    for path in (markdown_path, html_path):
        if path is not None and os.path.realpath(path) == os.path.realpath(results_path):
            raise ValueError(f"{path} is the results file; give the report another name")
    document = make_document(results_path, published)
    if markdown_path is not None:
        _write_markdown(document, Path(markdown_path))
    if html_path is not None:
        with atomic_write(html_path) as stream:
            stream.write(to_html(document).encode())


def make_document(results_path: PathLike, published: PathLike | None = None) -> Document:
    """The report of a results file, not yet written in any format."""
    cells, known = read_cells(results_path), read_published(published)
    with naming(results_path):
        data = ReportData(cells, known)
    if not data.finished:
        failed = f" ({len(data.failed)} failed; the first: {data.failed[0]['error']})" if data.failed else ""
        raise ValueError(f"{results_path} has no finished cell to report{failed}; run `asot paper all` first")
    return Document(
        title=report_statements.TITLE,
        lead=report_statements.LEAD,
        cards=report_statements.cards(data),
        picture=_overview(data),
        notice=_notice(data),
        sections=_numbered([section for section in _sections(data) if section is not None]),
        made=report_statements.made(data),
    )


def _write_markdown(document: Document, path: Path) -> None:
    """Pictures first, so that the text never points to one that is not there."""
    figures = [block for section in document.sections for block in section.blocks if isinstance(block, Figure)]
    for figure in [document.picture, *figures]:
        if figure is not None:
            with atomic_write(path.with_name(f"{path.stem}-{figure.name}.svg")) as stream:
                stream.write(standalone(figure.sheet).encode())
    with atomic_write(path) as stream:
        stream.write(to_markdown(document, path.stem).encode())


def _numbered(sections: list[Section]) -> list[Section]:
    return [Section(one.name, f"{place}. {one.title}", one.blocks) for place, one in enumerate(sections, 1)]


def _notice(data: ReportData) -> str | None:
    if data.all_quick:
        return f"All numbers on this page are {QUICK_WORDS[0].lower()}{QUICK_WORDS[1:]}"
    return None


# ------------------------------------------------------------------------------------------------------------ sections

_LEAST_WORDS = (
    f" Errors below {report_figures.LEAST_RMSE:g} ({report_figures.LEAST_PERCENT:g} percent) are drawn as that."
)
_AXES_WORDS = " Axes are logarithmic where numbers span much."


def _sections(data: ReportData) -> list[Section | None]:
    return [
        published_errors(data),
        described_errors(data),
        run_times(data),
        _training(data),
        _anchors(data),
        _scatter(data),
        _scaling(data),
        findings(data),
        how_it_was_made(data),
        gaps(data),
    ]


def _overview(data: ReportData) -> Figure | None:
    sheet = report_figures.overview(data)
    caption = (
        f"Root mean square error of distances on anchors, {DESCRIBED}: the paper's methods, and the two of ours. "
        "Left is better."
    )
    if same_anchors(data, report_figures.OVERVIEW_METHODS):
        caption += " All methods of a set have the same number of anchors."
    if sheet is not None and make_axis([x for one in sheet.panels[0].series for x in one.x], 0, 1, None).logarithmic:
        caption += " The axis is logarithmic."
    return None if sheet is None else Figure("overview", "Errors at a glance", caption, sheet)


def _one_figure(name: str, title: str, words: str, figures: list[tuple[str, str, Sheet | None]]) -> Section | None:
    blocks: list[Block] = [
        Figure(f"{name}{suffix}", title, caption, sheet) for suffix, caption, sheet in figures if sheet is not None
    ]
    return Section(name, title, [Text(words), *blocks]) if blocks else None


def _training(data: ReportData) -> Section | None:
    words = (
        "How the error changes while anchors are trained, pass by pass over the data (epoch by epoch). Who trained "
        "them is told with Table 1."
    )
    words += _pairs_words(data)
    caption = "Error against epoch. Where several seeds were run: their mean, and bars from the lowest to the highest."
    caption += _LEAST_WORDS + _AXES_WORDS
    return _one_figure(
        "fig3", "Figure 3, error against epoch", words, [("", caption, report_figures.training_curves(data))]
    )


def _pairs_words(data: ReportData) -> str:
    """Which pairs the errors of the curves are of."""
    found: dict[str, dict[str, None]] = {}
    for cell in data.of_kind("curve"):
        pairs = cell["settings"].get("pairs")
        if pairs:
            found.setdefault(str(pairs), {})[f"{quote(cell['method'])} {quote(cell['condition'])}"] = None
    parts = [f"{quote(pairs)} ({', '.join(where)})" for pairs, where in found.items()]
    return f" Errors are of {'; of '.join(parts)}." if parts else ""


def _anchors(data: ReportData) -> Section | None:
    words = (
        "How error and time depend on the number of anchors k. Each point is the mean of the runs with that k; bars go "
        "from the lowest to the highest of them."
    )
    figures = [
        (
            "-error",
            f"Error against the number of anchors.{_LEAST_WORDS}{_AXES_WORDS}",
            report_figures.anchor_errors(data),
        ),
        (
            "-time",
            f"Seconds for training and all distances against the number of anchors.{_AXES_WORDS}",
            report_figures.anchor_times(data),
        ),
    ]
    return _one_figure("fig4", "Figure 4, the number of anchors", words, figures)


def _scatter(data: ReportData) -> Section | None:
    words = (
        "Each dot is a pair of distributions: its exact distance and what a method says. On the diagonal both are "
        "equal. Bars go from the lower to the upper bound, which hold for certain."
    )
    bare = [quote(cell["method"]) for cell in data.of_kind("scatter") if not report_figures.has_bounds(cell)]
    if bare:
        words += f" No bounds were computed for {listed(list(dict.fromkeys(bare)))}."
    figures = [
        (f"-{place}", f"{quote(name)}, {condition}.", sheet)
        for place, (condition, name, sheet) in enumerate(report_figures.scatters(data), 1)
    ]
    return _one_figure("scatter", "Exact against estimated distances", words, list(figures))


def _scaling(data: ReportData) -> Section | None:
    sheet = report_figures.scaling(data)
    cells = [cell for some in data.timed_of_kind("scaling").values() for cell in some]
    dashed = [cell["method"] for cell in cells if report_figures.is_extrapolated([cell])]
    words = "The number of pairs grows with the square of the number of distributions N."
    threads = sorted({int(cell["machine"]["threads"]) for cell in cells if cell["machine"].get("threads")})
    if threads and LOOP in {cell["method"] for cell in cells}:
        many = "1 thread" if threads == [1] else f"{listed([f'{n}' for n in threads])} threads"
        words += f" POT is called pair after pair; the others use {many}."
    if dashed:
        which = ", ".join(dict.fromkeys(quote(method) for method in dashed))
        words += f" Dashed: {which} was measured on a sample of the pairs, and scaled up to all of them."
    caption = "Seconds for all pairs, training included, against N; both axes are logarithmic."
    return _one_figure("scaling", "Time against the number of distributions", words, [("", caption, sheet)])
