"""Feature codes, told on a base where that can be."""

import numpy as np
from numpy.typing import NDArray

from madbayes.model.likelihoods import least_squares


def code_of(z: NDArray) -> str:
    """Bits as text."""
    return "".join(str(int(bit)) for bit in z)


def group_numbers(Z: NDArray) -> NDArray[np.intp]:
    """The rows with the same code have the same number, from 0 on."""
    return np.unique(Z, axis=0, return_inverse=True)[1].ravel()


def on_a_base(X: NDArray, Z: NDArray) -> tuple[NDArray[np.uint8], NDArray]:
    """The same fit with a feature in all rows, if there is such a way to tell it; that feature first.

    Where the columns of Z can be added up to ones, a column that takes part in the sum may be replaced by ones: the
    sums ZA stay the same. Two features of which every row has just one are the simplest case: the first for all, and
    the difference for those that have the second. A feature of most rows is then told by those that lack it.
    """
    N, K = Z.shape
    if K and not Z.all(axis=0).any():
        share = np.linalg.lstsq(Z.astype(float), np.ones(N), rcond=None)[0]
        if not np.allclose(Z @ share, 1):
            return Z, least_squares(X, Z)
        Z = Z.copy()
        Z[:, np.abs(share).argmax()] = 1
    if K:
        sizes = Z.sum(axis=0)
        Z = np.where((2 * sizes > N) & (sizes < N), 1 - Z, Z).astype(np.uint8)
        Z = Z[:, np.argsort(-Z.sum(axis=0, dtype=int), kind="stable")]
    return Z, least_squares(X, Z)
