"""The pages for those who have cells, documents, graphs or a table: a first result in ten lines, then a picture."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("page", ["i-have-cells.md", "i-have-documents.md", "i-have-graphs.md", "i-have-a-table.md"])
def test_the_first_result_takes_ten_lines_and_the_page_ends_with_a_picture(page):
    text = (DOCS / page).read_text()
    first = text[text.index("## The first distances") :]
    lines = [line for line in first.splitlines() if re.match(r"(>>>|\.\.\.) ", line)]
    result = next(i for i, line in enumerate(lines) if ".to_frame(" in line)
    assert result + 2 <= 10, "with the line that imports asot"
    pictures = [match.start() for match in re.finditer(r">>> ax = asot\.plots\.", text)]
    sizes = text.index("## Which call at which size")
    assert pictures, "there is no picture"
    assert ">>>" not in text[pictures[-1] + 3 : sizes], "the picture is not the last example"
