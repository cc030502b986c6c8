"""A result as one HTML page that needs nothing else: data, style and program are in the file.

The page shows the matrix in an order of your choice, a map, the neighbors of whatever is clicked, with their error
bars, and, if the collection is given, what moves where between two distributions. Distances are stored as 16-bit shares
of the largest one, which is finer than a screen can show. The numbers on the page are exact for up to a million pairs,
and rounded beyond that.
"""

from __future__ import annotations

import base64
import html
import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asot.data.belonging import check_same_ids, ids_of
from asot.data.npz import PathLike, atomic_write
from asot.learn.maps import as_square, embed, leaf_order
from asot.results.noise import noise_matrix

if TYPE_CHECKING:
    from asot.data.distributions import Distributions
    from asot.results.distances import Distances

MOST = 5_000
"""With more distributions, a page would be too large for a browser."""

MOST_NUMBERS = 3_000_000
"""Up to this many coordinates, a page shows plans."""

MOST_ON_A_MAP_OF_NEIGHBORS = 2_500
"""Beyond this, t-SNE takes minutes, and the map is classical scaling."""


def write_page(
    path: PathLike,
    r: Distances,
    D: Distributions | None = None,
    *,
    labels: ArrayLike | None = None,
    kinds: ArrayLike | None = None,
    noise: Any = None,
    all_points: bool = False,
    title: str | None = None,
) -> str | None:
    """Write a page that explores distances of all pairs of one collection.

    Parameters
    ----------
    path : str or Path
        Where to write the page. An existing file is only replaced by a complete one.
    r : Distances
    D : Distributions (N), optional
        The collection itself, so that the page can show what moves where.
    labels : (N,), optional
        Groups, shown by color. A pandas column or a dictionary is looked up by id.
    kinds : (n,), optional
        The kind of every point of D, such as its cell type, in its order: plans are summed up by kind.
    noise : NoiseFloor or array-like (N, N), optional
        ``asot.noise_floor(D)``: pairs that are no farther apart than samples of one distribution are marked.
    all_points : bool
        Keep the points of D even if there are more than 3 million coordinates, for a page of that size.
    title : str, optional

    Returns
    -------
    str or None
        Why the page has no plans although D was given, and how to keep them.

    Examples
    --------
    >>> import tempfile, pathlib, asot
    >>> from asot.view import write_page
    >>> D, labels, _ = asot.datasets.load_digits(20)
    >>> page = pathlib.Path(tempfile.mkdtemp()) / "digits.html"
    >>> write_page(page, asot.pairwise_exact(D), D, labels=labels, noise=asot.noise_floor(D))
    >>> "<title>" in page.read_text()
    True
    """
    data = page_data(r, D, labels=labels, kinds=kinds, noise=noise, all_points=all_points, title=title)
    with atomic_write(path) as stream:
        stream.write(render(data).encode())
    return data["left_out"]


def page_data(
    r: Distances, D: Distributions | None, *, labels: ArrayLike | None, title: str | None,
    kinds: ArrayLike | None = None, noise: Any = None, all_points: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """What the page knows, as plain JSON."""
    from asot.plots import as_groups

    matrix = as_square(r)
    n = len(matrix)
    if n > MOST:
        raise ValueError(f"a page shows at most {MOST:,} distributions; found {n:,}. Show fewer: r of D[:{MOST}]")
    ids = ids_of(r, n)
    if D is not None:
        if len(D) != n:
            raise ValueError(f"the distances are between {n:,} distributions, but the collection has {len(D):,}")
        check_same_ids(ids, D.ids, "the distances are of another collection than the one given")
        ids = D.ids
    groups = as_groups(labels, ids)
    above = np.triu_indices(n, 1)
    info, said = getattr(r, "info", {}), ("solver", "metric", "estimate", "device")
    largest = matrix.max(initial=0.0)
    data: dict[str, Any] = {
        "title": title or f"{n:,} distributions",
        "names": [str(one) for one in ids],
        "groups": None if groups is None else [str(one) for one in groups],
        "largest": float(largest),
        "distances": _shares(matrix[above], largest),
        "order": leaf_order(matrix).tolist(),
        "places": np.round(embed(matrix, "auto" if n <= MOST_ON_A_MAP_OF_NEIGHBORS else "mds"), 5).tolist(),
        "about": [repr(r), *(f"{name}: {info[name]}" for name in said if info.get(name))],
        "smallest": float(matrix[above].min()) if n > 1 else 0.0,
        "left_out": None,
    }
    for name in ("lower", "upper", "error"):
        values = getattr(r, name, None)
        if values is not None and len(values) == len(above[0]):
            data[name] = _shares(values, largest)
    if noise is not None:
        data["noise"] = _shares(noise_matrix(noise, n, ids)[above], largest)
    if D is not None and (all_points or D.points.size <= MOST_NUMBERS):
        data["points"] = _collection(D, kinds)
    elif D is not None:
        data["left_out"] = (
            f"the points of the collection are left out: they are {D.points.size:,} numbers, more than "
            f"{MOST_NUMBERS:,}; --all-points (all_points=True) keeps them, for a page of about "
            f"{D.points.size * 16 / 3e6:.0f} MB"
        )
    elif kinds is not None:
        raise ValueError("kinds of points need the collection they are points of; give D as well")
    return data


def render(data: dict[str, Any]) -> str:
    """The page's text."""
    template = (resources.files(__package__) / "page.html").read_text(encoding="utf-8")
    payload = json.dumps(data, allow_nan=False).replace("<", "\\u003c")  # a name must not end the script
    filled = {"__TITLE__": html.escape(data["title"]), "__DATA__": payload}
    return re.sub("|".join(filled), lambda found: filled[found[0]], template)  # a title may hold one of the words, too


def _shares(values: NDArray[np.float64], largest: float) -> str:
    """Numbers in [0, largest] as 16-bit shares, base64."""
    unit = np.clip(values / largest, 0.0, 1.0) if largest > 0 else np.zeros(len(values))
    return _packed(np.rint(unit * 65535), "<u2")


def _packed(values: NDArray[Any], dtype: str) -> str:
    return base64.b64encode(values.astype(dtype).tobytes()).decode()


def _collection(D: Distributions, kinds: ArrayLike | None) -> dict[str, Any]:
    """Points as float32, and the two main axes of all of them for the picture."""
    points = np.asarray(D.points, dtype=np.float64)
    center = points.mean(axis=0)
    scale = float(np.abs(points - center).max()) or 1.0
    unit = (points - center) / scale
    axes = np.eye(2, D.dim) if D.dim <= 2 else np.linalg.eigh(unit.T @ unit)[1][:, [-1, -2]].T
    names, own = None, None
    if kinds is not None:
        given = np.asarray(kinds)
        if given.shape != (len(points),):
            raise ValueError(f"kinds must have one entry for each of {len(points):,} points; found {given.shape}")
        found, code = np.unique(given.astype(str), return_inverse=True)
        names, own = found.tolist(), _packed(code, "<u2")
    about = {"kinds": names, "kind": own, "dim": D.dim, "scale": scale, "offsets": D.offsets.tolist()}
    lists = {"coordinates": _packed(unit, "<f4"), "masses": _packed(D.masses, "<f4")}
    return {**about, **lists, "axes": np.round(axes, 6).tolist()}
