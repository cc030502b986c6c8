"""ASOT-DL and ASOT-ML as the paper's public code learns them, to compare with (docs/method.md §4, 5, 11).

Our own learners start at k-means, standardize their inputs and normalize every code. These do not. Their anchors are
random and lose their negative entries in a ReLU, their codes have whatever scale they happen to have, and Adam runs for
a given number of epochs at one rate. Only the speed differs from the public code: a loss over points, or over pairs of
points, is the same loss over the *distinct* points, weighted by how often each occurs. Labeled graphs have a few dozen
of them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.anchors.space import AnchorSpace
from asot.data.distinct import distinct_rows
from asot.data.distributions import Distributions
from asot.run import devices
from asot.validation import as_choice, as_positive_int, to_float_array
from asot_paper.as_published import DISTRIBUTIONS_PER_BATCH, batches
from asot_paper.published_networks import PublishedDictionary, PublishedMetric, PublishedModel

if TYPE_CHECKING:
    from torch import Tensor

LEARNING_RATE = 0.01
MOST_POINTS_IN_PAIRS = 2048
"""Distinct points of a batch of ASOT-ML, whose loss runs over all pairs of them. More are split into several
batches."""

_CHUNK = 65_536  # points encoded at a time

WORTH_THREADS = 2000
"""Distinct points of a batch from which several threads of torch, or a GPU chosen by "auto", pay off."""

OnEpoch = Callable[[int, "PublishedSpace", float], object]
Batch = tuple["Tensor", "Tensor"]


class PublishedSpace(AnchorSpace):
    """Anchors and codes of a model as published. The cost is a pseudo-metric: anchors may coincide.

    Codes need not sum to 1. A histogram is the sum of a distribution's codes (weighted by its masses, which are equal
    in the paper) divided by its total, so points with larger codes count for more. Where all codes of a distribution
    are 0, there is no total to divide by; its histogram has the same mass on every anchor, and `n_empty` counts it.
    """

    def __init__(self, model: PublishedModel) -> None:
        import torch

        with torch.no_grad():
            anchors, cost = (part.cpu().numpy().astype(np.float64) for part in (model.anchors(), model.cost()))
        np.fill_diagonal(cost, 0.0)
        super().__init__(anchors, np.maximum(cost, cost.T))
        self.model = model
        self.why_no_bounds = "its codes are soft and not even normalized; use KMeansAnchors, or pairwise_exact"

    def __repr__(self) -> str:
        return (
            f"PublishedSpace: {self.n_anchors} anchors in {self.dim} dimensions, {self.model.name} as published, "
            f"learned cost up to {self.cost.max():.4g}"
        )

    def encode(self, points: ArrayLike, *, device: str | None = None) -> NDArray[np.float64]:
        """Codes (n, k) ≥ 0 of points (n, d), as the model gives them, computed where it was learned or on a device."""
        import torch

        array = to_float_array(points, "points", keep_float32=True).astype(np.float32)
        if array.ndim != 2 or array.shape[1] != self.dim:
            raise ValueError(f"points must be (n, {self.dim}) in this anchor space; found shape {array.shape}")
        model = self.model if device is None else self.model.frozen(_torch_device(device, len(array)))
        codes = np.empty((len(array), self.n_anchors))
        with torch.no_grad():
            for start in range(0, len(array), _CHUNK):
                x = torch.as_tensor(array[start : start + _CHUNK], device=model.device)
                codes[start : start + _CHUNK] = model.codes(x).cpu().numpy()
        return codes

    def histograms(self, D: Distributions, *, device: str | None = None) -> NDArray[np.float64]:
        """Histograms (N, k): codes summed, then divided by their total; equal masses where that is 0."""
        sums = self._sums(D, device)
        totals = sums.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return np.where(totals > 0, sums / totals, 1.0 / self.n_anchors)

    def n_empty(self, D: Distributions) -> int:
        """How many distributions have only codes of zeros."""
        return int((self._sums(D, None).sum(axis=1) == 0).sum())

    def _sums(self, D: Distributions, device: str | None) -> NDArray[np.float64]:
        points, index = distinct_rows(D.points)
        codes = self.encode(points, device=device)
        return np.add.reduceat(codes[index] * D.masses[:, None], D.offsets[:-1], axis=0)

    def assign(self, points: ArrayLike, *, device: str | None = None, n_jobs: int | None = None) -> NoReturn:
        """Not available: a point of this space belongs to no single anchor."""
        raise ValueError(f"this space has no nearest anchors: {self.why_no_bounds}")

    def radii(self, D: Distributions, *, device: str | None = None) -> NoReturn:
        """Not available: a radius needs nearest anchors."""
        raise ValueError(f"this space has no radii: {self.why_no_bounds}")

    def save(self, path: Any) -> NoReturn:
        """Not available: a space as published is learned again when it is needed."""
        raise ValueError("a space as published is for comparison and has no file format; save one of asot's learners")


# ----------------------------------------------------------------------------------------------------------- learning


def published_dictionary(
    D: Distributions,
    k: int,
    *,
    epochs: int = 500,
    seed: int = 1,
    keep: str = "last",
    per_batch: int = DISTRIBUTIONS_PER_BATCH,
    on_epoch: OnEpoch | None = None,
    device: str = "cpu",
) -> PublishedSpace:
    """ASOT-DL as published. Needs PyTorch.

    Parameters
    ----------
    D : Distributions
        Those to learn from.
    k : int
        Number of anchors.
    epochs : int
        Passes over D, in order.
    seed : int
        Seed of the random start. The public code uses 1.
    keep : {"last", "best"}
        Which epoch counts: the last, as where the public code runs one fold, or that of the least loss, as where it
        runs ten.
    per_batch : int
        Distributions of a batch: 500 in the paper's text, all of them by default in the public code.
    on_epoch : callable, optional
        Gets (epochs done, the space so far, its mean loss during the epoch).
    device : {"cpu", "cuda", "cuda:N", "auto"}

    Examples
    --------
    >>> import numpy as np, asot
    >>> labels = np.random.default_rng(0).integers(3, size=90)
    >>> D = asot.Distributions(np.tile(np.eye(3), 5)[labels], offsets=range(0, 91, 9))
    >>> space = published_dictionary(D, 6, epochs=20)
    >>> space.histograms(D).sum(axis=1).round(6)
    array([1., 1., 1., 1., 1., 1., 1., 1., 1., 1.])
    """
    data, where = _prepare(PublishedDictionary.name, D, len(D.points), per_batch, device)
    model = PublishedDictionary(D.dim, as_positive_int(k, "k"), seed, where)
    return _learn(model, data, epochs, keep, on_epoch)


def published_metric(
    D: Distributions,
    k: int,
    *,
    epochs: int = 500,
    seed: int = 1,
    weight: float = 100.0,
    keep: str = "last",
    per_batch: int = DISTRIBUTIONS_PER_BATCH,
    on_epoch: OnEpoch | None = None,
    device: str = "cpu",
) -> PublishedSpace:
    """ASOT-ML as published. Needs PyTorch.

    Parameters are those of `published_dictionary`, and ``weight``, the factor of the loss: 100 in the paper, 10 by
    default in the public code. Adam hardly notices it. A batch has at most `MOST_POINTS_IN_PAIRS` distinct points.
    ``keep="best"`` judges an epoch as the public code does: by the loss and, mostly, by how well anchors reconstruct
    points, which is not learned. It picks an epoch near the start, with an error about ten times that of the last.

    Examples
    --------
    >>> import numpy as np, asot
    >>> labels = np.random.default_rng(0).integers(3, size=90)
    >>> D = asot.Distributions(np.tile(np.eye(3), 5)[labels], offsets=range(0, 91, 9))
    >>> published_metric(D, 6, epochs=20).cost.shape
    (6, 6)
    """
    data, where = _prepare(PublishedMetric.name, D, MOST_POINTS_IN_PAIRS, per_batch, device)
    if not weight > 0:
        raise ValueError(f"weight must be > 0; found {weight!r}")
    model = PublishedMetric(D.dim, as_positive_int(k, "k"), seed, where, weight)
    return _learn(model, data, epochs, keep, on_epoch)


def _prepare(name: str, D: Distributions, most: int, per_batch: int, device: str) -> tuple[list[Batch], str]:
    """The batches, each of at most ``most`` distinct points, on the device, and the device."""
    if importlib.util.find_spec("torch") is None:
        raise ImportError(f"{name} is learned with PyTorch, which is not installed; pip install 'asot[torch]'")
    import torch

    found = weighted_batches(D, most, as_positive_int(per_batch, "per_batch"))
    where = _torch_device(device, max(len(x) for x, _ in found))
    return [(torch.as_tensor(x, device=where), torch.as_tensor(counts, device=where)) for x, counts in found], where


def _torch_device(device: str, n_points: int) -> str:
    return devices.torch_device(device, worth_it=n_points >= WORTH_THREADS) or "cpu"


def _learn(
    model: PublishedModel, data: list[Batch], epochs: int, keep: str, on_epoch: OnEpoch | None
) -> PublishedSpace:
    """Adam over all batches in order, epoch by epoch."""
    import torch

    as_choice(keep, "keep", ("last", "best"))
    optimizer = torch.optim.Adam([array.requires_grad_() for array in model.parameters.values()], lr=LEARNING_RATE)
    best, least = model, math.inf
    with _threads(max(len(x) for x, _ in data)):
        for epoch in range(1, as_positive_int(epochs, "epochs") + 1):
            losses, scores = _epoch(model, data, optimizer, scored=keep == "best")
            if not math.isfinite(sum(losses)):
                raise RuntimeError(f"{model.name} as published diverged: its loss is {sum(losses)} in epoch {epoch}")
            if keep == "best" and sum(scores) < least:
                best, least = model.frozen(), sum(scores)
            if on_epoch is not None:
                on_epoch(epoch, PublishedSpace(model.frozen()), sum(losses) / len(losses))
    return PublishedSpace(best.frozen())


def _epoch(
    model: PublishedModel, data: list[Batch], optimizer: Any, *, scored: bool
) -> tuple[list[float], list[float]]:
    """One step for every batch; their losses and scores, each from before its step as in the public code."""
    import torch

    losses: list[float] = []
    scores: list[float] = []
    for x, counts in data:
        loss = model.loss(x, counts)
        losses.append(float(loss.detach()))
        if scored:
            scores.append(model.score(x, counts, losses[-1]))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return losses, scores


def weighted_batches(
    D: Distributions, most: int, per_batch: int = DISTRIBUTIONS_PER_BATCH
) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Distinct points (n, d) of every batch, and how often each occurs (n,); batches of more than ``most`` are
    split."""
    found = []
    for batch in batches(D, per_batch):
        points, index = distinct_rows(np.asarray(D.points[batch], dtype=np.float32))
        counts = np.bincount(index).astype(np.float32)
        found += [(points[start : start + most], counts[start : start + most]) for start in range(0, len(points), most)]
    return found


@contextlib.contextmanager
def _threads(n_points: int) -> Iterator[None]:
    """One thread for small batches: several would mostly wait for each other, and take ten times as long."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1 if n_points < WORTH_THREADS else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
