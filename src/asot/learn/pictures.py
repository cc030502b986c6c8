"""Parts of pictures: one style for all, bars of groups, trees, names that do not collide, and bundles of moves.

All of them draw on matplotlib axes that they are given; matplotlib itself is only imported where a color is chosen.
Colors are six of Okabe and Ito's, which people who see red and green alike can tell apart, and two more that were
searched for the same reason, in place of their black and yellow, which need a paper of one shade.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float

COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#a00aee", "#145158")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
"""Groups differ by color and by shape."""

PAPER, INK, FAINT, LINES = "#ffffff", "#1f2933", "#8a94a3", "#d5dae1"

MOST_LEVELS = 12
"""Numbers of more different values than this are measurements, and not groups."""

LEAST_SHARE = 0.02
"""Bundles of less than this share of the mass are not drawn."""


def is_measured(groups: NDArray[Any]) -> bool:
    """Whether labels are measurements, such as ages, and not groups."""
    return groups.dtype.kind in "fiu" and len(np.unique(groups)) > MOST_LEVELS


def draw_bar(ax: Any, groups: NDArray[Any], legend: bool = False) -> None:
    """A bar of colors at the left of a matrix: the group, or the measurement, of every row."""
    strip = ax.inset_axes([-0.035, 0.0, 0.025, 1.0])
    if is_measured(groups):
        strip.imshow(groups.astype(np.float64)[:, None], aspect="auto", cmap="viridis", interpolation="nearest")
    else:
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        found, code = np.unique(groups, return_inverse=True)
        colors = ListedColormap([COLORS[c % len(COLORS)] for c in range(len(found))])
        strip.imshow(code[:, None], aspect="auto", cmap=colors, vmin=0, vmax=max(len(found) - 1, 1))
        if legend:
            handles = [Patch(color=COLORS[c % len(COLORS)], label=str(name)) for c, name in enumerate(found)]
            place = {
                "loc": "upper left",
                "bbox_to_anchor": (1.01, 1.14),
                "ncols": -(-len(found) // 3),
            }  # beside the tree
            ax.legend(handles=handles, fontsize=7, frameon=False, borderpad=0.0, **place)
    strip.set_xticks([])
    strip.set_yticks([])
    ax.tick_params(axis="y", pad=14)


def draw_tree(ax: Any, square: Float) -> None:
    """The tree of average linkage above a matrix whose columns are its leaves."""
    from scipy.cluster.hierarchy import dendrogram

    from asot.learn.maps import tree_of

    if len(square) < 3:
        return
    drawn = dendrogram(tree_of(square), no_plot=True)
    top = ax.inset_axes([0.0, 1.01, 1.0, 0.12])
    for x, y in zip(drawn["icoord"], drawn["dcoord"], strict=True):
        top.plot((np.array(x) - 5.0) / 10.0, y, color=FAINT, linewidth=0.6)
    top.set_xlim(-0.5, len(square) - 0.5)
    top.axis("off")


_OFFSETS = [(4, 4), (4, -10), (-4, 4), (-4, -10), (0, 9), (0, -15), (9, -3), (-9, -3), (14, 12), (-14, 12), (14, -18)]
"""Places of a name around its point, in points of the page; tried in this order."""


def write_names(ax: Any, names: list[str], places: Float) -> None:
    """Names beside their points, moved where they would cover another; the first place if all are taken."""
    x, y = places.T
    ax.update_datalim(places)
    ax.autoscale_view()
    at = ax.transData.transform(places) * 72.0 / ax.figure.dpi
    taken: list[tuple[float, float, float, float]] = []
    for name, point, (px, py) in zip(names, zip(x, y, strict=True), at, strict=True):
        width, height = 4.6 * len(name), 9.0
        chosen = _OFFSETS[0]
        for dx, dy in _OFFSETS:
            left = px + dx - (width if dx < 0 else width / 2 if dx == 0 else 0.0)
            box = (left, py + dy, left + width, py + dy + height)
            if not any(_overlap(box, other) for other in taken):
                chosen = (dx, dy)
                taken.append(box)
                break
        side = "left" if chosen[0] > 0 else "right" if chosen[0] < 0 else "center"
        ax.annotate(name, point, fontsize=8, xytext=chosen, textcoords="offset points", ha=side)


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def draw_bundles(ax: Any, moved: Any, first: Float, second: Float, groups: Any) -> None:
    """One arrow from group to group, as wide as its mass, between the middles of what moves."""
    entries = moved.tocoo()
    own_i, own_j = (np.asarray(side) for side in moved.sides(groups))
    total = entries.data.sum()
    found: list[tuple[float, str, Float]] = []
    for source in np.unique(own_i):
        for target in np.unique(own_j):
            chosen = (own_i[entries.row] == source) & (own_j[entries.col] == target)
            mass = entries.data[chosen].sum()
            if mass < LEAST_SHARE * total:
                continue
            weight = entries.data[chosen] / mass
            ends = np.stack([weight @ first[entries.row[chosen]], weight @ second[entries.col[chosen]]])
            _draw_arrow(ax, ends, 0.5 + 9.0 * mass / total)
            name = str(source) if source == target else f"{source} → {target}"
            found.append((-float(mass), f"{name} {mass / total:.0%}", ends.mean(axis=0)))
    found.sort(key=lambda one: one[0])  # the largest have the first choice of a place
    ax.update_datalim(np.concatenate([first, second]))
    _write_bundles(ax, [name for _, name, _ in found], np.array([at for *_, at in found]).reshape(-1, 2))


def _draw_arrow(ax: Any, ends: Float, width: float) -> None:
    arrow = {"arrowstyle": "-|>", "linewidth": width, "color": FAINT, "alpha": 0.7, "mutation_scale": 8 + width}
    ax.annotate("", xy=ends[1], xytext=ends[0], arrowprops=arrow, zorder=3)


def _write_bundles(ax: Any, names: list[str], places: Float) -> None:
    """Names of bundles at their middles, moved up or down where another one is, with a line to where they belong."""
    ax.autoscale_view()
    at = ax.transData.transform(places) * 72.0 / ax.figure.dpi if len(places) else places
    taken: list[tuple[float, float, float, float]] = []
    line = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.5}
    for name, place, (px, py) in zip(names, places, at, strict=True):
        width = 4.2 * len(name)
        steps = [0.0] if not taken else [11.0 * sign * k for k in range(len(names) + 1) for sign in (1, -1)]
        for dy in steps:
            box = (px - width / 2, py + dy, px + width / 2, py + dy + 10.0)
            if not any(_overlap(box, other) for other in taken):
                break
        taken.append(box)
        ax.annotate(
            name, place, fontsize=7, ha="center", zorder=4, xytext=(0, dy), textcoords="offset points",
            arrowprops=line if abs(dy) > 11 else None, bbox={"facecolor": PAPER, "alpha": 0.75, "pad": 0.6, "lw": 0},
        )  # fmt: skip
