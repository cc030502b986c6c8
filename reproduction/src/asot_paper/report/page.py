"""The report as one page: its Markdown, rendered by markdown-it, with a style and with pictures inside the file."""

from __future__ import annotations

import base64
import functools
import html
import re
from collections.abc import Sequence
from typing import Any

import jinja2
from markdown_it import MarkdownIt

from asot_paper.report.charts import describe, legend_svg, panel_svg


def to_html(text: str, figures: Sequence[Any], stem: str) -> str:
    """The page of a report's Markdown text."""
    body = _markdown().render(text)
    for figure in figures:
        body = body.replace(*_embedded(body, figure, f"{stem}-{figure.name}.svg"))
    title = text.splitlines()[0].removeprefix("# ")
    environment = jinja2.Environment(loader=jinja2.PackageLoader("asot_paper.report"), autoescape=True)
    return environment.get_template("page.html.jinja").render(title=title, body=body)


@functools.cache
def _markdown() -> MarkdownIt:
    """GitHub's tables, and HTML as written in the template; wide tables and code can be scrolled."""
    found = MarkdownIt("commonmark", {"html": True}).enable("table")
    found.add_render_rule("table_open", lambda *_: '<div class="scroll" tabindex="0"><table>\n')
    found.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return found


def _embedded(body: str, figure: Any, name: str) -> tuple[str, str]:
    """The paragraphs of a picture and its caption, and the figure that replaces them."""
    found = re.search(rf'<p><img src="{re.escape(name)}"[^>]*></p>\n<p><em>(?P<caption>.*?)</em></p>', body, re.S)
    if found is None:
        raise ValueError(f"the report has no place for its picture {name}")
    legend = legend_svg(figure.sheet)
    pictures = [f'<img class="legend" src="{_data(legend)}" alt="Legend">'] if legend else []
    panels = [f'<img src="{_data(panel_svg(p))}" alt="{html.escape(describe(p))}">' for p in figure.sheet.panels]
    pictures.append(f'<div class="panels">{"".join(panels)}</div>')
    return found[0], f"<figure>{''.join(pictures)}<figcaption>{found['caption']}</figcaption></figure>"


def _data(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
