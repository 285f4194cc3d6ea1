"""Means and squared deviations of rows that come in blocks.

Blocks are put together as Chan, Golub and LeVeque (1983) do it: what is lost to rounding does not grow with the rows.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray


class Moments(NamedTuple):
    """Of each column: how many values, their mean, and their squared deviations from it in all."""

    counts: NDArray[np.float64]
    means: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray[np.float64]) -> Self:
        """Of some rows, with NaN where there is no value."""
        has_gaps = bool(np.isnan(rows).any())
        if not has_gaps:
            means = rows.mean(axis=0)
            return cls(np.full(rows.shape[1], float(len(rows))), means, ((rows - means) ** 2).sum(axis=0))
        counts = (~np.isnan(rows)).sum(axis=0).astype(np.float64)
        means = np.nansum(rows, axis=0) / np.maximum(counts, 1)
        return cls(counts, means, np.nansum((rows - means) ** 2, axis=0))

    def __add__(self, other: object) -> Self:
        """Of these rows and others."""
        assert isinstance(other, Moments)
        counts = self.counts + other.counts
        share = other.counts / np.maximum(counts, 1)
        step = other.means - self.means
        squares = self.squares + other.squares + step**2 * self.counts * share
        return type(self)(counts, self.means + step * share, squares)

    @property
    def deviations(self) -> NDArray[np.float64]:
        """Standard deviations."""
        return np.sqrt(self.squares / np.maximum(self.counts, 1))


def no_moments(n_columns: int) -> Moments:
    """Of no rows."""
    nothing = np.zeros(n_columns)
    return Moments(nothing, nothing, nothing)
