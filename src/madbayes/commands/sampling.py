"""Rows that stand for all: those that a report, a path and refits look at where a table is too long for memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from madbayes.words import counted, spaced

# Rows of a sample, and the part of a limit of memory that it may have.
SAMPLE, SAMPLE_SHARE = 20_000, 1 / 20
LEAST = 1000


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows of a table, or all.

    Attributes
    ----------
    X : array of shape (n, n_columns)
        Their numbers.
    frame : DataFrame of n rows
        As they came.
    ids : DataFrame of n rows
        What identifies them, their number in the table first.
    n_rows : int
        Rows that they stand for.
    """

    X: NDArray[np.float64]
    frame: pd.DataFrame
    ids: pd.DataFrame
    n_rows: int

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """How many rows each of them stands for; None if they are all there are."""
        return None if self.is_all else np.full(len(self.X), self.n_rows / len(self.X))

    @property
    def is_all(self) -> bool:
        """Whether they are all there are."""
        return len(self.X) == self.n_rows

    @property
    def words(self) -> str:
        """What it is a sample of."""
        return f"a sample of {spaced(len(self.X))} of {counted(self.n_rows, 'row')}"


class Sampler:
    """Draws rows from a stream, each with the same probability: those with the lowest of as many random numbers.

    Which ones does not depend on how the stream comes in blocks.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.n_rows = size, 0
        self._random = np.random.default_rng(seed)
        self._keys: list[NDArray[np.float64]] = []
        self._frames: list[pd.DataFrame] = []

    def add(self, frame: pd.DataFrame, rows: NDArray[np.int64]) -> None:
        """See some rows, with their numbers in the table."""
        keys = self._random.random(len(frame))
        self.n_rows += len(frame)
        if self._keys and sum(map(len, self._keys)) > 2 * self.size:
            self._keep_lowest()
        bound = self._keys[0].max() if self._keys and len(self._keys[0]) == self.size else np.inf
        low = np.flatnonzero(keys < bound)
        if len(low):
            self._keys.append(keys[low])
            self._frames.append(frame.iloc[low].set_axis(rows[low], axis=0))

    def _keep_lowest(self) -> None:
        keys, frame = np.concatenate(self._keys), pd.concat(self._frames)
        lowest = np.sort(np.argsort(keys, kind="stable")[: self.size])
        self._keys, self._frames = [keys[lowest]], [frame.iloc[lowest]]

    def drawn(self) -> tuple[pd.DataFrame, NDArray[np.int64]]:
        """The rows, in their order, and their numbers."""
        self._keep_lowest()
        (frame,) = self._frames
        return frame.reset_index(drop=True), frame.index.to_numpy(dtype=np.int64)


def sample_size(memory_limit: int | None, row_bytes: int) -> int:
    """Rows of a sample."""
    if memory_limit is None:
        return SAMPLE
    return int(min(SAMPLE, max(LEAST, memory_limit * SAMPLE_SHARE // row_bytes)))


def drawn_rows(values: Any, size: int, seed: int) -> NDArray[np.intp]:
    """Numbers of some rows, in order."""
    return np.sort(np.random.default_rng(seed).choice(len(values), size, replace=False))
