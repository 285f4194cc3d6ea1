"""Which features a row has, given the features: the one row solver of fit and transform."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.paper.features import all_codes

# Up to this many features all codes are compared; above it, descent, then branch and bound with so many nodes.
EXACT_LIMIT, NODE_LIMIT = 10, 5000


def best_codes(X: NDArray, A: NDArray, workers: Workers) -> NDArray[np.uint8]:
    """The code z of least squared error |x - zA|^2 for each row.

    Exact up to EXACT_LIMIT features, and above it where branch and bound comes to its end; in any case no flip of one
    or two bits helps. A row's answer depends on the row and A alone.
    """
    A = np.ascontiguousarray(A, dtype=np.float64)
    K, D = A.shape
    if K == 0:
        return np.zeros((len(X), 0), dtype=np.uint8)
    Q, R = np.linalg.qr(A.T)
    solve = _compare_all if K <= EXACT_LIMIT else _search

    def one(rows: slice) -> NDArray[np.uint8]:
        return solve(np.ascontiguousarray(X[rows], dtype=np.float64), A, Q, R).astype(np.uint8)

    return np.concatenate(workers.map(one, row_blocks(len(X), max(D, 2 ** min(K, EXACT_LIMIT)))))


def _compare_all(X: NDArray, A: NDArray, Q: NDArray, R: NDArray) -> NDArray:
    """All codes, those with fewer ones first; the first of those that rounding cannot tell apart.

    The part of x outside the span of A is the same for all codes, so they are compared in coordinates of that span,
    by differences: a large offset in X does no harm.
    """
    codes = all_codes(len(A))
    errors = cdist(X @ Q, codes @ R.T, "sqeuclidean")
    least = errors.min(axis=1)
    return codes[(errors <= (least + _doubt(X, least))[:, None]).argmax(axis=1)]


def _doubt(X: NDArray, errors: NDArray) -> NDArray:
    """How far rounding may move a squared error, the coordinates being off by some ulps of the row."""
    slack = 1e-14 * np.sqrt(np.einsum("nd,nd->n", X, X))
    return 1e-12 * errors + 2 * slack * np.sqrt(errors) + slack**2


def _search(X: NDArray, A: NDArray, Q: NDArray, R: NDArray) -> NDArray:
    """Descent and branch and bound, row by row."""
    from madbayes.engine import kernels

    K, codes = len(A), np.empty((len(X), len(A)), dtype=np.uint8)
    offset = np.zeros(K)
    if Q.shape[1] < K:
        # More features than columns: as bits are their own squares, e on the diagonal of AA' and e / 2 beside Ax
        # leave every error as it is, and there is a triangle.
        e = 0.1 * np.einsum("kd,kd->", A, A) / K + np.finfo(float).tiny
        R = np.linalg.cholesky(A @ A.T + e * np.eye(K)).T
        Q, offset = np.linalg.solve(R.T, A).T, np.linalg.solve(R.T, np.full(K, e / 2))
    kernels.search_codes(X, A, np.ascontiguousarray(Q), np.ascontiguousarray(R), offset, np.linalg.pinv(A), codes,
                         NODE_LIMIT)  # fmt: skip
    return codes
