"""Below every entry of the reference: the pages that use it, and the examples of the gallery.

Code on pages is searched for a name, then text; for the class of a result, the call that returns it. So whoever looks
up a name sees at once where it is used.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
RETURNED_BY = {
    "Distances": "pairwise_exact",
    "Neighbors": "kneighbors",
    "RadiusNeighbors": "radius_neighbors",
    "TransportPlan": "plan",
    "Plans": "emd_batch",
    "Batch": "emd_batch",
    "Stored": "open_store",
    "ColumnDistances": "pairwise_columns",
    "GroupDifferences": "group_differences",
    "PerturbationTest": "perturbation_test",
    "Drivers": "drivers",
    "Outliers": "outliers",
    "NoiseFloor": "noise_floor",
    "Kernel": "kernel",
    "Barycenter": "barycenter",
}
"""The call that returns each class of results."""

MOST = 4
"""Pages that are named for an entry."""

FIRST = ("i-have", "training", "shapes", "uses", "neighbors", "distances", "large")
"""Pages that show a thing in use come before those that explain it."""


@cache
def pages() -> dict[str, tuple[str, str, str]]:
    """Title and text of every page, code first, by its path; those of the first kinds first."""
    found = {}
    for file in sorted(DOCS.glob("*.md")) + sorted(DOCS.glob("coming-from/*.md")):
        text = file.read_text(encoding="utf-8")
        title = re.search(r"^# (.+)$", text, flags=re.M)
        code = "\n".join(re.findall(r"```(?:pycon|python)\n(.*?)```", text, flags=re.S))
        words = "\n".join(re.findall(r"`[^`\n]+`", text))
        found[str(file.relative_to(DOCS).with_suffix(""))] = (title[1] if title else file.stem, code, words)
    order = {name: next((k for k, kind in enumerate(FIRST) if name.startswith(kind)), len(FIRST)) for name in found}
    return {name: found[name] for name in sorted(found, key=lambda name: (order[name], name))}


def pages_with(name: str) -> list[tuple[str, str]]:
    """(path, title) of pages whose code uses a public name, such as ``asot.pairwise`` or ``asot.sinks.TopK``."""
    last = name.removeprefix("asot.")
    last = re.escape(RETURNED_BY.get(last, last))
    word = re.compile(rf"\basot\.{last}\b|(?<!\w){last}\(")
    used = [(path, title) for path, (title, code, _) in pages().items() if word.search(code)]
    word = re.compile(rf"(?<!\w){last.rpartition('.')[2]}\b")
    return used or [(path, title) for path, (title, _, words) in pages().items() if word.search(words)]


def add_uses(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """A line "Used in" at the end of a docstring, with links."""
    if what not in ("function", "class", "exception") or name.count(".") > 2:
        return
    found = pages_with(name)
    if found:
        links = ", ".join(f":doc:`{title} </{path}>`" for path, title in found[:MOST])
        lines += ["", f"**See it used in** {links}.", ""]
    examples = DOCS / "auto_gallery" / "uses" / f"{name}.examples"
    if examples.is_file() and examples.read_text(encoding="utf-8").strip():
        lines += ["", f".. minigallery:: {name}", ""]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", add_uses, priority=900)
