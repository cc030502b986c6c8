"""Every instruction set gives the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asot.native.library import LEVELS, _path, library
from tests.native.every_solver import SOLVERS

ROOT = Path(__file__).parent.parent.parent


def levels():
    """The instruction sets that were built and that this processor has."""
    best = int(library().asot_processor_level())
    return [level for level in LEVELS[: best + 1] if _path(level).exists()]


def test_every_solver_gives_the_same_bits_with_every_instruction_set():
    names = levels()
    if len(names) < 2:
        pytest.skip("one instruction set")
    found = {}
    for name in names:
        command = [sys.executable, "-m", "tests.native.every_solver"]
        environment = {**os.environ, "ASOT_ISA": name}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        used, found[name] = json.loads(done.stdout.splitlines()[-1])
        assert used == name
    assert set(found[names[0]]) == set(SOLVERS)
    for name in names[1:]:
        assert found[name] == found[names[0]]
