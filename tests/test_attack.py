"""A minute of the attack, with a seed that is always the same; ``python -m tests.attack`` goes on for longer."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.attack.__main__ import main
from tests.attack.report import Report
from tests.attack.runner import FAMILIES, run

SECONDS = float(os.environ.get("ASOT_ATTACK_SECONDS", "5"))
"""Of each family."""


@pytest.mark.parametrize("family", FAMILIES)
def test_the_attack_finds_nothing(family):
    report = run([family], seconds=SECONDS)
    assert not report.findings, "\n".join(report.lines())
    assert sum(comparison.count for comparison in report.comparisons.values()) > 0


def test_a_difference_is_a_finding_with_a_reproduction():
    report = Report()
    report.begin("line", 3, 14)
    report.compare("rationals", np.array([1.0, 2.0]), np.array([1.0, 2.1]), slack=0.01, reproduction="  D = ...")
    report.compare("rationals", np.nan, 1.0, slack=1.0)
    report.compare("rationals", 1.0, 1.0, slack=0.0)
    assert len(report.findings) == 2
    assert "np.float64(2.0) instead of np.float64(2.1), 10 times" in report.findings[0]
    assert "python -m tests.attack line --seed 3 --round 14\n  D = ..." in report.findings[0]
    assert "4 line: rationals" in "\n".join(report.lines())


def test_the_command_says_what_it_tried_and_repeats_a_round(capsys):
    assert main(["equal-masses", "--seconds", "0"]) == 0
    first = capsys.readouterr().out
    assert "rounds: equal-masses 1" in first
    assert main(["equal-masses", "--round", "0"]) == 0
    assert capsys.readouterr().out == first
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(FAMILIES)
    with pytest.raises(SystemExit):
        main(["no-such-family"])
