"""The report of ``asot paper``: from a results file to a Markdown text with pictures, and to one page.

The words are in ``templates/report.md.jinja``, the numbers in `facts`, the pictures in `figures`. The page is the same
Markdown, rendered, with its pictures inside.
"""

from __future__ import annotations

import os
from pathlib import Path

from asot.data.npz import PathLike, atomic_write, naming
from asot_paper.report.charts import sheet_svg
from asot_paper.report.data import ReportData
from asot_paper.report.document import make_document
from asot_paper.report.page import to_html
from asot_paper.store import read_cells


def write_report(
    results_path: PathLike, markdown_path: PathLike | None = None, html_path: PathLike | None = None
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
        Where to write the page, a single self-contained file.
    """
    if markdown_path is None and html_path is None:
        raise ValueError("nothing to write: give a name for the Markdown text, for the page, or for both")
    for path in (markdown_path, html_path):
        if path is not None and os.path.realpath(path) == os.path.realpath(results_path):
            raise ValueError(f"{path} is the results file; give the report another name")
    stem = Path(markdown_path or html_path or "paper").stem
    text, figures = make_document(_read(results_path), stem)
    if markdown_path is not None:
        for figure in figures:  # pictures first, so that the text never points to one that is not there
            with atomic_write(Path(markdown_path).with_name(f"{stem}-{figure.name}.svg")) as stream:
                stream.write(sheet_svg(figure.sheet).encode())
        with atomic_write(markdown_path) as stream:
            stream.write(text.encode())
    if html_path is not None:
        with atomic_write(html_path) as stream:
            stream.write(to_html(text, figures, stem).encode())


def _read(path: PathLike) -> ReportData:
    cells = read_cells(path)
    with naming(path):
        data = ReportData(cells)
    if not data.finished:
        failed = f" ({len(data.failed)} failed; the first: {data.failed[0]['error']})" if data.failed else ""
        raise ValueError(f"{path} has no finished cell to report{failed}; run `asot paper all` first")
    return data
