"""The paper's numbers: what is known is read, what is typed in is checked."""

import pytest
from asot_paper.published import COLUMNS, Published, read_published

HEADER = ",".join(COLUMNS)


def test_every_known_number_has_a_source():
    known = read_published()
    assert known["rmse", "MUTAG", "ASOT-ML"].spread is None
    assert all(entry.source for entry in known.values())


def test_a_file_adds_and_replaces(tmp_path):
    path = tmp_path / "p.csv"
    lines = [HEADER, "rmse,MUTAG,SW,0.5,0.01,Table I", 'rmse,MUTAG,ASOT-ML,0.03,,"Table I, again"', ""]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    known = read_published(path)
    assert known["rmse", "MUTAG", "SW"] == Published(0.5, 0.01, "Table I")
    assert known["rmse", "MUTAG", "ASOT-ML"] == Published(0.03, None, "Table I, again")
    assert known["rmse", "MUTAG", "ASOT-DL"] == read_published()["rmse", "MUTAG", "ASOT-DL"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with the line table,set"),
        ("set,table\n", "found set,table"),
        (f"{HEADER}\nerror,MUTAG,SW,1,,x", "line 2: unknown table 'error'; choose from rmse, seconds"),
        (f"{HEADER}\nrmse,Mutag,SW,1,,x", "unknown set 'Mutag'; choose from MUTAG"),
        (f"{HEADER}\nrmse,MUTAG,SWD,1,,x", "unknown method 'SWD'; choose from OT-EMD"),
        (f"{HEADER}\nrmse,MUTAG,SW,1;0,,x", "the value '1;0' is not a number"),
        (f"{HEADER}\nrmse,MUTAG,SW,nan,,x", "not a number"),
        (f"{HEADER}\nrmse,MUTAG,SW,1,-2,x", "the spread '-2' is not a number ≥ 0"),
        (f"{HEADER}\nrmse,MUTAG,SW,1,,", "no source"),
        (f"{HEADER}\nrmse,MUTAG,SW,1", "must have 6 entries"),
        (f"{HEADER}\nrmse,MUTAG,SW,1,,a,b", "must have 6 entries"),
        (f"{HEADER}\nrmse,MUTAG,SW,1,,a\nrmse,MUTAG,SW,2,,a", "line 3: rmse MUTAG SW is there twice"),
        (f'{HEADER}\nrmse,MUTAG,SW,1,,"a', "not a CSV table: unexpected end of data; look for a quote"),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path, text, message):
    path = tmp_path / "p.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_published(path)


def test_files_that_are_no_text_or_not_there_are_told(tmp_path):
    (tmp_path / "p.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="UTF-8"):
        read_published(tmp_path / "p.csv")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_published(tmp_path / "none.csv")
