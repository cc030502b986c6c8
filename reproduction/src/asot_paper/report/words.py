"""How the report writes numbers and lists, and how it keeps text from data from being read as Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from asot_paper.tables import Summary

_SPACE = "\N{NO-BREAK SPACE}"  # between a number and its unit


def quote(value: Any) -> str:
    r"""Text from data, with a backslash before every character that has a meaning in Markdown.

    >>> quote("a|b *c* <d>")
    'a\\|b \\*c\\* \\<d\\>'
    """
    return re.sub(r"([\\`*\[\]|<>]|(?<!\w)_|_(?!\w))", r"\\\1", " ".join(str(value).split()))


def listed(items: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""


def counted(count: int, one: str) -> str:
    """A count with its noun.

    >>> counted(1, "pair"), counted(8400, "pair")
    ('1 pair', '8,400 pairs')
    """
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def number(value: float, significant: int = 3) -> str:
    """A number with few digits, never in powers of ten.

    >>> [number(value) for value in (0.0, 0.012345, 12.345, 123456.7)]
    ['0', '0.0123', '12.3', '123,457']
    """
    return f"{value:,.{_decimals(value, significant)}f}"


def _decimals(value: float, significant: int) -> int:
    if value == 0 or not math.isfinite(value):
        return 0
    return max(0, significant - 1 - math.floor(math.log10(abs(value))))


def with_error(summary: Summary, *, decimals: int | None = None, factor: float = 1.0) -> str:
    r"""Mean ± standard error, with the same decimals; the mean alone where there was one run or no spread.

    Small spreads get more decimals; one more, if ``decimals`` is given.

    >>> with_error(Summary(0.1267, 0.035, 0.011, 10), decimals=4)
    '0.1267 ± 0.0110'
    >>> with_error(Summary(0.33055, 6e-6, 2e-6, 10), decimals=4)
    '0.33055 ± \\<0.00001'
    """
    mean, error = factor * summary.mean, factor * summary.standard_error
    places, most = (min(_decimals(mean, 3), 6), 6) if decimals is None else (decimals, decimals + 1)
    while summary.n > 1 and 0.0 < error < 0.5 * 10.0**-places and places < most:
        places += 1
    if decimals is not None and 0 < abs(mean) < 0.5 * 10.0**-decimals:
        return _less_than(decimals)
    shown = f"{mean:,.{places}f}" if mean else "0"
    if summary.n < 2 or not error or not math.isfinite(error):
        return shown
    return f"{shown} ± {_less_than(places) if error < 0.5 * 10.0**-places else f'{error:.{places}f}'}"


def _less_than(places: int) -> str:
    return f"\\<{10.0**-places:.{places}f}"


def percent(share: float) -> str:
    r"""A share in percent.

    >>> percent(0.1284), percent(0.0031)
    ('12.8\xa0%', '0.31\xa0%')
    """
    return f"{number(100 * share, 3 if share >= 0.1 else 2)}{_SPACE}%"


def duration(seconds: float) -> str:
    r"""A time in the unit that people would use.

    >>> [duration(value) for value in (0.0004, 0.021, 3.21, 200.0, 300.0, 9000.0)]
    ['0.40\xa0ms', '21\xa0ms', '3.2\xa0s', '3\xa0min\xa020\xa0s', '5\xa0min', '2\xa0h\xa030\xa0min']
    """
    if seconds < 1:
        return f"{number(1000 * seconds, 2)}{_SPACE}ms"
    if seconds < 100:
        return f"{number(seconds, 2)}{_SPACE}s"
    large, small = (3600, "h"), (60, "min")
    if seconds < 3600:
        large, small = (60, "min"), (1, "s")
    count, rest = divmod(round(seconds / small[0]), large[0] // small[0])
    parts = [str(count), large[1], *([str(rest), small[1]] if rest else [])]
    return _SPACE.join(parts)


def short_count(count: float) -> str:
    """A count as people would say it.

    >>> short_count(8_443_995), short_count(17_578)
    ('8.4 million', '17,578')
    """
    return f"{number(count / 1e6, 2)} million" if count >= 1e6 else f"{count:,.0f}"
