"""DP-means with Mahalanobis distances on blocks of rows.

A block is turned into columns of float64 and multiplied by the inverse factor of each covariance. Rows for which
rounding leaves a doubt are decided by :func:`madbayes.model.likelihoods.mahalanobis`, as in ``paper``.
"""

from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.model.likelihoods import (
    FullCovarianceGaussian,
    KnownCovarianceGaussian,
    MeansCovariances,
    Weights,
    mahalanobis,
)
from madbayes.model.objective import Objective
from madbayes.model.priors import CRP, DirichletMultinomial
from madbayes.paper.result import RELATIVE_GAIN, ROUNDING

Likelihood = FullCovarianceGaussian | KnownCovarianceGaussian

# What the rows of cluster k, as columns with their weights, add to a sum.
Measure = Callable[[int, NDArray, NDArray], NDArray]

# Rows that may open clusters and are looked at together.
CHUNK = 2048
# Sums over clusters that are held at a time.
SUMS_AT_ONCE = 16


class Table(NamedTuple):
    """The rows and their weights."""

    X: NDArray
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, X: NDArray, sample_weight: Weights) -> "Table":
        """Rows weigh 1 when no weights are given."""
        return cls(X, np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64))

    def columns(self, rows: slice | NDArray) -> NDArray[np.float64]:
        """Some rows as columns, D x n: sums over D are then sums of long vectors."""
        return self.X[rows].T.astype(np.float64, order="C")

    def blocks(self, K: int = 0) -> list[slice]:
        """Blocks of rows, shorter when there are distances to many clusters beside them."""
        return row_blocks(len(self.X), 4 * self.X.shape[1] + K // 4)


class Shapes(NamedTuple):
    """Clusters made ready for distances."""

    A: MeansCovariances
    inverses: NDArray  # of the triangular factors of the covariances, K x D x D
    doubt: float  # relative error that the distances may have

    @classmethod
    def of(cls, A: MeansCovariances) -> "Shapes":
        """Factor the covariances.

        The product of the absolute values of a factor and its inverse bounds the error, whatever the units.
        """
        D = A.means.shape[1]
        factors = np.linalg.cholesky(A.covariances)
        inverses = np.stack([solve_triangular(factor, np.eye(D), lower=True) for factor in factors])
        growth = (np.abs(inverses) @ np.abs(factors)).sum(axis=2).max(initial=1.0)
        return cls(A, inverses, 16 * D * np.finfo(np.float64).eps * growth)

    def distances(self, columns: NDArray) -> NDArray[np.float64]:
        """Squared Mahalanobis distances of all clusters to all columns, K x n."""
        found = np.empty((len(self.inverses), columns.shape[1]))
        for k, (mean, inverse) in enumerate(zip(self.A.means, self.inverses, strict=True)):
            whitened = inverse @ (columns - mean[:, None])
            np.einsum("dn,dn->n", whitened, whitened, out=found[k])
        return found

    def take(self, clusters: NDArray) -> "Shapes":
        """Some of the clusters."""
        A = MeansCovariances(self.A.means[clusters], self.A.covariances[clusters])
        return Shapes(A, self.inverses[clusters], self.doubt)

    def at(self, means: NDArray) -> "Shapes":
        """The same shapes elsewhere."""
        return self._replace(A=self.A._replace(means=means.astype(np.float64)))

    def and_then(self, others: "Shapes") -> "Shapes":
        """These clusters, and others after them."""
        A = MeansCovariances(*map(np.concatenate, zip(self.A, others.A, strict=True)))
        return Shapes(A, np.concatenate([self.inverses, others.inverses]), max(self.doubt, others.doubt))

    def exactly(self, columns: NDArray) -> NDArray[np.float64]:
        """The same with the definition."""
        return mahalanobis(columns.T, *self.A).T


def near(values: NDArray, others: NDArray | float, doubt: float) -> NDArray[np.bool_]:
    """Whether rounding may have put the one above or below the other; never with infinity."""
    return np.abs(values - others) < doubt * np.abs(others)


def tied(D: NDArray, least: NDArray, doubt: float) -> NDArray[np.bool_]:
    """Whether rounding may have hidden which of several clusters is the nearest."""
    return np.count_nonzero(least * (1 + doubt) >= D, axis=0) > 1


def own_distances(D: NDArray, labels: NDArray) -> NDArray[np.float64]:
    """Distances to the clusters of the labels, from those to all clusters, K x n."""
    return np.take_along_axis(D, labels[None], axis=0)[0]


def nearest_labels(D: NDArray, labels: NDArray) -> NDArray[np.int64]:
    """The nearest of the clusters; labels that tie stay."""
    moved = np.flatnonzero(D.min(axis=0) < own_distances(D, labels))  # few rows, after the first passes
    labels = labels.copy()
    labels[moved] = D[:, moved].argmin(axis=0)
    return labels


class View(NamedTuple):
    """All rows seen from the clusters."""

    labels: NDArray[np.int64]
    closest: NDArray[np.float64]
    error: float  # weighted squared distances to the clusters the rows came from


def look(
    table: Table, shapes: Shapes, labels: NDArray, used: NDArray[np.bool_], threshold: float, workers: Workers
) -> View:
    """The nearest of the used clusters for every row."""
    found, closest = np.empty(len(labels), dtype=np.int64), np.empty(len(labels))

    def one(rows: slice) -> float:
        columns, weights = table.columns(rows), table.weights[rows]
        D = shapes.distances(columns)
        D[~used] = np.inf
        least = D.min(axis=0)
        doubtful = tied(D, least, shapes.doubt) | near(weights * least, threshold, shapes.doubt)
        if doubtful.any():
            D[:, doubtful] = np.where(used[:, None], shapes.exactly(columns[:, doubtful]), np.inf)
        found[rows], closest[rows] = nearest_labels(D, labels[rows]), D.min(axis=0)
        return float(weights @ own_distances(D, labels[rows]))

    errors = workers.map(one, table.blocks(len(used)))
    return View(found, closest, sum(errors))


def nearest(X: NDArray, A: MeansCovariances, workers: Workers) -> NDArray[np.int64]:
    """The nearest cluster of every row; the first of several."""
    used, unknown = np.ones(len(A.means), dtype=bool), np.zeros(len(X), dtype=np.int64)
    return look(Table.of(X, None), Shapes.of(A), unknown, used, np.inf, workers).labels


def by_label(labels: NDArray, K: int) -> Iterator[tuple[int, NDArray]]:
    """The labels there are, and where they are."""
    short = labels.astype(np.int16) if K < 2**15 else labels  # sorted by counting, in linear time
    order = np.argsort(short, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        yield int(labels[part[0]]), part


def sums(
    table: Table, labels: NDArray, K: int, shape: tuple[int, ...], measure: Measure, workers: Workers
) -> NDArray[np.float64]:
    """Sum of a measure over the rows of each of K clusters.

    Blocks are added up in a few runs of blocks, so that there are never many sums at a time.
    """
    blocks = table.blocks()
    length = -(-len(blocks) // SUMS_AT_ONCE)

    def one(start: int) -> NDArray[np.float64]:
        total = np.zeros((K, *shape))
        for rows in blocks[start : start + length]:
            columns, weights = table.columns(rows), table.weights[rows]
            for k, part in by_label(labels[rows], K):
                total[k] += measure(k, columns[:, part], weights[part])
        return total

    return sum(workers.map(one, range(0, len(blocks), length)), start=np.zeros((K, *shape)))


def cluster_means(table: Table, labels: NDArray, centres: NDArray, workers: Workers) -> NDArray[np.float64]:
    """The mean of each cluster, by differences to a centre near it; zero for empty clusters."""
    K, D = centres.shape
    totals = sums(table, labels, K, (D,), lambda k, x, w: (x - centres[k][:, None]) @ w, workers)
    sizes = np.bincount(labels, table.weights, minlength=K)[:, None]
    return np.where(sizes > 0, centres + totals / np.where(sizes > 0, sizes, 1.0), 0.0)


def cluster_scatters(table: Table, labels: NDArray, means: NDArray, workers: Workers) -> NDArray[np.float64]:
    """The scatter of each cluster about its mean, K x D x D."""

    def scatter(k: int, columns: NDArray, weights: NDArray) -> NDArray[np.float64]:
        R = columns - means[k][:, None]
        return (R * weights) @ R.T

    K, D = means.shape
    return sums(table, labels, K, (D, D), scatter, workers)


def with_room(centres: NDArray, K: int) -> NDArray[np.float64]:
    """The same with zeros after them, if there are less than K."""
    return np.concatenate([centres, np.zeros((max(0, K - len(centres)), centres.shape[1]))])


def refit(
    table: Table, labels: NDArray, centres: NDArray, likelihood: Likelihood, workers: Workers
) -> MeansCovariances:
    """Best clusters for these labels; centres are where they were."""
    means = cluster_means(table, labels, centres, workers)
    return likelihood.fit_about(means, lambda means: cluster_scatters(table, labels, means, workers))


def loss(table: Table, labels: NDArray, A: MeansCovariances, likelihood: Likelihood, workers: Workers) -> float:
    """The loss of the likelihood: Mahalanobis errors, and the price of the covariances of clusters that have rows."""
    K, shapes = len(A.means), Shapes.of(A)

    def error(k: int, columns: NDArray, weights: NDArray) -> NDArray[np.float64]:
        return shapes.take(np.array([k])).distances(columns)[0] @ weights

    errors = sums(table, labels, K, (), error, workers)
    return float(errors.sum() + used_price(labels, A, likelihood))


def used_price(labels: NDArray, A: MeansCovariances, likelihood: Likelihood) -> float:
    """The price of the covariances of clusters that have rows."""
    used = np.bincount(labels, minlength=len(A.means)) > 0
    return float(likelihood.covariance_prices(A.covariances)[used].sum())


class State(NamedTuple):
    """Where a run is."""

    labels: NDArray[np.int64]
    A: MeansCovariances
    used: NDArray[np.bool_]  # which clusters have rows

    @property
    def K(self) -> int:
        """Number of clusters, empty ones included."""
        return len(self.used)


class Seen(NamedTuple):
    """A state, and all rows seen from it."""

    shapes: Shapes
    view: View
    value: float  # the objective


class Openings(NamedTuple):
    """Clusters that a pass has opened, in their order."""

    rows: NDArray[np.int64]  # what they sit on
    labels: NDArray[np.int64]


class Descent:
    """What the passes of a run have in common."""

    def __init__(
        self, table: Table, objective: Objective, order: NDArray | None, cap: int | None, workers: Workers
    ) -> None:
        self.table, self.objective, self.cap, self.workers = table, objective, cap, workers
        self.likelihood: Any = objective.likelihood
        self.order = np.arange(len(table.X)) if order is None else np.asarray(order)
        self.turns = np.empty_like(self.order)  # of the rows
        self.turns[self.order] = np.arange(len(table.X))
        self.threshold = (1 + RELATIVE_GAIN) * objective.penalty
        self.empty = self._empty()
        self.negligible = ROUNDING * self._longest()

    def _empty(self) -> Shapes:
        """Clusters that have no rows yet: one, or one for each known covariance."""
        n_shapes, D = max(1, self.likelihood.n_slots), self.table.X.shape[1]
        covariances = np.stack([self.likelihood.initial_covariance(k) for k in range(n_shapes)])
        return Shapes.of(MeansCovariances(np.zeros((n_shapes, D)), covariances))

    def _longest(self) -> float:
        """Largest squared distance of a row to zero."""
        shape, table = self.empty.take(np.array([0])), self.table
        return float(max(self.workers.map(lambda rows: shape.distances(table.columns(rows)).max(), table.blocks())))

    def new_shapes(self, means: NDArray, labels: NDArray) -> Shapes:
        """New clusters at these places."""
        return self.empty.take(labels if self.likelihood.n_slots else np.zeros_like(labels)).at(means)

    def start(self, means: NDArray | None) -> State:
        """Rows at the nearest mean, or all in one cluster; fitted."""
        means = np.asarray(self.table.X[:1] if means is None else means, dtype=np.float64)
        labels = self._nearest(means)
        # The start may be far from all rows: a first mean is near enough to take differences to it.
        return self.fit(labels, cluster_means(self.table, labels, means, self.workers))

    def _nearest(self, means: NDArray) -> NDArray[np.int64]:
        """The nearest mean of each row, in the metric of new clusters."""
        labels = np.zeros(len(self.table.X), dtype=np.int64)
        if len(means) > 1:
            shapes, used = self.new_shapes(means, np.arange(len(means))), np.ones(len(means), dtype=bool)
            labels = look(self.table, shapes, labels, used, np.inf, self.workers).labels
        return labels

    def fit(self, labels: NDArray, centres: NDArray) -> State:
        """Fitted clusters. Those without rows are dropped, unless they have a known covariance of their own."""
        n_slots = self.likelihood.n_slots
        centres = with_room(centres, n_slots)
        used = np.bincount(labels, minlength=len(centres)) > 0
        if not n_slots:
            labels, centres, used = (np.cumsum(used) - 1)[labels], centres[used], used[used]
        return State(labels, refit(self.table, labels, centres, self.likelihood, self.workers), used)

    def look(self, state: State) -> Seen:
        """All rows seen from the clusters, and the objective there."""
        shapes = Shapes.of(state.A)
        view = look(self.table, shapes, state.labels, state.used, self.threshold, self.workers)
        loss = view.error + used_price(state.labels, state.A, self.likelihood)
        price = self.objective.prior.penalty(np.eye(int(state.used.sum())), self.objective.penalty)
        return Seen(shapes, view, loss + price)

    def step(self, state: State, seen: Seen) -> State | None:
        """Rows to the nearest cluster, or to one that they open; clusters fitted. None if no row moves."""
        opened = self.openings(state, seen.view)
        if not len(opened.rows):
            same = np.array_equal(seen.view.labels, state.labels)
            return None if same else self.fit(seen.view.labels, state.A.means)
        centres = with_room(state.A.means, opened.labels.max() + 1)
        centres[opened.labels] = self.table.X[opened.rows]
        return self.fit(self.join(state, seen, opened), centres)

    def is_far(self, distances: NDArray, weights: NDArray) -> NDArray[np.bool_]:
        """Whether a cluster of its own costs a row less."""
        return (weights * distances > self.threshold) & (distances > self.negligible)

    def free_labels(self, state: State) -> Iterator[int]:
        """What new clusters may be called, empty ones first."""
        more = count(state.K) if self.cap is None else range(state.K, self.cap)
        return chain(np.flatnonzero(~state.used), more)

    def openings(self, state: State, view: View) -> Openings:
        """The clusters that the serial pass opens.

        Only rows too far from the clusters at its start can open one, and only if they are too far from those opened
        before them as well: no other row is looked at.
        """
        far = self.is_far(view.closest, self.table.weights)
        rows, free = self.order[far[self.order]], self.free_labels(state)
        opened, labels, shapes = list[int](), list[int](), list[Shapes]()
        label = next(free, None)
        for start in range(0, len(rows), CHUNK):
            if label is None:
                break
            left = rows[start : start + CHUNK]
            columns = self.table.columns(left)
            for shape in shapes:
                left, columns = self.still_far(left, columns, shape)
            while len(left) and label is not None:
                opened.append(left[0])
                labels.append(label)
                shapes.append(self.new_shapes(self.table.X[left[:1]], np.array([label])))
                left, columns = self.still_far(left, columns, shapes[-1])
                label = next(free, None)
        return Openings(np.array(opened, dtype=np.int64), np.array(labels, dtype=np.int64))

    def still_far(self, rows: NDArray, columns: NDArray, shape: Shapes) -> tuple[NDArray, NDArray]:
        """The rows that are too far from one more cluster."""
        weights, (distances,) = self.table.weights[rows], shape.distances(columns)
        doubtful = near(weights * distances, self.threshold, shape.doubt)
        if doubtful.any():
            distances[doubtful] = shape.exactly(columns[:, doubtful])[0]
        far = self.is_far(distances, weights)
        return rows[far], columns[:, far]

    def join(self, state: State, seen: Seen, opened: Openings) -> NDArray[np.int64]:
        """Labels when a row may also take a cluster that was opened before its turn."""
        new, labels = self.new_shapes(self.table.X[opened.rows], opened.labels), seen.view.labels.copy()
        both, names = seen.shapes.and_then(new), np.append(np.arange(state.K), opened.labels)
        turns = np.append(np.where(state.used, -1, len(labels)), self.turns[opened.rows])

        def one(rows: slice) -> None:
            columns, closest = self.table.columns(rows), seen.view.closest[rows]
            D, absent = new.distances(columns), turns[:, None] >= self.turns[rows]
            D[absent[state.K :]] = np.inf
            least = D.min(axis=0)
            doubtful = near(least, closest, both.doubt) | ((least < closest) & tied(D, least, both.doubt))
            labels[rows] = np.where(least < closest, opened.labels[D.argmin(axis=0)], labels[rows])
            if doubtful.any():
                D = np.where(absent[:, doubtful], np.inf, both.exactly(columns[:, doubtful]))
                labels[rows][doubtful] = names[nearest_labels(D, state.labels[rows][doubtful])]

        self.workers.map(one, self.table.blocks(len(turns)))
        labels[opened.rows] = opened.labels
        return labels


class CovarianceClusters(NamedTuple):
    """Where a run has ended."""

    labels: NDArray[np.int64]
    A: MeansCovariances  # with a row of zeros as the mean of a known covariance that no row uses
    value: float  # the objective
    trace: list[float]  # the objective at the start and after each iteration
    converged: bool

    @property
    def K(self) -> int:
        """Number of clusters, unused known covariances included."""
        return len(self.A.means)

    @property
    def iterations(self) -> int:
        """Passes over the rows."""
        return len(self.trace) - 1


def covariance_dp_means(
    X: NDArray,
    penalty: float,
    likelihood: Likelihood,
    A: NDArray | None = None,
    *,
    order: NDArray | None = None,
    max_clusters: int | None = None,
    sample_weight: Weights = None,
    max_iter: int = 300,
    workers: Workers,
) -> CovarianceClusters:
    """The run of :func:`madbayes.paper.covariance_dp_means`, with the same labels."""
    cap = likelihood.n_slots or max_clusters
    objective = Objective(likelihood, CRP() if cap is None else DirichletMultinomial(cap), penalty)
    run = Descent(Table.of(X, sample_weight), objective, order, cap, workers)
    state = run.start(A)
    seen = run.look(state)
    trace, converged = [seen.value], False
    while not converged and len(trace) <= max_iter:
        following = run.step(state, seen)
        after = seen if following is None else run.look(following)
        trace.append(after.value)
        converged = trace[-1] >= trace[-2] - RELATIVE_GAIN * abs(trace[-2])
        if following is not None and not converged:
            state, seen = following, after
    return CovarianceClusters(state.labels, state.A, seen.value, trace, converged)
