"""The types that users see: mypy (strict) and pyright read a file of typical code and agree with what it asserts."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import asot

CODE = Path(__file__).parent / "typed" / "user_code.py"


def check(*command):
    source = str(Path(asot.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, env=environment, cwd=CODE.parents[2]
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")
def test_mypy_sees_the_types_of_results():
    code, said = check("mypy", str(CODE.relative_to(CODE.parents[2])))  # with the settings, and the cache, of the gate
    assert code == 0, said


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="needs pyright")
def test_pyright_sees_the_types_of_results(tmp_path):
    settings = tmp_path / "pyrightconfig.json"
    source = str(Path(asot.__file__).parents[1])
    settings.write_text(f'{{"include": ["{CODE}"], "extraPaths": ["{source}"], "typeCheckingMode": "standard"}}')
    code, said = check("pyright", "--project", str(settings), "--pythonpath", sys.executable)
    if "error" not in said and code != 0:
        pytest.skip(f"pyright cannot run here: {said[-200:]}")
    assert code == 0, said
