"""The results file: nothing that was finished is ever lost, and nothing foreign is read or overwritten."""

import json
import multiprocessing

import numpy as np
import pytest
from asot_paper.store import Results, open_results, read_cells


def record(key, **more):
    base = {"kind": "run", "condition": "as described", "set": "MUTAG", "method": "SW", "fold": 0, "seed": 0}
    return {"key": key, **base, "settings": {}, "machine": {}, "versions": {}, **more}


def write(path, cells, **changes):
    path.write_text(json.dumps({"format": "asot-paper", "version": 1, "cells": cells} | changes))


def test_what_is_added_is_on_disk_at_once(tmp_path):
    path = tmp_path / "r.json"
    with open_results(path) as results:
        results.add(record("a", rmse=np.float64(0.5), exact=np.arange(3), note="— ü"))
        assert read_cells(path) == [record("a", rmse=0.5, exact=[0, 1, 2], note="— ü")]
        results.add(record("b", k=np.int64(3)))
    assert [cell["key"] for cell in read_cells(path)] == ["a", "b"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_a_packed_file_holds_the_same_cells(tmp_path):
    path = tmp_path / "r.json.gz"
    with open_results(path) as results:
        results.add_all(record(str(k), rmse=0.5, note="the same words again") for k in range(100))
    assert read_cells(path) == [record(str(k), rmse=0.5, note="the same words again") for k in range(100)]
    assert path.stat().st_size < 0.1 * len(json.dumps(read_cells(path)))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"r\.json\.gz"):
        read_cells(path)


def test_a_failure_is_replaced_and_never_replaces(tmp_path):
    results = Results(tmp_path / "r.json", [])
    results.add(record("a", error="no torch"))
    assert results.finished("a") is None
    assert results.failure("a") == "no torch"
    results.add(record("a", rmse=1.0))
    results.add(record("a", error="again"))
    assert results.finished("a")["rmse"] == 1.0
    assert results.failure("a") is None
    assert len(read_cells(tmp_path / "r.json")) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.array([1.0, np.nan])])
def test_a_number_that_is_not_finite_is_refused_and_the_file_stays(tmp_path, value):
    path = tmp_path / "r.json"
    results = Results(path, [])
    results.add(record("a", rmse=1.0))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not a number to keep"):
        results.add(record("b", rmse=value))
    assert path.read_bytes() == before
    assert len(results) == 1


def test_objects_are_refused(tmp_path):
    with pytest.raises(TypeError, match="holds object"):
        Results(tmp_path / "r.json", []).add(record("a", rmse=object()))


def test_a_new_or_empty_file_has_no_cells(tmp_path):
    path = tmp_path / "r.json"
    with open_results(path) as results:
        assert len(results) == 0
    path.write_text("\n")
    assert read_cells(path) == []


def test_a_truncated_file_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "r.json"
    Results(path, []).add(record("a"))
    cut = path.read_text()[:-20]
    path.write_text(cut)
    with pytest.raises(ValueError, match=r"r\.json is not a results file .* truncated"), open_results(path):
        pytest.fail("a damaged file was opened")
    assert path.read_text() == cut


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "is not a results file"),
        ('{"format": "other", "version": 1, "cells": []}', "is not a results file"),
        ('{"format": "asot-paper", "version": 2, "cells": []}', "newer than the 1 read here; upgrade"),
        ('{"format": "asot-paper", "version": true, "cells": []}', "no version"),
        ('{"format": "asot-paper", "version": 1}', "no list of cells"),
        ('{"format": "asot-paper", "version": 1, "cells": [3]}', "cell 0 is not a record"),
        ('{"format": "asot-paper", "version": 1, "cells": [{"key": "a"}]}', "cell 0 has no 'kind'"),
        ("[" * 100_000, "not a results file"),
        ("\udcff", "not a results file"),
    ],
)
def test_foreign_newer_and_damaged_files_are_refused(tmp_path, content, message):
    path = tmp_path / "r.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=message):
        read_cells(path)


@pytest.mark.parametrize(("name", "value"), [("fold", "0"), ("seed", None), ("settings", []), ("set", 3)])
def test_cells_with_a_wrong_field_are_named(tmp_path, name, value):
    path = tmp_path / "r.json"
    write(path, [record("a"), record("b", **{name: value})])
    with pytest.raises(ValueError, match=f"cell 1 has no .*{name}"):
        read_cells(path)


def test_a_missing_file_and_a_missing_folder_are_reported(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        read_cells(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError, match="does not exist"), open_results(tmp_path / "none" / "r.json"):
        pytest.fail("opened")


def test_two_runs_cannot_share_a_file(tmp_path):
    path = tmp_path / "r.json"
    with open_results(path):
        with pytest.raises(BlockingIOError, match="another run is writing"), open_results(path):
            pytest.fail("opened twice")
        other = multiprocessing.get_context("spawn").Process(target=_try_to_open, args=(path,))
        other.start()
        other.join(60)
        assert other.exitcode == 7
    with open_results(path) as results:
        assert len(results) == 0


def _try_to_open(path):
    try:
        with open_results(path):
            pass
    except BlockingIOError:
        raise SystemExit(7) from None
