"""Principal axes of a table, and the coordinates of rows on them."""

import numpy as np
from numpy.typing import NDArray

# Rows are projected so many at a time.
BLOCK = 2048


def principal_axes(centred: NDArray, count: int) -> NDArray[np.float64]:
    """The axes along which rows vary most about zero, one in each row."""
    if len(centred) > centred.shape[1]:
        axes = np.linalg.eigh(centred.T @ centred)[1].T[::-1]
    else:
        axes = np.linalg.svd(centred, full_matrices=False)[2]
    axes = axes[:count]
    # The sign of an axis is free: its longest number is positive.
    return axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]


def project(rows: NDArray, axes: NDArray, origin: NDArray) -> NDArray[np.float64]:
    """Coordinates on the axes, summed in the same order for one row as for many, which BLAS does not promise."""
    found = np.zeros((len(rows), len(axes)))
    for begin in range(0, len(rows), BLOCK):
        part, block = rows[begin : begin + BLOCK] - origin, found[begin : begin + BLOCK]
        for d, axis in enumerate(axes.T):
            block += part[:, d, None] * axis
    return found
