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
    others = set(text) - set(keep)
    moves = {letter for letter in others if unicodedata.category(letter)[0] == "C" or letter in "\u2028\u2029"}
    return "".join(letter.encode("unicode_escape").decode() if letter in moves else letter for letter in text)
