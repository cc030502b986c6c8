"""Progress: told to a function, shown to a person, and silent when nobody is there."""

from __future__ import annotations

import re
import sys
import time

import numpy as np
import pytest

import asot
import asot.run.executors


def solve(progress, n=30, **options):
    return asot.emd_many(np.eye(n), cost=1.0 - np.eye(n), progress=progress, **options)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_function_is_reported_how_far_it_is_until_the_end(n_jobs):
    told = []
    solve(lambda done, total: told.append((done, total)), memory=2000, n_jobs=n_jobs)
    done, totals = zip(*told, strict=True)
    assert len(told) > 3
    assert set(totals) == {435}
    assert list(done) == sorted(set(done))
    assert done[-1] == 435


def test_true_shows_a_bar(capsys):
    solve(True)
    shown = capsys.readouterr()
    assert "435" in shown.err
    assert "pair/s" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_where_nobody_watches(capsys, monkeypatch, progress):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    solve(progress)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_quick_job_shows_nothing(capsys, monkeypatch):
    monkeypatch.setattr(asot.run.executors, "somebody_watches", lambda: True)
    solve(None)
    assert capsys.readouterr().err.strip() == ""


@pytest.mark.parametrize(("n", "stage", "unit"), [(None, "exact distances", "pair"), (3, "nearest neighbors", "row")])
def test_a_store_names_its_stage_and_what_it_counts(tmp_path, capsys, n, stage, unit):
    pytest.importorskip("zarr")
    D = asot.Distributions.from_list(list(np.random.default_rng(0).normal(size=(25, 6, 2))))
    sink = asot.sinks.Store(tmp_path / "run.zarr")
    if n is None:
        asot.pairwise_exact(D, sink=sink, progress=True)
    else:
        asot.kneighbors(D, n, sink=sink, progress=True)
    assert re.search(rf"{stage} \(stored\): 100%.*{unit}/s", capsys.readouterr().err)


def test_every_stage_has_its_name_and_the_time_left(capsys):
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(size=(6, 2)) for _ in range(25)])
    on_anchors = {"n_anchors": 4, "estimate": "anchor"}
    for call, stages in (
        (lambda: asot.pairwise_exact(D, progress=True), ["exact distances"]),
        (lambda: asot.pairwise(D, progress=True, **on_anchors), ["distances on anchors"]),
        (lambda: asot.pairwise(D, progress=True, reg=0.1, **on_anchors), ["entropic distances"]),
        (
            lambda: asot.pairwise(D, progress=True, n_anchors=4, estimate="calibrated"),
            ["measuring", "exact distances", "estimates"],
        ),
        (lambda: asot.WassersteinKMeans(2, n_anchors=4, progress=True).fit(D), ["distances", "starts"]),
        (lambda: asot.kneighbors(D, 3, progress=True), ["nearest neighbors"]),
        (lambda: asot.radius_neighbors(D, progress=True), ["neighbors within the radius"]),
    ):
        call()
        bars = capsys.readouterr().err.replace("\r", "\n").splitlines()
        for stage in stages:
            assert any(re.match(rf"{stage}: .*<\d\d:\d\d", bar) for bar in bars), (stage, bars)


def wait_for(words, capsys, seconds=20.0):
    """What was written to stderr, once the words are in it."""
    written, end = "", time.monotonic() + seconds
    while words not in written and time.monotonic() < end:
        time.sleep(0.01)
        written += capsys.readouterr().err
    return written


def test_a_command_without_a_terminal_says_how_far_it_is_in_plain_lines(capsys, monkeypatch):
    monkeypatch.setattr(asot.run.executors, "somebody_watches", lambda: False)
    with asot.run.executors.lines_without_terminal(seconds=0.01):
        assert "asot: still working, 0 s\n" in wait_for("still working", capsys)
        with asot.run.executors.Progress(None, 200, "exact distances") as shown:
            shown.advance(50)
            assert "asot: exact distances: 50 of 200 pairs (25 %), 0 s\n" in wait_for("(25 %)", capsys)
        wait_for("still working", capsys)
    time.sleep(0.05)
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_there_are_no_lines_beside_the_bar(capsys, monkeypatch):
    monkeypatch.setattr(asot.run.executors, "somebody_watches", lambda: True)
    with asot.run.executors.lines_without_terminal(seconds=0.001):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_what_is_counted_is_forgotten_with_its_counter():
    before = len(asot.run.executors._running)
    with pytest.raises(ZeroDivisionError):
        solve(lambda done, total: 1 / 0)
    asot.run.executors.Progress(None, 1, "nothing").close()
    assert len(asot.run.executors._running) <= before + 1
