"""What the paper's public code computed: features, errors, one pass of k-means, and its two models, each by a loop."""

from __future__ import annotations

import importlib.util
import math
import pickle

import numpy as np
import pytest
from asot_paper import as_published
from asot_paper.as_published import five_copies, full_matrix, full_matrix_error, merged, one_pass_kmeans
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import asot

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


def labeled(n=12, labels=4, seed=0):
    """Distributions of one-hot labels, of 3 to 9 points each; the last label is rare."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 10, size=n)
    shares = np.append(np.full(labels - 1, 1.0), 0.1)
    drawn = rng.choice(labels, size=sizes.sum(), p=shares / shares.sum())
    drawn[:labels] = np.arange(labels)
    return asot.Distributions(np.eye(labels)[drawn], np.concatenate([[0], np.cumsum(sizes)]))


# ----------------------------------------------------------------------------------------------------------- features


def test_distances_of_five_copies_are_total_variations():
    D = labeled()
    histograms, points = merged(D)
    variation = 0.5 * np.abs(histograms[:, None] - histograms[None]).sum(axis=2)
    assert points.shape == (4, 4)
    assert np.allclose(asot.pairwise_exact(five_copies(D)).matrix(), np.sqrt(10.0) * variation, atol=1e-6)


def test_unused_columns_change_the_dimension_and_no_distance():
    D = labeled()
    padded = five_copies(D, columns=7)
    assert (padded.dim, padded.points.dtype) == (35, np.float32)
    assert np.array_equal(padded.points[:, 7:14], padded.points[:, 28:])
    assert np.allclose(asot.pairwise_exact(padded).values, asot.pairwise_exact(five_copies(D)).values)


def test_fewer_columns_than_labels_are_refused():
    with pytest.raises(ValueError, match="columns must be at least the dimension of the points, 4; found 3"):
        five_copies(labeled(), columns=3)


def test_merging_equal_points_keeps_their_masses():
    D = asot.Distributions.from_list([[[0.0], [1.0], [0.0]], [[1.0]]], masses=[[1.0, 2.0, 5.0], [3.0]])
    histograms, points = merged(D)
    assert points.tolist() == [[0.0], [1.0]]
    assert np.allclose(histograms, [[0.75, 0.25], [0.0, 1.0]])


def test_merged_points_have_the_sinkhorn_cost_of_all_points():
    """Iteration by iteration, also where the second scaling starts at the target."""
    D = five_copies(labeled())
    histograms, points = merged(D)
    how = {"reg": 0.1, "max_iter": 50, "tol": None, "init": "target"}
    short = asot.sinkhorn_many(histograms, cost=cdist(points, points), pairs=[[0, 1], [2, 5], [3, 3]], **how)
    for (i, j), value in zip([(0, 1), (2, 5), (3, 3)], short.values, strict=True):
        (x, a), (y, b) = D[i], D[j]
        cost = cdist(x.astype(float), y.astype(float))
        kernel = np.exp(-cost / 0.1)
        v = b
        for _ in range(50):
            u = a / (kernel @ v)
            v = b / (kernel.T @ u)
        assert value == pytest.approx(u @ (kernel * cost) @ v, rel=1e-9, abs=1e-12)


# ------------------------------------------------------------------------------------------------------------- errors


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 7), seed=st.integers(0, 99), entropic=st.booleans(), rule=st.booleans(), own=st.booleans())
def test_the_error_is_that_of_the_matrices(n, seed, entropic, rule, own):
    rng = np.random.default_rng(seed)
    estimate, exact = rng.random((2, n * (n - 1) // 2))
    diagonal = rng.random(n) if own else None
    total, place = 0.0, 0
    for i in range(n):
        for j in range(i, n):
            empty = rule and i == 0
            if i == j:
                found, right, times = diagonal[i] if own else 0.0, 0.0, 1
            else:
                found, right, times = estimate[place], exact[place], 2
                place += 1
            found, right = (0.0 if empty and not entropic else found), (0.0 if empty else right)
            total += times * (found - right) ** 2
    error = full_matrix_error(estimate, exact, diagonal=diagonal, entropic=entropic, row_zero_rule=rule)
    assert error == pytest.approx(math.sqrt(total / n**2))
    matrices = full_matrix(estimate, diagonal, row_zero=rule and not entropic), full_matrix(exact, row_zero=rule)
    assert error == pytest.approx(np.sqrt(np.mean((matrices[0] - matrices[1]) ** 2)))


def test_a_full_matrix_is_that_of_the_distances():
    found = asot.pairwise_exact(labeled())
    assert np.array_equal(full_matrix(found.values), found.matrix())


def test_an_estimate_that_is_not_a_number_has_no_error():
    assert math.isnan(full_matrix_error([0.0, 0.0, math.nan], [1.0, 1.0, 1.0]))


@pytest.mark.parametrize(
    ("estimate", "exact", "diagonal", "message"),
    [
        ([1.0, 2.0], [1.0, 2.0], None, "estimate must be the N .* distances of all pairs"),
        ([1.0], [1.0, 2.0, 3.0], None, "1 estimates but 3 exact distances"),
        (np.eye(3), [1.0, 2.0, 3.0], None, r"found shape \(3, 3\)"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.0], "diagonal must have one value for each of the 3 distributions"),
    ],
)
def test_values_that_are_not_those_of_all_pairs_are_refused(estimate, exact, diagonal, message):
    with pytest.raises(ValueError, match=message):
        full_matrix_error(estimate, exact, diagonal=diagonal)


# ------------------------------------------------------------------------------------------------------------ k-means


def test_kmeans_makes_one_step_for_every_block_in_order(monkeypatch):
    monkeypatch.setattr(as_published, "POINTS_PER_STEP", 16)
    monkeypatch.setattr(as_published.batches, "__defaults__", (5,))
    seen = []

    class Recorder:
        def __init__(self, k, batch_size, random_state):
            self.settings = k, batch_size, random_state

        def partial_fit(self, points):
            seen.append(points)
            self.cluster_centers_ = points[: self.settings[0]]

    monkeypatch.setattr("sklearn.cluster.MiniBatchKMeans", Recorder)
    D = labeled()
    one_pass_kmeans(D, 2, seed=3)
    assert np.array_equal(np.concatenate(seen), D.points)
    expected = []
    for first in (0, 5, 10):
        n = int(D.sizes[first : first + 5].sum())
        expected += [min(16, n - start) for start in range(0, n, 16)]
    assert [len(block) for block in seen] == expected
    assert all(block.dtype == np.float32 for block in seen)


def test_kmeans_is_the_same_for_a_seed():
    D = five_copies(labeled())
    first, second, other = (one_pass_kmeans(D, 9, seed).anchors for seed in (0, 0, 1))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_a_label_that_kmeans_missed_goes_to_another_anchor():
    """1,999 of one label and one of another: the rare one loses its center, and its mass moves."""
    points = np.eye(2)[np.append(np.zeros(1999, dtype=int), 1)]
    D = asot.Distributions(points, offsets=range(0, 2001, 20))
    space = one_pass_kmeans(five_copies(D), 5, seed=0)
    found = asot.pairwise(five_copies(D), space=space, estimate="anchor").values
    assert np.allclose(space.histograms(five_copies(D)).sum(axis=1), 1.0)
    assert found.max() < 0.5 * asot.pairwise_exact(five_copies(D)).values.max()


def test_more_centers_than_points_are_refused():
    with pytest.raises(ValueError, match="k = 99 centers cannot be placed on a first block of"):
        one_pass_kmeans(labeled(), 99, seed=0)


# ------------------------------------------------------------------------------------------------------------- models


def models(kind, dim=10, k=6, seed=3):
    from asot_paper.published_networks import PublishedDictionary, PublishedMetric

    return {"dictionary": PublishedDictionary, "metric": PublishedMetric}[kind](dim, k, seed)


def numbers_of(model):
    return {name: array.double().numpy() for name, array in model.parameters.items()}


def threshold(p, x):
    hidden = np.maximum(p["threshold0_weight"] @ x + p["threshold0_bias"], 0.0)
    return max(float((p["threshold1_weight"] @ hidden + p["threshold1_bias"])[0]), 0.0)


def dictionary_code(p, x):
    """Twenty proximal steps, one entry at a time."""
    w = np.maximum(p["dictionary"], 0.0)  # (d, k)
    c, lamb = float(p["curvature"]), threshold(p, x)
    z = np.zeros(w.shape[1])
    for _ in range(20):
        residual = w @ z - x
        z = np.array([max(0.0, z[u] - (w[:, u] @ residual + lamb) / c) for u in range(len(z))])
    return z


def metric_code(p, x):
    hidden = p["code0_weight"] @ x + p["code0_bias"]
    raw = np.maximum(p["code1_weight"] @ hidden + p["code1_bias"], 0.0) + 0.01
    return raw / np.abs(raw).sum()


@needs_torch
@pytest.mark.parametrize(("kind", "code"), [("dictionary", dictionary_code), ("metric", metric_code)])
def test_codes_are_those_of_a_plain_loop(kind, code):
    import torch

    model = models(kind)
    points = np.tile(np.eye(2), 5)
    found = model.codes(torch.tensor(points, dtype=torch.float32)).numpy()
    assert np.allclose(found, [code(numbers_of(model), x) for x in points], atol=1e-5)
    assert (found >= 0).all()


@needs_torch
@pytest.mark.parametrize("kind", ["dictionary", "metric"])
def test_the_start_is_that_of_torch_layers(kind):
    """Linear layers and kaiming-uniform tensors after the same seed, in the order of the public code."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        layers = [torch.nn.Linear(10, 5), torch.nn.Linear(5, 1)]
        dictionary = torch.nn.init.kaiming_uniform_(torch.empty(10, 6), a=math.sqrt(5))
        layers += [torch.nn.Linear(10, 20), torch.nn.Linear(20, 6)]
        metric = torch.nn.init.kaiming_uniform_(torch.empty(10, 2), a=math.sqrt(5))
    p = models(kind).parameters
    assert torch.allclose(p["dictionary"], dictionary)
    names = ["threshold0", "threshold1"] if kind == "dictionary" else ["threshold0", "threshold1", "code0", "code1"]
    for name, layer in zip(names, layers, strict=False):
        assert torch.allclose(p[f"{name}_weight"], layer.weight)
        assert torch.allclose(p[f"{name}_bias"], layer.bias)
    if kind == "dictionary":
        assert float(p["curvature"]) == pytest.approx(float(dictionary.norm()) ** 2)
    else:
        assert torch.allclose(p["map"], metric)


@needs_torch
def test_the_dictionary_loss_with_counts_is_that_of_all_points():
    import torch
    from asot_paper.published_models import weighted_batches

    model, D = models("dictionary", dim=20), five_copies(labeled())
    p = numbers_of(model)
    w = np.maximum(p["dictionary"], 0.0)
    total = 0.0
    for x in D.points:
        z = dictionary_code(p, x)
        total += ((w @ z - x) ** 2).sum() + (np.linalg.norm(z) - 1.0) ** 2 + (np.abs(z).sum() - 1.0) ** 2
    ((x, counts),) = weighted_batches(D, 10**6)
    assert len(x) == 4
    found = float(model.loss(torch.tensor(x), torch.tensor(counts)))
    assert found == pytest.approx(total / len(D.points), rel=1e-5)


@needs_torch
def test_the_metric_loss_with_counts_is_that_of_all_pairs_of_points():
    import torch
    from asot_paper.published_models import weighted_batches

    model, D = models("metric", dim=20), five_copies(labeled())
    p = numbers_of(model)
    codes = np.stack([metric_code(p, x) for x in D.points])
    anchors = np.maximum(p["dictionary"], 0.0).T @ p["map"]
    gap = cdist(D.points, D.points) - codes @ cdist(anchors, anchors) @ codes.T
    ((x, counts),) = weighted_batches(D, 10**6)
    found = float(model.loss(torch.tensor(x), torch.tensor(counts)))
    assert found == pytest.approx(100.0 * np.sqrt((gap**2).sum()) / len(D.points) ** 2, rel=1e-5)


@needs_torch
def test_batches_are_consecutive_distributions_and_lose_no_point():
    from asot_paper.published_models import weighted_batches

    D = labeled()
    found = weighted_batches(D, 3, 5)
    assert sum(float(counts.sum()) for _, counts in found) == len(D.points)
    assert max(len(x) for x, _ in found) == 3
    first = [counts @ x for x, counts in found[:2]]  # five distributions of four labels: two parts
    assert np.array_equal(sum(first), D.points[: D.offsets[5]].sum(axis=0))


# ----------------------------------------------------------------------------------------------------------- learning


def learners():
    from asot_paper.published_models import published_dictionary, published_metric

    return {"dictionary": published_dictionary, "metric": published_metric}


@needs_torch
@pytest.mark.parametrize("kind", ["dictionary", "metric"])
def test_learning_is_the_same_for_a_seed_and_makes_the_error_small(kind):
    D = five_copies(labeled(n=30))
    learn = learners()[kind]
    exact = asot.pairwise_exact(D).values
    start, first, second = (learn(D, 8, epochs=epochs, seed=1) for epochs in (1, 150, 150))
    assert np.array_equal(first.cost, second.cost)
    assert np.array_equal(first.histograms(D), second.histograms(D))
    assert np.allclose(first.histograms(D).sum(axis=1), 1.0)
    before, after = (
        full_matrix_error(asot.pairwise(D, space=s, estimate="anchor").values, exact) for s in (start, first)
    )
    assert after < 0.5 * before


@needs_torch
def test_one_epoch_is_one_step_of_adam():
    import torch

    D = five_copies(labeled())
    space = learners()["metric"](D, 5, epochs=1, seed=3)
    model = models("metric", dim=20, k=5)
    from asot_paper.published_models import weighted_batches

    ((x, counts),) = weighted_batches(D, 10**6)
    parameters = {name: array.requires_grad_() for name, array in model.parameters.items()}
    optimizer = torch.optim.Adam(parameters.values(), lr=0.01)
    torch.autograd.backward(model.loss(torch.tensor(x), torch.tensor(counts)))
    optimizer.step()
    assert np.allclose(space.anchors, parameters["dictionary"].detach().relu().T.numpy())


@needs_torch
@pytest.mark.parametrize("kind", ["dictionary", "metric"])
def test_every_epoch_is_reported_with_a_space_of_its_own(kind):
    D = five_copies(labeled())
    seen = []
    last = learners()[kind](D, 5, epochs=4, on_epoch=lambda *what: seen.append(what))
    assert [epoch for epoch, _, _ in seen] == [1, 2, 3, 4]
    assert not np.array_equal(seen[0][1].cost, seen[3][1].cost)
    assert np.array_equal(seen[3][1].cost, last.cost)
    assert all(math.isfinite(loss) for _, _, loss in seen)


@needs_torch
def test_the_best_dictionary_is_that_after_the_epoch_of_the_least_loss():
    D = five_copies(labeled())
    seen = []
    best = learners()["dictionary"](D, 5, epochs=30, keep="best", on_epoch=lambda *what: seen.append(what))
    least = min(seen, key=lambda what: what[2])
    assert np.array_equal(best.cost, least[1].cost)


@needs_torch
def test_the_best_metric_is_judged_by_rebuilding_too():
    import torch
    from asot_paper.published_models import weighted_batches

    D = five_copies(labeled())
    ((x, counts),) = weighted_batches(D, 10**6)
    spaces, losses = [], []
    best = learners()["metric"](
        D, 5, epochs=12, keep="best", on_epoch=lambda _, space, loss: (spaces.append(space), losses.append(loss))
    )
    before = [models("metric", dim=20, k=5, seed=1), *(space.model for space in spaces)]
    scores = []
    for model, loss in zip(before, losses, strict=False):
        rebuilt = model.codes(torch.tensor(x)).detach().numpy() @ model.anchors().numpy()
        scores.append(loss + float(((rebuilt - x) ** 2).sum(axis=1) @ counts / counts.sum()))
    assert np.array_equal(best.cost, spaces[int(np.argmin(scores))].cost)


@needs_torch
def test_codes_are_summed_before_they_are_normalized():
    D = five_copies(labeled())
    space = learners()["dictionary"](D, 5, epochs=30)
    for i, histogram in enumerate(space.histograms(D)):
        total = space.encode(D[i][0]).sum(axis=0)
        assert np.allclose(histogram, total / total.sum())


@needs_torch
def test_a_distribution_of_zero_codes_gets_equal_masses_and_is_counted():
    space = learners()["dictionary"](five_copies(labeled()), 5, epochs=1)
    space.model.parameters["threshold1_bias"] += 1e6
    D = five_copies(labeled())
    assert space.n_empty(D) == len(D)
    assert np.allclose(space.histograms(D), 0.2)


@needs_torch
def test_a_space_survives_pickling_and_has_no_bounds_and_no_file(tmp_path):
    D = five_copies(labeled())
    space = learners()["metric"](D, 5, epochs=2)
    copy = pickle.loads(pickle.dumps(space))
    assert np.array_equal(copy.histograms(D, device="cpu"), space.histograms(D))
    assert "ASOT-ML as published" in repr(space)
    with pytest.raises(ValueError, match="no file format"):
        space.save(tmp_path / "space.npz")
    with pytest.raises(ValueError, match="no radii"):
        space.radii(D)
    with pytest.raises(ValueError, match="no nearest anchors"):
        space.assign(D.points)
    with pytest.raises(ValueError, match=r"points must be \(n, 20\)"):
        space.encode(np.zeros((2, 3)))


@needs_torch
def test_learning_leaves_torch_as_it_was():
    import torch

    threads, state = torch.get_num_threads(), torch.get_rng_state()
    learners()["dictionary"](five_copies(labeled()), 5, epochs=2)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


@needs_torch
def test_a_loss_that_is_not_finite_is_an_error():
    huge = asot.Distributions(np.full((4, 5), 1e30), offsets=[0, 2, 4])
    with pytest.raises(RuntimeError, match=r"ASOT-DL as published diverged: its loss is (inf|nan) in epoch 1"):
        learners()["dictionary"](huge, 3, epochs=2)


@needs_torch
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"k": 0}, "k must be a whole number ≥ 1"),
        ({"epochs": 0}, "epochs must be a whole number ≥ 1"),
        ({"keep": "first"}, "keep must be"),
        ({"weight": 0.0}, "weight must be > 0"),
        ({"device": "tpu"}, "unknown device 'tpu'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(how, message):
    with pytest.raises(ValueError, match=message):
        learners()["metric"](five_copies(labeled()), **{"k": 3, "epochs": 1, **how})


@pytest.mark.parametrize("name", ["published_dictionary", "published_metric"])
def test_without_torch_the_error_says_what_to_install(monkeypatch, name):
    from asot_paper import published_models

    monkeypatch.setattr(published_models.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install 'asot\[torch\]'"):
        getattr(published_models, name)(five_copies(labeled()), 3)
