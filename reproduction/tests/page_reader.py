"""Reads the report's page as a browser would, strictly: every tag closed, every table as rows of text."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "path", "rect"}


class Page(HTMLParser):
    """The parts of a page that tests look at. Raises where tags are not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.headings: list[str] = []
        self.words = ""
        self._table: list[list[str]] | None = None
        self.feed(text)
        self.close()
        if self.open:
            raise ValueError(f"never closed: {self.open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._table = self.tables[str(found["id"]).removeprefix("table-")] = []
        elif tag == "tr" and self._table is not None:
            self._table.append([])
        elif tag in ("th", "td") and self._table is not None:
            self._table[-1].append("")
        elif tag in ("h1", "h2"):
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"</{tag}> closes nothing")
        if tag == "table":
            self._table = None

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.words += data
        if self._table and self._table[-1] and {"th", "td"} & set(self.open):
            self._table[-1][-1] += data
        if {"h1", "h2"} & set(self.open):
            self.headings[-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def row(self, table: str, name: str) -> list[str]:
        """The fields of a table's row after its name."""
        return next(row[1:] for row in self.tables[table] if row and row[0] == name)
