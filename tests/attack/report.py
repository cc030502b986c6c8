"""What an attack has tried and found."""

from __future__ import annotations

import numpy as np


class Comparison:
    """Everything that was compared with one oracle under one tolerance."""

    def __init__(self):
        self.count, self.worst = 0, 0.0


class Report:
    """Counts, largest differences and findings. ``place`` is the family, seed and round at work."""

    def __init__(self):
        self.comparisons: dict[str, Comparison] = {}
        self.rounds: dict[str, int] = {}
        self.findings: list[str] = []
        self.place = ("", 0, 0)

    def begin(self, family, seed, number):
        self.place = (family, seed, number)
        self.rounds[family] = self.rounds.get(family, 0) + 1

    def find(self, text, reproduction=""):
        family, seed, number = self.place
        repeat = f"python -m tests.attack {family} --seed {seed} --round {number}"
        self.findings.append("\n".join(part for part in (f"{family}: {text}", f"  {repeat}", reproduction) if part))

    def check(self, what, holds, text, reproduction=""):
        """Count something that must hold."""
        self._comparison(what).count += 1
        if not holds:
            self.find(f"{what}: {text}", reproduction)

    def compare(self, what, found, expected, *, slack, reproduction=""):
        """Count numbers (P,) that must agree to ``slack`` (P,): the largest rounding error that is forgiven.

        ``reproduction`` is text, or a function of the place of the first number that does not agree.
        """
        found, expected, slack = np.broadcast_arrays(found, expected, slack)
        comparison = self._comparison(what)
        comparison.count += found.size
        error = np.abs(found - expected)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(error == 0, 0.0, error / slack)
        ratio = np.where(np.isnan(ratio), np.inf, ratio).ravel()
        if not ratio.size:
            return
        comparison.worst = max(comparison.worst, float(ratio.max()))
        if ratio.max() > 1:
            t = int(ratio.argmax())
            values = f"{found.ravel()[t]!r} instead of {expected.ravel()[t]!r}, {ratio[t]:.3g} times what is forgiven"
            many = f" ({int((ratio > 1).sum())} of {ratio.size} in this call)" if ratio.size > 1 else ""
            self.find(f"{what}: {values}{many}", reproduction(t) if callable(reproduction) else reproduction)

    def _comparison(self, what):
        return self.comparisons.setdefault(f"{self.place[0]}: {what}", Comparison())

    def lines(self, most=20):
        """What was tried, line by line, and the first findings of every family."""
        for what, comparison in sorted(self.comparisons.items()):
            yield f"{comparison.count:>10,} {what}; largest difference {comparison.worst:.2g} of what is forgiven"
        rounds = ", ".join(f"{name} {count:,}" for name, count in sorted(self.rounds.items()))
        total = sum(comparison.count for comparison in self.comparisons.values())
        yield f"rounds: {rounds}; {total:,} comparisons; {len(self.findings):,} findings"
        yield from self.findings[:most]
        if len(self.findings) > most:
            yield f"… and {len(self.findings) - most:,} more"
