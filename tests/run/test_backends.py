"""The script of the page on large collections gives the same bits on every engine; nothing changes but a name."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.cluster_faults import environment

pytest.importorskip("zarr")

SCRIPT = Path(__file__).parents[2] / "docs" / "examples" / "backends.py"
NEEDS = {"threading": "joblib", "loky": "joblib", "dask": "distributed", "ray": "ray"}


def run(backend, folder):
    arguments = [sys.executable, str(SCRIPT), backend, str(folder / f"{backend}.zarr")]
    quiet = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, env={**environment(), **quiet})
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def by_threads(tmp_path_factory):
    return run("threading", tmp_path_factory.mktemp("threads"))


@pytest.mark.parametrize("backend", ["loky", "dask", "ray"])
def test_only_the_name_of_the_engine_changes(backend, by_threads, tmp_path):
    if importlib.util.find_spec(NEEDS[backend]) is None:
        pytest.skip(f"{NEEDS[backend]} is not installed")
    assert run(backend, tmp_path) == by_threads
