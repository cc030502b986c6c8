"""The first page's pictures and tiles, and the measured tables as pages of the site."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from parts import idea, tables, tiles

FIELDS = {
    "cells": ("i-have-cells", "Cells", "Which patients differ, and in which cells?"),
    "documents": ("i-have-documents", "Documents", "The word mover's distance, for all pairs."),
    "graphs": ("i-have-graphs", "Graphs", "Molecules and networks as bags of nodes."),
    "images": ("i-have-images", "Images and shapes", "Ink that moves; shapes without a frame."),
    "jets": ("i-have-jets", "Jets", "The energy mover's distance of events."),
    "diagrams": ("i-have-diagrams", "Diagrams", "Births and deaths, as in GUDHI."),
    "crystals": ("i-have-crystals", "Crystals", "Atoms in a box whose sides meet."),
    "training": ("training", "Training a network", "Exact losses with gradients, in PyTorch."),
}
"""Page, name and sentence of each field, in the order of the tiles."""


class FieldTiles(Directive):
    """A tile per field: its picture, its name, its question, and a link to its page."""

    def run(self) -> list[nodes.Node]:
        drawn = []
        for field, (page, name, words) in FIELDS.items():
            pictures = "".join(
                f'<img class="only-{shade}" src="_static/tile-{field}-{shade}.svg" alt="" loading="lazy">'
                for shade in ("light", "dark")
            )
            drawn.append(
                f'<a class="tile" href="{page}.html">{pictures}<b>{escape(name)}</b><span>{escape(words)}</span></a>'
            )
        return [nodes.raw("", f'<div class="tiles">{"".join(drawn)}</div>', format="html")]


def write_tables(app: Any) -> None:
    """Each report of the benchmarks as a page, so that a bar can link to it."""
    folder = Path(app.srcdir) / "tables"
    folder.mkdir(exist_ok=True)
    kept = {f"{name}.md" for name in tables.names()}
    for file in folder.glob("*.md"):
        if file.name not in kept:
            file.unlink()
    for name in kept:
        text = (tables.RESULTS / name).read_text(encoding="utf-8")
        text = re.sub(r"\[([^\]]+)\]\(([\w-]+)\.md\)", r"[\1](\2.md)", text)
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != text:
            (folder / name).write_text(text, encoding="utf-8")


def draw_pictures(app: Any) -> None:
    """The pictures of the first page, among the static files of the site."""
    folder = Path(app.srcdir) / "figures"
    folder.mkdir(exist_ok=True)
    idea.draw(folder)
    tiles.draw(folder)


def setup(app: Any) -> None:
    app.add_directive("field-tiles", FieldTiles)
    app.connect("builder-inited", write_tables)
    app.connect("builder-inited", draw_pictures)
