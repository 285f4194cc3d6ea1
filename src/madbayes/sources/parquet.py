"""Parquet files and datasets of Arrow, block by block."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from madbayes.sources.checks import Block
from madbayes.sources.numbers import check_arrow_type, check_names, is_index
from madbayes.sources.places import Place

# Bytes of numbers in a block.
BLOCK_BYTES = 2**22
# Of a column in a file on this machine, so many bytes are read at a time, not all of a row group.
READ_BYTES = 2**16


class Plan(NamedTuple):
    """What will be read: known before, but for the rows of a dataset that counts them by reading."""

    names: list[str]
    dtype: np.dtype
    n_rows: int | None


def import_pyarrow(what: str) -> Any:
    """The module; who does not have it is told how to get it."""
    try:
        import pyarrow.dataset
        import pyarrow.fs
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f'Reading {what} needs pyarrow: pip install "madbayes[app]"') from error
    return pyarrow


@contextmanager
def errors_named(name: str) -> Iterator[None]:
    """Errors in reading a file say which."""
    pa = import_pyarrow(repr(name))
    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        words = " ".join(str(error).split())[:200]
        raise ValueError(f"X: {name!r} cannot be read, it may be broken: {words}") from error


@contextmanager
def opened(place: Place) -> Iterator[Any]:
    """A Parquet file, read in small pieces; one that is elsewhere in large ones, for each of them takes its time."""
    pa = import_pyarrow(repr(place.name))
    with place.open() as source:
        is_here = isinstance(source, str)
        with pa.parquet.ParquetFile(source, buffer_size=READ_BYTES * is_here, pre_buffer=not is_here) as file:
            yield file


def plan_files(places: Sequence[Place], columns: Sequence[str] | None) -> Plan:
    """Look at the schemas of all files."""
    names, n_rows, is_single = columns, 0, True
    for place in places:
        with errors_named(place.name), opened(place) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
        check_names(schema.names, repr(place.name), names, columns is not None)
        names = names or [name for name in schema.names if not is_index(name)]
        is_single &= check_types(schema, names, repr(place.name))
        n_rows += count
    return Plan(list(names or ()), np.dtype(np.float32 if is_single else np.float64), n_rows)


def check_types(schema: Any, names: Sequence[str], where: str) -> bool:
    """Whether all columns are float32; numbers they must be."""
    kinds = [schema.field(name).type for name in names]
    for name, kind in zip(names, kinds, strict=True):
        check_arrow_type(kind, f"X: {where}, column {name!r}")
    return all(str(kind) == "float" for kind in kinds)


def file_batches(places: Sequence[Place], plan: Plan) -> Iterator[Block]:
    """Batches of rows of all files, in order."""
    size = rows_at_once(plan)
    for place in places:
        first = 0
        with errors_named(place.name), opened(place) as file:
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(size, row_groups=[group], columns=plan.names):
                    yield Block(place.name, first, batch, f", row group {group}")
                    first += len(batch)


def rows_at_once(plan: Plan) -> int:
    """Rows of a batch."""
    return max(1, BLOCK_BYTES // max(1, len(plan.names) * plan.dtype.itemsize))


def is_dataset(X: object) -> bool:
    """Whether this is a dataset of pyarrow, which is not imported to find out."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(X, module.Dataset)


def plan_dataset(dataset: Any, columns: Sequence[str] | None) -> Plan:
    """Look at the schema; rows are counted where that needs no reading of all of them."""
    check_names(dataset.schema.names, "the dataset", columns, columns is not None)
    names = list(columns or [name for name in dataset.schema.names if not is_index(name)])
    is_single = check_types(dataset.schema, names, "the dataset")
    dtype = np.dtype(np.float32 if is_single else np.float64)
    return Plan(names, dtype, dataset.count_rows() if is_parquet(dataset) else None)


def is_parquet(dataset: Any) -> bool:
    """Whether the files of a dataset are Parquet."""
    return isinstance(getattr(dataset, "format", None), import_pyarrow("a dataset").dataset.ParquetFileFormat)


def scan_options(dataset: Any) -> Any:
    """Parquet files on this machine are read in small pieces."""
    pa = import_pyarrow("a dataset")
    if not is_parquet(dataset) or not isinstance(dataset.filesystem, pa.fs.LocalFileSystem):
        return None
    return pa.dataset.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=READ_BYTES, pre_buffer=False)


def dataset_batches(dataset: Any, plan: Plan) -> Iterator[Block]:
    """Batches of rows of a dataset, in order; few are read ahead, but whole row groups."""
    scanner = dataset.scanner(
        columns=plan.names,
        batch_size=rows_at_once(plan),
        batch_readahead=1,
        fragment_readahead=1,
        fragment_scan_options=scan_options(dataset),
        use_threads=False,
    )
    before, first = "", 0
    with errors_named("the dataset"):
        for tagged in scanner.scan_batches():
            name = getattr(tagged.fragment, "path", "the dataset")
            first = first if name == before else 0
            yield Block(name, first, tagged.record_batch)
            before, first = name, first + len(tagged.record_batch)
