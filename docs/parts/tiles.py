"""Small pictures of what a distribution is in each field, for the tiles of the first page.

Each draws two distributions and the plan between them, or what a field would draw of them. Data are embedded or made,
and plans and gradients are asot's own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from parts.figures import save


def draw(folder: Path) -> None:
    """``tile-FIELD``, each for light and dark pages."""
    from matplotlib import pyplot, rc_context

    import asot

    for field, paint in TILES.items():
        with rc_context({**asot.plots.STYLE, "svg.hashsalt": field}):
            figure = pyplot.figure(figsize=(3.2, 2.0))
            ax = figure.add_axes((0.02, 0.02, 0.96, 0.96))
            ax.set_axis_off()
            paint(ax, np.random.default_rng(5))
            save(figure, folder / f"tile-{field}")
            pyplot.close(figure)


def _colors() -> tuple[str, ...]:
    from asot.learn.pictures import COLORS

    return COLORS


def _faint() -> str:
    from asot.learn.pictures import FAINT

    return FAINT


def _moves(ax: Any, x: Any, y: Any, a: Any = None, b: Any = None, width: float = 12.0) -> None:
    """The plan between two clouds, as lines."""
    import asot

    masses = None if a is None else [a, b]
    moved = asot.plan(asot.Distributions.from_list([x, y], masses=masses), 0, 1, exact=True).tocoo()
    for p, q, mass in zip(moved.row, moved.col, moved.data, strict=True):
        ends = np.stack([x[p], y[q]])
        ax.plot(*ends.T, color=_faint(), linewidth=0.4 + width * mass, alpha=0.55, zorder=0, solid_capstyle="round")


def _cells(ax: Any, rng: np.random.Generator) -> None:
    for count, (center, spread, n) in enumerate([((0, 0), 0.5, 150), ((2.2, 0.7), 0.4, 120), ((1.0, -1.5), 0.35, 90)]):
        drawn = rng.normal(center, spread, (n, 2))
        ax.scatter(*drawn.T, s=9, color=_colors()[count], alpha=0.75, linewidths=0)
    shifted = rng.normal((3.6, -0.9), 0.42, (90, 2))
    ax.scatter(*shifted.T, s=9, color=_colors()[1], alpha=0.75, linewidths=0, marker="s")
    look = {"arrowstyle": "-|>", "color": _faint(), "linewidth": 2.2, "mutation_scale": 16}
    ax.annotate("", (3.3, -0.45), (2.55, 0.35), arrowprops=look)
    ax.set_aspect("equal", adjustable="datalim")


def _documents(ax: Any, rng: np.random.Generator) -> None:
    pairs = [("president", "Obama"), ("greets", "speaks"), ("press", "media"), ("Chicago", "Illinois")]
    for row, (first, second) in enumerate(pairs):
        y = -row
        ax.plot([0.95, 2.05], [y, y + 0.0], color=_faint(), linewidth=1.8 + 0.4 * row, alpha=0.6)
        ax.text(0.9, y, first, ha="right", va="center", fontsize=12, color=_colors()[0], fontweight="bold")
        ax.text(2.1, y, second, ha="left", va="center", fontsize=12, color=_colors()[5], fontweight="bold")
    ax.set(xlim=(-0.35, 3.25), ylim=(-3.6, 0.6))


def _graphs(ax: Any, rng: np.random.Generator) -> None:
    ring = np.array([[np.cos(t), np.sin(t)] for t in np.linspace(0, 2 * np.pi, 7)[:-1]])
    first = np.vstack([ring, ring[[0]] * 2 + [0, 0.0]])
    second = np.vstack([ring * 0.95, ring[[0]] * 1.9, ring[[2]] * 1.9]) + np.array([4.6, 0])
    edges = [*((i, (i + 1) % 6) for i in range(6)), (0, 6)]
    _moves(ax, first, second, np.full(7, 1 / 7), np.full(8, 1 / 8), width=4)
    for nodes, lines in ((first, edges), (second, [*edges, (2, 7)])):
        for i, j in lines:
            ax.plot(*nodes[[i, j]].T, color=_faint(), linewidth=2, zorder=1)
        colors = [_colors()[1] if k >= 6 else _colors()[0] for k in range(len(nodes))]
        ax.scatter(*nodes.T, s=90, c=colors, zorder=2, linewidths=0)
    ax.set_aspect("equal", adjustable="datalim")


def _images(ax: Any, rng: np.random.Generator) -> None:
    """Two digits as images, and the plan between their pixels."""
    from matplotlib.colors import to_rgb

    import asot

    _, labels, about = asot.datasets.load_digits(60)
    found = [about["images"][np.flatnonzero(labels == digit)[0]] for digit in (5, 2)]
    for left, image, color in zip((0, 13), found, (_colors()[4], _colors()[1]), strict=True):
        drawn = np.dstack([*(np.full((8, 8), part) for part in to_rgb(color)), image / 16])
        ax.imshow(drawn, extent=(left, left + 8, -8, 0), zorder=2, interpolation="nearest")
    ink = asot.Distributions.from_images(np.stack(found))
    (x, a), (y, b) = ink[0], ink[1]
    x, y = x[:, ::-1] * [1, -1] + [0.5, -0.5], y[:, ::-1] * [1, -1] + [13.5, -0.5]
    _moves(ax, x, y, a, b, width=25)
    ax.set(xlim=(-0.5, 21.5), ylim=(-8.5, 0.5), aspect="equal")


def _jets(ax: Any, rng: np.random.Generator) -> None:
    for start, prongs, color in ((0.0, 2, 0), (1.5, 3, 1)):
        angles = 0.4 + 2 * np.pi * np.arange(prongs) / prongs
        centers = 0.38 * np.column_stack([np.cos(angles), np.sin(angles)])
        drawn = centers[rng.integers(prongs, size=38)] + rng.normal(0, 0.085, (38, 2))
        momenta = rng.dirichlet(np.full(38, 0.5))
        around = np.linspace(0, 2 * np.pi, 100)
        ax.plot(start + 0.66 * np.cos(around), 0.66 * np.sin(around), color=_faint(), linewidth=1, linestyle=":")
        ax.scatter(
            start + drawn[:, 0], drawn[:, 1], s=8 + 900 * momenta, color=_colors()[color], alpha=0.65, linewidths=0
        )
    ax.set_aspect("equal", adjustable="datalim")


def _diagrams(ax: Any, rng: np.random.Generator) -> None:
    ax.plot([-0.2, 2.6], [-0.2, 2.6], color=_faint(), linewidth=1.5)
    first = np.array([[0.2, 1.9], [0.6, 1.2], [1.3, 1.55], [0.1, 0.35]])
    second = first[:3] + np.array([[0.25, 0.12], [0.28, -0.2], [0.22, 0.42]])
    for p, q in zip(first, second, strict=False):
        ax.plot(*np.stack([p, q]).T, color=_faint(), linewidth=2.5, zorder=0)
    middle = first[3].mean()
    ax.plot([first[3, 0], middle], [first[3, 1], middle], color=_faint(), linewidth=2.5, zorder=0)
    ax.scatter(*first.T, s=80, color=_colors()[0], linewidths=0)
    ax.scatter(*second.T, s=80, color=_colors()[1], marker="s", linewidths=0)
    ax.fill_between([-0.2, 2.6], [-0.2, 2.6], -0.2, color=_faint(), alpha=0.12, linewidth=0)
    ax.set(xlim=(-0.4, 2.8), ylim=(-0.1, 2.3))


def _crystals(ax: Any, rng: np.random.Generator) -> None:
    tilt = np.array([[1.0, 0.0], [0.28, 0.92]])
    for row in range(3):
        for column in range(6):
            corner = np.array([column, row]) @ tilt
            ax.scatter(*corner, s=120, color=_colors()[0], linewidths=0, zorder=2)
            ax.scatter(*(corner + np.array([0.64, 0.46])), s=45, color=_colors()[5], linewidths=0, zorder=2)
    cell = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) @ tilt + np.array([2, 1]) @ tilt
    ax.plot(*cell.T, color=_faint(), linewidth=2.5, zorder=1)
    ax.set(xlim=(0.3, 5.3), ylim=(-0.35, 2.75), aspect="equal")


def _training(ax: Any, rng: np.random.Generator) -> None:
    angle = rng.uniform(0, 2 * np.pi, 90)
    target = np.stack([1.5 * np.cos(angle), 0.95 * np.sin(angle)], axis=1) + rng.normal(0, 0.03, (90, 2))
    noise = rng.normal(0, 0.28, (90, 2))
    _moves(ax, noise, target, width=30)
    ax.scatter(*target.T, s=16, color=_colors()[1], linewidths=0, zorder=2)
    ax.scatter(*noise.T, s=12, color=_colors()[0], linewidths=0, zorder=3)
    ax.set_aspect("equal", adjustable="datalim")


TILES: dict[str, Callable[[Any, np.random.Generator], None]] = {
    "cells": _cells,
    "documents": _documents,
    "graphs": _graphs,
    "images": _images,
    "jets": _jets,
    "diagrams": _diagrams,
    "crystals": _crystals,
    "training": _training,
}
