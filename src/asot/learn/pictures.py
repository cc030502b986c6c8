"""Parts of pictures: one style for all, bars of groups, trees, names that do not collide, and bundles of moves.

All of them draw on matplotlib axes that they are given; matplotlib itself is only imported where a color is chosen.
Colors are six of Okabe and Ito's, which people who see red and green alike can tell apart, and two more that were
searched for the same reason, in place of their black and yellow, which need a paper of one shade.
"""

from __future__ import annotations

import itertools
import textwrap
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

MOST_BUNDLE_NAMES = 10
"""So many of the largest bundles have names."""

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points of the page."""


def is_measured(groups: NDArray[Any]) -> bool:
    """Whether labels are measurements, such as ages, and not groups."""
    return groups.dtype.kind in "fiu" and len(np.unique(groups)) > MOST_LEVELS


def settle(ax: Any) -> None:
    """Lay the figure out as it will be drawn, so that what is measured on it stays true."""
    ax.figure.figure.draw_without_rendering()


def write_title(ax: Any, text: str, bar: Any) -> None:
    """A title above a matrix and its color bar, in as many lines as it takes before the next axes begin."""
    title = ax.set_title(text, loc="left")
    settle(ax)
    own, figure = ax.get_window_extent(), ax.figure.figure
    ends = [other.get_window_extent().x0 for other in figure.axes if other is not ax and other is not bar]
    room = min([figure.bbox.x1, *(x for x in ends if x >= own.x1)]) - own.x0
    width = title.get_window_extent().width
    if width > room:
        lines = int(np.ceil(1.1 * width / room))
        title.set_text(textwrap.fill(text, max(-(-len(text) // lines) + 3, 8)))  # lines of about one length


def draw_bar(ax: Any, groups: NDArray[Any], legend: bool = False) -> None:
    """A bar of colors at the left of a matrix: the group, or the measurement, of every row."""
    strip = ax.inset_axes([-0.035, 0.0, 0.025, 1.0])
    if is_measured(groups):
        values = groups.astype(np.float64)
        strip.imshow(values[:, None], aspect="auto", cmap="viridis", interpolation="nearest")
        strip.set_title(f"{values.min():.4g} to {values.max():.4g}", fontsize=7, fontweight="normal", loc="right")
    else:
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        found, code = np.unique(groups, return_inverse=True)
        colors = ListedColormap([COLORS[c % len(COLORS)] for c in range(len(found))])
        strip.imshow(code[:, None], aspect="auto", cmap=colors, vmin=0, vmax=max(len(found) - 1, 1))
        if legend:
            handles = [Patch(color=COLORS[c % len(COLORS)], label=str(name)) for c, name in enumerate(found)]
            place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.14), "ncols": -(-len(found) // 3)}  # by the tree
            ax.legend(handles=handles, fontsize=7, frameon=False, borderpad=0.0, **place)
    strip.set(xticks=[], yticks=[])
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
    ax.update_datalim(places)
    settle(ax)
    at = ax.transData.transform(places) * 72.0 / ax.figure.dpi
    taken: list[Box] = []
    for name, point, (px, py) in zip(names, places, at, strict=True):
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


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def draw_bundles(ax: Any, moved: Any, first: Float, second: Float, groups: Any) -> list[tuple[str, Float]]:
    """One arrow from group to group, as wide as its mass, between the middles of what moves; names and ends (2, 2) of
    the largest are returned."""
    entries = moved.tocoo()
    own_i, own_j = (np.asarray(side) for side in moved.sides(groups))
    total = entries.data.sum()
    found: list[tuple[float, str, Float]] = []
    for source, target in itertools.product(np.unique(own_i), np.unique(own_j)):
        chosen = (own_i[entries.row] == source) & (own_j[entries.col] == target)
        mass = entries.data[chosen].sum()
        if mass < LEAST_SHARE * total:
            continue
        weight = entries.data[chosen] / mass
        ends = np.stack([weight @ first[entries.row[chosen]], weight @ second[entries.col[chosen]]])
        width = 0.5 + 9.0 * mass / total
        arrow = {"arrowstyle": "-|>", "linewidth": width, "color": INK, "alpha": 0.75, "mutation_scale": 8 + width}
        ax.annotate("", xy=ends[1], xytext=ends[0], arrowprops=arrow, zorder=3)
        name = str(source) if source == target else f"{source} → {target}"
        found.append((-float(mass), f"{name} {mass / total:.0%}", ends))
    found.sort(key=lambda one: one[0])
    ax.update_datalim(np.concatenate([first, second]))
    return [(name, ends) for _, name, ends in found[:MOST_BUNDLE_NAMES]]


def write_bundles(ax: Any, bundles: list[tuple[str, Float]]) -> None:
    """Names of bundles near their middles, clear of arrows, of the legend and of each other, with a line to where they
    belong if that is some way off. The largest have the first choice of a place."""
    settle(ax)
    scale = 72.0 / ax.figure.dpi
    page: Box = tuple(scale * ax.get_window_extent().extents)
    ends = [ax.transData.transform(one) * scale for _, one in bundles]
    taken: list[Box] = []
    if ax.get_legend() is not None:
        taken.append(tuple(scale * ax.get_legend().get_window_extent().extents))
    arrows = [(x - 3, y - 3, x + 3, y + 3) for one in ends for x, y in np.linspace(one[0], one[1], 7)]
    line = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.5}
    for (name, own), at in zip(bundles, ends, strict=True):
        dx, dy, box = _free_place(at.mean(axis=0), 4.4 * len(name) + 4.0, page, taken, arrows)
        taken.append(box)
        ax.annotate(
            name, own.mean(axis=0), fontsize=7, ha="center", va="center", zorder=4, xytext=(dx, dy),
            textcoords="offset points", arrowprops=line if np.hypot(dx / 3, dy) > 12 else None,
            bbox={"facecolor": PAPER, "alpha": 0.75, "pad": 0.6, "lw": 0},
        )  # fmt: skip


def _free_place(at: Float, width: float, page: Box, taken: list[Box], arrows: list[Box]) -> tuple[float, float, Box]:
    """Where a name of some width goes: the nearest place on the page that covers no name, and if there is one, no
    arrow."""
    turns = np.arange(8) * np.pi / 4
    steps = [(width / 2 * k * np.cos(turn), 12.0 * k * np.sin(turn)) for k in range(1, 16) for turn in turns]
    places = []
    for dx, dy in sorted(steps, key=lambda one: float(np.hypot(one[0] / 3, one[1]))):
        x, y = at[0] + dx, at[1] + dy
        box = (x - width / 2, y - 5.5, x + width / 2, y + 5.5)
        inside = page[0] <= box[0] and page[1] <= box[1] and box[2] <= page[2] and box[3] <= page[3]
        if any(_overlap(box, other) for other in taken):
            continue
        covered = sum(_overlap(box, other) for other in arrows)
        if inside and not covered:
            return dx, dy, box
        places.append((not inside, covered, dx, dy, box))
    return min(places)[2:] if places else (0.0, 0.0, (at[0], at[1], at[0], at[1]))
