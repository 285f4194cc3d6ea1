"""What is kept of the rows of each part between passes: in memory as far as that goes, then in a file."""

import os
import tempfile
from functools import cached_property
from threading import Lock
from typing import IO, NamedTuple
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.homes import Kept
from madbayes.sources.rows import folder_named


class Slot(NamedTuple):
    """Where the arrays of a part are in the file."""

    offset: int
    capacity: int  # bytes that are this part's own
    forms: list[tuple[np.dtype, tuple[int, ...]]]


class Ledger:
    """Arrays of each part of a table, at most so many bytes of them in memory.

    Parameters
    ----------
    n_parts : int
    allowance : int
        Bytes in memory.
    folder : path
        Where the file for all others is made; it has no name, so that it vanishes with the process.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes.sources.ledger import Ledger
    >>> ledger = Ledger(2, 100, getfixture("tmp_path"))
    >>> ledger[0] = (np.arange(10),)
    >>> ledger[1] = (np.arange(5),)  # does not fit beside the other
    >>> ledger[1], ledger.in_memory
    ((array([0, 1, 2, 3, 4]),), 80)
    """

    def __init__(self, n_parts: int, allowance: int, folder: str | os.PathLike[str]) -> None:
        self.parts: list[Kept | Slot | None] = [None] * n_parts
        self.allowance, self.folder, self.in_memory = allowance, folder, 0
        self.lock, self.end = Lock(), 0

    @cached_property
    def file(self) -> IO[bytes]:
        """For what does not fit in memory."""
        with folder_named(self.folder):
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
        finalize(self, file.close)
        return file

    def __getitem__(self, p: int) -> Kept | None:
        part = self.parts[p]
        return self._read(part) if isinstance(part, Slot) else part

    def __setitem__(self, p: int, kept: Kept | None) -> None:
        before, size = self.parts[p], nbytes(kept)
        held = 0 if isinstance(before, Slot) else nbytes(before)
        with self.lock:
            stays = self.in_memory - held + size <= self.allowance and not isinstance(before, Slot)
            self.in_memory += (size if stays else 0) - held
        if stays or kept is None:
            self.parts[p] = kept
        else:
            self.parts[p] = self._write(before if isinstance(before, Slot) else None, kept)

    def _write(self, slot: Slot | None, kept: Kept) -> Slot:
        """Where the part was before, if there is room; else after all others."""
        forms, size = [(array.dtype, array.shape) for array in kept], nbytes(kept)
        with self.lock:
            descriptor = self.file.fileno()
            if slot is None or slot.capacity < size:
                slot = Slot(self.end, size, forms)
                self.end += size
        offset = slot.offset
        with folder_named(self.folder):
            for array in kept:
                offset += write_all(descriptor, np.ascontiguousarray(array), offset)
        return slot._replace(forms=forms)

    def _read(self, slot: Slot) -> Kept:
        arrays, offset = [], slot.offset
        for dtype, shape in slot.forms:
            array = np.empty(shape, dtype)
            offset += read_all(self.file.fileno(), array, offset)
            arrays.append(array)
        return tuple(arrays)


def nbytes(kept: "Kept | Slot | None") -> int:
    """Bytes of the arrays of a part."""
    return 0 if kept is None or isinstance(kept, Slot) else sum(array.nbytes for array in kept)


def write_all(descriptor: int, array: NDArray, offset: int) -> int:
    """Write an array at an offset; how many bytes it has."""
    left, done = array.reshape(-1).view(np.uint8), 0
    while done < len(left):
        done += os.pwrite(descriptor, left[done:].data, offset + done)
    return done


def read_all(descriptor: int, array: NDArray, offset: int) -> int:
    """Fill an array from an offset; how many bytes it has."""
    left, done = array.reshape(-1).view(np.uint8), 0
    while done < len(left):
        some = os.preadv(descriptor, [left[done:].data], offset + done)
        if some == 0:
            raise OSError("the file of what is kept between passes is shorter than it was: is its disk full?")
        done += some
    return done
