"""Columns of Z that explain more in place of those there are, each with all others as they are.

Rows that change their codes one after the other, and features that follow, end where many rows would have to change
together for one feature to be a better one. Here all rows of a feature are looked at for that feature alone.
"""

import numpy as np
from numpy.typing import NDArray

# Flips of rows in the search for a column.
STEPS = 300
# A column that explains more only by this share is the same but for rounding.
SAME_COLUMN = 1e-7


def better_column(
    R: NDArray, Z: NDArray[np.uint8], A: NDArray, P: NDArray, weights: NDArray, rng: np.random.Generator
) -> NDArray[np.uint8] | None:
    """Z with the first column that is found to be better than the one there is, in random order; None if none is.

    R = X - ZA are the residuals of least squares, and P = (Z'WZ)^-1.
    """
    from madbayes.engine import kernels

    WR, WZ = R * weights[:, None], Z * weights[:, None]
    WZP = WZ @ P
    products, left = np.empty((2, len(Z), len(Z)))  # in one piece: two cost more to get, time and again, than to fill
    np.matmul(WR, WR.T, out=products)
    np.matmul(-WZP, WZ.T, out=left)
    left[np.diag_indices(len(left))] += weights
    for k in rng.permutation(len(A)):
        if not P[k, k] > 0 or not (A[k] ** 2).sum() > 0:  # nothing that it alone explains
            continue
        size = P[k, k] ** -0.5
        a, column = A[k] * size, Z[:, k].copy()
        gain = kernels.search_column(products, left, WZP[:, k] * size, WR @ a, a @ a, size, column, STEPS, rng)
        if gain > 1 + SAME_COLUMN:
            return np.column_stack([Z[:, :k], column, Z[:, k + 1 :]])
    return None
