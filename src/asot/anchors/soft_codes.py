"""Soft codes: learned maps from points to the probability simplex, stored as plain arrays; and spaces that have them.

Each map is written once, with operations that have the same names in NumPy and torch. torch runs it for learning and on
a GPU; NumPy runs it afterwards. So a learned space works without torch, and its file is arrays that cannot execute
anything (docs/method.md §4, §5).

In a `LearnedSpace` each point spreads its mass over several anchors. The rest of the package uses it like any other
space. But soft codes have no error bound: two different points may have equal codes, and then no inequality relates the
anchor distance to W_1 (docs/method.md §1). Bounds and calibration use the nearest anchors that learning started from,
which the space keeps along with what it learned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.anchors.space import AnchorSpace
from asot.data.distributions import Distributions, check_mass
from asot.run import devices
from asot.validation import FloatArray

Array = Any
"""A NumPy array or a torch tensor."""

FLOOR = 1e-6
"""Added to every output of the paper's network, so that codes are defined if all of them are 0."""

FAR = 1e6
"""Coordinates are clipped at this many times the collection's spread, so that no code overflows."""

WORTH_A_DEVICE = 10**10
"""Multiplications from which ``device="auto"`` encodes on a GPU: a CPU needs some seconds for them."""

WHY_NO_BOUNDS = (
    "its codes are soft: two different points may have the same code, so no bound is proven for the anchor distance; "
    "use a space of KMeansAnchors or FixedAnchors, or pairwise_exact"
)
_CHUNK_BYTES = 2**24


def metric_codes(p: Mapping[str, Array], u: Array, z: Array, xp: Any) -> Array:
    """Codes (n, k) of ASOT-ML, from points in one unit u (n, d) and with unit variances z (n, d).

    With ``anchors``: softmax of -sharpness ‖u - w‖² + MLP(z), nearest anchors that a network corrects. Without: the
    paper's normalized non-negative outputs of an MLP.
    """
    if "anchors" in p:
        return _softmax(_closeness(p, u, xp) + perceptron(p, z), xp)
    outputs = perceptron(p, z).clip(0) + FLOOR
    return outputs / outputs.sum(axis=1, keepdims=True)


def dictionary_codes(p: Mapping[str, Array], u: Array, z: Array, xp: Any) -> Array:
    """Codes (n, k) of ASOT-DL, scaled to total 1; a code of all zeros is replaced by the soft nearest anchor."""
    code = unrolled_codes(p, u, z, xp)
    total = code.sum(axis=1, keepdims=True)
    found = total > FLOOR
    shares = code / xp.where(found, total, xp.ones_like(total))
    return xp.where(found, shares, _softmax(_closeness(p, u, xp), xp))


def unrolled_codes(p: Mapping[str, Array], u: Array, z: Array, xp: Any) -> Array:
    """L proximal gradient steps on ½‖Wᵀcode - u‖² + λ(code·1 - 1) over code ≥ 0, before they are scaled (n, k).

    ``anchors`` are W (k, d). λ comes from the network, a number per point. Steps begin at the soft nearest anchor.
    """
    anchors = p["anchors"]
    gram, match = anchors @ anchors.T, u @ anchors.T  # (k, k), (n, k)
    threshold = perceptron(p, z)  # (n, 1)
    code = _softmax(_closeness(p, u, xp), xp)
    for _ in range(int(p["n_layers"])):
        code = (code - (code @ gram - match) / xp.exp(p["log_step"]) - threshold).clip(0)
    return code


def perceptron(p: Mapping[str, Array], z: Array) -> Array:
    """The multi-layer perceptron of a map: ``weight0``, ``bias0``, ``weight1``, …, with ReLU in between."""
    layer = 0
    while f"weight{layer}" in p:
        z = (z.clip(0) if layer else z) @ p[f"weight{layer}"] + p[f"bias{layer}"]
        layer += 1
    return z


def _closeness(p: Mapping[str, Array], u: Array, xp: Any) -> Array:
    """-sharpness ‖u - w‖² (n, k), except for a term that is the same for all anchors and cancels in a softmax."""
    anchors = p["anchors"]
    return (2.0 * (u @ anchors.T) - (anchors * anchors).sum(axis=1)) * xp.exp(p["log_sharpness"])


def _softmax(logits: Array, xp: Any) -> Array:
    powers = xp.exp(logits - xp.amax(logits, axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


MAPS: dict[str, Callable[[Mapping[str, Array], Array, Array, Any], Array]] = {
    "metric": metric_codes,
    "dictionary": dictionary_codes,
}


@dataclass(eq=False, repr=False)
class SoftCodes:
    """A learned map from points (n, d) to codes (n, k) ≥ 0 whose rows sum to 1.

    Parameters
    ----------
    kind : {"metric", "dictionary"}
    center : (d,), spread : (d,), unit : float
        How points are standardized: u = (x - center) / unit keeps the shape of the collection, z = (x - center) /
        spread has unit variances and feeds the network.
    parameters : arrays by name, as the map reads them
    """

    kind: str
    center: NDArray[np.float64]
    spread: NDArray[np.float64]
    unit: float
    parameters: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        self.unit, self.parameters = float(self.unit), dict(self.parameters)
        self._check()

    @property
    def dim(self) -> int:
        return len(self.center)

    @property
    def n_anchors(self) -> int:
        name = "anchors" if "anchors" in self.parameters else f"bias{self._depth() - 1}"
        return len(self.parameters[name])

    def encode(self, points: FloatArray, device: str | None = None) -> NDArray[np.float64]:
        """Codes (n, k)."""
        codes = np.empty((len(points), self.n_anchors))
        for own, part in self._chunks(points, device):
            codes[own] = part
        return codes

    def histograms(self, D: Distributions, device: str | None = None) -> NDArray[np.float64]:
        """Mass-weighted sums (N, k) of codes. Only the codes of one chunk of points are in memory at a time."""
        sums = np.zeros((len(D), self.n_anchors))
        for own, part in self._chunks(D.points, device):
            first, last = np.searchsorted(D.offsets, [own.start, own.stop - 1], side="right") - 1
            starts = np.maximum(D.offsets[first : last + 1] - own.start, 0)
            sums[first : last + 1] += np.add.reduceat(part * D.masses[own, None], starts, axis=0)
        return np.asarray(sums / sums.sum(axis=1, keepdims=True), dtype=np.float64)

    def _chunks(self, points: FloatArray, device: str | None) -> Any:
        """(slice, codes of these points) over all points."""
        widest = max([self.dim, self.n_anchors, *(array.size // len(array) for array in self._tables())])
        rows = max(1, _CHUNK_BYTES // (8 * widest))
        work = len(points) * sum(array.size for array in self._tables())
        target = None if device is None else devices.torch_device(device, worth_it=work >= WORTH_A_DEVICE)
        encode = self._encode_chunk if target is None else _on_device(self, target, required=device != "auto")
        for start in range(0, len(points), rows):
            own = slice(start, min(start + rows, len(points)))
            yield own, encode(points[own])

    def _encode_chunk(self, points: FloatArray) -> NDArray[np.float64]:
        u, z = self.standardize(points)
        return np.asarray(MAPS[self.kind](self.parameters, u, z, np), dtype=np.float64)

    def standardize(self, points: FloatArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """u and z (n, d) of points (n, d)."""
        with np.errstate(over="ignore"):
            centered = np.asarray(points, dtype=np.float64) - self.center
            return np.clip(centered / self.unit, -FAR, FAR), np.clip(centered / self.spread, -FAR, FAR)

    def _tables(self) -> list[NDArray[Any]]:
        return [array for array in self.parameters.values() if array.ndim == 2]

    def _depth(self) -> int:
        depth = 0
        while f"weight{depth}" in self.parameters:
            depth += 1
        return depth

    def _check(self) -> None:
        """Refuse arrays that the map cannot be computed with: they may come from an untrusted file."""
        if self.kind not in MAPS:
            raise ValueError(f"codes of the kind {self.kind!r} are unknown; known are {', '.join(map(repr, MAPS))}")
        p = self.parameters
        for name, array in {"center": self.center, "spread": self.spread, "unit": np.asarray(self.unit), **p}.items():
            if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
                raise ValueError(f"the codes' array {name!r} must hold finite numbers")
        d = self.center.size
        if {self.center.shape, self.spread.shape} != {(d,)} or not (self.spread > 0).all() or not self.unit > 0:
            raise ValueError("the codes' center, spread and unit must be (d,), (d,) > 0 and > 0")
        depth = self._depth()
        if depth == 0:
            raise ValueError("the codes have no network: the array 'weight0' is missing")
        width = d
        for layer in range(depth):
            weight, bias = p[f"weight{layer}"], p.get(f"bias{layer}", np.empty(0))
            if weight.ndim != 2 or weight.shape[0] != width or bias.shape != weight.shape[1:]:
                raise ValueError(f"layer {layer} of the codes' network does not fit the layer before it")
            width = weight.shape[1]
        if self.kind == "dictionary" or "anchors" in p:
            self._check_anchors(1 if self.kind == "dictionary" else None, width)

    def _check_anchors(self, outputs: int | None, width: int) -> None:
        p = self.parameters
        scalars = ("log_sharpness",) if outputs is None else ("log_sharpness", "log_step", "n_layers")
        for name in scalars:
            if name not in p or p[name].shape != ():
                raise ValueError(f"the codes need the number {name!r}")
        anchors = p.get("anchors", np.empty(0))
        if anchors.ndim != 2 or anchors.shape[1] != self.dim or width != (outputs or len(anchors)):
            raise ValueError("the codes' anchors do not fit their network or their dimension")
        if "n_layers" in scalars and not 1 <= p["n_layers"] <= 10_000:
            raise ValueError(f"the codes ask for {p['n_layers']} layers; it must be between 1 and 10,000")


def _on_device(codes: SoftCodes, device: str, required: bool) -> Callable[[FloatArray], NDArray[np.float64]]:
    """A function that encodes a chunk on a GPU, in float64. If the user did not name the GPU, a failure sends the work
    back to the CPU."""
    import torch

    def encode(points: FloatArray) -> NDArray[np.float64]:
        try:
            p = {name: torch.as_tensor(array, device=device) for name, array in codes.parameters.items()}
            u, z = (torch.as_tensor(part, device=device) for part in codes.standardize(points))
            return np.asarray(MAPS[codes.kind](p, u, z, torch).cpu().numpy(), dtype=np.float64)
        except (RuntimeError, AssertionError) as error:  # torch has no common type for a device that is gone
            if required:
                raise RuntimeError(f"device {device!r} failed while encoding ({error}); use device='cpu'") from error
            return codes._encode_chunk(points)

    return encode


class LearnedSpace(AnchorSpace):
    """Anchors with learned soft codes and a learned cost.

    Parameters
    ----------
    anchors : array-like (k, d)
    cost : array-like (k, k)
    codes : SoftCodes
    nearest : AnchorSpace, optional
        Where learning started: nearest anchors with Euclidean costs, for bounds and calibration.

    Examples
    --------
    >>> import numpy as np, asot
    >>> from asot.anchors.soft_codes import LearnedSpace, SoftCodes
    >>> network = {"weight0": np.zeros((1, 2)), "bias0": np.zeros(2)}
    >>> nearest = {"anchors": np.array([[0.0], [1.0]]), "log_sharpness": np.array(0.0), **network}
    >>> codes = SoftCodes("metric", np.zeros(1), np.ones(1), 1.0, nearest)
    >>> space = LearnedSpace([[0.0], [1.0]], 1.0 - np.eye(2), codes)
    >>> space.encode([[0.5], [5.0]]).round(3)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    def __init__(
        self, anchors: ArrayLike, cost: ArrayLike, codes: SoftCodes, nearest: AnchorSpace | None = None
    ) -> None:
        super().__init__(anchors, cost)
        if (codes.n_anchors, codes.dim) != (self.n_anchors, self.dim):
            raise ValueError(
                f"the codes are for {codes.n_anchors} anchors in {codes.dim} dimensions, but the space has "
                f"{self.n_anchors} in {self.dim}"
            )
        if nearest is not None:  # its bounds must be proven
            hard = isinstance(nearest, AnchorSpace) and not isinstance(nearest, LearnedSpace)
            if not hard or nearest.why_no_bounds is not None:
                raise ValueError(f"nearest must be a space of nearest anchors with Euclidean costs; found {nearest!r}")
            if nearest.dim != self.dim:
                words = f"the nearest anchors are in {nearest.dim} dimensions, but the space is in {self.dim}"
                raise ValueError(words)
        self.codes, self.nearest = codes, nearest
        self.why_no_bounds = WHY_NO_BOUNDS if nearest is None else None

    def __repr__(self) -> str:
        return (
            f"LearnedSpace: {self.n_anchors} anchors in {self.dim} dimensions, soft codes ({self.codes.kind}), "
            f"learned cost up to {self.cost.max():.4g}"
        )

    @property
    def proven(self) -> AnchorSpace:
        """The nearest anchors that learning started from: their bounds hold for W_1."""
        return self if self.nearest is None else self.nearest

    def encode(self, points: ArrayLike) -> NDArray[np.float64]:
        """Codes (n, k) of points (n, d): rows ≥ 0 that sum to 1."""
        return self.codes.encode(self._read_points(points))

    def histograms(self, D: Distributions, *, device: str | None = "auto") -> NDArray[np.float64]:
        """Histograms (N, k) of a collection: each point spreads its mass by its code. Codes are not stored."""
        self.check_dim(D)
        check_mass(D)
        return self.codes.histograms(D, device)

    def _assign(self, *_: object) -> NoReturn:
        """Not available: a point in this space does not belong to a single anchor."""
        raise ValueError(f"this space has no nearest anchors: {WHY_NO_BOUNDS}")

    def radii(self, D: Distributions, *, device: str | None = "auto") -> NoReturn:
        """Not available: the radius of §6 needs nearest anchors."""
        raise ValueError(f"this space has no radii: {WHY_NO_BOUNDS}")
