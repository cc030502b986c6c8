"""Cells: their keys change with everything that changes numbers, and with nothing else."""

from dataclasses import replace

import pytest
from asot_paper.cells import Cell, failed_record_of, make_cell, record_of
from asot_paper.methods import Hardware
from asot_paper.names import DESCRIBED, PUBLISHED
from asot_paper.scale import FULL, QUICK

CPU = Hardware("cpu", 1)


def cell(method="eASOT-ML", condition=PUBLISHED, name="MUTAG", scale=FULL, hardware=CPU, **more):
    return make_cell("run", condition, name, method, scale, hardware, **more)


def test_the_key_is_the_same_on_every_run():
    assert cell().key == cell().key == "".join(cell().key)
    assert len(cell().key) == 20


@pytest.mark.parametrize(
    "other",
    [
        cell(method="eASOT-DL"),
        cell(condition=DESCRIBED),
        cell(name="BZR"),
        cell(fold=1),
        cell(seed=1),
        cell(row_zero=False),
        cell(max_iter=200),
        cell(scale=QUICK),
        cell(scale=replace(FULL, published_epochs=499)),
        cell(hardware=Hardware("cuda", 1)),
        cell(size=5),
        cell(more={"learned_on": "everything"}),
        make_cell("ablation", PUBLISHED, "MUTAG", "eASOT-ML", FULL, CPU),
    ],
)
def test_the_key_changes_with_what_changes_numbers(other):
    assert other.key != cell().key


def test_the_key_knows_what_a_method_does_not_use():
    assert cell("SW", hardware=Hardware("cuda", 1)).key == cell("SW").key
    assert cell(hardware=Hardware("cpu", 8)).key == cell().key
    assert cell("SW", max_iter=7).key == cell("SW").key
    assert cell("eOT", scale=replace(FULL, published_epochs=9)).key == cell("eOT").key
    assert cell(condition=DESCRIBED, row_zero=False).key == cell(condition=DESCRIBED).key
    assert cell(scale=replace(FULL, digits=3)).key == cell().key
    assert cell(name="MNIST", scale=replace(FULL, digits=3)).key != cell(name="MNIST").key
    described = cell(name="ZINC", condition=DESCRIBED)
    assert cell(name="ZINC", condition=DESCRIBED, scale=replace(FULL, zinc_graphs=300)).key != described.key
    assert cell(name="ZINC", scale=replace(FULL, zinc_graphs=300)).key == cell(name="ZINC").key
    assert cell(name="ZINC", scale=replace(FULL, published_zinc_graphs=300)).key != cell(name="ZINC").key


def test_a_record_keeps_all_that_produced_it():
    made = record_of(cell(fold=3), CPU, {"rmse": 0.5, "device": "cuda:0", "settings": {"reg": 0.1}})
    assert made["key"] == cell(fold=3).key
    assert (made["fold"], made["rmse"], made["device"]) == (3, 0.5, "cuda:0")
    assert made["settings"]["reg"] == 0.1
    assert made["settings"]["row_zero"] is True
    assert made["settings"]["epochs"] == FULL.published_epochs
    assert {"asot", "numpy", "scipy", "scikit-learn", "torch", "POT"} <= set(made["versions"])
    assert {"cpu", "cores", "threads", "gpu"} <= set(made["machine"])
    assert made["machine"]["threads"] == 1
    assert made["date"].startswith("20")


def test_a_failure_is_one_line_with_the_reason():
    told = failed_record_of(cell(), CPU, ImportError("PyTorch is\n not installed"))
    assert told["error"] == "PyTorch is not installed"
    assert failed_record_of(cell(), CPU, KeyError("x"))["error"] == "KeyError: 'x'"
    assert failed_record_of(cell(), CPU, ValueError())["error"] == "no message"


def test_a_cell_reads_as_a_sentence():
    assert str(cell(fold=2)) == "MUTAG eASOT-ML (as published, fold 2, seed 0)"
    assert str(Cell("scaling", DESCRIBED, "NCI1", "OT-EMD", size=500)).endswith("seed 0, N = 500)")
