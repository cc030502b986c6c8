"""ASOT-k: anchors are k-means centers of the pooled points, codes are nearest anchors (docs/method.md §3)."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from asot.anchors.base import AnchorLearner
from asot.anchors.lloyd import kmeans, safe_exponent
from asot.anchors.space import AnchorSpace
from asot.data.distinct import distinct_points, distinct_rows, sparse_histograms
from asot.data.distributions import Distributions
from asot.run import devices
from asot.run.executors import ProgressLike
from asot.validation import FloatArray, as_positive_int

LARGE_POOL = 500_000
"""Beyond this many distinct points, ``batch_size="auto"`` learns from a sample on the CPU."""

SAMPLED_POINTS, POINTS_PER_ANCHOR = 2**15, 512
"""How many points such a sample has: the larger number. A center that is the mean of m points of a cluster costs about
1 / m more than the mean of all, so anchors from a sample have an inertia that is about k / n larger: at most 0.2 %."""

TELLING_POINTS = 4096
"""If this many points are all different, then many more are: among half a million values, some would be equal."""

MOST_BY_DEFAULT = 64
"""The most anchors if no number is given. The cost of a pair grows with their square: twice as many cost four times as
much and remove a third of the error, which calibration does almost for free."""

WORTH_A_DEVICE = 10**9
"""Points that a CPU would learn from × anchors × dimensions from which ``device="auto"`` learns on a GPU: with the tens
of iterations of k-means, a CPU needs several seconds for them, and a GPU needs less to start."""


@dataclass(eq=False, repr=False)
class KMeansAnchors(AnchorLearner):
    """Learn anchors by k-means on all points of a collection, weighted so that every distribution counts the same.

    Parameters
    ----------
    n_anchors : int, optional
        Number of anchors. Default: the mean size of the distributions, but at most 64, because the cost of a distance
        grows with the square. If a collection has fewer distinct points, they become the anchors, with a warning; its
        distances are then exact.
    batch_size : int, None or "auto"
        Full k-means (None), mini-batches of this many points, or a choice by the number of points. On the CPU, "auto"
        is full k-means on a random sample if there are more than 500,000 distinct points: 512 of them for each anchor,
        but at least 32,768, for about 0.2 percent of inertia at most. Mini-batches only run on the CPU: on a GPU,
        "auto" is always full k-means.
    n_init : int
        Number of k-means++ starts, of which the best is kept.
    max_points : int, optional
        Learn from this many points at most, drawn at random, as for a collection larger than memory. They keep their
        masses. ``inertia_`` is then theirs. Default: all points, unless ``batch_size="auto"`` takes a sample.
    random_state : int, RandomState or None
        Seed. With an int, the anchors are the same on every run, regardless of the number of threads. A GPU gives
        different anchors than a CPU, of the same quality, and the same ones on every run.
    device : {"auto", "cpu", "cuda", "cuda:N"}
        Where to learn and to encode: on the CPU, or on a GPU through PyTorch. "auto" uses a GPU if there is one and the
        job is large enough.
    n_jobs : int, optional
        Threads for full k-means on the CPU, with joblib's meaning. The anchors do not depend on it.
    progress : bool, None or callable
        For full k-means on the CPU, as in `pairwise`.

    Attributes
    ----------
    space_ : AnchorSpace
    inertia_ : float
        Mass-weighted mean squared distance of the points to their anchors.
    device_ : str
        Where the anchors were learned.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np, asot
    >>> rng = np.random.default_rng(0)
    >>> D = asot.Distributions.from_list([rng.normal(size=(n, 2)) for n in (20, 30, 40)])
    >>> learner = asot.KMeansAnchors(5, random_state=0).fit(D)
    >>> learner.space_
    AnchorSpace: 5 anchors in 2 dimensions, Euclidean cost up to ...
    >>> learner.transform(D).shape
    (3, 5)
    """

    n_anchors: int | None = None
    _: KW_ONLY
    batch_size: int | str | None = "auto"
    n_init: int = 1
    max_points: int | None = None
    random_state: Any = None
    device: str = "auto"
    n_jobs: int | None = None
    progress: ProgressLike = None

    def _learn(self, D: Distributions) -> AnchorSpace:
        self.__dict__.pop("_batches", None)  # of `partial_fit`
        k = self._count(D)
        D = self._sampled(D, self.max_points)
        device = self._torch_device(D, k)
        if device is not None and _has_more_points_than(k, D):
            try:
                return self._learn_on_device(D, k, device)
            except MemoryError:
                if self.device != "auto":
                    raise
        return self._learn_on_cpu(self._sampled(D, _enough_for(k)) if self._takes_a_sample(D) else D, k)

    def _takes_a_sample(self, D: Distributions) -> bool:
        """Whether the CPU learns from a sample: there are many points, and some thousand of them are all different."""
        n = int(D.offsets[-1])
        if self.batch_size != "auto" or n <= LARGE_POOL or D.vocabulary is not None:
            return False  # labels and words repeat
        spread = np.linspace(0, n - 1, TELLING_POINTS).astype(np.int64)
        return len(distinct_rows(D.points[spread])[0]) == TELLING_POINTS

    def _sampled(self, D: Distributions, most: int | None) -> Distributions:
        """The collection, or one distribution of ``most`` of its points."""
        n = int(D.offsets[-1])
        if most is None or as_positive_int(most, "max_points") >= n:
            return D
        drawn = self._draw(n, most)
        points, place = (D.points, drawn) if D.vocabulary is None else (D.vocabulary[0], D.vocabulary[1][drawn])
        return Distributions(points[place], [0, len(drawn)], D.masses[drawn])

    def _draw(self, n: int, most: int) -> NDArray[np.int64]:
        from sklearn.utils import check_random_state

        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return np.sort(np.random.default_rng(seed).choice(n, min(n, most), replace=False, shuffle=False))

    def _learn_on_device(self, D: Distributions, k: int, device: str) -> AnchorSpace:
        """Equal points are not merged here: merging them on the CPU would take longer than k-means."""
        from asot.anchors import kmeans_torch

        how = {"n_init": as_positive_int(self.n_init, "n_init"), "random_state": self.random_state}
        found = kmeans_torch.kmeans(D.points, D.masses / len(D), k, device=device, **how)
        self.device_, self.inertia_ = device, found.inertia
        return AnchorSpace(found.centers)

    def _learn_on_cpu(self, D: Distributions, k: int) -> AnchorSpace:
        pool = sparse_histograms(D)
        weights = pool.pooled_masses() / len(D)
        self.device_ = "cpu"
        if k >= len(pool.points):
            if k > len(pool.points) and self.n_anchors is not None:
                warnings.warn(
                    f"{k} anchors were requested, but the collection has only {len(pool.points)} distinct points: "
                    "these become the anchors, and distances on them are exact",
                    stacklevel=4,
                )
            self.inertia_ = 0.0
            return AnchorSpace(pool.points)
        exponent = safe_exponent(pool.points)
        points = np.ldexp(pool.points, -exponent) if exponent else pool.points
        if self.batch_size == "auto" and len(points) > LARGE_POOL:
            drawn = self._draw(len(points), _enough_for(k))
            points, weights = points[drawn], weights[drawn] / weights[drawn].sum()
        how = {"n_init": as_positive_int(self.n_init, "n_init"), "random_state": self.random_state}
        if self.batch_size in (None, "auto"):
            centers = kmeans(points, weights, k, n_jobs=self.n_jobs, progress=self.progress, **how)
            return self._finish(centers, exponent, points, weights)
        from sklearn.cluster import MiniBatchKMeans

        model = MiniBatchKMeans(k, batch_size=as_positive_int(self.batch_size, "batch_size"), **how)
        with threadpool_limits(1):
            model.fit(points, sample_weight=weights)
        return self._finish(model.cluster_centers_, exponent, points, weights)

    def partial_fit(self, X: Any, y: Any = None) -> KMeansAnchors:
        """Update the anchors with one more batch of distributions, by a mini-batch step; ``y`` is not used.

        The first batch fixes the number of anchors and must hold at least that many distinct points. This runs on the
        CPU.
        """
        from sklearn.cluster import MiniBatchKMeans

        if devices.torch_device(self.device, worth_it=False) is not None:
            raise ValueError(f"partial_fit learns on the CPU, not on device={self.device!r}; use device='auto' or fit")
        first = not hasattr(self, "_batches")
        D = self._read(X, reset=first and not hasattr(self, "space_"))
        points, index = distinct_points(D)
        weights = np.bincount(index, weights=D.masses, minlength=len(points))
        if first:
            k = self._count(D)
            if len(points) < k:
                raise ValueError(
                    f"the first batch has {len(points)} distinct points for {k} anchors; "
                    "start with a larger batch or ask for fewer anchors"
                )
            n_init = as_positive_int(self.n_init, "n_init")
            self._batches = MiniBatchKMeans(k, n_init=n_init, random_state=self.random_state)
            self._exponent = safe_exponent(points)
        points = np.ldexp(points, -self._exponent)
        with threadpool_limits(1):
            self._batches.partial_fit(points, sample_weight=weights)
        self.device_ = "cpu"
        self.space_ = self._finish(self._batches.cluster_centers_, self._exponent, points, weights / len(D))
        return self

    def _finish(
        self, centers: NDArray[Any], exponent: int, points: FloatArray, weights: NDArray[np.float64]
    ) -> AnchorSpace:
        space = AnchorSpace(np.ldexp(np.asarray(centers, dtype=np.float64), exponent))
        _, distance = AnchorSpace(centers).assign(points, device="cpu", n_jobs=self.n_jobs)
        with np.errstate(over="ignore", under="ignore"):  # a square beyond float64 becomes inf or 0
            self.inertia_ = float(np.ldexp(weights @ distance**2, 2 * exponent))
        return space

    def _count(self, D: Distributions) -> int:
        if self.n_anchors is None:
            return int(np.clip(round(float(D.sizes.mean())), 2, MOST_BY_DEFAULT))
        return as_positive_int(self.n_anchors, "n_anchors")

    def _torch_device(self, D: Distributions, k: int) -> str | None:
        in_batches = self.batch_size not in (None, "auto")
        used = min(len(D.masses), _enough_for(k)) if self._takes_a_sample(D) else len(D.masses)
        worth_it = not in_batches and used * k * D.dim >= WORTH_A_DEVICE
        device = devices.torch_device(self.device, worth_it=worth_it)
        if in_batches and device is not None:
            raise ValueError(
                f"batch_size={self.batch_size!r} asks for mini-batches, which are learned on the CPU, not on "
                f"device={self.device!r}; use batch_size=None for full k-means there, or device='cpu'"
            )
        return device


def _enough_for(k: int) -> int:
    return max(SAMPLED_POINTS, POINTS_PER_ANCHOR * k)


def _has_more_points_than(k: int, D: Distributions) -> bool:
    """Whether more than k distinct points carry mass. Usually the first few thousand points show it."""
    size = 4 * k + 1024
    while True:
        has_mass = D.masses[:size] > 0
        if len(distinct_rows(D.points[:size][has_mass])[0]) > k:
            return True
        if size >= len(D.masses):
            return False
        size *= 4
