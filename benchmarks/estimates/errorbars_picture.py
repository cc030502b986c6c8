"""``python -m benchmarks.estimates.errorbars_picture docs/images/error-bars.png``: estimates and their bars.

Handwritten digits that come with scikit-learn, so that the picture needs no data: some pairs at a third of the usual
number of anchors, where errors can be seen.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import asot
from asot.datasets import load_digits

N_DIGITS, N_ANCHORS, N_SHOWN = 120, 10, 90
BACKGROUND, TEXT, QUIET, BAR, DOT = "#ffffff", "#1c2330", "#8a93a5", "#9fc3e8", "#d9480f"


def draw(path: Path) -> None:
    """Draw both estimates of the same pairs and write the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    digits, _, _ = load_digits(N_DIGITS)
    chosen = np.random.default_rng(1).choice(N_DIGITS * (N_DIGITS - 1) // 2, N_SHOWN, replace=False)
    exact = asot.pairwise_exact(digits).values
    space = asot.KMeansAnchors(N_ANCHORS, random_state=0).fit(digits)
    plain = asot.pairwise(digits, space=space, estimate="anchor")
    calibrated = asot.pairwise(digits, space=space, estimate="calibrated", bounds="points")
    figure = Figure(figsize=(11.0, 5.4), dpi=110, facecolor=BACKGROUND)
    FigureCanvasAgg(figure)
    for place, (title, values) in enumerate(
        {"distance on the anchors": plain.values, "calibrated": calibrated.values}.items()
    ):
        axes = figure.add_subplot(1, 2, place + 1)
        _panel(axes, exact[chosen], values[chosen], calibrated.lower[chosen], calibrated.upper[chosen])
        off = 100 * np.sqrt(np.mean((values - exact) ** 2)) / exact.mean()
        axes.set_title(f"{title}: {off:.1f} percent off", color=TEXT, fontsize=12)
    figure.axes[0].set_ylabel("estimate, with the interval that is certain", color=TEXT)
    figure.tight_layout(pad=1.5)
    figure.savefig(path, facecolor=BACKGROUND)


def _panel(axes: Any, exact: Any, values: Any, lower: Any, upper: Any) -> None:
    top = 1.05 * float(upper.max())
    axes.plot([0, top], [0, top], color=QUIET, linewidth=1, zorder=1)
    axes.vlines(exact, lower, upper, color=BAR, linewidth=3, zorder=2)
    axes.scatter(exact, values, color=DOT, s=11, zorder=3)
    axes.set_xlim(0, top)
    axes.set_ylim(0, top)
    axes.set_aspect("equal")
    axes.set_xlabel("exact W₁", color=TEXT)
    axes.tick_params(colors=QUIET)
    for side in axes.spines.values():
        side.set_color(QUIET)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
