"""The methods of the tables: how each learns its space, if it has one, and how it gets its distances.

Methods with an anchor space are a *learner* and a *solver*. The learner depends on the condition: as published, the
authors' models; as described, this library's. Methods with the same learner share its space. All others work on the
original points.
"""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asot
from asot.anchors.space import AnchorSpace
from asot.data.distinct import distinct_rows
from asot.data.distributions import Distributions
from asot.results.distances import Distances
from asot.run import devices
from asot.validation import as_n_jobs
from asot_paper.as_published import COPIES, DISTRIBUTIONS_PER_BATCH, one_pass_kmeans
from asot_paper.conditions import regularization_rule
from asot_paper.names import CALIBRATED, OURS, PUBLISHED
from asot_paper.published_models import PublishedSpace
from asot_paper.scale import ZINC_TRAINING, Scale

Float = NDArray[np.float64]

ALL_MOLECULES = "all molecules of the training split"
"""How a cell records what it was learned on."""

WORTH_THREADS = 1000
"""Distinct points from which the authors' models are learned with more than one thread. With fewer, threads mostly wait
for each other."""

OFF_BY = 0.01
"""An entropic pair counts as not converged if more than this share of its mass is not where it belongs."""


@dataclass(frozen=True)
class Method:
    """One row of a table."""

    name: str
    space: str | None = None
    """Which space it works in: "k", "ML", "DL", "own k" (k-means of this library in both conditions), "ours"; None
    for a method on the original points."""
    entropic: bool = False
    random: bool = False
    """Whether a seed changes it although nothing is learned."""
    on_device: bool = False
    """Whether a GPU can do the work."""

    @property
    def repeats(self) -> bool:
        """Whether another seed or another training fold gives another number."""
        return self.space is not None or self.random


METHODS = {
    method.name: method
    for method in (
        Method("OT-EMD"),
        Method("SW", random=True),
        Method("eOT", entropic=True),
        Method("BDS-eOT", entropic=True, on_device=True),
        Method("ASOT-k", "k", on_device=True),
        Method("ASOT-ML", "ML", on_device=True),
        Method("ASOT-DL", "DL", on_device=True),
        Method("eASOT-k", "k", entropic=True, on_device=True),
        Method("eASOT-ML", "ML", entropic=True, on_device=True),
        Method("eASOT-DL", "DL", entropic=True, on_device=True),
        Method(CALIBRATED, "own k"),
        Method(OURS, "ours", on_device=True),
    )
}


@dataclass(frozen=True)
class Hardware:
    """Where and with how many threads to work."""

    device: str = "cpu"
    jobs: int = -1
    alone: bool = True
    """Whether nothing else runs at the same time, so that times count."""

    @property
    def threads(self) -> int:
        return as_n_jobs(self.jobs)


# ------------------------------------------------------------------------------------------------------------ settings


def learner_of(method: str, condition: str, name: str) -> str | None:
    """The name of the learner behind a method on a set; methods with the same one share a space.

    The public code learns on graphs only. On digits, the paper's ASOT-ML and ASOT-DL are this library's in both
    conditions.
    """
    space = METHODS[method].space
    if space is None:
        return None
    if space == "own k" or (space == "k" and condition != PUBLISHED):
        return "k-means"
    if space == "ours":
        return "MetricAnchors, objective distance"
    if condition == PUBLISHED and (name != "MNIST" or space == "k"):
        return {"k": "one-pass k-means", "ML": "ASOT-ML as published", "DL": "ASOT-DL as published"}[space]
    return {"ML": "MetricAnchors, objective paper", "DL": "DictionaryAnchors, objective paper"}[space]


def method_settings(method: str, condition: str, name: str, scale: Scale, max_iter: int) -> dict[str, Any]:
    """What changes the numbers of a method, known before it is run."""
    settings: dict[str, Any] = {}
    learner = learner_of(method, condition, name)
    if method == "SW":
        fresh = condition == PUBLISHED
        settings["projections"] = (
            "as many as one-hot columns, fresh for every pair"
            if fresh and name != "MNIST"
            else f"as many as dimensions, {'fresh for every pair' if fresh else 'shared by all pairs'}"
        )
    if METHODS[method].entropic:
        settings |= {"reg_rule": regularization_rule(condition), "max_iter": max_iter, "init": "target"}
    if learner is not None:
        settings["learner"] = learner
        if "k-means" not in learner:
            settings["epochs"] = scale.epochs(learner.endswith("as published"), name)
        if "objective" in learner:
            settings["n_pairs"] = scale.n_pairs
        if learner.endswith("as published") and "ASOT" in learner:
            settings["training"] = "over distinct points, weighted by how often each occurs; the last epoch counts"
        settings["learned_on"] = _learned_on(name, scale, is_authors(learner))
    if name == "MNIST":
        settings["digits"] = f"{scale.digits} of MNIST's test images, drawn by fold"
    return settings


def is_authors(learner: str) -> bool:
    """Whether a learner is one of the paper's program: its k-means, or one of its models."""
    return learner == "one-pass k-means" or learner.endswith("as published")


def _learned_on(name: str, scale: Scale, authors: bool) -> str:
    if name == "MNIST":
        return "the digits that are evaluated"
    if name == "ZINC":
        count = scale.molecules(authors)
        if count >= ZINC_TRAINING:
            return ALL_MOLECULES
        return f"{count} molecules of the training split, drawn by seed and fold"
    return "nine of ten stratified folds, drawn by seed"


# ------------------------------------------------------------------------------------------------------------ learning


@dataclass(frozen=True, eq=False)
class Learned:
    """A space, how long it took, and how training went."""

    space: AnchorSpace
    seconds: float
    notes: tuple[str, ...] = ()
    history: dict[str, list[float]] = field(default_factory=dict)
    """Of this library's learners: epoch, error (as a share of the mean distance, on held-out pairs), seconds."""


OnEpoch = Callable[[int, Any, float], object]


def learn(
    learner: str,
    D: Distributions,
    k: int,
    *,
    seed: int,
    epochs: int = 1,
    n_pairs: int = 64,
    keep: str = "last",
    per_batch: int | None = None,
    hardware: Hardware,
    on_epoch: OnEpoch | None = None,
) -> Learned:
    """Learn a space of k anchors on a collection, timed. ``keep`` and ``per_batch`` are for the authors' models."""
    begin, history = _LEARNERS[learner], {}
    with _noting_warnings() as notes, _torch_threads(hardware, D, learner.endswith("as published")):
        start = time.perf_counter()
        authors = {"keep": keep, "per_batch": per_batch, "on_epoch": on_epoch}
        model = begin(D, k, seed=seed, epochs=epochs, n_pairs=n_pairs, hardware=hardware, **authors)
        seconds = time.perf_counter() - start
    if not isinstance(model, AnchorSpace):
        history = dict(getattr(model, "history_", {}))
        model = model.space_
    return Learned(model, seconds, tuple(notes), history)


def _own_kmeans(D: Distributions, k: int, *, seed: int, hardware: Hardware, **_: Any) -> Any:
    return asot.KMeansAnchors(k, random_state=seed, device=hardware.device).fit(D)


def _one_pass(D: Distributions, k: int, *, seed: int, **_: Any) -> Any:
    return one_pass_kmeans(D, k, seed)


def _published(
    kind: str, D: Distributions, k: int, *, seed: int, epochs: int, keep: str, per_batch: int | None,
    hardware: Hardware, on_epoch: OnEpoch | None, **_: Any,
) -> Any:  # fmt: skip
    from asot_paper import published_models

    model = getattr(published_models, kind)
    batch = DISTRIBUTIONS_PER_BATCH if per_batch is None else per_batch
    how = {"epochs": epochs, "seed": seed, "keep": keep, "per_batch": batch, "on_epoch": on_epoch}
    return model(D, k, **how, device=hardware.device)


def _library(
    kind: str, objective: str, D: Distributions, k: int, *, seed: int, epochs: int, n_pairs: int, hardware: Hardware,
    **_: Any,
) -> Any:  # fmt: skip
    learner = getattr(asot, kind)
    how = {"max_epochs": epochs, "n_pairs": n_pairs, "device": hardware.device, "random_state": seed}
    return learner(k, objective=objective, **how).fit(D)


_LEARNERS: dict[str, Callable[..., Any]] = {
    "k-means": _own_kmeans,
    "one-pass k-means": _one_pass,
    "ASOT-ML as published": functools.partial(_published, "published_metric"),
    "ASOT-DL as published": functools.partial(_published, "published_dictionary"),
    "MetricAnchors, objective paper": functools.partial(_library, "MetricAnchors", "paper"),
    "DictionaryAnchors, objective paper": functools.partial(_library, "DictionaryAnchors", "paper"),
    "MetricAnchors, objective distance": functools.partial(_library, "MetricAnchors", "distance"),
}


@contextlib.contextmanager
def _noting_warnings() -> Iterator[list[str]]:
    """Collect warnings as text, each once: a cell keeps them in place of showing them."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes += dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)


def _torch_threads(hardware: Hardware, D: Distributions, published: bool) -> contextlib.AbstractContextManager[None]:
    """Threads of PyTorch for the authors' models; this library's learners choose themselves."""
    if not published or find_spec("torch") is None:
        return contextlib.nullcontext()
    few = len(distinct_rows(D.points)[0]) < WORTH_THREADS
    return devices.torch_threads(1 if few else hardware.threads)


# ----------------------------------------------------------------------------------------------------------- distances


@dataclass(frozen=True, eq=False)
class Found:
    """Distances of all pairs i < j, and what else was observed."""

    values: Float
    seconds: float
    device: str
    not_converged: int
    notes: tuple[str, ...] = ()


def distances(
    method: str,
    condition: str,
    D: Distributions,
    *,
    space: AnchorSpace | None = None,
    name: str = "",
    reg: float | None = None,
    max_iter: int = 50,
    seed: int = 0,
    hardware: Hardware,
) -> Found:
    """All distances of a collection by a method, timed: encoding in the space and solving."""
    solve = functools.partial(_solve, method, condition, name, space, reg, max_iter, seed, hardware)
    with _noting_warnings() as notes, _torch_threads(hardware, D, isinstance(space, PublishedSpace)):
        start = time.perf_counter()
        result = solve(D, None)
        seconds = time.perf_counter() - start
    off = 0 if result.marginal_error is None else int(np.count_nonzero(result.marginal_error > OFF_BY))
    return Found(result.values, seconds, str(result.info.get("device", "cpu")), off, tuple(notes))


def diagonal(
    method: str,
    D: Distributions,
    *,
    space: AnchorSpace | None,
    reg: float | None,
    max_iter: int,
    hardware: Hardware,
) -> Float | None:
    """What an entropic method gives for every distribution with itself (N,); None for other methods."""
    if not METHODS[method].entropic:
        return None
    own = np.repeat(np.arange(len(D)), 2).reshape(-1, 2)
    return _solve(method, PUBLISHED, "", space, reg, max_iter, 0, hardware, D, own).values


def _solve(
    method: str,
    condition: str,
    name: str,
    space: AnchorSpace | None,
    reg: float | None,
    max_iter: int,
    seed: int,
    hardware: Hardware,
    D: Distributions,
    pairs: Any,
) -> Distances:
    common: dict[str, Any] = {"pairs": pairs, "n_jobs": hardware.jobs, "progress": False}
    iterate: dict[str, Any] = {"reg": reg, "max_iter": max_iter, "init": "target"}
    if space is None:
        return _on_points(method, condition, name, D, seed, hardware, iterate, common)
    if method == CALIBRATED:
        return asot.pairwise(D, space=space, estimate="calibrated", device="cpu", **common)
    histograms = space.histograms(D, device=hardware.device)
    common |= {"cost": space.cost, "device": hardware.device}
    if METHODS[method].entropic:
        return asot.sinkhorn_many(histograms, tol=None, **iterate, **common)
    return asot.emd_many(histograms, **common)


def _on_points(
    method: str,
    condition: str,
    name: str,
    D: Distributions,
    seed: int,
    hardware: Hardware,
    iterate: dict[str, Any],
    common: dict[str, Any],
) -> Distances:
    from asot_paper import baselines

    if method == "OT-EMD":
        return baselines.ot_emd(D, **common)
    if method == "SW":
        published = condition == PUBLISHED
        copies = COPIES if published and name != "MNIST" else 1
        how: dict[str, Any] = {"n_projections": D.dim // copies, "shared": not published, "random_state": seed}
        return baselines.sliced(D, **how, **common)
    if method == "eOT":
        return baselines.entropic(D, tol=None, **iterate, **common)
    if method == "BDS-eOT":
        return baselines.block_diagonal(D, device=hardware.device, **iterate, **common)
    raise NotImplementedError(f"how {method!r} computes distances is not written here yet")
