"""DP-means and K-means on a table that lives in parts: only sums of clusters and rows that are too far travel.

New clusters are opened optimistically (Pan et al. 2013): every part compares its rows with the clusters there are, and
proposes those that are too far from all of them; the proposals are then gone through one by one, each joining a cluster
that was opened just before or opening one itself. That is the serial pass of DP-means over the rows in another order:
those that are near a cluster first, then the others as they were proposed.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.centres import Centres, Table, compared, moved_by
from madbayes.engine.homes import Descent, Home, Kept, Moments, Part, few_rows, masses
from madbayes.engine.partition import FRESH_PASSES, FRESH_SHARE, MANY_MOVES, opening_threshold, with_room

# Rows of a part that may propose a cluster at a time: they travel.
PROPOSALS = 256
# Rows that are compared and added up while they are in the cache.
TILE = 2**18


class Order(NamedTuple):
    """What a pass over all parts shall do."""

    A: NDArray[np.float64]  # the means
    origin: NDArray  # what distances are computed about
    threshold: float  # weighted squared distance above which a row is too far
    shifts: NDArray[np.float64]  # what the move of the means takes off the slack of each cluster's rows
    names: NDArray[np.int64] | None  # new label of each old one, if clusters were dropped
    afresh: bool  # whether sums are taken from all rows, not only from those that move
    anew: bool = False  # whether a row that ties goes to the first cluster, wherever it is
    only_far: bool = False  # whether only rows that are too far are looked at again


class Proposals(NamedTuple):
    """Rows that are too far from all clusters."""

    rows: NDArray[np.int64]  # their places in the part
    X: NDArray
    weights: NDArray[np.float64]  # or of length 0 when all weigh 1
    labels: NDArray[np.int64]  # of the nearest cluster
    waiting: int  # how many more there are in the part


class Sums(NamedTuple):
    """What is added up of the rows of each cluster; or what moves change in it."""

    totals: NDArray[np.float64]  # rows about the origin
    sizes: NDArray[np.float64]  # their weights
    counts: NDArray[np.int64]  # how many they are

    @classmethod
    def nothing(cls, K: int, D: int) -> "Sums":
        """Of no rows."""
        return cls(np.zeros((K, D)), np.zeros(K), np.zeros(K, dtype=np.int64))

    def plus(self, other: "Sums") -> "Sums":
        """Of the rows of both."""
        return Sums(self.totals + other.totals, self.sizes + other.sizes, self.counts + other.counts)

    def of(self, clusters: NDArray) -> "Sums":
        """Some clusters."""
        return Sums(*(part[clusters] for part in self))

    def with_room(self, K: int) -> "Sums":
        """With clusters that have no rows after the others, K in all."""
        return Sums(*(with_room(part, K) for part in self))


class Summary(NamedTuple):
    """What a part has to say after a pass."""

    sums: Sums
    error: float  # the squared error about the centres, or its change
    moved: int  # how many rows have another label
    proposals: Proposals | None


class Note(NamedTuple):
    """Labels of some rows of a part that were decided elsewhere."""

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]


def unpacked(kept: Kept, names: NDArray | None, note: Note | None) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Labels and slack of the rows of a part as the last pass left them, with what was decided elsewhere since."""
    labels, slack = kept[0].astype(np.int64), kept[1].copy()
    if note is not None:
        labels[note.rows], slack[note.rows] = note.labels, 0.0
    return labels if names is None else names[labels], slack


def packed(labels: NDArray[np.int64], slack: NDArray, order: Order) -> Kept:
    """The same in as few bytes as labels need."""
    return labels.astype(np.min_scalar_type(len(order.A))), slack


def too_far(n_rows: int) -> Kept:
    """What is kept of rows that have not been looked at."""
    return np.zeros(n_rows, dtype=np.uint8), np.full(n_rows, -np.inf, dtype=np.float32)


def pending_in(labels: NDArray[np.int64], slack: NDArray, order: Order) -> NDArray[np.int64]:
    """The rows whose cluster may have changed; what the move of the means takes off their slack is taken off."""
    from madbayes.engine import kernels

    if order.only_far:
        return np.flatnonzero(slack == -np.inf)
    pending = np.empty(len(labels), dtype=np.int64)
    return pending[: kernels.pending_rows(labels, order.shifts, slack, pending)]


def look(part: Part, kept: Kept | None, order: Order, note: Note | None) -> tuple[Kept, Summary]:
    """A step: the nearest cluster of every row for which it may have changed."""
    labels, slack = unpacked(too_far(len(part)) if kept is None else kept, order.names, note)
    K, D = order.A.shape
    sums, moved = Sums.nothing(K, D), 0
    pending = pending_in(labels, slack, order)
    if not len(pending) and not order.afresh:
        return packed(labels, slack, order), Summary(sums, 0.0, moved, None)
    table = Table(part.X, order.origin, part.weights, [])
    centres, error = Centres.of(table, order.A, order.threshold), 0.0
    for rows, some in tiles(len(part), D, pending):
        before = labels[some]
        start = np.full(len(some), -1) if order.anew or kept is None else before
        after, room = compared(table, centres, rows if len(some) == rows.stop - rows.start else some, start)
        labels[some], slack[some] = after, rounded_down(room)
        changed = np.flatnonzero(before != after)
        moved += len(changed)
        if order.afresh:
            error += add(table, order, rows, labels[rows], sums)
        elif len(changed):
            error += move(table, order, some[changed], before[changed], after[changed], sums)
    return packed(labels, slack, order), Summary(sums, error, moved, proposals(table, labels, slack))


def rounded_down(slack: NDArray[np.float64]) -> NDArray[np.float32]:
    """In single precision, and never more: no row is thought certain that is not."""
    from madbayes.engine.kernels.clusters import ROUNDED_DOWN

    return np.minimum(ROUNDED_DOWN * slack, np.finfo(np.float32).max).astype(np.float32)


def add(table: Table, order: Order, rows: slice, labels: NDArray, sums: Sums) -> float:
    """Add rows to the sums of their clusters; returns their squared error."""
    from madbayes.engine import kernels

    X, weights = table.take(rows)
    return kernels.add_rows(X, order.origin, weights, labels, order.A, *sums)


def move(table: Table, order: Order, rows: NDArray, before: NDArray, after: NDArray, sums: Sums) -> float:
    """Move rows from the sums of one cluster to those of another; returns by how much the squared error grows."""
    from madbayes.engine import kernels

    X, weights = table.take(rows)
    return kernels.move_rows(X, order.origin, weights, np.arange(len(rows)), before, after, order.A, *sums)


def tiles(n_rows: int, n_columns: int, pending: NDArray) -> Iterator[tuple[slice, NDArray]]:
    """Slices of rows that fit in the cache, with those of them that are pending."""
    size = max(256, TILE // max(1, n_columns))
    for begin in range(0, n_rows, size):
        rows = slice(begin, min(begin + size, n_rows))
        yield rows, pending[slice(*np.searchsorted(pending, (rows.start, rows.stop)))]


def proposals(table: Table, labels: NDArray, slack: NDArray) -> Proposals | None:
    """The first rows that are too far, and how many there are beside them."""
    far = np.flatnonzero(slack == -np.inf)
    if not len(far):
        return None
    some = far[:PROPOSALS]
    return Proposals(some, *table.take(some), labels[some], len(far) - len(some))


def add_errors(part: Part, kept: Kept, order: Order, note: Note | None) -> tuple[Kept, NDArray[np.float64]]:
    """A step: the squared error of each cluster. All stays as it was."""
    labels, _ = unpacked(kept, order.names, note)
    squares = squares_about(part, order, labels)
    return kept, np.bincount(labels, masses(part) * squares, len(order.A)).astype(np.float64)


def squares_about(part: Part, order: Order, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Squared distance of each row to the centre of its cluster."""
    from madbayes.engine import kernels

    squares = np.empty(len(part))
    kernels.row_distances(part.X, order.A, labels, squares)
    return squares


class Worst(NamedTuple):
    """The row of a part with the largest weighted error."""

    error: float  # times its weight
    square: float  # not times its weight
    row: int  # its place in the part
    x: NDArray
    weight: float
    label: int


def find_worst(part: Part, kept: Kept, order: Order, note: Note | None) -> tuple[Kept, Worst]:
    """A step: the row that fits worst where it is. Slack stays as it was."""
    labels, slack = unpacked(kept, order.names, note)
    squares, weights = squares_about(part, order, labels), masses(part)
    n = int((weights * squares).argmax())
    worst = Worst(weights[n] * squares[n], squares[n], n, part.X[n].copy(), weights[n], int(labels[n]))
    return packed(labels, slack, order), worst


class Follower:
    """Follows the rows of a table from one set of centres to the next, and keeps the sums of their clusters.

    Attributes
    ----------
    A : array of shape (K, D)
        The centres that the rows have been compared with, those that were opened included.
    sums : Sums
        Of the rows of each cluster.
    error : float
        The squared error about A.
    moved : int
        How many rows changed their cluster in the last pass.
    """

    def __init__(self, home: Home, moments: Moments) -> None:
        self.home, self.ledger, self.moments = home, home.ledger(), moments
        some = few_rows(home)
        mean = some.mean(axis=0)
        # As in Table.of: there for the sake of digits only.
        self.origin = np.where(np.abs(mean) > 4 * some.std(axis=0), mean, 0.0).astype(home.dtype)
        self.A = np.empty((0, home.shape[1]))
        self.sums = Sums.nothing(0, home.shape[1])
        self.error, self.moved, self.age, self.first_error = 0.0, 0, 0, 0.0
        self.threshold: float | None = None  # of the last pass; None when slack is worth nothing
        self.names: NDArray[np.int64] | None = None  # clusters that were dropped or reordered since the last pass
        self.notes: dict[int, Note] = {}
        self.proposed: list[tuple[int, Proposals]] = []

    @property
    def means(self) -> NDArray[np.float64]:
        """The means of the clusters; those of empty ones are not numbers."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.sums.totals / self.sums.sizes[:, None] + self.origin.astype(np.float64)

    @property
    def sse(self) -> float:
        """The squared error about the means: moving a centre there takes off the weight times the squared shift."""
        return max(0.0, self.error - self._error_of_shift(self.A))

    def _error_of_shift(self, A: NDArray) -> float:
        """What centres A add to the squared error about the means."""
        squares = np.where(self.sums.counts > 0, ((A - self.means) ** 2).sum(axis=1), 0.0)
        return float(self.sums.sizes @ squares)

    def arrange(self, order: NDArray[np.intp]) -> None:
        """Only these clusters, in this order; the others must be empty."""
        names = np.full(len(self.A), -1)
        names[order] = np.arange(len(order))
        self.names = names if self.names is None else names[self.names]
        self.A, self.sums = self.A[order], self.sums.of(order)

    def look(self, A: NDArray, threshold: float = np.inf, *, anew: bool = False) -> None:
        """Every row goes to the nearest of the centres A, which are those of before, moved.

        A row that ties stays where it is; with ``anew`` it goes to the first.
        """
        A = np.asarray(A, dtype=np.float64)
        afresh, shifts = self._is_stale(), self._shifts(A, threshold)
        if afresh:
            self.age, self.sums, self.error = 0, Sums.nothing(*A.shape), 0.0
        else:
            self.age, self.error = self.age + 1, self.sse + self._error_of_shift(A)
        self.A, self.threshold, self.moved = A, threshold, 0
        self._go_over(Order(A, self.origin, threshold, shifts, self.names, afresh, anew))
        if afresh:
            self.first_error = self.error

    def _is_stale(self) -> bool:
        """Whether sums have to be taken afresh: for speed, or so that rounding errors do not add up."""
        old = self.age >= FRESH_PASSES or self.error < FRESH_SHARE * self.first_error
        return not len(self.A) or old or self.moved > MANY_MOVES * self.home.shape[0]

    def _shifts(self, A: NDArray, threshold: float) -> NDArray[np.float64]:
        """What moving the centres takes off the slack; all of it where nothing is known."""
        if self.threshold != threshold or len(A) != len(self.A):
            return np.full(len(A), np.inf)
        shifts = moved_by(A, self.A)
        return shifts + shifts.max()

    def _go_over(self, order: Order) -> None:
        """One pass; the sums follow."""
        self.proposed = []
        for p, part in enumerate(self.home.go_over(look, self.ledger, order, self.notes)):
            self.sums, self.error = self.sums.plus(part.sums), self.error + part.error
            self.moved += part.moved
            if part.proposals is not None:
                self.proposed.append((p, part.proposals))
        self.names, self.notes = None, {}

    def open_clusters(self, penalty: float, cap: float) -> int:
        """Rows that are too far open clusters, up to a cap; returns how many were opened."""
        before = len(self.A)
        if self.proposed:
            self.threshold = None  # slack will not tell who was too far, nor who is near a new cluster
        while self.proposed:
            waiting = sum(proposals.waiting for _, proposals in self.proposed)
            self._validate(self.proposed, opening_threshold(penalty), cap)
            if not waiting:
                break
            threshold = opening_threshold(penalty) if len(self.A) < cap else np.inf
            no_shifts = np.zeros(len(self.A))
            self._go_over(Order(self.A, self.origin, threshold, no_shifts, self.names, False, only_far=True))
        self.proposed = []
        return len(self.A) - before

    def _validate(self, proposed: list[tuple[int, Proposals]], threshold: float, cap: float) -> None:
        """Go through the proposals one by one: each joins a cluster opened just before, or opens one."""
        from madbayes.engine import kernels

        X = np.concatenate([proposals.X for _, proposals in proposed])
        weights = np.concatenate([proposals.weights for _, proposals in proposed])
        before = np.concatenate([proposals.labels for _, proposals in proposed])
        labels, squares = before.copy(), np.empty(len(X))
        opened = np.empty(int(min(max(cap - len(self.A), 0), len(X))), dtype=np.int64)
        kernels.row_distances(X, self.A, labels, squares)
        used = kernels.open_clusters(
            X, weights, labels, squares, threshold, self.moments.negligible, len(self.A), opened
        )
        self.A = np.concatenate([self.A, X[opened[:used]]])
        self.sums = self.sums.with_room(len(self.A))
        changed = np.flatnonzero(labels != before)
        self.moved += len(changed)
        self.error += kernels.move_rows(X, self.origin, weights, changed, before, labels, self.A, *self.sums)
        ends = np.cumsum([len(proposals.rows) for _, proposals in proposed])
        for (p, proposals), some in zip(proposed, np.split(labels, ends[:-1]), strict=True):
            self.notes[p] = Note(proposals.rows, some)

    def refill(self, K: int) -> int:
        """Put a cluster on the row of largest error until there are K, or nothing is left to explain; how many."""
        before = len(self.A)
        while len(self.A) < K:
            self.error, self.A = self.sse, self.means
            order = Order(self.A, self.origin, np.inf, np.zeros(len(self.A)), self.names, False)
            found = list(self.home.go_over(find_worst, self.ledger, order, self.notes))
            self.names, self.notes, self.threshold = None, {}, None
            p = max(range(len(found)), key=lambda p: found[p].error)
            worst = found[p]
            if worst.square <= self.moments.negligible:
                break
            self._put_alone(p, worst)
        return len(self.A) - before

    def _put_alone(self, p: int, worst: Worst) -> None:
        """One row becomes a cluster."""
        self.notes[p] = Note(np.array([worst.row]), np.array([len(self.A)]))
        change = worst.weight * (worst.x.astype(np.float64) - self.origin)
        self.sums, self.A = self.sums.with_room(len(self.A) + 1), np.concatenate([self.A, worst.x[None]])
        for label, sign in ((worst.label, -1), (-1, 1)):
            self.sums.totals[label] += sign * change
            self.sums.sizes[label] += sign * worst.weight
            self.sums.counts[label] += sign
        self.error -= worst.error

    def scatters(self) -> NDArray[np.float64]:
        """The squared error of each cluster about its mean."""
        order = Order(self.means, self.origin, np.inf, np.zeros(len(self.A)), self.names, False)
        return np.asarray(sum(self.home.go_over(add_errors, self.ledger, order, self.notes)))

    def labels(self) -> Iterator[NDArray[np.int64]]:
        """The cluster of each row, part after part."""
        parts = range(len(self.home.parts))
        return (unpacked(self.ledger[p], self.names, self.notes.get(p))[0] for p in parts)

    def drop_empty(self) -> None:
        """Clusters without rows vanish."""
        if not (self.sums.counts > 0).all():
            self.arrange(np.flatnonzero(self.sums.counts > 0))


def descend(
    home: Home,
    moments: Moments,
    penalty: float,
    A: NDArray,
    *,
    K: int | None = None,
    max_clusters: int | None = None,
    max_iter: int = 300,
    watch: Callable[[Descent], bool] = lambda run: False,
) -> Descent:
    """DP-means from the centres A; K-means if K is given, which clusters that lose their rows do not change.

    ``watch`` hears of every iteration, and ends the run with True.
    """
    cap = 0 if K is not None else np.inf if max_clusters is None else max_clusters
    rows = Follower(home, moments)
    rows.look(A)
    trace: list[float] = []

    def finish(changed: bool) -> Descent:
        rows.drop_empty()
        if K is not None:
            rows.refill(K)
        trace.append(rows.sse + (len(rows.A) - 1) * penalty)
        return Descent(rows.means, trace[-1], trace, not changed)

    run = finish(True)
    while not watch(run) and not run.converged and run.iterations < max_iter:
        rows.look(run.A, opening_threshold(penalty) if cap > run.K else np.inf)
        opened = rows.open_clusters(penalty, cap)
        run = finish(rows.moved > 0 or opened > 0)
    return run
