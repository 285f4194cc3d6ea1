"""Nearest centres of rows.

Squared distances come from one matrix product for each tile of rows, taken about an origin so that an offset does not
eat the digits, and are taken anew by differences where rounding leaves a doubt. So the labels are those of exact
distances, in single precision too.

A row is compared with the centres only when they have moved far enough to change its label: until then the triangle
inequality says that its nearest centre is the same.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.model.likelihoods import Weights

# Distances of a tile of rows: about this many, so that they stay in the cache.
TILE_ENTRIES = 2**17
# Tables of at most so many columns go without a matrix product, in strips of rows.
NARROW, STRIP = 4, 512
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
        # Where squares overflow, all is in doubt.
        largest = precision.max / 8 if squares.max() < precision.max / 8 else 0.0
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
