"""All distances between the distinct points of a collection, if that is cheaper than computing them pair by pair.

Words of documents and features in hundreds of dimensions occur in many pairs, and one matrix product computes ‖x‖² +
‖y‖² - 2⟨x, y⟩ three times faster than differences of coordinates are summed. What the formula loses to cancellation is
repaired: wherever less than a twentieth of ‖x‖² + ‖y‖² is left, the distance is summed from its coordinates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.jit.compiled import compiled
from asot.jit.metrics import EUCLIDEAN, Ground
from asot.jit.products import one_thread_per_product

LONG = 64
"""From this many coordinates on, a product pays off."""

LARGEST = 4000
"""Points up to which there is a table: 128 MB, whatever ``memory`` says, because no bit may depend on that."""

BLOCK = 256
"""Rows and columns of one product. Fixed, so that no bit depends on memory or threads."""

LEFT = 0.05
"""Share of ‖x‖² + ‖y‖² below which a squared distance has lost digits; above it, all but one or two are right."""


def table_pays(ground: Ground, n_distances: float) -> bool:
    """Whether ``n_distances`` distances, repeats counted, are worth a table of all of them."""
    n, d = ground.points.shape
    return n <= LARGEST and ground.code == EUCLIDEAN and d >= LONG and n * n <= 3.0 * n_distances


def distance_table(ground: Ground) -> NDArray[np.float64]:
    """(V, V) distances of the points of a Euclidean ground metric, in its units."""
    x = ground.points - ground.points.mean(axis=0)
    squares = np.einsum("ij,ij->i", x, x)
    n = len(x)
    table = np.empty((n, n))
    with one_thread_per_product():
        for i in range(0, n, BLOCK):
            for j in range(0, i + 1, BLOCK):
                rows, columns = slice(i, i + BLOCK), slice(j, j + BLOCK)
                products = x[rows] @ x[columns].T
                _finish(products, x[rows], x[columns], squares[rows], squares[columns])
                table[rows, columns] = products
                table[columns, rows] = products.T
    np.fill_diagonal(table, 0.0)
    return table


@compiled
def _finish(products, x, y, x_squares, y_squares):  # type: ignore[no-untyped-def]
    """Products to distances, in place."""
    for i in range(len(x)):
        row = products[i]
        for j in range(len(y)):
            both = x_squares[i] + y_squares[j]
            row[j] = both - 2.0 * row[j]
        for j in range(len(y)):
            if row[j] < LEFT * (x_squares[i] + y_squares[j]):
                total = 0.0
                for c in range(x.shape[1]):
                    gap = x[i, c] - y[j, c]
                    total += gap * gap
                row[j] = total
        for j in range(len(y)):
            row[j] = np.sqrt(row[j])
