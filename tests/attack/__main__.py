"""The command line of the attack."""

from __future__ import annotations

import argparse
import sys

import tests.attack
from tests.attack.runner import FAMILIES, run


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=tests.attack.__doc__.split("\n")[0])
    parser.add_argument("family", nargs="*", help="families to try; all by default")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--round", type=int, help="repeat this one round")
    parser.add_argument("--list", action="store_true", help="name the families")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.family) - set(FAMILIES))
    if unknown:
        parser.error(f"unknown family {unknown[0]}; one of {', '.join(FAMILIES)}")
    if given.list:
        sys.stdout.write("\n".join(FAMILIES) + "\n")
        return 0
    report = run(given.family, seconds=given.seconds, seed=given.seed, only_round=given.round)
    sys.stdout.write("\n".join(report.lines()) + "\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
