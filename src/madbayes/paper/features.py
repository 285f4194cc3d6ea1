"""BP-means, collapsed BP-means, K-features and stepwise K-features, as in the paper.

Rows may have weights, which must be positive: a weight multiplies the row's squared error, never the penalty.
Inside, Z is a float matrix so that products with it are matrix products.
"""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from madbayes.model import (
    BetaBernoulli,
    CollapsedGaussian,
    Objective,
    bp_means_objective,
    capped_bp_means_objective,
    collapsed_bp_means_objective,
    k_features_objective,
)
from madbayes.model.likelihoods import Weights, gram_inverse, least_squares
from madbayes.paper.result import RELATIVE_GAIN, Result, Run, descend, restarts, rounding_error
from madbayes.paper.seeding import add_feature, seed_features

# Up to this many features the collapsed algorithm chooses a row's bits jointly, above it one by one.
JOINT_LIMIT = 10


def independent_columns(Z: NDArray) -> NDArray[np.bool_]:
    """Which columns are not linear combinations of earlier ones; empty and repeated columns are such.

    Elimination on Z'Z, which has integer entries: the pivot of a column is its squared distance to the span of
    the columns before it.
    """
    G = np.asarray(Z, dtype=float).T @ Z
    sizes, keep = np.diag(G).copy(), np.zeros(len(G), dtype=bool)
    for k, size in enumerate(sizes):
        keep[k] = G[k, k] > 1e-10 * size
        if keep[k]:
            G = G - np.outer(G[:, k], G[k]) / G[k, k]
    return keep


def refit(X: NDArray, Z: NDArray, sample_weight: Weights) -> tuple[NDArray, NDArray]:
    """Z without redundant columns, and the least-squares A.

    Dropping a linearly dependent column leaves the fit as it is and saves its penalty.
    """
    Z = Z[:, independent_columns(Z)]
    return Z, least_squares(X, Z, sample_weight)


def sweep_row(r: NDArray, z: NDArray, A: NDArray, squares: NDArray) -> NDArray:
    """Set each bit of z in turn to its better value; returns the residual, given as r = x - zA."""
    for k, a in enumerate(A):
        sign = 1.0 - 2.0 * z[k]
        if squares[k] - 2.0 * sign * (r @ a) < -RELATIVE_GAIN * squares[k]:
            z[k] += sign
            r = r - sign * a
    return r


def bp_means(
    X: NDArray,
    penalty: float,
    Z: NDArray | None = None,
    A: NDArray | None = None,
    *,
    max_components: int | None = None,
    sample_weight: Weights = None,
    max_iter: int = 300,
) -> Result:
    """BP-means: the better value of each bit in turn, a new feature for a residual that exceeds the penalty.

    Paper: box "BP-means algorithm"; section 4.2 with ``max_components``.

    Parameters
    ----------
    X : array of shape (N, D)
    penalty : float
        The price of each feature.
    Z, A : arrays of shape (N, K) and (K, D), optional
        Where to start, for example :func:`seed_features`; no feature if not given, least squares without A.
    max_components : int, optional
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
    >>> X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0]])
    >>> result = paper.bp_means(X, penalty=1.0)
    >>> result.Z, result.value
    (array([[1, 0],
           [0, 1],
           [1, 1]], dtype=uint8), 2.0)
    """
    objective = bp_means_objective(penalty)
    if max_components is not None:
        objective = capped_bp_means_objective(max_components, penalty)
    cap, negligible = np.inf if max_components is None else max_components, rounding_error(X)
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    threshold = (1 + RELATIVE_GAIN) * penalty

    def step(Z: NDArray, A: NDArray) -> tuple[NDArray, NDArray]:
        Z, squares = Z.copy(), (A**2).sum(axis=1)
        for n, (x, w) in enumerate(zip(X, weights, strict=True)):
            r = sweep_row(x - Z[n] @ A, Z[n], A, squares)
            error = r @ r
            if w * error > threshold and error > negligible and len(A) < cap:
                A, squares = np.vstack([A, r]), np.append(squares, error)
                Z = np.hstack([Z, np.zeros((len(Z), 1))])
                Z[n, -1] = 1.0
        return refit(X, Z, sample_weight)

    Z, A = _start(X, Z, A, sample_weight)
    return descend(step, lambda Z, A: objective(X, Z, A, sample_weight), Z, A, max_iter)


def _start(X: NDArray, Z: NDArray | None, A: NDArray | None, sample_weight: Weights) -> tuple[NDArray, NDArray]:
    """Z and A as given, if they are and nothing in them is redundant; else least squares."""
    Z = np.zeros((len(X), 0)) if Z is None else np.array(Z, dtype=float)
    if A is not None and independent_columns(Z).all():
        return Z, np.array(A, dtype=float)
    return refit(X, Z, sample_weight)


def reseed(X: NDArray, Z: NDArray, A: NDArray, K: int, sample_weight: Weights) -> tuple[NDArray, NDArray]:
    """Add features made of the row of largest error until there are K, or nothing is left to explain."""
    weights, negligible = np.ones(len(X)) if sample_weight is None else sample_weight, rounding_error(X)
    while Z.shape[1] < K:
        R = X - Z @ A
        errors = np.einsum("nd,nd->n", R, R)
        n = (weights * errors).argmax()
        if errors[n] <= negligible:
            break
        _, z = add_feature(R, n)
        Z, A = refit(X, np.column_stack([Z, z]), sample_weight)
    return Z, A


def k_features(
    X: NDArray,
    K: int,
    Z: NDArray | None = None,
    A: NDArray | None = None,
    *,
    sample_weight: Weights = None,
    max_iter: int = 300,
) -> Result:
    """K-features: the better value of each bit in turn, then least squares.

    A feature that becomes redundant is replaced by the residual of the row of largest error. Fewer than K are
    left only when the squared error is zero.

    Paper: box "K-features algorithm".

    Parameters
    ----------
    X : array of shape (N, D)
    K : int
        Number of features.
    Z, A : arrays of shape (N, at most K) and (at most K, D), optional
        Where to start, for example :func:`seed_features`.
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
    >>> X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0]])
    >>> def run(seed):
    ...     return paper.k_features(X, 2, *paper.seed_features(X, 2, random_state=seed))
    >>> best, runs = paper.restarts(run, seeds=range(10))
    >>> round(best.value, 6)
    0.0
    """
    objective = k_features_objective(K)

    def step(Z: NDArray, A: NDArray) -> tuple[NDArray, NDArray]:
        Z, squares = Z.copy(), (A**2).sum(axis=1)
        for n, x in enumerate(X):
            sweep_row(x - Z[n] @ A, Z[n], A, squares)
        Z, A = refit(X, Z, sample_weight)
        return reseed(X, Z, A, K, sample_weight)

    Z, A = _start(X, Z, A, sample_weight)
    return descend(step, lambda Z, A: objective(X, Z, A, sample_weight), Z, A, max_iter)


@cache
def all_codes(K: int) -> NDArray:
    """All binary rows of length K, those with fewer ones first."""
    codes = (np.arange(2**K)[:, None] >> np.arange(K)) & 1
    return codes[np.argsort(codes.sum(axis=1), kind="stable")].astype(float)


def collapsed_costs(
    x: NDArray, w: float, X: NDArray, Z: NDArray, penalty: float, sample_weight: Weights
) -> Callable[[NDArray], NDArray]:
    """What row x adds to the collapsed objective of the other rows (X, Z), as a function of its code z.

    If z lies in the row space of Z, least squares gives w |x - zA|^2 / (1 + w z P z') with P the inverse of Z'Z.
    If not, the row is fitted exactly, at the price of one more independent feature.
    """
    gram = Z.T @ Z
    P = gram_inverse(gram)
    row_space = P @ gram
    if sample_weight is not None:
        P = gram_inverse((Z.T * sample_weight) @ Z)
    A = least_squares(X, Z, sample_weight)

    def costs(codes: NDArray) -> NDArray:
        inside = np.abs(codes - codes @ row_space).max(axis=1, initial=0.0) < 1e-6
        errors = ((x - codes @ A) ** 2).sum(axis=1)
        leverages = ((codes @ P) * codes).sum(axis=1)
        return np.where(inside, w * errors / (1 + w * leverages), penalty)

    return costs


def choose_code(z: NDArray, costs: Callable[[NDArray], NDArray]) -> tuple[NDArray, float]:
    """The code of least cost, and that cost: over all codes if they are few, else bit by bit from z."""
    if len(z) <= JOINT_LIMIT:
        return _cheapest(np.vstack([z, all_codes(len(z))]), costs)
    for k in range(len(z)):
        flipped = z.copy()
        flipped[k] = 1.0 - z[k]
        z, cost = _cheapest(np.vstack([z, flipped]), costs)
    return z, cost


def _cheapest(codes: NDArray, costs: Callable[[NDArray], NDArray]) -> tuple[NDArray, float]:
    """The best code; the first one when that is as good."""
    values = costs(codes)
    best = values.argmin()
    if values[best] >= (1 - RELATIVE_GAIN) * values[0]:
        best = np.intp(0)
    return codes[best], float(values[best])


def collapsed_bp_means(
    X: NDArray,
    penalty: float,
    Z: NDArray | None = None,
    *,
    max_components: int | None = None,
    sample_weight: Weights = None,
    max_iter: int = 300,
) -> Result:
    """Collapsed BP-means: each row's code is chosen with the features following every single change.

    Up to ten features a row's bits are chosen jointly, above that one after the other.

    Paper: box "Collapsed BP-means algorithm".

    Parameters
    ----------
    X, penalty, Z, max_components, sample_weight, max_iter
        As in :func:`bp_means`.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0]])
    >>> round(paper.collapsed_bp_means(X, penalty=1.0).value, 6)
    2.0
    """
    objective = collapsed_bp_means_objective(penalty)
    if max_components is not None:
        objective = Objective(CollapsedGaussian(), BetaBernoulli(max_components), penalty)
    cap, negligible = np.inf if max_components is None else max_components, rounding_error(X)
    weights = np.ones(len(X)) if sample_weight is None else sample_weight
    threshold = (1 + RELATIVE_GAIN) * penalty

    def step(Z: NDArray, A: NDArray) -> tuple[NDArray, NDArray]:
        Z = Z.copy()
        for n, (x, w) in enumerate(zip(X, weights, strict=True)):
            others = np.arange(len(X)) != n
            w_others = None if sample_weight is None else sample_weight[others]
            costs = collapsed_costs(x, w, X[others], Z[others], penalty, w_others)
            Z[n], cost = choose_code(Z[n], costs)
            Z = Z[:, independent_columns(Z)]
            if cost > max(threshold, w * negligible) and Z.shape[1] < cap:
                Z = np.column_stack([Z, np.arange(len(X)) == n])
        return Z, least_squares(X, Z, sample_weight)

    Z, A = _start(X, Z, None, sample_weight)
    return descend(step, lambda Z, A: objective(X, Z, A, sample_weight), Z, A, max_iter)


def with_penalty(result: Result, penalty: float) -> Result:
    """A K-features result, its values those of the BP-means objective."""
    price = bp_means_objective(penalty).prior.penalty(result.Z, penalty)
    return result._replace(value=result.value + price, trace=result.trace + price)


def k_features_path(
    X: NDArray,
    *,
    n_init: int = 10,
    max_components: int | None = None,
    random_state: int | np.random.Generator | None = None,
    sample_weight: Weights = None,
    max_iter: int = 300,
) -> Iterator[tuple[Result, list[Run]]]:
    """The best of ``n_init`` K-features runs for K = 0, 1, 2, ... until the squared error is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0]])
    >>> [round(best.value, 3) for best, _ in paper.k_features_path(X, random_state=0)]
    [68.0, 13.5, 0.0]
    """
    rng = np.random.default_rng(random_state)
    result = k_features(X, 0, sample_weight=sample_weight, max_iter=max_iter)
    yield result, []
    negligible, K = len(X) * rounding_error(X), 0
    while result.value > negligible and (max_components is None or max_components > K):
        K += 1

        def run(seed: int, K: int = K) -> Result:
            Z, A = seed_features(X, K, random_state=seed, sample_weight=sample_weight)
            return k_features(X, K, Z, A, sample_weight=sample_weight, max_iter=max_iter)

        seeds = [int(seed) for seed in rng.integers(2**31, size=n_init)]
        result, runs = restarts(run, seeds)
        yield result, runs


def stepwise_k_features(
    X: NDArray,
    penalty: float,
    *,
    n_init: int = 10,
    max_components: int | None = None,
    random_state: int | np.random.Generator | None = None,
    sample_weight: Weights = None,
    max_iter: int = 300,
) -> tuple[Result, list[Run]]:
    """K-features for K = 0, 1, 2, ... until the BP-means objective stops falling.

    Right if the best squared error is convex in K, an assumption of the paper.

    Paper: section 5, stepwise K-features.

    Parameters
    ----------
    X, penalty, max_components, sample_weight, max_iter
        As in :func:`bp_means`.
    n_init : int
        Runs for each K.
    random_state : int or numpy Generator, optional

    Returns
    -------
    Result, list of Run
        The best over all K, and a line about each run.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import paper
    >>> X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0]])
    >>> result, runs = paper.stepwise_k_features(X, penalty=1.0, random_state=0)
    >>> result.K, round(result.value, 6), len(runs)
    (2, 2.0, 20)
    """
    best, runs = None, []
    path = k_features_path(
        X,
        n_init=n_init,
        max_components=max_components,
        random_state=random_state,
        sample_weight=sample_weight,
        max_iter=max_iter,
    )
    for result, some_runs in path:
        result = with_penalty(result, penalty)
        runs += [run._replace(value=run.value + run.K * penalty) for run in some_runs]
        if best is not None and result.value >= best.value:
            break
        best = result
    assert best is not None  # the path starts with K = 0
    return best, runs
