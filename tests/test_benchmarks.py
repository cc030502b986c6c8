"""Benchmarks are found by what they say they need, without being imported; those of a GPU run in rounds."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

needs = pytest.importorskip("benchmarks.needs")
common = pytest.importorskip("benchmarks.common")
gpu_round = pytest.importorskip("benchmarks.gpu_round")
WORDS = {"before", "gpu", *needs.FILES, *needs.PACKAGES}


@pytest.mark.parametrize("name", needs.benchmarks())
def test_a_benchmark_needs_what_can_be_looked_for(name):
    module, needed = needs.benchmarks()[name]
    assert module.endswith(f".{name}")
    assert needed <= WORDS


def test_a_missing_file_is_named(tmp_path):
    found = needs.missing({"tweets", "gpu"}, tmp_path)
    assert found == "reads tweets: give --data DIR (or set ASOT_DATA) with more/wmd_twitter.npz"


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(needs.PACKAGES, "pot", ("a_package_of_nobody", "./nowhere"))
    assert needs.missing({"pot"}, None) == "needs a_package_of_nobody: pip install -e ./nowhere"


def test_nothing_is_missing_where_nothing_is_needed():
    assert needs.missing(set(), None) is None


def test_an_earlier_version_is_named_by_the_environment(monkeypatch):
    monkeypatch.delenv("ASOT_BEFORE", raising=False)
    assert "set ASOT_BEFORE" in needs.missing({"before"}, None)
    monkeypatch.setenv("ASOT_BEFORE", "somewhere")
    assert needs.missing({"before"}, None) is None


# ---------------------------------------------------------------------------------------------------------- rounds

FAKE = """
import os, subprocess, sys, time
name = sys.argv[1]
print(f"--- {name}", flush=True)
if name == "slow":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    open("child", "w").write(str(child.pid))
    print("begun", flush=True)
    time.sleep(60)
if name == "broken":
    raise ValueError("a reason")
print("| case | time |")
print("| --- | ---: |")
print("| large | 3 ms (missed: < 2 ms) |")
print("| small | 1 ms (met: < 2 ms) |")
"""


@pytest.fixture
def round_of(tmp_path, monkeypatch):
    """A round of made-up benchmarks, with the seconds that they should take."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "__main__.py").write_text(FAKE)
    monkeypatch.chdir(tmp_path)

    def made(order, seconds=60.0, quick=False):
        monkeypatch.setattr(gpu_round, "ORDER", order)
        monkeypatch.setattr(gpu_round, "benchmarks", lambda: dict.fromkeys(order, ("benchmarks.needs", set())))
        return gpu_round.Round(None, tmp_path, seconds, quick).run(list(order)[::-1])

    return made


def test_a_round_has_every_benchmark_that_needs_a_gpu():
    assert set(gpu_round.ORDER) == {name for name, (_, needed) in needs.benchmarks().items() if "gpu" in needed}


def test_a_round_goes_on_and_says_what_was_missed(round_of, capsys):
    assert round_of({"broken": 9, "fine": 9}) == 1
    broken, fine = (line for line in capsys.readouterr().out.splitlines() if line.startswith(("broken:", "fine:")))
    assert broken.startswith("broken: failed after ")
    assert fine.endswith(" s; 1 met; large: 3 ms (missed: < 2 ms)")


@pytest.mark.slow
def test_what_takes_too_long_is_stopped_with_all_that_it_started(round_of, tmp_path, capsys):
    assert round_of({"slow": 1, "fine": 9}) == 1
    out = capsys.readouterr().out
    assert "begun\nslow: stopped after " in out
    assert re.search(r"^fine: \d+ s; 1 met", out, re.MULTILINE)
    assert is_gone(int((tmp_path / "child").read_text()))


def is_gone(process):
    """Whether a process ends, as soon as the system has noticed; one that nobody waits for keeps its number."""
    for _ in range(200):
        try:
            os.kill(process, 0)
            if Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


def test_the_command_runs_rounds(tmp_path, capsys):
    main = pytest.importorskip("benchmarks.__main__").main
    assert main(["--gpu", "--minutes", "0", "--results", str(tmp_path), "gpu_sizes", "gpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": about")[0] for line in lines] == ["gpu: not begun", "gpu_sizes: not begun"]
    with pytest.raises(SystemExit):
        main(["--gpu", "memory"])
    assert "memory needs no GPU; --gpu runs layer_gpu, gpu_estimates, " in capsys.readouterr().err


def test_what_there_is_no_time_for_is_not_begun(round_of, capsys):
    assert round_of({"long": 600, "fine": 9}, seconds=20) == 0
    out = capsys.readouterr().out
    assert out.startswith("long: not begun: about 600 s, and 20 s are left\nfine: ")


def test_a_table_of_this_code_is_not_made_again(round_of, tmp_path, capsys):
    table = tmp_path / "fine.md"
    table.write_text(f"- {common.CODE}: {common.code_state('benchmarks.needs')}\n", encoding="utf-8")
    assert round_of({"fine": 9}) == 0
    assert capsys.readouterr().out == "fine: has a table of this code\n"
    table.write_text(f"- {common.CODE}: {common.code_state('benchmarks.common')}\n", encoding="utf-8")
    assert round_of({"fine": 9}) == 0
    assert "1 met" in capsys.readouterr().out


def test_tables_name_the_code(tmp_path, monkeypatch):
    folder = tmp_path / "asot"
    folder.mkdir()
    (folder / "__init__.py").write_text("1")
    find = common.importlib.util.find_spec
    spec = find("benchmarks.needs")
    monkeypatch.setattr(
        common.importlib.util,
        "find_spec",
        lambda name: (
            common.importlib.util.spec_from_file_location(name, folder / "__init__.py") if name == "asot" else spec
        ),
    )

    def state():
        common._library.cache_clear()
        return common.code_state("benchmarks.needs")

    try:
        first = state()
        (folder / "notes.txt").write_text("no code")
        assert state() == first
        (folder / "kernel.cu").write_text("2")
        assert state() != first
    finally:
        common._library.cache_clear()
