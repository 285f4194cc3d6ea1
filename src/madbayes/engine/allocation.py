"""BP-means and K-features on blocks of rows, and many runs at once on a small table.

A table of one block is small: whole runs go through one kernel, which holds no lock, so that threads share the runs. On
a longer one a run is an iteration after the other, and threads share its blocks: two matrix products for each block,
kernels for the rest. Nothing of size N x K in floating point is ever held.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.model.likelihoods import Weights
from madbayes.paper import Result
from madbayes.paper.features import JOINT_LIMIT, independent_columns
from madbayes.paper.result import RELATIVE_GAIN, rounding_error

if TYPE_CHECKING:
    from madbayes.engine.kernels import Limits

Start = tuple[NDArray, NDArray]  # Z and A

# Runs of a small table that are handed to a thread together.
CHUNK = 32
# Room for so many more features than a run of BP-means starts with.
ROOM = 8
# Squares this many times those about the mean leave too few digits of single precision.
FAR = 100.0


class Table(NamedTuple):
    """What all runs have in common."""

    X: NDArray
    squares: NDArray  # of the rows
    weights: NDArray  # of the rows, or of length 0 when all weigh 1
    total: float  # weighted squared error with no feature
    blocks: list[slice]
    dtype: np.dtype  # in which products are computed

    @classmethod
    def of(cls, X: NDArray, sample_weight: Weights) -> "Table":
        """Squares of the rows and their weighted sum, once for all runs.

        In double precision if the table is small, or so far from the origin that single precision would not do:
        features are not translation-invariant, so the offset cannot be taken away.
        """
        blocks = row_blocks(*X.shape)
        if len(blocks) == 1:
            X = X.astype(np.float64, copy=False)
        dtype = np.dtype(np.float64) if is_far(X) else X.dtype
        squares = np.concatenate([row_squares(X[rows].astype(dtype, copy=False)) for rows in blocks])
        weights = _weights(sample_weight)
        total = float(squares.sum(dtype=np.float64) if sample_weight is None else weights @ squares)
        return cls(X, squares, weights, total, blocks, dtype)

    def rows(self, rows: slice) -> NDArray:
        """A block of the table in the precision of products."""
        return self.X[rows].astype(self.dtype, copy=False)

    @property
    def is_small(self) -> bool:
        """Whether it is a single block."""
        return len(self.blocks) == 1


def row_squares(X: NDArray) -> NDArray:
    """The square of each row."""
    return np.einsum("nd,nd->n", X, X)


def is_far(X: NDArray) -> bool:
    """Whether the offset dwarfs the spread; a few rows are enough to tell."""
    some = X[:: max(1, len(X) // 1024)].astype(np.float64)
    return bool((some**2).sum() > FAR * ((some - some.mean(axis=0)) ** 2).sum())


@dataclass
class State:
    """A run in the middle of its work, with room for more features than it uses."""

    Z: NDArray[np.uint8]  # N x room
    A: NDArray[np.float64]  # room x D
    used: int

    @classmethod
    def of(cls, start: Start, room: int) -> "State":
        """A start with room for so many features."""
        Z, A = start
        state = cls(np.zeros((len(Z), room), dtype=np.uint8), np.zeros((room, A.shape[1])), len(A))
        state.Z[:, : len(A)], state.A[: len(A)] = Z, A
        return state

    def features(self) -> Start:
        """Z and A without the room."""
        return self.Z[:, : self.used].copy(), self.A[: self.used].copy()


def sweep(table: Table, state: State, workers: Workers) -> tuple[int, NDArray]:
    """One ordered sweep over all bits: how many flipped, and the errors of all rows."""
    from madbayes.engine import kernels

    A = state.A[: state.used].astype(table.dtype)
    G, errors = A @ A.T, np.empty(len(table.X))

    def one(rows: slice) -> int:
        B = table.rows(rows) @ A.T
        return kernels.sweep_bits(B, G, table.squares[rows], state.Z[rows], state.used, RELATIVE_GAIN, errors[rows])

    return sum(workers.map(one, table.blocks)), errors


class Sums(NamedTuple):
    """What travels from a block: sizes of K, whatever the number of rows."""

    pairs: NDArray[np.float64]  # Z'Z
    weighted: NDArray[np.float64]  # Z'WZ
    products: NDArray  # Z'WX

    @classmethod
    def of_block(cls, table: Table, rows: slice, state: State) -> "Sums":
        """Sums over the rows of a block."""
        return cls.of_rows(table.rows(rows), table.weights[rows], state.Z[rows], state.used)

    @classmethod
    def of_rows(cls, X: NDArray, weights: NDArray, Z: NDArray[np.uint8], K: int) -> "Sums":
        """Sums over some rows, for the first K columns of Z; products in the precision of X."""
        from madbayes.engine import kernels

        pairs, weighted = np.empty((K, K)), np.zeros((K, K))
        kernels.count_pairs(Z, weights, K, pairs, weighted)
        Zf = Z[:, :K].astype(X.dtype)
        if weights.size:
            Zf *= weights[:, None]
        return cls(pairs, weighted, Zf.T @ X)


def fit(table: Table, state: State, workers: Workers) -> tuple[float, NDArray[np.bool_]]:
    """Least squares: the squared error, and which columns are not redundant."""
    from madbayes.engine import kernels

    parts = workers.map(lambda rows: Sums.of_block(table, rows, state), table.blocks)
    pairs, weighted, products = (np.sum(part, axis=0, dtype=np.float64) for part in zip(*parts, strict=True))
    independent = np.empty(state.used, dtype=bool)
    explained = kernels.solve(pairs, weighted, table.weights.size > 0, products, state.A, state.used, independent)
    return table.total - explained, independent


def drop(state: State, independent: NDArray[np.bool_]) -> int:
    """Drop redundant features; returns how many there were."""
    from madbayes.engine import kernels

    before, state.used = state.used, kernels.drop_dependent(state.Z, state.A, state.used, independent)
    return before - state.used


def open_features(X: NDArray, weights: NDArray, state: State, errors: NDArray, limits: "Limits") -> int:
    """Rows in order open features; returns how many."""
    from madbayes.engine import kernels

    before, row = state.used, 0
    while True:
        state.used, row = kernels.open_features(X, weights, state.Z, state.A, state.used, errors, row, limits)
        if row == len(X):
            return state.used - before
        roomy = State.of(state.features(), 2 * state.used + 2)
        state.Z, state.A = roomy.Z, roomy.A


def refill(table: Table, state: State, limits: "Limits") -> float:
    """Give a run features made of the row of largest error until it has K, or nothing is left; the squared error."""
    from madbayes.engine import kernels

    room, D = state.A.shape
    scratch = kernels.Scratch(
        np.empty(len(table.X)),
        np.empty((0, 0)),
        np.empty((0, 0)),
        np.empty((room, D)),
        np.empty((room, room)),
        np.empty((room, room)),
        np.empty(room, dtype=bool),
    )
    state.used, explained = kernels.refill(table.X, table.weights, state.Z, state.A, state.used, limits, scratch)
    return table.total - explained


def squared_error(table: Table, state: State, workers: Workers) -> float:
    """Weighted squared error, by differences."""
    from madbayes.engine import kernels

    errors = np.empty(len(table.X))
    workers.map(
        lambda rows: kernels.row_errors(table.X[rows], state.Z[rows], state.A, state.used, errors[rows]), table.blocks
    )
    return float(table.weights @ errors if table.weights.size else errors.sum())


def advance(table: Table, state: State, limits: "Limits", workers: Workers) -> tuple[float, int]:
    """One iteration: the squared error after it, and how much has changed in Z."""
    changed, errors = sweep(table, state, workers)
    if limits.cap:
        changed += open_features(table.X, table.weights, state, errors, limits)
    loss, independent = fit(table, state, workers)
    changed += drop(state, independent)
    if state.used < limits.K:
        before, loss = state.used, refill(table, state, limits)
        changed += state.used - before
    return loss, changed


def bp_means(
    X: NDArray,
    penalty: float,
    starts: Sequence[Start],
    *,
    max_components: int | None = None,
    sample_weight: Weights = None,
    max_iter: int = 300,
    workers: Workers,
) -> list[Result]:
    """The runs of :func:`madbayes.paper.bp_means` from each start."""
    limits = _opening(X, penalty, max_components)
    return _run_all(Table.of(X, sample_weight), starts, limits, max_iter, workers)


def _opening(X: NDArray, penalty: float, max_components: int | None) -> "Limits":
    """Features are opened where that gains more than the penalty."""
    from madbayes.engine.kernels import Limits

    cap = np.iinfo(np.int64).max if max_components is None else max_components
    return Limits(0, int(cap), float(penalty), (1 + RELATIVE_GAIN) * penalty, rounding_error(X), RELATIVE_GAIN)


def _weights(sample_weight: Weights) -> NDArray[np.float64]:
    """Weights as kernels take them."""
    return np.empty(0) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)


def k_features(
    X: NDArray,
    K: int,
    starts: Sequence[Start],
    *,
    sample_weight: Weights = None,
    max_iter: int = 300,
    workers: Workers,
) -> list[Result]:
    """The runs of :func:`madbayes.paper.k_features` from each start."""
    from madbayes.engine.kernels import Limits

    limits = Limits(int(K), 0, 0.0, np.inf, rounding_error(X), RELATIVE_GAIN)
    return _run_all(Table.of(X, sample_weight), starts, limits, max_iter, workers)


def _run_all(table: Table, starts: Sequence[Start], limits: "Limits", max_iter: int, workers: Workers) -> list[Result]:
    """Runs one after the other on a large table; many at the same time on a small one."""
    if not table.is_small:
        return [_run(table, start, limits, max_iter, workers) for start in starts]
    chunks = [starts[i : i + CHUNK] for i in range(0, len(starts), CHUNK)]
    results = workers.map(lambda chunk: _run_chunk(table, chunk, limits, max_iter), chunks)
    return [result for chunk in results for result in chunk]


def _room(start: Start, limits: "Limits") -> int:
    """Features to leave room for."""
    return max(limits.K, len(start[1])) if limits.cap == 0 else min(limits.cap, len(start[1]) + ROOM)


def _run_chunk(
    table: Table, starts: Sequence[Start], limits: "Limits", max_iter: int, room: int | None = None
) -> list[Result]:
    """Whole runs of a small table; those that find too little room begin again with more."""
    from madbayes.engine import kernels

    R, room = len(starts), room or max(_room(start, limits) for start in starts)
    states = [State.of(start, room) for start in starts]
    Z, A = np.stack([state.Z for state in states]), np.stack([state.A for state in states])
    used = np.array([state.used for state in states])
    traces, iterations, converged = np.empty((R, max_iter + 1)), np.empty(R, dtype=np.int64), np.empty(R, dtype=bool)
    kernels.run_all(
        table.X, table.squares, table.weights, table.total, Z, A, used, limits, traces, iterations, converged
    )
    results = []
    for r, start in enumerate(starts):
        if iterations[r] < 0:
            results += _run_chunk(table, [start], limits, max_iter, 2 * room + 2)
            continue
        trace = traces[r, : iterations[r] + 1].copy()
        features = State(Z[r], A[r], used[r]).features()
        results.append(Result(*features, float(trace[-1]), trace, int(iterations[r]), bool(converged[r])))
    return results


def _run(table: Table, start: Start, limits: "Limits", max_iter: int, workers: Workers) -> Result:
    """One run, its iterations one after the other."""
    state = State.of(start, _room(start, limits))
    leave_out_redundant(table, state, workers)
    trace, converged = [squared_error(table, state, workers) + limits.penalty * state.used], False
    while not converged and len(trace) <= max_iter:
        loss, changed = advance(table, state, limits, workers)
        trace.append(loss + limits.penalty * state.used)
        # A start need not be least squares: its A may change although no bit does.
        falls = trace[-1] < (1 - RELATIVE_GAIN) * trace[-2]
        converged = changed == 0 and (len(trace) > 2 or not falls)
    trace[-1] = squared_error(table, state, workers) + limits.penalty * state.used
    return Result(*state.features(), trace[-1], np.array(trace), len(trace) - 1, converged)


def leave_out_redundant(table: Table, state: State, workers: Workers) -> None:
    """A run that starts with redundant features goes on without them, from least squares."""
    fitted = State(state.Z, state.A.copy(), state.used)
    _, independent = fit(table, fitted, workers)
    if not independent.all():
        state.A = fitted.A
        drop(state, independent)


def independent_features(Z: NDArray[np.uint8], workers: Workers) -> NDArray[np.bool_]:
    """Which columns are not redundant, block by block: :func:`madbayes.paper.features.independent_columns`."""
    from madbayes.engine import kernels

    K = Z.shape[1]
    independent = np.empty(K, dtype=bool)
    kernels.eliminate(shared_rows(Z, workers), np.empty((K, 0)), K, independent)
    return independent


def shared_rows(Z: NDArray[np.uint8], workers: Workers) -> NDArray[np.float64]:
    """How many rows have both of two features, Z'Z, block by block."""
    from madbayes.engine import kernels

    K, no_weights = Z.shape[1], np.empty(0)

    def pairs(rows: slice) -> NDArray[np.float64]:
        counted = np.empty((K, K))
        kernels.count_pairs(np.ascontiguousarray(Z[rows]), no_weights, K, counted, counted)
        return counted

    return np.asarray(np.sum(workers.map(pairs, row_blocks(*Z.shape)), axis=0))


def least_squares_features(X: NDArray, Z: NDArray, sample_weight: Weights, workers: Workers) -> NDArray:
    """Least-squares features of one Z, block by block."""
    K = Z.shape[1]
    state = State.of((Z, np.zeros((K, X.shape[1]))), K)
    fit(Table.of(X, sample_weight), state, workers)
    return state.A


def collapsed_bp_means(
    X: NDArray,
    penalty: float,
    starts: Sequence[Start],
    *,
    max_components: int | None = None,
    sample_weight: Weights = None,
    max_iter: int = 300,
    workers: Workers,
) -> list[Result]:
    """The runs of :func:`madbayes.paper.collapsed_bp_means` from each start."""
    limits, weights = _opening(X, penalty, max_components), _weights(sample_weight)
    return workers.map(lambda start: _collapsed_run(X, weights, start, limits, max_iter), starts)


def _collapsed_run(
    X: NDArray, weights: NDArray, start: Start, limits: "Limits", max_iter: int, room: int | None = None
) -> Result:
    """One run; if it finds too little room, it begins again with more."""
    from madbayes.engine import kernels

    Z = start[0][:, independent_columns(start[0])]
    state = State.of((Z, np.zeros((Z.shape[1], X.shape[1]))), room or _room(start, limits))
    trace, room = np.empty(max_iter + 1), state.Z.shape[1]
    state.used, iterations, converged = kernels.run_collapsed(
        X, weights, state.Z, state.A, state.used, limits, JOINT_LIMIT, trace
    )
    if iterations < 0:
        return _collapsed_run(X, weights, start, limits, max_iter, 2 * room + 2)
    trace = trace[: iterations + 1]
    return Result(*state.features(), float(trace[-1]), trace, iterations, converged)
