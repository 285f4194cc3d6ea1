"""DP-means, K-means and collapsed DP-means on blocks of rows.

Squared distances come from one matrix product for each tile of rows, taken about an origin so that an offset does not
eat the digits, and are taken anew by differences where rounding leaves a doubt. So the labels are those of the serial
pass, in single precision too.

A row is compared with the centres only when they have moved far enough to change its label: until then the triangle
inequality says that its nearest centre is the same. Sums of clusters follow the rows that move.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.model.likelihoods import Weights
from madbayes.paper.result import RELATIVE_GAIN, rounding_error

# Rows that are compared with each other when clusters are opened.
CHUNK = 512
# Distances of a tile of rows: about this many, so that they stay in the cache.
TILE_ENTRIES = 2**17
# Tables of at most so many columns go without a matrix product, in strips of rows.
NARROW, STRIP = 4, 512
# Sums that followed moves are taken afresh when more than this share of the rows moves, ...
MANY_MOVES = 0.0625
# ... after so many passes, or when the squared error has come down to this share: rounding errors stay what they were.
FRESH_PASSES, FRESH_SHARE = 16, 0.01
# When more than this share of a block has to be looked at, gathering those rows takes longer than looking at all.
MANY_PENDING = 0.75
# What the centres are numbered from in the kernel: the sum of two numbers is not a number of one.
FIRST_CODE = 2**20

Rows = slice | NDArray[np.int64]


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
        return cls(X, origin, weights, row_blocks(len(X), max(16, X.shape[1])))

    def take(self, rows: Rows) -> tuple[NDArray, NDArray]:
        """Some rows, and their weights."""
        X = self.X[rows] if isinstance(rows, slice) else self.X.take(rows, axis=0)  # ten times as fast as an index
        return X, self.weights[rows] if self.weights.size else self.weights

    def mean(self) -> NDArray:
        """The weighted mean of all rows."""
        return np.average(self.X, axis=0, weights=self.weights if self.weights.size else None).astype(np.float64)


class Centres(NamedTuple):
    """Centres that rows are compared with, in the form the kernel wants."""

    A: NDArray[np.float64]  # K x D
    factor: NDArray  # D x K, minus twice the centres, about the origin
    bias: NDArray  # their squares
    codes: NDArray
    limits: NDArray  # what rounding may do: a share of the squares, if they are between these two
    threshold: float  # squared distance times weight above which a row is too far

    @classmethod
    def of(cls, table: Table, A: NDArray, threshold: float = np.inf) -> "Centres":
        """The bound on rounding errors is that of a product of D terms, whatever their order."""
        dtype, (K, D) = table.X.dtype, A.shape
        about, precision = (A - table.origin).astype(dtype), np.finfo(dtype)
        squares = np.einsum("kd,kd->k", about, about, dtype=np.float64)
        largest = (
            precision.max / 8 if squares.max() < precision.max / 8 else 0.0
        )  # where squares overflow, all is doubt
        limits = np.array([(2 * D + 8) * precision.eps, precision.tiny / precision.eps, largest], dtype=dtype)
        with np.errstate(over="ignore"):
            bias = squares.astype(dtype)
        codes = np.arange(FIRST_CODE, FIRST_CODE + K, dtype=dtype)
        return cls(A, np.ascontiguousarray(-2 * about.T), bias, codes, limits, threshold)


class Room(NamedTuple):
    """Where a tile of rows is worked on."""

    scores: NDArray  # of a tile and all centres, or of a strip of a narrow table
    keys: NDArray  # the same memory as integers
    least: NDArray  # squares, codes of the nearest centres, and the two least distances
    least_keys: NDArray
    infinite: Any  # what infinity is among integers

    @classmethod
    def of(cls, dtype: np.dtype, D: int, K: int, n_rows: int) -> "Room":
        """For tables with few columns, or for the others."""
        integer = np.dtype(f"i{dtype.itemsize}")
        scores = np.empty((D + 1, STRIP) if D <= NARROW else (n_rows, K), dtype)
        least, infinite = np.empty((4, n_rows), dtype), np.array(np.inf, dtype)
        return cls(scores, scores.view(integer), least, least.view(integer), infinite.view(integer)[()])


def two_least(centred: NDArray, centres: Centres, room: Room) -> NDArray:
    """Squares of rows, the nearest centre and the two least distances, all up to rounding."""
    from madbayes.engine import kernels

    n, D = centred.shape
    bias, codes, squares, found = centres.bias, centres.codes, room.least[0], room.least[1]
    if D <= NARROW:
        kernels.two_least_narrow(centred, centres.factor, bias, codes, room.scores, *room.least)
    else:
        scores, keys = room.scores[:n], room.keys[:n]
        with np.errstate(over="ignore", invalid="ignore"):
            np.dot(centred, centres.factor, out=scores)
        kernels.two_least(
            centred, bias, codes, scores, keys, room.infinite, squares, found, room.least_keys[2], room.least_keys[3]
        )
    return room.least[:, :n]


def compare(table: Table, centres: Centres, rows: Rows, labels: NDArray, slack: NDArray) -> None:
    """Nearest centre of some rows, and how far centres may move before it can change; labels that tie stay."""
    from madbayes.engine import kernels

    X, weights = table.take(rows)
    K, D = centres.A.shape
    size = max(64, TILE_ENTRIES // (D if D <= NARROW else K))
    room = Room.of(X.dtype, D, K, min(size, len(X)))
    for begin in range(0, len(X), size):
        tile = slice(begin, begin + size)
        centred = X[tile] - table.origin if table.origin.any() else X[tile]
        least = two_least(centred, centres, room)
        kernels.decide_rows(
            X[tile],
            centres.A,
            weights[tile],
            centres.codes,
            centres.limits,
            centres.threshold,
            *least,
            labels[tile],
            slack[tile],
        )


class Assignment(NamedTuple):
    """Where the rows are."""

    labels: NDArray[np.int64]
    slack: NDArray[np.float64]  # how far centres may move before a row has to be looked at; minus infinity: too far now


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


def assign(
    table: Table, A: NDArray, before: Assignment, shifts: NDArray, threshold: float, workers: Workers
) -> Assignment:
    """The nearest centre of every row, looking only at rows for which it may have changed with these shifts."""
    from madbayes.engine import kernels

    centres, labels, slack = Centres.of(table, A, threshold), before.labels.copy(), before.slack.copy()

    def one(rows: slice) -> None:
        pending = np.empty(rows.stop - rows.start, dtype=np.int64)
        used = kernels.pending_rows(labels[rows], shifts, slack[rows], pending)
        if used > MANY_PENDING * len(pending):
            compare(table, centres, rows, labels[rows], slack[rows])
        elif used:
            some = pending[:used] + rows.start
            labels[some], slack[some] = compared(table, centres, some, labels[some])

    workers.map(one, table.blocks)
    return Assignment(labels, slack)


def compared(table: Table, centres: Centres, rows: Rows, labels: NDArray) -> Assignment:
    """The same for some rows that have these labels."""
    state = Assignment(labels.copy(), np.empty(len(labels)))
    compare(table, centres, rows, *state)
    return state


def nowhere(n_rows: int) -> Assignment:
    """Rows without labels."""
    return Assignment(np.full(n_rows, -1), np.zeros(n_rows))


def moved_by(A: NDArray, B: NDArray) -> NDArray[np.float64]:
    """The distance of each centre in A from that in B."""
    return np.sqrt(((A - B) ** 2).sum(axis=1))


class Nearest:
    """The nearest centre of every row of a table, the first of several.

    When it is called again with nearly the same centres, in whatever order, it looks only at rows in doubt.
    """

    def __init__(self, X: NDArray) -> None:
        self.table, self.state, self.A = Table.of(X, None), nowhere(len(X)), np.empty((0, X.shape[1]))

    def __call__(self, A: NDArray, workers: Workers) -> NDArray[np.int32]:
        """Labels for the centres A."""
        A = np.asarray(A, dtype=np.float64)
        self.state = assign(self.table, A, self._known(A), np.zeros(len(A)), np.inf, workers)
        self.A = A
        return self.state.labels.astype(np.int32)

    def _known(self, A: NDArray) -> Assignment:
        """What is left to say from the last call; no label where it is in doubt."""
        if A.shape != self.A.shape:
            return nowhere(len(self.table.X))
        resorted = np.empty(len(A), dtype=np.intp)
        resorted[np.lexsort(A.T)] = np.lexsort(self.A.T)
        match = min((np.arange(len(A)), resorted), key=lambda match: moved_by(A, self.A[match]).max())
        shifts = moved_by(A, self.A[match])
        labels = np.argsort(match)[self.state.labels]
        slack = self.state.slack - (shifts + shifts.max())[labels]
        return Assignment(np.where(slack > 0, labels, -1), slack)


def nearest(X: NDArray, A: NDArray, workers: Workers) -> NDArray[np.int32]:
    """The nearest centre of every row; the first of several."""
    return Nearest(X)(A, workers)


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

    totals, sizes, counts, error = (sum(parts) for parts in zip(*workers.map(one, table.blocks), strict=True))
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
