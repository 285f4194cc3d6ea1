"""Files that NumPy has mapped into memory."""

import mmap
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from madbayes.sources.checks import Block
from madbayes.sources.rows import FileRows

BLOCK_BYTES = 2**23


def is_mapped(X: object) -> bool:
    """Whether this is a matrix of numbers that lies in a file, and not what was computed from one."""
    return (
        isinstance(X, np.memmap)
        and getattr(X, "_mmap", None) is not None
        and X.ndim == 2
        and X.size > 0
        and X.dtype.kind in "biuf"
    )


def rows_of_map(X: np.memmap) -> FileRows | None:
    """The same rows, read from the file; None if they do not lie there one after the other, as they are now."""
    root: NDArray = X
    while isinstance(root.base, np.ndarray):
        root = root.base
    # What is written to a map of mode "c" is not in the file.
    if X.filename is None or X.mode == "c" or not X.flags.c_contiguous or not isinstance(root, np.memmap):
        return None
    offset = root.offset + X.ctypes.data - root.ctypes.data
    try:
        rows = FileRows(X.filename, X.shape, X.dtype, offset)
    except (OSError, ValueError):
        return None
    # Another file may have taken the name since; the bytes of some rows tell.
    some = sorted({0, len(X) // 2, len(X) - 1})
    return rows if rows.take(some).tobytes() == np.ascontiguousarray(X[some]).tobytes() else None


def map_blocks(X: np.memmap, name: str) -> Iterator[Block]:
    """Rows of any map, in blocks; what has been read is not kept in memory."""
    size = max(1, BLOCK_BYTES // (X.shape[1] * X.dtype.itemsize))
    for first in range(0, len(X), size):
        yield Block(name, first, np.array(X[first : first + size]))
        # Pages of a private map may hold what the file does not: they are left alone.
        if (
            X.mode != "c"
            and hasattr(mmap, "MADV_DONTNEED")
            and isinstance(mapped := getattr(X, "_mmap", None), mmap.mmap)
        ):
            mapped.madvise(mmap.MADV_DONTNEED)


def file_blocks(rows: FileRows, name: str) -> Iterator[Block]:
    """Rows of a file, in blocks."""
    size = max(1, BLOCK_BYTES // max(1, rows.shape[1] * rows.dtype.itemsize))
    for first in range(0, len(rows), size):
        yield Block(name, first, rows[first : first + size])
