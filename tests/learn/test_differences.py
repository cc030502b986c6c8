"""What drives a difference, per kind of point and per column; which distribution is odd; what is left above noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wasserstein_distance

import asot
from asot import Distributions
from asot.learn import maps


def test_above_noise_what_is_left_is_the_true_distance():
    rng = np.random.default_rng(0)
    shift = np.repeat([0.0, 1.0], 6)
    D = Distributions.from_list([rng.normal(size=(80, 5)) + np.eye(5)[0] * s for s in shift])
    r = asot.pairwise_exact(D)
    left = r.above_noise(asot.noise_floor(D))
    i, j = r.pairs.T
    apart = shift[i] != shift[j]
    assert r.values[apart].mean() > 1.5  # mostly noise
    assert left.values[apart].mean() == pytest.approx(1.0, abs=0.15)
    assert left.values[~apart].mean() < 0.3
    assert left.info["above_noise"]
    floor = asot.noise_floor(D).matrix()
    np.testing.assert_array_equal(r.above_noise(floor).values, left.values)
    for noise, message in (
        (None, "asot.noise_floor"),
        (np.zeros((2, 2)), "noise is for 2"),
        (-floor, "must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            r.above_noise(noise)
    with pytest.raises(ValueError, match="within one collection"):
        asot.pairwise_exact(D[:3], D[3:]).above_noise(floor)


def cohort(seed=0, n=40, small=6, odd=17):
    """Samples of one law, of which the first are small and one is odd."""
    rng = np.random.default_rng(seed)
    sizes = [15] * small + [200] * (n - small)
    points = [rng.normal(size=(size, 4)) + (1.2 if i == odd else 0.0) * np.eye(4)[0] for i, size in enumerate(sizes)]
    return Distributions.from_list(points, ids=[f"p{i:02d}" for i in range(n)])


@pytest.mark.parametrize("with_noise", [True, False])
def test_the_odd_one_is_found_and_small_samples_are_not_odd(with_noise):
    for seed in range(3):
        D = cohort(seed)
        r = asot.pairwise_exact(D)
        plain = asot.outliers(r.matrix()).to_frame()
        assert len(set(plain.index[:6]) & set(range(6))) >= 5  # the smallest, where nothing is known of sizes
        found = asot.outliers(r, asot.noise_floor(D) if with_noise else None)
        assert found.to_frame().index[0] == "p17"
        assert found.is_outlier[17]
        assert found.is_outlier[:6].sum() <= 1
    assert "p17" in repr(found)


def test_outliers_refuse_what_is_too_little():
    with pytest.raises(ValueError, match="at least 4"):
        asot.outliers(np.zeros((3, 3)))
    assert not asot.outliers(np.zeros((5, 5))).is_outlier.any()
    assert not asot.outliers(1.0 - np.eye(5)).is_outlier.any()


# ------------------------------------------------------------------------------------------------------------- drivers


def cells(seed=0, patients=16, per_type=40, types=5, shifted=3, shift=0.8):
    rng = np.random.default_rng(seed)
    rows = []
    for patient in range(patients):
        for kind in range(types):
            x = rng.normal(size=(per_type, 3)) + 3.0 * kind
            if kind == shifted and patient % 2:
                x[:, 0] += shift
            rows.append(pd.DataFrame(x, columns=["x", "y", "z"]).assign(patient=f"p{patient:02d}", kind=f"type {kind}"))
    table = pd.concat(rows, ignore_index=True)
    return Distributions.from_table(table, by="patient", points=["x", "y", "z"]), table


def test_the_kind_that_drives_a_difference_is_found():
    D, table = cells()
    groups = pd.Series(np.where(np.arange(16) % 2, "ill", "well"), index=D.ids).sample(frac=1, random_state=0)
    found = asot.drivers(D, table["kind"].to_numpy(), groups)
    assert found.kinds[0] == "type 3"
    frame = found.to_frame()
    assert frame.loc["type 3", "q_value"] <= 0.01
    assert (frame.drop("type 3")["q_value"] > 0.05).all()
    assert frame["n_samples"].tolist() == [16] * 5
    assert frame.loc["type 3", "mean_distance"] > frame.drop("type 3")["mean_distance"].max()
    assert "groups differ in type 3" in repr(found)


def test_one_kind_is_the_test_of_that_kind_alone():
    D, table = cells(types=2, shifted=1)
    groups = np.arange(16) % 2
    labels = table["kind"].to_numpy()
    alone = Distributions.from_list([D[i][0][labels[D.offsets[i] : D.offsets[i + 1]] == "type 1"] for i in range(16)])
    r = asot.pairwise(alone).above_noise(asot.noise_floor(alone))
    expected = asot.group_differences(r, groups, random_state=0)
    assert asot.drivers(D, labels, groups).tests["type 1"] == expected


def test_kinds_that_few_have_are_left_out_with_the_reason():
    D, table = cells(types=2, shifted=1)
    labels = table["kind"].to_numpy().astype(object)
    labels[:12] = "rare"
    found = asot.drivers(D, labels, np.arange(16) % 2, min_size=10)
    assert found.left_out == {"rare": "fewer than 3 distributions of a group have 10 such points"}
    assert "1 left out" in repr(found)
    none = asot.drivers(D, ["one kind"] * len(labels), np.arange(16) % 2, min_size=500)
    assert none.to_frame()["q_value"].tolist() == []
    with pytest.raises(ValueError, match="labels must hold one label for each of the 1,280 points"):
        asot.drivers(D, labels[:-1], np.arange(16) % 2)
    with pytest.raises(ValueError, match="min_size must be at least 4, or the noise cannot be told; found 3"):
        asot.drivers(D, labels, np.arange(16) % 2, min_size=3)
    with pytest.raises(ValueError, match="there is only one group, 'ill'"):
        asot.drivers(D, labels, ["ill"] * 16)
    mixed = np.array([1, "a"] * 8, dtype=object)
    for strata, words in (([None, *"a" * 15], "strata: entry 0 is missing"), (mixed, "strata cannot be ordered")):
        with pytest.raises(ValueError, match=words):
            asot.drivers(D, labels, np.arange(16) % 2, strata=strata)


@pytest.mark.parametrize("scale", [2.0**-996, 2.0**990])
def test_the_unit_does_not_matter_to_drivers(scale):
    D, table = cells(types=2, shifted=1)
    labels, groups = table["kind"].to_numpy(), np.arange(16) % 2
    plain = asot.drivers(D, labels, groups, n_permutations=50, error=None)
    found = asot.drivers(Distributions(D.points * scale, D.offsets), labels, groups, n_permutations=50, error=None)
    assert found.q_value == plain.q_value
    assert found.distances["type 1"].values[0] == pytest.approx(scale * plain.distances["type 1"].values[0], rel=1e-12)


# ------------------------------------------------------------------------------------------------------------- columns


def test_every_column_is_a_collection_on_a_line():
    rng = np.random.default_rng(0)
    D = Distributions.from_list(
        [rng.normal(size=(n, 3)) for n in (9, 14, 5, 7)], [rng.random(n) for n in (9, 14, 5, 7)]
    )
    found = asot.pairwise_columns(D, columns=["a", "b", "c"])
    for c, name in enumerate("abc"):
        expected = [
            wasserstein_distance(D[i][0][:, c], D[j][0][:, c], D[i][1], D[j][1])
            for i in range(4)
            for j in range(i + 1, 4)
        ]
        np.testing.assert_allclose(found[name].values, expected)
        np.testing.assert_allclose(found.values[c], expected)
    assert found.n_samples.tolist() == [4, 4, 4]
    with pytest.raises(KeyError, match="there is no column 'd'; the columns are 'a', 'b', 'c'"):
        found["d"]
    with pytest.raises(ValueError, match="2 names for the 3 columns"):
        asot.pairwise_columns(D, columns=["a", "b"])


def test_columns_that_some_samples_lack_are_counted():
    rng = np.random.default_rng(0)
    panels = {"p1": ["CD3", "CD4"], "p2": ["CD4", "CD8"], "p3": ["CD8", "CD4"]}
    frames = {name: pd.DataFrame(rng.normal(size=(12, 2)), columns=panel) for name, panel in panels.items()}
    found = asot.pairwise_columns(frames)
    assert dict(zip(found.columns, found.n_samples, strict=True)) == {"CD3": 1, "CD4": 3, "CD8": 2}
    expected = wasserstein_distance(frames["p2"]["CD8"], frames["p3"]["CD8"])
    np.testing.assert_allclose(found["CD8"].values, [expected])
    assert found["CD8"].ids.tolist() == ["p2", "p3"]
    np.testing.assert_array_equal(np.isnan(found.values[found.columns.index("CD8")]), [True, True, False])
    assert found.to_frame()["n_samples"].to_dict() == {"CD3": 1, "CD4": 3, "CD8": 2}
    assert "2 columns are missing in some" in repr(found)
    with pytest.raises(ValueError, match="no sample has a column 'CD9'"):
        asot.pairwise_columns(frames, columns=["CD9"])


# ---------------------------------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize("how", [{}, {"p": 2}, {"metric": "cityblock"}, {"unmatched": 9.0}, {"space": 8}])
def test_costs_between_groups_add_up_to_the_cost(how):
    rng = np.random.default_rng(0)
    D = Distributions.from_list([rng.normal(size=(n, 2)) + n for n in (11, 12, 13)])
    if "space" in how:
        how = {"space": asot.KMeansAnchors(8, random_state=0)}
    plan = asot.plan(D, 2, 0, **how)
    labels = rng.choice(["B", "T"], 36)
    cost = plan.by(labels[23:], labels[:11], values="cost")
    missing = 0.0 if plan.unmatched is None else 9.0 * sum(part.sum() for part in plan.unmatched)
    assert cost.to_numpy().sum() + missing == pytest.approx(plan.cost ** how.get("p", 1))
    pd.testing.assert_frame_equal(plan.by(labels, values="cost"), cost)
    pd.testing.assert_frame_equal(plan.by(labels), plan.by(labels[23:], labels[:11]))
    with pytest.raises(ValueError, match="those of all 36 points of the collection"):
        plan.by(labels[:5])
    with pytest.raises(ValueError, match="values must be one of 'mass', 'cost'"):
        plan.by(labels, values="costs")


@pytest.mark.parametrize("scale", [2.0**-996, 2.0**500, 2.0**990])
def test_the_unit_of_the_distances_does_not_matter(scale):
    """Squares of distances leave the range of numbers long before the distances do."""
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list([rng.normal(0.3 * (i % 2), 1.0, size=(8 + i % 3, 2)) for i in range(24)])
    groups, age = ["a", "b"] * 12, rng.normal(size=24)

    def looked_at(D, scale):
        r, noise = asot.pairwise_exact(D), asot.noise_floor(D, random_state=0)
        found = asot.group_differences(r, groups, covariates=scale * age, noise=noise, random_state=0)
        spread = {name: one / scale for name, one in found.dispersions.items()}
        odd, places = asot.outliers(r, noise).to_frame(), maps.embed(r, "mds")
        odd["distance"] /= scale
        return replace(found, dispersions=spread), odd, places / scale, maps.stress(r.matrix(), places)

    plain, scaled = looked_at(D, 1.0), looked_at(asot.Distributions(D.points * scale, D.offsets), scale)
    assert plain[0] == scaled[0]
    np.testing.assert_array_equal(plain[1].to_numpy(), scaled[1].to_numpy())
    np.testing.assert_array_equal(plain[2], scaled[2])
    assert plain[3] == scaled[3]
