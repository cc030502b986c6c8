"""Files are there and right, or are downloaded, or the error says what to do. No test needs a network."""

import threading
import urllib.request

import pytest

from asot.datasets import fetch, transfer
from asot.datasets.catalogue import KnownFile
from tests.datasets.made import known, write
from tests.datasets.serving import serving

CONTENT = bytes(range(256)) * 1000


def served(site, content=CONTENT, name="some.bin"):
    site.files.setdefault(name, content)
    return known(f"shelf/{name}", content, f"{site.url}/{name}")


def hidden(folder):
    return sorted(path.name for path in (folder / "shelf").glob(".*"))


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
    for part in ("no connection", "4 attempts", str(tmp_path / "shelf" / "some.bin"), file.urls[0], file.sha256):
        assert part in str(caught.value)
    assert "trying again" in capsys.readouterr().err
    assert hidden(tmp_path) == []


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
    assert [path.name for path in found.path.parent.iterdir()] == ["some.bin"]


def test_a_broken_download_is_continued(tmp_path):
    with serving(cuts=[100_000, 50_000]) as site:
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT
    assert site.bytes_asked() == [None, "bytes=100000-", "bytes=150000-"]
    assert site.requests[1]["If-Range"] == '"one"'


def test_a_later_process_continues_where_an_earlier_one_gave_up(tmp_path):
    with serving(cuts=[1000, 1000, 1000, 1000], etag=None, date="Tue, 15 Nov 1994 12:45:26 GMT") as site:
        with pytest.raises(ConnectionError, match="the connection ended after 4,000 of 256,000 bytes, in 4 attempts"):
            fetch.obtain(served(site), tmp_path)
        assert hidden(tmp_path) == [".some.bin.part", ".some.bin.part.json"]
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT
    assert site.bytes_asked()[-1] == "bytes=4000-"
    assert hidden(tmp_path) == []


def test_a_server_that_ignores_ranges_sends_all_of_it_again(tmp_path):
    with serving(cuts=[1000], ranges=False) as site:
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT
    assert site.bytes_asked() == [None, "bytes=1000-"]


def test_a_file_that_changed_on_the_server_is_never_mixed_with_the_old_one(tmp_path):
    new = CONTENT[::-1]
    for settings in ({}, {"checks_if_range": False}):  # the second server forgets to look at If-Range
        folder = tmp_path / str(len(settings))
        with serving(cuts=[1000] * 4, files={"some.bin": CONTENT}, **settings) as site:
            file = KnownFile("shelf/some.bin", (f"{site.url}/some.bin",))
            with pytest.raises(ConnectionError):
                fetch.obtain(file, folder)
            site.files["some.bin"], site.etag = new, '"two"'
            assert fetch.obtain(file, folder).path.read_bytes() == new


def test_pieces_of_two_files_are_found_out_by_the_checksum_and_fetched_again(tmp_path):
    """A server that gives the same mark to different files."""
    with serving(cuts=[1000] * 4, files={"some.bin": CONTENT[::-1]}) as site:
        file = known("shelf/some.bin", CONTENT, f"{site.url}/some.bin")
        with pytest.raises(ConnectionError):
            fetch.obtain(file, tmp_path)
        site.files["some.bin"] = CONTENT
        assert fetch.obtain(file, tmp_path).path.read_bytes() == CONTENT
    assert site.bytes_asked()[-2:] == ["bytes=4000-", None]


def test_an_answer_with_another_piece_than_asked_for_is_not_used(tmp_path):
    with serving(cuts=[1000], shift=10) as site:
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT
    assert site.bytes_asked() == [None, "bytes=1000-", None]


def test_a_part_that_is_longer_than_the_servers_file_is_forgotten(tmp_path):
    with serving(cuts=[200_000] + [0] * 3, files={"some.bin": CONTENT}) as site:
        file = KnownFile("shelf/some.bin", (f"{site.url}/some.bin",))
        with pytest.raises(ConnectionError):
            fetch.obtain(file, tmp_path)
        site.files["some.bin"] = b"short"
        assert fetch.obtain(file, tmp_path).path.read_bytes() == b"short"


def test_a_finished_part_is_not_fetched_again(tmp_path):
    """The process that fetched it ended before the file got its name."""
    with serving(cuts=[1000] * 4) as site:
        with pytest.raises(ConnectionError):
            fetch.obtain(served(site), tmp_path)
        write(tmp_path, "shelf/.some.bin.part", CONTENT)
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT
    assert len(site.requests) == 4


def test_without_a_mark_of_the_server_a_download_begins_anew(tmp_path):
    with serving(cuts=[1000], etag='W/"weak"') as site:
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT
    assert site.bytes_asked() == [None, None]


def test_an_unreadable_note_beside_a_part_is_ignored(tmp_path):
    for note in (b"", b"[]", b'{"url": 3}', b"\xff"):
        write(tmp_path, "shelf/.some.bin.part", b"rubbish")
        write(tmp_path, "shelf/.some.bin.part.json", note)
        with serving() as site:
            path = fetch.obtain(served(site), tmp_path).path
        assert path.read_bytes() == CONTENT
        path.unlink()


def test_chunked_answers_are_read_and_their_early_end_is_noticed(tmp_path):
    with serving(chunked=True, cuts=[1000], etag=None) as site:
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT
    assert len(site.requests) == 2


def test_silence_is_not_waited_for_forever(tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "ATTEMPTS", 2)
    monkeypatch.setattr(transfer, "TIMEOUT", 0.3)
    with serving(silence=3.0) as site, pytest.raises(ConnectionError, match=r"silent for 0\.3 s, in 2 attempts"):
        fetch.obtain(served(site), tmp_path)


def test_passing_faults_of_a_server_are_tried_again_and_others_are_not(tmp_path):
    with serving(statuses=[503, 429, 500]) as site:
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT
    assert len(site.requests) == 4
    with serving(statuses=[403]) as site, pytest.raises(ConnectionError, match=r"answers 403 \(Forbidden\)"):
        fetch.obtain(served(site, name="other.bin"), tmp_path)
    assert len(site.requests) == 1
    with serving() as site, pytest.raises(ConnectionError, match="answers 404"):
        fetch.obtain(known("shelf/other.bin", CONTENT, f"{site.url}/missing.bin"), tmp_path)
    assert hidden(tmp_path) == []


def test_a_wrong_file_is_not_kept(tmp_path):
    wrong = CONTENT[::-1]
    with serving(files={"some.bin": wrong}) as site:
        file = known("shelf/some.bin", CONTENT, f"{site.url}/some.bin")
        with pytest.raises(ConnectionError, match=f"not the file: its sha256 is .*expected {file.sha256}"):
            fetch.obtain(file, tmp_path)
    assert len(site.requests) == 1
    assert list((tmp_path / "shelf").iterdir()) == []


@pytest.mark.parametrize("settings", [{}, {"chunked": True}])
def test_more_bytes_than_the_known_file_has_are_not_fetched(tmp_path, settings):
    with serving(files={"some.bin": CONTENT}, **settings) as site:
        file = known("shelf/some.bin", CONTENT[:1000], f"{site.url}/some.bin")
        with pytest.raises(ConnectionError, match=r"has 256,000 bytes; the known one has 1,000|more than 1,000 bytes"):
            fetch.obtain(file, tmp_path)
    assert list((tmp_path / "shelf").iterdir()) == []


@pytest.mark.parametrize("settings", [{}, {"chunked": True}])
def test_a_file_of_unknown_size_is_bounded(tmp_path, monkeypatch, settings):
    monkeypatch.setattr(transfer, "LARGEST_DOWNLOAD", 100_000)
    message = r"the limit is 100,000|more than 100,000 bytes"
    with serving(files={"some.bin": CONTENT}, **settings) as site, pytest.raises(ConnectionError, match=message):
        fetch.obtain(KnownFile("shelf/some.bin", (f"{site.url}/some.bin",)), tmp_path)
    assert list((tmp_path / "shelf").iterdir()) == []


def test_a_file_without_checksum_is_looked_at_before_it_is_kept(tmp_path):
    def check(path):
        raise ValueError(f"{path.name} is a page that asks for a password")

    with serving(files={"some.bin": b"<html>"}) as site, pytest.raises(ConnectionError, match="asks for a password"):
        fetch.obtain(KnownFile("shelf/some.bin", (f"{site.url}/some.bin",)), tmp_path, check=check)
    assert list((tmp_path / "shelf").iterdir()) == []


def test_the_next_home_is_asked_when_one_fails(tmp_path):
    with serving(statuses=[404]) as bad, serving(files={"some.bin": CONTENT}) as good:
        file = known("shelf/some.bin", CONTENT, f"{bad.url}/some.bin", f"{good.url}/some.bin")
        assert fetch.obtain(file, tmp_path).path.read_bytes() == CONTENT
    assert (len(bad.requests), len(good.requests)) == (1, 1)


@pytest.mark.parametrize("order", [1, -1])
def test_a_home_that_refuses_does_not_cost_what_another_one_gave(tmp_path, order):
    with serving() as bad, serving(cuts=[1000] * 4, files={"some.bin": CONTENT}) as slow:
        file = known("shelf/some.bin", CONTENT, *[f"{site.url}/some.bin" for site in (bad, slow)][::order])
        with pytest.raises(ConnectionError, match="answers 404"):
            fetch.obtain(file, tmp_path)
        assert fetch.obtain(file, tmp_path).path.read_bytes() == CONTENT
    assert slow.bytes_asked()[-1] == "bytes=4000-"


def test_redirects_are_followed_but_not_out_of_encryption(tmp_path):
    with serving(redirect="/elsewhere/some.bin") as site:
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT

    class Answer:
        closed = False

        def close(self):
            self.closed = True

    answer, request = Answer(), urllib.request.Request("https://example.org/some.bin")
    with pytest.raises(transfer.Refused, match="which is not encrypted"):
        transfer._StayEncrypted().redirect_request(request, answer, 302, "Found", {}, "http://example.org/some.bin")
    assert answer.closed


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
    assert hidden(tmp_path) == []


def test_a_lock_left_by_a_dead_process_stops_nobody(tmp_path):
    write(tmp_path, "shelf/.some.bin.lock", b"")
    with serving() as site:
        assert fetch.obtain(served(site), tmp_path).path.read_bytes() == CONTENT
