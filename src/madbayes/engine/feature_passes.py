"""BP-means and K-features on a table that lives in parts: only Z'Z, Z'X and rows that fit badly travel.

New features are opened optimistically (Pan et al. 2013): every part sweeps over the bits of its rows with the features
there are, and proposes rows that leave more than the penalty; the proposals then go on with the features that were
opened just before, and open one with what they leave if that is still too much. That is the serial pass of BP-means
over the rows in another order: those that propose nothing first, then the others as they were proposed.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine import allocation
from madbayes.engine.allocation import ROOM, State, Table, is_far, open_features, sweep
from madbayes.engine.blocks import Workers, row_blocks
from madbayes.engine.codes import best_codes
from madbayes.engine.homes import Descent, Home, Kept, Moments, Part, Step, few_rows, masses
from madbayes.paper.result import RELATIVE_GAIN

# Rows of a part that may propose a feature at a time: they travel.
PROPOSALS = 256
# A step is one thread's work.
ALONE = Workers(1)


class Order(NamedTuple):
    """What a pass over all parts shall do."""

    A: NDArray[np.float64]
    dtype: np.dtype  # in which products are computed
    columns: NDArray[np.intp] | None  # of the last Z, those that are left, in their order
    threshold: float = np.inf  # weighted squared error above which a row proposes a feature
    negligible: float = 0.0  # squared errors up to this are rounding
    exact: bool = False  # whether the best codes are looked for, whatever they were
    first_new: int = 0  # the first feature that rows are offered
    gain: float = 0.0  # a feature is taken if the error falls by more than this share of its square
    to_all: bool = False  # whether features are offered to all rows, not only to those that wait


class Note(NamedTuple):
    """Bits of some rows of a part that were decided elsewhere."""

    rows: NDArray[np.int64]
    Z: NDArray[np.uint8]
    waiting: int  # rows that still wait


class Proposals(NamedTuple):
    """Rows that leave too much."""

    rows: NDArray[np.int64]  # their places in the part
    X: NDArray
    weights: NDArray[np.float64]  # or of length 0 when all weigh 1
    Z: NDArray[np.uint8]
    waiting: int  # how many more there are in the part


class Sums(NamedTuple):
    """What least squares needs to know of the rows."""

    pairs: NDArray[np.float64]  # Z'Z
    weighted: NDArray[np.float64]  # Z'WZ; zero without weights
    products: NDArray[np.float64]  # Z'WX

    @classmethod
    def nothing(cls, K: int, D: int) -> "Sums":
        """Of no rows."""
        return cls(np.zeros((K, K)), np.zeros((K, K)), np.zeros((K, D)))

    @classmethod
    def of_rows(cls, X: NDArray, weights: NDArray, Z: NDArray[np.uint8]) -> "Sums":
        """Of some rows, block by block; in double precision, as the squared error is what they leave of a total."""
        K, D = Z.shape[1], X.shape[1]
        sums = cls.nothing(K, D)
        for rows in row_blocks(len(X), D):
            some = X[rows].astype(np.float64, copy=False)
            sums = sums.plus(allocation.Sums.of_rows(some, weights[rows], Z[rows], K))
        return sums

    def plus(self, other: "Sums | allocation.Sums", sign: int = 1) -> "Sums":
        """Of the rows of both; or without those of the other."""
        return Sums(*(mine + sign * theirs for mine, theirs in zip(self, other, strict=True)))

    def with_room(self, K: int) -> "Sums":
        """With features that no row has after the others, K in all."""
        more = K - len(self.pairs)
        pairs, weighted = (np.pad(part, (0, more)) for part in (self.pairs, self.weighted))
        return Sums(pairs, weighted, np.pad(self.products, ((0, more), (0, 0))))


class Summary(NamedTuple):
    """What a part has to say after a pass."""

    sums: Sums
    changed: int  # bits
    error: float  # the squared error, where best codes were looked for
    proposals: Proposals | None


def table_of(X: NDArray, weights: NDArray, dtype: np.dtype) -> Table:
    """The rows of a part as a table of their own."""
    blocks = row_blocks(*X.shape)
    squares = np.concatenate([allocation.row_squares(X[rows].astype(dtype, copy=False)) for rows in blocks])
    return Table(X, squares, weights, 0.0, blocks, dtype)


def unpacked(kept: Kept, order: Order, note: Note | None) -> NDArray[np.uint8]:
    """Z of a part as the last pass left it, with what was decided elsewhere, and room for new features."""
    bits, count = kept
    Z = np.unpackbits(bits, axis=1, count=int(count[0]))
    wanted = len(order.A) if order.columns is None else int(order.columns.max(initial=-1)) + 1
    wanted = max(wanted, Z.shape[1], 0 if note is None else note.Z.shape[1])
    if wanted > Z.shape[1]:
        Z = np.pad(Z, ((0, 0), (0, wanted - Z.shape[1])))
    if note is not None:
        Z[note.rows, : note.Z.shape[1]] = note.Z
    return np.ascontiguousarray(Z if order.columns is None else Z[:, order.columns])


def packed(Z: NDArray[np.uint8]) -> Kept:
    """Z in bits, and how many columns it has."""
    return np.packbits(Z, axis=1), np.array([Z.shape[1]])


def look(part: Part, kept: Kept | None, order: Order, note: Note | None) -> tuple[Kept, Summary]:
    """A step: one sweep over the bits of every row, or the best code of every row."""
    X, K = part.X, len(order.A)
    before = None if kept is None else unpacked(kept, order, note)
    if order.exact or before is None:
        Z = best_codes(X, order.A, ALONE)
        errors = row_errors(X, Z, order.A)
        changed = Z.size if before is None else int((before != Z).sum())
    else:
        state = State(before, order.A, K)
        changed, errors = sweep(table_of(X, part.weights, order.dtype), state, ALONE)
        Z = state.Z
    sums = Sums.of_rows(X, part.weights, Z)
    error = float(masses(part) @ errors) if order.exact else 0.0
    return packed(Z), Summary(sums, changed, error, proposals(part, Z, errors, order))


def row_errors(X: NDArray, Z: NDArray[np.uint8], A: NDArray) -> NDArray[np.float64]:
    """Squared errors by differences."""
    from madbayes.engine import kernels

    errors = np.empty(len(X))
    kernels.row_errors(X, Z, A, len(A), errors)
    return errors


def proposals(part: Part, Z: NDArray[np.uint8], errors: NDArray, order: Order) -> Proposals | None:
    """The first rows that leave too much, and how many there are beside them."""
    weights = masses(part)
    # Rounding may have moved an error by a little: whoever is close is looked at again.
    far = np.flatnonzero((weights * errors > 0.999 * order.threshold) & (errors > 0.0))
    if len(far):
        exact = row_errors(part.X[far], Z[far], order.A)
        far = far[(weights[far] * exact > order.threshold) & (exact > order.negligible)]
    if not len(far):
        return None
    some = far[:PROPOSALS]
    own = part.weights[some] if part.weights.size else part.weights
    return Proposals(some, part.X[some], own, Z[some], len(far) - len(some))


def offer(part: Part, kept: Kept, order: Order, note: Note | None) -> tuple[Kept, Summary]:
    """A step: rows that wait, or all, are offered the last features, one after the other."""
    K, D = order.A.shape
    nothing = Summary(Sums.nothing(K, D), 0, 0.0, None)
    if not order.to_all and (note is None or not note.waiting):
        return (kept if note is None else packed(unpacked(kept, order, note))), nothing
    Z = unpacked(kept, order, note)
    rows = np.arange(len(part)) if order.to_all else waiting_rows(part, Z, order, note)
    X, before = part.X[rows], Z[rows]
    after = before.copy()
    R = X - before @ order.A
    for k in range(order.first_new, K):
        square = float(order.A[k] @ order.A[k])
        takes = square - 2 * (R @ order.A[k]) < -order.gain * square
        after[takes, k] = 1
        R[takes] -= order.A[k]
    Z[rows] = after
    weights = part.weights[rows] if part.weights.size else part.weights
    sums = Sums.of_rows(X, weights, after).plus(Sums.of_rows(X, weights, before), -1)
    errors = np.zeros(len(part))
    errors[rows] = np.einsum("nd,nd->n", R, R)
    return packed(Z), Summary(sums, int((after != before).sum()), 0.0, proposals(part, Z, errors, order))


def waiting_rows(part: Part, Z: NDArray[np.uint8], order: Order, note: Note | None) -> NDArray[np.int64]:
    """The rows after the last that was decided which left too much of the old features."""
    assert note is not None
    last = int(note.rows[-1]) + 1
    old = order.A[: order.first_new]
    errors = row_errors(part.X[last:], np.ascontiguousarray(Z[last:, : len(old)]), old)
    far = (masses(part)[last:] * errors > order.threshold) & (errors > order.negligible)
    return last + np.flatnonzero(far)


class Worst(NamedTuple):
    """The row of a part with the largest weighted error."""

    error: float  # times its weight
    square: float  # not times its weight
    residual: NDArray[np.float64]


def find_worst(part: Part, kept: Kept, order: Order, note: Note | None) -> tuple[Kept, Worst]:
    """A step: the row that fits worst."""
    Z = unpacked(kept, order, note)
    errors = row_errors(part.X, Z, order.A)
    weighted = masses(part) * errors
    n = int(weighted.argmax())
    return packed(Z), Worst(float(weighted[n]), float(errors[n]), part.X[n] - Z[n] @ order.A)


class Follower:
    """Follows the codes of the rows of a table from one set of features to the next.

    Attributes
    ----------
    A : array of shape (K, D)
        The features that the codes are for, those that were opened included.
    sums : Sums
        Of all rows.
    changed : int
        How many bits changed in the last pass.
    error : float
        The squared error, where best codes were looked for.
    """

    def __init__(self, home: Home, moments: Moments) -> None:
        self.home, self.ledger, self.moments = home, home.ledger(), moments
        # Features are not translation-invariant: an offset needs the digits.
        self.dtype = np.dtype(np.float64) if is_far(few_rows(home)) else home.dtype
        self.A = np.empty((0, home.shape[1]))
        self.sums, self.changed, self.error = Sums.nothing(*self.A.shape), 0, 0.0
        self.columns: NDArray[np.intp] | None = None
        self.notes: dict[int, Note] = {}
        self.proposed: list[tuple[int, Proposals]] = []

    @property
    def total(self) -> float:
        """The squared error without any feature."""
        return self.moments.scatter + self.moments.weight * float(self.moments.mean @ self.moments.mean)

    def _order(self, **more: Any) -> Order:
        return Order(self.A, self.dtype, self.columns, negligible=self.moments.negligible, **more)

    def _go_over(self, step: Step, order: Order) -> None:
        """One pass; the sums follow."""
        self.proposed = []
        for p, part in enumerate(self.home.go_over(step, self.ledger, order, self.notes)):
            self.sums, self.changed = self.sums.plus(part.sums), self.changed + part.changed
            self.error += part.error
            if part.proposals is not None:
                self.proposed.append((p, part.proposals))
        self.columns, self.notes = None, {}

    def look(self, A: NDArray, threshold: float = np.inf, *, exact: bool = False) -> None:
        """One sweep over all bits, the features being those of before, changed; or the best codes of all rows."""
        self.A, self.changed, self.error = np.asarray(A, dtype=np.float64), 0, 0.0
        self.sums = Sums.nothing(*self.A.shape)
        self._go_over(look, self._order(threshold=threshold, exact=exact))

    def open_features(self, threshold: float, cap: int) -> int:
        """Rows that leave too much open features, up to a cap; returns how many were opened."""
        before = len(self.A)
        while self.proposed:
            first_new = len(self.A)
            waiting = self._validate(threshold, cap)
            if not waiting or len(self.A) == first_new:
                break
            self._go_over(offer, self._order(threshold=threshold, first_new=first_new, gain=RELATIVE_GAIN))
        self.proposed = []
        return len(self.A) - before

    def _validate(self, threshold: float, cap: int) -> int:
        """Go through the proposals one by one; returns how many rows still wait."""
        from madbayes.engine import kernels

        proposed, K = self.proposed, len(self.A)
        X = np.concatenate([proposals.X for _, proposals in proposed])
        weights = np.concatenate([proposals.weights for _, proposals in proposed])
        before = np.concatenate([proposals.Z for _, proposals in proposed])
        state = State.of((before, self.A), K + ROOM)
        limits = kernels.Limits(0, cap, 0.0, threshold, self.moments.negligible, RELATIVE_GAIN)
        open_features(X, weights, state, row_errors(X, before, self.A), limits)
        after, self.A = state.features()
        self.sums = self.sums.with_room(len(self.A)).plus(Sums.of_rows(X, weights, after))
        self.sums = self.sums.plus(Sums.of_rows(X, weights, before).with_room(len(self.A)), -1)
        self.changed += int(after[:, K:].sum())
        ends = np.cumsum([len(proposals.rows) for _, proposals in proposed])
        for (p, proposals), Z in zip(proposed, np.split(after, ends[:-1]), strict=True):
            self.notes[p] = Note(proposals.rows, Z, proposals.waiting)
        return sum(proposals.waiting for _, proposals in proposed)

    def fit(self) -> tuple[NDArray[np.float64], NDArray[np.bool_], float]:
        """Least squares: the features, which of them are not redundant, and the squared error they leave."""
        from madbayes.engine import kernels

        K, D = self.A.shape
        A, independent = np.empty((K, D)), np.empty(K, dtype=bool)
        pairs, weighted = self.sums.pairs.copy(), self.sums.weighted.copy()
        explained = kernels.solve(pairs, weighted, self.home.weighted, self.sums.products, A, K, independent)
        return A, independent, max(0.0, self.total - explained)

    def refit(self) -> float:
        """Features become those of least squares, redundant ones vanish; the squared error."""
        A, independent, sse = self.fit()
        self.A = A
        if not independent.all():
            self.changed += int((~independent).sum())
            self.arrange(np.flatnonzero(independent))
        return sse

    def arrange(self, columns: NDArray[np.intp]) -> None:
        """Only these features, in this order."""
        self.columns = columns if self.columns is None else self.columns[columns]
        self.A = self.A[columns]
        self.sums = Sums(
            self.sums.pairs[np.ix_(columns, columns)],
            self.sums.weighted[np.ix_(columns, columns)],
            self.sums.products[columns],
        )

    def codes(self) -> Iterator[NDArray[np.uint8]]:
        """Z, part after part."""
        parts = range(len(self.home.parts))
        return (unpacked(self.ledger[p], self._order(), self.notes.get(p)) for p in parts)

    @property
    def sizes(self) -> NDArray[np.float64]:
        """The weight of the rows that have each feature."""
        return np.diag(self.sums.weighted if self.home.weighted else self.sums.pairs).copy()

    def refill(self, K: int, sse: float) -> float:
        """Features made of the row of largest error until there are K, or nothing is left; the squared error."""
        while len(self.A) < K:
            before, changed = len(self.A), self.changed
            found = list(self.home.go_over(find_worst, self.ledger, self._order(), self.notes))
            self.columns, self.notes = None, {}
            worst = max(found, key=lambda worst: worst.error)
            if worst.square <= self.moments.negligible:
                break
            self.A, self.sums = np.concatenate([self.A, worst.residual[None]]), self.sums.with_room(before + 1)
            self._go_over(offer, self._order(first_new=before, to_all=True))
            sse = self.refit()
            if len(self.A) <= before:  # rounding errors only were left: what came is gone again
                self.changed = changed
                break
        return sse


def descend(
    home: Home,
    moments: Moments,
    penalty: float,
    A: NDArray,
    *,
    K: int | None = None,
    max_components: int | None = None,
    max_iter: int = 300,
    watch: Callable[[Descent], bool] = lambda run: False,
) -> Descent:
    """BP-means from the best codes for the features A; K-features if K is given.

    ``watch`` hears of every iteration, and ends the run with True.
    """
    unlimited = int(np.iinfo(np.int64).max)
    cap = 0 if K is not None else unlimited if max_components is None else max_components
    threshold = (1 + RELATIVE_GAIN) * penalty
    rows = Follower(home, moments)
    rows.look(A, exact=True)
    trace: list[float] = []

    def finish() -> Descent:
        sse = rows.refit()
        if K is not None:
            sse = rows.refill(K, sse)
        trace.append(sse + len(rows.A) * penalty)
        return Descent(rows.A, trace[-1], trace, len(trace) > 1 and rows.changed == 0)

    run = finish()
    while not watch(run) and not run.converged and run.iterations < max_iter:
        rows.look(run.A, threshold if cap > run.K else np.inf)
        if cap:
            rows.open_features(threshold, cap)
        run = finish()
    return run
