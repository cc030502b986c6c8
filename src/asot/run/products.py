"""Matrix products by one thread: the package runs tiles side by side, never threads inside a product."""

from __future__ import annotations

import functools
from typing import Any

from threadpoolctl import ThreadpoolController


@functools.cache
def _matrix_products() -> ThreadpoolController:
    """The thread pools behind NumPy's products; finding them takes longer than many calls."""
    return ThreadpoolController()


def one_thread_per_product() -> Any:
    """A context in which threads work on different tiles, not inside a matrix product."""
    return _matrix_products().limit(limits=1, user_api="blas")
