"""All distances between the distinct points of a collection, if that is cheaper than computing them pair by pair.

Words of documents and features in hundreds of dimensions occur in many pairs, and one matrix product computes ‖x‖² +
‖y‖² - 2⟨x, y⟩ three times faster than differences of coordinates are summed. What the formula loses to cancellation is
repaired: wherever less than a twentieth of ‖x‖² + ‖y‖² is left, the distance is summed from its coordinates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asot.ground.metrics import Ground
from asot.native import Doubles, Int, Record, entry
from asot.run.executors import one_thread_per_product

LONG = 64
"""From this many coordinates on, a product pays off."""

LARGEST = 4000
"""Points up to which there is a table: 128 MB, whatever ``memory`` says, because no bit may depend on that."""

BLOCK = 256
"""Rows and columns of one product. Fixed, so that no bit depends on memory or threads."""


class ProductBlock(Record):
    """Products of points that become distances (``native/exact/distance_table.cpp``)."""

    _fields_ = [  # noqa: RUF012
        ("rows", Int), ("columns", Int), ("d", Int), ("x", Doubles), ("y", Doubles), ("x_squares", Doubles),
        ("y_squares", Doubles), ("products", Doubles),
    ]  # fmt: skip


_finish = entry("finish_distances", ProductBlock)


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
                _finish(
                    ProductBlock(
                        rows=len(products), columns=products.shape[1], d=x.shape[1], x=x[rows], y=x[columns],
                        x_squares=squares[rows], y_squares=squares[columns], products=products,
                    )
                )  # fmt: skip
                table[rows, columns] = products
                table[columns, rows] = products.T
    np.fill_diagonal(table, 0.0)
    return table
