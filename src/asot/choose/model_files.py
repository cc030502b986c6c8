"""Models in files: a header and arrays, beside the distances that were made with them. Nothing of it is executed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Header
from asot.anchors.files import space_of, space_parts
from asot.bounds.error_bars import BOUNDS_BY_LEVEL
from asot.choose.model import Model
from asot.data.files import collection_arrays, collection_of
from asot.data.npz import PathLike, naming
from asot.estimate.calibration import KnownFit, Report
from asot.estimate.known_spaces import KnownSpaces
from asot.request import Distance, Share, as_max_error, as_order
from asot.results.model import ModelParts

Arrays = Mapping[str, NDArray[Any]]

VERSION = 1
MOST_SPACES = 16


# ------------------------------------------------------------------------------------------------------------- writing


def model_parts(model: Model, collection: bool) -> ModelParts | None:
    """A model as a file holds it; None where its metric is a function, or its parameters are no numbers."""
    distance = model.distance
    parameters = {key: np.asarray(value) for key, value in (distance.metric_params or {}).items()}
    if not isinstance(distance.metric, str) or any(value.dtype.kind not in "fiubU" for value in parameters.values()):
        return None
    arrays = {f"parameter_{key}": value for key, value in parameters.items()}
    unmatched = distance.unmatched
    if isinstance(unmatched, np.ndarray):
        return None  # prices of old points alone
    header: Header = {
        "version": VERSION,
        "p": distance.p,
        "metric": distance.metric,
        "parameters": sorted(parameters),
        "unmatched": None if isinstance(unmatched, Share) else unmatched,
        "share": unmatched.amount if isinstance(unmatched, Share) else None,
        "level": model.level,
        "max_error": None if model.max_error is None else str(model.max_error),
        "strategy": model.strategy,
        "dim": model.dim,
        "between_two": model.E is not None,
        "spaces": None,
    }
    if collection:
        for name, own in (("rows", model.D), ("columns", model.E)):
            arrays |= {} if own is None else {f"{name}_{key}": value for key, value in collection_arrays(own).items()}
    if model.known is not None:
        more, parts = _known_parts(model.known)
        header, arrays = header | more, arrays | parts
    return ModelParts(header, arrays)


def _known_parts(known: KnownSpaces) -> tuple[Header, dict[str, NDArray[Any]]]:
    fit = known.fit
    arrays = {"coefficients": fit.coefficients, "error_weights": fit.error_weights, "solved": fit.solved}
    arrays |= {"exact": fit.exact} | ({} if known.axes is None else {"axes": known.axes})
    headers = []
    for number, space in enumerate(known.spaces):
        own, parts = space_parts(space)
        headers.append(own)
        arrays |= {f"space{number}_{key}": value for key, value in parts.items()}
    header = {
        "spaces": headers,
        "learned": known.learned,
        "with_bounds": known.with_bounds,
        "bounds": known.level,
        "plan": known.plan,
        "exponent": fit.exponent,
        "report": fit.report.as_dict(),
    }
    return header, arrays


# ------------------------------------------------------------------------------------------------------------- reading


def read_model(parts: ModelParts, names: tuple[Any, Any], path: PathLike) -> Model:
    """The model in a file, with the ids of its rows and columns; what asot did not write is refused."""
    header, arrays = parts
    if header.get("version") != VERSION:
        raise ValueError(f"{path}: the model has version {header.get('version')!r}, unknown here; upgrade asot")
    with naming(path):
        try:
            distance = _distance(header, arrays)
            rows, columns = _collection(arrays, "rows", names[0]), _collection(arrays, "columns", names[1])
            known = None if header.get("spaces") is None else _known(header, arrays, path)
            model = Model(
                rows, columns, distance, _level(header.get("level")), as_max_error(header.get("max_error")), known,
                header.get("strategy"), int(header["dim"]),
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"the model cannot be understood ({error}); the file is damaged") from error
        if model.strategy is not None and not isinstance(model.strategy, dict):
            raise ValueError("the strategy of the model is no record; the file is damaged")
        if rows is not None and header.get("between_two") is not (columns is not None):
            raise ValueError("a collection of the model is missing; the file is damaged")
        parts_of = (*model.spaces, *(own for own in (rows, columns) if own is not None))
        dims = {int(header["dim"]), *(part.dim for part in parts_of)}
        if len(dims) != 1:
            raise ValueError(f"the parts of the model are in {sorted(dims)} dimensions; the file is damaged")
        return model


def _distance(header: Header, arrays: Arrays) -> Distance:
    parameters = {str(key): arrays[f"parameter_{key}"] for key in header["parameters"]}
    parameters = {key: value.item() if value.ndim == 0 else value for key, value in parameters.items()}
    unmatched = header["unmatched"]
    if unmatched is not None and unmatched != "diagonal":
        unmatched = float(unmatched)
    if header["share"] is not None:
        unmatched = Share(float(header["share"]))
    return Distance(as_order(header["p"]), str(header["metric"]), parameters or None, unmatched)


def _collection(arrays: Arrays, side: str, ids: Any) -> Any:
    own = {key.removeprefix(f"{side}_"): value for key, value in arrays.items() if key.startswith(f"{side}_")}
    counting = ids is None or (ids.dtype.kind in "iu" and np.array_equal(ids, np.arange(len(ids))))
    return None if not own else collection_of(own if counting else {**own, "ids": ids})


def _known(header: Header, arrays: Arrays, path: PathLike) -> KnownSpaces:
    headers = header["spaces"]
    if not isinstance(headers, list) or not 1 <= len(headers) <= MOST_SPACES:
        raise ValueError("the model does not say what spaces it has; the file is damaged")
    spaces = []
    for number, own in enumerate(headers):
        start = f"space{number}_"
        parts = {key.removeprefix(start): value for key, value in arrays.items() if key.startswith(start)}
        spaces.append(space_of(own, parts, path))
    numbers = {name: _numbers(arrays[name], name) for name in ("coefficients", "error_weights", "exact")}
    solved, exponent = arrays["solved"], header["exponent"]
    if solved.dtype != np.int64 or solved.shape != numbers["exact"].shape or (np.diff(solved) <= 0).any():
        raise ValueError("the array 'solved' of the model does not list pairs; the file is damaged")
    if not len(solved) or type(exponent) is not int or abs(exponent) > 4096 or len(numbers["error_weights"]) != 4:
        raise ValueError("the fit of the model cannot be understood; the file is damaged")
    fit = KnownFit(
        numbers["coefficients"], numbers["error_weights"], solved, numbers["exact"], exponent,
        Report.read(header["report"]),
    )  # fmt: skip
    axes = arrays.get("axes")
    if axes is not None and (axes.dtype != np.float64 or axes.ndim != 2 or axes.shape[0] != spaces[0].dim):
        raise ValueError("the array 'axes' of the model does not fit its anchors; the file is damaged")
    learned, with_bounds = header["learned"] is True, header["with_bounds"] is True
    return KnownSpaces(tuple(spaces), learned, with_bounds, _level(header["bounds"]), axes, fit, header.get("plan"))


def _numbers(array: NDArray[Any], name: str) -> Float:
    if array.dtype != np.float64 or array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(f"the array {name!r} of the model must hold finite numbers; the file is damaged")
    return array


def _level(level: Any) -> str | None:
    if level is not None and level not in ("auto", *BOUNDS_BY_LEVEL):
        raise ValueError(f"the model has unknown bounds {level!r}; the file is damaged")
    return None if level is None else str(level)
