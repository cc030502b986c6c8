"""ZINC: from arrays without RDKit, from SMILES with it."""

import io
import lzma

import numpy as np
import pytest
from asot_paper.datasets import catalogue, load_zinc, smiles, zinc
from asot_paper.datasets.smiles import ATOM_TYPES, ELEMENTS

from asot.datasets import graph_features
from reproduction.tests.datasets.made import known, write
from reproduction.tests.datasets.serving import serving

LINES = {"train": ["CO", "N"], "val": ["C=O"], "test": ["CCl", "c1cc[nH]c1", "C[NH3+]"]}


def graphs_npz():
    """The molecules of LINES as arrays; hydrogens are no atoms."""
    elements = [[6, 8], [7], [6, 8], [6, 17], [6, 6, 6, 7, 6], [6, 7]]
    edges = [[(0, 1)], [], [(0, 1)], [(0, 1)], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], [(0, 1)]]
    stream = io.BytesIO()
    np.savez(
        stream,
        node_ptr=np.cumsum([0, *map(len, elements)]).astype(np.int32),
        atomic_number=np.concatenate(elements).astype(np.uint8),
        edge_ptr=np.cumsum([0, *map(len, edges)]).astype(np.int32),
        edges=np.array([edge for one in edges for edge in one], np.uint8),
    )
    return stream.getvalue()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder for the small molecules, with nothing in it yet."""
    for split, lines in LINES.items():
        monkeypatch.setitem(zinc.SPLITS, split, len(lines))
        text = "".join(f"{line}\n" for line in lines).encode()
        packed = lzma.compress(text)
        files = (
            known(f"zinc/{split}.smi.xz", packed),
            known(f"zinc/{split}.txt", text, f"http://127.0.0.1:9/{split}.txt"),
        )
        monkeypatch.setitem(catalogue.ZINC_SMILES, split, files)
    monkeypatch.setattr(catalogue, "ZINC_GRAPHS", known("zinc/zinc_graphs.npz", graphs_npz()))
    return tmp_path


@pytest.fixture
def without_rdkit(monkeypatch):
    monkeypatch.setattr(zinc, "rdkit_is_here", lambda: False)


@pytest.fixture
def rdkit():
    return pytest.importorskip("rdkit")


def put_smiles(folder, *splits):
    for split in splits:
        write(folder, f"zinc/{split}.txt", "".join(f"{line}\n" for line in LINES[split]).encode())


# ------------------------------------------------------------------------------------------------------ from arrays


def test_without_rdkit_the_elements_are_read_from_the_arrays(folder, without_rdkit):
    write(folder, "zinc/zinc_graphs.npz", graphs_npz())
    put_smiles(folder, "test")
    molecules, labels, about = load_zinc("test", rounds=2, folder=folder, download=False)
    assert labels is None
    assert molecules.sizes.tolist() == [2, 5, 2]
    assert (about["atoms"], about["verified"]) == ("elements", "sha256")
    assert about["features"].startswith("one-hot elements of the atoms, and 2 rounds")
    columns = np.searchsorted(ELEMENTS, [6, 17, 6, 6, 6, 7, 6, 6, 7])
    bonds = [(0, 1), (2, 3), (3, 4), (4, 5), (5, 6), (6, 2), (7, 8)]
    np.testing.assert_array_equal(molecules.points, graph_features(np.eye(9)[columns], bonds, rounds=2))


def test_all_is_train_then_val_then_test(folder, without_rdkit):
    write(folder, "zinc/zinc_graphs.npz", graphs_npz())
    parts = [load_zinc(split, folder=folder).distributions for split in ("train", "val", "test")]
    assert load_zinc("all", folder=folder).distributions == parts[0] + parts[1] + parts[2]


def test_chosen_molecules_are_those_of_the_split_in_the_order_given(folder, without_rdkit):
    write(folder, "zinc/zinc_graphs.npz", graphs_npz())
    everything = load_zinc("test", folder=folder).distributions
    assert load_zinc("test", graphs=[2, 0, 2], folder=folder).distributions == everything[[2, 0, 2]]


@pytest.mark.parametrize("graphs", [[3], [-1], [], [[0]], [0.0], 2])
def test_molecules_that_are_not_there_cannot_be_chosen(folder, graphs):
    with pytest.raises(ValueError, match="graphs must"):
        load_zinc("test", graphs=graphs, folder=folder)


def test_without_rdkit_and_arrays_the_error_names_both_ways_out(folder, without_rdkit):
    put_smiles(folder, "test")
    for atoms in ("auto", "types", "elements"):
        with pytest.raises(ImportError, match=r"pip install 'asot-paper\[chem\]'.*zinc/zinc_graphs\.npz"):
            load_zinc("test", atoms=atoms, folder=folder)


def test_types_need_rdkit_even_if_the_arrays_are_there(folder, without_rdkit):
    write(folder, "zinc/zinc_graphs.npz", graphs_npz())
    with pytest.raises(ImportError, match=r"atom types are read from SMILES with RDKit"):
        load_zinc("test", atoms="types", folder=folder)


def test_wrong_choices_are_reported(folder):
    with pytest.raises(ValueError, match="split must be one of"):
        load_zinc("valid", folder=folder)
    with pytest.raises(ValueError, match="atoms must be one of"):
        load_zinc("test", atoms="bonds", folder=folder)


def test_arrays_with_other_bytes_are_refused(folder, without_rdkit):
    write(folder, "zinc/zinc_graphs.npz", graphs_npz()[:-1])
    with pytest.raises(ValueError, match=r"is not the known zinc_graphs\.npz"):
        load_zinc("test", folder=folder)


# ------------------------------------------------------------------------------------------------------ from SMILES


def test_there_are_28_types_of_nine_elements():
    assert len(set(ATOM_TYPES)) == 28
    assert {name.split()[0] for name in ATOM_TYPES} == set(smiles._SYMBOLS.values())
    assert tuple(smiles._SYMBOLS) == ELEMENTS


def test_with_rdkit_and_smiles_atoms_have_types(folder, rdkit):
    write(folder, "zinc/zinc_graphs.npz", graphs_npz())
    assert load_zinc("test", folder=folder, download=False).about["atoms"] == "elements"
    put_smiles(folder, "test")
    molecules, _, about = load_zinc("test", rounds=0, folder=folder, download=False)
    assert about["atoms"] == "types"
    found = [ATOM_TYPES[column] for column in molecules.points.argmax(axis=1)]
    assert found == ["C", "Cl", "C", "C", "C", "N", "C", "C", "N H3 +"]


def test_smiles_and_arrays_give_the_same_graphs(folder, rdkit):
    put_smiles(folder, "train", "val", "test")
    from_smiles = load_zinc("all", atoms="elements", folder=folder).distributions
    write(folder, "zinc/zinc_graphs.npz", graphs_npz())
    assert load_zinc("all", atoms="elements", folder=folder).distributions == from_smiles


def test_packed_smiles_come_first(folder, rdkit):
    text = "".join(f"{line}\n" for line in LINES["test"]).encode()
    path = write(folder, "zinc/test.smi.xz", lzma.compress(text))
    dataset = load_zinc("test", graphs=[1], folder=folder, download=False)
    assert dataset.about["source"] == str(path)
    assert dataset.distributions.sizes.tolist() == [5]


def test_smiles_are_downloaded(folder, rdkit, monkeypatch):
    text = "".join(f"{line}\n" for line in LINES["val"]).encode()
    with serving(files={"val.txt": text}) as site:
        files = (known("zinc/val.smi.xz", b""), known("zinc/val.txt", text, f"{site.url}/val.txt"))
        monkeypatch.setitem(catalogue.ZINC_SMILES, "val", files)
        assert len(load_zinc("val", folder=folder).distributions) == 1
    assert (folder / "zinc" / "val.txt").read_bytes() == text


def test_hydrogens_and_charges_are_those_of_the_kekule_form(rdkit):
    written = ["[C@H](F)(Cl)Br", "c1cc[nH]c1", "c1cc[nH+]cc1", "[O-]C=O", "C[NH+](C)C", "[CH2-]C", "I[PH+](C)C"]
    molecules = smiles.parse_smiles(written, "here", types=True)
    first = [ATOM_TYPES[column] for column in molecules.atoms[molecules.offsets[:-1]]]
    assert first == ["C H1", "C", "C", "O -", "C", "C H2 -", "I"]
    assert [ATOM_TYPES[column] for column in molecules.atoms[4:15]].count("N") == 1
    assert "N H1 +" in [ATOM_TYPES[column] for column in molecules.atoms[molecules.offsets[2] : molecules.offsets[3]]]


def test_what_is_not_a_molecule_of_zinc_is_reported(rdkit):
    with pytest.raises(ValueError, match="here: molecule 1 is 'C1CC', which RDKit cannot read"):
        smiles.parse_smiles(["C", "C1CC"], "here", types=True)
    with pytest.raises(ValueError, match="an atom has element 14, 0 hydrogens and charge 0"):
        smiles.parse_smiles(["C[Si]"], "here", types=False)
    with pytest.raises(ValueError, match="an atom has element 6, 0 hydrogens and charge -2"):
        smiles.parse_smiles(["[C-2]"], "here", types=True)


def test_a_file_with_another_number_of_molecules_is_reported(folder, rdkit, monkeypatch):
    put_smiles(folder, "test")
    monkeypatch.setitem(zinc.SPLITS, "test", 7)
    with pytest.raises(ValueError, match=r"test\.txt has 3 molecules, expected 7"):
        load_zinc("test", folder=folder)
