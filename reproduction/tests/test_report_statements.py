"""The statements of the report are true of the results, whatever these are."""

from __future__ import annotations

import re

import numpy as np
import pytest
from asot_paper.names import CALIBRATED, DESCRIBED, METHODS, OURS, PUBLISHED, SETS
from asot_paper.published import Published
from asot_paper.report_comparisons import error_ratios, loop_ratio, open_shares, timed, with_paper
from asot_paper.report_sections import explanation
from asot_paper.report_statements import cards

from reproduction.tests.made_results import Maker, make_cells
from reproduction.tests.test_report import data_of, numbers_of, written


@pytest.fixture(scope="module")
def cells():
    return make_cells(folds=5)


def paper_of(value, name="MUTAG", method="ASOT-ML"):
    return {("rmse", name, method): Published(value, None, "x")}


def test_differences_are_judged_and_explained():
    make = Maker()
    cells = [make.run(PUBLISHED, "MUTAG", "SW", fold=fold, rmse=0.5 + 0.001 * fold) for fold in range(4)]
    cells += [make.run(PUBLISHED, "MUTAG", "eOT", rmse=0.1)]
    paper = {("rmse", "MUTAG", "SW"): Published(0.5018, None, "x"), ("rmse", "MUTAG", "eOT"): Published(0.2, None, "x")}
    near, far = with_paper(data_of(cells, paper), "rmse")
    assert (near.method, near.agrees, far.method, far.agrees) == ("SW", True, "eOT", False)


def test_quick_runs_are_not_held_against_the_paper():
    make = Maker(quick=True)
    cells = [make.run(DESCRIBED, "MUTAG", method) for method in METHODS]
    data = data_of([make.run(PUBLISHED, "MUTAG", "ASOT-ML", rmse=0.5), *cells])
    assert with_paper(data, "rmse")[0].quick
    _, holds, better = cards(data)
    assert "come back" not in holds.headline
    assert "worse" not in holds.words
    assert "trained on distances" not in better.words


# ----------------------------------------------------------------------------------------------------- the statements


def test_the_first_screen_states_what_the_results_say(cells):
    claimed, holds, better = cards(data_of(cells))
    assert not re.search(r"\d(?!024)", claimed.words.replace("2024", ""))
    ratios = [
        np.mean(numbers_of(cells, "relative", DESCRIBED, name, "ASOT-k"))
        / np.mean(numbers_of(cells, "relative", DESCRIBED, name, CALIBRATED))
        for name in SETS
    ]
    assert better.headline.startswith(f"{np.median(ratios):.1f} times less error")
    assert "12 million exact distances" in better.headline
    assert "on 7 of 7 sets of graphs (ASOT-ML)" in holds.words
    assert "12 million pairs of ZINC in 5\xa0min with 2 threads." in better.words
    assert "For 4,110 distributions of NCI1, POT's exact solver" in better.words  # not of ZINC: it was timed on NCI1
    assert "takes 46 times as long as ours on 2 threads (scaled up from a sample)." in better.words


def test_statements_without_their_cells_are_left_out():
    data = data_of([Maker().run(DESCRIBED, "MUTAG", "SW")])
    _, holds, better = cards(data)
    assert "asot paper all" in holds.words
    assert better.headline == "Not run yet"


def test_times_of_different_machines_or_devices_are_never_compared():
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", method) for method in ("eOT", "ASOT-k")]
    cells += [make.scaling(method, 100) for method in ("OT-EMD", "POT loop")]
    assert timed(data_of(cells), "eOT", "ASOT-k").set == "MUTAG"
    assert loop_ratio(data_of(cells)).n == 100
    for place in (1, 3):
        cells[place]["machine"] = {**cells[place]["machine"], "threads": 64}
    assert timed(data_of(cells), "eOT", "ASOT-k") is None
    assert loop_ratio(data_of(cells)) is None
    on_gpu = [make.run(DESCRIBED, "MUTAG", "eOT"), make.run(DESCRIBED, "MUTAG", "ASOT-k", device="cuda")]
    assert timed(data_of(on_gpu), "eOT", "ASOT-k") is None


def test_equal_numbers_of_anchors_are_claimed_only_where_they_are_equal(tmp_path):
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", "ASOT-k", k=k, fold=fold) for fold, k in enumerate((18, 18))]
    claim = "same number of anchors"
    assert claim in written(tmp_path, cells)[1].words
    cells[1]["k"] = 17
    assert claim not in written(tmp_path, cells)[1].words


def test_statements_turn_when_the_numbers_do():
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", method) for method in ("eOT", "ASOT-k", "ASOT-ML", "ASOT-DL")]
    cells[0] |= {"seconds": 1e-6}
    cells[2] |= {"relative": 0.001}
    cells[3] |= {"relative": 0.001}
    words = cards(data_of(cells))[1].words
    assert "do not save time" in words
    assert "worse" not in words


# --------------------------------------------------------------------------------------------- ours against the paper's


@pytest.mark.parametrize(
    ("rmse", "value", "agrees"),
    [
        ([0.01], 0.0264, None),  # one run of something random: nothing can be said
        ([0.0262], 0.0264, True),
        ([0.01, 0.02, 0.03, 0.04], 0.0264, None),
        ([0.01, 0.02, 0.03, 0.04, 0.05], 0.0264, True),
        ([0.010, 0.011, 0.010, 0.011, 0.010], 0.0264, False),
    ],
)
def test_what_is_random_needs_runs_before_it_can_differ(rmse, value, agrees):
    make = Maker()
    cells = [make.run(PUBLISHED, "MUTAG", "ASOT-ML", fold=fold, rmse=error) for fold, error in enumerate(rmse)]
    assert with_paper(data_of(cells, paper_of(value)), "rmse")[0].agrees is agrees


@pytest.mark.parametrize(("name", "agrees"), [("MUTAG", False), ("MNIST", None)])
def test_one_run_is_enough_where_nothing_is_random(name, agrees):
    cells = [Maker().run(PUBLISHED, name, "eOT", rmse=0.1)]
    assert with_paper(data_of(cells, paper_of(0.2, name, "eOT")), "rmse")[0].agrees is agrees


def test_too_few_runs_are_no_verdict(tmp_path):
    cells = [Maker().run(PUBLISHED, "MUTAG", method, rmse=0.5) for method in ("ASOT-ML", "ASOT-DL")]
    holds = cards(data_of(cells))[1]
    assert "come back" not in holds.headline
    assert "for 2 errors there are too few runs to tell" in holds.words
    _, page = written(tmp_path, cells)
    assert page.row("differences", "MUTAG, ASOT-ML")[-1].startswith("too few runs to tell (1 of at least 5).")


@pytest.mark.parametrize(
    "settings",
    [{"row_zero": False}, {"epochs": 3}, {"learner": "MetricAnchors, objective paper", "epochs": 40}],
)
def test_only_what_runs_as_the_public_code_is_held_against_the_paper(settings):
    cells = [Maker().run(PUBLISHED, "MUTAG", "ASOT-ML", fold=fold, rmse=0.5, settings=settings) for fold in range(5)]
    (one,) = with_paper(data_of(cells), "rmse")
    assert (one.agrees, one.faithful) == (False, False)
    assert "as its code runs" not in cards(data_of(cells))[1].words


@pytest.mark.parametrize(
    ("errors", "headline"),
    [
        ({"ASOT-ML": 0.0264, "ASOT-DL": 0.0262}, "The numbers at hand come back"),
        ({"ASOT-ML": 0.0264, "ASOT-DL": 0.5}, "Some of the numbers at hand come back"),
        ({"ASOT-ML": 0.5, "ASOT-DL": 0.5}, "The numbers at hand do not come back"),
        ({"ASOT-DL": 0.5}, "The one number at hand does not come back"),
        ({"SW": 0.5}, "Not compared yet"),
    ],
)
def test_the_headline_says_how_many_numbers_come_back(errors, headline):
    cells = [
        Maker().run(PUBLISHED, "MUTAG", method, fold=fold, rmse=rmse)
        for method, rmse in errors.items()
        for fold in range(5)
    ]
    assert cards(data_of(cells))[1].headline == headline


def test_on_digits_no_label_explains_a_difference():
    assert "digits" in explanation("MNIST", "ASOT-k")
    assert "labels" in explanation("MUTAG", "ASOT-k")


# ------------------------------------------------------------------------------------------------ method against method


@pytest.mark.parametrize(
    ("metric", "dictionary", "headline", "words"),
    [
        (0.3, 0.3, "Its ranking does not come back", "on 1 of 1 sets of graphs (ASOT-ML) and on 1 of 1 (ASOT-DL)"),
        (0.3, 0.1, "Its ranking comes back only in part", "on 1 of 1 sets of graphs (ASOT-ML) and on 0 of 1 (ASOT-DL)"),
        (0.1, 0.1, "Not compared yet", ""),
    ],
)
def test_the_ranking_names_who_loses_and_who_does_not(metric, dictionary, headline, words):
    make = Maker()
    shares = {"ASOT-k": 0.2, "ASOT-ML": metric, "ASOT-DL": dictionary}
    cells = [make.run(DESCRIBED, "MUTAG", method, relative=share) for method, share in shares.items()]
    cells += [make.run(DESCRIBED, "MNIST", method, relative=0.3) for method in ("ASOT-ML", "ASOT-DL")]
    cells += [make.run(DESCRIBED, "MNIST", "ASOT-k", relative=0.2)]  # no graphs: they do not count
    holds = cards(data_of(cells))[1]
    assert holds.headline == headline
    assert words in holds.words


def test_what_is_no_better_is_not_called_better():
    make = Maker()
    shares = {"ASOT-k": 0.1, CALIBRATED: 0.2, "ASOT-ML": 0.1, "ASOT-DL": 0.1, OURS: 0.2}
    cells = [make.run(DESCRIBED, "MUTAG", method, relative=share, timed=False) for method, share in shares.items()]
    better = cards(data_of(cells))[2]
    assert "less" not in better.headline + better.words
    assert "does not lower its error" in better.words
    assert "do not beat" in better.words


def test_the_better_of_two_is_named_only_where_both_were_run():
    make = Maker()
    cells = [make.run(DESCRIBED, "MUTAG", method) for method in ("ASOT-ML", OURS)]
    assert "the better of" not in cards(data_of(cells))[2].words


def test_quick_runs_are_not_compared_with_full_ones():
    cells = [Maker().run(DESCRIBED, "MNIST", "ASOT-k"), Maker(quick=True).run(DESCRIBED, "MNIST", CALIBRATED)]
    cells += [Maker(quick=True).run(DESCRIBED, "MNIST", "eOT")]
    assert error_ratios(data_of(cells), "ASOT-k", CALIBRATED) == {}
    assert timed(data_of(cells), "eOT", "ASOT-k") is None


def test_all_folds_count_in_the_share_that_did_not_converge():
    make = Maker()
    cells = [make.run(PUBLISHED, "MUTAG", "eASOT-k", fold=fold, not_converged=0) for fold in range(3)]
    cells.append(make.run(PUBLISHED, "MUTAG", "eASOT-k", fold=3, not_converged=17_578))
    assert open_shares(data_of(cells), PUBLISHED) == {("MUTAG", "eASOT-k"): 0.25}


def test_where_iterations_converged_the_error_is_called_a_bias(tmp_path):
    cells = [Maker().run(PUBLISHED, "MUTAG", "eOT"), Maker().run(PUBLISHED, "MNIST", "eOT", not_converged=0)]
    _, page = written(tmp_path, cells)
    assert "On MNIST all pairs of eOT had: there, its error is the bias of ε." in page.words


@pytest.mark.parametrize("seed", range(6))
def test_any_part_of_the_results_makes_a_report(seed, tmp_path):
    rng = np.random.default_rng(seed)
    every = make_cells(seed, folds=2)
    some = [every[place] for place in np.sort(rng.choice(len(every), 1 + 4 ** (seed % 5), replace=False))]
    for cell in some:
        cell["timed"] = bool(rng.integers(2))
        cell["quick"] = bool(rng.integers(2))
    markdown, page = written(tmp_path, some)
    assert len(page.all("section")) >= 3 + 3  # the cards, and what was found, made and is missing
    assert not re.search(r"\b(None|nan|inf)\b", markdown)
