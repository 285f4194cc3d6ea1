"""DP-means, K-means and collapsed DP-means on blocks of rows.

The labels are those of the serial pass. Sums of clusters follow the rows that move.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers
from madbayes.engine.centres import Assignment, Centres, Rows, Table, assign, compared, nowhere
from madbayes.paper.result import RELATIVE_GAIN, rounding_error

# Rows that are compared with each other when clusters are opened.
CHUNK = 512
# Sums that followed moves are taken afresh when more than this share of the rows moves, ...
MANY_MOVES = 0.0625
# ... after so many passes, or when the squared error has come down to this share: rounding errors stay what they were.
FRESH_PASSES, FRESH_SHARE = 16, 0.01
# Into how many parts the rows are split for fresh sums: each part has sums of its own.
PARTS = 32


class Sums(NamedTuple):
    """What the means of clusters are computed from."""

    totals: NDArray[np.float64]  # K x D, sums of rows about the origin
    sizes: NDArray[np.float64]  # their weights
    counts: NDArray[np.int64]
    age: int = 0  # how many times they followed moves since they were taken afresh
    error: float = 0.0  # the squared error then


class Clusters(NamedTuple):
    """Where a run is, or where it has ended."""

    labels: NDArray[np.int64]
    A: NDArray[np.float64]  # the means
    value: float  # the objective
    trace: list[float]  # the objective at the start and after each iteration
    converged: bool
    sse: float  # the squared error alone
    sums: Sums
    slack: NDArray[np.float64]  # as in Assignment, for the centres before they were last moved
    shifts: NDArray[np.float64]  # what moving them takes off the slack of the rows of each cluster

    @property
    def K(self) -> int:
        """Number of clusters."""
        return len(self.A)

    @property
    def assignment(self) -> Assignment:
        """Where the rows are, as the last pass left it."""
        return Assignment(self.labels, self.slack)

    @property
    def iterations(self) -> int:
        """Passes over the rows."""
        return len(self.trace) - 1


def distances_to(table: Table, A: NDArray, labels: NDArray, workers: Workers) -> NDArray[np.float64]:
    """Squared distance of each row to the centre of its label, by differences."""
    from madbayes.engine import kernels

    labels, distances = labels.astype(np.int64, copy=False), np.empty(len(labels))
    workers.map(
        lambda rows: kernels.row_distances(table.X[rows], A, labels[rows], distances[rows]),
        table.blocks,
    )
    return distances


def weighted_sum(table: Table, errors: NDArray) -> float:
    """Sum over rows, each times its weight."""
    return float(table.weights @ errors if table.weights.size else errors.sum())


def squared_error(table: Table, A: NDArray, labels: NDArray, workers: Workers) -> float:
    """Sum of squared distances to the centres of the labels, by differences."""
    return weighted_sum(table, distances_to(table, A, labels, workers))


def fresh_sums(table: Table, labels: NDArray, A: NDArray, workers: Workers) -> Sums:
    """Sums over the rows of each cluster; their error is about the centres A."""
    from madbayes.engine import kernels

    labels = labels.astype(np.int64, copy=False)

    def one(rows: slice) -> tuple[NDArray, NDArray, NDArray, float]:
        sums, sizes, counts = np.zeros(A.shape), np.zeros(len(A)), np.zeros(len(A), dtype=np.int64)
        error = kernels.add_rows(table.X[rows], table.origin, table.weights[rows], labels[rows], A, sums, sizes, counts)
        return sums, sizes, counts, error

    step = -(-len(table.blocks) // PARTS)
    groups = [table.blocks[i : i + step] for i in range(0, len(table.blocks), step)]
    parts = workers.map(one, [slice(group[0].start, group[-1].stop) for group in groups])
    totals, sizes, counts, error = (sum(part) for part in zip(*parts, strict=True))
    return Sums(totals, sizes, counts, 0, error)


def moved_sums(table: Table, run: Clusters, labels: NDArray, A: NDArray, moved: NDArray) -> tuple[Sums, float]:
    """Sums of a run once some rows have new labels, and the squared error about the centres A."""
    from madbayes.engine import kernels

    totals, sizes, counts = (with_room(part, len(A)) for part in run.sums[:3])
    change = kernels.move_rows(
        table.X, table.origin, table.weights, moved, run.labels, labels, A, totals, sizes, counts
    )
    return Sums(totals, sizes, counts, run.sums.age + 1, run.sums.error), run.sse + change


def with_room(part: NDArray, room: int) -> NDArray:
    """A copy with zeros after it, up to this length."""
    return np.concatenate([part, np.zeros((room - len(part), *part.shape[1:]), dtype=part.dtype)])


def means_of(table: Table, sums: Sums) -> NDArray[np.float64]:
    """The means of the clusters; those of empty ones are not numbers."""
    with np.errstate(invalid="ignore"):
        return sums.totals / sums.sizes[:, None] + table.origin.astype(np.float64)


def cluster_means(table: Table, labels: NDArray, K: int, workers: Workers) -> NDArray:
    """The mean of each of K clusters."""
    return means_of(table, fresh_sums(table, labels, np.zeros((K, table.X.shape[1])), workers))


def fit(
    table: Table,
    state: Assignment,
    A: NDArray,
    penalty: float,
    workers: Workers,
    run: Clusters | None = None,
) -> Clusters:
    """Move the centres A to the means of their rows; empty clusters are dropped, the others keep their order.

    Moving a centre to the mean lowers the squared error by the weight of its rows times the squared shift. ``run`` is
    where the rows come from, the first centres of A being its own.
    """
    moved = np.empty(0, dtype=np.int64) if run is None else np.flatnonzero(state.labels != run.labels)
    if run is None or is_stale(run, len(moved)):
        sums = fresh_sums(table, state.labels, A, workers)
        error = sums.error
    else:
        sums, error = moved_sums(table, run, state.labels, A, moved)
    kept = sums.counts > 0
    labels = state.labels if kept.all() else (np.cumsum(kept) - 1)[state.labels]
    sums = sums._replace(totals=sums.totals[kept], sizes=sums.sizes[kept], counts=sums.counts[kept])
    means = means_of(table, sums)
    squares = ((means - A[kept]) ** 2).sum(axis=1)
    sse = max(0.0, float(error - sums.sizes @ squares))
    shifts = np.sqrt(squares)
    value = sse + (len(means) - 1) * penalty
    trace = [*(run.trace if run else []), value]
    return Clusters(labels, means, value, trace, False, sse, sums, state.slack, shifts + shifts.max())


def is_stale(run: Clusters, n_moved: int) -> bool:
    """Whether sums have to be taken afresh: for speed, or so that rounding errors do not add up."""
    old = run.sums.age >= FRESH_PASSES or run.sse < FRESH_SHARE * run.sums.error
    return old or n_moved > MANY_MOVES * len(run.labels)


def afresh(table: Table, run: Clusters, penalty: float, workers: Workers) -> Clusters:
    """The same clusters; sums and the squared error taken from the rows."""
    if run.sums.age == 0:
        return run
    fresh = fit(table, run.assignment, run.A, penalty, workers)
    return fresh._replace(trace=[*run.trace[:-1], fresh.value], converged=run.converged)


def open_pass(
    table: Table, A: NDArray, state: Assignment, penalty: float, order: NDArray | None, cap: float, workers: Workers
) -> tuple[Assignment, NDArray[np.int64]]:
    """The serial pass of DP-means: where rows are after it, and those that opened clusters, in their order.

    Up to the first row that is too far from all centres nothing changes. From there on, a chunk of rows goes through
    one by one, and those after it are compared with all centres so far until another is too far from them.
    """
    far, opened = state.slack == -np.inf, np.empty(0, dtype=np.int64)
    if not far.any():
        return state, opened
    negligible = max(workers.map(lambda rows: rounding_error(table.X[rows]), table.blocks))
    position, end = int((far if order is None else far[order]).argmax()), len(far)
    threshold, behind = opening_threshold(penalty), 0
    while position < len(far):
        rows = rows_at(order, position, min(position + CHUNK, end))
        new = _open_chunk(table, rows, state, A, (threshold, negligible), int(min(cap - len(A), CHUNK)))
        position = min(position + CHUNK, end)
        if len(new):
            A, opened, behind = np.concatenate([A, table.X[new]]), np.append(opened, new), position
        centres = Centres.of(table, A, threshold if len(A) < cap else np.inf)
        position, end = _next_far(table, centres, state, order, position, workers)
    state.slack[rows_at(order, 0, behind)] = 0.0  # these have not been compared with all the new clusters
    return state, opened


def opening_threshold(penalty: float) -> float:
    """A row opens a cluster when its squared distance times its weight is above this."""
    return (1 + RELATIVE_GAIN) * penalty


def rows_at(order: NDArray | None, begin: int, end: int) -> Rows:
    """Some rows in the order of the pass."""
    return slice(begin, end) if order is None else order[begin:end]


def _open_chunk(
    table: Table, rows: Rows, state: Assignment, A: NDArray, limits: tuple[float, float], room: int
) -> NDArray[np.int64]:
    """Let some rows open clusters one after the other, and join those; returns which did."""
    from madbayes.engine import kernels

    X, weights = table.take(rows)
    labels, distances, opened = state.labels[rows].copy(), np.empty(len(X)), np.empty(room, dtype=np.int64)
    kernels.row_distances(X, A, labels, distances)
    used = kernels.open_clusters(X, weights, labels, distances, *limits, len(A), opened)
    state.labels[rows] = labels
    return opened[:used] + rows.start if isinstance(rows, slice) else rows[opened[:used]]


def _next_far(
    table: Table, centres: Centres, state: Assignment, order: NDArray | None, position: int, workers: Workers
) -> tuple[int, int]:
    """Compare rows from a position on with all centres: where the first is that is too far, and how far it looked.

    It looks farther each time it finds none, so it compares at most about twice as many rows as there are.
    """
    N, size, window = len(table.X), table.blocks[0].stop, CHUNK

    def one(rows: Rows) -> None:
        state.labels[rows], state.slack[rows] = compared(table, centres, rows, state.labels[rows])

    while position < N:
        end = min(position + window, N)
        workers.map(one, [rows_at(order, begin, min(begin + size, end)) for begin in range(position, end, size)])
        far = np.flatnonzero(state.slack[rows_at(order, position, end)] == -np.inf)
        if len(far):
            return position + int(far[0]), end
        position, window = end, 2 * window
    return N, N


def start(table: Table, A: NDArray | None, penalty: float, workers: Workers) -> Clusters:
    """Rows at the nearest of some centres, or all in one cluster; means fitted."""
    N = len(table.X)
    if A is None:
        together, origin = Assignment(np.zeros(N, dtype=np.int64), np.zeros(N)), table.origin.astype(np.float64)
        return fit(table, together, origin[None], penalty, workers)
    A = np.asarray(A, dtype=np.float64)
    return fit(table, assign(table, A, nowhere(N), np.zeros(len(A)), np.inf, workers), A, penalty, workers)


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

    def threshold(K: int) -> float:
        return opening_threshold(penalty) if cap > K else np.inf

    run = forgetful(start(table, A, penalty, workers))  # as the start was without a threshold
    while not run.converged and run.iterations < max_iter:
        state = assign(table, run.A, run.assignment, run.shifts, threshold(run.K), workers)
        state, opened = open_pass(table, run.A, state, penalty, order, cap, workers)
        if not len(opened) and np.array_equal(state.labels, run.labels):
            run = run._replace(trace=[*run.trace, run.value], converged=True)
            continue
        centres = np.concatenate([run.A, table.X[opened]])
        run = fit(table, state, centres, penalty, workers, run)
        if threshold(run.K) != threshold(len(centres)):  # a cluster was lost, so that another may be opened
            run = forgetful(run)
    return afresh(table, run, penalty, workers)


def forgetful(run: Clusters) -> Clusters:
    """The same, but all rows will be looked at."""
    return run._replace(slack=np.zeros(len(run.labels)))


def k_means(table: Table, A: NDArray, *, max_iter: int = 300, workers: Workers) -> Clusters:
    """The run of :func:`madbayes.paper.k_means`, with the same labels."""
    K, run = len(A), _refill(table, len(A), start(table, A, 0.0, workers), workers)
    while not run.converged and run.iterations < max_iter:
        state = assign(table, run.A, run.assignment, run.shifts, np.inf, workers)
        if np.array_equal(state.labels, run.labels):
            run = run._replace(trace=[*run.trace, run.value], converged=True)
        else:
            run = _refill(table, K, fit(table, state, run.A, 0.0, workers, run), workers)
    return afresh(table, run, 0.0, workers)


def _refill(table: Table, K: int, run: Clusters, workers: Workers) -> Clusters:
    """Put a cluster on the row of largest error until there are K, or nothing is left to explain."""
    while run.K < K:
        distances = distances_to(table, run.A, run.labels, workers)
        worst = int((table.weights * distances if table.weights.size else distances).argmax())
        if distances[worst] <= rounding_error(table.X):
            break
        labels = run.labels.copy()
        labels[worst] = run.K
        centres = np.concatenate([run.A, table.X[worst : worst + 1]])
        filled = fit(table, Assignment(labels, np.zeros(len(labels))), centres, 0.0, workers, run)
        run = filled._replace(trace=[*run.trace[:-1], filled.value])
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
            means, sizes, counts = (with_room(part, room) for part in (means[:used], sizes[:used], counts[:used]))
            used, some, position = kernels.collapsed_clusters(
                X, weights, order, position, labels, means, sizes, counts, used, *limits
            )
            moved = moved or some > 0
        fitted = fit(table, Assignment(labels, run.slack), means[:used], penalty, workers)
        run = fitted._replace(trace=[*run.trace, fitted.value])
    return run._replace(converged=not moved)
