"""Text from files of strangers, for a terminal: what would move its cursor or change its title becomes an escape."""

from __future__ import annotations

import unicodedata


def printable(text: str, keep: str = "") -> str:
    r"""The text without control and formatting characters, other than those in ``keep``.

    >>> print(printable("a\x1b]0;b\x07"))
    a\x1b]0;b\x07
    """
    if text.isprintable():
        return text
    return "".join(letter if letter in keep or not _is_control(letter) else _escaped(letter) for letter in text)


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter)[0] == "C" or letter in "\u2028\u2029"


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
