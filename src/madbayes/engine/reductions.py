"""One feature less: which one to do without, and which others its rows should have instead, by exact least squares.

Without feature g, the others have features A = PC with P = (Z'WZ)^-1 and C = Z'WX, and explain the squares tr(C'A).
Column j may become u = z_j or z_g. With j left out, the others explain |a_j|^2 / P_jj less; and u explains |s|^2 / m
more, where m is what is left of its square and s what is left of u'WX when the others have had their part. Of two
columns the same holds with matrices of two rows and columns.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Features that may take the place of one, if it is not said how many: all pairs of them are compared.
PARTNERS = 15
# Columns that say the same have no inverse without this share of all weight.
RIDGE = 1e-9


class Left(NamedTuple):
    """Least squares without a feature, and the columns its rows may be joined to; the first axis is which is gone."""

    explained: NDArray  # (n,), squares
    P: NDArray  # (n, K - 1, K - 1)
    AA: NDArray  # (n, K - 1, K - 1), products of features
    B: NDArray  # (n, K - 1, K - 1), least squares of joined columns, one in each column, on those left
    E: NDArray  # (n, K - 1, K - 1), products of what is left of joined columns then
    AS: NDArray  # (n, K - 1, K - 1), products of features with what is left of products with X
    SS: NDArray  # (n, K - 1, K - 1), products of the latter


def reductions(
    X: NDArray, weights: NDArray, Z: NDArray[np.uint8], gone: NDArray[np.intp], most: int, n_partners: int = PARTNERS
) -> list[NDArray[np.uint8]]:
    """The allocations without one of some features that explain most of X, the best first.

    Its rows may have one or two of the others instead, whether they had them before or not.
    """
    left, K, ridge = without_each(X, weights, Z, gone), Z.shape[1], RIDGE * float(weights.sum())
    here, every = np.arange(len(gone))[:, None], np.arange(K - 1)[None].repeat(len(gone), axis=0)
    single = explained_squares(left, here, every[:, None], ridge)
    partners = (-single).argsort(axis=1, kind="stable")[:, :n_partners]
    pairs = np.stack([partners[:, pair] for pair in np.triu_indices(partners.shape[1], 1)], axis=1)
    double = explained_squares(left, here, pairs, ridge)

    explained = np.hstack([left.explained[:, None], single, double])
    best = (-explained).argsort(axis=None, kind="stable")[:most]
    left_over = [np.delete(np.arange(K), k) for k in gone]
    ways = [[every[i, :0], *every[i, :, None], *pairs[i].T] for i in range(len(gone))]
    chosen = zip(*np.unravel_index(best, explained.shape), strict=True)
    return [joined(Z, gone[i], left_over[i][ways[i][way]]) for i, way in chosen]


def joined(Z: NDArray[np.uint8], k: int, others: NDArray[np.intp]) -> NDArray[np.uint8]:
    """Allocations without feature k, whose rows have others instead."""
    Z = Z.copy()
    Z[:, others] |= Z[:, [k]]
    return np.delete(Z, k, axis=1)


def without_each(X: NDArray, weights: NDArray, Z: NDArray[np.uint8], gone: NDArray[np.intp]) -> Left:
    """Least squares without each of some features.

    Products of joined columns come from rows that have three features: with bits their own squares, those of z_j or z_g
    and z_l or z_g is one in rows that have g, and in others those of z_j and z_l.
    """
    U, K = Z.astype(np.float64), Z.shape[1]
    columns = np.hstack([U, X])
    all_rows = (U.T * weights) @ columns  # Z'WZ and Z'WX
    with_gone = (U.T * (weights * U.T[gone])[:, None]) @ columns  # the same of rows that have the feature
    kept = ~np.eye(K, dtype=bool)[gone]
    square = kept[:, :, None] & kept[:, None, :]

    def some(products: NDArray) -> NDArray:
        """Of Z'WZ for each that is gone, those left."""
        return np.broadcast_to(products, square.shape)[square].reshape(len(gone), K - 1, K - 1)

    def features(products: NDArray) -> NDArray:
        """Of Z'WX likewise."""
        return np.broadcast_to(products, (*kept.shape, X.shape[1]))[kept].reshape(len(gone), K - 1, X.shape[1])

    gram, C = all_rows[:, :K], all_rows[:, K:]
    grams, of_gone = some(gram), gram[gone]
    mixed = some(gram + of_gone[:, :, None] - with_gone[:, :, :K])  # column j and joined column l
    joined = some(gram - with_gone[:, :, :K] + np.diag(gram)[gone, None, None])
    CX, JX = features(C), features(C + C[gone, None] - with_gone[:, :, K:])
    grams = grams + RIDGE * weights.sum() * np.eye(K - 1)
    P = np.linalg.inv(grams)
    A, B = P @ CX, P @ mixed
    S = JX - mixed.swapaxes(1, 2) @ A
    At, St = A.swapaxes(1, 2), S.swapaxes(1, 2)
    return Left((A * CX).sum(axis=(1, 2)), P, A @ At, B, joined - mixed.swapaxes(1, 2) @ B, A @ St, S @ St)


def explained_squares(left: Left, here: NDArray, places: NDArray[np.intp], ridge: float) -> NDArray[np.float64]:
    """What is explained when columns become joined ones: (n, m), for sets of one or two places (n, 1 or 2, m)."""
    first, second = places[:, :, None], places[:, None, :]

    def some(M: NDArray) -> NDArray:
        return M[here[:, :, None, None], first, second]

    Q, B, AA = inverse(some(left.P)), some(left.B), some(left.AA)
    QB = product(Q, B)
    BQ = QB.swapaxes(1, 2)
    cross = product(BQ, some(left.AS))
    M = some(left.E) + product(B.swapaxes(1, 2), QB) + ridge * np.eye(places.shape[1])[:, :, None]
    S = some(left.SS) + cross + cross.swapaxes(1, 2) + product(BQ, product(AA, QB))
    return np.asarray(left.explained[:, None] - (Q * AA).sum(axis=(1, 2)) + (inverse(M) * S).sum(axis=(1, 2)))


def product(M: NDArray, N: NDArray) -> NDArray:
    """Of matrices on axes 1 and 2."""
    return np.einsum("nijm,njkm->nikm", M, N)


def inverse(M: NDArray) -> NDArray:
    """Of symmetric matrices of one or two rows and columns on axes 1 and 2."""
    if M.shape[1] == 1:
        return 1.0 / M
    a, b, d = M[:, 0, 0], M[:, 0, 1], M[:, 1, 1]
    return np.stack([np.stack([d, -b], axis=1), np.stack([-b, a], axis=1)], axis=1) / (a * d - b * b)[:, None, None]
