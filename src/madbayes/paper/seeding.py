"""Where runs start: ++ seeding for features and clusters, and a penalty from a wanted number of clusters."""

import numpy as np
from numpy.typing import NDArray

from madbayes.model.likelihoods import Weights, squared_error
from madbayes.paper.result import rounding_error

Seed = int | np.random.Generator | None


def add_feature(R: NDArray, n: int) -> tuple[NDArray, NDArray]:
    """The feature that explains the residual of row n, and the rows whose residual it shortens."""
    a = R[n]
    return a, R @ a > 0.5 * (a @ a)


def draw_row(errors: NDArray, rng: np.random.Generator) -> int:
    """A row, with probability proportional to its error."""
    cumulative = errors.cumsum()
    return int(min(cumulative.searchsorted(rng.random() * cumulative[-1], side="right"), len(errors) - 1))


def seed_features(
    X: NDArray,
    K: int | None = None,
    *,
    penalty: float | None = None,
    random_state: Seed = None,
    sample_weight: Weights = None,
) -> tuple[NDArray[np.uint8], NDArray]:
    """K-means++ for features: a base feature for all rows, then residuals of rows drawn by their error.

    With K unknown, features are added to the base as long as they lower the objective at the given penalty. With K
    known, there are fewer only when the squared error is zero.

    Paper: section 5, the initialisation.

    Parameters
    ----------
    X : array of shape (N, D)
    K : int, optional
        Number of features.
    penalty : float, optional
        The price of a feature; needed when K is not given.
    random_state : int or numpy Generator, optional
    sample_weight : array of shape (N,), optional
        Positive.

    Returns
    -------
    Z : array of shape (N, K)
    A : array of shape (K, D)

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> X = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 4.0]])
    >>> Z, A = paper.seed_features(X, 2, random_state=0)
    >>> Z[:, 0], A[0]
    (array([1, 1, 1], dtype=uint8), array([1.        , 1.33333333]))
    """
    rng = np.random.default_rng(random_state)
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    columns: list[NDArray] = []
    features: list[NDArray] = []
    R, negligible = np.array(X, dtype=float), rounding_error(X)
    price = 0.0 if penalty is None else penalty
    while K is None or len(columns) < K:
        squares = np.einsum("nd,nd->n", R, R)
        if squares.max() <= negligible:
            break
        errors = weights * squares
        if columns:
            a, z = add_feature(R, draw_row(errors, rng))
        else:
            a, z = np.average(X, axis=0, weights=weights), np.ones(len(X), dtype=bool)
        R_next = R - np.outer(z, a)
        if K is None and columns and not squared_error(R_next, weights) + price < errors.sum():
            break
        columns.append(z)
        features.append(a)
        R = R_next
    Z = np.array(columns, dtype=np.uint8).reshape(-1, len(X)).T
    return Z, np.array(features).reshape(-1, X.shape[1])


def seed_clusters(X: NDArray, K: int, *, random_state: Seed = None, sample_weight: Weights = None) -> NDArray:
    """K-means++: rows drawn by their squared distance to the rows drawn before.

    Fewer than K when there are fewer distinct rows.

    Paper: section 5, K-means++ of Arthur and Vassilvitskii.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> np.sort(paper.seed_clusters(np.array([[0.0], [0.0], [7.0]]), 2, random_state=0), axis=0)
    array([[0.],
           [7.]])
    """
    rng = np.random.default_rng(random_state)
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    centres: list[NDArray] = []
    errors = weights
    while len(centres) < K and errors.any():
        centres.append(X[draw_row(errors, rng)])
        d = weights * ((X - centres[-1]) ** 2).sum(axis=1)
        errors = d if len(centres) == 1 else np.minimum(errors, d)
    return np.array(centres)


def farthest_first_penalty(X: NDArray, K: int) -> float:
    """The penalty at which DP-means may be expected to open about K clusters.

    Start with the mean, add the farthest row K times; the penalty is the last of those squared distances. This
    calibrates the threshold that opens a cluster, not the number of clusters of the optimum.

    Paper: section 5, the heuristic of Kulis and Jordan.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> paper.farthest_first_penalty(np.array([[0.0], [1.0], [10.0], [11.0]]), K=1)
    30.25
    """
    closest = ((X - X.mean(axis=0)) ** 2).sum(axis=1)
    for _ in range(K):
        n = closest.argmax()
        penalty = float(closest[n])
        closest = np.minimum(closest, ((X - X[n]) ** 2).sum(axis=1))
    return penalty
