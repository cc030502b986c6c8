"""What the vectors of all members refer to: axes to project on, and landmarks to measure from.

A frame is made from the members that are there when it is made, and never changes. Every bound that rests on it holds
for any distribution, whenever it was added: projections on orthonormal axes can only shorten, and distances to a
landmark differ by no more than the distance of two members. Members unlike those that made the frame get weaker bounds,
never wrong ones.

Vectors are float32. What rounding can add to a bound is subtracted from it (`Slack`). A member so far away that its
vector would cost all others their digits has none (NaN), and so no bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot.data.distinct import sparse_histograms
from asot.data.distributions import Distributions, trusted
from asot.exact.price import LAY_OUT, MICRO, pair_seconds
from asot.ground.metrics import CHEBYSHEV, CODES, EUCLIDEAN, ROUGH
from asot.index.settings import Settings
from asot.search.projections import COARSE, SHARES, WIDTH, Axes, choose_axes, project_on

GROUPS = 1
"""Groups of rotations, four in each."""

LANDMARKS = 16
"""Members that all others are measured from."""

SAMPLE = 256
"""Members among which landmarks are chosen, each as far from the others as possible."""

SOLVES = 2e-3
"""Seconds that the distances to all landmarks may take for one member; with larger distributions there are fewer."""

FAR = 2.0**10
"""Members that reach this many times farther than those that made the frame have no vector."""

STEPS = 2**14
"""Steps between 0 and the farthest mean of those that made the frame. Coarse means are whole numbers of steps; twice as
far they end, which can only make bounds smaller."""

SMALL = 64
"""Mean number of points up to which the points of members are kept in a few coordinates, for reduced transport. Of
larger ones, and in up to three dimensions, finer projections are kept."""

SHARED = 0.4
"""Share of distinct points among all up to which members are said to share them. Then a point is kept once, as a word
(`asot.index.words`) with all coordinates, and members have no other vectors."""

REPEATED = 0.8
"""Share of distinct points up to which places are kept once each: as many as 256 members of a large collection have,
whose points repeat."""

TABLES = ("means", "coarse", "fine", "mixed", "tail", "pool", "places")
"""Vectors of members; "places" has one row for each of their points."""

_ROUNDING = float(np.finfo(np.float32).eps)
NONE = -(2**15)
_MOST_STEPS = 2**15 - 1
_EXPONENTS = range(-1074, 1024)  # of numbers
_POINTS = 2**17  # of the members whose axes are looked for

_KINDS = ("is_fine", "has_places", "has_words", "is_brief")

Tables = dict[str, NDArray[Any]]


class Slack(NamedTuple):
    """How far the vectors of some members reach: what the rounding of a bound is measured by."""

    extent: float = 0.0  # of projections
    reach: float = 0.0  # of points as they were given
    farthest: float = 0.0  # distance to a landmark

    def joined(self, other: Slack) -> Slack:
        return Slack(*map(max, self, other))


@dataclass(frozen=True)
class Frame:
    """Axes and landmarks; lengths in vectors are in units of 2^exponent."""

    code: int
    order: float
    exponent: int
    center: NDArray[np.float64]  # (d,)
    axes: Axes | None
    landmarks: Distributions | None
    extent: float
    """How far the projections of those reach that made the frame."""
    error: float = 0.0
    """By which distances to landmarks may be off."""
    is_fine: bool = True
    """Whether fine projections and their rotations are kept."""
    has_places: bool = False
    """Whether the points of members are kept in a few coordinates."""
    has_words: bool = False
    """Whether points are kept once each, as words: in these coordinates, or in all of them, and nothing else is."""
    is_brief: bool = False
    """Whether coarse means are whole numbers of steps. Indexes of format 1 have them as float32."""

    @property
    def columns(self) -> dict[str, tuple[Any, int | None]]:
        """Types and widths of what is kept of members."""
        held: dict[str, tuple[Any, int | None]] = {name: (np.float32, width) for name, width in self.widths.items()}
        if self.is_brief:
            held["coarse"] = (np.int16, self.widths["coarse"])
        if self.has_words:
            held |= {"words": (np.int32, None), "vocabulary": held.pop("places")}
        return held

    @property
    def only_words(self) -> bool:
        """Whether bounds rest on words alone, with all their coordinates."""
        return self.has_words and not self.has_places

    @property
    def step(self) -> float:
        """Of coarse means, each of which is an integral over a share of the mass."""
        return max(self.extent, 1e-30) / (COARSE * STEPS)

    @property
    def widths(self) -> dict[str, int]:
        """Numbers per member in each table."""
        r = 0 if self.landmarks is None else -(-len(self.landmarks) // WIDTH) * WIDTH
        if self.axes is None or self.only_words:
            return dict.fromkeys(TABLES, 0) | {"pool": r, "places": len(self.center) if self.only_words else 0}
        along = len(self.axes.widest) if self.axes.rotation is None else self.axes.rotation.shape[1]
        turned = GROUPS if self.code == EUCLIDEAN and self.axes.leading > 1 else 0
        row = SHARES * WIDTH if self.is_fine else 0
        return {
            "means": WIDTH, "coarse": COARSE * WIDTH, "fine": row, "mixed": turned * row,
            "tail": along - self.axes.leading, "pool": r, "places": WIDTH if self.has_places else 0,
        }  # fmt: skip

    def vectors(self, D: Distributions, settings: Settings, memory: int, n_jobs: int) -> tuple[Tables, Slack]:
        """Vectors (N, widths) of distributions, and how far they reach."""
        rows = dict.fromkeys(TABLES, len(D)) | {"places": len(D.masses)}
        tables = {name: np.zeros((rows[name], width), dtype=np.float32) for name, width in self.widths.items()}
        slack = Slack()
        if self.only_words:
            slack = self._as_words(D, tables["places"])
        elif self.axes is not None:
            slack = self._project(D, tables, n_jobs)
        if self.landmarks is not None:
            far = np.ldexp(settings.distances(D, self.landmarks, memory), -self.exponent)
            far[~(far < 2.0**100)] = np.nan
            tables["pool"][:, : far.shape[1]] = far
            slack = slack.joined(Slack(farthest=float(np.nanmax(far, initial=0.0))))
        return tables, slack

    def _project(self, D: Distributions, tables: Tables, n_jobs: int) -> Slack:
        assert self.axes is not None
        histograms = sparse_histograms(D)
        points = np.asarray(histograms.points, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.ldexp(points - self.center, -self.exponent)
            along = np.abs(self.axes.along(x)).max(axis=1)
        is_far = ~(along <= FAR * self.extent)
        x[is_far] = 0.0
        made = project_on(self.axes, histograms, x, self.code, GROUPS if self.is_fine else 0, n_jobs)
        tables["means"][:] = made.fine.sum(axis=1, dtype=np.float64)
        tables["coarse"][:] = made.coarse.reshape(len(D), -1)
        if self.is_fine:
            tables["fine"][:] = made.fine.reshape(len(D), -1)
        if tables["mixed"].shape[1]:
            tables["mixed"][:] = made.mixed.transpose(1, 0, 2, 3).reshape(len(D), -1)
        tables["tail"][:] = made.tail
        lost = np.logical_or.reduceat(is_far[histograms.index], histograms.offsets[:-1])
        for name in ("means", "coarse", "fine", "mixed", "tail"):
            tables[name][lost] = np.nan
        if self.is_brief:
            tables["coarse"] = in_steps(tables["coarse"], self.step)
        if self.has_places:
            self._place(D, lost, tables["places"])
        reach = float(np.abs(points[~is_far]).max(initial=0.0))
        return Slack(made.absolute / (8.0 * _ROUNDING), reach, 0.0)

    def _place(self, D: Distributions, lost: NDArray[np.bool_], places: NDArray[np.float32]) -> None:
        """All points of distributions along the first axes."""
        assert self.axes is not None
        held = np.repeat(~lost, D.sizes)
        x = np.ldexp(np.asarray(D.points[held], dtype=np.float64) - self.center, -self.exponent)
        places[held, : self.axes.leading] = self.axes.along(x)[:, : self.axes.leading]
        places[~held] = np.nan

    def _as_words(self, D: Distributions, places: NDArray[np.float32]) -> Slack:
        """All points of distributions, with all coordinates."""
        points = np.asarray(D.points, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.ldexp(points - self.center, -self.exponent)
            lengths = np.abs(x).sum(axis=1)  # no norm is larger
        is_far = ~(lengths <= FAR * self.extent)
        places[:] = np.where(is_far[:, None], np.nan, x)
        reach = float(np.abs(points[~is_far]).max(initial=0.0))
        return Slack(float(lengths[~is_far].max(initial=0.0)), reach, 0.0)

    def rounding(self, slack: Slack) -> dict[str, float]:
        """What `BoundTables` subtracts from bounds of distributions that reach this far."""
        along = self.widths["tail"] + 2 * WIDTH
        joined = {EUCLIDEAN: WIDTH**0.5, CHEBYSHEV: 1.0}.get(self.code, float(WIDTH))  # coordinates, by the norm
        # A point is moved by the rounding of the subtraction of the center, and by that of d products.
        moved = 1e-15 * (8 + len(self.center)) * (np.ldexp(slack.reach, -self.exponent) + slack.extent)
        return {
            "relative": 2.0 * _ROUNDING * (SHARES + along + 16),
            "absolute": 16.0 * _ROUNDING * slack.extent + 4.0 * float(moved),
            "pool_relative": 4.0 * _ROUNDING,
            "pool_absolute": (4.0 * _ROUNDING + 1e-11) * slack.farthest + self.error,
            "step_absolute": 1.001 * joined * COARSE * self.step if self.is_brief else 0.0,
        }


def in_steps(means: NDArray[np.float32], step: float) -> NDArray[np.int16]:
    """Means (N, width) as whole numbers of steps, up to the largest there is; a row without numbers begins with `NONE`.

    No two are farther apart than they were by more than a step.
    """
    lost = np.isnan(means[:, :1])
    whole = np.rint(np.where(lost, 0.0, means.astype(np.float64) / step)).clip(-_MOST_STEPS, _MOST_STEPS)
    return np.where(lost, NONE, whole).astype(np.int16)


def make_frame(members: Distributions, settings: Settings, memory: int) -> Frame | None:
    """A frame for members like these; None if nothing is proven about the distance."""
    if not (settings.has_norm or settings.is_metric):
        return None
    rng = np.random.default_rng(settings.seed)
    points = np.asarray(members.points[: len(members.masses)], dtype=np.float64)
    if len(points) > _POINTS:
        points = points[np.sort(rng.permutation(len(points))[:_POINTS])]
    center = (points / len(points)).sum(axis=0) if settings.has_norm else np.zeros(members.dim)  # large sums overflow
    x = points - center
    exponent = int(np.frexp(np.abs(x).max(initial=0.0))[1])
    axes, extent, code, order = None, 0.0, EUCLIDEAN, float(members.dim)
    if settings.has_norm:
        code = CODES[str(settings.metric)]
        order = float((settings.metric_params or {}).get("p", 2.0))
        x = np.ldexp(x, -exponent)
        axes = choose_axes(x, np.full(len(x), 1.0 / len(x)), code)
        extent = float(np.abs(axes.along(x)).max())
    repeated = len(sparse_histograms(members).points) / len(members.masses) if settings.has_norm else 1.0
    # projections on few axes tell little where there are many
    shares = repeated <= SHARED and settings.p == 1 and members.dim > 3
    if shares:
        extent = float(np.abs(x).sum(axis=1).max())
    landmarks = _landmarks(members, settings, memory, rng) if settings.is_metric and not shares else None
    size = float(members.sizes.mean())
    has_places = size <= SMALL and members.dim > 1 and axes is not None and not shares
    return Frame(
        code, order, exponent, center, axes, landmarks, extent, _error(settings, exponent),
        is_fine=size > SMALL or members.dim <= 3, has_places=has_places,
        has_words=shares or (has_places and repeated <= REPEATED), is_brief=axes is not None and not shares,
    )  # fmt: skip


def _error(settings: Settings, exponent: int) -> float:
    """What distances may be off by, in the unit of the frame."""
    return float(np.ldexp(ROUGH.get(CODES.get(str(settings.metric), EUCLIDEAN), 0.0), -exponent))


def _landmarks(
    members: Distributions, settings: Settings, memory: int, rng: np.random.Generator
) -> Distributions | None:
    """Members that are far from each other, as many as their solves allow."""
    chosen = np.sort(rng.permutation(len(members))[:SAMPLE])
    sample = members[chosen]
    size = float(sample.sizes.mean())
    seconds = float(pair_seconds(size, size, members.dim)) + MICRO * LAY_OUT
    count = int(min(LANDMARKS, SOLVES / seconds, len(sample)))
    if count == 0 and settings.has_norm:
        return None
    places = [0]
    nearest = settings.distances(sample[:1], sample, memory)[0]
    while len(places) < max(1, count) and nearest.max() > 0:
        places.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, settings.distances(sample[places[-1:]], sample, memory)[0])
    return sample[np.array(places)]


def frame_arrays(frame: Frame) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A frame as a header and arrays, for a file."""
    header = {name: getattr(frame, name) for name in ("code", "order", "exponent", "extent", *_KINDS)}
    arrays: dict[str, NDArray[Any]] = {"center": frame.center}
    if frame.axes is not None:
        header["leading"] = frame.axes.leading
        arrays["widest"] = frame.axes.widest
        if frame.axes.rotation is not None:
            arrays["rotation"] = frame.axes.rotation
    if frame.landmarks is not None:
        held = frame.landmarks
        arrays |= {"points": held.points, "offsets": held.offsets, "masses": held.masses, "totals": held.totals}
    return header, arrays


def frame_from(header: dict[str, Any], arrays: dict[str, NDArray[Any]], settings: Settings, dim: int) -> Frame:
    """Read it back; raises ValueError where it cannot be one."""
    center = arrays["center"]
    code, order, exponent, extent = (header.get(name) for name in ("code", "order", "exponent", "extent"))
    known = CODES[str(settings.metric)] if settings.has_norm else EUCLIDEAN
    numbers = isinstance(order, (int, float)) and isinstance(extent, (int, float)) and isinstance(exponent, int)
    kinds = [header.get(name, False) for name in _KINDS]
    numbers = numbers and all(isinstance(kind, bool) for kind in kinds)
    numbers = numbers and exponent in _EXPONENTS and 0 <= extent < np.inf  # type: ignore[operator]
    floats = all(held.dtype.kind == "f" for name, held in arrays.items() if name not in ("widest", "offsets"))
    others = not any(kinds[1:]) or settings.has_norm  # what axes are needed for
    if code != known or not (numbers and floats and others and center.shape == (dim,) and np.isfinite(center).all()):
        raise ValueError("the frame does not fit its index; the folder is damaged")
    axes = _axes_from(header.get("leading"), arrays, dim) if settings.has_norm else None
    landmarks = None
    if "points" in arrays:
        held = Distributions(arrays["points"], arrays["offsets"], arrays["masses"])
        if held.dim != dim or arrays["totals"].shape != (len(held),) or len(held) > LANDMARKS:
            raise ValueError("the landmarks do not fit their index; the folder is damaged")
        landmarks = trusted(arrays["points"], held.offsets, arrays["masses"], arrays["totals"])
    error = _error(settings, int(exponent))  # type: ignore[arg-type]
    return Frame(int(known), float(order), int(exponent), center, axes, landmarks, float(extent), error, *kinds)  # type: ignore[arg-type]


def _axes_from(leading: Any, arrays: dict[str, NDArray[Any]], dim: int) -> Axes:
    widest, rotation = arrays.get("widest"), arrays.get("rotation")
    fits = widest is not None and widest.ndim == 1 and widest.dtype.kind == "i" and 0 < len(widest) <= dim
    if fits and widest is not None:
        fits = bool(widest.min() >= 0 and widest.max() < dim and len(np.unique(widest)) == len(widest))
        along = len(widest)
        if rotation is not None:
            fits = fits and rotation.ndim == 2 and rotation.shape[0] == len(widest)
            along = rotation.shape[-1]
            product = rotation.T @ rotation if fits else np.zeros((1, 1))
            fits = fits and bool(np.abs(product - np.eye(along)).max(initial=np.inf if along == 0 else 0.0) < 1e-9)
        fits = fits and isinstance(leading, int) and 0 < leading <= min(WIDTH, along)
    if not fits or widest is None:
        raise ValueError("the axes do not fit their index; the folder is damaged")
    return Axes(widest.astype(np.int64), rotation, int(leading))


def bounds_of(frame: Frame | None) -> list[str]:
    """The names of the bounds that a frame gives, and of the one that pairs have without it."""
    if frame is None:
        return ["relaxed"]
    if frame.only_words:
        return ["words"]
    named = {"projections": frame.axes, "landmarks": frame.landmarks}
    return [*(name for name, part in named.items() if part is not None), "relaxed"]
