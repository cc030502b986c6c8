"""The paper's numbers are all there, and times have training and distances apart."""

from asot_paper.names import PAPER_METHODS, SETS
from asot_paper.published import SLIPS, paper_seconds, read_published


def test_table_1_has_72_errors():
    errors = {place for place in read_published() if place[0] == "rmse"}
    assert errors == {("rmse", name, method) for name in SETS for method in PAPER_METHODS if method != "OT-EMD"}
    assert len(errors) == 72


def test_table_2_has_every_method_on_every_set():
    for name in SETS:
        for method in PAPER_METHODS:
            training, distances = paper_seconds(name, method)
            assert distances > 0
            assert (training > 0) == ("ASOT" in method)


def test_methods_that_share_anchors_share_their_training_time():
    assert all(paper_seconds(name, "ASOT-k")[0] == paper_seconds(name, "eASOT-k")[0] for name in SETS)


def test_what_the_paper_does_not_have_is_none():
    assert paper_seconds("MUTAG", "learned (ours)") is None


def test_a_slip_is_the_number_of_another_set():
    for (name, method), other in SLIPS.items():
        assert read_published()["rmse", name, method] == read_published()["rmse", other, method]
