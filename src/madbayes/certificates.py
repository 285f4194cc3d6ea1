"""How far from the best possible a fit can be: lower bounds for any table, exact solutions of small ones.

A search finds good groups and cannot tell whether there are better ones. A bound from below can, and where it meets the
value found, that value is the minimum.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator

from madbayes.engine.blocks import Workers
from madbayes.engine.bounds import singular_squares, spectral_bound
from madbayes.engine.branching import Proof
from madbayes.engine.checks import is_number
from madbayes.engine.codes import best_codes
from madbayes.engine.feature_moves import feature_moves
from madbayes.engine.feature_search import FeatureLandscape
from madbayes.engine.search import Search, Solution, search
from madbayes.estimators import validation
from madbayes.estimators.canonical import canonical_order
from madbayes.model import (
    bp_means_objective,
    capped_bp_means_objective,
    capped_dp_means_objective,
    dp_means_objective,
)
from madbayes.model.likelihoods import Weights
from madbayes.model.priors import one_hot

# Optimal clusters are found for so many different rows, or for so many different numbers in a single column.
SUBSET_LIMIT, INTERVAL_LIMIT = 16, 5000


class Certificate(NamedTuple):
    """Groups, what they cost, and what any others cost at least."""

    groups: NDArray  # labels, or Z
    A: NDArray  # K x D
    value: float  # the objective there
    bound: float  # no groups have a lower one
    proved: bool  # whether the value is the minimum, up to a share of 1e-9

    @property
    def K(self) -> int:
        """Number of groups."""
        return len(self.A)

    @property
    def gap(self) -> float:
        """How much lower the minimum may be, as a share of the value."""
        return (self.value - self.bound) / self.value if self.value > 0 else 0.0


def lower_bound(
    X: ArrayLike,
    penalty: float,
    kind: str = "features",
    *,
    K: int | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """A value that no groups of X fall below, from singular values alone.

    With s_i the singular values of X (for clusters, of X less the mean of its rows), the sum of min(s_i^2, penalty).

    *Features:* ZA has rank K at most, so its squared error is at least the sum of s_i^2 over i > K (Eckart and
    Young); with K penalties that is no less than the sum of the minima. *Clusters:* the K best means, weighted by
    their rows, average to the mean of all rows, so what they fit of the centred X has rank K - 1 at most; K - 1
    penalties are charged, and the same follows.

    Weights multiply squared errors, that is, rows by their square roots; the mean is the weighted one.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
    penalty : float
        The price of one more group.
    kind : {"features", "clusters"}
    K : int, optional
        The largest number of groups allowed: s_i^2 is then in place of the minimum for i > K (clusters: i > K - 1).
    sample_weight : array-like of shape (n_rows,), optional

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import BPMeans
    >>> from madbayes.certificates import lower_bound
    >>> X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0], [3.0, 5.1]])
    >>> bound = lower_bound(X, penalty=1.0)
    >>> round(bound, 6)
    2.0
    >>> bound <= BPMeans(1.0, random_state=0).fit(X).objective_
    True
    """
    validation.check_choice("kind", kind, ("features", "clusters"))
    table, weights = _check_table(X, sample_weight)
    price = _check_price(penalty)
    validation.check_count("K", K, minimum=int(kind == "clusters"), other=None)
    if kind == "features":
        return spectral_bound(singular_squares(table, weights), price, K)
    centred = table - np.average(table, axis=0, weights=weights)
    return spectral_bound(singular_squares(centred, weights), price, None if K is None else K - 1)


def _check_table(X: ArrayLike, sample_weight: ArrayLike | None) -> tuple[NDArray[np.float64], Weights]:
    table = validation.check_table(BaseEstimator(), X, reset=True).astype(np.float64)
    return table, validation.check_weights(sample_weight, len(table))


def _check_price(penalty: Any) -> float:
    if isinstance(penalty, str) or not is_number(penalty) or not 0 <= penalty < np.inf:
        raise ValueError(f"penalty={penalty!r} is not accepted: give a finite number >= 0")
    return float(penalty)


class Rows(NamedTuple):
    """The different rows that count. Equal ones have equal groups in some optimum, and weigh as much together."""

    X: NDArray[np.float64]
    weights: NDArray[np.float64]
    first: NDArray[np.intp]  # where each of them stands in the table
    which: NDArray[np.intp]  # which of them each row of the table is; -1 for rows of weight zero

    @classmethod
    def of(cls, X: NDArray, sample_weight: Weights) -> "Rows":
        """The different rows of positive weight."""
        weights = np.ones(len(X)) if sample_weight is None else sample_weight
        counted, which = np.flatnonzero(weights > 0), np.full(len(X), -1)
        rows, first, inverse = np.unique(X[counted], axis=0, return_index=True, return_inverse=True)
        which[counted] = inverse.ravel()
        masses = np.zeros(len(rows))
        np.add.at(masses, which[counted], weights[counted])
        return cls(rows, masses, counted[first], which)

    def spread(self, groups: NDArray, assign: Callable[[NDArray], NDArray], X: NDArray) -> NDArray:
        """Groups of all rows of the table; those of weight zero are assigned."""
        spread, left = groups[self.which], self.which < 0
        if left.any():
            spread[left] = assign(X[left])
        return spread


def optimal_clusters(
    X: ArrayLike, penalty: float, *, max_clusters: int | None = None, sample_weight: ArrayLike | None = None
) -> Certificate:
    """The best clusters there are, for few rows or a single column.

    All partitions are compared by dynamic programming: over sets of rows, up to 16 different ones; or over intervals
    of the sorted numbers of a single column, up to 5000 different ones.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
    penalty : float
        The price of each cluster after the first.
    max_clusters : int, optional
        Never more clusters than this; with ``penalty=0``, the optimum of K-means.
    sample_weight : array-like of shape (n_rows,), optional

    Returns
    -------
    Certificate
        ``groups`` holds labels; the largest cluster is number 0. Always proved.

    Examples
    --------
    >>> from madbayes.certificates import optimal_clusters
    >>> best = optimal_clusters([[0.0], [1.0], [10.0], [11.0], [12.0]], penalty=9.0)
    >>> best.groups, best.value, best.proved
    (array([1, 1, 0, 0, 0]), 11.5, True)
    """
    validation.check_count("max_clusters", max_clusters, other=None)
    table, weights = _check_table(X, sample_weight)
    price, rows = _check_price(penalty), Rows.of(table, weights)
    limit, solve = (INTERVAL_LIMIT, _intervals) if table.shape[1] == 1 else (SUBSET_LIMIT, _subsets)
    if len(rows.X) > limit:
        raise ValueError(
            f"X has {len(rows.X)} different rows of {table.shape[1]} columns: optimal clusters are found for up to "
            f"{SUBSET_LIMIT} different rows, or {INTERVAL_LIMIT} of a single column; lower_bound takes any table"
        )
    labels = solve(rows, price, min(max_clusters or len(rows.X), len(rows.X)))
    objective = dp_means_objective(price) if max_clusters is None else capped_dp_means_objective(max_clusters, price)
    Z = one_hot(labels, labels.max() + 1)
    sizes = rows.weights @ Z
    A = (Z.T * rows.weights) @ rows.X / sizes[:, None]
    order = canonical_order(A, sizes)
    A, labels = A[order], order.argsort()[labels]
    labels = rows.spread(labels, lambda x: cdist(x, A).argmin(axis=1), table)
    value = objective(table, one_hot(labels, len(A)), A, weights)
    return Certificate(labels, A, value, value, True)


def _best_count(errors: NDArray, price: float) -> int:
    """The number of clusters of least objective, the smaller of equal ones; ``errors`` are those of 1, 2, ..."""
    return 1 + int((errors + price * np.arange(len(errors))).argmin())


def _intervals(rows: Rows, price: float, cap: int) -> NDArray[np.intp]:
    """Labels of least objective of sorted numbers."""
    from madbayes.engine.kernels import certificates as kernels

    x, N = np.ascontiguousarray(rows.X[:, 0]), len(rows.X)
    errors, starts = np.empty(cap), np.empty((cap, N), dtype=np.uint16)
    done = kernels.interval_errors(x, rows.weights, price, errors, starts)
    labels, end = np.empty(N, dtype=np.intp), N
    for k in reversed(range(_best_count(errors[:done], price))):
        start = int(starts[k, end - 1])
        labels[start:end], end = k, start
    return labels


def _subsets(rows: Rows, price: float, cap: int) -> NDArray[np.intp]:
    """Labels of least objective of a few rows."""
    from madbayes.engine.kernels import certificates as kernels

    N = len(rows.X)
    costs, errors = np.empty(2**N), np.empty((cap, 2**N))
    parts = np.empty((cap, 2**N), dtype=np.int32)
    kernels.subset_costs(cdist(rows.X, rows.X, "sqeuclidean"), rows.weights, costs)
    done = kernels.subset_errors(costs, price, errors, parts)
    labels, left = np.empty(N, dtype=np.intp), 2**N - 1
    for k in reversed(range(_best_count(errors[:done, -1], price))):
        part = int(parts[k, left])
        labels[(part >> np.arange(N)) & 1 == 1] = k
        left ^= part
    return labels


def optimal_features(
    X: ArrayLike,
    penalty: float | None = None,
    K: int | None = None,
    *,
    node_limit: int = 50_000_000,
    sample_weight: ArrayLike | None = None,
    incumbent: ArrayLike | None = None,
) -> Certificate:
    """The best features there are, or how far from them those found may be.

    A search finds good features. Branch and bound over the codes of the rows then looks for better ones among all
    there are, for each number of features that could be better, and proves that there are none, or gives up after so
    many nodes. Sixty rows and four features, or a thousand rows and three, with moderate noise take some seconds; each
    further feature, and more noise, take many times as long.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
    penalty : float, optional
        The price of a feature; none if not given.
    K : int, optional
        At most so many features. At least one of ``penalty`` and ``K`` is needed; with ``K`` alone this is K-features.
    node_limit : int
        Codes of single rows to look at in all, some ten million in a second. 0 gives the bound of singular values.
    sample_weight : array-like of shape (n_rows,), optional
    incumbent : array-like of zeros and ones of shape (n_rows, n_features), optional
        Z to start from instead of a search, ``allocations_`` of a fitted model for example.

    Returns
    -------
    Certificate
        ``groups`` holds Z. Where nodes ran out, ``proved`` is False and ``bound`` a lower bound all the same.

    Examples
    --------
    >>> from madbayes.certificates import optimal_features
    >>> X = [[3.0, 0.0], [0.0, 5.0], [3.0, 5.0], [3.0, 5.1]]
    >>> best = optimal_features(X, penalty=1.0)
    >>> best.K, round(best.value, 6), best.proved, best.gap
    (2, 2.006, True, 0.0)
    """
    price, cap = _check_limits(penalty, K)
    validation.check_count("node_limit", node_limit, minimum=0)
    table, weights = _check_table(X, sample_weight)
    rows = Rows.of(table, weights)
    objective = bp_means_objective(price) if cap is None else capped_bp_means_objective(cap, price)
    landscape = FeatureLandscape.of(rows.X, price, rows.weights, **_counts(price, cap))
    Z = _incumbent(landscape, rows, incumbent, len(table), cap)
    proof = Proof(rows.X, rows.weights, objective, Z, _reach)
    bound = proof.bound(node_limit, len(rows.X) if cap is None else min(cap, len(rows.X)))
    A = objective.likelihood.fit(rows.X, proof.Z, rows.weights)
    order = canonical_order(A, rows.weights @ proof.Z)
    A = A[order]
    Z = rows.spread(proof.Z[:, order], lambda x: best_codes(x, A, Workers(1)), table)
    value = objective(table, Z, A, weights)
    proved = bool(bound >= proof.value - proof.slack)
    return Certificate(Z, A, value, value if proved else min(bound, value), proved)


def _check_limits(penalty: Any, K: Any) -> tuple[float, int | None]:
    if penalty is None and K is None:
        raise ValueError("penalty=None and K=None leave the number of features open: give one of them, or both")
    validation.check_count("K", K, minimum=0, other=None)
    return 0.0 if penalty is None else _check_price(penalty), K


def _counts(price: float, cap: int | None) -> dict[str, int | None]:
    """Without a price, as many features as are allowed are never worse than fewer."""
    return {"cap": cap} if price > 0 else {"K": cap}


def _incumbent(landscape: FeatureLandscape, rows: Rows, Z: Any, n_rows: int, cap: int | None) -> NDArray[np.uint8]:
    """Good features to begin with."""
    if Z is None:
        return _search(landscape).groups
    Z = validation.check_matrix("incumbent", Z, (n_rows, None))
    validation.check_binary("incumbent", Z)
    if cap is not None and Z.shape[1] > cap:
        raise ValueError(f"incumbent has {Z.shape[1]} columns: give at most K={cap}")
    return landscape.polish(Z[rows.first].astype(np.uint8)).groups


def _search(landscape: FeatureLandscape) -> Solution:
    with Workers(1) as workers:
        best = search(landscape, feature_moves, Search(), iter(count()), workers)[0].best
    assert best is not None
    return best


def _reach(X: NDArray, weights: NDArray, K: int) -> float:
    """The squared error that a search reaches with K features."""
    return _search(FeatureLandscape.of(X, 0.0, weights, K=K)).value
