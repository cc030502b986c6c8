"""The page on the command line shows what the commands print: each is run, in order, on the example files."""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from asot.cli import cli

DOCS = Path(__file__).parent.parent / "docs"


def shown_commands():
    """(command, lines that the page shows below it), in the order of the page."""
    for block in re.findall(r"```text\n(.*?)```", (DOCS / "command-line.md").read_text(), flags=re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip().splitlines()
            yield command, lines


def printed(command):
    name, *arguments = command.split()
    if name == "head":
        count, path = int(arguments[0][1:]), arguments[1]
        return "\n".join(Path(path).read_text().splitlines()[:count])
    result = CliRunner(env={"COLUMNS": "80"}).invoke(cli, arguments, prog_name="asot")
    return result.output.rstrip()


def without_last_digits(text):
    """Long numbers to nine digits: the last ones depend on the processor."""
    return re.sub(r"\d+\.\d{9,}", lambda number: f"{float(number[0]):.9g}", text)


def test_every_command_of_the_page_prints_what_the_page_shows(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    for example in (DOCS / "examples").glob("*.csv"):
        shutil.copy(example, tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = list(shown_commands())
    assert len(commands) > 10
    for command, lines in commands:
        found = without_last_digits(printed(command))
        pattern = re.escape(without_last_digits("\n".join(lines))).replace(
            "…", "[^ ]+"
        )  # times are left out on the page
        assert re.fullmatch(pattern, found), f"{command} printed:\n{found}"
