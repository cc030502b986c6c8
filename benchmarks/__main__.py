"""``python -m benchmarks``: run some or all benchmarks, print their tables and write them to files."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

from benchmarks.common import CODE, RESULTS, Options, code_state, machine
from benchmarks.gpu_round import ORDER, Round
from benchmarks.needs import FILES, benchmarks, missing

BENCHMARKS = benchmarks()


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks asked for; the exit code is 1 when one of them failed."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    names = asked.names or tuple(ORDER if asked.gpu else _by_default())
    for name in names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark {name!r}; choose from {', '.join(BENCHMARKS)}")
        if asked.gpu and name not in ORDER:
            parser.error(f"{name} needs no GPU; --gpu runs {', '.join(ORDER)}")
    if asked.gpu:
        return Round(asked.data, asked.results, 60 * asked.minutes, asked.quick).run(names)
    for name in names:
        if reason := missing(BENCHMARKS[name][1], asked.data):
            parser.error(f"{name} {reason}")
    options = Options(quick=asked.quick, data=asked.data, peers=asked.peers)
    folder = asked.results or (None if asked.quick else RESULTS)
    failed = [name for name in names if not _run(name, options, folder, _command(asked, names))]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _by_default() -> Iterator[str]:
    return (name for name, (_, needs) in BENCHMARKS.items() if not needs & {"gpu", "before"})


def _run(name: str, options: Options, folder: Path | None, command: str) -> bool:
    """Run one benchmark; a failure is shown, writes nothing, and does not keep the others from running."""
    print(f"--- {name}", flush=True)
    module = BENCHMARKS[name][0]
    description = machine() | {CODE: code_state(module)}  # before the work, so that the load it tells is not our own
    try:
        report = importlib.import_module(module).run(options)
    except Exception:
        traceback.print_exc()
        return False
    text = report.markdown(command, description)
    print(text, flush=True)
    if folder is not None:
        report.write(folder, text)
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"which to run: {', '.join(BENCHMARKS)} (default: those that need no GPU)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all of it works")
    parser.add_argument(
        "--gpu", action="store_true", help="those that need a GPU (default: all), each in a process with a limit"
    )
    parser.add_argument("--minutes", type=float, default=inf, metavar="M", help="with --gpu: stop after M minutes")
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("ASOT_DATA"), help="folder with tu/*.zip, mnist/*.gz, zinc/*"
    )
    parser.add_argument("--peers", type=Path, help="folder to keep the environment of wasserstein in")
    parser.add_argument("--results", type=Path, help="where tables go (default: benchmarks/results; quick: nowhere)")
    return parser


def _command(asked: argparse.Namespace, names: Sequence[str]) -> str:
    """The command that made a table, without the folders of this machine."""
    parts = ["python -m benchmarks", *asked.names]
    parts += ["--quick"] if asked.quick else []
    parts += ["--data DIR"] if any(BENCHMARKS[name][1] & set(FILES) for name in names) else []
    return " ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
