"""One feature less: which one to do without, and which others its rows should have instead, by exact least squares."""

import numpy as np
from numpy.typing import NDArray

# Features that may take the place of one, if it is not said how many: all pairs of them are compared.
PARTNERS = 15
# Sets of columns that are compared at once.
BATCH = 512
# Columns that say the same have no inverse without this share of all weight.
RIDGE = 1e-9


def reductions(
    X: NDArray, weights: NDArray, Z: NDArray[np.uint8], gone: NDArray[np.intp], most: int, n_partners: int = PARTNERS
) -> list[NDArray[np.uint8]]:
    """The allocations without one of some features that explain most of X, the best first.

    Its rows may have one or two of the others instead, whether they had them before or not.
    """
    K = Z.shape[1]
    left = all_but_one(K)[gone]
    # After the columns of Z come those with the rows of a feature that may go as well, K for each of these.
    columns = np.hstack([Z, (Z[:, gone, None] | Z[:, None, :]).reshape(len(Z), -1)])
    joined = left + K * (1 + np.arange(len(gone)))[:, None]

    every, here = np.arange(K - 1), np.arange(len(gone))[:, None]
    single = np.repeat(left[:, None], K - 1, axis=1)
    single[:, every, every] = joined
    explained = explained_squares(X, weights, columns, np.concatenate(single))
    partners = (-explained).reshape(len(gone), K - 1).argsort(axis=1)[:, :n_partners]

    first, second = (partners[:, pair] for pair in np.triu_indices(partners.shape[1], 1))
    double = np.repeat(left[:, None], first.shape[1], axis=1)
    for place in (first, second):
        double[here, np.arange(first.shape[1]), place] = joined[here, place]

    sets = np.concatenate([left, *single, *double])
    best = (-explained_squares(X, weights, columns, sets)).argsort(kind="stable")[:most]
    return [columns[:, sets[i]] for i in best]


def all_but_one(K: int) -> NDArray[np.intp]:
    """The numbers up to K without the first, without the second, and so on."""
    return np.arange(K)[None].repeat(K, axis=0)[~np.eye(K, dtype=bool)].reshape(K, max(K - 1, 0))


def explained_squares(
    X: NDArray, weights: NDArray, columns: NDArray[np.uint8], sets: NDArray[np.intp]
) -> NDArray[np.float64]:
    """What the best features of some columns, one row of ``sets`` after the other, explain of the squares of X.

    With Z those columns, W the weights and B = Z'WX, the trace of B'(Z'WZ)^-1 B.
    """
    U = columns.astype(np.float64)
    gram, products = (U.T * weights) @ U, (U.T * weights) @ X
    squares, explained = products @ products.T, np.empty(len(sets))
    diagonal = np.arange(sets.shape[1])
    for i in range(0, len(sets), BATCH):
        some = sets[i : i + BATCH]
        pairs = some[:, :, None], some[:, None, :]
        grams = gram[pairs]
        grams[:, diagonal, diagonal] += RIDGE * weights.sum()
        explained[i : i + BATCH] = (np.linalg.inv(grams) * squares[pairs]).sum(axis=(1, 2))
    return explained
