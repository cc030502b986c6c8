"""What cells are run on: folds, subsets, samples, and reference distances."""

import numpy as np
import pytest
from asot_paper import problems, reference
from asot_paper.names import DESCRIBED, PUBLISHED
from asot_paper.problems import Problems, fingerprint, training_fold
from asot_paper.reference import References

import asot
from reproduction.tests.conftest import TINY, tiny_graphs


def test_ten_folds_leave_every_graph_out_once():
    labels = np.repeat([0, 1], [40, 60])
    for seed in (0, 1):
        left_out = [np.setdiff1d(np.arange(100), training_fold(labels, fold, seed)) for fold in range(10)]
        np.testing.assert_array_equal(np.sort(np.concatenate(left_out)), np.arange(100))
        assert all(np.bincount(labels[out]).tolist() == [4, 6] for out in left_out)
    assert not np.array_equal(training_fold(labels, 0, 0), training_fold(labels, 0, 1))


def test_graphs_are_learned_on_a_fold_and_evaluated_on_all(tiny_sets):
    everything = Problems(TINY)
    problem = everything.problem(DESCRIBED, "MUTAG", 1, 0)
    assert (len(problem.D), problem.n_pairs) == (24, 276)
    assert 20 <= len(problem.train) <= 22
    assert problem.k == round(problem.D.sizes.mean())
    assert everything.problem(DESCRIBED, "MUTAG", 1, 0, whole=True).train is problem.D
    assert tiny_sets == [("MUTAG", DESCRIBED)]


def test_digits_are_subsets_that_differ_by_fold_and_serve_both_conditions(tiny_sets):
    everything = Problems(TINY)
    first, again = (everything.problem(condition, "MNIST", 0, 0) for condition in (PUBLISHED, DESCRIBED))
    assert first.D == again.D
    assert first.D is first.train
    assert len(first.D) == TINY.digits
    assert everything.problem(DESCRIBED, "MNIST", 1, 0).D != first.D
    assert everything.problem(DESCRIBED, "MNIST", 0, 1).D == first.D


def test_molecules_are_learned_on_a_sample_of_the_training_split(tiny_sets):
    everything = Problems(TINY)
    problem = everything.problem(PUBLISHED, "ZINC", 0, 0)
    assert (len(problem.D), len(problem.train)) == (30, TINY.zinc_graphs)
    assert {entry[1] for entry in tiny_sets} == {"test", "train"}


def test_the_authors_models_learn_from_all_molecules_as_in_the_paper(tiny_sets):
    everything = Problems(TINY)
    folds = [everything.problem(PUBLISHED, "ZINC", fold, 0, authors=True) for fold in range(4)]
    others = [everything.problem(PUBLISHED, "ZINC", fold, 0) for fold in range(4)]
    assert all(len(one.train) == 30 for one in folds)
    assert all(len(one.train) == TINY.zinc_graphs for one in others)
    whole = [entry for entry in tiny_sets if entry[1] == "train"]
    assert len(whole) == 1 + len(others)  # all of them once, and a sample for each fold


def test_what_was_used_last_is_kept(tiny_sets):
    everything = Problems(TINY)
    for fold in range(6):
        everything.problem(PUBLISHED, "ZINC", fold, 0)
    assert [entry[1] for entry in tiny_sets].count("test") == 1


def test_a_set_that_is_not_at_hand_is_asked_for_once(monkeypatch):
    asked = []

    def missing(name, condition, folder, download):
        asked.append(name)
        raise FileNotFoundError(f"put {name}.zip in {folder}")

    monkeypatch.setattr(problems, "load_graphs", missing)
    everything = Problems(TINY, "here")
    for fold in range(3):
        with pytest.raises(FileNotFoundError, match=r"put BZR\.zip in here"):
            everything.problem(DESCRIBED, "BZR", fold, 0)
    assert asked == ["BZR"]


def test_other_graph_sets_are_refused():
    with pytest.raises(ValueError, match="not one of the graph sets MUTAG"):
        problems.load_graphs("PROTEINS", DESCRIBED, None, False)


# ----------------------------------------------------------------------------------------------------------- reference


def test_fingerprints_tell_collections_apart():
    D, _ = tiny_graphs(DESCRIBED)
    other = asot.Distributions(D.points + 1e-9, D.offsets, D.masses)
    assert fingerprint(D) == fingerprint(asot.Distributions(D.points.copy(), D.offsets, D.masses))
    assert len({fingerprint(D), fingerprint(other), fingerprint(D[:5]), fingerprint(tiny_graphs(PUBLISHED)[0])}) == 4


def test_reference_distances_are_computed_once_and_kept_in_a_file(tmp_path, monkeypatch):
    D, _ = tiny_graphs(DESCRIBED)
    right = asot.pairwise_exact(D).values
    np.testing.assert_array_equal(References(tmp_path / "cache", 1).distances(D), right)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    monkeypatch.setattr(reference.asot, "pairwise_exact", None)
    later = References(tmp_path / "cache", 1)
    np.testing.assert_array_equal(later.distances(D), right)
    assert later.distances(D) is later.distances(D)


@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_a_damaged_reference_file_is_computed_again(tmp_path, damage):
    D, _ = tiny_graphs(DESCRIBED)
    right = References(tmp_path, 1).distances(D)
    (path,) = tmp_path.iterdir()
    if damage is None:
        np.save(path, np.full_like(right, np.nan))
    else:
        path.write_bytes(damage)
    np.testing.assert_array_equal(References(tmp_path, 1).distances(D), right)
    np.testing.assert_array_equal(np.load(path), right)


def test_only_so_many_bytes_are_kept_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "KEPT_BYTES", 100)
    kept = References(tmp_path, 1)
    for n in (5, 6, 7):
        D, _ = tiny_graphs(DESCRIBED, n)
        kept.put(D, np.zeros(n * (n - 1) // 2))
    assert len(kept._kept) == 1
    assert len(list(tmp_path.iterdir())) == 3
