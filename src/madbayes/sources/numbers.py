"""Blocks of many kinds as matrices of float32 or float64."""

import sys
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.words import listed

ACCEPTED = "floats, integers and booleans are accepted"


class Numbers(NamedTuple):
    """A block as a matrix; names of its columns where it has them."""

    matrix: NDArray
    names: list[Any] | None


def as_numbers(values: Any, where: str, names: Sequence[Any] | None = None, *, chosen: bool = False) -> Numbers:
    """The numbers of a block.

    Parameters
    ----------
    values : array, data frame, record batch
    where : str
        What an error calls it.
    names : sequence, optional
        Columns of the blocks before, in the order that is wanted.
    chosen : bool, default=False
        Whether other columns than these are left out, or an error.

    Returns
    -------
    Numbers
    """
    found = column_names(values)
    if found is None:
        check_unnamed(names if chosen else None)
        return Numbers(matrix_of(values, where), None)
    check_names(found, where, names, chosen)
    names = [name for name in found if not is_index(name)] if names is None else list(names)
    columns = [column_numbers(column_of(values, name), f"X: {where}, column {name!r}") for name in names]
    matrix = np.empty((len(columns[0]) if columns else 0, len(columns)), common_dtype(columns))
    for d, column in enumerate(columns):
        matrix[:, d] = column
    return Numbers(matrix, names)


def check_unnamed(columns: Sequence[Any] | None) -> None:
    """Columns of arrays cannot be chosen by name."""
    if columns is not None:
        raise ValueError(f"columns={columns!r} is not accepted here, where columns have no names: leave it out")


def is_index(name: Any) -> bool:
    """Whether pandas has written this column for rows' labels that have no name: no data."""
    return isinstance(name, str) and name.startswith("__index_level_")


def common_dtype(columns: Sequence[NDArray]) -> np.dtype:
    """float32 if all are; float64 of all others."""
    is_single = bool(columns) and all(column.dtype.kind == "f" and column.dtype.itemsize == 4 for column in columns)
    return np.dtype(np.float32 if is_single else np.float64)


def is_arrow(values: Any) -> bool:
    """Whether this is a table of pyarrow, which is not imported to find out."""
    pa = sys.modules.get("pyarrow")
    return pa is not None and isinstance(values, pa.RecordBatch | pa.Table)


def column_names(values: Any) -> list[Any] | None:
    """Of a data frame; None of an array."""
    if is_arrow(values):
        return list(values.schema.names)
    return list(values.columns) if hasattr(values, "columns") else None


def column_of(values: Any, name: Any) -> Any:
    """One column of a data frame."""
    return values.column(values.schema.names.index(name)) if is_arrow(values) else values[name]


def check_names(found: Sequence[Any], where: str, names: Sequence[Any] | None, chosen: bool) -> None:
    """Every name once, and the same names as before."""
    twice = [name for name in dict.fromkeys(found) if list(found).count(name) > 1]
    if twice:
        raise ValueError(f"X: {where} has columns of the same name, {named(twice)}: give each a name of its own")
    if names is None:
        return
    missing = [name for name in names if name not in set(found)]
    more = [] if chosen else [name for name in found if name not in set(names) and not is_index(name)]
    if missing or more:
        words = [f"has no column {named(missing)}"] * bool(missing) + [f"has column {named(more)} besides"] * bool(more)
        raise ValueError(f"X: {where} {' and '.join(words)}: give the same columns everywhere, here {named(names)}")


def named(names: Sequence[Any]) -> str:
    """Some names, not too many."""
    return listed(map(repr, names[:10]), len(names))


def matrix_of(values: Any, where: str) -> NDArray:
    """The numbers of an array."""
    try:
        matrix = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"X: {where} has no rows of one length: give arrays or data frames ({error})") from error
    if matrix.ndim != 2:
        kind = f"an array of shape {matrix.shape}" if matrix.ndim else f"of type {type(values).__name__}"
        raise ValueError(f"X: {where} is {kind}: give arrays or data frames of rows and columns")
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"X: {where} holds {matrix.dtype} values: {ACCEPTED}")
    return np.ascontiguousarray(matrix, common_dtype([matrix]))


def column_numbers(column: Any, where: str) -> NDArray:
    """The numbers of a column, NaN where they are missing."""
    if type(column).__module__.startswith("pyarrow"):
        return arrow_numbers(column, where)
    dtype = column.dtype
    if getattr(dtype, "kind", None) in tuple("biuf") and not isinstance(dtype, np.dtype):  # pandas' own types
        single = getattr(dtype, "numpy_dtype", None) == np.float32
        return column.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    values = column.to_numpy() if getattr(dtype, "kind", "O") not in "mM" else np.empty(0, "datetime64[s]")
    if values.dtype.kind == "O":
        return object_numbers(values, where)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{where} holds {dtype} values: {ACCEPTED}; encode it or leave it out")
    return values


def arrow_numbers(column: Any, where: str) -> NDArray:
    """The same for a column of Arrow."""
    check_arrow_type(column.type, where)
    import pyarrow as pa

    if column.null_count and not pa.types.is_floating(column.type):
        column = column.cast(pa.float64(), safe=False)  # rounds whole numbers beyond 2^53, as NumPy does
    return column.to_numpy(zero_copy_only=False)


def check_arrow_type(kind: Any, where: str) -> None:
    """Numbers only."""
    import pyarrow as pa

    is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if not is_number:
        raise ValueError(f"{where} holds {kind} values: {ACCEPTED}; encode it or leave it out")


def object_numbers(values: NDArray, where: str) -> NDArray[np.float64]:
    """Python's numbers, NaN for None."""
    for n, value in enumerate(values):
        if value is not None and not isinstance(value, Real | np.bool_):
            raise ValueError(f"{where} has {value!r} in row {n} of it: {ACCEPTED}; encode it or leave it out")
    return np.array([np.nan if value is None else value for value in values], np.float64)
