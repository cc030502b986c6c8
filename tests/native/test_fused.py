"""Products that are rounded once, on processors without an instruction for them."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NATIVE = HERE.parent.parent / "src" / "asot" / "native"
COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)


@pytest.mark.skipif(platform.machine() != "x86_64" or COMPILER is None, reason="needs x86-64 and a compiler")
def test_fused_products_have_the_bits_of_the_c_library(tmp_path):
    program = tmp_path / "fused_check"
    options = ["-std=c++17", "-O2", "-march=x86-64-v2", "-ffp-contract=off", f"-I{NATIVE}", "-o", str(program)]
    subprocess.run([COMPILER, *options, str(HERE / "fused_check.cpp")], check=True)
    done = subprocess.run([program, "1000000"], capture_output=True, text=True, check=True)
    assert done.stdout == "0 0\n"
