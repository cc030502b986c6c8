"""The command line: what it computes is what the library computes; what goes wrong is one line and an exit code."""

import os
import subprocess
import sys
import time
import warnings

import click
import numpy as np
import pytest
from click.testing import CliRunner

import asot
from asot.anchors.files import load_space
from asot.cli import cli
from asot.data.files import load_collection
from asot.saved import load_distances


@pytest.fixture
def collection(tmp_path):
    """A CSV of six distributions in the plane, with masses."""
    rng = np.random.default_rng(0)
    rows = [f"p{i % 6},{x:.6f},{y:.6f},{m:.3f}" for i, (x, y, m) in enumerate(rng.random((60, 3)) + 0.01)]
    path = tmp_path / "c.csv"
    path.write_text("id,x,y,mass\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, points=np.random.default_rng(1).random((9, 2)), offsets=[0, 4, 9])
    return path


def asot_command(*arguments):
    try:
        runner = CliRunner(mix_stderr=False)  # click up to 8.1
    except TypeError:
        runner = CliRunner()
    return runner.invoke(cli, [str(a) for a in arguments], prog_name="asot")


def succeed(*arguments):
    done = asot_command(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def fail(*arguments, code=1):
    done = asot_command(*arguments)
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    if code == 1:
        assert done.stderr.startswith("asot: error: ")
        assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_long_command_without_a_terminal_says_that_it_is_working(monkeypatch):
    slow = click.Command("slow", callback=lambda: time.sleep(0.3))
    monkeypatch.setattr(type(cli), "get_command", lambda self, ctx, name: slow)
    monkeypatch.setattr("asot.run.executors.SECONDS", 0.01)
    assert "asot: still working, 0 s\n" in asot_command("slow").stderr
    assert asot_command("-q", "slow").stderr == ""


# ------------------------------------------------------------------------------------------------------------ commands


def test_help_and_version_are_there():
    assert asot.__version__ in succeed("--version")
    for command in ("demo", "fit", "pairwise", "exact", "info"):
        assert command in succeed("--help")
        assert "Usage: asot" in succeed(command, "--help")


def test_help_is_quick_because_nothing_heavy_is_imported():
    code = (
        "import sys, asot.cli\n"
        "try: asot.cli.main()\n"
        "finally: print({'numpy', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("set()\n"), done


def test_exact_writes_the_matrix_of_the_library(tmp_path, collection):
    succeed("exact", collection, "-o", tmp_path / "d.npy", "--n-jobs", 1)
    expected = asot.pairwise_exact(load_collection(collection)).matrix()
    np.testing.assert_array_equal(np.load(tmp_path / "d.npy"), expected)


def test_exact_takes_a_metric_and_a_second_collection(tmp_path, collection, other):
    succeed("exact", collection, other, "-o", tmp_path / "d.npz", "--metric", "cityblock", "--n-jobs", 1)
    expected = asot.pairwise_exact(load_collection(collection), load_collection(other), metric="cityblock")
    found = load_distances(tmp_path / "d.npz")
    np.testing.assert_array_equal(found.matrix(), expected.matrix())
    assert found.matrix().shape == (6, 2)


def test_fit_then_pairwise_equals_pairwise_alone(tmp_path, collection):
    said = succeed("fit", collection, "-o", tmp_path / "s.npz", "--n-anchors", 5, "--random-state", 3)
    assert "5 anchors in 2 dimensions" in said
    anchor = ["pairwise", collection, "--estimate", "anchor"]
    succeed(*anchor, "-o", tmp_path / "a.npz", "--space", tmp_path / "s.npz", "--n-jobs", 1)
    succeed(*anchor, "-o", tmp_path / "b.npz", "--n-anchors", 5, "--random-state", 3, "--n-jobs", 2)
    a, b = load_distances(tmp_path / "a.npz"), load_distances(tmp_path / "b.npz")
    np.testing.assert_array_equal(a.values, b.values)
    D = load_collection(collection)
    plain = asot.pairwise(D, space=load_space(tmp_path / "s.npz"), estimate="anchor")
    np.testing.assert_array_equal(a.values, plain.values)


def test_pairwise_takes_every_option(tmp_path, collection, other):
    options = ["--reg", "auto", "--memory", "100M", "--n-jobs", 1, "--n-anchors", 4]
    succeed("pairwise", collection, other, "-o", tmp_path / "d.csv", *options)
    lines = (tmp_path / "d.csv").read_text().splitlines()
    assert lines[0] == "id_i,id_j,distance"
    assert lines[1].startswith("p0,0,")
    assert len(lines) == 1 + 6 * 2
    assert "Distances: 15 pairs" in succeed("pairwise", collection, "-o", tmp_path / "e.npz", "--reg", "0.1")


def test_info_shows_what_every_kind_of_file_holds(tmp_path, collection, other):
    assert "Distributions: 6 distributions of 10 points" in succeed("info", collection)
    assert "Distributions: 2 distributions of 4 to 5 points" in succeed("info", other)
    succeed("fit", collection, "-o", tmp_path / "s.npz", "--n-anchors", 5)
    assert "AnchorSpace: 5 anchors in 2 dimensions" in succeed("info", tmp_path / "s.npz")
    for name, said in {"d.npz": "Distances: 15 pairs", "d.csv": "Distances: 15 pairs", "d.npy": "6 × 6"}.items():
        succeed("exact", collection, "-o", tmp_path / name, "--n-jobs", 1)
        assert said in succeed("info", tmp_path / name)


def test_demo_prints_a_table_and_draws_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    said = succeed("demo", "--output", tmp_path / "x.png", "--n", 40, "--n-anchors", 8, "--n-jobs", 1)
    assert "780" in said
    assert "pairs per second" in said
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_demo_without_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("asot.commands.demo.find_spec", lambda name: None)
    said = succeed("demo", "--output", tmp_path / "x.png", "--n", 20, "--n-anchors", 5, "--n-jobs", 1)
    assert "pip install asot[plots]" in said
    assert os.listdir(tmp_path) == []


# -------------------------------------------------------------------------------------------------------------- errors


def test_wrong_inputs_are_one_line_that_names_the_file(tmp_path, collection):
    out = tmp_path / "d.npy"
    assert "missing.csv: there is no such file" in fail("exact", tmp_path / "missing.csv", "-o", out)
    (tmp_path / "t.npz").write_text("hello")
    assert "t.npz is not an .npz file" in fail("pairwise", tmp_path / "t.npz", "-o", out)
    assert "t.npz is not an .npz file" in fail("info", tmp_path / "t.npz")
    assert "t.npz is not an .npz file" in fail("pairwise", collection, "-o", out, "--space", tmp_path / "t.npz")
    (tmp_path / "t.npy").write_text("hello")
    assert "t.npy is not an array" in fail("info", tmp_path / "t.npy")
    collection.write_text("id,x\na,1\nb,oops\n")
    assert "c.csv, line 3: 'oops' in column 'x' is not a number" in fail("fit", collection, "-o", tmp_path / "s.npz")
    assert not out.exists()


def test_outputs_that_cannot_be_written_are_refused_before_the_work(tmp_path, collection, monkeypatch):
    monkeypatch.setattr("asot.data.files.load_collection", lambda path: pytest.fail("began to work"))
    gone = tmp_path / "gone"
    assert "gone does not exist" in fail("exact", collection, "-o", gone / "d.npy")
    assert "gone does not exist" in fail("pairwise", collection, "-o", gone / "d.npy")
    assert "gone does not exist" in fail("fit", collection, "-o", gone / "s.npz")
    assert "must end in .npy, .npz or .csv" in fail("exact", collection, "-o", tmp_path / "d.txt")
    assert "must end in .npz" in fail("fit", collection, "-o", tmp_path / "s.csv")
    (tmp_path / "folder.npy").mkdir()
    assert "it is a folder" in fail("exact", collection, "-o", tmp_path / "folder.npy")
    monkeypatch.setattr("asot.demo.run_demo", lambda *a, **k: pytest.fail("began to work"))
    assert "gone does not exist" in fail("demo", "--output", gone / "x.png")
    assert "must end in .png, .pdf or .svg" in fail("demo", "--output", tmp_path / "x.gif")


def test_a_failure_in_the_middle_keeps_the_old_output(tmp_path, collection, monkeypatch):
    out = tmp_path / "d.npz"
    out.write_bytes(b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("asot.data.npz.os.fsync", full)
    assert "d.npz: No space left on device" in fail("exact", collection, "-o", out)
    assert out.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["c.csv", "d.npz"]


def test_wrong_options_are_usage_errors(tmp_path, collection):
    out = tmp_path / "d.npy"
    assert "give --output, or --store" in fail("exact", collection, code=2)
    assert "neither a number nor 'auto'" in fail("pairwise", collection, "-o", out, "--reg", "some", code=2)
    assert "No such command" in fail("dance", code=2)
    both = ["--space", "s.npz", "--n-anchors", 3]
    assert "leave out --n-anchors" in fail("pairwise", collection, "-o", out, *both, code=2)


def test_values_that_the_library_refuses_are_one_line(tmp_path, collection):
    out = tmp_path / "d.npy"
    assert "reg" in fail("pairwise", collection, "-o", out, "--reg", "-1")
    assert "metric" in fail("exact", collection, "-o", out, "--metric", "nonsense")
    assert "memory" in fail("pairwise", collection, "-o", out, "--memory", "lots")
    assert "n_jobs" in fail("exact", collection, "-o", out, "--n-jobs", 0)


def test_debug_shows_the_trace(tmp_path):
    done = asot_command("--debug", "info", tmp_path / "missing.npz")
    assert done.exit_code == 1
    assert isinstance(done.exception, FileNotFoundError)


def test_a_bug_is_one_line_too(monkeypatch, collection):
    def broken(path):
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("asot.commands.files._describe", broken)
    assert "ZeroDivisionError: division by zero (asot --debug shows where)" in fail("info", collection)


def test_running_out_of_memory_is_said(monkeypatch, collection):
    def broken(path):
        raise MemoryError

    monkeypatch.setattr("asot.commands.files._describe", broken)
    assert "there is not enough memory" in fail("info", collection)


def test_ctrl_c_is_one_line_and_exit_code_130(monkeypatch, collection):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("asot.commands.files._describe", interrupted)
    assert fail("info", collection, code=130) == "asot: stopped\n"


def test_the_program_itself_prints_one_line_and_exits_with_1(tmp_path):
    command = [sys.executable, "-m", "asot.cli", "info", str(tmp_path / "missing.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"asot: error: cannot read {tmp_path / 'missing.npz'}: there is no such file\n"


def test_pairwise_within_a_stated_error(collection, tmp_path):
    exact, certain = tmp_path / "exact.npy", tmp_path / "certain.npy"
    asot_command("exact", collection, "-o", exact)
    for asked in (("--max-error", "3%"), ("--calibrated",), ("--max-error", "1e-3", "--calibrated", "--device", "cpu")):
        done = asot_command("pairwise", collection, "-o", certain, "--n-anchors", 4, *asked)
        assert done.exit_code == 0, done.output
        wrong = np.abs(np.load(certain) - np.load(exact))
        if "3%" in asked:
            assert (wrong <= 0.03 * np.load(exact) + 1e-12).all()
        if "1e-3" in asked:
            assert (wrong <= 1e-3 + 1e-12).all()


def test_an_error_that_is_not_a_number(collection, tmp_path):
    asked = ("--max-error", "small")
    assert "--max-error is a number or a share such as 5%" in fail(
        "pairwise", collection, "-o", tmp_path / "d.npz", *asked, code=2
    )


# ----------------------------------------------------------------------------------------------- inputs are never lost


@pytest.mark.parametrize("command", [["exact"], ["pairwise"], ["pairwise", "--bounds"]])
@pytest.mark.parametrize("through", ["name", "link"])
def test_an_output_never_replaces_an_input(collection, tmp_path, command, through):
    before = collection.read_bytes()
    target = collection
    if through == "link":
        target = tmp_path / "link.csv"
        target.symlink_to(collection)
    assert "would replace the input" in fail(*command, collection, "-o", target)
    assert collection.read_bytes() == before


def test_a_fitted_space_never_replaces_its_collection(other):
    before = other.read_bytes()
    assert "would replace the input" in fail("fit", other, "-o", other)
    assert other.read_bytes() == before


# ------------------------------------------------------------------------------------ neighbors, plans, clusters, pages


def test_neighbors_are_those_of_python(collection, tmp_path):
    assert "3 nearest of 6" in succeed("neighbors", collection, "--n-neighbors", "3", "-o", tmp_path / "n.csv")
    lines = (tmp_path / "n.csv").read_text().splitlines()
    D = load_collection(collection)
    found = asot.kneighbors(D, n_neighbors=3)
    assert lines[0] == "id,rank,neighbor,distance"
    first = lines[1].split(",")
    assert first[:3] == [D.ids[0], "1", D.ids[found.indices[0, 0]]]
    assert float(first[3]) == found.distances[0, 0]
    succeed("neighbors", collection, "-o", tmp_path / "n.npz")
    assert np.load(tmp_path / "n.npz")["indices"].shape == (6, 5)


def test_a_plan_moves_all_mass_at_the_cost_of_w1(collection, tmp_path):
    said = succeed("plan", collection, "p0", "p3", "-o", tmp_path / "plan.csv")
    D = load_collection(collection)
    assert f"W1 = {asot.plan(D, 0, 3, exact=True).cost:.6g} between p0 and p3" in said
    moved = np.loadtxt(tmp_path / "plan.csv", delimiter=",", skiprows=1)
    assert moved[:, 2].sum() == pytest.approx(1.0)
    assert np.hypot(*(moved[:, 3:5] - moved[:, 5:7]).T) @ moved[:, 2] == pytest.approx(
        asot.plan(D, 0, 3, exact=True).cost
    )
    assert "no distribution is called 'x'" in fail("plan", collection, "x", "p3", "-o", tmp_path / "p.csv")
    assert "numbered 0 to 5" in fail("plan", collection, "17", "p3", "-o", tmp_path / "p.csv")


def test_every_distance_has_its_flags(collection, tmp_path):
    D = load_collection(collection)
    flags = ("--p", "2", "--metric", "cityblock", "--unmatched", "50")
    distance = {"p": 2, "metric": "cityblock", "unmatched": 50.0}
    succeed("exact", collection, *flags, "-o", tmp_path / "d.npy")
    assert np.array_equal(np.load(tmp_path / "d.npy"), asot.pairwise_exact(D, **distance).matrix())
    succeed("neighbors", collection, *flags, "-o", tmp_path / "n.npz")
    assert np.array_equal(np.load(tmp_path / "n.npz")["distances"], asot.kneighbors(D, **distance).distances)
    said = succeed("plan", collection, "p0", "p3", *flags, "-o", tmp_path / "plan.csv")
    T = asot.plan(D, 0, 3, **distance)
    assert f"W2 = {T.cost:.6g} between" in said
    lines = [line.split(",") for line in (tmp_path / "plan.csv").read_text().splitlines()[1:]]
    assert len(lines) == T.nnz + sum(np.count_nonzero(left) for left in T.unmatched)
    assert "neither a number nor 'diagonal'" in fail(
        "exact", collection, "--unmatched", "edge", "-o", tmp_path / "d.npy", code=2
    )
    assert "--p" in fail("exact", collection, "--p", "0.5", "-o", tmp_path / "d.npy", code=2)


def test_clusters_name_every_distribution(collection, tmp_path):
    succeed("cluster", collection, "--n-clusters", "2", "-o", tmp_path / "c2.csv")
    lines = (tmp_path / "c2.csv").read_text().splitlines()
    assert lines[0] == "id,cluster"
    assert [line.split(",")[0] for line in lines[1:]] == [f"p{i}" for i in range(6)]


def test_a_page_is_written_beside_the_distances(collection, tmp_path):
    succeed("exact", collection, "-o", tmp_path / "d.npz")
    (tmp_path / "labels.csv").write_text("id,group\n" + "\n".join(f"p{i},{'ab'[i % 2]}" for i in range(6)))
    succeed("view", tmp_path / "d.npz", "--collection", collection, "--labels", tmp_path / "labels.csv")
    assert "<!doctype html>" in (tmp_path / "d.html").read_text()
    assert "must end in .html" in fail("view", tmp_path / "d.npz", "-o", tmp_path / "d.txt")
    (tmp_path / "labels.csv").write_text("id,group\np0,a\n")
    lacking = fail("view", tmp_path / "d.npz", "--collection", collection, "--labels", tmp_path / "labels.csv")
    assert "no group for 'p1' (5 of 6 are missing)" in lacking


def test_collections_are_converted(collection, tmp_path):
    succeed("convert", collection, "-o", tmp_path / "c.npz")
    assert len(load_collection(tmp_path / "c.npz")) == 6
    assert "would replace the input" in fail("convert", collection, "-o", collection)


def test_a_warning_is_one_line_without_source(collection, tmp_path, monkeypatch):
    def warn(*args, **options):
        warnings.simplefilter("always")
        warnings.warn("two\nlines", stacklevel=1)
        raise ValueError("and an error")

    monkeypatch.setattr(asot, "pairwise_exact", warn)
    done = asot_command("exact", collection, "-o", tmp_path / "d.npz")
    assert done.stderr == "asot: warning: two lines\nasot: error: and an error\n"
