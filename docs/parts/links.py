"""Links that work on GitHub and on the site: to tables, to the paper's report, and to files that are no pages.

Pages are also read in the repository, so they link to files there. On the site, a table of the benchmarks is a page of
its own (`parts.front`), the report lies beside the pages, and a file that the site does not have is named instead.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from parts import tables

TABLE = re.compile(r"\]\((?:\.\./)+benchmarks/results/(?:([\w-]+)\.md)?\)")


def turn_links(app: Any, name: str, source: list[str]) -> None:
    docs, up = Path(app.srcdir).resolve(), "../" * name.count("/")

    def table(link: re.Match[str]) -> str:
        return f"]({up}tables/{link[1]}.md)" if link[1] in tables.names() else f"]({up}benchmarks.md)"

    def named(link: re.Match[str]) -> str:
        target = ((docs / name).parent / link[2]).resolve()
        return link[0] if target.is_relative_to(docs) else f"{link[1]} (`{target.relative_to(docs.parent)}`)"

    text = re.sub(r"\[([^\]]+)\]\(results/paper\.md(#\w+)?\)", r'<a href="paper.html">\1</a>', source[0])
    text = re.sub(r"\[([^\]]+)\]\(results/(elsewhere-[\w-]+\.md)\)", r'<a href="\2">\1</a>', text)
    text = re.sub(r"\[([^\]]+)\]\(examples/\)", r"\1", text)
    text = TABLE.sub(table, text)
    text = re.sub(r"\n\n```$", "\n```", text, flags=re.M)  # doctest needs the empty line, readers do not
    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)]+)\)", named, text)


def setup(app: Any) -> None:
    app.connect("source-read", turn_links, priority=600)  # after figures, which run the code
