"""Checks everything that people pass in, once, on entry.

Everything behind these functions may assume finite float arrays of the right shape. Each error says what was found,
where, and what to do about it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.floating[Any]]


def to_array(values: Any, name: str) -> NDArray[Any]:
    """A NumPy array from numbers, lists, tensors, data frames and Arrow columns; no copy where possible."""
    if hasattr(values, "detach"):  # a torch tensor
        if values.requires_grad:
            raise ValueError(
                f"{name} requires gradients, and this call has none; use asot.gradients, or pass {name}.detach()"
            )
        values = values.cpu()
    elif hasattr(values, "__cuda_array_interface__") and hasattr(values, "get"):  # a CuPy array
        values = values.get()
    refuse_what_is_no_array(values, name)
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} cannot be read as an array: {error}") from error


def refuse_what_is_no_array(values: Any, name: str) -> None:
    """Refuse at once what NumPy would read element by element, treat as one object, or strip of its mask."""
    if hasattr(values, "__array__") or hasattr(values, "__array_interface__"):
        _refuse_masked(values, name)
        return
    if isinstance(values, (list, tuple)):
        for entry in values:
            _refuse_masked(entry, name)
        return
    kind = f"{type(values).__module__.split('.')[0]}.{type(values).__name__}".removeprefix("builtins.")
    if hasattr(values, "toarray"):
        raise ValueError(
            f"{name} is a sparse matrix ({kind}), but points are dense: pass {name}.toarray(), or, if its rows are "
            "weights over a vocabulary, use Distributions.from_weights"
        )
    if kind == "anndata.AnnData":
        raise ValueError(f"{name} is an AnnData; use Distributions.from_anndata(adata, groupby), with an obs column")
    if isinstance(values, (str, Number, Sequence)) or _is_taken_by(memoryview, values):
        return
    raise ValueError(f"{name} cannot be read as an array: it is a {kind}; pass an array or a list")


def _is_taken_by(function: Callable[[Any], Any], values: Any) -> bool:
    try:
        function(values)
    except TypeError:
        return False
    return True


def can_be_walked(values: Any) -> bool:
    """Whether a value is something with entries."""
    return _is_taken_by(iter, values)


def _refuse_masked(values: Any, name: str) -> None:
    if "numpy.ma" not in sys.modules:  # nothing is masked then, and importing it takes a while
        return
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        raise ValueError(
            f"{name} has {count:,} masked {'entry' if count == 1 else 'entries'}; drop those rows, or fill them with "
            "numbers: .filled(...)"
        )


def to_float_array(values: Any, name: str, *, keep_float32: bool = False) -> FloatArray:
    """Like `to_array`, as float64, or as float32 if the input has no more precision and that is allowed."""
    array = to_array(values, name)
    if array.dtype in (np.float32, np.float16) and keep_float32:
        return np.ascontiguousarray(array, dtype=np.float32)
    if array.dtype.kind not in "fiubO":
        raise ValueError(f"{name} must hold numbers, not {array.dtype}")
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from error


def first_false(ok: NDArray[np.bool_]) -> tuple[int, ...]:
    """Index of the first False entry of ``ok``."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmin(ok)), ok.shape))


def not_finite(array: NDArray[Any]) -> tuple[int, ...] | None:
    """Index of the first entry that is no finite number, if there is one."""
    if array.size == 0 or (np.isfinite(array.min()) and np.isfinite(array.max())):  # both are NaN if any entry is
        return None
    return first_false(np.isfinite(array))


def as_histograms(values: Any, name: str, n_anchors: int, *, scaled: bool = True) -> NDArray[np.float64]:
    """Histograms (N, k), as float64 rows that sum to 1. Rows with another positive total are scaled, if ``scaled``."""
    if hasattr(values, "toarray"):  # scipy.sparse
        values = values.toarray()
    histograms = to_float_array(values, name)
    if histograms.ndim != 2:
        raise ValueError(f"{name} must be (N, k): one histogram per row; found shape {histograms.shape}")
    if len(histograms) == 0:
        raise ValueError(f"{name} is empty: it holds no histogram")
    if histograms.shape[1] != n_anchors:
        raise ValueError(
            f"{name} has histograms on {histograms.shape[1]} anchors, but the cost has {n_anchors}; "
            "histograms and cost must be on the same anchors"
        )
    if odd := not_finite(histograms):
        raise ValueError(f"histogram {odd[0]} of {name} is {histograms[odd]} at anchor {odd[1]}; masses must be finite")
    if histograms.min() < 0:
        i, u = first_false(histograms >= 0)
        raise ValueError(f"histogram {i} of {name} has a negative mass ({histograms[i, u]:g} at anchor {u})")
    with np.errstate(over="ignore"):
        total = histograms.sum(axis=1, keepdims=True)
    if not 1e-200 < total.min() <= total.max() < 1e200:
        peak = histograms.max(axis=1, keepdims=True)
        if not peak.all():
            raise ValueError(f"histogram {int(np.argmin(peak))} of {name} has zero total mass; drop it or give it mass")
        if not scaled:
            raise ValueError(f"histograms of {name} have totals from {total.min():g} to {total.max():g}; scale them")
        histograms = histograms / peak  # so that the total neither overflows nor underflows
        total = histograms.sum(axis=1, keepdims=True)
    return np.asarray(histograms / total if scaled else histograms, dtype=np.float64)


Anchors = tuple[NDArray[np.int64], NDArray[np.int64]]


def cost_matrix(cost: Any) -> NDArray[np.float64]:
    """A cost as a matrix (k, l) of numbers, whatever they are."""
    array = np.asarray(to_float_array(cost, "cost"), dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"cost must be a matrix (k, l); found shape {array.shape}")
    return array


def as_cost(cost: Any, *, square: bool, only: Anchors | None = None) -> NDArray[np.float64]:
    """A cost (k, l): finite and ≥ 0. ``square``: also symmetric with a zero diagonal, as within one set.

    ``only``: rows and columns that matter. What is between others is neither looked at nor returned.
    """
    array = cost_matrix(cost)
    names = (np.arange(array.shape[0]), np.arange(array.shape[1])) if only is None else only
    if only is not None:
        array = array[np.ix_(*only)]
    if odd := not_finite(array):
        raise ValueError(f"cost[{names[0][odd[0]]}, {names[1][odd[1]]}] is {array[odd]}; costs must be finite")
    if array.min() < 0:
        i, j = first_false(array >= 0)
        raise ValueError(f"cost[{names[0][i]}, {names[1][j]}] is negative ({array[i, j]:g}); costs must be ≥ 0")
    return _as_distances(array, names[0]) if square else array


ROWS_AT_A_TIME = 256
"""Rows of a cost that are compared with its columns in one step."""


def is_symmetric(cost: NDArray[np.float64]) -> bool:
    """Whether a square matrix equals its transpose, bit for bit; compared in squares that fit into the cache."""
    return all(
        np.array_equal(cost[i : i + ROWS_AT_A_TIME, j : j + ROWS_AT_A_TIME],
                       cost[j : j + ROWS_AT_A_TIME, i : i + ROWS_AT_A_TIME].T)
        for i in range(0, len(cost), ROWS_AT_A_TIME)
        for j in range(0, i + 1, ROWS_AT_A_TIME)
    )  # fmt: skip


def _as_distances(cost: NDArray[np.float64], names: NDArray[np.int64]) -> NDArray[np.float64]:
    if cost.shape[0] != cost.shape[1]:
        raise ValueError(
            f"cost has shape {cost.shape}; distances within one set need a square one (pass B for a second set)"
        )
    if not np.diagonal(cost).any() and is_symmetric(cost):
        return cost
    slack = 1e-9 * cost.max()  # rounding of whoever computed it
    for low in range(0, len(cost), ROWS_AT_A_TIME):  # in short steps, between which Ctrl-C is heard
        some = slice(low, low + ROWS_AT_A_TIME)
        difference = np.abs(cost[some] - cost[:, some].T)
        if difference.max() > slack:
            i, j = first_false(difference <= slack)
            i += low
            raise ValueError(
                f"cost is not symmetric: cost[{names[i]}, {names[j]}] = {cost[i, j]:g} but "
                f"cost[{names[j]}, {names[i]}] = {cost[j, i]:g}; "
                "distances within one set need a symmetric cost (pass B=A to solve both directions)"
            )
    diagonal = np.diagonal(cost) <= slack
    if not diagonal.all():
        (i,) = first_false(diagonal)
        raise ValueError(
            f"cost[{names[i]}, {names[i]}] = {cost[i, i]:g}; distances within one set need a zero diagonal "
            "(pass B=A for a general cost)"
        )
    cost = 0.5 * cost + 0.5 * cost.T
    np.fill_diagonal(cost, 0.0)
    return cost


def as_pairs(pairs: ArrayLike, n_rows: int, n_columns: int) -> NDArray[np.int64]:
    """A list of pairs (P, 2) of indices into the two sets."""
    array = to_array(pairs, "pairs")
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"pairs must be an integer array (P, 2); found shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise ValueError(f"pairs must hold integers, not {array.dtype}")
    array = np.array(array, dtype=np.int64, order="C")  # a copy: results keep it
    array.flags.writeable = False
    inside = (array >= 0) & (array < np.array([n_rows, n_columns]))
    if not inside.all():
        t, side = first_false(inside)
        limit = (n_rows, n_columns)[side]
        raise ValueError(
            f"pair {t} is ({array[t, 0]}, {array[t, 1]}), but its {('first', 'second')[side]} index must be "
            f"between 0 and {limit - 1}"
        )
    return array


def as_index(value: Any, name: str, size: int) -> int:
    """An index into a collection; negative ones count from its end."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name} must be the index of a distribution; found {value!r}")
    if not -size <= int(value) < size:
        raise IndexError(f"{name} is {int(value)}, but the collection has {size} distributions")
    return int(value) % size


def as_positive_int(value: Any, name: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise ValueError(f"{name} must be a whole number ≥ 1; found {value!r}")
    return int(value)


def is_number(value: Any) -> bool:
    """Whether a value is a real number, of Python or of NumPy, and no integer that a float cannot hold."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 2**1023
    return isinstance(value, (float, np.number)) and not isinstance(value, np.complexfloating)


def as_number(value: Any, fits: Callable[[Any], object], rule: str) -> float:
    """A number that ``fits``, or an error that says which one does."""
    if not is_number(value) or not fits(value):
        raise ValueError(f"{rule}; found {value!r}")
    return float(value)


def as_radius(value: Any) -> float:
    return as_number(value, lambda radius: 0 <= radius <= sys.float_info.max, "radius must be a finite number ≥ 0")


def as_reg(reg: Any, cost: NDArray[np.float64]) -> float:
    """ε from a number > 0, or "auto": 5 percent of the median positive cost."""
    if isinstance(reg, str) and reg == "auto":
        positive = cost[cost > 0]
        return 0.05 * float(np.median(positive)) if positive.size else 1.0
    reg = as_number(reg, lambda reg: 0 < reg < np.inf, "reg must be a number > 0 or 'auto'")
    if reg < 1e-8 * cost.max():
        raise ValueError(
            f"reg = {reg:g} is less than 1e-8 of the largest cost ({cost.max():g}): float64 cannot resolve it; "
            "use emd_many (reg=None) for the exact limit"
        )
    return reg


def as_tol(tol: Any) -> float | None:
    return (
        None if tol is None else as_number(tol, lambda tol: 0 < tol < 1, "tol must be None or a number between 0 and 1")
    )


def as_n_jobs(n_jobs: int | None) -> int:
    """Number of threads, with joblib's meaning: None is 1 unless a joblib context says otherwise, -1 every core."""
    if type(n_jobs) is int and n_jobs > 0:
        return n_jobs
    if n_jobs is not None and (isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or int(n_jobs) == 0):
        raise ValueError(f"n_jobs must be None, a positive number of threads, or -1 for all cores; found {n_jobs!r}")
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    if n_jobs is None and "joblib" not in sys.modules:  # whose import takes as long as all of asot's
        return 1
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def as_bytes(memory: int | str | None, default: int) -> int:
    """A memory budget from a number of bytes or a string such as ``"2G"`` or ``"500 MB"``."""
    if memory is None:
        return default
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([KMGT]?)(?:i?B)?\s*", memory, flags=re.IGNORECASE)
        if match is None:
            raise ValueError(f"memory must be a number of bytes or a string such as '2G' or '500MB'; found {memory!r}")
        amount = float(match[1]) * _UNITS[match[2].upper()]
    else:
        amount = as_number(memory, lambda _: True, "memory must be a number of bytes or a string such as '2G'")
    if not amount >= 1 or amount == float("inf"):
        raise ValueError(f"memory must be a positive amount; found {memory!r}")
    return int(amount)


def as_seed(random_state: Any) -> int:
    """One number from anything that scikit-learn accepts as a seed; 0 for None, so that nothing depends on chance."""
    if random_state is None:
        return 0
    if hasattr(random_state, "__index__"):
        return int(random_state)
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))


def check_sink(sink: Any) -> None:
    """Refuse what is no sink: a name, a path, or a class of sinks instead of one of them."""
    if isinstance(sink, type):
        raise TypeError(f"sink= takes a sink, not a class of them; found {sink.__name__} without its parentheses")
    if sink is not None and not all(callable(getattr(sink, name, None)) for name in ("open", "accept", "close")):
        raise TypeError(
            "sink must be one of asot.sinks, such as asot.sinks.Store(path), or an object with open, accept and close; "
            f"found {sink!r}"
        )


def as_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; found {value!r}")
    return str(value)


def physical_memory() -> int | None:
    """Bytes of memory of this machine, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def refuse_what_cannot_fit(n_bytes: int, what: str, advice: str) -> None:
    """A clear error in place of a machine that swaps or kills the process."""
    available = physical_memory()
    if available is not None and n_bytes > available:
        raise MemoryError(
            f"{what} needs {n_bytes / 1e9:,.0f} GB and this machine has {available / 1e9:,.0f} GB; {advice}"
        )
