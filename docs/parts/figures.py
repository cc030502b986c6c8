"""Figures in a page, drawn by the page's own code while the site is built.

A page shows code with prompts, which pytest checks. Where ``<!-- figure: what it shows -->`` stands, the figure that
the code above has drawn is inserted, once for light pages and once for dark ones. The code of a page runs once, from
top to bottom, in one namespace; a page without such a line is not run. A figure is an SVG in the style of `asot.plots`,
whose shades of paper, ink and lines are exchanged for the dark page.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path
from typing import Any

MARK = re.compile(r"^<!-- figure: (.+?) -->$", flags=re.M | re.S)

SIZE = (5.4, 4.0)
"""Inches of a figure that names no size. A page scales figures to its width, so small ones have large letters."""

DARK = {
    "#ffffff": "#14181e", "#1f2933": "#e4e7eb", "#8a94a3": "#7b8794", "#d5dae1": "#323f4b",
    "#0072b2": "#3d9be0", "#009e73": "#1fbd92", "#d55e00": "#f5843a", "#145158": "#2f8f99",
}  # fmt: skip
"""What paper, ink, faint ink, lines, and four dark colors become on a dark page."""


def insert_figures(app: Any, name: str, source: list[str]) -> None:
    """Run the code of a page that asks for figures, and put them where it asks."""
    if not MARK.search(source[0]):
        return
    folder = Path(app.srcdir) / "figures"
    folder.mkdir(exist_ok=True)
    stem = name.replace("/", "-")
    source[0] = _with_figures(source[0], stem, folder, "../" * name.count("/"))


def _with_figures(text: str, stem: str, folder: Path, up: str) -> str:
    from matplotlib import pyplot, rc_context

    from asot.plots import STYLE

    namespace: dict[str, Any] = {"__name__": "__page__"}
    written, begun = [], 0
    with rc_context({**STYLE, "figure.figsize": SIZE, "svg.hashsalt": stem}):
        for count, mark in enumerate(MARK.finditer(text)):
            above = text[begun : mark.start()]
            _run(above, namespace, stem)
            if not pyplot.get_fignums():
                raise RuntimeError(f"{stem}: the code above the line 'figure: {mark[1]}' draws nothing")
            save(pyplot.gcf(), folder / f"{stem}-{count}")
            pyplot.close("all")
            written += [above, _shown(f"{up}figures/{stem}-{count}", mark[1])]
            begun = mark.end()
    return "".join([*written, text[begun:]])


def _run(text: str, namespace: dict[str, Any], where: str) -> None:
    """Execute the examples of a stretch of text, as doctest reads them."""
    with contextlib.redirect_stdout(io.StringIO()):
        for example in doctest.DocTestParser().get_examples(text, where):
            expected = contextlib.suppress(Exception) if example.exc_msg else contextlib.nullcontext()
            with expected:
                exec(compile(example.source, f"<{where}, line {example.lineno}>", "single"), namespace)


def _shown(path: str, caption: str) -> str:
    words = " ".join(caption.split())
    plain = re.sub(r"[`*\[\]]|\([^)]*\)", "", words).replace('"', "'")
    pictures = "\n".join(f"![{plain}]({path}-{shade}.svg){{.only-{shade}}}" for shade in ("light", "dark"))
    return f"\n:::{{container}} figure-of-page\n{pictures}\n\n{words}\n:::\n"


def save(figure: Any, path: Path) -> None:
    """A figure as two files, for light and for dark pages; the second only differs in its shades."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    light = re.sub(r'(width|height)="[\d.]+pt" ', "", stream.getvalue(), count=2)
    dark = re.sub("|".join(DARK), lambda found: DARK[found[0]], light)
    for shade, drawn in (("light", light), ("dark", dark)):
        file = path.with_name(f"{path.name}-{shade}.svg")
        if not file.exists() or file.read_text(encoding="utf-8") != drawn:
            file.write_text(drawn, encoding="utf-8")


def setup(app: Any) -> None:
    app.connect("source-read", insert_figures)
