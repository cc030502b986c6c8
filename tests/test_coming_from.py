"""The times on the pages "Coming from …" are those of the committed table, not written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "coming-from"

coming_from = pytest.importorskip("benchmarks.peers.coming_from")


@pytest.mark.skipif(not coming_from.TABLE.exists(), reason="benchmarks/results/coming_from.md was not measured yet")
def test_every_page_shows_the_measured_times() -> None:
    shown = dict(coming_from.pages(PAGES))
    assert {path.stem for path in PAGES.glob("*.md")} - {"index"} == {path.stem for path in shown}
    for path, text in shown.items():
        assert path.read_text("utf-8") == text, f"python -m benchmarks.peers.coming_from {PAGES.relative_to(ROOT)}"


def test_rows_are_read_from_the_table_by_page() -> None:
    row = ["pot", "`f(x, y)`", "10", "1 s", "1 ms", "1000×", "1e-16"]
    lines = [coming_from.COLUMNS, ["---", *["--:"] * 6], row]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    assert coming_from.measured(table) == {"pot": [row]}
