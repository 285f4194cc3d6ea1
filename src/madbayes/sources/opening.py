"""What may be too large for memory, as rows in a file."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from typing import Any

import numpy as np

from madbayes.sources.ahead import ahead
from madbayes.sources.checks import BadRows, Block, Screen
from madbayes.sources.mapped import file_blocks, is_mapped, map_blocks, rows_of_map
from madbayes.sources.numbers import check_unnamed, is_arrow
from madbayes.sources.parquet import Plan, dataset_batches, file_batches, is_dataset, plan_dataset, plan_files
from madbayes.sources.places import Place, places_of
from madbayes.sources.rows import FileRows, folder_named
from madbayes.sources.spilling import Source, Wish, check_space, numbered, spilled

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def open_rows(
    X: Any,
    *,
    columns: Sequence[str] | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    bad_rows: str | BadRows = "error",
) -> Source | None:
    """Rows in a file, of a table that need not fit in memory.

    What is not yet a file of plain rows is decoded once, block by block, into a temporary one.

    Parameters
    ----------
    X : path, URL, memmap, dataset, iterable of blocks
        A Parquet file, a folder of them (below it too, in the order of their paths as text, as in pyarrow), an array of
        NumPy in a file (``.npy``): by name, or by a URL that fsspec opens. A ``numpy.memmap``. A dataset of pyarrow.
        Anything that gives blocks of rows one after the other, arrays or data frames: a list of them, a generator.
    columns : sequence of str, optional
        Those to use, in this order, of what has names; others are left out. By default all.
    spill_dir : path, optional
        Where the temporary file is put; it is removed when nothing refers to the rows any more. By default the folder
        of the system for such files.
    bad_rows : "error" or callable, default="error"
        What to do about rows with a missing or infinite number. A callable is called with the file or the number of
        the block, the numbers of these rows in it, and the rows; they are left out.

    Returns
    -------
    Source or None
        None of what is in memory already: arrays, lists of rows, data frames, sparse matrices.

    Notes
    -----
    float32 stays float32 if all columns are; other numbers become float64. Of blocks the first one says which, and a
    float64 one after a float32 one is an error; of Parquet files, the schemas of all are looked at first. Columns go by
    their names, where they have any, and may come in another order. Folders named ``key=value`` add no columns.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.sources import open_rows
    >>> source = open_rows(np.full((2, 3), n) for n in range(5))
    >>> source.rows.shape, source.rows[::4]
    ((10, 3), array([[0., 0., 0.],
           [2., 2., 2.],
           [4., 4., 4.]]))
    >>> open_rows(np.ones((2, 3))) is None
    True
    """
    if bad_rows != "error" and not callable(bad_rows):
        raise ValueError(f'bad_rows={bad_rows!r} is not accepted: give "error" or a callable')
    if columns is not None and (isinstance(columns, str) or not len(columns)):
        raise ValueError(f"columns={columns!r} is not accepted: give a list of names, at least 1, or None for all")
    wish = Wish(columns, check_folder(spill_dir), bad_rows)
    if isinstance(X, Source):
        return X
    if isinstance(X, FileRows):
        return open_file(X, wish, X.path, is_known=True)
    if is_mapped(X):
        return open_map(X, wish)
    if isinstance(X, str | os.PathLike):
        return open_places(places_of(X), str(X), wish)
    if is_dataset(X):
        plan = plan_dataset(X, columns)
        return open_planned(dataset_batches(X, plan), plan, wish, "the dataset")
    return open_blocks(X, wish) if is_iterable_of_blocks(X) else None


def check_folder(spill_dir: str | os.PathLike[str] | None) -> str:
    """Where temporary files are put."""
    if spill_dir is not None and not isinstance(spill_dir, str | os.PathLike):
        raise ValueError(f"spill_dir={spill_dir!r} is not accepted: give the name of a folder, or None")
    folder = tempfile.gettempdir() if spill_dir is None else os.fspath(spill_dir)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"spill_dir={folder!r} is no folder: make it first, or name another")
    return folder


def open_map(X: np.memmap, wish: Wish, name: str | None = None) -> Source:
    """Rows of a mapped file, from that file if they lie there one after the other."""
    name = name or str(X.filename or "the map")
    rows = rows_of_map(X)
    return copied(map_blocks(X, name), X, wish, name) if rows is None else open_file(rows, wish, name)


def open_file(rows: FileRows, wish: Wish, name: str, *, is_known: bool = False) -> Source:
    """Rows of a file, from that file; copied only if they are no floats, or if some are to be left out."""
    if rows.dtype not in DTYPES:
        return copied(file_blocks(rows, name), rows, wish, name)
    check_unnamed(wish.columns)
    if is_known:
        return Source(rows)
    screen = Screen((lambda *_: None) if callable(wish.bad_rows) else wish.bad_rows)
    for block in ahead(file_blocks(rows, name)):
        screen.passed(block, block.values)
    if screen.n_left_out:
        return copied(file_blocks(rows, name), rows, wish, name)
    screen.finish(repr(name))
    return Source(rows)


def copied(blocks: Iterator[Block], like: np.memmap | FileRows, wish: Wish, name: str) -> Source:
    """Blocks of a matrix, in a temporary file."""
    dtype = np.dtype(np.float32 if like.dtype.newbyteorder("=") == np.float32 else np.float64)
    check_space(like.shape, dtype, wish.folder)
    return spilled(ahead(numbered(blocks, wish)), wish, repr(name), dtype)


def open_places(places: Sequence[Place], name: str, wish: Wish) -> Source:
    """Files by their names."""
    if places[0].is_array:
        return open_array(places[0], wish)
    plan = plan_files(places, wish.columns)
    return open_planned(file_batches(places, plan), plan, wish, repr(name))


def open_planned(batches: Iterator[Block], plan: Plan, wish: Wish, what: str) -> Source:
    """Blocks of which much is known before they are read."""
    if plan.n_rows is not None:
        check_space((plan.n_rows, len(plan.names)), plan.dtype, wish.folder)
    return spilled(ahead(numbered(batches, wish, plan.names)), wish, what, plan.dtype)


def open_array(place: Place, wish: Wish) -> Source:
    """An array in a file of NumPy; one that is elsewhere is fetched first, as it is."""
    with place.open() as file:
        if isinstance(file, str):
            return open_map(map_of(file, place.name), wish)
        path = fetched(file, wish.folder)
    with ExitStack() as stack:
        stack.callback(os.unlink, path)
        rows = (found := open_map(map_of(path, place.name), wish, place.name)).rows
        if rows.path == path:
            stack.pop_all()
            found = Source(FileRows.temporary(path, rows.shape, rows.dtype, rows.offset))
        return found


def fetched(file: Any, folder: str) -> str:
    """A copy of a file, in a folder."""
    with folder_named(folder):
        descriptor, path = tempfile.mkstemp(prefix="madbayes-", suffix=".npy", dir=folder)
    try:
        with folder_named(folder), os.fdopen(descriptor, "wb") as copy:
            shutil.copyfileobj(file, copy, 2**23)
    except BaseException:
        os.unlink(path)
        raise
    return os.path.abspath(path)


def map_of(path: str, name: str) -> np.memmap:
    """A matrix of numbers in a file of NumPy."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"X: {name!r} cannot be read, it may be broken: {error}") from error
    if not is_mapped(found):
        raise ValueError(
            f"X: {name!r} holds {found.dtype} values in shape {found.shape}: give rows and columns of floats, integers "
            "or booleans"
        )
    return found


def is_iterable_of_blocks(X: Any) -> bool:
    """Whether it gives arrays or data frames; what is a table itself, or a list of its rows, does not."""
    if isinstance(X, str | bytes | type | Mapping | Set) or hasattr(X, "__array__") or hasattr(X, "shape"):
        return False
    if isinstance(X, Sequence):
        return len(X) > 0 and is_block(X[0])
    return hasattr(X, "__iter__")


def is_block(item: Any) -> bool:
    """An array or a data frame."""
    return hasattr(item, "columns") or is_arrow(item) or len(getattr(item, "shape", ())) == 2


def open_blocks(X: Iterable[Any], wish: Wish) -> Source:
    """Blocks that come one after the other.

    They are made where the caller is and not in a thread: connections to databases, for example, may not like that.
    """
    blocks = (Block(number, 0, values) for number, values in enumerate(X))
    return spilled(numbered(blocks, wish), wish, "the iterable")
