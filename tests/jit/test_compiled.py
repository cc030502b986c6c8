"""Compiled code is kept on disk, but never longer than the source it was made from."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import asot
from asot.jit import compiled as compiled_module

LOOK = """
from asot.exact.shared_cost import _solve_tile
print(_solve_tile._cache._cache_file._source_stamp)
"""


def stamp_of(folder):
    """What numba compares before it loads the compiled `_solve_tile` of the package in ``folder``."""
    code = f"import sys; sys.path[:] = {[str(folder), *sys.path]!r}\n{LOOK}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("changed", ["exact/simplex.py", "jit/lanes.py"])
def test_a_kernel_is_compiled_anew_when_a_file_that_it_inlines_changes(changed, tmp_path):
    shutil.copytree(Path(asot.__file__).parent, tmp_path / "asot", ignore=shutil.ignore_patterns("__pycache__"))
    before = stamp_of(tmp_path)
    assert stamp_of(tmp_path) == before
    with open(tmp_path / "asot" / changed, "a") as file:
        file.write("# changed\n")
    assert stamp_of(tmp_path) != before


def test_an_index_that_names_a_type_which_has_moved_is_obsolete_and_no_error():
    def moved():
        raise AttributeError("Can't get attribute 'Scratch' on <module 'asot.exact.points'>")

    assert compiled_module._nothing_if_unreadable(moved) == {}
    assert compiled_module._nothing_if_unreadable(lambda: {"a": 1}) == {"a": 1}
