"""Blocks of rows, checked and written to a temporary file."""

import errno
import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from madbayes.files import FolderError
from madbayes.sources.checks import BadRows, Block, Screen
from madbayes.sources.numbers import Numbers, as_numbers
from madbayes.sources.rows import FileRows, RowWriter
from madbayes.words import spaced

Pairs = Generator[tuple[Block, Numbers], None, None]


@dataclass(frozen=True, eq=False)
class Source:
    """A table whose rows stay in a file.

    Attributes
    ----------
    rows : FileRows
        The numbers, float32 or float64.
    columns : list of str or None
        Names of the columns, where all of them have one.
    n_left_out : int
        Bad rows that are not among them.
    """

    rows: FileRows
    columns: list[str] | None = None
    n_left_out: int = 0

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return len(self.rows)


@dataclass(frozen=True)
class Wish:
    """How a source is to be opened."""

    columns: Sequence[str] | None
    folder: str
    bad_rows: str | BadRows


def numbered(blocks: Iterable[Block], wish: Wish, names: Sequence[Any] | None = None) -> Pairs:
    """Every block beside its numbers; the first one says what the columns are, if nothing else does."""
    names = names or wish.columns
    for block in blocks:
        numbers = as_numbers(block.values, block.where, names, chosen=wish.columns is not None)
        names = names or numbers.names
        yield block, numbers


def spilled(pairs: Pairs, wish: Wish, what: str, dtype: np.dtype | None = None) -> Source:
    """Write blocks to a temporary file; the first one says what type its numbers have, if nothing else does."""
    with closing(pairs), Spill(wish, dtype) as spill:
        for block, numbers in pairs:
            spill.add(block, numbers)
        return spill.finish(what)


class Spill:
    """Rows on their way to a temporary file."""

    def __init__(self, wish: Wish, dtype: np.dtype | None) -> None:
        self.wish, self.dtype = wish, dtype
        self.names: list[Any] | None = None
        self.writer: RowWriter | None = None
        self.screen = Screen(wish.bad_rows)

    def add(self, block: Block, numbers: Numbers) -> None:
        """Check rows and write them."""
        if self.writer is None:
            self.names, self.dtype = numbers.names, self.dtype or numbers.matrix.dtype
            self.writer = RowWriter(self.wish.folder, numbers.matrix.shape[1], self.dtype)
        self._compare(block, numbers)
        rows = self.screen.passed(block, numbers.matrix, self.names)
        self.writer.append(rows)

    def _compare(self, block: Block, numbers: Numbers) -> None:
        """A block must be like those before."""
        assert self.writer is not None
        n_columns = numbers.matrix.shape[1]
        if not n_columns:
            raise ValueError(f"X: {block.where} has no columns: give at least 1")
        if n_columns != self.writer.n_columns:
            words = f"{n_columns} columns, those before have {self.writer.n_columns}: give the same columns everywhere"
            raise ValueError(f"X: {block.where} has {words}")
        if (numbers.names is None) != (self.names is None):
            has = "no names of columns, those before have" if numbers.names is None else "names of columns, others not"
            raise ValueError(f"X: {block.where} has {has}: give arrays only, or data frames only")
        if not np.can_cast(numbers.matrix.dtype, self.writer.dtype):
            raise ValueError(
                f"X: {block.where} has {numbers.matrix.dtype} numbers, those before are {self.writer.dtype}: give the "
                "same type everywhere"
            )

    def finish(self, what: str) -> Source:
        """All rows that were written."""
        self.screen.finish(what)
        assert self.writer is not None
        is_named = self.names is not None and all(isinstance(name, str) for name in self.names)
        return Source(self.writer.close(), self.names if is_named else None, self.screen.n_left_out)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.writer is not None:
            self.writer.abort()


def check_space(shape: tuple[int, int], dtype: np.dtype, folder: str) -> None:
    """Refuse to begin what cannot end."""
    needed, free = shape[0] * shape[1] * dtype.itemsize, shutil.disk_usage(folder).free
    if needed > free:
        raise FolderError(
            errno.ENOSPC,
            f"{spaced(shape[0])} rows need {needed / 1e9:.3g} GB in {folder!r}, where {free / 1e9:.3g} GB are free: "
            "name another folder by spill_dir",
        )
