"""Rows of numbers in a file: read a block at a time, never mapped into memory."""

import errno
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from madbayes.files import FolderError

# Rows that are taken one by one are read together with what lies between them, so many bytes at once,
BUFFER_BYTES = 2**20
# unless more than this lies between two of them: then another call of the system is cheaper.
GAP_BYTES = 2**16
# So many rows of a slice with a step are taken at once.
TAKEN_AT_ONCE = 2**16


# A disk that is full, a folder that may not be written to, or that is gone.
NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)


@contextmanager
def folder_named(folder: str | os.PathLike[str]) -> Iterator[None]:
    """If a temporary file cannot be made or written, say in which folder, and how to name another."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_PLACE:
            raise
        words = f"{os.strerror(error.errno)} in {os.fspath(folder)!r}: name another folder by spill_dir"
        raise FolderError(error.errno, words) from error


class FileRows:
    """A matrix in a file, row after row, of which only what is asked for comes into memory.

    Parameters
    ----------
    path : path
        The file.
    shape : tuple of int
        Rows and columns.
    dtype : data type
        Of the numbers: floats, integers or booleans.
    offset : int, default=0
        Bytes of the file before the first row.

    Attributes
    ----------
    path : str
    shape : tuple of int
    dtype : numpy.dtype
    offset : int

    Notes
    -----
    Slices, numbers of rows, arrays of them and masks select rows as they do in NumPy, and always give a new array.
    Several threads may read at the same time. A pickled one opens the file again, by its name.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.sources import FileRows
    >>> path = getfixture("tmp_path") / "rows"
    >>> np.arange(12.0).reshape(4, 3).tofile(path)
    >>> rows = FileRows(path, (4, 3), "float64")
    >>> rows[1:3]
    array([[3., 4., 5.],
           [6., 7., 8.]])
    >>> rows.take([3, 0])
    array([[ 9., 10., 11.],
           [ 0.,  1.,  2.]])
    """

    ndim = 2

    def __init__(self, path: str | os.PathLike[str], shape: tuple[int, int], dtype: DTypeLike, offset: int = 0) -> None:
        self.path, self.offset = os.path.abspath(path), int(offset)
        self.shape, self.dtype = (int(shape[0]), int(shape[1])), np.dtype(dtype)
        if self.dtype.kind not in "biuf" or min(*self.shape, self.offset) < 0:
            raise ValueError(
                f"shape={shape}, dtype={self.dtype}, offset={offset} are no rows of numbers: give floats, integers or "
                "booleans, and nothing below 0"
            )
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self._closing = weakref.finalize(self, os.close, self._descriptor)
        size = os.fstat(self._descriptor).st_size
        if size < self.offset + self.nbytes:
            raise ValueError(
                f"{self.path!r} has {size} bytes, but {self.shape[0]} rows of {self.shape[1]} {self.dtype} numbers "
                f"from byte {self.offset} on end at {self.offset + self.nbytes}: it is cut short, or another file"
            )

    @classmethod
    def temporary(cls, path: str | os.PathLike[str], shape: tuple[int, int], dtype: DTypeLike, offset: int = 0) -> Self:
        """The same, of a file that is removed when nothing refers to these rows any more."""
        rows = cls(path, shape, dtype, offset)
        weakref.finalize(rows, _remove, rows.path, os.getpid())
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.shape[0] * self._row_bytes

    @property
    def _row_bytes(self) -> int:
        return self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"FileRows({self.path!r}, {self.shape}, {self.dtype.name!r}, offset={self.offset})"

    def __reduce__(self) -> tuple[Any, ...]:
        return FileRows, (self.path, self.shape, self.dtype, self.offset)

    def __array__(self, *_: Any, **__: Any) -> NDArray:
        raise TypeError("rows in a file do not become an array by themselves, they may be too many: take rows[:] to")

    def __getitem__(self, rows: Any) -> NDArray:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            return self._read(start, max(start, stop)) if step == 1 else self._take_range(range(start, stop, step))
        if isinstance(rows, int | np.integer) and not isinstance(rows, bool):
            return self.take([int(rows)])[0]
        return self.take(rows)

    def take(self, rows: ArrayLike, axis: int = 0) -> NDArray:
        """Some rows, in any order, as often as they are named.

        Parameters
        ----------
        rows : array of int, or of bool
            Their numbers, negative ones from the end; or a mask of all rows.
        axis : int, default=0
            Rows, as there is nothing else to take.

        Returns
        -------
        array of shape (n_taken, n_columns)
        """
        if axis != 0:
            raise ValueError(f"axis={axis} is not accepted: only rows can be taken, axis=0")
        numbers = self._row_numbers(rows)
        taken = np.empty((len(numbers), self.shape[1]), self.dtype)
        self._fill(taken, numbers)
        return taken

    def prefetch(self, rows: slice) -> None:
        """Tell the system that these rows will be read soon, where it listens."""
        start, stop, _ = rows.indices(len(self))
        if hasattr(os, "posix_fadvise") and start < stop:
            place, length = self.offset + start * self._row_bytes, (stop - start) * self._row_bytes
            os.posix_fadvise(self._descriptor, place, length, os.POSIX_FADV_WILLNEED)

    def _row_numbers(self, rows: ArrayLike) -> NDArray[np.intp]:
        """Checked, none negative."""
        found = np.asarray(rows)
        if found.dtype == bool and found.shape == (len(self),):
            return np.flatnonzero(found)
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise IndexError(
                f"an index of shape {found.shape} and type {found.dtype} selects no rows: give a slice, a number, an "
                f"array of numbers of rows, or a mask of {len(self)}"
            )
        numbers = found.astype(np.intp)
        outside = (numbers < -len(self)) | (numbers >= len(self))
        if outside.any():
            raise IndexError(f"there is no row {numbers[outside][0]}: there are {len(self)}")
        numbers[numbers < 0] += len(self)
        return numbers

    def _take_range(self, rows: range) -> NDArray:
        """Rows at the same distance of each other."""
        taken = np.empty((len(rows), self.shape[1]), self.dtype)
        for begin in range(0, len(rows), TAKEN_AT_ONCE):
            part = rows[begin : begin + TAKEN_AT_ONCE]
            self._fill(taken[begin : begin + len(part)], np.arange(part.start, part.stop, part.step))
        return taken

    def _fill(self, taken: NDArray, rows: NDArray[np.intp]) -> None:
        """Put rows into an array; those that lie near each other in the file are read together."""
        if not taken.size:
            return
        order = np.argsort(rows, kind="stable")
        sorted_rows = rows[order]
        page = sorted_rows // max(1, BUFFER_BYTES // self._row_bytes)
        is_far = np.diff(sorted_rows) > 1 + GAP_BYTES // self._row_bytes
        begins = np.flatnonzero(np.concatenate([[True], is_far | (np.diff(page) > 0)]))
        for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
            here = sorted_rows[begin:end]
            taken[order[begin:end]] = self._read(here[0], here[-1] + 1)[here - here[0]]

    def _read(self, start: int, stop: int) -> NDArray:
        """Consecutive rows."""
        block = np.empty((stop - start, self.shape[1]), self.dtype)
        place, free = self.offset + int(start) * self._row_bytes, block.reshape(-1).view(np.uint8).data
        while free:
            count = os.preadv(self._descriptor, [free], place)
            if not count:
                raise OSError(f"{self.path!r} ends at byte {place}, it was longer when it was opened: leave it alone")
            place, free = place + count, free[count:]
        return block


def _remove(path: str, process: int) -> None:
    """Remove a file, but not in a fork of the process that has made it."""
    if os.getpid() == process:
        with suppress(OSError):
            os.unlink(path)


class RowWriter:
    """Writes rows to a temporary file, block by block.

    Parameters
    ----------
    folder : path or None
        Where the file is to be; None is the folder of the system for such files.
    n_columns : int
    dtype : data type

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.sources import RowWriter
    >>> with RowWriter(None, 2, "float32") as writer:
    ...     writer.append(np.ones((3, 2)))
    ...     writer.append(np.zeros((1, 2)))
    ...     rows = writer.close()
    >>> rows.shape, rows[2:]
    ((4, 2), array([[1., 1.],
           [0., 0.]], dtype=float32))
    """

    def __init__(self, folder: str | os.PathLike[str] | None, n_columns: int, dtype: DTypeLike) -> None:
        self.n_columns, self.dtype, self.n_rows = n_columns, np.dtype(dtype), 0
        self.folder = tempfile.gettempdir() if folder is None else folder
        with folder_named(self.folder):
            self._descriptor, self._path = tempfile.mkstemp(prefix="madbayes-", suffix=".rows", dir=self.folder)
        self._aborting = weakref.finalize(self, _abort, self._descriptor, self._path, os.getpid())

    def append(self, block: NDArray) -> None:
        """Write more rows."""
        self._check_open()
        if block.ndim != 2 or block.shape[1] != self.n_columns:
            raise ValueError(f"a block of shape {block.shape} does not fit: give {self.n_columns} columns")
        if not block.size:
            self.n_rows += len(block)
            return
        numbers = np.ascontiguousarray(block, self.dtype)
        left = numbers.reshape(-1).view(np.uint8).data
        with folder_named(self.folder):
            while left:
                left = left[os.write(self._descriptor, left) :]
        self.n_rows += len(block)

    def close(self) -> FileRows:
        """The rows written; their file goes away with them."""
        self._check_open()
        rows = FileRows.temporary(self._path, (self.n_rows, self.n_columns), self.dtype)
        self._aborting.detach()
        os.close(self._descriptor)
        return rows

    def abort(self) -> None:
        """Remove the file; after ``close`` this does nothing."""
        self._aborting()

    def _check_open(self) -> None:
        # The number of a file that was closed may be that of another one by now.
        if not self._aborting.alive:
            raise ValueError("nothing can be written any more: the file is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.abort()


def _abort(descriptor: int, path: str, process: int) -> None:
    os.close(descriptor)
    _remove(path, process)
