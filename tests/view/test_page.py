"""The page of `asot view`: what it carries, and what a browser makes of it."""

from __future__ import annotations

import base64
import json
import re
import subprocess

import numpy as np
import pytest

import asot
from asot.view import write_page
from asot.view.page import MOST, page_data, render
from tests.browser import FLAGS, MISSING, find_browser, look


@pytest.fixture(scope="module")
def digits():
    D, labels, _ = asot.datasets.load_digits(24)
    return D, labels, asot.pairwise(D, bounds=True, random_state=0, estimate="anchor")


def carried(path):
    found = re.search(r'<script type="application/json" id="data">(.+?)</script>', path.read_text(), flags=re.DOTALL)
    return json.loads(found[1])


def shares(text, largest):
    return np.frombuffer(base64.b64decode(text), dtype="<u2") / 65535 * largest


def test_the_page_carries_distances_bounds_and_names(tmp_path, digits):
    D, labels, r = digits
    write_page(tmp_path / "p.html", r, D, labels=labels)
    data = carried(tmp_path / "p.html")
    assert data["names"] == [str(one) for one in D.ids]
    np.testing.assert_allclose(shares(data["distances"], data["largest"]), r.values, atol=data["largest"] / 60_000)
    np.testing.assert_allclose(shares(data["lower"], data["largest"]), r.lower, atol=data["largest"] / 60_000)
    assert sorted(data["order"]) == list(range(24))


def test_a_name_cannot_end_the_script(digits):
    _, _, r = digits
    data = page_data(r, None, labels=None, title="</script><script>alert(1)</script>")
    assert "<script>alert" not in render(data)


@pytest.mark.parametrize("word", ["__DATA__", "__TITLE__"])
def test_a_title_is_a_title_whatever_it_says(tmp_path, digits, word):
    D, _, r = digits
    write_page(tmp_path / "p.html", r, D, title=f"{word} & more")
    assert f"<title>{word} &amp; more</title>" in (tmp_path / "p.html").read_text()
    assert carried(tmp_path / "p.html")["title"] == f"{word} & more"


def test_results_that_a_page_cannot_show_are_refused(digits):
    D, labels, r = digits
    with pytest.raises(ValueError, match=r"distances are between 24 distributions, but the collection has 5"):
        page_data(r, D[:5], labels=None, title=None)
    with pytest.raises(ValueError, match="labels must have one entry"):
        page_data(r, D, labels=labels[:3], title=None)
    with pytest.raises(ValueError, match="square matrix"):
        page_data(asot.pairwise_exact(D[:3], D[3:5]), None, labels=None, title=None)
    with pytest.raises(ValueError, match=f"at most {MOST:,}"):
        page_data(np.zeros((MOST + 1, MOST + 1)), None, labels=None, title=None)


def test_one_and_two_distributions_have_a_page(tmp_path, digits):
    D, _, _ = digits
    for n in (1, 2, 3):
        write_page(tmp_path / "few.html", asot.pairwise_exact(D[:n]), D[:n])
        assert len(carried(tmp_path / "few.html")["places"]) == n


@pytest.mark.skipif(find_browser() is None, reason=MISSING)
def test_a_browser_shows_it_without_complaint(tmp_path, digits):
    D, labels, r = digits
    write_page(tmp_path / "p.html", r, D, labels=labels)
    seen = look(tmp_path, "p.html", (390, 1280))
    assert seen.console == []
    for measure in seen.measures:
        assert measure["page"] <= measure["width"], "the page must not scroll sideways"
        assert measure["outside"] == []
        assert measure["contrast"] >= 3.0
        assert measure["letters"] >= 11


@pytest.mark.skipif(find_browser() is None, reason=MISSING)
def test_the_plan_in_the_browser_costs_what_the_exact_one_does(tmp_path, digits):
    D, _, _ = digits
    r = asot.pairwise_exact(D)
    write_page(tmp_path / "p.html", r, D)
    done = subprocess.run(
        [find_browser(), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{tmp_path}/p.html"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    shown = re.search(r"original points ([\d.e-]+); the result says ([\d.e-]+)\. ", done.stdout)
    nearest = r.matrix()[0, 1:].min()
    assert float(shown[1]) == pytest.approx(nearest, rel=1e-3)
    assert float(shown[2]) == pytest.approx(nearest, rel=1e-3)


def test_a_large_map_is_made_in_steps_between_which_ctrl_c_is_heard(monkeypatch):
    """One call into LAPACK for all eigenvectors of 3,000 distributions is deaf for seconds; two vectors need none."""
    from scipy.spatial.distance import cdist

    from asot.learn import maps

    x = np.random.default_rng(0).normal(size=(620, 5)) * [5.0, 3.0, 1.0, 0.5, 0.2]
    matrix = cdist(x, x)
    monkeypatch.setattr(maps, "MOST_BY_ALL", 10**6)
    by_all = maps.classical_scaling(matrix)
    monkeypatch.undo()
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: pytest.fail("all eigenvectors at once"))
    np.testing.assert_allclose(maps.classical_scaling(matrix), by_all, atol=1e-6)


def test_a_large_map_of_equal_distances_is_made_all_the_same():
    from asot.learn.maps import classical_scaling

    assert np.isfinite(classical_scaling(1.0 - np.eye(510))).all()
    assert not classical_scaling(np.zeros((510, 510))).any()


def test_the_page_says_when_points_are_left_out_and_how_to_keep_them(tmp_path, digits, monkeypatch):
    from asot.view import page

    D, _, r = digits
    monkeypatch.setattr(page, "MOST_NUMBERS", 10)
    said = write_page(tmp_path / "p.html", r, D)
    assert "left out" in said
    assert "--all-points" in said
    assert "points" not in carried(tmp_path / "p.html")
    assert carried(tmp_path / "p.html")["left_out"] == said
    assert write_page(tmp_path / "p.html", r, D, all_points=True) is None
    assert "points" in carried(tmp_path / "p.html")


def test_pairs_within_noise_are_marked(digits):
    D, _, r = digits
    floor = asot.noise_floor(D, random_state=0)
    data = page_data(r, D, labels=None, title=None, noise=floor)
    own = floor.matrix()[np.triu_indices(24, 1)].clip(max=data["largest"])
    np.testing.assert_allclose(shares(data["noise"], data["largest"]), own, atol=data["largest"] / 60_000)


def test_kinds_need_a_collection_and_one_entry_per_point(digits):
    D, _, r = digits
    with pytest.raises(ValueError, match="kinds of points need the collection"):
        page_data(r, None, labels=None, title=None, kinds=np.zeros(5))
    with pytest.raises(ValueError, match="one entry for each"):
        page_data(r, D, labels=None, title=None, kinds=np.zeros(5))


@pytest.mark.skipif(find_browser() is None, reason=MISSING)
def test_the_browser_sums_a_plan_by_kind_as_python_does(tmp_path, digits):
    D, _, _ = digits
    r = asot.pairwise_exact(D)
    kinds = np.where(D.points[:, 0] > np.median(D.points[:, 0]), "right", "left")
    write_page(tmp_path / "p.html", r, D, kinds=kinds, noise=asot.noise_floor(D, random_state=0))
    done = subprocess.run(
        [find_browser(), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{tmp_path}/p.html"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    shown = re.search(r'<tbody id="moves">(.+?)</tbody>', done.stdout, flags=re.DOTALL)[1]
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", shown)]
    nearest = 1 + int(np.argmin(r.matrix()[0, 1:]))
    parts = asot.plan(D, 0, nearest, exact=True).by(kinds, values="cost")
    total = parts.to_numpy().sum()
    for source, target, _, share in cells:
        assert float(share.split()[0]) == pytest.approx(100 * parts.loc[source, target] / total, abs=0.5)
    assert "pairs are no farther apart" in done.stdout


@pytest.mark.skipif(find_browser() is None, reason=MISSING)
@pytest.mark.parametrize("few", [True, False])
def test_the_map_names_few_distributions_where_names_do_not_collide(tmp_path, few, monkeypatch):
    places = [[i % 9, i // 9] for i in range(11 if few else 65)]
    D = asot.Distributions.from_list([[place] for place in places], ids=[f"n{i}." for i in range(len(places))])
    monkeypatch.setattr("asot.view.page.embed", lambda matrix, method: np.array(places, float))
    write_page(tmp_path / "p.html", asot.pairwise_exact(D))
    heard = """</title><script>const fill = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
      document.documentElement.dataset.said = (document.documentElement.dataset.said || "") + text;
      return fill.call(this, text, ...at);
    };</script>"""
    page = (tmp_path / "p.html").read_text()
    (tmp_path / "p.html").write_text(page.replace("</title>", heard, 1))
    done = subprocess.run(
        [find_browser(), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{tmp_path}/p.html"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    said = set(re.search(r'data-said="([^"]+)"', done.stdout)[1].split(".")) - {""}
    assert said == ({f"n{i}" for i in range(11)} if few else {"n0", "n1"})
