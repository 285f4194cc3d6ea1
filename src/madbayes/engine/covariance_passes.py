"""DP-means with Mahalanobis distances on a table that lives in parts: only sums, scatters and far rows travel.

New clusters are opened optimistically, as in :mod:`madbayes.engine.cluster_passes`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.cluster_passes import Note
from madbayes.engine.covariance import (
    Likelihood,
    Shapes,
    Table,
    by_label,
    near,
    nearest_labels,
    tied,
)
from madbayes.engine.homes import Descent, Home, Kept, Part, masses
from madbayes.model import MeansCovariances
from madbayes.paper.result import RELATIVE_GAIN, ROUNDING

# Rows of a part that may propose a cluster at a time: they travel.
PROPOSALS = 256


class Order(NamedTuple):
    """What a pass over all parts shall do."""

    shapes: Shapes
    threshold: float  # weighted squared distance above which a row is too far
    negligible: float  # squared distances up to this are rounding
    names: NDArray[np.int64] | None  # new label of each old one, if clusters were dropped
    anew: bool = False  # whether a row that ties goes to the first cluster, wherever it is
    waiting: bool = False  # whether only rows that wait to propose are looked at again


class Sums(NamedTuple):
    """What is added up of the rows of each cluster, or what moves change in it."""

    counts: NDArray[np.int64]
    sizes: NDArray[np.float64]  # their weights
    totals: NDArray[np.float64]  # K x D, rows about the means they were compared with
    scatters: NDArray[np.float64]  # K x D x D, the same squared

    @classmethod
    def of(cls, X: NDArray, weights: NDArray, labels: NDArray, means: NDArray) -> "Sums":
        """Of some rows."""
        K, D = means.shape
        sums = cls(np.zeros(K, dtype=np.int64), np.zeros(K), np.zeros((K, D)), np.zeros((K, D, D)))
        for k, rows in by_label(labels, K) if len(labels) else ():
            R, w = X[rows] - means[k], weights[rows]
            sums.counts[k], sums.sizes[k], sums.totals[k] = len(rows), w.sum(), w @ R
            sums.scatters[k] = (R.T * w) @ R
        return sums

    def plus(self, other: "Sums", sign: int = 1) -> "Sums":
        """Of the rows of both; or without those of the other."""
        parts: Any = (mine + sign * theirs for mine, theirs in zip(self, other, strict=True))
        return Sums(*parts)

    def with_room(self, K: int) -> "Sums":
        """With clusters that have no rows after the others, K in all."""
        more = K - len(self.counts)
        return Sums(*(np.concatenate([part, np.zeros((more, *part.shape[1:]), part.dtype)]) for part in self))


class Proposals(NamedTuple):
    """Rows that are too far from all clusters."""

    rows: NDArray[np.int64]  # their places in the part
    X: NDArray
    weights: NDArray[np.float64]
    labels: NDArray[np.int64]  # of the nearest cluster
    waiting: int  # how many more there are in the part
    distances: NDArray[np.float64]  # to the nearest cluster, squared


class Summary(NamedTuple):
    """What a part has to say after a pass."""

    sums: Sums
    moved: int  # how many rows have another label
    proposals: Proposals | None


def look(part: Part, kept: Kept | None, order: Order, note: Note | None) -> tuple[Kept, Summary]:
    """A step: the nearest cluster of every row; or, once more, of rows that wait to propose one."""
    before, far = unpacked(kept, part, order, note)
    which = np.flatnonzero(far) if order.waiting else np.arange(len(part))
    after, closest, table = before.copy(), np.zeros(len(part)), Table(part.X, masses(part))
    for rows in table.blocks(len(order.shapes.inverses)):
        some = which[slice(*np.searchsorted(which, (rows.start, rows.stop)))]
        if len(some):
            after[some], closest[some] = compare(table, order, some, before[some])
    far = (table.weights * closest > order.threshold) & (closest > order.negligible)
    means, moved = order.shapes.A.means, after != before
    if order.waiting:
        X, weights = part.X[moved], table.weights[moved]
        sums = Sums.of(X, weights, after[moved], means).plus(Sums.of(X, weights, before[moved], means), -1)
    else:
        sums = Sums.of(part.X, table.weights, after, means)
    return packed(after, far, len(means)), Summary(sums, int(moved.sum()), propose(part, after, closest, far))


def unpacked(kept: Kept | None, part: Part, order: Order, note: Note | None) -> tuple[NDArray, NDArray[np.bool_]]:
    """Labels of a part as the last pass left them, and which rows wait; label -1 at first."""
    if kept is None:
        return np.full(len(part), -1), np.zeros(len(part), dtype=bool)
    labels, far = kept[0].astype(np.int64), np.unpackbits(kept[1], count=len(part)).astype(bool)
    if note is not None:
        labels[note.rows], far[note.rows] = note.labels, False
    return labels if order.names is None else order.names[labels], far


def packed(labels: NDArray, far: NDArray[np.bool_], K: int) -> Kept:
    """The same in few bytes."""
    return labels.astype(np.min_scalar_type(max(K - 1, 0))), np.packbits(far)


def compare(table: Table, order: Order, rows: NDArray, labels: NDArray) -> tuple[NDArray, NDArray]:
    """The nearest cluster of some rows, and how far it is; labels that tie stay, -1 for none."""
    columns, weights, shapes = table.columns(rows), table.weights[rows], order.shapes
    D = shapes.distances(columns)
    least = D.min(axis=0)
    doubtful = tied(D, least, shapes.doubt) | near(weights * least, order.threshold, shapes.doubt)
    if doubtful.any():
        D[:, doubtful] = shapes.exactly(columns[:, doubtful])
    if order.anew or (labels < 0).any():
        return D.argmin(axis=0), D.min(axis=0)
    return nearest_labels(D, labels), D.min(axis=0)


def propose(part: Part, labels: NDArray, closest: NDArray, far: NDArray[np.bool_]) -> Proposals | None:
    """The first rows that are too far, and how many there are beside them."""
    rows = np.flatnonzero(far)
    if not len(rows):
        return None
    some = rows[:PROPOSALS]
    return Proposals(some, part.X[some], masses(part)[some], labels[some], len(rows) - len(some), closest[some])


def find_longest(part: Part, kept: Kept | None, shape: Shapes, note: None) -> tuple[None, float]:
    """A step: the largest squared distance of a row to zero; nothing is kept."""
    table = Table(part.X, masses(part))
    return None, float(max(shape.distances(table.columns(rows)).max() for rows in table.blocks()))


class Follower:
    """Follows the rows of a table from clusters to clusters, and keeps their sums.

    Attributes
    ----------
    A : MeansCovariances
        The clusters that the rows have been compared with, those that were opened included.
    slots : list of int
        Which of the known covariances each has, where each has its own.
    sums : Sums
        Of the rows of each cluster, about the means of A.
    moved : int
        How many rows changed their cluster in the last pass.
    """

    def __init__(self, home: Home, likelihood: Likelihood) -> None:
        self.home, self.ledger, self.likelihood = home, home.ledger(), likelihood
        empty = self._new(np.zeros((1, home.shape[1])), [0])
        self.negligible = ROUNDING * max(home.go_over(find_longest, home.ledger(), Shapes.of(empty), {}))
        self.names: NDArray[np.int64] | None = None
        self.notes: dict[int, Note] = {}
        self.proposed: list[tuple[int, Proposals]] = []
        self.moved = 0

    def _new(self, means: NDArray, slots: list[int]) -> MeansCovariances:
        """Clusters without rows at these places."""
        covariances = np.stack([self.likelihood.initial_covariance(slot) for slot in slots])
        return MeansCovariances(np.asarray(means, dtype=np.float64), covariances)

    def begin(self, start: NDArray | MeansCovariances) -> None:
        """Rows at the nearest of these clusters; of means alone, in the metric of clusters without rows."""
        if isinstance(start, MeansCovariances):
            self.A, self.slots = start, self._slots_of(start)
        else:
            self.slots = list(range(len(start)))
            self.A = self._new(start, self.slots)
        self.look(self.A, anew=True)

    def _slots_of(self, A: MeansCovariances) -> list[int]:
        """Which known covariances these are."""
        free, slots = list(range(self.likelihood.n_slots)), []
        for covariance in A.covariances if free else ():
            slots.append(next(k for k in free if np.array_equal(self.likelihood.initial_covariance(k), covariance)))
            free.remove(slots[-1])
        return slots or [0] * len(A.means)

    def look(self, A: MeansCovariances, threshold: float = np.inf, *, anew: bool = False) -> None:
        """Every row goes to the nearest of the clusters A, which are those of before, changed."""
        self.A, self.moved, (K, D) = A, 0, A.means.shape
        self.sums = Sums(np.zeros(K, dtype=np.int64), np.zeros(K), np.zeros((K, D)), np.zeros((K, D, D)))
        self._go_over(Order(Shapes.of(A), threshold, self.negligible, self.names, anew))

    def _go_over(self, order: Order) -> None:
        self.proposed = []
        for p, part in enumerate(self.home.go_over(look, self.ledger, order, self.notes)):
            self.sums, self.moved = self.sums.plus(part.sums), self.moved + part.moved
            if part.proposals is not None:
                self.proposed.append((p, part.proposals))
        self.names, self.notes = None, {}

    def open_clusters(self, threshold: float, cap: float) -> int:
        """Rows that are too far open clusters, up to a cap; returns how many were opened."""
        before = len(self.slots)
        while self.proposed:
            waiting, n_before = sum(proposals.waiting for _, proposals in self.proposed), len(self.slots)
            self._validate(threshold, cap)
            if not waiting or len(self.slots) == n_before:
                break
            limit = threshold if len(self.slots) < cap else np.inf
            self._go_over(Order(Shapes.of(self.A), limit, self.negligible, None, waiting=True))
        self.proposed = []
        return len(self.slots) - before

    def _validate(self, threshold: float, cap: float) -> None:
        """Go through the proposals one by one: each joins a cluster opened just before, or opens one."""
        proposed = self.proposed
        X = np.concatenate([proposals.X for _, proposals in proposed])
        weights = np.concatenate([proposals.weights for _, proposals in proposed])
        before = np.concatenate([proposals.labels for _, proposals in proposed])
        distances = np.concatenate([proposals.distances for _, proposals in proposed])
        labels, columns = before.copy(), X.T.astype(np.float64, order="C")
        for i in range(len(X)):
            is_far = weights[i] * distances[i] > threshold and distances[i] > self.negligible
            slot = self._free_slot(cap) if is_far else None
            if slot is None:
                continue
            new = self._new(X[i : i + 1], [slot])
            self.slots.append(slot)
            self.A = MeansCovariances(*map(np.concatenate, zip(self.A, new, strict=True)))
            # Exactly, as ties and thresholds are decided here; later rows only.
            found = Shapes.of(new).exactly(columns[:, i:])[0]
            nearer = i + np.flatnonzero(found < distances[i:])
            labels[nearer], distances[nearer] = len(self.slots) - 1, found[nearer - i]
            labels[i], distances[i] = len(self.slots) - 1, 0.0
        changed, means = labels != before, self.A.means
        self.sums = self.sums.with_room(len(means))
        self.sums = self.sums.plus(Sums.of(X[changed], weights[changed], labels[changed], means))
        self.sums = self.sums.plus(Sums.of(X[changed], weights[changed], before[changed], means), -1)
        self.moved += int(changed.sum())
        ends = np.cumsum([len(proposals.rows) for _, proposals in proposed])
        for (p, proposals), some in zip(proposed, np.split(labels, ends[:-1]), strict=True):
            self.notes[p] = Note(proposals.rows, some)

    def _free_slot(self, cap: float) -> int | None:
        """A covariance for one more cluster, None if there may be none."""
        if self.likelihood.n_slots:
            return next((k for k in range(self.likelihood.n_slots) if k not in self.slots), None)
        return 0 if len(self.slots) < cap else None

    def arrange(self, order: NDArray[np.intp]) -> None:
        """Only these clusters, in this order; the others must be empty."""
        names = np.full(len(self.slots), -1)
        names[order] = np.arange(len(order))
        self.names = names if self.names is None else names[self.names]
        self.A = MeansCovariances(*(part[order] for part in self.A))
        sums: Any = (part[order] for part in self.sums)
        self.slots, self.sums = [self.slots[k] for k in order], Sums(*sums)

    def drop_empty(self) -> None:
        """Clusters without rows vanish; a covariance of their own is free again."""
        if not (self.sums.counts > 0).all():
            self.arrange(np.flatnonzero(self.sums.counts > 0))

    @property
    def fitted(self) -> MeansCovariances:
        """The best clusters for these labels, none of which may be empty."""
        means = self.A.means + self.sums.totals / self.sums.sizes[:, None]
        if self.likelihood.n_slots:
            return self._new(means, self.slots)
        return self.likelihood.fit_about(means, self._scatters)

    def _scatters(self, means: NDArray) -> NDArray[np.float64]:
        """Of each cluster about other means, which must be those of its rows."""
        shifts = means - self.A.means
        return self.sums.scatters - self.sums.sizes[:, None, None] * shifts[:, :, None] * shifts[:, None, :]

    def loss(self, A: MeansCovariances | None = None) -> float:
        """Of these rows with the clusters that they were compared with, or with fitted ones."""
        scatters = self.sums.scatters if A is None else self._scatters(A.means)
        covariances = (self.A if A is None else A).covariances
        traces = np.trace(np.linalg.solve(covariances, scatters), axis1=1, axis2=2)
        return float(traces.sum() + self.likelihood.covariance_prices(covariances).sum())

    def labels(self) -> Iterator[NDArray]:
        """The cluster of each row as of the last pass and what was decided since, part after part."""
        for p in range(len(self.home.parts)):
            labels, note = self.ledger[p][0].astype(np.int64), self.notes.get(p)
            if note is not None:
                labels[note.rows] = note.labels
            yield labels if self.names is None else self.names[labels]


def descend(
    home: Home,
    likelihood: Likelihood,
    penalty: float,
    start: NDArray | MeansCovariances,
    *,
    max_clusters: int | None = None,
    max_iter: int = 300,
    watch: Callable[[Descent], bool] = lambda run: False,
) -> Descent:
    """DP-means with covariances, until the objective falls no more; ``watch`` ends it with True."""
    cap, threshold = np.inf if max_clusters is None else max_clusters, (1 + RELATIVE_GAIN) * penalty
    rows = Follower(home, likelihood)
    rows.begin(start)
    trace: list[float] = []

    def fitted() -> Descent:
        rows.drop_empty()
        A = rows.fitted
        trace.append(rows.loss(A) + (len(A.means) - 1) * penalty)
        return Descent(A, trace[-1], trace, False)

    run = fitted()
    while not watch(run) and not run.converged and run.iterations < max_iter:
        rows.look(run.A, threshold)
        rows.open_clusters(threshold, cap)
        following = fitted()
        if following.value < run.value - RELATIVE_GAIN * abs(run.value):
            run = following
        else:
            trace[-1] = run.value
            run = run._replace(converged=True)
    return run
