"""A long life of an index on disk against a plain list: ``python -m tests.index.history --operations 10000 --kills 50
--readers 4 --seed 0``.

A writer adds, replaces, removes, asks, compacts and opens again, and is killed with SIGKILL now and then; another one
goes on from what is on disk, which must be what was reported, or one change more. Readers open the index meanwhile, and
must see a state that it had, never an older one than before. What an operation does depends on the seed and its number
alone, so that everybody can repeat it on a plain list.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import asot
from tests.index.histories import PlainList, cloud, step

NEIGHBORS = 3


class _Nothing:
    """An index that does not care."""

    def add(self, *given, **words):
        pass

    def remove(self, *given):
        pass


def kind_of(seed, turn):
    """What an operation is, and the chance for what it does."""
    rng = np.random.default_rng([seed, turn])
    return rng.choice(["change", "query", "reopen", "compact"], p=[0.6, 0.33, 0.05, 0.02]), rng


class Replay:
    """The plain list, operation by operation."""

    def __init__(self, seed):
        self.seed, self.turn, self.plain = seed, 0, PlainList()

    def forward(self, count):
        while self.turn < count:
            kind, rng = kind_of(self.seed, self.turn)
            if kind == "change":
                step(rng, _Nothing(), self.plain)
            self.turn += 1
        return self.plain


def differs(plain, index, rng):
    """1 if anything about an index is not as it should be, which is printed; 0 otherwise."""
    try:
        plain.check(index, [cloud(rng)], NEIGHBORS)
    except (AssertionError, ValueError, KeyError) as error:
        sys.stderr.write(f"difference: {error}\n")
        return 1
    return 0


def write(path, seed, start, stop):
    """Operations start..stop-1; every one is reported when it is over, with the differences that it found."""
    index, plain = asot.Index.open(path, mode="r+"), Replay(seed).forward(start)
    print("ready", flush=True)  # noqa: T201
    for turn in range(start, stop):
        kind, rng = kind_of(seed, turn)
        found = 0
        if kind == "change":
            step(rng, index, plain)
        elif kind == "query":
            found = differs(plain, index, rng)
        elif kind == "reopen":
            index.close()
            index = asot.Index.open(path, mode="r+")
        else:
            index.compact()
        print(turn + 1, kind, found, flush=True)  # noqa: T201


def read(path, seed, until):
    """Open and check until a file appears; report how often, and how many differences there were."""
    replay, rng = Replay(seed), np.random.default_rng(os.getpid())
    looks = found = 0
    while not Path(until).exists():
        index = asot.Index.open(path)
        ids = index.ids.tolist()
        begun = replay.turn
        while list(replay.plain.members) != ids and replay.turn < begun + 3000:
            replay.forward(replay.turn + 1)
        if list(replay.plain.members) == ids:
            found += _differs_from_all(replay, index, ids, rng)
        else:
            last = Replay(seed).forward(begun)
            odd = set(last.members) ^ set(ids)
            sys.stderr.write(
                f"difference: a reader saw {len(ids)} members that were never there together; after {begun} operations "
                f"there were {len(last.members)}, and {len(odd)} are not in both\n"
            )
            found += 1
            replay = Replay(seed)
            replay.forward(begun)
        looks += 1
    print(looks, found, flush=True)  # noqa: T201


def _differs_from_all(replay, index, ids, rng):
    """The same ids in the same order may come several times, with other points: one of these states must fit."""
    while _member_bytes(index, ids) != _bytes_of(replay.plain):
        turn = replay.turn
        while replay.turn < turn + 50:
            replay.forward(replay.turn + 1)
            if list(replay.plain.members) == ids:
                break
        else:
            sys.stderr.write(f"difference: members of a reader have points of another time than {turn} operations\n")
            return 1
    return differs(replay.plain, index, rng)


def _member_bytes(index, ids):
    return [index[name][0].tobytes() for name in ids]


def _bytes_of(plain):
    return [points.tobytes() for points in plain.members.values()]


def started(*words):
    here = Path(__file__).parent.parent.parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(asot.__file__).parent.parent), str(here)])}
    command = [sys.executable, "-m", "tests.index.history", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=here, env=environment)


def lead(operations, kills, readers, seed):
    """The whole history; the number of differences."""
    with tempfile.TemporaryDirectory() as folder:
        path, until, began = Path(folder) / "index", Path(folder) / "over", time.perf_counter()
        asot.Index().save(path)
        watching = [started("--read", path, "--seed", seed, "--until", until) for _ in range(readers)]
        chance, replay = random.Random(seed), Replay(seed)
        done, found, killed, counts = 0, 0, 0, Counter()
        while done < operations:
            quota = chance.randint(1, max(2, 2 * operations // (kills + 1))) if killed < kills else operations
            writer = started("--write", path, "--seed", seed, "--start", done, "--operations", operations)
            reported = []
            for line in writer.stdout:
                if line != "ready\n":
                    reported.append(line.split())
                    if killed < kills and len(reported) == quota:
                        break
            if killed < kills and writer.poll() is None:
                time.sleep(chance.uniform(0.0, 0.01))
                writer.send_signal(signal.SIGKILL)
                killed += 1
            reported += [line.split() for line in writer.communicate()[0].splitlines()]
            counts.update(kind for _, kind, _ in reported)
            found += sum(int(bad) for _, _, bad in reported)
            least = int(reported[-1][0]) if reported else done
            ids = asot.Index.open(path).ids.tolist()
            done = least
            if list(replay.forward(least).members) != ids:
                done = least + 1
                found += list(replay.forward(done).members) != ids
        until.touch()
        for reader in watching:
            looks, bad = map(int, reader.communicate()[0].split())
            counts["looks of readers"] += looks
            found += bad
        said = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
        seconds = time.perf_counter() - began
        print(f"seed {seed}: {done:,} operations ({said}), {killed} kills, {found} differences, {seconds:.0f} s")  # noqa: T201
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("operations", 10_000), ("kills", 50), ("readers", 4), ("seed", 0), ("start", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--write")
    parser.add_argument("--read")
    parser.add_argument("--until")
    own = parser.parse_args()
    if own.write is not None:
        write(own.write, own.seed, own.start, own.operations)
    elif own.read is not None:
        read(own.read, own.seed, own.until)
    else:
        raise SystemExit(lead(own.operations, own.kills, own.readers, own.seed) > 0)


if __name__ == "__main__":
    main()
