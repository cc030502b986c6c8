"""Real processes that are killed, full disks, torn files: what the fault tests run, and `python -m benchmarks faults`
runs longer.

Every function does harm to stored runs a number of times, has them resumed, and returns a `Record`: how often harm was
done, and what came of it. "Equal" is a comparison with one run that nobody disturbed, bit for bit.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NOBODY = 65534

HEAD = """
import os, sys, time, numpy as np, asot
from asot.sinks import Store
path, n = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
"""
VALUES = """
points = rng.random((12, 2))
cost = np.sqrt(((points[:, None] - points) ** 2).sum(-1))
A = rng.dirichlet(np.ones(12), n)
run = lambda **more: asot.emd_many(A, cost=cost, n_jobs=2, **more)
"""
SEARCH = """
points = rng.normal(size=(8 * n, 3)) + np.repeat(rng.normal(size=(n, 3)), 8, axis=0)
D = asot.Distributions(points, np.arange(n + 1) * 8)
run = lambda **more: asot.kneighbors(D, 5, prune="projections", n_jobs=2, **more)
"""
JOBS = {"values": VALUES, "search": SEARCH}
STORE = "run(sink=Store(path))\n"


@dataclass(frozen=True)
class Record:
    """What came of harm that was done ``times`` times."""

    harm: str
    times: int
    equal: bool
    """Whether the resumed result is that of a run that nobody disturbed, bit for bit."""
    said: str = ""
    """The sentence that the caller got, where it got one."""


def problem(n):
    rng = np.random.default_rng(0)
    points = rng.random((12, 2))
    cost = np.sqrt(((points[:, None] - points) ** 2).sum(-1))
    return rng.dirichlet(np.ones(12), n), cost


def answers(path):
    """What a store holds."""
    import asot

    stored = asot.open_store(path)
    if "values" in stored.fields:
        return (stored.values(),)
    near = stored.top_k()
    return near.indices, near.distances


def undisturbed(job, n):
    names: dict = {}
    argv, sys.argv = sys.argv, ["job", "", str(n)]
    try:
        exec(HEAD + JOBS[job], names)
    finally:
        sys.argv = argv
    result = names["run"]()
    return (result.values,) if job == "values" else (result.indices, result.distances)


def same(found, expected):
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def start(path, n, job="values", before="", after=STORE, **more):
    """A caller in a process of its own."""
    script = HEAD + JOBS[job] + before + after
    return subprocess.Popen([sys.executable, "-c", script, str(path), str(n)], env=environment(), text=True, **more)


def finish(path, n, job="values"):
    assert start(path, n, job).wait() == 0


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


def error_line(text):
    """The error of the caller itself; Dask may have more to say when the process ends."""
    own = [line for line in text.splitlines() if line.startswith("ConnectionError: the connection to the scheduler")]
    return (own or [last_line(text)])[-1]


def environment():
    source = str(Path(__file__).parents[2] / "src")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}


def chunks(path):
    """Files of all chunks."""
    return sorted(file for file in Path(path).glob("*/c/**/*") if file.is_file() and file.name.isdecimal())


def lose_some_blocks(path, draw):
    """So that the next run has something to do."""
    for chunk in chunks(path):
        if draw.random() < 0.7:
            chunk.unlink()


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# ------------------------------------------------------------------------------------------- callers


def kill_callers(times, n=1500, seed=0, job="values"):
    """Kill -9 the caller at random moments of its work, as often as it takes to hit it ``times`` times."""
    import asot

    expected, draw, hits = undisturbed(job, n), random.Random(seed), 0
    with folder() as here:
        path = here / "run.zarr"
        while hits < times:
            before = len(chunks(path))
            caller = start(path, n, job)
            while len(chunks(path)) == before and caller.poll() is None:  # until it is at work
                time.sleep(0.005)
            time.sleep(draw.random() * 0.3)
            if caller.poll() is None:
                os.kill(caller.pid, signal.SIGKILL)
                hits += 1
            caller.wait()
            if (path / "zarr.json").exists() and asot.open_store(path).is_complete:
                lose_some_blocks(path, draw)
        finish(path, n, job)
        return Record(f"kill -9 of the caller ({job})", hits, same(answers(path), expected))


def two_callers(times, n=1500):
    """Two processes at once on one store that is not there yet."""
    expected, equal = undisturbed("values", n), True
    with folder() as here:
        for turn in range(times):
            callers = [start(here / f"{turn}.zarr", n) for _ in range(2)]
            equal = [caller.wait() for caller in callers] == [0, 0] and equal
            equal = same(answers(here / f"{turn}.zarr"), expected) and equal
    return Record("two callers on one store", times, equal)


# ------------------------------------------------------------------------------------------- disks and files


def full_disk(n=1500):
    """A file system of one megabyte, or, where none can be mounted, a limit on the size of files."""
    expected = undisturbed("values", n)
    with folder() as here:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(here)], capture_output=True)
        if mounted.returncode != 0:
            limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
            failed = start(here / "run.zarr", n, before=limit, stderr=subprocess.PIPE)
            said = last_line(failed.communicate()[1])
        else:
            try:
                failed = start(here / "run.zarr", n, stderr=subprocess.PIPE)
                said = last_line(failed.communicate()[1])
                subprocess.run(["mount", "-o", "remount,size=100m", str(here)], check=True)
                finish(here / "run.zarr", n)
                equal = same(answers(here / "run.zarr"), expected)
            finally:
                subprocess.run(["umount", str(here)], check=True)
            return Record("full disk, then room again", 1, equal and failed.returncode == 1, said)
        finish(here / "run.zarr", n)
        return Record("files cannot grow", 1, same(answers(here / "run.zarr"), expected), said)


def read_only(n=1500):
    """A store that its caller may read but not write: begun by one user, resumed by another one."""
    expected, draw = undisturbed("values", n), random.Random(0)
    with folder() as here:
        path = here / "run.zarr"
        here.chmod(0o755)
        finish(path, n)
        lose_some_blocks(path, draw)
        other = "run(sink=Store(path + '.warm', part=(1, 999)))\n"  # everything is imported before the user changes
        if os.geteuid() == 0:
            other += f"os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        else:
            for name, _, _ in os.walk(path):
                os.chmod(name, 0o500)
        failed = start(path, n, before=other, stderr=subprocess.PIPE)
        said = last_line(failed.communicate()[1])
        for name, _, _ in os.walk(path):
            os.chmod(name, 0o755)
        finish(path, n)
        return Record("read-only store", 1, same(answers(path), expected) and failed.returncode == 1, said)


def torn_chunks(times, n=1500, seed=0):
    """Chunks that end too soon, as a crash of the machine leaves them."""
    expected, draw, equal = undisturbed("values", n), random.Random(seed), True
    with folder() as here:
        path = here / "run.zarr"
        finish(path, n)
        for _ in range(times):
            torn = draw.choice(chunks(path))
            torn.write_bytes(torn.read_bytes()[: draw.randrange(torn.stat().st_size)])
            finish(path, n)
            equal = same(answers(path), expected) and equal
    return Record("torn chunk", times, equal)


def flipped_bits(times, n=400, seed=0):
    """Chunks of the right size with a wrong bit: named when they are read, and done again by the same call."""
    expected, draw, equal, said = undisturbed("values", n), random.Random(seed), True, ""
    with folder() as here:
        path = here / "run.zarr"
        finish(path, n)
        for _ in range(times):
            damaged = draw.choice(chunks(path))
            contents = bytearray(damaged.read_bytes())
            contents[draw.randrange(len(contents))] ^= 1 << draw.randrange(8)
            damaged.write_bytes(contents)
            try:
                answers(path)
                equal = False  # a wrong value would have been handed out
            except ValueError as error:
                said = str(error)
            finish(path, n)
            equal = same(answers(path), expected) and equal
    return Record("flipped bit", times, equal, said)


def jumping_clock(times, n=1500, seed=0):
    """Times of files years away, and a clock of the caller that jumps by days."""
    import asot

    expected, draw, equal = undisturbed("values", n), random.Random(seed), True
    jumps = "import random; clock = time.time; time.time = lambda: clock() + random.uniform(-1e6, 1e6)\n"
    with folder() as here:
        path = here / "run.zarr"
        finish(path, n)
        for _ in range(times):
            lose_some_blocks(path, draw)
            for chunk in chunks(path):
                when = time.time() + draw.uniform(-3e8, 3e8)
                os.utime(chunk, (when, when))
            left = asot.open_store(path).seconds_left()
            equal = equal and (left is None or left >= 0) and start(path, n, before=jumps).wait() == 0
            equal = equal and same(answers(path), expected)
    return Record("clock that jumps", times, equal)


# ------------------------------------------------------------------------------------------- Dask


def two_workers():
    from distributed import LocalCluster

    return LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1")


def kill_workers(times, n=1500, seed=0):
    """Kill -9 workers of a Dask cluster while stored runs are under way."""
    import threading

    import dask
    import joblib
    from distributed import Client

    import asot

    A, cost = problem(n)
    expected = asot.emd_many(A, cost=cost).values
    draw, over, kills, equal = random.Random(seed), threading.Event(), 0, True
    # The scheduler counts every task that was near a death as suspect.
    allowed = dask.config.set({"distributed.scheduler.allowed-failures": 10 * times})
    with folder() as here, allowed, two_workers() as cluster, Client(cluster) as client:

        def killer():
            nonlocal kills
            while not over.is_set() and kills < times:
                time.sleep(0.2 + draw.random())
                processes = [worker.pid for worker in cluster.workers.values() if worker.pid]
                if processes:
                    os.kill(draw.choice(processes), signal.SIGKILL)
                    kills += 1

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            turn = 0
            with joblib.parallel_config(backend="dask"):
                while equal and (turn == 0 or kills < times):
                    stored = asot.emd_many(A, cost=cost, sink=asot.sinks.Store(here / f"run{turn}.zarr"))
                    equal = bool(np.array_equal(stored.values(), expected))
                    turn += 1
        finally:
            over.set()
            thread.join()
            client.cancel([])
    return Record("kill -9 of a Dask worker", kills, equal)


DASK = """
import joblib
from distributed import Client
client = Client(scheduler_file=sys.argv[3])
client.wait_for_workers(2)
with joblib.parallel_config(backend="dask"):
    run(sink=Store(path))
"""


def kill_scheduler(n=3000):
    """Kill -9 the scheduler while its workers are at work; the caller must end, and another one can go on."""
    expected = undisturbed("values", n)
    with folder() as here:
        file, path = here / "scheduler.json", here / "run.zarr"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment(), "cwd": here}
        dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        scheduler = subprocess.Popen([*dask, "--no-dashboard", "--scheduler-file", str(file)], **quiet)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nthreads", "1"]
        while not file.exists():
            time.sleep(0.05)
        workers = [subprocess.Popen([*worker, "--no-dashboard", "--no-nanny"], **quiet) for _ in range(2)]
        script = HEAD + VALUES + DASK
        arguments = [sys.executable, "-c", script, str(path), str(n), str(file)]
        caller = subprocess.Popen(arguments, env=environment(), text=True, stderr=subprocess.PIPE)
        try:
            while len(chunks(path)) < 3 and caller.poll() is None:
                time.sleep(0.005)
            before = len(chunks(path))
            os.kill(scheduler.pid, signal.SIGKILL)
            said = error_line(caller.communicate(timeout=120)[1])
        finally:
            for process in (caller, scheduler, *workers):
                process.kill()
                process.wait()
        ended = caller.returncode == 1
        finish(path, n)
        said = f"{said} ({before} blocks were done)"
        return Record("kill -9 of the scheduler", 1, ended and same(answers(path), expected), said)


def other_version(n=400):
    """A worker whose asot is another one."""
    import joblib
    from distributed import Client

    import asot

    A, cost = problem(n)
    expected = asot.emd_many(A, cost=cost).values

    def pretend(version):
        import asot

        asot.__version__ = version

    with folder() as here, two_workers() as cluster, Client(cluster) as client, joblib.parallel_config(backend="dask"):
        said = ""
        client.run(pretend, "99.0")
        try:
            asot.emd_many(A, cost=cost, sink=asot.sinks.Store(here / "run.zarr"))
        except RuntimeError as error:
            said = str(error)
        client.run(pretend, asot.__version__)
        stored = asot.emd_many(A, cost=cost, sink=asot.sinks.Store(here / "run.zarr"))
        equal = bool(np.array_equal(stored.values(), expected))
    return Record("a worker with another version of asot", 1, equal and "99.0" in said, said)
