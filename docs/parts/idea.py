"""The picture of the first page: distributions go in, distances with error bars come out.

Clouds of three kinds, the matrix of six of them, and estimates with proven intervals beside the true distances. All of
it is computed by asot while the site is built. There is a wide form for desks and a tall one for telephones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from parts.figures import save

KINDS = ("ring", "moon", "cross")


def clouds(each: int = 12) -> tuple[Any, list[str]]:
    """Clouds of different sizes, as many of each kind; the first six are two of each."""
    import asot

    rng = np.random.default_rng(3)
    points, names = [], []
    for count in range(each // 2):
        for kind in KINDS:
            for n in (160, 220):
                points.append(_shape(kind, n + 5 * count, rng))
                names.append(kind)
    return asot.Distributions.from_list(points), names


def _shape(kind: str, n: int, rng: np.random.Generator) -> Any:
    angle = rng.uniform(0, 2 * np.pi, n)
    if kind == "ring":
        drawn = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    elif kind == "moon":
        drawn = np.stack([np.cos(angle / 2), np.sin(angle / 2)], axis=1) * [1.1, 1.3] - [0.0, 0.75]
    else:
        arm = rng.uniform(-1, 1, n)
        drawn = np.where(rng.random((n, 1)) < 0.5, np.stack([arm, arm], 1), np.stack([arm, -arm], 1))
    return rng.uniform(0.85, 1.1) * drawn + rng.normal(0, 0.06, (n, 2)) + rng.normal(0, 0.06, 2)


def draw(folder: Path) -> None:
    """``idea-wide`` and ``idea-tall``, each for light and dark pages."""
    from matplotlib import pyplot, rc_context

    import asot

    D, kinds = clouds()
    exact = asot.pairwise_exact(D)
    space = asot.KMeansAnchors(24, random_state=0)
    D, kinds = D[:6], kinds[:6]
    bounded = asot.pairwise(clouds()[0], space=space, estimate="calibrated", bounds=True, random_state=0)
    with rc_context({**asot.plots.STYLE, "svg.hashsalt": "idea"}):
        for form, size in (("wide", (11.5, 3.3)), ("tall", (5.0, 9.6))):
            figure = pyplot.figure(figsize=size)
            _fill(figure, form == "wide", D, kinds, exact, bounded)
            save(figure, folder / f"idea-{form}")
            pyplot.close(figure)


def _fill(figure: Any, wide: bool, D: Any, kinds: list[str], exact: Any, bounded: Any) -> None:
    if wide:
        parts = figure.add_gridspec(1, 3, width_ratios=[1.15, 1, 1.25], wspace=0.34, left=0.01, right=0.99, top=0.84)
        parts.update(bottom=0.14)
    else:
        parts = figure.add_gridspec(3, 1, height_ratios=[0.75, 1, 0.9], hspace=0.34, left=0.13, right=0.97, top=0.96)
        parts.update(bottom=0.06)
    _clouds(figure, parts[0], D, kinds)
    _matrix(figure.add_subplot(parts[1]), exact, kinds)
    _intervals(figure.add_subplot(parts[2]), exact, bounded)


def _clouds(figure: Any, place: Any, D: Any, kinds: list[str]) -> None:
    from asot.learn.pictures import COLORS

    inner = place.subgridspec(2, 3, wspace=0.05, hspace=0.05)
    for count, kind in enumerate(kinds):
        column, row = divmod(count, 2)
        ax = figure.add_subplot(inner[row, column])
        ax.scatter(*D[count][0].T, s=3.5, color=COLORS[KINDS.index(kind)], linewidths=0)
        ax.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal", xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        if count == 0:
            ax.set_title("distributions of any sizes", fontsize=11)


def _matrix(ax: Any, exact: Any, kinds: list[str]) -> None:
    from asot.learn.pictures import PAPER

    square = exact.matrix()[:6, :6]
    ax.imshow(square, cmap="magma", vmin=0, vmax=1.05 * square.max())
    for i in range(len(square)):
        for j in range(len(square)):
            shade = "#fefefe" if square[i, j] < 0.7 * square.max() else "black"
            ax.text(j, i, f"{square[i, j]:.2f}", ha="center", va="center", fontsize=8, color=shade)
    for edge in (1.5, 3.5):
        ax.axhline(edge, color=PAPER, linewidth=2)
        ax.axvline(edge, color=PAPER, linewidth=2)
    ax.set_xticks([0.5, 2.5, 4.5], KINDS)
    ax.set_yticks([0.5, 2.5, 4.5], KINDS, rotation=90, va="center")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title("every distance, exactly …", fontsize=11)


def _intervals(ax: Any, exact: Any, bounded: Any) -> None:
    from asot.learn.pictures import COLORS, INK

    unknown = np.flatnonzero(bounded.values != exact.values)  # others were solved to measure the error
    order = unknown[np.argsort(exact.values[unknown])]
    order = order[np.linspace(0, len(order) - 1, 24).astype(int)]
    x = np.arange(len(order))
    low, high = bounded.lower[order], bounded.upper[order]
    ax.vlines(x, low, high, color=COLORS[4], linewidth=4.5, alpha=0.9, label="proven interval")
    ax.plot(x, bounded.values[order], "_", color=COLORS[0], markersize=7, markeredgewidth=2, label="fast estimate")
    ax.plot(x, exact.values[order], ".", color=INK, markersize=4.5, label="exact W₁")
    ax.set(xticks=[], ylim=0, xlabel="pairs, from near to far", ylabel="W₁")
    ax.legend(fontsize=8.5, loc="lower right")
    ax.set_title("… or faster, with error bars", fontsize=11)
