"""One URL to one file over HTTP: with a time limit, a size limit, several tries, and no byte fetched twice.

What is known of an unfinished file lies beside it: its URL, and the mark (ETag, or date) by which the server can tell
whether its own file is still the same. With the mark, HTTP's If-Range gives either the rest of the same file or all of
the new one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asot import __version__
from asot.run.progress import Progress

TIMEOUT = 30.0
"""Seconds to wait for a connection, and for further bytes."""

ATTEMPTS = 4
FIRST_PAUSE = 1.0
"""Seconds before the second attempt; each further pause is twice as long."""

LARGEST_DOWNLOAD = 2**31
"""Bytes that a file of unknown size may have."""

_PASSING = {408, 425, 429, 500, 502, 503, 504}
_CHUNK = 2**16


class Refused(Exception):
    """This URL will not give the file; the message says why."""


class Interrupted(Exception):
    """This attempt failed, another may not."""


def transfer(
    url: str,
    part: Path,
    *,
    n_bytes: int | None,
    complete: Callable[[], object],
    say: Callable[[str], object],
) -> None:
    """Download ``url`` to ``part``, continuing what is there; raise `Refused` if that cannot be done.

    ``n_bytes`` is the size the file must have, if it is known. ``complete`` raises ValueError if the finished file is
    not what it should be; it is then removed.
    """
    pause = FIRST_PAUSE
    for attempts_left in reversed(range(ATTEMPTS)):
        try:
            continued = _attempt(url, part, n_bytes)
            _check_complete(part, complete, continued)
        except Interrupted as error:
            if not attempts_left:
                raise Refused(f"{error}, in {ATTEMPTS} attempts") from error
            say(f"{error}; trying again in {pause:g} s")
            time.sleep(pause)
            pause *= 2
        except Refused:
            if _noted(part).get("url") == url:  # what another home gave may still be continued
                _forget(part)
            raise
        else:
            _notes(part).unlink(missing_ok=True)
            return


def _check_complete(part: Path, complete: Callable[[], object], continued: bool) -> None:
    try:
        complete()
    except ValueError as error:
        _forget(part)
        if continued:  # the two pieces may be of two files
            raise Interrupted(f"the continued download is not the file: {error}") from error
        raise Refused(f"what it sends is not the file: {error}") from error


def _attempt(url: str, part: Path, n_bytes: int | None) -> bool:
    """Fetch what is missing of ``part``. Returns whether bytes of an earlier attempt were kept."""
    have, mark = _kept(part, url)
    if have and have == n_bytes:
        return True
    headers = {"Range": f"bytes={have}-", "If-Range": mark} if have else {}
    with _open(url, headers, part) as response:
        if response.status == 206 and not _continues(response, have, mark):
            _forget(part)
            raise Interrupted("the server answered with another piece than it was asked for")
        start = have if response.status == 206 else 0
        length = _length(response)
        total = None if length is None else start + length
        _check_announced(total, n_bytes)
        if not start:
            part.write_bytes(b"")  # before the note: a note must never describe other bytes
            _note(part, url, response)
        with open(part, "ab") as out:
            done = _copy(response, out, start, total, n_bytes)
            out.flush()
            os.fsync(out.fileno())
    if total is not None and done < total:
        raise Interrupted(f"the connection ended after {done:,} of {total:,} bytes")
    if n_bytes is not None and done != n_bytes:
        raise Interrupted(f"the connection ended after {done:,} of {n_bytes:,} bytes")
    return start > 0


def _copy(response: Any, out: Any, start: int, total: int | None, n_bytes: int | None) -> int:
    """Append the response to the file; returns the size the file then has."""
    done = start
    limit = LARGEST_DOWNLOAD if n_bytes is None else n_bytes
    progress = Progress(None, total or limit, response.url.rpartition("/")[2], unit="B")
    progress.advance(start)
    try:
        while piece := _read(response):
            done += len(piece)
            if done > limit:
                raise Refused(f"it sends more than {limit:,} bytes")
            out.write(piece)
            progress.advance(len(piece))
    finally:
        progress.close()
    return done


def _check_announced(total: int | None, n_bytes: int | None) -> None:
    """Refuse a file whose announced size cannot be right, before any of it is fetched."""
    if total is None:
        return
    if n_bytes is not None and total != n_bytes:
        raise Refused(f"its file has {total:,} bytes; the known one has {n_bytes:,}")
    if total > LARGEST_DOWNLOAD:
        raise Refused(f"its file has {total:,} bytes; the limit is {LARGEST_DOWNLOAD:,}")


# ------------------------------------------------------------------------------------------------------------- HTTP


class _StayEncrypted(urllib.request.HTTPRedirectHandler):
    """Follow no redirect from https to something weaker."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.full_url.lower().startswith("https:") and not newurl.lower().startswith("https:"):
            fp.close()
            raise Refused(f"it redirects to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, headers: dict[str, str], part: Path) -> Any:
    """The response to a request for ``url``; errors become `Refused` or `Interrupted`."""
    own = {"User-Agent": f"asot/{__version__}", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers=own | headers)
    try:
        return urllib.request.build_opener(_StayEncrypted).open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # what we have is not the beginning of what the server has
            _forget(part)
            raise Interrupted("the server's file is shorter than what was there") from error
        message = f"the server answers {error.code} ({error.reason})"
        raise (Interrupted if error.code in _PASSING else Refused)(message) from error
    except (OSError, http.client.HTTPException) as error:
        raise Interrupted(_in_words(error)) from error


def _read(response: Any) -> bytes:
    try:
        return bytes(response.read(_CHUNK))
    except (OSError, http.client.HTTPException) as error:
        raise Interrupted(_in_words(error)) from error


def _in_words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, TimeoutError):
        return f"the server was silent for {TIMEOUT:g} s"
    if isinstance(reason, http.client.IncompleteRead):
        return "the connection ended early"
    return f"no connection ({str(reason) or type(reason).__name__})"


def _length(response: Any) -> int | None:
    text = response.headers.get("Content-Length") or ""
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None


def _continues(response: Any, have: int, mark: str) -> bool:
    """Whether a partial answer is what follows the bytes we have, of the same file."""
    first = re.match(r"bytes (\d+)-", response.headers.get("Content-Range") or "")
    return have > 0 and first is not None and int(first[1]) == have and _mark(response) in ("", mark)


# ------------------------------------------------------------------------------------- what is known of a part file


def _notes(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _mark(response: Any) -> str:
    """By what the server recognises its file: a strong ETag, else the date of the last change, else nothing."""
    tag = response.headers.get("ETag") or ""
    return tag if tag.startswith('"') else (response.headers.get("Last-Modified") or "")


def _note(part: Path, url: str, response: Any) -> None:
    _notes(part).write_text(json.dumps({"url": url, "mark": _mark(response)}), encoding="utf-8")


def _kept(part: Path, url: str) -> tuple[int, str]:
    """How many bytes of ``url`` are there to continue from, and the server's mark; 0 bytes if there is no mark."""
    note = _noted(part)
    mark = note.get("mark")
    if note.get("url") == url and isinstance(mark, str) and mark and "\n" not in mark and "\r" not in mark:
        with contextlib.suppress(OSError):
            return part.stat().st_size, mark
    return 0, ""


def _noted(part: Path) -> dict[str, Any]:
    """What the note says; nothing if there is none that can be read."""
    with contextlib.suppress(OSError, ValueError):
        note = json.loads(_notes(part).read_text(encoding="utf-8"))
        if isinstance(note, dict):
            return note
    return {}


def _forget(part: Path) -> None:
    for path in (part, _notes(part)):
        path.unlink(missing_ok=True)
