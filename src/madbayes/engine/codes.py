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
    solve, order = (_compare_all, np.arange(K)) if K <= EXACT_LIMIT else (_search, decisive_last(A))
    A = A[order]
    Q, R = np.linalg.qr(A.T)
    codes = np.empty((len(X), K), dtype=np.uint8)

    def one(rows: slice) -> None:
        codes[rows, order] = solve(np.ascontiguousarray(X[rows], dtype=np.float64), A, Q, R)

    workers.map(one, row_blocks(len(X), max(D, 2 ** min(K, EXACT_LIMIT))))
    return codes


def decisive_last(A: NDArray) -> NDArray[np.intp]:
    """An order of the features in which the last one is farthest from the span of all others, and so on.

    Branch and bound decides the last bits first: the more a wrong one costs, the sooner a branch ends.
    """
    G = A @ A.T
    P = np.linalg.inv(G + 1e-6 * np.trace(G) / len(G) * np.eye(len(G)) + np.finfo(float).tiny * np.eye(len(G)))
    order, left = np.empty(len(A), dtype=np.intp), list(range(len(A)))
    for place in range(len(A) - 1, -1, -1):
        k = min(left, key=lambda k: P[k, k])
        left.remove(k)
        order[place] = k
        P = P - np.outer(P[:, k], P[k]) / P[k, k]
    return order


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
