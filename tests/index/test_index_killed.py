"""A writer that is killed at any moment loses at most the call that was running; readers never see half a change."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import asot
from asot.index.folder import Folder
from tests.index.histories import cloud
from tests.index.killed_writer import replayed

KILLS = int(os.environ.get("ASOT_INDEX_KILLS", "20"))

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")


def started(path, seed, done):
    source = Path(asot.__file__).parent.parent
    here = Path(__file__).parent.parent.parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(here)])}
    command = [sys.executable, "-m", "tests.index.killed_writer", str(path), str(seed), str(done)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=here, env=environment)
    assert process.stdout.readline() == "ready\n"
    return process


def killed(process, after):
    """How many changes a writer had reported when it was killed."""
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    said, _ = process.communicate()
    return [int(line) for line in said.splitlines()]


def test_a_killed_writer_loses_at_most_the_running_call(tmp_path):
    path, seed, done = tmp_path / "index", 3, 0
    asot.Index().save(path)
    rng, chance = np.random.default_rng(0), random.Random(0)
    for _ in range(KILLS):
        reported = killed(started(path, seed, done), chance.uniform(0.0, 0.15))
        least = reported[-1] if reported else done
        index = asot.Index.open(path)
        ids = index.ids.tolist()
        states = {count: replayed(seed, count) for count in (least, least + 1)}
        agreeing = [count for count, plain in states.items() if list(plain.members) == ids]
        assert agreeing, f"neither {least} nor {least + 1} changes"
        states[agreeing[-1]].check(index, [cloud(rng)], 3)
        done = agreeing[-1]
    assert done > 0


def test_readers_see_whole_changes_beside_a_writer(tmp_path):
    path, seed = tmp_path / "index", 5
    asot.Index().save(path)
    process = started(path, seed, 0)
    rng, seen, known = np.random.default_rng(1), [], {}
    try:
        for _ in range(25):
            index = asot.Index.open(path)
            ids = index.ids.tolist()
            count = seen[-1] if seen else 0
            while list(known.setdefault(count, replayed(seed, count)).members) != ids:
                count += 1
                assert count < 5000, "what a reader saw was never there"
            seen.append(count)
            known[count].check(index, [cloud(rng)], 3)
    finally:
        killed(process, 0.0)
    assert seen == sorted(seen)


def test_a_reader_keeps_its_generation_when_a_writer_removes_it(tmp_path):
    rng = np.random.default_rng(2)
    index = asot.Index()
    index.add([cloud(rng) for _ in range(30)], ids=[f"m{number}" for number in range(30)])
    index.save(tmp_path / "index")
    reader, folder = asot.Index.open(tmp_path / "index"), Folder(tmp_path / "index", writes=False)
    shutil.rmtree(tmp_path / "index" / "g000001")
    assert folder.generation.names() == reader.ids.tolist() == index.ids.tolist()
    queries = [cloud(rng)]
    np.testing.assert_array_equal(reader.query(queries, 3).distances, index.query(queries, 3).distances)
