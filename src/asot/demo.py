"""The main task on data that everybody has: all pairs within a stated error, and a check against the exact distances.

The digits of scikit-learn are bags of 16 to 42 pixels. The demo asks for every distance within 2 percent, solves a
random sample of pairs exactly on the original pixels, and reports both speed and error as measured on this machine.

Its picture: the distance matrix ordered by class, and a map of the digits drawn with their own images. The map is t-SNE
on the distances, started from classical scaling so that it is the same every time. Thumbnails that would cover each
other are pushed apart, and all of them are painted into one image, which is much faster than hundreds of artists. The
figure is built without pyplot: drawing leaves no trace in the caller's matplotlib.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot.data.distributions import Distributions
from asot.data.npz import PathLike, atomic_write, suffix_of
from asot.datasets import load_digits
from asot.learn.maps import embed
from asot.results.distances import Distances
from asot.run.executors import ProgressLike
from asot.validation import as_n_jobs, as_positive_int

SUFFIXES = (".png", ".pdf", ".svg")

_BACKGROUND = "#10131c"
_TEXT = "#e8eaf0"
_QUIET = "#9aa3b5"
_PALETTE = (
    "#c1b2fb", "#afe681", "#e73e5c", "#f0e442", "#3d7bd9",
    "#e66126", "#cc79a7", "#99f6f3", "#88daa9", "#5462ee",
)  # fmt: skip  # apart also for those who see red and green alike
_MAP_SIZE = 600  # digits on the map
_CANVAS = 1600  # pixels on each side of the map
_THUMBNAIL = 56  # pixels on each side of a digit


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found.

    Attributes
    ----------
    digits : Distributions of N images, labels : (N,) int64, images : (N, 8, 8) float64
    distances : Distances of all pairs
    aim : str
        The error that was asked for.
    n_jobs : int
    seconds : float
        The whole call: choosing how, learning anchors, solving all pairs.
    n_checked : int
        Random pairs that were solved again on the original pixels.
    error : float
        Root mean squared error over the checked pairs, as a share of their mean exact distance.
    """

    digits: Distributions
    labels: NDArray[np.int64]
    images: NDArray[np.float64]
    distances: Distances
    aim: str
    n_jobs: int
    seconds: float
    n_checked: int
    error: float

    @property
    def how(self) -> str:
        """The method that was used."""
        return str(self.distances.info["strategy"]["why"]).partition(":")[0]

    @property
    def reported(self) -> float:
        """The error that the call itself measured, as a share of the mean distance."""
        return float(self.distances.info["strategy"]["relative_error"])

    def table(self) -> str:
        """The numbers, for people."""
        sizes = self.digits.sizes
        threads = f"{self.n_jobs} thread{'s' * (self.n_jobs != 1)}"
        rows = {
            "digits": f"{len(self.digits):,} images of {sizes.min()} to {sizes.max()} pixels",
            "error asked for": f"{self.aim} of the mean distance",
            "error": f"{self.error:.1%} of the mean distance, against exact W1 on {self.n_checked:,} random pairs",
            "error reported": f"{self.reported:.1%}",
            "how": self.how,
            "pairs": f"{len(self.distances):,}",
            "seconds": f"{self.seconds:.2f} with {threads}",
            "pairs per second": f"{len(self.distances) / self.seconds:,.0f}",
        }
        return "\n".join(f"{name:<18}{value}" for name, value in rows.items())


def run_demo(
    n: int | None = None,
    *,
    error: str = "2%",
    n_anchors: int | None = None,
    n_jobs: int | None = -1,
    random_state: int = 0,
    n_checked: int = 1000,
    progress: ProgressLike = None,
) -> Demo:
    """Distances between all pairs of n digits (default: all of them), timed and checked.

    >>> demo = run_demo(30, n_jobs=1, progress=False)
    >>> len(demo.distances)
    435
    """
    import asot

    digits, labels, about = load_digits(n)
    assert labels is not None
    if len(digits) < 3:
        raise ValueError(f"the demo needs at least 3 digits; found n={n}")
    checked = _random_pairs(len(digits), as_positive_int(n_checked, "n_checked"), random_state)

    def solve(chosen: Distributions, show: ProgressLike, k: int | None) -> Distances:
        how: dict[str, Any] = {"error": error, "n_jobs": n_jobs, "random_state": random_state}
        return asot.pairwise(chosen, n_anchors=k, progress=show, **how)

    for few in (3, 24):  # compiles the kernels when they never ran on this machine
        solve(digits[:few], False, 8)
    started = time.perf_counter()
    distances = solve(digits, progress, n_anchors)
    seconds = time.perf_counter() - started
    exact = asot.pairwise_exact(digits, pairs=checked, n_jobs=n_jobs, progress=progress).values
    found = distances.at(*checked.T)
    return Demo(
        digits=digits,
        labels=labels,
        images=about["images"],
        distances=distances,
        aim=str(error),
        n_jobs=as_n_jobs(n_jobs),
        seconds=seconds,
        n_checked=len(checked),
        error=float(np.sqrt(np.mean((found - exact) ** 2)) / exact.mean()),
    )


def _random_pairs(n: int, count: int, seed: int) -> NDArray[np.int64]:
    """Random pairs i < j (P, 2), none twice, at most ``count`` of them."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, n, size=(4 * count, 2))
    drawn = np.sort(drawn[drawn[:, 0] != drawn[:, 1]], axis=1)
    return rng.permutation(np.unique(drawn, axis=0))[:count]


def draw(demo: Demo, path: PathLike) -> None:
    """Draw the demo to a ``.png``, ``.pdf`` or ``.svg`` file. Needs matplotlib: ``pip install asot[plots]``."""
    suffix = suffix_of(path, SUFFIXES, "draw")
    figure, about = make_figure(demo), {"Title": claims(demo)}
    with atomic_write(path) as stream:
        if suffix == ".png":
            _save_small(figure, stream, about)
        else:
            figure.savefig(stream, format=suffix[1:], facecolor=_BACKGROUND, metadata=about)


def _save_small(figure: Any, stream: Any, about: dict[str, str]) -> None:
    """A PNG of 256 colors, which look the same and take a third of the bytes."""
    from PIL import Image, PngImagePlugin

    figure.canvas.draw()
    told = PngImagePlugin.PngInfo()
    for name, text in about.items():
        told.add_text(name, text)
    whole = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    whole.quantize(256, dither=Image.Dither.NONE).save(stream, "png", pnginfo=told, optimize=True)


def make_figure(demo: Demo) -> Any:
    """The figure, a `matplotlib.figure.Figure`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    matrix = demo.distances.matrix()
    figure = Figure(figsize=(15.0, 8.0), dpi=100, facecolor=_BACKGROUND)
    FigureCanvasAgg(figure)
    _draw_matrix(figure, figure.add_axes((0.035, 0.065, 0.42, 0.7875)), matrix, demo.labels)
    _draw_map(figure.add_axes((0.535, 0.03, 0.4575, 0.858)), matrix, demo)
    _write_captions(figure, demo)
    return figure


def claims(demo: Demo) -> str:
    """What the picture says, kept in its file, so that one that is out of date can be found."""
    return (
        f"{len(demo.distances):,} distances between {len(demo.digits):,} digits; error {demo.error:.1%} "
        f"({demo.aim} was asked for) on {demo.n_checked:,} random pairs; {demo.how}"
    )


def _write_captions(figure: Any, demo: Demo) -> None:
    title = f"Every Wasserstein distance between {len(demo.digits):,} handwritten digits"
    checked = f"against exact W₁ on {demo.n_checked:,} random pairs"
    error = f"error {demo.error:.1%} ({demo.aim} was asked for), {checked}"
    caption = f"{len(demo.distances):,} transport problems  ·  {error}  ·  {demo.how}"
    figure.text(0.035, 0.94, title, color=_TEXT, fontsize=21, fontweight="bold")
    figure.text(0.035, 0.9, caption, color=_QUIET, fontsize=11.5)


def _draw_matrix(figure: Any, axes: Any, matrix: NDArray[np.float64], labels: NDArray[np.int64]) -> None:
    order = _class_order(matrix, labels)
    brightest = np.quantile(matrix, 0.998)  # a few odd digits must not darken all others
    image = axes.imshow(matrix[np.ix_(order, order)], cmap="magma", vmin=0.0, vmax=brightest)
    classes, starts = np.unique(labels[order], return_index=True)
    edges = np.append(starts, len(order)) - 0.5
    for edge in edges[1:-1]:
        axes.axhline(edge, color=_BACKGROUND, linewidth=1.1)
        axes.axvline(edge, color=_BACKGROUND, linewidth=1.1)
    middles = (edges[:-1] + edges[1:]) / 2
    axes.set_xticks(middles, [str(c) for c in classes])
    axes.set_yticks(middles, [str(c) for c in classes])
    axes.tick_params(length=0, labelsize=14, pad=5)
    for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
        for c, tick in zip(classes, ticks, strict=True):
            tick.set(color=_PALETTE[c], fontweight="bold")
    axes.spines[:].set_visible(False)
    scale = figure.colorbar(image, cax=axes.inset_axes((1.025, 0.0, 0.02, 1.0)))
    scale.outline.set_visible(False)
    scale.ax.tick_params(length=0, labelsize=9, labelcolor=_QUIET)
    scale.ax.set_title("distance", color=_QUIET, fontsize=10, pad=7)


def _class_order(matrix: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Digits by class; within a class from the most typical (nearest to its class) to the oddest."""
    typical = np.empty(len(labels))
    for c in np.unique(labels):
        own = np.flatnonzero(labels == c)
        typical[own] = matrix[np.ix_(own, own)].mean(axis=1)
    return np.lexsort((typical, labels))


def _draw_map(axes: Any, matrix: NDArray[np.float64], demo: Demo) -> None:
    shown = np.unique(np.linspace(0, len(matrix) - 1, min(len(matrix), _MAP_SIZE)).astype(int))
    places = spread_out(embed(matrix[np.ix_(shown, shown)]))
    axes.imshow(paint(demo.images[shown], demo.labels[shown], places))
    axes.set_axis_off()


def spread_out(places: NDArray[np.float64], gap: float = 0.85 * _THUMBNAIL, steps: int = 60) -> NDArray[np.float64]:
    """Scale a map (N, 2) to the canvas and push thumbnails apart until few stand closer than ``gap`` pixels."""
    from scipy.spatial import cKDTree

    places = _fit_canvas(places)
    ranks = _fit_canvas(places.argsort(axis=0).argsort(axis=0).astype(float))
    places = 0.45 * places + 0.55 * ranks  # ranks fill the empty parts of a map
    for _ in range(steps):
        pairs = cKDTree(places).query_pairs(gap, output_type="ndarray")
        if len(pairs) == 0:
            break
        i, j = pairs[np.lexsort(pairs.T)].T
        toward = places[j] - places[i]
        length = np.maximum(np.linalg.norm(toward, axis=1), 1e-6)
        push = toward * (0.35 * (gap - length) / length)[:, None]
        np.add.at(places, i, -push)
        np.add.at(places, j, push)
    return _fit_canvas(places)


def _fit_canvas(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Stretch each direction so that every thumbnail is inside, near the edge at most."""
    low, high = places.min(axis=0), places.max(axis=0)
    unit = (places - low) / np.where(high > low, high - low, 1.0)
    return _THUMBNAIL / 2 + unit * (_CANVAS - _THUMBNAIL)


def paint(images: NDArray[np.float64], labels: NDArray[np.int64], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """One image (canvas, canvas, 3) with every digit at its place, in the color of its class; ink adds as light."""
    from matplotlib.colors import to_rgb
    from scipy.ndimage import zoom

    background = np.array(to_rgb(_BACKGROUND))
    colors = np.array([to_rgb(color) for color in _PALETTE])
    canvas = np.broadcast_to(background, (_CANVAS, _CANVAS, 3)).copy()
    corners = np.clip((places - _THUMBNAIL / 2).astype(int), 0, _CANVAS - _THUMBNAIL)
    factor = _THUMBNAIL / images.shape[1]
    for image, label, (x, y) in zip(images, labels, corners, strict=True):
        ink = np.clip(zoom(image / 16.0, factor, order=1, grid_mode=True, mode="grid-constant"), 0.0, 1.0)[..., None]
        patch = canvas[y : y + _THUMBNAIL, x : x + _THUMBNAIL]
        patch += ink * np.maximum(colors[label] - patch, 0.0)
    return canvas
