"""What notebooks show of a collection or a result: its sentence, and a small table of the first rows."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

MOST_ROWS = 6


def page_of(sentence: str, columns: Sequence[Any] = (), rows: Sequence[Sequence[Any]] = (), total: int = 0) -> str:
    """HTML of a sentence, and of a table with a name in front of every row; ``total`` rows there are in all."""
    text = f"<p>{html.escape(sentence)}</p>"
    if not rows:
        return text
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in ("", *columns))
    body = "".join(
        f"<tr><th>{html.escape(str(row[0]))}</th>"
        + "".join(f"<td>{html.escape(_shown(cell))}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    more = f"<p>… and {total - len(rows):,} more</p>" if total > len(rows) else ""
    return f"{text}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
