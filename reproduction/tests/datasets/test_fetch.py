"""Files are there and right, or are downloaded, or the error says what to do. No test needs a network."""

import sys
import threading

import pytest
from asot_paper.datasets import fetch
from asot_paper.datasets.catalogue import KnownFile

from reproduction.tests.datasets.made import known, write
from reproduction.tests.datasets.serving import serving

CONTENT = bytes(range(256)) * 1000


def served(site, content=CONTENT, name="some.bin"):
    site.files.setdefault(name, content)
    return known(f"shelf/{name}", content, f"{site.url}/{name}")


def left(folder):
    """What lies on the shelf; lock files stay, since removing one races with those who wait for it."""
    return sorted(path.name for path in (folder / "shelf").iterdir() if path.suffix != ".lock")


# --------------------------------------------------------------------------------------------------- without network


def test_a_file_that_is_there_is_verified_and_not_downloaded(tmp_path):
    write(tmp_path, "shelf/some.bin", CONTENT)
    found = fetch.obtain(known("shelf/some.bin", CONTENT, "http://127.0.0.1:9/never"), tmp_path)
    assert found == (tmp_path / "shelf" / "some.bin", "sha256")
    assert fetch.obtain(KnownFile("shelf/some.bin"), tmp_path).verified == "no checksum is known"


def test_a_file_with_other_bytes_is_refused_and_left_alone(tmp_path):
    path = write(tmp_path, "shelf/some.bin", b"something else")
    file = known("shelf/some.bin", CONTENT, "http://127.0.0.1:9/never")
    with pytest.raises(ValueError, match=f"is not the known some.bin.*expected {file.sha256}.*Delete it"):
        fetch.obtain(file, tmp_path)
    assert path.read_bytes() == b"something else"
    assert fetch.obtain(file, tmp_path, same_content=lambda path: True).verified == "content"
    with pytest.raises(ValueError, match="is not the known"):
        fetch.obtain(file, tmp_path, same_content=lambda path: False)


def test_without_download_the_error_says_which_file_to_put_where(tmp_path):
    file = known("shelf/some.bin", CONTENT, "http://127.0.0.1:9/some.bin")
    with pytest.raises(FileNotFoundError) as caught:
        fetch.obtain(file, tmp_path, download=False)
    for part in (str(tmp_path / "shelf" / "some.bin"), file.urls[0], file.sha256, "256,000 bytes", "ASOT_DATA"):
        assert part in str(caught.value)
    assert not (tmp_path / "shelf").exists()


def test_without_a_network_the_error_says_the_same(tmp_path, capsys):
    file = known("shelf/some.bin", CONTENT, "http://127.0.0.1:9/some.bin")
    with pytest.raises(ConnectionError) as caught:
        fetch.obtain(file, tmp_path)
    for part in ("refused", str(tmp_path / "shelf" / "some.bin"), file.urls[0], file.sha256):
        assert part in str(caught.value)
    assert "downloading" in capsys.readouterr().err
    assert [name for name in left(tmp_path) if name.startswith(".")] == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "shelf").write_text("a file, not a folder")
    with pytest.raises(OSError, match=r"cannot write .*some\.bin.*Choose another folder"):
        fetch.obtain(known("shelf/some.bin", CONTENT, "http://127.0.0.1:9/some.bin"), tmp_path)


# ---------------------------------------------------------------------------------------------------------- downloads


def test_a_download_says_what_comes_from_where_and_leaves_only_the_file(tmp_path, capsys):
    with serving() as site:
        found = fetch.obtain(served(site), tmp_path)
    assert found.path.read_bytes() == CONTENT
    assert found.verified == "sha256"
    said = capsys.readouterr().err
    assert f"{site.url}/some.bin" in said
    assert str(found.path) in said
    assert left(tmp_path) == ["some.bin"]


def test_a_broken_download_is_tried_again(tmp_path):
    with serving(cuts=[100_000, 50_000]) as site:
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT
    assert len(site.requests) == 3


def test_silence_is_not_waited_for_forever(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "RETRIES", 0)
    monkeypatch.setattr(fetch, "TIMEOUT", 0.3)
    with serving(silence=3.0) as site, pytest.raises(ConnectionError, match="timed out"):
        fetch.obtain(served(site), tmp_path)
    assert [name for name in left(tmp_path) if name.startswith(".")] == []


def test_a_wrong_file_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "RETRIES", 0)
    wrong = CONTENT[::-1]
    with serving(files={"some.bin": wrong}) as site:
        file = known("shelf/some.bin", CONTENT, f"{site.url}/some.bin")
        with pytest.raises(ConnectionError, match="does not match the known hash"):
            fetch.obtain(file, tmp_path)
    assert left(tmp_path) == []


def test_a_file_without_checksum_is_looked_at_before_it_is_kept(tmp_path):
    def check(path):
        raise ValueError(f"{path.name} is a page that asks for a password")

    with serving(files={"some.bin": b"<html>"}) as site, pytest.raises(ConnectionError, match="asks for a password"):
        fetch.obtain(KnownFile("shelf/some.bin", (f"{site.url}/some.bin",)), tmp_path, check=check)
    assert left(tmp_path) == []


def test_the_next_home_is_asked_when_one_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "RETRIES", 0)
    with serving(statuses=[404]) as bad, serving(files={"some.bin": CONTENT}) as good:
        file = known("shelf/some.bin", CONTENT, f"{bad.url}/some.bin", f"{good.url}/some.bin")
        assert fetch.obtain(file, tmp_path).path.read_bytes() == CONTENT
    assert (len(bad.requests), len(good.requests)) == (1, 1)


def test_three_at_a_time_download_once(tmp_path):
    with serving(silence=0.3) as site:
        file = served(site)
        found = []
        threads = [threading.Thread(target=lambda: found.append(fetch.obtain(file, tmp_path))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [one.path.read_bytes() == CONTENT for one in found] == [True] * 3
    assert len(site.requests) == 1
    assert [name for name in left(tmp_path) if name.startswith(".")] == []


def test_a_lock_left_by_a_dead_process_stops_nobody(tmp_path):
    write(tmp_path, "shelf/.some.bin.lock", b"")
    with serving() as site:
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT


def test_without_pooch_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match="pip install pooch, or put the files there"):
        fetch.obtain(known("shelf/some.bin", CONTENT, "http://127.0.0.1:9/some.bin"), tmp_path)
