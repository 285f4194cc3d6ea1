"""How many different values a column has, exactly, in bounded memory."""

import shutil
import tempfile
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Parts of the values that are on the disk; a part at a time is counted.
PARTS = 64


class Distinct:
    """Counts different keys of 64 bits; on the disk where there are more of them than may stay in memory.

    Parameters
    ----------
    capacity : int, optional
        Keys that may stay in memory; all if not given.
    folder : path, optional
        Where the others go: the place of temporary files if not given. Nothing stays there.

    Attributes
    ----------
    n_added : int
        Keys that came, those that came before too.
    has_repeats : bool
        Whether one is known to have come twice; others may have, see :meth:`count`.
    """

    def __init__(self, capacity: int | None = None, folder: Path | str | None = None) -> None:
        self.capacity, self.folder = capacity, folder
        self.n_added, self.has_repeats = 0, False
        self._kept = np.empty(0, dtype=np.uint64)
        self._new: list[NDArray[np.uint64]] = []
        self._disk: Path | None = None

    def add(self, keys: NDArray[np.uint64]) -> None:
        """See some keys."""
        found = np.unique(keys)
        self.n_added += len(keys)
        self.has_repeats |= len(found) < len(keys)
        self._new.append(found)
        waiting = sum(map(len, self._new))
        if waiting > len(self._kept):  # so that a key is sorted a few times only, however many come
            self._merge()
        if self.capacity is not None and len(self._kept) + waiting > self.capacity:
            self._spill()

    def count(self) -> int:
        """How many different keys there are."""
        if self._disk is None:
            self._merge()
            return len(self._kept)
        self._spill()
        return sum(len(np.unique(np.fromfile(path, dtype=np.uint64))) for path in self._disk.iterdir())

    def _merge(self) -> None:
        together = np.concatenate([self._kept, *self._new])
        self._kept, self._new = np.unique(together), []
        self.has_repeats |= len(self._kept) < len(together)

    def _spill(self) -> None:
        """Put all keys on the disk, by their last bits: equal ones meet in the same file."""
        self._merge()
        if self._disk is None:
            self._disk = Path(tempfile.mkdtemp(prefix="madbayes-distinct-", dir=self.folder))
            weakref.finalize(self, shutil.rmtree, self._disk, ignore_errors=True)
        mixed = self._kept * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)  # numbers end in many zeros
        parts = (mixed % np.uint64(PARTS)).astype(np.intp)
        for part in np.unique(parts):
            with (self._disk / str(part)).open("ab") as file:
                self._kept[parts == part].tofile(file)
        self._kept = np.empty(0, dtype=np.uint64)


def keys_of_numbers(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Numbers as keys: equal numbers have equal keys."""
    return (numbers + 0.0).view(np.uint64)  # zero has two signs


def keys_of_texts(values: NDArray) -> NDArray[np.uint64]:
    """Texts as keys: of a hundred million different ones, all have different keys with a probability of 99.9 %."""
    return np.asarray(pd.util.hash_array(np.asarray(values, dtype=object)), dtype=np.uint64)
