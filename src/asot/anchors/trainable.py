"""What learners with soft codes share: from a collection to a trained space.

Both of the paper's learned spaces are a map from points to codes and a set of k points whose Euclidean distances are
the cost, so the cost is always a pseudometric. They differ in the map and in the paper's training objective. Everything
else is here: the start from k-means, standardized inputs, the pairs for validation, and our own objective, which trains
W_AS ≈ W_1 itself (docs/method.md §5).
"""

from __future__ import annotations

import importlib.util
import itertools
import time
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from asot.anchors.base import AnchorLearner
from asot.anchors.kmeans import KMeansAnchors
from asot.anchors.soft_codes import MAPS, LearnedSpace, SoftCodes
from asot.anchors.space import AnchorSpace, euclidean_cost
from asot.anchors.training import DeviceLostError, Lesson, Outcome, Schedule, State, Tensors, train
from asot.anchors.training_pairs import Batch, PairExamples, draw_examples
from asot.data.distributions import Distributions
from asot.histograms import emd_many
from asot.run import devices
from asot.run.executors import ProgressLike
from asot.validation import as_choice, as_number, as_positive_int

if TYPE_CHECKING:
    from torch import Tensor

WORTH_A_DEVICE = 10**6
"""Points of a collection from which ``device="auto"`` learns on a GPU."""

NETWORK_RATE = {"distance": 0.05, "paper": 0.3}
"""Learning rate of networks, as a share of that of anchors. A network that only corrects codes must not run ahead of
the anchors: with 0.3 the error on unseen graphs of PTC_MR was 14 percent in place of 9."""

START_POINTS = 500_000
"""The initial k-means uses at most this many points: those of distributions drawn at random."""

POINTS_PER_BATCH = 512
"""How many points of a batch the paper's losses use; its pairs loss is quadratic in them."""


@dataclass(eq=False, repr=False)
class LearnedAnchors(AnchorLearner):
    """Base of `MetricAnchors` and `DictionaryAnchors`, which document the parameters."""

    kind: ClassVar[str]
    """Which of `asot.anchors.soft_codes.MAPS` is learned."""

    n_anchors: int | None = None
    _: KW_ONLY
    objective: str = "distance"
    hidden: int | Sequence[int] = (64,)
    n_pairs: int = 5000
    batch_size: int = 128
    learning_rate: float = 0.01
    max_epochs: int = 40
    max_time: float | None = None
    patience: int = 25
    validation_fraction: float = 0.15
    warm_start: bool = False
    progress: ProgressLike = None
    device: str = "auto"
    random_state: Any = None

    @abstractmethod
    def _begin(self, anchors: NDArray[np.float64], sharpness: float, rng: np.random.RandomState) -> State:
        """Arrays to start from, given k-means anchors (k, d) in the learner's unit."""

    @abstractmethod
    def _cost_points(self, p: Any) -> Any:
        """The k points (k, e) whose Euclidean distances are the cost, in the learner's unit."""

    @abstractmethod
    def _paper_loss(self, p: Tensors, u: Tensor, z: Tensor) -> Tensor:
        """What the paper minimizes, for standardized points u and z (n, d)."""

    @abstractmethod
    def _learned(self) -> tuple[str, ...]:
        """What to learn besides the network."""

    def _learn(self, D: Distributions) -> AnchorSpace:
        schedule = self._schedule()
        if importlib.util.find_spec("torch") is None:
            raise ImportError(
                f"{type(self).__name__} is learned with PyTorch, which is not installed; pip install 'asot[torch]', or "
                "use KMeansAnchors (saved spaces of this kind can be loaded and used without it)"
            )
        import torch
        from sklearn.utils import check_random_state

        device = devices.torch_device(self.device, worth_it=len(D.points) >= WORTH_A_DEVICE) or "cpu"
        rng = check_random_state(self.random_state)
        warm = self.warm_start is True and hasattr(self, "history_")
        self._resume(D) if warm else self._start(D, rng)
        with torch.random.fork_rng(devices=[]), devices.torch_threads(1):  # batches are too small for more
            torch.manual_seed(int(rng.randint(2**31)))
            outcome = self._trained(D, schedule, rng, device)
        self._state = outcome.state
        before: dict[str, list[float]] = self.history_ if warm else {}
        self.history_: dict[str, list[float]] = {
            name: [*before.get(name, []), *values] for name, values in outcome.history.items()
        }
        self.n_epochs_ = len(outcome.history.get("epoch", [0])) - 1
        self.validation_error_ = outcome.error
        return self._space(outcome.state)

    def _trained(self, D: Distributions, schedule: Schedule, rng: np.random.RandomState, device: str) -> Outcome:
        state = self._state
        if len(D) < 2:
            words = "a single distribution has no distances to learn from: the anchors are those of k-means"
            warnings.warn(words, stacklevel=5)
            return Outcome(state, 0.0)
        n_pairs, batch_size = as_positive_int(self.n_pairs, "n_pairs"), as_positive_int(self.batch_size, "batch_size")
        rule = "validation_fraction must be a number between 0 and 1"
        fraction = as_number(self.validation_fraction, lambda share: 0 < share < 1, rule)
        examples = draw_examples(D, n_pairs=n_pairs, batch_size=max(2, batch_size), fraction=fraction, rng=rng)
        if examples.mean_distance == 0.0:
            words = "all distances are 0, so there is nothing to learn: the anchors are those of k-means"
            warnings.warn(words, stacklevel=5)
            return Outcome(state, 0.0)
        by_examples = _ByExamples(self, D, self._codes(state), examples)
        rates = dict.fromkeys(self._learned(), 1.0)
        rates |= {name: NETWORK_RATE[self.objective] for name in state if name.startswith(("weight", "bias"))}
        lesson = Lesson(rates, by_examples.loss, by_examples.error, len(examples.batches))
        try:
            return train(state, lesson, schedule, rng, device=device, progress=self.progress)
        except DeviceLostError as error:
            if self.device != "auto":
                self._state, self.history_ = error.outcome.state, error.outcome.history
                raise RuntimeError(
                    f"{error} while training. What was learned is kept: fit again with device='cpu' and "
                    "warm_start=True to continue from there"
                ) from error
            warnings.warn(f"{error} while training, which continues on the CPU", stacklevel=5)
            return train(error.outcome.state, lesson, schedule, rng, progress=self.progress)

    def _start(self, D: Distributions, rng: np.random.RandomState) -> None:
        self._asked = (self.n_anchors, self.objective)
        learner = KMeansAnchors(self.n_anchors, random_state=int(rng.randint(2**31)), device=self.device or "auto")
        anchors = learner.fit(_sample(D, START_POINTS, rng)).space_.anchors
        self._nearest = AnchorSpace(anchors)
        self._standard = center, _, unit = _standard(D)
        unit_anchors = (anchors - center) / unit
        nearest = learner.inertia_ / unit**2  # mean squared distance to the nearest anchor
        self._state = _floats(self._begin(unit_anchors, _sharpness(unit_anchors, nearest), rng), np.float32)

    def _resume(self, D: Distributions) -> None:
        dim = len(self._standard[0])
        if dim != D.dim:
            raise ValueError(f"warm_start=True continues in {dim} dimensions, but the collection is in {D.dim}")
        if self._asked != (self.n_anchors, self.objective):
            raise ValueError(
                "warm_start=True continues with n_anchors={!r} and objective={!r}; ".format(*self._asked)
                + "set it to False to change them"
            )

    def _codes(self, state: State) -> SoftCodes:
        """The map from points to codes, which reads some of the arrays."""
        ours = ("weight", "bias", "anchors", "log_", "n_layers")
        read = {name: array for name, array in state.items() if name.startswith(ours)}
        return SoftCodes(self.kind, *self._standard, read)

    def _space(self, state: State) -> LearnedSpace:
        exact = _floats(state, np.float64)
        codes, anchors = self._codes(exact), exact["anchors" if "anchors" in exact else "fixed_anchors"]
        cost = codes.unit * euclidean_cost(np.asarray(self._cost_points(exact), dtype=np.float64))
        return LearnedSpace(codes.center + codes.unit * anchors, cost, codes, self._nearest)

    def _schedule(self) -> Schedule:
        as_choice(self.objective, "objective", ("distance", "paper"))
        max_time = self.max_time
        if max_time is not None and not (isinstance(max_time, (int, float)) and max_time > 0):
            raise ValueError(f"max_time must be None or a number of seconds > 0; found {max_time!r}")
        rate = as_number(self.learning_rate, lambda rate: 0 < rate < np.inf, "learning_rate must be a number > 0")
        epochs, patience = as_positive_int(self.max_epochs, "max_epochs"), as_positive_int(self.patience, "patience")
        return Schedule(rate, epochs, patience, max_time, time.monotonic())

    def _network(self, d: int, outputs: int, rng: np.random.RandomState) -> State:
        """Weights of a perceptron whose last layer is 0, so its output starts at 0."""
        sizes = [self.hidden] if hasattr(self.hidden, "__index__") else list(self.hidden)
        widths = [d, *(as_positive_int(size, "hidden") for size in sizes), outputs]
        state: State = {}
        for layer, (before, after) in enumerate(itertools.pairwise(widths)):
            scale = np.sqrt(2.0 / before) if layer < len(widths) - 2 else 0.0
            state[f"weight{layer}"] = scale * rng.normal(size=(before, after))
            state[f"bias{layer}"] = np.zeros(after)
        return state


class _ByExamples:
    """A learner's loss and error on the examples of a collection, as functions of its tensors."""

    def __init__(self, learner: LearnedAnchors, D: Distributions, codes: SoftCodes, examples: PairExamples) -> None:
        self._learner, self._D, self._codes, self._examples = learner, D, codes, examples
        self._by_distance = learner.objective == "distance"

    def loss(self, p: Tensors, batch: int) -> Tensor:
        import torch

        from asot import gradients

        chosen = self._examples.batches[batch]
        if not self._by_distance:  # points are taken evenly from all distributions; torch's generator chooses
            points = self._D[chosen.members].points
            some = torch.randperm(len(points))[: 2 * POINTS_PER_BATCH].numpy()
            return self._learner._paper_loss(p, *self._tensors(points[some], p))
        histograms, cost = self._histograms(p, chosen), table_of_distances(self._learner._cost_points(p))
        first, on_host = histograms.double().cpu(), cost.double().cpu()
        found = gradients.emd_many(first, cost=on_host, pairs=chosen.pairs, n_jobs=_jobs(cost))
        wanted = torch.as_tensor(chosen.distances)
        return ((self._codes.unit * found - wanted) / self._examples.mean_distance).square().mean()

    def error(self, p: Tensors) -> float:
        """Root mean square of W_AS - W_1 on held-out pairs, as a share of the mean distance; inf where undefined."""
        import torch

        held_out = self._examples.held_out
        with torch.no_grad():
            histograms = self._histograms(p, held_out).double().cpu().numpy()
            cost = euclidean_cost(self._learner._cost_points(p).double().cpu().numpy())
        if not (np.isfinite(histograms).all() and np.isfinite(cost).all()):
            return float("inf")
        found = emd_many(histograms, cost=cost, pairs=held_out.pairs, device="cpu", n_jobs=_jobs(cost)).values
        off = self._codes.unit * found - held_out.distances
        return float(np.sqrt(np.mean(off**2)) / self._examples.mean_distance)

    def _histograms(self, p: Tensors, batch: Batch) -> Tensor:
        """(B, k) histograms of the distributions of a batch; sums in the same order on every run."""
        import torch

        D = self._D[batch.members]
        u, z = self._tensors(D.points, p)
        masses = torch.tensor(D.masses, dtype=u.dtype, device=u.device)
        codes = MAPS[self._codes.kind](p, u, z, torch) * masses[:, None]
        return torch.segment_reduce(codes, "sum", lengths=torch.as_tensor(D.sizes, device=u.device))

    def _tensors(self, points: NDArray[Any], p: Tensors) -> tuple[Tensor, Tensor]:
        import torch

        like = p["weight0"]
        u, z = (torch.as_tensor(part).to(like) for part in self._codes.standardize(points))
        return u, z


def table_of_distances(points: Tensor) -> Tensor:
    """Euclidean distances (k, k); the gradient of a distance 0 is 0."""
    import torch

    return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")


def _jobs(cost: Any) -> int:
    """Threads for the pairs of a batch: small problems are solved before a second thread would start."""
    return 1 if len(cost) < 64 else -1


def _floats(state: State, dtype: Any) -> State:
    return {name: array.astype(dtype) if array.dtype.kind == "f" else array for name, array in state.items()}


def _standard(D: Distributions) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Mean (d,), standard deviations (d,) and the root of their summed squares. Constant coordinates get the deviation
    1."""
    points = D.points
    center = np.asarray(points.mean(axis=0, dtype=np.float64))
    variance = np.zeros(D.dim)
    rows = max(1, 2**17 // D.dim)
    for start in range(0, len(points), rows):
        variance += ((points[start : start + rows] - center) ** 2).sum(axis=0)
    spread = np.sqrt(variance / len(points))
    unit = float(np.sqrt((spread**2).sum()))
    rounding = 1e-12 * np.abs(center).max()
    if not unit > rounding:
        return center, np.ones(D.dim), 1.0
    return center, np.where(spread > 1e-12 * np.abs(center), spread, 1.0), unit


def _sample(D: Distributions, n_points: int, rng: np.random.RandomState) -> Distributions:
    """The collection, or a random part of its distributions with about this many points."""
    if len(D.points) <= n_points:
        return D
    count = max(1, int(len(D) * n_points / len(D.points)))
    return D[np.sort(rng.choice(len(D), count, replace=False))]


def _sharpness(anchors: NDArray[np.float64], nearest: float) -> float:
    """How sharp codes are at the start: nearly one-hot, but soft enough for useful gradients.

    ``nearest`` is the mean squared distance of points to their anchors. If all points are anchors it is 0, and codes
    are practically one-hot.
    """
    if len(anchors) == 1:
        return 1.0
    gaps = euclidean_cost(anchors)
    closest = float(gaps[gaps > 0].min()) ** 2 if (gaps > 0).any() else 1.0
    if nearest <= 1e-9 * closest:
        return 60.0 / closest
    return min(10.0 / nearest, 1e6)
