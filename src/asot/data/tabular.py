"""Collections from tables: one row per point, with a column that names the distribution.

``id`` (or the first column) names the distribution, ``mass`` is optional, every other column is a coordinate. Rows with
the same id need not be adjacent. Each error names the file, and the line or the column.
"""

from __future__ import annotations

import array
import contextlib
import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asot._typing import Float, Indices
from asot.data.distributions import Distributions
from asot.data.expansion import check_expansion
from asot.data.flatten import group_points
from asot.data.npz import PathLike, atomic_write, naming, plain_ids, reading
from asot.data.reading import factorized, text_array
from asot.lazy import needed


def load_csv(path: PathLike) -> Distributions:
    with csv_rows(path) as rows:
        names = [name.strip() for name in next(rows, [])]
        id_column, _ = _csv_columns(names, path)
        found = read_columns(rows, names, [id_column], path)
    points, masses = split_off_mass(found.numbers, names[:id_column] + names[id_column + 1 :], path)
    with naming(path):
        return _grouped(points, found.texts, found.places[:, 0], masses)


class CsvColumns(NamedTuple):
    """The columns of a table: some hold text, all others numbers."""

    texts: list[str]  # every text once, no matter how long or how frequent it is
    places: Indices  # (n, columns of text)
    numbers: Float  # (n, columns of numbers)


def read_columns(
    rows: Any, names: Sequence[str], of_text: Sequence[int], path: PathLike, strips: bool = True
) -> CsvColumns:
    """The lines of `csv_rows` below the names of the columns; empty ones are left out.

    ``strips``: texts are taken without the spaces around them, and may not be empty.
    """
    of_numbers = [c for c in range(len(names)) if c not in of_text]
    place: dict[str, int] = {}
    places, numbers = array.array("q"), array.array("d")
    for row in filter(None, rows):
        try:
            if len(row) != len(names):
                raise ValueError(f"found {len(row)} cells for the {len(names)} columns {', '.join(names)}")
            for c in of_text:
                text = _filled(row[c], names[c]) if strips else row[c]
                places.append(place.setdefault(unguarded(text), len(place)))
            numbers.extend([_number(row[c], names[c]) for c in of_numbers])
        except ValueError as error:
            raise ValueError(f"{path}, line {rows.line_num}: {error}") from error
    return CsvColumns(
        list(place),
        np.frombuffer(places, dtype=np.int64).reshape(-1, max(1, len(of_text))),
        np.frombuffer(numbers, dtype=np.float64).reshape(-1, max(1, len(of_numbers))),
    )


def split_off_mass(numbers: Float, names: list[str], path: PathLike) -> tuple[Float, Float | None]:
    """Points (n, d) from all columns of a table but ``mass``, and masses (n,) from that one."""
    if len(numbers) == 0:
        raise ValueError(f"{path} is empty: there is no line below the column names")
    if "mass" not in names:
        return numbers, None
    mass = names.index("mass")
    return np.delete(numbers, mass, axis=1), numbers[:, mass]


def _grouped(points: NDArray[Any], names: list[Any], group: Indices, masses: NDArray[Any] | None) -> Distributions:
    """A collection from points (n, d), ids, and the index of every point's among them; in order of ids."""
    labels = text_array(names) if all(type(name) is str for name in names) else np.asarray(names)
    order, rank = factorized(labels, len(names))
    return Distributions._taken(*group_points(points, order, rank[group], masses))


_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def guarded(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe in front.

    Numbers stay numbers. `unguarded` takes the apostrophe away again.

    >>> guarded("=1+1"), guarded("-5"), guarded("p01"), guarded(-5.0)
    ("'=1+1", '-5', 'p01', -5.0)
    """
    if isinstance(cell, str) and _FORMULA.match(cell) and not is_number(cell):
        return f"'{cell}"
    return cell


def unguarded(cell: str) -> str:
    """What `guarded` was given."""
    return cell[1:] if cell[:1] == "'" and guarded(cell[1:]) == cell else cell


@contextlib.contextmanager
def csv_writer(path: PathLike) -> Iterator[Any]:
    """Writes rows to a table, which replaces the file at ``path`` once it is complete."""
    with atomic_write(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        yield csv.writer(text, lineterminator="\n")
        text.detach()


def save_csv(D: Distributions, path: PathLike) -> None:
    """One line per point under the columns id, x0, x1, … and mass."""
    columns = _table_columns(D, path)
    with csv_writer(path) as writer:
        writer.writerow(columns)
        columns["id"] = np.repeat(np.array([guarded(entry) for entry in plain_ids(D.ids).tolist()]), D.sizes)
        for start in range(0, len(D.masses), 2**14):
            writer.writerows(zip(*(part[start : start + 2**14].tolist() for part in columns.values()), strict=True))


def save_parquet(D: Distributions, path: PathLike) -> None:
    """The same columns; ids keep their type, and float32 stays."""
    pyarrow = need_pyarrow(f"writing {path}")
    table = pyarrow.table(_table_columns(D, path))
    with atomic_write(path) as stream:
        pyarrow.parquet.write_table(table, stream)


def _table_columns(D: Distributions, path: PathLike) -> dict[str, NDArray[Any]]:
    ids = plain_ids(D.ids)
    if len(np.unique(ids)) < len(ids):
        raise ValueError(
            f"cannot write {path}: several distributions have the same id, but a table needs unique ids; use .npz"
        )
    if not D.totals.all():
        empty = D.label(int(np.argmin(D.totals)))
        raise ValueError(f"cannot write {path}: {empty} is an empty diagram, of which a table has no line; use .npz")
    columns = {"id": np.repeat(ids, D.sizes), **{f"x{c}": D.points[:, c] for c in range(D.dim)}}
    is_uniform = np.array_equal(D.masses, np.repeat(1.0 / D.sizes, D.sizes)) and (D.totals == 1.0).all()
    if not is_uniform:
        with np.errstate(over="ignore"):
            masses = D.masses * np.repeat(D.totals, D.sizes)
        columns["mass"] = masses if np.isfinite(masses).all() else D.masses  # totals beyond float64
    return columns


@contextlib.contextmanager
def csv_rows(path: PathLike) -> Iterator[Any]:
    """The rows of a CSV file, as `csv.reader` gives them; its errors while they are read are made readable."""
    with reading(path) as stream:
        if b"\0" in stream.read(4096):
            raise ValueError(f"{path} is not a text file, whatever its name says")
        stream.seek(0)
        rows = csv.reader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""))
        try:
            yield rows
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not a text file in UTF-8, whatever its name says") from error
        except csv.Error as error:
            raise ValueError(f"{path}, line {rows.line_num}: not CSV: {error}") from error


def _csv_columns(names: list[str], path: PathLike) -> tuple[int, int | None]:
    """Which column holds the ids, and which the masses."""
    if not any(names):
        raise ValueError(f"{path} is empty: its first line must name the columns, such as id,x,y,mass")
    if all(is_number(name) for name in names):
        raise ValueError(f"{path}, line 1: found numbers; the first line must name the columns, such as id,x,y,mass")
    if len(names) == 1:
        raise ValueError(f"{path}, line 1: found a single column, {names[0]!r}; cells must be separated by commas")
    return _pick_columns(names, path)


def _pick_columns(names: Sequence[str], path: PathLike) -> tuple[int, int | None]:
    for name in ("id", "mass"):
        if names.count(name) > 1:
            raise ValueError(f"{path} has {names.count(name)} columns called {name!r}; it must have one")
    id_column = names.index("id") if "id" in names else 0
    mass_column = names.index("mass") if "mass" in names else None
    if mass_column == id_column:
        raise ValueError(f"{path} has no column of ids: its first column, {names[0]!r}, holds masses")
    if len(names) - 1 - (mass_column is not None) == 0:
        raise ValueError(f"{path} has no coordinates: its columns are {', '.join(names)}")
    return id_column, mass_column


def is_number(text: str) -> bool:
    """Whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _filled(cell: str, column: str) -> str:
    cell = cell.strip()
    if not cell:
        raise ValueError(f"the cell in column {column!r} is empty")
    return cell


def _number(cell: str, column: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        raise ValueError(f"{_filled(cell, column)!r} in column {column!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{cell!r} in column {column!r} is not finite; drop or impute it")
    return number


def load_parquet(path: PathLike) -> Distributions:
    pyarrow = need_pyarrow(f"reading {path}")
    with reading(path) as stream:
        try:
            schema = pyarrow.parquet.read_schema(stream)
            names = [name for name in schema.names if not re.fullmatch(r"__index_level_\d+__", name)]
            if not names:
                raise ValueError(f"{path} has no columns")
            id_column, mass_column = _pick_columns(names, path)
            _check_parquet_types(schema, names, names[id_column], path)
            stream.seek(0)
            file = pyarrow.parquet.ParquetFile(stream, read_dictionary=[names[id_column]])
            if file.metadata.num_rows == 0:
                raise ValueError(f"{path} is empty: it has no rows")
            # With runs and dictionaries, rows take almost no bytes; as numbers they take eight bytes per cell, and are
            # copied.
            declared = sum(file.metadata.row_group(g).total_byte_size for g in range(file.metadata.num_row_groups))
            check_expansion(file.metadata.num_rows * (24 * len(names) + 64) + 2 * max(0, declared), path)
            table = file.read(columns=names)
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a Parquet file, whatever its name says, or it is damaged") from error
    for name in names:
        values = table.column(name)
        if values.null_count:
            row = int(np.argmax(values.is_null().to_numpy()))
            raise ValueError(f"{path}: column {name!r} is empty in row {row + 1}")
    coordinates = [name for c, name in enumerate(names) if c not in (id_column, mass_column)]
    points = np.column_stack([table.column(name).to_numpy() for name in coordinates])
    masses = None if mass_column is None else table.column(names[mass_column]).to_numpy()
    ids, group = _parquet_ids(table, names[id_column], path)
    with naming(path):
        return _grouped(points, ids, group, masses)


def need_pyarrow(what: str) -> Any:
    """pyarrow with its ``parquet``, or a sentence that says what to install."""
    sentence = f"{what} needs pyarrow: pip install asot[tables]"
    needed("pyarrow.parquet", sentence)
    return needed("pyarrow", sentence)


def _check_parquet_types(schema: Any, names: list[str], ids: str, path: PathLike) -> None:
    """Refuse columns of the wrong type before any of them is read."""
    from pyarrow import types

    for name in names:
        kind = schema.field(name).type
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        if name != ids and not is_number and not types.is_null(kind):
            raise ValueError(f"{path}: column {name!r} holds {kind}, not numbers")
        if name == ids and types.is_nested(kind):
            raise ValueError(f"{path}: column {name!r} cannot serve as ids; use text or integers")


def _parquet_ids(table: Any, name: str, path: PathLike) -> tuple[list[Any], Indices]:
    """The ids, and the index of every row's among them; a dictionary may list one twice."""
    encoded = table.column(name).combine_chunks()
    if hasattr(encoded, "chunks"):
        encoded = encoded.chunk(0) if encoded.num_chunks else encoded
    if not hasattr(encoded, "dictionary"):
        encoded = encoded.dictionary_encode()
    names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
    if any(entry is None or entry != entry for entry in names):
        raise ValueError(f"{path}: column {name!r} holds an id that is missing")
    present, group = np.unique(codes, return_inverse=True)  # a dictionary may list what no row has
    return [names[i] for i in present], group
