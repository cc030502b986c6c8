"""The site's own search finds the pages that the table of first questions (``docs/faq.md``) promises, or warns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sphinx.search.en import SearchEnglish
from sphinx.util.logging import getLogger

MOST_RESULTS = 12
"""An answer among more results than a screen shows takes more than two clicks."""


def check(app: Any, exception: Exception | None) -> None:
    if exception is not None or app.builder.name != "html":
        return
    text = (Path(app.outdir) / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    stem = SearchEnglish({}).stem
    table = (Path(app.srcdir) / "faq.md").read_text(encoding="utf-8")
    for words, page in re.findall(r"^\|[^|]*\|[^|]*\| `([^`]+)` \| \[[^\]]+\]\(([^)#]+)\.md", table, flags=re.M):
        pages = [_pages_with(index, stem(word.lower())) for word in words.split()]
        found = [index["docnames"][number] for number in set.intersection(*pages)]
        if page not in found or len(found) > MOST_RESULTS:
            shown = ", ".join(found[:5])
            getLogger(__name__).warning("the search for %r finds %d pages: %s", words, len(found), shown)


def _pages_with(index: dict[str, Any], term: str) -> set[int]:
    numbers = [index[kind].get(term, []) for kind in ("terms", "titleterms")]
    return {number for found in numbers for number in (found if isinstance(found, list) else [found])}


def setup(app: Any) -> None:
    app.connect("build-finished", check)
