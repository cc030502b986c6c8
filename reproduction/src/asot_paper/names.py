"""The names of conditions, sets and methods, in the order in which tables show them. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Sequence

PUBLISHED = "as published"
DESCRIBED = "as described"
CONDITIONS = (PUBLISHED, DESCRIBED)

TU_SETS = ("MUTAG", "PTC_MR", "ENZYMES", "BZR", "COX2", "NCI1")
SETS = (*TU_SETS, "ZINC", "MNIST")
LARGE_SETS = ("NCI1", "ZINC")
"""Millions of pairs each: left out of quick runs."""

CALIBRATED = "ASOT-k calibrated"
OURS = "learned (ours)"
PAPER_METHODS = (
    "OT-EMD",
    "SW",
    "eOT",
    "BDS-eOT",
    "ASOT-k",
    "ASOT-ML",
    "ASOT-DL",
    "eASOT-k",
    "eASOT-ML",
    "eASOT-DL",
)
METHODS = (*PAPER_METHODS, CALIBRATED, OURS)


def has_row_zero_rule(method: str) -> bool:
    """Whether the paper's column for a method was computed with the row-0 rule: all but BDS-eOT's were.

    The paper's BDS-eOT is the same distance as its eOT, and its errors are those of eOT without the rule.
    """
    return method != "BDS-eOT"


def pick(text: str | None, valid: Sequence[str], what: str) -> tuple[str, ...]:
    """The names in a list such as ``"MUTAG, bzr"``, in the order of ``valid``; all of them for None.

    >>> pick("bzr,MUTAG", SETS, "set")
    ('MUTAG', 'BZR')
    """
    if text is None:
        return tuple(valid)
    by_lower = {name.lower(): name for name in valid}
    wanted = {entry.strip().lower(): entry.strip() for entry in text.split(",") if entry.strip()}
    for lower, entry in wanted.items():
        if lower not in by_lower:
            raise ValueError(f"unknown {what} {entry!r}; choose from {', '.join(valid)}")
    if not wanted:
        raise ValueError(f"no {what} is named; choose from {', '.join(valid)}")
    return tuple(name for name in valid if name.lower() in wanted)
