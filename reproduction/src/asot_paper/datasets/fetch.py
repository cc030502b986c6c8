"""Getting a file of the data folder: it is there and right, or it is downloaded, or the error says what to do.

Downloads are `pooch`'s, one process at a time (`filelock`). A file gets its name when all of it is there and its
checksum is right. Nothing is downloaded without a line on stderr that says what comes from where and goes where.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from asot_paper.datasets.catalogue import KnownFile
from asot_paper.datasets.folder import VARIABLE, PathLike, data_folder

Check = Callable[[Path], object]

RETRIES = 3
TIMEOUT = 30.0
"""Seconds to wait for a connection, and for further bytes."""


class Found(NamedTuple):
    """A file of the data folder, and how it was verified: "sha256", "content" or "no checksum is known"."""

    path: Path
    verified: str


def obtain(
    file: KnownFile,
    folder: PathLike | None = None,
    *,
    download: bool = True,
    same_content: Callable[[Path], bool] | None = None,
    check: Check | None = None,
) -> Found:
    """The path of a file of the data folder, downloaded if it is not there.

    ``same_content`` is asked whether a file with other bytes than the known ones holds the same data. ``check`` raises
    ValueError for a download that cannot be what it should be; it matters where no checksum is known.
    """
    path = data_folder(folder) / file.place
    if not path.is_file():
        if not download or not file.urls:
            raise FileNotFoundError(f"{path} is not there, and nothing was downloaded. {what_to_do(file, path)}")
        _download(file, path, check)
    return Found(path, _verify(file, path, same_content))


def what_to_do(file: KnownFile, path: Path) -> str:
    """How a person gets the file to its place without us."""
    facts = [] if file.n_bytes is None else [f"{file.n_bytes:,} bytes"]
    facts.append("no checksum is known" if file.sha256 is None else f"sha256 {file.sha256}")
    where = f"get it from {' or '.join(file.urls)}" if file.urls else "get it"
    return (
        f"Put it there yourself: {where} ({', '.join(facts)}), and save it as {path}. "
        f"The folder can be chosen with folder=… or the environment variable {VARIABLE}"
    )


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while piece := stream.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def _verify(file: KnownFile, path: Path, same_content: Callable[[Path], bool] | None) -> str:
    if file.sha256 is None:
        return "no checksum is known"
    found = sha256_of(path)
    if found == file.sha256:
        return "sha256"
    if same_content is not None and _holds_the_same(path, same_content):
        return "content"
    size = path.stat().st_size
    expected = "" if file.n_bytes in (None, size) else f" of {file.n_bytes:,} bytes"
    again = "Delete it, and it is downloaded again" if file.urls else "Delete it"
    raise ValueError(
        f"{path} is not the known {file.name}: its sha256 is {found} ({size:,} bytes), "
        f"expected {file.sha256}{expected}. {again}, or put the right file there"
    )


def _holds_the_same(path: Path, same_content: Callable[[Path], bool]) -> bool:
    try:
        return same_content(path)
    except ValueError:  # it is damaged, or something else altogether
        return False


def _download(file: KnownFile, path: Path, check: Check | None) -> None:
    """Get ``path`` from the first of the file's homes that has it, one process at a time."""
    pooch, filelock = (_tool(name) for name in ("pooch", "filelock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.parent / f".{file.name}.lock"):
            if not path.is_file():  # the process we waited for may have brought it
                _from_first_home(pooch, file, path, check)
    except ConnectionError:
        raise
    except OSError as error:
        raise type(error)(
            f"cannot write {path}: {error.strerror or error}. Choose another folder with folder=… or {VARIABLE}"
        ) from error


def _from_first_home(pooch: Any, file: KnownFile, path: Path, check: Check | None) -> None:
    reasons = []
    for url in file.urls:
        size = "" if file.n_bytes is None else f" ({file.n_bytes:,} bytes)"
        _say(f"downloading {url}{size} to {path}")
        part = path.with_name(f".{file.name}.part")
        try:
            _fetch(pooch, url, part, file.sha256)
            if check is not None:
                check(part)
        except (ValueError, OSError) as error:
            part.unlink(missing_ok=True)
            reasons.append(f"{url}: {' '.join(str(error).split())}")
            continue
        os.replace(part, path)
        return
    raise ConnectionError(f"cannot download {file.name}. {'; '.join(reasons)}. {what_to_do(file, path)}")


def _fetch(pooch: Any, url: str, part: Path, sha256: str | None) -> None:
    """One URL to one file, whose checksum is right where one is known; `requests`' errors are OSErrors."""
    shelf = pooch.create(
        part.parent, "", registry={part.name: None if sha256 is None else f"sha256:{sha256}"}, urls={part.name: url},
        retry_if_failed=RETRIES,
    )  # fmt: skip
    pooch.get_logger().setLevel("WARNING")  # what is downloaded was said already
    shelf.fetch(part.name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT))


def _tool(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        raise ImportError(f"downloads need {name}: pip install {name}, or put the files there") from missing


def _say(text: str) -> None:
    sys.stderr.write(f"asot: {text}\n")
    sys.stderr.flush()
