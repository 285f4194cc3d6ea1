"""Principal axes of a table, and the coordinates of rows on them."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

# Rows are projected so many at a time.
BLOCK = 2048


def principal_axes(
    blocks: Iterable[NDArray[np.float64]], n_rows: int, count: int, *, centred: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The axes along which rows vary most, one in each row, and the point about which they do.

    Parameters
    ----------
    blocks : iterable of arrays of shape (n_rows, n_columns)
        Gone through once.
    n_rows : int
        Rows of all blocks together.
    count : int
        Axes to find.
    centred : bool
        About the mean; about zero if not.

    Returns
    -------
    axes, origin : arrays of shapes (count, n_columns) and (n_columns,)
    """
    few: list[NDArray[np.float64]] = []
    scatter = Scatter()
    for block in blocks:
        if n_rows <= block.shape[1]:
            few.append(block)  # no larger than the products would be
        else:
            scatter.add(block, centred=centred)
    if few:
        rows = np.concatenate(few)
        origin = rows.mean(axis=0) if centred else np.zeros(rows.shape[1])
        axes = np.linalg.svd(rows - origin, full_matrices=False)[2]
    else:
        axes, origin = np.linalg.eigh(scatter.products)[1].T[::-1], scatter.mean
    axes = axes[:count]
    # The sign of an axis is free: its longest number is positive.
    return axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None], origin


class Scatter:
    """Products of columns about their means, or about zero, put together block by block."""

    def __init__(self) -> None:
        self.n = 0
        self.mean: NDArray[np.float64] = np.zeros(1)
        self.products: NDArray[np.float64] = np.zeros((1, 1))

    def add(self, block: NDArray[np.float64], *, centred: bool) -> None:
        """See some rows."""
        mean = block.mean(axis=0) if centred else np.zeros(block.shape[1])
        about, step = block - mean, mean - self.mean
        share = len(block) / (self.n + len(block))
        self.products = self.products + about.T @ about + np.outer(step, step) * (self.n * share)
        self.mean = self.mean + step * share
        self.n += len(block)


def project(rows: NDArray, axes: NDArray, origin: NDArray) -> NDArray[np.float64]:
    """Coordinates on the axes, summed in the same order for one row as for many, which BLAS does not promise."""
    found = np.zeros((len(rows), len(axes)))
    for begin in range(0, len(rows), BLOCK):
        part, block = rows[begin : begin + BLOCK] - origin, found[begin : begin + BLOCK]
        for d, axis in enumerate(axes.T):
            block += part[:, d, None] * axis
    return found
