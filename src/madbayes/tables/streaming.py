"""Tables of more rows than fit in memory, as blocks of rows in a fixed order."""

import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from madbayes.sources import ahead
from madbayes.sources.parquet import opened
from madbayes.sources.places import PARQUET, Place, is_url, places_of
from madbayes.tables.checks import TableError, as_frame, quoted

# Rows of a block: of few bytes, so that work on one is cheap beside what a command needs anyway.
BLOCK_BYTES, MOST_ROWS, LEAST_ROWS = 2**24, 2**16, 2**9
# Part of a limit of memory that a block may have: the next one is read while it is used, and several copies are made.
BLOCK_SHARE = 1 / 100
# Keys that may stay in memory while different values are counted, with no limit of memory.
CAPACITY = 2**24
# Columns that pandas writes for labels of rows without a name.
NO_DATA = "__index_level_"


class Block(NamedTuple):
    """Rows that follow each other in a file, and where they are."""

    frame: pd.DataFrame
    part: int  # number of the file
    group: int  # row group in the file
    first: int  # number of its first row in the file
    start: int  # and in the table


@dataclass(frozen=True)
class Part:
    """A file of a table."""

    name: str  # below the folder that was named
    place: Place
    n_rows: int
    schema: Any


class Frames:
    """Blocks of rows that can be gone through again and again."""

    def __init__(self, blocks: Callable[[], Iterator[Block]]) -> None:
        self.blocks = blocks

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return (block.frame for block in self.blocks())


class TableStream:
    """A table in Parquet files, read block by block.

    Parameters
    ----------
    source : path or URL
        A Parquet file, or a folder of them, in which they are taken in the order of their paths, row group after row
        group; here, or where fsspec finds it (``s3://...``, ``memory://...``).
    memory_limit : int, optional
        Bytes that the work on the table may need: blocks are made small enough for it.
    spill_dir : path, optional
        Where temporary files go; the place for such files if not given.

    Attributes
    ----------
    parts : list of Part
        The files.
    columns : list of str
        Those of all files.
    n_rows : int
    fingerprint : str
        SHA-256 of the names, sizes and schemas of the files, and of what they say about their columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from madbayes.tables import Recipe, TableStream
    >>> folder = getfixture("tmp_path")
    >>> for n in range(3):
    ...     pd.DataFrame({"price": [1.0 * n, 2.0, 4.0]}).to_parquet(folder / f"part-{n}.parquet")
    >>> stream = TableStream(folder)
    >>> stream.n_rows, [len(frame) for frame in stream.frames]
    (9, [3, 3, 3])
    >>> Recipe().fit(stream).means_.round(3).tolist()
    [2.333]
    """

    def __init__(
        self, source: str | Path, *, memory_limit: int | None = None, spill_dir: str | Path | None = None
    ) -> None:
        self.source, self.memory_limit, self.spill_dir = str(source), memory_limit, spill_dir
        self.parts, digest = list[Part](), sha256()
        row_bytes = 1.0
        for name, place in named_places(self.source):
            with errors_named(name), opened(place) as file:
                metadata = file.metadata
                self.parts.append(Part(name, place, metadata.num_rows, file.schema_arrow))
                groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
                digest.update(repr((name, [group.to_dict() for group in groups], str(file.schema_arrow))).encode())
            row_bytes = max([row_bytes, *(group.total_byte_size / max(1, group.num_rows) for group in groups)])
        self.columns = columns_of(self.parts[0].schema)
        self.n_rows, self.fingerprint = sum(part.n_rows for part in self.parts), digest.hexdigest()
        self._check_columns()
        room = BLOCK_BYTES if memory_limit is None else min(BLOCK_BYTES, memory_limit * BLOCK_SHARE)
        # As a data frame a row has 8 bytes for each number, however well it is packed in the file.
        row_bytes = max(row_bytes, 8.0 * len(self.columns))
        self.block_rows = int(min(MOST_ROWS, max(LEAST_ROWS, room // row_bytes)))

    @property
    def capacity(self) -> int:
        """Keys that may stay in memory while different values are counted."""
        return CAPACITY if self.memory_limit is None else max(2**12, self.memory_limit // 400)

    @property
    def frames(self) -> Frames:
        """The rows, block by block."""
        return Frames(self.blocks)

    def blocks(self) -> Iterator[Block]:
        """The rows and where they are; the next block is read while this one is used."""
        return ahead(self._blocks())

    def where(self, block: Block, row: int) -> str:
        """A row of a block in words."""
        return f"{self.parts[block.part].name!r}, row group {block.group}, row {block.first + row}"

    def _blocks(self) -> Iterator[Block]:
        start = 0
        for number, part in enumerate(self.parts):
            with errors_named(part.name), opened(part.place) as file:
                for block in self._blocks_of(file, number):
                    yield block._replace(start=start)
                    start += len(block.frame)

    def _blocks_of(self, file: Any, number: int) -> Iterator[Block]:
        """Those of a file; one without rows of a file without."""
        first = 0
        for group in range(file.num_row_groups):
            for batch in file.iter_batches(self.block_rows, row_groups=[group], use_threads=False):
                yield Block(self._frame(pa.Table.from_batches([batch])), number, group, first, 0)
                first += len(batch)
        if not first:
            yield Block(self._frame(file.schema_arrow.empty_table()), number, 0, 0, 0)

    def _frame(self, table: Any) -> pd.DataFrame:
        return as_frame(table.select(self.columns).to_pandas(ignore_metadata=True))

    def _check_columns(self) -> None:
        """The same ones in all files, each of them once."""
        first = self.parts[0]
        if len(set(self.columns)) < len(self.columns):
            twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
            raise TableError(f"{first.name!r} has columns of the same name: {quoted(twice)}. Rename them")
        for part in self.parts[1:]:
            names = columns_of(part.schema)
            if missing := [name for name in self.columns if name not in names]:
                raise TableError(f"{part.name!r} has no column {quoted(missing)}, which {first.name!r} has: add it")
            if more := [name for name in names if name not in self.columns]:
                raise TableError(
                    f"{part.name!r} has a column {quoted(more)}, which {first.name!r} has not: leave it out"
                )


def can_stream(source: str | Path) -> bool:
    """Whether this is a Parquet file here, a folder with some in it, or anything elsewhere."""
    if is_url(str(source)):
        return True
    path = Path(source)
    if path.is_dir():
        return any(file.suffix.lower() in PARQUET for file in path.rglob("*"))
    return path.suffix.lower() in PARQUET


def named_places(source: str) -> list[tuple[str, Place]]:
    """Files, and their names below the folder that was named."""
    try:
        places = places_of(source)
    except (ValueError, OSError, ImportError) as error:
        raise TableError(str(error).removeprefix("X=").removeprefix("X: ")) from error
    if places[0].is_array:
        raise TableError(f"{source!r} is an array of NumPy: it is read as a whole, without --memory-limit")
    base = base_of(source)
    return [
        (place.name.removeprefix(base) if place.name.startswith(base) else posixpath.basename(place.name), place)
        for place in places
    ]


def base_of(source: str) -> str:
    """What names of files begin with if this is a folder."""
    if not is_url(source):
        return str(Path(source)) + "/"
    import fsspec

    system, root = fsspec.core.url_to_fs(source)
    return system.unstrip_protocol(root).rstrip("/") + "/"


def columns_of(schema: Any) -> list[str]:
    """Names of the columns; those that were labels of rows come first, as pandas has it."""
    names = [name for name in schema.names if not name.startswith(NO_DATA)]
    kept = (schema.pandas_metadata or {}).get("index_columns", [])
    labels = [name for name in kept if isinstance(name, str) and name in names]
    return labels + [name for name in names if name not in labels]


@contextmanager
def errors_named(name: str) -> Iterator[None]:
    """Errors in reading a file say which."""
    try:
        yield
    except PermissionError:
        raise TableError(f"{name!r} may not be read: ask for permission to") from None
    except (pa.ArrowException, OSError, EOFError) as error:
        words = " ".join(str(error).split())[:200]
        raise TableError(f"{name!r} cannot be read, it may be broken: {words}") from error
