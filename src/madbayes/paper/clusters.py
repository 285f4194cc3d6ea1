"""DP-means, its collapsed, capped and covariance versions, and K-means, as in the paper.

Rows may have weights, which must be positive: a weight multiplies the row's squared distance, never the penalty.
"""

from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from madbayes.model import (
    CRP,
    CollapsedGaussian,
    DirichletMultinomial,
    FullCovarianceGaussian,
    KnownCovarianceGaussian,
    MeansCovariances,
    Objective,
    capped_dp_means_objective,
    collapsed_dp_means_objective,
    dp_means_objective,
    k_means_objective,
)
from madbayes.model.likelihoods import Weights, least_squares, mahalanobis
from madbayes.model.priors import one_hot
from madbayes.paper.result import RELATIVE_GAIN, ROUNDING, Result, descend, rounding_error

Order = NDArray[np.integer] | None


def squared_distances(X: NDArray, A: NDArray) -> NDArray:
    """Squared distances, N x K, by differences: exact for data far from the origin."""
    return cdist(X, A, "sqeuclidean")


def drop_empty(Z: NDArray) -> NDArray:
    """Z without its empty columns."""
    return Z[:, Z.any(axis=0)]


def assign_or_open(
    labels: NDArray,
    D: NDArray,
    distances_to: Callable[[int, int], NDArray],
    penalty: float,
    *,
    weights: NDArray,
    negligible: float,
    order: NDArray,
    free: Iterator[int],
) -> NDArray:
    """One pass over the rows: each joins its nearest cluster, or opens one when that costs less.

    ``D`` holds the squared distances to the means at the start of the pass, which do not move during it. A new
    cluster sits on the row that opened it, so it is enough to keep the nearest cluster of each row up to date.
    ``free`` gives the labels that new clusters take, and ends when no more may be opened.
    """
    labels, rows = labels.copy(), np.arange(len(D))
    nearest, own = D.argmin(axis=1), D[rows, labels]
    closest = D[rows, nearest]
    label, threshold = next(free, None), (1 + RELATIVE_GAIN) * penalty
    for n in order:
        if label is not None and weights[n] * closest[n] > threshold and closest[n] > negligible:
            d, labels[n] = distances_to(n, label), label
            nearest, closest = np.where(d < closest, label, nearest), np.minimum(d, closest)
            label = next(free, None)
        elif closest[n] < own[n]:
            labels[n] = nearest[n]
    return labels


def _dp_descent(
    X: NDArray,
    objective: Objective,
    A: Any,
    distances: Callable[[Any], NDArray],
    group_at: Callable[[NDArray, int], Any],
    *,
    order: Order,
    max_clusters: int | None,
    sample_weight: Weights,
    max_iter: int,
    n_slots: int = 0,
) -> Result:
    """Passes of :func:`assign_or_open` and refits in turn.

    ``group_at(x, k)`` is cluster k placed on the point x. The first ``n_slots`` columns of Z keep their place when they
    are empty.
    """
    N = len(X)
    weights = np.ones(N) if sample_weight is None else sample_weight
    order = np.arange(N) if order is None else order
    negligible = ROUNDING * float(distances(group_at(np.zeros(X.shape[1]), 0)).max())

    def to_Z(labels: NDArray) -> NDArray:
        Z = one_hot(labels, max(labels.max() + 1, n_slots))
        return Z if n_slots else drop_empty(Z)

    def step(Z: NDArray, A: Any) -> tuple[NDArray, Any]:
        used = Z.sum(axis=0) > 0
        D = np.where(used, distances(A), np.inf)
        opening = range(len(used), max_clusters) if max_clusters is not None else count(len(used))
        labels = assign_or_open(
            Z.argmax(axis=1),
            D,
            lambda n, k: distances(group_at(X[n], k))[:, 0],
            objective.penalty,
            weights=weights,
            negligible=negligible,
            order=order,
            free=chain(np.flatnonzero(~used), opening),
        )
        Z = to_Z(labels)
        return Z, objective.likelihood.fit(X, Z, sample_weight)

    Z = to_Z(distances(A).argmin(axis=1))
    A = objective.likelihood.fit(X, Z, sample_weight)
    return descend(step, lambda Z, A: objective(X, Z, A, sample_weight), Z, A, max_iter)


def _global_mean(X: NDArray, sample_weight: Weights) -> NDArray:
    return np.average(X, axis=0, weights=sample_weight)[None]


def dp_means(
    X: NDArray,
    penalty: float,
    A: NDArray | None = None,
    *,
    order: Order = None,
    max_clusters: int | None = None,
    sample_weight: Weights = None,
    max_iter: int = 300,
) -> Result:
    """DP-means: nearest mean, or a new cluster when the squared distance exceeds the penalty.

    Paper: section 2, DP-means; section 4.2 with ``max_clusters``.

    Parameters
    ----------
    X : array of shape (N, D)
    penalty : float
        The price of each cluster after the first.
    A : array of shape (K, D), optional
        Means to start from; the mean of all rows if not given.
    order : permutation of the rows, optional
        The order in which a pass visits them.
    max_clusters : int, optional
        Never open more.
    sample_weight : array of shape (N,), optional
        Positive.
    max_iter : int

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> result = paper.dp_means(X, penalty=9.0)
    >>> result.labels, result.value
    (array([0, 0, 1, 1]), 10.0)
    """
    objective = dp_means_objective(penalty)
    if max_clusters is not None:
        objective = capped_dp_means_objective(max_clusters, penalty)
    start = _global_mean(X, sample_weight) if A is None else A
    return _dp_descent(
        X,
        objective,
        start,
        lambda A: squared_distances(X, A),
        lambda x, k: x[None],
        order=order,
        max_clusters=max_clusters,
        sample_weight=sample_weight,
        max_iter=max_iter,
    )


def covariance_dp_means(
    X: NDArray,
    penalty: float,
    likelihood: FullCovarianceGaussian | KnownCovarianceGaussian,
    A: NDArray | None = None,
    *,
    order: Order = None,
    max_clusters: int | None = None,
    sample_weight: Weights = None,
    max_iter: int = 300,
) -> Result:
    """DP-means with Mahalanobis distances, covariances learned or known.

    A row goes to the smallest Mahalanobis distance: the log-determinant is a price per cluster, not per row.
    With a known covariance for each cluster, cluster k is column k of Z and may be empty.

    Paper: Appendix E, the algorithm.

    Parameters
    ----------
    X, penalty, order, max_clusters, sample_weight, max_iter
        As in :func:`dp_means`. With K known covariances, K is the cap.
    likelihood : FullCovarianceGaussian or KnownCovarianceGaussian
    A : array of shape (K, D), optional
        Means to start from.

    Returns
    -------
    Result
        Its A is a MeansCovariances.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> from madbayes.model import KnownCovarianceGaussian
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> narrow = KnownCovarianceGaussian(np.diag([100.0, 0.01]))
    >>> paper.covariance_dp_means(X, 5.0, narrow).labels  # only the second column tells rows apart
    array([0, 0, 1])
    """
    n_slots = likelihood.n_slots
    cap = n_slots or max_clusters
    means = _global_mean(X, sample_weight) if A is None else np.asarray(A, dtype=float)
    covariances = np.stack([likelihood.initial_covariance(k) for k in range(len(means))])
    return _dp_descent(
        X,
        Objective(likelihood, CRP() if cap is None else DirichletMultinomial(cap), penalty),
        MeansCovariances(means, covariances),
        lambda A: mahalanobis(X, *A),
        lambda x, k: MeansCovariances(x[None], likelihood.initial_covariance(k)[None]),
        order=order,
        max_clusters=cap,
        sample_weight=sample_weight,
        max_iter=max_iter,
        n_slots=n_slots,
    )


def k_means(X: NDArray, A: NDArray, *, sample_weight: Weights = None, max_iter: int = 300) -> Result:
    """K-means from the K means A.

    A cluster that loses all its rows is put on the row of largest error, so that fewer than K are left only
    when the squared error is zero.

    Paper: section 4.2, K-means.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> paper.k_means(X, A=np.array([[0.0], [1.0]])).value
    1.0
    """
    K, objective = len(A), k_means_objective(len(A))
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    negligible = rounding_error(X)

    def refit(Z: NDArray) -> tuple[NDArray, NDArray]:
        Z = drop_empty(Z)
        A = least_squares(X, Z, sample_weight)
        errors = ((X - Z @ A) ** 2).sum(axis=1)
        n = (weights * errors).argmax()
        if Z.shape[1] == K or errors[n] <= negligible:
            return Z, A
        Z = np.hstack([Z, np.zeros((len(Z), 1), dtype=Z.dtype)])
        Z[n] = one_hot(np.array([Z.shape[1] - 1]), Z.shape[1])
        return refit(Z)

    def step(Z: NDArray, A: NDArray) -> tuple[NDArray, NDArray]:
        D, labels, rows = squared_distances(X, A), Z.argmax(axis=1), np.arange(len(X))
        nearest = D.argmin(axis=1)
        closer = D[rows, nearest] < D[rows, labels]
        return refit(one_hot(np.where(closer, nearest, labels), len(A)))

    Z, A = refit(one_hot(squared_distances(X, A).argmin(axis=1), K))
    return descend(step, lambda Z, A: objective(X, Z, A, sample_weight), Z, A, max_iter)


def collapsed_dp_means(
    X: NDArray,
    penalty: float,
    Z: NDArray | None = None,
    *,
    order: Order = None,
    max_clusters: int | None = None,
    sample_weight: Weights = None,
    max_iter: int = 300,
) -> Result:
    """Collapsed DP-means: means follow every single move.

    The box leaves open which mean the distance is taken to. Here the row is taken out first; joining a cluster
    of weight W whose mean without the row is m then adds exactly W w / (W + w) times the squared distance to m,
    which is the "contribution to the objective" compared with the penalty. So the objective never rises.

    Paper: box "Collapsed DP-means algorithm".

    Parameters
    ----------
    X, penalty, order, max_clusters, sample_weight, max_iter
        As in :func:`dp_means`.
    Z : array of shape (N, K), optional
        Clustering to start from; a single cluster if not given.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> paper.collapsed_dp_means(X, penalty=9.0).value
    10.0
    """
    objective = collapsed_dp_means_objective(penalty)
    if max_clusters is not None:
        objective = Objective(CollapsedGaussian(), DirichletMultinomial(max_clusters), penalty)
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    order = np.arange(len(X)) if order is None else order
    cap = np.inf if max_clusters is None else max_clusters

    def step(Z: NDArray, A: NDArray) -> tuple[NDArray, NDArray]:
        labels = _collapsed_pass(X, Z.argmax(axis=1), A, penalty, weights, order, cap)
        Z = drop_empty(one_hot(labels, labels.max() + 1))
        return Z, least_squares(X, Z, sample_weight)

    Z = np.ones((len(X), 1), dtype=np.uint8) if Z is None else drop_empty(np.asarray(Z))
    A = least_squares(X, Z, sample_weight)
    return descend(step, lambda Z, A: objective(X, Z, A, sample_weight), Z, A, max_iter)


def _collapsed_pass(
    X: NDArray, labels: NDArray, A: NDArray, penalty: float, weights: NDArray, order: NDArray, cap: float
) -> NDArray:
    """Move each row in turn to where the objective is smallest, the means following at once."""
    labels, A, negligible = labels.copy(), A.copy(), rounding_error(X)
    counts, W = np.bincount(labels), np.bincount(labels, weights)
    for n in order:
        x, w, k = X[n], weights[n], labels[n]
        counts[k] -= 1
        alone = counts[k] == 0
        W[k] = 0.0 if alone else W[k] - w
        A[k] -= 0.0 if alone else w / W[k] * (x - A[k])
        costs = np.where(counts > 0, W * w / (W + w) * ((A - x) ** 2).sum(axis=1), np.inf)
        now, best = penalty if alone else costs[k], int(costs.argmin())
        opens = (counts > 0).sum() < cap and costs[best] > max(penalty, w * negligible)
        if (penalty if opens else costs[best]) < (1 - RELATIVE_GAIN) * now:
            k = len(counts) if opens else best
        if k == len(counts):
            counts, W, A = np.append(counts, 0), np.append(W, 0.0), np.vstack([A, x])
        counts[k], W[k], labels[n] = counts[k] + 1, W[k] + w, k
        A[k] += w / W[k] * (x - A[k])
    return labels
