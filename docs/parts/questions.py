"""Checks of the finished site: the forty questions are answered within two clicks, and code fits its column.

A click is a link in a page's main text or in the bar on top. The page of questions lists five for each field, with the
section that answers it and a word that this section must contain.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from sphinx.util.logging import getLogger

ROW = re.compile(
    r"^\| (?P<question>[^|]+?) \| \[[^\]]+\]\((?P<page>[\w/-]+)\.md(?:#(?P<section>[\w-]+))?\)"
    r" \| `(?P<word>[^`]+)` \|$",
    re.M,
)
PER_FIELD, COLUMNS = 5, 80


class _Page(HTMLParser):
    """The pages that a page links to, and the text of each of its sections."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.text: dict[str, str] = {"": ""}
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "section":
            self._open.append(found.get("id") or "")
            self.text.setdefault(self._open[-1], "")
        elif tag == "a" and (target := (found.get("href") or "").split("#")[0]).endswith(".html"):
            self.links.add(target.removesuffix(".html"))

    def handle_endtag(self, tag: str) -> None:
        if tag == "section" and self._open:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        for name in ("", *self._open):
            self.text[name] += data


def ask(source: str, site: Path) -> list[str]:
    """What is wrong with the answers: one sentence for each."""
    first = _Page((site / "index.html").read_text(encoding="utf-8"))
    within = set(first.links)
    for page in first.links:
        if (site / f"{page}.html").is_file():
            found = _Page((site / f"{page}.html").read_text(encoding="utf-8")).links
            within |= {_beside(page, link) for link in found}
    wrong = []
    for row in ROW.finditer(source):
        page, section, word = row["page"], row["section"] or "", row["word"]
        if page not in within:
            wrong.append(f"{row['question']!r}: {page} is more than two clicks away")
            continue
        text = _Page((site / f"{page}.html").read_text(encoding="utf-8")).text
        if section not in text or word not in text[section]:
            wrong.append(f"{row['question']!r}: {page}#{section} does not say {word!r}")
    for field in source.split("\n## ")[1:]:
        if len(ROW.findall(field)) != PER_FIELD:
            wrong.append(f"{field.splitlines()[0]}: there must be {PER_FIELD} questions")
    return wrong


def _beside(page: str, link: str) -> str:
    """A link relative to a page, as a page of the site."""
    parts: list[str] = page.split("/")[:-1]
    for part in link.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def wide_lines(text: str) -> list[str]:
    """Lines of Python in a page that are wider than a page shows.

    >>> wide_lines("```pycon\\n>>> " + "x" * 90 + "\\n```") == ["2: 94 columns"]
    True
    """
    found, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = line.strip() in ("```pycon", "```python")
        elif inside and len(line) > COLUMNS:
            found.append(f"{number}: {len(line)} columns")
    return found


def check(app: Any, exception: Exception | None) -> None:
    if exception is not None or app.builder.name != "html":
        return
    source = (Path(app.srcdir) / "questions.md").read_text(encoding="utf-8")
    for sentence in ask(source, Path(app.outdir)):
        getLogger(__name__).warning("%s", sentence)
    for file in sorted(Path(app.srcdir).glob("**/*.md")):
        for line in wide_lines(file.read_text(encoding="utf-8")):
            getLogger(__name__).warning("%s:%s", file.name, line)


def setup(app: Any) -> None:
    app.connect("build-finished", check)
