"""Tables: which cells they need, and means over folds."""

import numpy as np
import pytest
from asot_paper import tables
from asot_paper.methods import METHODS, Hardware
from asot_paper.names import CONDITIONS, DESCRIBED, PUBLISHED, SETS
from asot_paper.scale import FULL, QUICK

CPU = Hardware("cpu", 1)


def record(method, name="MUTAG", condition=PUBLISHED, **numbers):
    return {"kind": "run", "condition": condition, "set": name, "method": method, "train_seconds": 0.0} | numbers


def counts(cells):
    found = {}
    for cell in cells:
        found[cell.set, cell.method] = found.get((cell.set, cell.method), 0) + 1
    return found


def test_methods_of_the_registry_are_those_of_the_tables():
    assert tuple(METHODS) == tables.METHODS


def test_training_repeats_over_folds_and_the_rest_does_not():
    found = counts(tables.plan([PUBLISHED], SETS, tables.METHODS, FULL, CPU))
    assert found["MUTAG", "ASOT-ML"] == found["NCI1", "eASOT-k"] == found["BZR", "learned (ours)"] == 10
    assert found["MUTAG", "OT-EMD"] == found["MUTAG", "SW"] == found["COX2", "BDS-eOT"] == 1
    assert found["MNIST", "OT-EMD"] == found["MNIST", "ASOT-DL"] == 10
    assert found["ZINC", "ASOT-DL"] == found["ZINC", "eOT"] == 1


def test_seeds_repeat_what_is_random():
    found = counts(tables.plan([DESCRIBED], ["MUTAG", "MNIST"], tables.METHODS, QUICK, CPU, seeds=3))
    assert found["MUTAG", "SW"] == found["MUTAG", "ASOT-k"] == found["MNIST", "SW"] == 3
    assert found["MUTAG", "eOT"] == found["MNIST", "OT-EMD"] == 1


def test_no_two_cells_have_one_key():
    cells = tables.plan(CONDITIONS, SETS, tables.METHODS, FULL, CPU, seeds=2)
    assert len({cell.key for cell in cells}) == len(cells)
    first = next(cell.method for cell in cells if cell.set == "NCI1")
    assert first == "OT-EMD"  # its distances are what the others are compared with


@pytest.mark.parametrize("numbers", [[2.5], [1.0, 4.0], [0.3, 0.1, 0.7, 0.2]])
def test_summaries_are_those_of_numpy(numbers):
    found = tables.summarize(numbers)
    std = np.std(numbers, ddof=1) if len(numbers) > 1 else 0.0
    expected = (np.mean(numbers), std, std / np.sqrt(len(numbers)), len(numbers))
    assert (found.mean, found.std, found.standard_error, found.n) == pytest.approx(expected)


def test_there_is_no_summary_of_nothing():
    with pytest.raises(ValueError, match="no numbers"):
        tables.summarize([])


def test_groups_leave_failures_and_other_kinds_out():
    records = [
        record("SW", rmse=1.0),
        record("SW", error="no"),
        {**record("SW", rmse=2.0), "kind": "ablation"},
        record("OT-EMD", "BZR", rmse=0.0),
        record("OT-EMD", "MUTAG", DESCRIBED, rmse=0.0),
    ]
    found = tables.groups(records)
    assert list(found) == [(PUBLISHED, "MUTAG", "SW"), (PUBLISHED, "BZR", "OT-EMD"), (DESCRIBED, "MUTAG", "OT-EMD")]
    assert found[PUBLISHED, "MUTAG", "SW"] == [records[0]]


def test_a_table_shows_means_and_the_papers_numbers_only_where_they_belong():
    records = [
        record("ASOT-ML", rmse=0.02),
        record("ASOT-ML", rmse=0.03),
        record("OT-EMD", rmse=0.0),
        record("ASOT-ML", condition=DESCRIBED, rmse=7.5),
    ]
    published, described = tables.table_text("rmse", records).split(DESCRIBED)
    assert "0.0250 ± 0.0050  0.0264" in published
    assert "paper" in published
    assert "paper" not in described
    assert "7.5000" in described


def test_times_are_training_plus_distances():
    records = [record("ASOT-k", train_seconds=2.0, seconds=0.5), record("SW", seconds=3.0)]
    text = tables.table_text("seconds", records)
    assert "2 + 0.5" in text
    assert "0.1 + 1.97" in text  # the paper's
    assert tables.table_text("seconds", []) == "no finished cells"


def test_times_of_cells_that_ran_beside_other_work_are_not_shown():
    records = [record("SW", seconds=3.0), {**record("ASOT-k", train_seconds=2.0, seconds=0.5), "timed": False}]
    text = tables.table_text("seconds", records)
    assert "untimed" in text
    assert "2 + 0.5" not in text
