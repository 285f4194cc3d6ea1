"""Clusters of rows that keep coming, from what is known of the rows before.

Rows that came before are held in *pieces*: a weight, a mean and the scatter about it. A piece is a row that weighs
more, so old pieces and new rows together are a table like any other, whose objective differs from that of all rows seen
by the scatter inside the pieces, which no choice changes.

Each batch is put to the pieces at the price it would have if it were all there is; then pieces are put into groups at
the price for all rows. So a group that grows slowly is held apart from the others long before it pays for itself, and
opened when it does.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from madbayes.engine.blocks import Workers
from madbayes.engine.centres import nearest
from madbayes.engine.cluster_search import ClusterLandscape, relabelled
from madbayes.engine.search import Solution, is_lower
from madbayes.model.likelihoods import Weights

# There may be so many times as many pieces as groups, and so many more.
PIECES_PER_GROUP, MORE_PIECES = 4, 64
# Up to so many columns a bound on what a split gains is cheaper than to try it.
NARROW = 128
# A piece that has come down to this share of all weight is forgotten.
FORGOTTEN = 1e-9


def totals(labels: NDArray, values: NDArray, K: int) -> NDArray[np.float64]:
    """Sums of values over those with each of K labels."""
    return np.bincount(labels, values, K).astype(np.float64)


class Pieces(NamedTuple):
    """What is known of the rows seen: those of a piece stay together."""

    weights: NDArray[np.float64]  # P
    means: NDArray[np.float64]  # P x D
    scatters: NDArray[np.float64]  # P, squared error about the mean
    groups: NDArray[np.int64]  # P, which of the clusters a piece belongs to

    def decayed(self, factor: float) -> "Pieces":
        """The same with rows that weigh less; what has nearly no weight left is gone, and with it its group."""
        if factor == 1:
            return self
        kept = self.weights >= FORGOTTEN * self.weights.sum()
        weights, means, scatters, groups = (part[kept] for part in self)
        return Pieces(factor * weights, means, factor * scatters, groups)

    @property
    def n_groups(self) -> int:
        """Number of clusters."""
        return int(self.groups.max()) + 1

    def clusters(self) -> "Pieces":
        """Clusters that still have pieces, each as one piece."""
        names, labels = np.unique(self.groups, return_inverse=True)
        weights = totals(labels, self.weights, len(names))
        # About one of its pieces each, so that an offset does not eat the digits.
        first = self.means[np.unique(labels, return_index=True)[1]]
        shifts = np.zeros_like(first)
        np.add.at(shifts, labels, self.weights[:, None] * (self.means - first[labels]))
        means = first + shifts / weights[:, None]
        between = self.weights * ((self.means - means[labels]) ** 2).sum(axis=1)
        return Pieces(weights, means, totals(labels, self.scatters + between, len(names)), names)


class Absorbed(NamedTuple):
    """Pieces with a batch among them."""

    pieces: Pieces
    rows: NDArray[np.int64]  # the piece of each row of the batch
    became: NDArray[np.int64]  # the piece of the rows of each piece before
    groups: list[int | None]  # which cluster each cluster before has become


def absorb(
    known: Pieces,
    X: NDArray,
    sample_weight: Weights,
    price: float,
    limits: dict[str, int | None],
    workers: Workers,
    decay: float = 1.0,
) -> Absorbed:
    """Put the rows of a batch to the pieces, and the pieces into clusters.

    Parameters
    ----------
    known : Pieces
    X : array of shape (n, D)
    sample_weight : array of shape (n,), optional
        Positive.
    price : float
        Of a cluster, for all rows seen and these.
    limits : dict
        ``K``: exactly so many clusters, and ``cap``: at most so many, each where it is not None.
    workers : Workers
    decay : float
        What is left of the weight of what is known.

    Returns
    -------
    Absorbed
    """
    before = known.decayed(decay)
    n_before = len(before.weights)
    weights = np.concatenate([before.weights, np.ones(len(X)) if sample_weight is None else sample_weight])
    fine = price * float(weights[n_before:].sum() / weights.sum())
    most = PIECES_PER_GROUP * known.n_groups + MORE_PIECES
    landscape = ClusterLandscape.of(np.vstack([before.means, X]), fine, weights, K=None, cap=most)
    start = np.concatenate([np.arange(n_before), nearest(X, before.means, workers)])
    solution = split_where_it_pays(landscape, landscape.polish(start))
    became, rows = np.split(solution.groups, [n_before])
    scatters = landscape.errors(solution) + totals(became, before.scatters, solution.K)
    pieces = Pieces(totals(solution.groups, weights, solution.K), solution.A, scatters, rows[:0])
    labels = grouped(before, pieces, price, limits, workers)
    labels, groups = in_the_order_before(before, known.n_groups, became, labels)
    return Absorbed(pieces._replace(groups=labels), rows, became, groups)


def split_where_it_pays(landscape: ClusterLandscape, solution: Solution) -> Solution:
    """Cut clusters in two as long as that is worth the price: single rows that open one see only themselves."""
    rng = np.random.default_rng(0)
    while True:
        labels, K = solution.groups, solution.K
        for k in range(solution.K):
            members = np.flatnonzero(solution.groups == k)
            if landscape.most <= K or len(members) < 2 or not may_pay(landscape, members):
                continue
            half, gain = landscape.bisect(members, rng)
            if gain > landscape.price:
                labels, K = relabelled(labels, half, K), K + 1
        if K == solution.K:
            return solution
        found = landscape.polish(labels)
        if not is_lower(found, solution):
            return solution
        solution = found


def may_pay(landscape: ClusterLandscape, rows: NDArray[np.intp]) -> bool:
    """Whether a cut through these rows might gain more than the price.

    It gains no more than the largest eigenvalue of their scatter matrix, and that is no more than the norm of it, nor
    than the sum of its diagonal.
    """
    w, X = landscape.weights[rows], landscape.X[rows]
    R = (X - w @ X / w.sum()) * np.sqrt(w)[:, None]
    price = landscape.price / landscape.unit
    if np.einsum("nd,nd->", R, R) <= price:
        return False
    if R.shape[1] > NARROW:
        return True
    scatter = R.T @ R
    return bool(np.linalg.norm(scatter) > price and np.linalg.eigvalsh(scatter)[-1] > price)


def grouped(
    before: Pieces, pieces: Pieces, price: float, limits: dict[str, int | None], workers: Workers
) -> NDArray[np.int64]:
    """The cluster of each piece: a local optimum that splits and merges of clusters no longer lower."""
    means, exact = pieces.means, limits["K"]
    K = None if exact is None else min(exact, len(means))
    landscape = ClusterLandscape.of(means, price, pieces.weights, K=K, cap=limits["cap"])
    start = np.unique(nearest(means, before.clusters().means, workers), return_inverse=True)[1]
    solution, rng = landscape.polish(start), np.random.default_rng(0)
    while len(means) > solution.K:  # else there is nothing to split
        found = landscape.look_around(solution, rng)
        if not is_lower(found, solution):
            break
        solution = found
    return solution.groups


def in_the_order_before(
    before: Pieces, n_groups: int, became: NDArray[np.int64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[int | None]]:
    """Labels of pieces with the clusters there were first, in their order; and what each of these has become.

    A cluster goes on in one that has its weight, no two of them in the same: as much weight goes on as can. The others
    are in the one that has most of theirs, or gone.
    """
    K = int(labels.max()) + 1
    shared = np.zeros((n_groups, K))
    np.add.at(shared, (before.groups, labels[became]), before.weights)
    old, new = linear_sum_assignment(-shared)
    kept = shared[old, new] > 0
    old, new = old[kept], new[kept]
    places = np.argsort(np.concatenate([new, np.setdiff1d(np.arange(K), new)]))
    heirs = shared.argmax(axis=1)
    heirs[old] = new
    groups = [int(place) if any(row) else None for place, row in zip(places[heirs], shared > 0, strict=True)]
    return places[labels], groups


def pieces_of(errors: NDArray, labels: NDArray, weights: NDArray, means: NDArray) -> Pieces:
    """Each cluster of a fit as one piece, from the squared distances of its rows to its mean."""
    K = len(means)
    return Pieces(totals(labels, weights, K), means, totals(labels, weights * errors, K), np.arange(K))
