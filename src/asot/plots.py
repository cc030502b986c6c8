"""Pictures of distances, plans and errors: matplotlib axes in, axes out.

Every function draws on the axes it is given, or on new ones, and returns them, so you can combine pictures as usual.
Names come from the result's ids. Needs matplotlib: ``pip install asot[plots]``.

New axes have one style, `STYLE`: quiet lines, and colors that survive color blindness. It is a plain dictionary for
``matplotlib.rc_context(asot.plots.STYLE)``, if your own axes should have it, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.data.belonging import ids_of, per_distribution
from asot.lazy import needed
from asot.learn.maps import as_square, embed, leaf_order, stress
from asot.learn.pictures import (
    COLORS,
    FAINT,
    INK,
    LINES,
    MARKERS,
    PAPER,
    draw_bar,
    draw_bundles,
    draw_tree,
    is_measured,
    write_bundles,
    write_names,
    write_title,
)
from asot.validation import as_choice

__all__ = ["STYLE", "barycenter", "errors", "map", "matrix", "plan"]

STYLE: dict[str, Any] = {
    "axes.edgecolor": FAINT,
    "axes.facecolor": PAPER,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.prop_cycle": f"cycler('color', {list(COLORS)})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.facecolor": PAPER,
    "font.size": 10,
    "grid.color": LINES,
    "image.cmap": "magma",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
}
"""What new axes look like, as matplotlib's rcParams."""

MOST_NAMES = 60
"""Names are only written next to a matrix or on a map up to this many."""

MOST_LINES = 150
"""Lines of a plan with more moves than this are fainter."""

MOST_BARS = 300
"""More error bars than this are thinned out evenly."""


def matrix(r: Any, ax: Any = None, *, labels: Any = None, order: str = "tree", cmap: str = "magma") -> Any:
    """The matrix of distances, with near distributions side by side. Colors span the distances of different ones.

    Parameters
    ----------
    r : Distances of all pairs of one collection, or an array (N, N)
    ax : matplotlib axes, optional
    labels : (N,), optional
        Groups, such as conditions or classes: kept together, with lines between them and a bar of colors at their
        side. Many different numbers, such as ages, are no groups, and only a bar. A pandas column or a dictionary is
        looked up by id. Names are written beside up to 60 rows.
    order : {"tree", "clusters", "given"}
        "tree" orders by hierarchical clustering (within each group), "clusters" by clustering whatever the groups, with
        the tree on top, and "given" keeps the collection's order (within each group).

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import asot
    >>> D, labels, _ = asot.datasets.load_digits(40)
    >>> ax = asot.plots.matrix(asot.pairwise_exact(D), labels=labels)
    >>> ax.get_title(loc="left")
    '40 distributions: 0.0633 apart within groups, 0.111 between'
    """
    square, names = as_square(r), names_of(r)
    groups = as_groups(labels, ids_of(r, len(square)))
    as_choice(order, "order", ("tree", "clusters", "given"))
    places = np.arange(len(square)) if order == "given" else leaf_order(square)
    together = groups is not None and order != "clusters" and not is_measured(groups)
    if groups is not None and together:
        places = places[np.argsort(groups[places], kind="stable")]
    ax = _axes(ax)
    image = ax.imshow(square[np.ix_(places, places)], cmap=cmap, interpolation="nearest", **_limits(square))
    bar = ax.figure.colorbar(image, ax=ax, label=_measure(r), fraction=0.046, pad=0.03)  # more cuts names off
    ax.spines[:].set_visible(False)
    if groups is not None:
        draw_bar(ax, groups[places], legend=not together)
    if order == "clusters":
        draw_tree(ax, square)
    if groups is not None and together:
        _mark_groups(ax, groups[places])
    named = len(square) <= MOST_NAMES and not (together and _are_numbers(names))
    if named:
        _write_rows(ax, [names[p] for p in places], columns=not together)
    elif not together:
        ax.set(xticks=[], yticks=[])
    write_title(ax, _summary(square, groups), bar.ax)
    return ax


def _summary(square: NDArray[np.float64], groups: NDArray[Any] | None) -> str:
    """How many distributions there are, and how far they are apart within groups and between them."""
    words, apart = f"{len(square):,} distributions", ~np.eye(len(square), dtype=bool)
    if groups is not None and not is_measured(groups):
        same = groups[:, None] == groups
        if (same & apart).any() and not same.all():
            within, between = square[same & apart].mean(), square[~same].mean()
            return f"{words}: {within:.3g} apart within groups, {between:.3g} between"
    return f"{words}, {square[apart].mean():.3g} apart on average" if apart.any() else words


def _measure(r: Any) -> str:
    """What the numbers are: the order of W, and the ground distance unless it is Euclidean."""
    info = getattr(r, "info", None) or {}
    if "p" not in info or "convention" in info:
        return "distance"
    order = str(info["p"]).translate(str.maketrans("0123456789.", "₀₁₂₃₄₅₆₇₈₉.")) if info["p"] < 100 else "∞"
    metric = info.get("metric", "euclidean")
    return f"W{order}" if metric == "euclidean" else f"W{order}, {metric}"


def _limits(square: NDArray[np.float64]) -> dict[str, float]:
    """The range of the distances between different distributions, so that the zeros of the diagonal waste no color."""
    apart = square[~np.eye(len(square), dtype=bool)]
    if apart.size == 0 or apart.min() == apart.max():
        return {}
    return {"vmin": float(apart.min()), "vmax": float(apart.max())}


def map(r: Any, ax: Any = None, *, labels: ArrayLike | None = None, method: str = "auto") -> Any:
    """The distributions as points in the plane, close together where their distances are small.

    Parameters
    ----------
    r : Distances of all pairs of one collection, or an array (N, N)
    ax : matplotlib axes, optional
    labels : (N,), optional
        Groups, shown by color; many different numbers, such as ages, have a color bar. A pandas column or a dictionary
        is looked up by id.
    method : {"auto", "mds", "tsne", "umap"}
        As in `asot.learn.maps.embed`.

    Names are written beside up to 60 points, if there are any, or if there are no groups. The number in the corner is
    the stress: how much the distances on the map differ from the true ones, 0 for none.

    Examples
    --------
    >>> import asot
    >>> D, labels, _ = asot.datasets.load_digits(12)
    >>> ax = asot.plots.map(asot.pairwise_exact(D))
    >>> len(ax.texts)
    12
    """
    square, names = as_square(r), names_of(r)
    groups = as_groups(labels, ids_of(r, len(square)))
    places = embed(square, method)
    x, y = places.T
    ax = _axes(ax)
    if groups is None:
        ax.scatter(x, y, s=28, color=COLORS[0])
    elif is_measured(groups):
        drawn = ax.scatter(x, y, s=28, c=groups.astype(np.float64), cmap="viridis")
        ax.figure.colorbar(drawn, ax=ax, label=str(getattr(labels, "name", None) or "label"), fraction=0.046, pad=0.03)
    else:
        for count, group in enumerate(np.unique(groups)):
            own = groups == group
            look = {"color": COLORS[count % len(COLORS)], "marker": MARKERS[count % len(MARKERS)]}
            ax.scatter(x[own], y[own], s=28, label=str(group), **look)
        ax.legend(fontsize=8, frameon=False)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_title(f"stress {stress(square, places):.2f}", loc="right", fontsize=8, color=FAINT, fontweight="normal")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    if len(square) <= MOST_NAMES and (groups is None or not _are_numbers(names)):
        write_names(ax, names, places)
    return ax


def _are_numbers(names: list[str]) -> bool:
    """Whether names are only the places of distributions, which groups say more about."""
    return names == [str(place) for place in range(len(names))]


def plan(D: Any, i: Any, j: Any, ax: Any = None, *, groups: Any = None, **how: Any) -> Any:
    """What goes where between distributions i and j: both as points, with a line for every move.

    Parameters
    ----------
    D : Distributions
    i, j : int, or ids
    ax : matplotlib axes, optional
    groups : (n,), optional
        The group of every point of D, such as its cell type, in its order: instead of single moves, one arrow from
        group to group, as wide as the mass that it moves. For plans of many points; the ten largest have names.
    **how
        Passed to `asot.plan`; the optimal plan unless ``space`` is given.

    Examples
    --------
    >>> import asot
    >>> D, _, _ = asot.datasets.load_digits(3)
    >>> ax = asot.plots.plan(D, 0, 1)
    >>> ax.get_title(loc="left")[:2]
    'W₁'
    """
    import asot
    from asot.data.distributions import as_distributions

    D = as_distributions(D)
    if "space" not in how:
        how.setdefault("exact", True)
    moved = asot.plan(D, i, j, **how)
    (x, a), (y, b) = D[i], D[j]
    first, second = _on_a_plane(x, y)
    ax = _axes(ax)
    bundles = [] if groups is None else draw_bundles(ax, moved, first, second, groups)
    if groups is None:
        entries = moved.tocoo()
        faint = min(1.0, (MOST_LINES / max(len(entries.data), 1)) ** 0.5)
        widths = 0.3 + 2.0 * faint * entries.data / entries.data.max()
        for p, q, width in zip(entries.row, entries.col, widths, strict=True):
            ends = np.stack([first[p], second[q]])
            ax.plot(*ends.T, color=FAINT, linewidth=width, alpha=max(0.6 * faint, 0.08), zorder=1)
    size = 120 * min(1.0, 60 / max(len(a), len(b)))
    for color, places, masses, name in (
        (COLORS[0], first, a, D.ids[D.place(i)]), (COLORS[1], second, b, D.ids[D.place(j)]),
    ):  # fmt: skip
        look = {"label": str(name), "color": color, "alpha": 0.85 if groups is None else 0.25, "zorder": 2}
        ax.scatter(*places.T, s=6 + size * masses / masses.max(), **look)
    ax.legend(frameon=False)
    sign = "=" if moved.is_exact else "≤"
    ax.set_title(f"W₁ {sign} {moved.cost:.4g}", loc="left")
    ax.set_aspect("equal", adjustable="datalim")
    if bundles:
        write_bundles(ax, bundles)
    return ax


def errors(r: Any, ax: Any = None) -> Any:
    """How wrong each distance can be: values in ascending order, with their bounds or their measured errors.

    Parameters
    ----------
    r : Distances with ``lower`` and ``upper``, or with ``error``
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import asot
    >>> D, _, _ = asot.datasets.load_digits(20)
    >>> ax = asot.plots.errors(asot.pairwise(D, bounds=True, random_state=0))
    >>> ax.get_ylabel()
    'distance, with its bounds'
    """
    if r.lower is None and r.error is None:
        raise ValueError("these distances have no error bars; ask for them with bounds=True or error='2%'")
    order = np.argsort(r.values, kind="stable")
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_BARS)).astype(int))]
    values = r.values[shown]
    if r.lower is not None and r.upper is not None:
        reach, words = np.stack([values - r.lower[shown], r.upper[shown] - values]), "its bounds"
    else:
        reach, words = 2 * np.stack([r.error[shown]] * 2), "twice its expected error"
    ax = _axes(ax)
    look = {"fmt": ".", "markersize": 3, "linewidth": 0.7, "color": COLORS[0]}
    ax.errorbar(np.arange(len(shown)), values, np.maximum(reach, 0.0), **look)
    ax.set_xlabel("pairs, by distance")
    ax.set_ylabel(f"distance, with {words}")
    typical = float(np.median(reach.mean(axis=0) / np.maximum(values, np.finfo(float).tiny)))
    ax.set_title(f"half of the distances are known within {typical:.1%}", loc="left")
    return ax


def barycenter(b: Any, anchors: ArrayLike, ax: Any = None) -> Any:
    """A barycenter: its anchors as points whose areas show their masses.

    Parameters
    ----------
    b : Barycenter, or masses (k,)
    anchors : (k, d)
        Where the masses lie: ``space.anchors``.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import asot
    >>> D, _, _ = asot.datasets.load_digits(5)
    >>> space = asot.KMeansAnchors(12, random_state=0).fit(D).space_
    >>> found = asot.barycenter(space.histograms(D), space.cost)
    >>> ax = asot.plots.barycenter(found, space.anchors)
    >>> len(ax.collections)
    1
    """
    masses = np.asarray(getattr(b, "masses", b), dtype=np.float64)
    points = np.asarray(anchors, dtype=np.float64)
    if points.ndim != 2 or len(points) != len(masses):
        raise ValueError(f"there are {len(masses)} masses; anchors must be ({len(masses)}, d), found {points.shape}")
    places, _ = _on_a_plane(points, points[:1])
    held = masses > 0
    ax = _axes(ax)
    ax.scatter(*places[held].T, s=300 * masses[held] / masses.max(), color=COLORS[0])
    ax.set_aspect("equal", adjustable="datalim")
    return ax


# --------------------------------------------------------------------------------------------------------------- parts


def names_of(r: Any) -> list[str]:
    """What the distributions of a result are called: their ids, or their numbers."""
    return [str(one) for one in ids_of(r, len(r.matrix() if hasattr(r, "matrix") else r))]


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    pyplot = needed("matplotlib.pyplot", "pictures need matplotlib: pip install asot[plots]")
    with pyplot.rc_context(STYLE):
        return pyplot.subplots(layout="constrained")[1]


def as_groups(labels: Any, ids: NDArray[Any]) -> NDArray[Any] | None:
    """Labels (N,) in the order of the ids, by name where they have names."""
    return None if labels is None else np.asarray(per_distribution(labels, "labels", ids))


def _write_rows(ax: Any, names: list[str], columns: bool) -> None:
    """Names at every row of a matrix, and at every column if asked, in letters that fit."""
    height = ax.get_position().height * ax.figure.get_figheight() * 72.0
    size = max(3.5, min(8.0, 0.9 * height / max(len(names), 1)))
    ax.set_yticks(range(len(names)), names, fontsize=size)
    if columns:
        ax.set_xticks(range(len(names)), names, rotation=90, fontsize=size)


def _mark_groups(ax: Any, groups: NDArray[Any]) -> None:
    """Lines between groups, and their names in the middle."""
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    edges = np.append(starts, len(groups)) - 0.5
    for edge in edges[1:-1]:
        ax.axhline(edge, color=PAPER, linewidth=0.8)
        ax.axvline(edge, color=PAPER, linewidth=0.8)
    middles, names = (edges[:-1] + edges[1:]) / 2, [str(group) for group in groups[starts]]
    ax.set_xticks(middles, names)
    ax.set_yticks(middles, names)


def _on_a_plane(x: Any, y: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two sets of points (n, d), (m, d) in two dimensions: as they are, or on their two main axes."""
    both = np.concatenate([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
    if both.shape[1] == 1:
        both = np.column_stack([both, np.repeat([0.0, 1.0], [len(x), len(y)])])
    elif both.shape[1] > 2:
        centered = both - both.mean(axis=0)
        both = centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T
    return both[: len(x)], both[len(x) :]
