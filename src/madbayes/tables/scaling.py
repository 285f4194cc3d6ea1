"""Scales that make columns of numbers comparable, what stands where a value is missing, and the way back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.tables.checks import TableError
from madbayes.tables.columns import Column
from madbayes.tables.moments import Moments, no_moments
from madbayes.tables.selection import order_statistics

# Beyond this, squares leave the range of floating point.
LARGEST = 1e140
# Interquartile range of a Gaussian of unit variance.
GAUSSIAN_IQR = 1.3489795003921634
QUARTILES = (0.25, 0.5, 0.75)


class Scaling(NamedTuple):
    """What was learned of encoded columns; an array with a number for each of them.

    A number x becomes (factor x - centre) / unit. Factors are powers of two: multiplying by them is exact, and squares
    of what they give are representable.
    """

    means: NDArray[np.float64]  # of the training rows, in original units
    deviations: NDArray[np.float64]
    fill: NDArray[np.float64]
    factors: NDArray[np.float64]
    centres: NDArray[np.float64]
    units: NDArray[np.float64]

    def filled(self, encoded: NDArray) -> NDArray:
        """The same, without missing values."""
        return np.where(np.isnan(encoded), self.fill, encoded) if np.isnan(encoded).any() else encoded

    def scaled(self, encoded: NDArray) -> NDArray:
        """Numbers that can be compared."""
        return np.ascontiguousarray((encoded * self.factors - self.centres) / self.units)

    def original(self, scaled: NDArray) -> NDArray[np.float64]:
        """The way back."""
        with np.errstate(over="ignore"):
            return (scaled * self.units + self.centres) / self.factors


class Extent(NamedTuple):
    """What a first look at encoded columns gave."""

    n_rows: int
    counts: NDArray[np.int64]  # values that are not missing
    highest: NDArray[np.float64]  # by size, without the sign
    sums: NDArray[np.float64]  # of zeros and ones: how many rows are of a category


def extent_of(blocks: Iterable[NDArray[np.float64]]) -> Extent:
    """Look at encoded columns, with NaN where a value is missing."""
    n_rows, counts, highest, sums = 0, np.int64(0), np.float64(0), np.float64(0)
    with np.errstate(over="ignore", invalid="ignore"):  # sums of huge numbers, which nobody asks for
        for block in blocks:
            n_rows += len(block)
            counts = counts + (~np.isnan(block)).sum(axis=0)
            highest = np.fmax(highest, np.fmax.reduce(np.abs(block), axis=0, initial=0.0))
            sums = sums + np.nansum(block, axis=0)
    return Extent(n_rows, np.asarray(counts), np.asarray(highest), np.asarray(sums))


def learn_scaling(
    blocks: Iterable[NDArray[np.float64]],
    extent: Extent,
    columns: Sequence[Column],
    *,
    kind: str,
    scale: str,
    missing: str,
) -> Scaling:
    """Means, deviations, fillings and scales of the training rows.

    Parameters
    ----------
    blocks : iterable of arrays of shape (n_rows, n_columns)
        Gone through a few times. With NaN where a value is missing.
    extent : Extent
        Of the same blocks.
    columns : sequence of Column
        What the columns are numbers of.
    kind, scale, missing
        As in :class:`madbayes.tables.Recipe`.

    Returns
    -------
    Scaling
    """
    if scale == "none":
        check_squares(extent.highest, columns)
    factors = 2.0 ** -np.clip(np.frexp(extent.highest)[1], -1000, 1024)
    gaps = extent.n_rows - extent.counts
    fillings, quartiles = order_values(blocks, extent, columns, scale=scale, missing=missing)
    moments = no_moments(len(factors))
    for block in blocks:
        moments += Moments.of(block * factors)
    if missing == "median":
        moments += Moments(gaps.astype(np.float64), fillings * factors, np.zeros(len(factors)))
    means, deviations = moments.means, moments.deviations
    centres, units = means, deviations
    if scale == "robust":
        low, centres, high = quartiles * factors
        spread = (high - low) / GAUSSIAN_IQR
        units = np.where(spread > 0, spread, deviations)  # where most values are the same
    is_plain = ~is_number_column(columns) | (units == 0) | (scale == "none")
    return Scaling(
        means / factors,
        deviations / factors,
        fillings,
        np.where(is_plain, 1.0, factors),
        np.where(is_plain | (kind == "features"), 0.0, centres),
        np.where(is_plain, 1.0, units),
    )


def is_number_column(columns: Sequence[Column]) -> NDArray[np.bool_]:
    """Which of the encoded columns are numbers, not zeros and ones."""
    return np.array([column.role == "number" for column in columns for _ in column.encoded_names])


def check_squares(highest: NDArray, columns: Sequence[Column]) -> None:
    """Refuse numbers too large to be used as they are."""
    if highest.max() > LARGEST:
        names = [name for column in columns for name in column.encoded_names]
        raise TableError(
            f"column {names[int(highest.argmax())]!r} has values up to {highest.max():.3g}, whose squares cannot be "
            "computed: scale it with --scale standard, or leave it out"
        )


def order_values(
    blocks: Iterable[NDArray[np.float64]], extent: Extent, columns: Sequence[Column], *, scale: str, missing: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What stands for a missing value, and the quartiles of numbers when it does; zeros where nobody asks."""
    D = len(extent.counts)
    fillings, quartiles = np.zeros(D), np.zeros((3, D))
    needs_median = np.full(D, missing == "median") & ~in_categories(columns)
    needs_quartiles = is_number_column(columns) & (scale == "robust")
    needed = np.flatnonzero(needs_median | needs_quartiles).tolist()
    plans = {d: Plan(int(extent.counts[d]), extent.n_rows) for d in needed}
    ranks = {d: plan.ranks(quartiles=bool(needs_quartiles[d])) for d, plan in plans.items()}
    found = order_statistics(blocks, ranks, extent.counts) if plans else {}
    for d, plan in plans.items():
        values = {rank: found[d, rank] for rank in ranks[d]}
        fillings[d] = plan.median(values) if needs_median[d] else 0.0
        if needs_quartiles[d]:
            quartiles[:, d] = [plan.quantile(values, share) for share in QUARTILES]
    if missing == "median":
        fill_texts_and_flags(fillings, extent.sums, columns)
    return fillings, quartiles


def in_categories(columns: Sequence[Column]) -> NDArray[np.bool_]:
    """Which of the encoded columns are of a category."""
    return np.array([column.role == "category" for column in columns for _ in column.encoded_names])


def fill_texts_and_flags(fillings: NDArray[np.float64], sums: NDArray, columns: Sequence[Column]) -> None:
    """The most frequent category, and the most frequent of zero and one; in place."""
    place = 0
    for column in columns:
        here = slice(place, place + len(column.encoded_names))
        place = here.stop
        if column.role == "category":
            fillings[here] = np.arange(here.stop - here.start) == sums[here].argmax()
        elif column.role == "flag":
            fillings[here] = np.round(fillings[here])


class Plan(NamedTuple):
    """Quantiles of a column in which the median stands for what is missing, by the ranks of values that are there."""

    n: int  # values that are there
    n_rows: int  # with those that are missing

    def ranks(self, *, quartiles: bool) -> list[int]:
        """Ranks that are needed, from 0."""
        places = [place for share in QUARTILES for place in self._places(share)[:2]] if quartiles else []
        there = [self._rank(place) for place in places]
        return [*self._middle(), *(rank for rank in there if rank is not None)]

    def median(self, values: Mapping[int, float]) -> float:
        """Of the values that are there."""
        low, high = (values[rank] for rank in self._middle())
        return middle(low, high, 0.5)

    def quantile(self, values: Mapping[int, float], share: float) -> float:
        """As in NumPy: between two values in a straight line."""
        before, after, way = self._places(share)
        ranks = self._rank(before), self._rank(after)
        low, high = (self.median(values) if rank is None else values[rank] for rank in ranks)
        return middle(low, high, way)

    def _middle(self) -> tuple[int, int]:
        return (self.n - 1) // 2, self.n // 2

    def _places(self, share: float) -> tuple[int, int, float]:
        exact = share * (self.n_rows - 1)
        return int(exact), min(int(exact) + 1, self.n_rows - 1), exact - int(exact)

    def _rank(self, place: int) -> int | None:
        """Of the value that is in a place when all are in order; None for the median, which stands for others."""
        last = (self.n - 1) // 2
        if place <= last:
            return place
        gaps = self.n_rows - self.n
        return place - gaps if place > last + gaps else None


def middle(low: float, high: float, way: float) -> float:
    """Part of the way from one number to another, which are no further apart than floating point can tell."""
    return low if low == high else low * (1 - way) + high * way
