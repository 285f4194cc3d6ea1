"""DP-means, K-means and collapsed DP-means on blocks of rows.

Squared distances come from one matrix product for each block, taken about the mean of the table so that an offset does
not eat the digits, and are taken anew by differences where rounding leaves a doubt. So the labels are those of the
serial pass, in single precision too.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.model.likelihoods import Weights
from madbayes.paper.result import RELATIVE_GAIN, rounding_error

# Rows that are compared with new clusters at once.
CHUNK = 512


class Table(NamedTuple):
    """What all runs have in common."""

    X: NDArray
    origin: NDArray  # what distances are computed about
    weights: NDArray  # of the rows, or of length 0 when all weigh 1
    blocks: list[slice]

    @classmethod
    def of(cls, X: NDArray, sample_weight: Weights) -> "Table":
        """The origin, once for all runs: zero, or the mean in columns whose offset is large for their spread.

        It is there for the sake of digits only, so a few rows are enough to tell.
        """
        weights = np.empty(0) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        some = X[:: max(1, len(X) // 1024)].astype(np.float64)
        mean = some.mean(axis=0)
        origin = np.where(np.abs(mean) > 4 * some.std(axis=0), mean, 0.0).astype(X.dtype)
        return cls(X, origin, weights, row_blocks(*X.shape))

    def mean(self) -> NDArray:
        """The weighted mean of all rows."""
        return np.average(self.X, axis=0, weights=self.weights if self.weights.size else None).astype(np.float64)

    def nearest(self, rows: slice | NDArray, A: NDArray, labels: NDArray, distances: NDArray) -> None:
        """Nearest centre of some rows, and its squared distance; labels that tie stay."""
        from madbayes.engine import kernels

        X = self.X[rows]
        centred, centres = X - self.origin, (A - self.origin).astype(X.dtype)
        kernels.nearest_rows(
            X,
            centred @ centres.T,
            np.einsum("kd,kd->k", centres, centres),
            np.einsum("nd,nd->n", centred, centred),
            A,
            64 * np.finfo(X.dtype).eps,
            labels,
            distances,
        )


def nearest(X: NDArray, A: NDArray, workers: Workers) -> NDArray[np.int32]:
    """The nearest centre of every row; the first of several."""
    A, unknown = np.asarray(A, dtype=np.float64), np.full(len(X), -1)
    return assign(Table.of(X, None), A, unknown, workers).labels.astype(np.int32)


class Assignment(NamedTuple):
    """Where the rows are."""

    labels: NDArray[np.int64]
    distances: NDArray[np.float64]  # squared, to the centre


def assign(table: Table, A: NDArray, labels: NDArray, workers: Workers) -> Assignment:
    """The nearest centre of every row."""
    labels, distances = labels.copy(), np.empty(len(table.X))
    workers.map(lambda rows: table.nearest(rows, A, labels[rows], distances[rows]), table.blocks)
    return Assignment(labels, distances)


def distances_to(table: Table, A: NDArray, labels: NDArray, workers: Workers) -> NDArray[np.float64]:
    """Squared distance of each row to the centre of its label."""

    def one(rows: slice) -> NDArray[np.float64]:
        R = table.X[rows] - A[labels[rows]]
        return np.einsum("nd,nd->n", R, R)

    return np.concatenate(workers.map(one, table.blocks))


class Clusters(NamedTuple):
    """Where a run is, or where it has ended."""

    labels: NDArray[np.int64]
    A: NDArray[np.float64]  # the means
    value: float  # the objective
    trace: list[float]  # the objective at the start and after each iteration
    converged: bool = False

    @property
    def K(self) -> int:
        """Number of clusters."""
        return len(self.A)

    @property
    def iterations(self) -> int:
        """Passes over the rows."""
        return len(self.trace) - 1


def cluster_sums(table: Table, labels: NDArray, K: int, workers: Workers) -> tuple[NDArray, NDArray, NDArray]:
    """Means, weights and numbers of rows of K clusters; the means of empty ones are not numbers."""
    from madbayes.engine import kernels

    D = table.X.shape[1]

    def one(rows: slice) -> tuple[NDArray, NDArray, NDArray]:
        sums, sizes, counts = np.zeros((K, D)), np.zeros(K), np.zeros(K, dtype=np.int64)
        kernels.add_rows(table.X[rows] - table.origin, table.weights[rows], labels[rows], sums, sizes, counts)
        return sums, sizes, counts

    sums, sizes, counts = (np.sum(parts, axis=0) for parts in zip(*workers.map(one, table.blocks), strict=True))
    with np.errstate(invalid="ignore"):
        return sums / sizes[:, None] + table.origin.astype(np.float64), sizes, counts


def cluster_means(table: Table, labels: NDArray, K: int, workers: Workers) -> NDArray:
    """The mean of each of K clusters."""
    return cluster_sums(table, labels, K, workers)[0]


def fit(table: Table, state: Assignment, A: NDArray, penalty: float, trace: list[float], workers: Workers) -> Clusters:
    """Move the centres A to the means of their rows; empty clusters are dropped, the others keep their order.

    Moving a centre to the mean lowers the squared error by the weight of its rows times the squared shift.
    """
    means, sizes, counts = cluster_sums(table, state.labels, len(A), workers)
    kept = counts > 0
    shifts = ((means[kept] - A[kept]) ** 2).sum(axis=1)
    value = weighted_sum(table, state.distances) - float(sizes[kept] @ shifts) + (kept.sum() - 1) * penalty
    labels = state.labels if kept.all() else (np.cumsum(kept) - 1)[state.labels]
    return Clusters(labels, means[kept], value, [*trace, value])


def weighted_sum(table: Table, errors: NDArray) -> float:
    """Sum over rows, each times its weight."""
    return float(table.weights @ errors if table.weights.size else errors.sum())


def open_pass(
    table: Table, A: NDArray, state: Assignment, penalty: float, order: NDArray | None, cap: float
) -> tuple[Assignment, NDArray[np.int64]]:
    """The serial pass of DP-means: where rows are after it, and those that opened clusters, in their order.

    Up to the first row that is too far from all centres nothing changes. From there on, chunks of rows are compared
    with the new clusters so far, and then go through one by one.
    """
    from madbayes.engine import kernels

    (labels, distances), weights, K = state, table.weights, len(A)
    threshold = (1 + RELATIVE_GAIN) * penalty
    far = (weights * distances if weights.size else distances) > threshold
    if not far.any() or cap <= K:
        return state, np.empty(0, dtype=np.int64)
    negligible = rounding_error(table.X)
    order = np.arange(len(labels)) if order is None else order
    opened = np.empty(int(min(cap - K, max(64, 2 * K))), dtype=np.int64)
    used, position = 0, int(far[order].argmax())
    while position < len(order):
        rows = order[position : position + CHUNK]
        some_labels, some_distances = _with_new(table, rows, labels[rows], distances[rows], opened[:used], K)
        used_after = kernels.open_clusters(
            table.X, weights, rows, some_labels, some_distances, threshold, negligible, opened, used, K
        )
        if used_after == len(opened) < cap - K:  # there may have been no room for all: take the chunk again
            opened = np.append(opened[:used], np.empty(int(min(cap - K, 2 * len(opened))) - used, dtype=np.int64))
            continue
        labels[rows], distances[rows] = some_labels, some_distances
        used, position = used_after, position + len(rows)
    return Assignment(labels, distances), opened[:used]


def _with_new(
    table: Table, rows: NDArray, labels: NDArray, distances: NDArray, opened: NDArray, K: int
) -> tuple[NDArray, NDArray]:
    """Labels and distances of some rows once the clusters opened so far are there too."""
    if not len(opened):
        return labels, distances
    new_labels, new_distances = np.full(len(rows), -1), np.empty(len(rows))
    table.nearest(rows, table.X[opened].astype(np.float64), new_labels, new_distances)
    closer = new_distances < distances
    return np.where(closer, K + new_labels, labels), np.where(closer, new_distances, distances)


def start(table: Table, A: NDArray | None, penalty: float, workers: Workers) -> Clusters:
    """Rows at the nearest of some centres, or all in one cluster; means fitted."""
    A = table.mean()[None] if A is None else np.asarray(A, dtype=np.float64)
    return fit(table, assign(table, A, np.full(len(table.X), -1), workers), A, penalty, [], workers)


def dp_means(
    table: Table,
    penalty: float,
    A: NDArray | None = None,
    *,
    order: NDArray | None = None,
    max_clusters: int | None = None,
    max_iter: int = 300,
    workers: Workers,
) -> Clusters:
    """The run of :func:`madbayes.paper.dp_means`, with the same labels."""
    cap = np.inf if max_clusters is None else max_clusters
    run = start(table, A, penalty, workers)
    while not run.converged and run.iterations < max_iter:
        state = assign(table, run.A, run.labels, workers)
        state, opened = open_pass(table, run.A, state, penalty, order, cap)
        converged = not len(opened) and np.array_equal(state.labels, run.labels)
        centres = np.concatenate([run.A, table.X[opened]])
        run = fit(table, state, centres, penalty, run.trace, workers)._replace(converged=converged)
    return run


def k_means(table: Table, A: NDArray, *, max_iter: int = 300, workers: Workers) -> Clusters:
    """The run of :func:`madbayes.paper.k_means`, with the same labels."""
    K, run = len(A), _refill(table, len(A), start(table, A, 0.0, workers), workers)
    while not run.converged and run.iterations < max_iter:
        state = assign(table, run.A, run.labels, workers)
        converged = np.array_equal(state.labels, run.labels)
        run = fit(table, state, run.A, 0.0, run.trace, workers)
        run = _refill(table, K, run, workers)._replace(converged=converged)
    return run


def _refill(table: Table, K: int, run: Clusters, workers: Workers) -> Clusters:
    """Put a cluster on the row of largest error until there are K, or nothing is left to explain."""
    while run.K < K:
        distances = assign(table, run.A, run.labels, workers).distances
        worst = int((table.weights * distances if table.weights.size else distances).argmax())
        if distances[worst] <= rounding_error(table.X):
            break
        labels = run.labels.copy()
        labels[worst], distances[worst] = run.K, 0.0
        centres = np.concatenate([run.A, table.X[worst : worst + 1]])
        run = fit(table, Assignment(labels, distances), centres, 0.0, run.trace[:-1], workers)
    return run


def collapsed_dp_means(
    table: Table,
    penalty: float,
    A: NDArray | None = None,
    *,
    order: NDArray | None = None,
    max_clusters: int | None = None,
    max_iter: int = 300,
    workers: Workers,
) -> Clusters:
    """The run of :func:`madbayes.paper.collapsed_dp_means`, with the same labels."""
    from madbayes.engine import kernels

    X, N = table.X, len(table.X)
    order = np.arange(N) if order is None else order
    weights = table.weights if table.weights.size else np.ones(N)
    cap = np.iinfo(np.int64).max if max_clusters is None else max_clusters
    limits = (penalty, rounding_error(X), RELATIVE_GAIN, cap)
    run, moved = start(table, A, penalty, workers), True
    while moved and run.iterations < max_iter:
        labels, means = run.labels.copy(), run.A
        counts, sizes = np.bincount(labels), np.bincount(labels, weights)
        used, position, moved = run.K, 0, False
        while position < N:
            room = 2 * used + 8
            means, sizes, counts = (_with_room(part, room) for part in (means[:used], sizes[:used], counts[:used]))
            used, some, position = kernels.collapsed_clusters(
                X, weights, order, position, labels, means, sizes, counts, used, *limits
            )
            moved = moved or some > 0
        state = Assignment(labels, distances_to(table, means, labels, workers))
        run = fit(table, state, means[:used], penalty, run.trace, workers)
    return run._replace(converged=not moved)


def _with_room(part: NDArray, room: int) -> NDArray:
    """The same with zeros after it, up to this length."""
    return np.concatenate([part, np.zeros((room - len(part), *part.shape[1:]), dtype=part.dtype)])
