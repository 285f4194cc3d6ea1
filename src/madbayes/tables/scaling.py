"""Scales that make columns of numbers comparable, what stands where a value is missing, and the way back."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.tables.checks import TableError
from madbayes.tables.columns import Column

# Beyond this, squares leave the range of floating point.
LARGEST = 1e140
# Interquartile range of a Gaussian of unit variance.
GAUSSIAN_IQR = 1.3489795003921634


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


def learn_scaling(encoded: NDArray, columns: Sequence[Column], *, kind: str, scale: str, missing: str) -> Scaling:
    """Means, deviations, fillings and scales of the training rows.

    Parameters
    ----------
    encoded : array of shape (n_rows, n_columns)
        With NaN where a value is missing.
    columns : sequence of Column
        What the columns are numbers of.
    kind, scale, missing
        As in :class:`madbayes.tables.Recipe`.

    Returns
    -------
    Scaling
    """
    with np.errstate(invalid="ignore"):
        highest = np.nanmax(np.abs(encoded), axis=0)
    if scale == "none":
        check_squares(highest, columns)
    factors = 2.0 ** -np.clip(np.frexp(highest)[1], -1000, 1024)
    reduced, fill = encoded * factors, np.zeros(encoded.shape[1])
    if missing == "median":
        filling = fillings(reduced, columns, factors)
        reduced, fill = np.where(np.isnan(reduced), filling, reduced), filling / factors
    means, deviations = reduced.mean(axis=0), reduced.std(axis=0)
    centres, units = centres_and_units(reduced, means, deviations, scale)
    is_plain = ~np.array([column.role == "number" for column in columns for _ in column.encoded_names])
    is_plain |= (units == 0) | (scale == "none")
    return Scaling(
        means / factors,
        deviations / factors,
        fill,
        np.where(is_plain, 1.0, factors),
        np.where(is_plain | (kind == "features"), 0.0, centres),
        np.where(is_plain, 1.0, units),
    )


def check_squares(highest: NDArray, columns: Sequence[Column]) -> None:
    """Refuse numbers too large to be used as they are."""
    if highest.max() > LARGEST:
        names = [name for column in columns for name in column.encoded_names]
        raise TableError(
            f"column {names[int(highest.argmax())]!r} has values up to {highest.max():.3g}, whose squares cannot be "
            "computed: scale it with --scale standard, or leave it out"
        )


def centres_and_units(reduced: NDArray, means: NDArray, deviations: NDArray, scale: str) -> tuple[NDArray, NDArray]:
    """Of each column, in reduced numbers."""
    if scale != "robust":
        return means, deviations
    low, middle, high = np.percentile(reduced, [25, 50, 75], axis=0)
    units = (high - low) / GAUSSIAN_IQR
    return middle, np.where(units > 0, units, deviations)  # where most values are the same


def fillings(reduced: NDArray, columns: Sequence[Column], factors: NDArray) -> NDArray[np.float64]:
    """What stands for a missing value: the median, or the most frequent of zero and one, or category."""
    found, place = np.nanmedian(reduced, axis=0), 0
    for column in columns:
        here = slice(place, place + len(column.encoded_names))
        place = here.stop
        if column.role == "category":
            found[here] = np.arange(here.stop - here.start) == np.nansum(reduced[:, here], axis=0).argmax()
            found[here] *= factors[here]
        elif column.role == "flag":
            found[here] = np.round(found[here] / factors[here]) * factors[here]
    return found
