"""Which features a row has, given the features: the one row solver of fit and transform."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.paper.features import all_codes

# Up to this many features all codes are compared; above it, descent by single and pair flips.
EXACT_LIMIT = 10


def best_codes(X: NDArray, A: NDArray, workers: Workers) -> NDArray[np.uint8]:
    """The code z of least squared error |x - zA|^2 for each row: exact up to EXACT_LIMIT features.

    A row's answer depends on the row and A alone. The part of x outside the span of A is the same for all codes,
    so codes are compared in coordinates of that span, by differences: a large offset in X does no harm.
    """
    A = np.asarray(A, dtype=float)
    K = len(A)
    if K == 0:
        return np.zeros((len(X), 0), dtype=np.uint8)
    basis, triangle = np.linalg.qr(A.T)
    solve = _compare_all if K <= EXACT_LIMIT else _descend
    entries = 2**K if K <= EXACT_LIMIT else K * K

    def one(rows: slice) -> NDArray[np.uint8]:
        some = X[rows].astype(float, copy=False)
        return solve(some @ basis, triangle.T, some).astype(np.uint8)

    return np.concatenate(workers.map(one, row_blocks(len(X), max(entries, X.shape[1]))))


def _compare_all(Y: NDArray, A: NDArray, X: NDArray) -> NDArray:
    """All codes, those with fewer ones first; the first of those that rounding cannot tell apart."""
    codes = all_codes(len(A))
    errors = cdist(Y, codes @ A, "sqeuclidean")
    least = errors.min(axis=1)
    return codes[(errors <= (least + _doubt(X, least))[:, None]).argmax(axis=1)]


def _doubt(X: NDArray, errors: NDArray) -> NDArray:
    """How far rounding may move a squared error, the coordinates being off by some ulps of the row."""
    slack = 1e-14 * np.sqrt(np.einsum("nd,nd->n", X, X))
    return 1e-12 * errors + 2 * slack * np.sqrt(errors) + slack**2


def _descend(Y: NDArray, A: NDArray, X: NDArray) -> NDArray:
    """Best single or pair flip until none helps, from no feature and from rounded least squares."""
    rounded = Y @ np.linalg.pinv(A) > 0.5
    starts = [np.zeros(rounded.shape), rounded.astype(float)]
    ends = [_flip_until_done(Y, A, X, Z) for Z in starts]
    errors = np.stack([((Y - Z @ A) ** 2).sum(axis=1) for Z in ends])
    second = errors[1] < errors[0] - _doubt(X, errors[0])
    return np.where(second[:, None], ends[1], ends[0])


def _flip_until_done(Y: NDArray, A: NDArray, X: NDArray, Z: NDArray) -> NDArray:
    """Flip s bits at a time: the change is the sum of the single changes plus twice their interaction."""
    Z, G = Z.copy(), A @ A.T
    first, second = np.triu_indices(len(A))
    active = np.arange(len(Y))
    while len(active):
        R, signs = Y[active] - Z[active] @ A, 1 - 2 * Z[active]
        single = np.diag(G) - 2 * signs * (R @ A.T)
        change = single[:, first] + single[:, second] + 2 * signs[:, first] * signs[:, second] * G[first, second]
        change[:, first == second] = single
        best = change.argmin(axis=1)
        gains = change[np.arange(len(active)), best] < -_doubt(X[active], (R**2).sum(axis=1))
        active, best = active[gains], best[gains]
        for bits in (first[best], np.where(first[best] == second[best], -1, second[best])):
            rows = active[bits >= 0]
            Z[rows, bits[bits >= 0]] = 1 - Z[rows, bits[bits >= 0]]
    return Z
