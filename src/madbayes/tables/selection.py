"""Order statistics of columns that come in blocks: exact, in bounded memory, by going through them a few times."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

# Numbers that may be collected at a time, for all columns together; parts into which a range is divided.
ROOM, PARTS = 1 << 22, 2048
SIGN = np.uint64(1 << 63)


def keys_of(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Numbers as whole numbers of the same order."""
    bits = np.ascontiguousarray(numbers).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def number_of(key: int) -> float:
    """The way back."""
    bits = key ^ (1 << 63) if key >> 63 else key ^ ((1 << 64) - 1)
    return float(np.array([bits], dtype=np.uint64).view(np.float64)[0])


@dataclass
class Range:
    """Keys of a column among which some of its order statistics are."""

    column: int
    low: int
    high: int  # inclusive
    before: int  # values of the column below it
    size: int  # values in it
    ranks: list[int]
    counts: NDArray[np.int64] | None = None  # in its parts, if it is too large to be collected
    values: list[NDArray[np.uint64]] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Keys in a part."""
        return -(-(self.high - self.low + 1) // PARTS)

    def add(self, keys: NDArray[np.uint64]) -> None:
        """See some keys of the column."""
        inside = keys[(keys >= np.uint64(self.low)) & (keys <= np.uint64(self.high))]
        if self.counts is None:
            self.values.append(inside)
        else:
            parts = ((inside - np.uint64(self.low)) // np.uint64(self.width)).astype(np.intp)
            self.counts += np.bincount(parts, minlength=PARTS)

    def parts(self) -> Iterable["Range"]:
        """Those parts that have order statistics in them."""
        assert self.counts is not None
        ends = self.before + np.cumsum(self.counts)
        places = np.searchsorted(ends, self.ranks, side="right")
        for part in np.unique(places).tolist():
            low, size = self.low + part * self.width, int(self.counts[part])
            ranks = [rank for rank, place in zip(self.ranks, places, strict=True) if place == part]
            high = min(self.high, low + self.width - 1)
            yield Range(self.column, low, high, int(ends[part]) - size, size, ranks)

    def found(self) -> dict[tuple[int, int], float]:
        """Order statistics by column and rank."""
        ordered = np.sort(np.concatenate(self.values))
        return {(self.column, rank): number_of(int(ordered[rank - self.before])) for rank in self.ranks}


def order_statistics(
    blocks: Iterable[NDArray[np.float64]],
    ranks: Mapping[int, Sequence[int]],
    sizes: NDArray[np.int64],
    room: int = ROOM,
) -> dict[tuple[int, int], float]:
    """Values of given ranks.

    Parameters
    ----------
    blocks : iterable of arrays of shape (n_rows, n_columns)
        Gone through a few times: three times for most tables, eight times at most. NaN stands for no value.
    ranks : dict of int to sequence of int
        For each column that is asked for, which of its values in ascending order, from 0.
    sizes : array of shape (n_columns,)
        How many values each column has.
    room : int
        Numbers that may be collected.

    Returns
    -------
    dict
        The value of each (column, rank).
    """
    whole = (1 << 64) - 1
    ranges = [Range(column, 0, whole, 0, int(sizes[column]), sorted(set(r))) for column, r in ranks.items() if r]
    found: dict[tuple[int, int], float] = {}
    while ranges:
        each = room // len(ranges)
        for one in ranges:
            one.counts = np.zeros(PARTS, dtype=np.int64) if one.size > each else None
        _go_through(blocks, ranges)
        large = [one for one in ranges if one.counts is not None]
        for one in ranges:
            if one.counts is None:
                found |= one.found()
        parts = [part for one in large for part in one.parts()]
        found |= {(one.column, rank): number_of(one.low) for one in parts if one.low == one.high for rank in one.ranks}
        ranges = [one for one in parts if one.low < one.high]
    return found


def _go_through(blocks: Iterable[NDArray[np.float64]], ranges: Sequence[Range]) -> None:
    for block in blocks:
        column, keys = -1, np.empty(0, dtype=np.uint64)
        for one in ranges:  # those of a column come one after the other
            if one.column != column:
                column, values = one.column, block[:, one.column]
                keys = keys_of(values[~np.isnan(values)])
            one.add(keys)
