"""Checks of blocks of rows, one after the other."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Called with the file or the number of the block, the numbers of bad rows in it, and these rows.
BadRows = Callable[[str | int, NDArray[np.intp], Any], None]

# Numbers that NumPy compares in one go.
LONG = 1024


class Block(NamedTuple):
    """Rows that come together, and where they come from."""

    source: str | int  # a file, or the number of a block
    first: int  # the number of its first row there
    values: Any  # an array or a data frame
    part: str = ""  # of a file

    @property
    def where(self) -> str:
        """In words."""
        return f"block {self.source}" if isinstance(self.source, int) else f"{self.source!r}{self.part}"


class Screen:
    """Lets finite rows through, and remembers the range of what has passed."""

    def __init__(self, bad_rows: str | BadRows) -> None:
        self.bad_rows, self.n_left_out = bad_rows, 0
        self.range: NDArray | None = None  # lowest and highest of each column

    def passed(self, block: Block, numbers: NDArray, columns: Sequence[Any] | None = None) -> NDArray:
        """The rows of a block without the bad ones."""
        with np.errstate(invalid="ignore"):
            found = extremes(numbers)
        if not np.isfinite(found).all():
            numbers = self._without_bad(block, numbers, columns)
            found = extremes(numbers)
        if len(found):
            both = found if self.range is None else np.concatenate([self.range, found])
            self.range = extremes(both)
        return numbers

    def _without_bad(self, block: Block, numbers: NDArray, columns: Sequence[Any] | None) -> NDArray:
        is_good = np.isfinite(numbers).all(axis=1)
        bad = np.flatnonzero(~is_good)
        if not callable(self.bad_rows):
            n, d = bad[0], int(np.flatnonzero(~np.isfinite(numbers[bad[0]]))[0])
            name = d if columns is None else repr(columns[d])
            raise ValueError(
                f"X: {block.where}, row {block.first + n}, column {name} is {numbers[n, d]}: finite numbers are "
                "accepted; correct the row or leave it out"
            )
        self.n_left_out += len(bad)
        self.bad_rows(block.source, block.first + bad, rows_of(block.values, bad))
        return numbers[is_good]

    def finish(self, what: str) -> None:
        """Errors about all rows together."""
        # Estimators are built on this package, so they are not there yet when it is imported.
        from madbayes.estimators.validation import check_range

        if self.range is None:
            left_out = f", {self.n_left_out} bad ones being left out" if self.n_left_out else ""
            raise ValueError(f"X: {what} has no rows{left_out}: give at least 1")
        check_range(self.range)


def extremes(numbers: NDArray) -> NDArray:
    """Lowest and highest of each column, as two rows; no rows of no rows."""
    n_columns = numbers.shape[1]
    # NumPy is slow where rows are short, so many of them are compared as one.
    together = max(1, LONG // max(1, n_columns))
    n_whole = len(numbers) // together * together
    if n_whole:
        long = numbers[:n_whole].reshape(-1, together * n_columns)
        found = [extreme.reshape(together, n_columns) for extreme in (long.min(axis=0), long.max(axis=0))]
        numbers = np.concatenate([*found, numbers[n_whole:]])
    return np.stack([numbers.min(axis=0), numbers.max(axis=0)]) if len(numbers) else numbers


def rows_of(values: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of an array, or of a data frame of any kind; those of Arrow become pandas."""
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "to_pandas") and hasattr(values, "schema") and hasattr(values, "take"):
        return values.take(rows).to_pandas()
    return np.asarray(values)[rows] if isinstance(values, list | tuple) else values[rows]
