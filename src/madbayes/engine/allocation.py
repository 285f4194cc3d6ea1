"""BP-means and K-features, many runs at once: one matrix product serves all of them.

R runs on a table are arrays Z (N x R x K) and A (R x K x D), where K is room for more features than a run may use:
those it uses come first, the rest are zero. A run that has converged is taken out. Rows are visited in blocks, so that
nothing of size N x K in floating point is ever held.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.blocks import Workers, row_blocks
from madbayes.model import collapsed_bp_means_objective
from madbayes.model.likelihoods import Weights, gram_inverse, least_squares
from madbayes.paper import Result
from madbayes.paper.features import JOINT_LIMIT, independent_columns
from madbayes.paper.result import RELATIVE_GAIN, rounding_error

Start = tuple[NDArray, NDArray]  # Z and A

# Runs that share a matrix product: enough for BLAS, few enough for the cache and for several threads.
CHUNK = 32


class Table(NamedTuple):
    """What all runs have in common."""

    X: NDArray
    squares: NDArray  # of the rows
    weights: NDArray  # of the rows, or of length 0 when all weigh 1
    total: float  # weighted squared error with no feature
    blocks: list[slice]

    @classmethod
    def of(cls, X: NDArray, sample_weight: Weights) -> "Table":
        """Squares of the rows and their weighted sum, once for all runs."""
        squares = np.einsum("nd,nd->n", X, X)
        weights = np.empty(0) if sample_weight is None else sample_weight
        total = float(squares.sum(dtype=np.float64) if sample_weight is None else sample_weight @ squares)
        return cls(X, squares, weights, total, row_blocks(*X.shape))

    @property
    def sample_weight(self) -> Weights:
        """The weights as the paper's functions take them."""
        return self.weights if self.weights.size else None


@dataclass
class Runs:
    """R runs in the middle of their work."""

    Z: NDArray[np.uint8]  # N x R x K
    A: NDArray[np.float64]  # R x K x D
    used: NDArray[np.int64]  # how many of the K features each run has

    @classmethod
    def of(cls, starts: Sequence[Start], K: int) -> "Runs":
        """Starts of different sizes, with room for K features each."""
        (N, _), D = starts[0][0].shape, starts[0][1].shape[1]
        runs = cls(
            np.zeros((N, len(starts), K), dtype=np.uint8),
            np.zeros((len(starts), K, D)),
            np.array([len(A) for _, A in starts], dtype=np.int64),
        )
        for r, (Z, A) in enumerate(starts):
            runs.Z[:, r, : len(A)], runs.A[r, : len(A)] = Z, A
        return runs

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Only these runs."""
        self.Z, self.A, self.used = np.ascontiguousarray(self.Z[:, which]), self.A[which], self.used[which]

    def make_room(self, K: int) -> None:
        """Room for K features in every run."""
        more = K - self.Z.shape[2]
        self.Z, self.A = np.pad(self.Z, ((0, 0), (0, 0), (0, more))), np.pad(self.A, ((0, 0), (0, more), (0, 0)))

    def start(self, r: int) -> Start:
        """What run r has now."""
        return self.Z[:, r, : self.used[r]].copy(), self.A[r, : self.used[r]].copy()

    def drop(self, r: int, independent: NDArray[np.bool_]) -> None:
        """Only these features of run r, in their order."""
        kept = np.flatnonzero(independent)
        self.used[r] = len(kept)
        Z, A = self.Z[:, r, kept], self.A[r, kept]
        self.Z[:, r], self.A[r] = 0, 0.0
        self.Z[:, r, : len(kept)], self.A[r, : len(kept)] = Z, A


class Sums(NamedTuple):
    """What travels from a block: sizes of K, whatever the number of rows."""

    pairs: NDArray[np.int64]  # Z'Z
    weighted: NDArray[np.float64]  # Z'WZ
    products: NDArray  # Z'WX

    @classmethod
    def of_block(cls, table: Table, rows: slice, Z: NDArray[np.uint8]) -> "Sums":
        """Sums over the rows of a block."""
        from madbayes.engine import kernels

        X, weights, (n, R, K) = table.X[rows], table.weights[rows], Z[rows].shape
        pairs, weighted = np.zeros((R, K, K), dtype=np.int64), np.zeros((R, K, K))
        kernels.count_pairs(Z[rows], weights, pairs, weighted)
        Zf = Z[rows].reshape(n, R * K).astype(X.dtype)
        if weights.size:
            Zf *= weights[:, None]
        return cls(pairs, weighted if weights.size else pairs.astype(float), (Zf.T @ X).reshape(R, K, X.shape[1]))


def sweep(table: Table, runs: Runs, workers: Workers) -> tuple[NDArray, NDArray]:
    """One ordered sweep over all bits: how many flipped in each run, and the errors of all rows, N x R."""
    from madbayes.engine import kernels

    A = runs.A.astype(table.X.dtype, copy=False)
    R, K, D = A.shape
    G = A @ A.transpose(0, 2, 1)
    errors = np.empty((len(table.X), R))

    def one(rows: slice) -> NDArray:
        X, changed = table.X[rows], np.zeros(R, dtype=np.int64)
        B = (X @ A.reshape(R * K, D).T).reshape(len(X), R, K)
        kernels.sweep_bits(B, G, table.squares[rows], runs.Z[rows], RELATIVE_GAIN, changed, errors[rows])
        return changed

    return np.sum(workers.map(one, table.blocks), axis=0), errors


def fit(table: Table, runs: Runs, workers: Workers) -> tuple[NDArray, NDArray]:
    """Least squares for all runs: their squared errors, and which columns are not redundant."""
    from madbayes.engine import kernels

    parts = workers.map(lambda rows: Sums.of_block(table, rows, runs.Z), table.blocks)
    products = np.sum([part.products for part in parts], axis=0, dtype=np.float64)
    weighted = np.sum([part.weighted for part in parts], axis=0)
    independent = np.empty(products.shape[:2], dtype=bool)
    if table.weights.size:  # what is redundant does not depend on weights
        pairs = np.sum([part.pairs for part in parts], axis=0).astype(float)
        kernels.solve_grams(pairs, products, runs.A, independent)
        weighted[~(independent[:, :, None] & independent[:, None, :])] = 0.0
    kernels.solve_grams(weighted, products, runs.A, independent)
    return table.total - np.einsum("rkd,rkd->r", products, runs.A), independent


class Opening(NamedTuple):
    """When BP-means opens a feature."""

    penalty: float
    cap: int
    negligible: float

    def __call__(self, table: Table, runs: Runs, errors: NDArray) -> NDArray:
        """Rows in order open features; how many in each run."""
        from madbayes.engine import kernels

        before, first_rows = runs.used.copy(), np.zeros(len(runs.used), dtype=np.int64)
        threshold = (1 + RELATIVE_GAIN) * self.penalty
        while True:
            kernels.open_features(
                table.X, table.weights, runs.A, runs.used, runs.Z, errors, first_rows, threshold, self.negligible,
                RELATIVE_GAIN, self.cap,
            )  # fmt: skip
            if (first_rows == len(table.X)).all():
                return runs.used - before
            runs.make_room(2 * runs.Z.shape[2] + 2)


def leave_out_redundant(table: Table, runs: Runs, workers: Workers) -> None:
    """Runs that start with redundant features go on without them, from least squares."""
    fitted = Runs(runs.Z.copy(), runs.A.copy(), runs.used.copy())
    _, independent = fit(table, fitted, workers)
    used = np.arange(independent.shape[1]) < runs.used[:, None]
    for r in np.flatnonzero((used & ~independent).any(axis=1)).tolist():
        fitted.drop(r, independent[r])
        runs.Z[:, r], runs.A[r], runs.used[r] = fitted.Z[:, r], fitted.A[r], fitted.used[r]


def squared_error(table: Table, runs: Runs, r: int, workers: Workers) -> float:
    """Weighted squared error of run r, by differences."""
    from madbayes.engine import kernels

    Z, A, errors = runs.Z[:, r, : runs.used[r]], runs.A[r, : runs.used[r]], np.empty(len(table.X))
    workers.map(lambda rows: kernels.row_errors(table.X[rows], Z[rows], A, errors[rows]), table.blocks)
    return float(table.weights @ errors if table.weights.size else errors.sum())


def refill(table: Table, runs: Runs, r: int, K: int, workers: Workers) -> float:
    """Give run r features made of the row of largest error until it has K, or nothing is left to explain."""
    from madbayes.engine import kernels

    one, negligible = Runs.of([runs.start(r)], K), rounding_error(table.X)
    values, _ = fit(table, one, workers)
    while one.used[0] < K:
        used, errors = int(one.used[0]), np.empty(len(table.X))
        kernels.row_errors(table.X, one.Z[:, 0, :used], one.A[0, :used], errors)
        n = int((table.weights * errors if table.weights.size else errors).argmax())
        if errors[n] <= negligible:
            break
        residual = np.empty(table.X.shape[1])
        square = kernels.take_residual(table.X[n], one.Z[n, 0, :used], one.A[0, :used], residual)
        kernels.give_feature(table.X, one.A[0], used, one.Z[:, 0], errors, 0, residual, square, 0.0)
        one.used[0] += 1
        values, independent = fit(table, one, workers)
        if not independent[0, : used + 1].all():
            one.drop(0, independent[0])
            break
    runs.Z[:, r], runs.A[r], runs.used[r] = one.Z[:, 0], one.A[0], one.used[0]
    return float(values[0])


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
    """The runs of :func:`madbayes.paper.bp_means` from each start, all at once."""
    cap = np.iinfo(np.int64).max if max_components is None else max_components
    opening = Opening(penalty, cap, rounding_error(X))
    return _run_all(X, starts, penalty, opening, None, sample_weight, max_iter, workers)


def k_features(
    X: NDArray,
    K: int,
    starts: Sequence[Start],
    *,
    sample_weight: Weights = None,
    max_iter: int = 300,
    workers: Workers,
) -> list[Result]:
    """The runs of :func:`madbayes.paper.k_features` from each start, all at once."""
    return _run_all(X, starts, 0.0, None, K, sample_weight, max_iter, workers)


def _run_all(
    X: NDArray,
    starts: Sequence[Start],
    penalty: float,
    opening: Opening | None,
    K: int | None,
    sample_weight: Weights,
    max_iter: int,
    workers: Workers,
) -> list[Result]:
    """Chunks of runs in turn on a large table; at the same time on one that is a single block."""
    table = Table.of(X, sample_weight)
    chunks = [starts[i : i + CHUNK] for i in range(0, len(starts), CHUNK)]
    small = len(table.blocks) == 1
    inner, outer = (Workers(1), workers) if small else (workers, Workers(1))
    results = outer.map(lambda chunk: _run_chunk(table, chunk, penalty, opening, K, max_iter, inner), chunks)
    return [result for chunk in results for result in chunk]


def advance(
    table: Table, runs: Runs, opening: Opening | None, K: int | None, workers: Workers
) -> tuple[NDArray, NDArray]:
    """One iteration of all runs: their squared errors after it, and how much has changed in Z."""
    changed, errors = sweep(table, runs, workers)
    if opening is not None:
        changed += opening(table, runs, errors)
    values, independent = fit(table, runs, workers)
    used = np.arange(independent.shape[1]) < runs.used[:, None]
    for r in np.flatnonzero((used & ~independent).any(axis=1)).tolist():
        runs.drop(r, independent[r])
        changed[r] += 1
    for r in np.flatnonzero(runs.used < (K or 0)).tolist():
        before = runs.used[r]
        values[r] = refill(table, runs, r, K or 0, workers)
        changed[r] += runs.used[r] > before
    return values, changed


def _run_chunk(
    table: Table,
    starts: Sequence[Start],
    penalty: float,
    opening: Opening | None,
    K: int | None,
    max_iter: int,
    workers: Workers,
) -> list[Result]:
    """Iterate until every run has converged."""
    runs = Runs.of(starts, max(len(A) for _, A in starts) if K is None else K)
    leave_out_redundant(table, runs, workers)
    traces = [[squared_error(table, runs, r, workers) + penalty * runs.used[r]] for r in range(len(starts))]
    results: dict[int, Result] = {}
    alive = list(range(len(starts)))
    for iteration in range(1, max_iter + 1):
        losses, changed = advance(table, runs, opening, K, workers)
        for i, r in enumerate(alive):
            traces[r].append(float(losses[i] + penalty * runs.used[i]))
        # A start need not be least squares: its A may change although no bit does.
        falls = np.array([traces[r][-1] < (1 - RELATIVE_GAIN) * traces[r][-2] for r in alive])
        converged = (changed == 0) & ((iteration > 1) | ~falls)
        done = converged | (iteration == max_iter)
        for i in np.flatnonzero(done).tolist():
            trace = np.array(traces[alive[i]])
            trace[-1] = squared_error(table, runs, i, workers) + penalty * runs.used[i]
            results[alive[i]] = Result(*runs.start(i), float(trace[-1]), trace, iteration, bool(converged[i]))
        if done.all():
            break
        runs.keep(~done)
        alive = [r for r, ended in zip(alive, done, strict=True) if not ended]
    return [results[r] for r in range(len(starts))]


def least_squares_features(X: NDArray, Z: NDArray, sample_weight: Weights, workers: Workers) -> NDArray:
    """Least-squares features of one Z, block by block."""
    runs = Runs.of([(Z, np.zeros((Z.shape[1], X.shape[1])))], Z.shape[1])
    fit(Table.of(X, sample_weight), runs, workers)
    return runs.A[0]


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
    cap = np.inf if max_components is None else max_components

    def one(start: Start) -> Result:
        return _collapsed_run(X, penalty, start[0], cap, sample_weight, max_iter)

    return workers.map(one, starts)


def _collapsed_run(X: NDArray, penalty: float, Z: NDArray, cap: float, sample_weight: Weights, max_iter: int) -> Result:
    Z = np.asarray(Z, dtype=np.uint8)
    Z = Z[:, independent_columns(Z)]
    trace = [_collapsed_value(X, Z, penalty, sample_weight)]
    changed = True
    while changed and len(trace) <= max_iter:
        Z, changed = _collapsed_sweep(X, penalty, Z, cap, sample_weight)
        trace.append(_collapsed_value(X, Z, penalty, sample_weight))
    A = least_squares(X, Z, sample_weight)
    return Result(Z, A, trace[-1], np.array(trace), len(trace) - 1, not changed)


def _collapsed_value(X: NDArray, Z: NDArray, penalty: float, sample_weight: Weights) -> float:
    return collapsed_bp_means_objective(penalty)(X, Z, sample_weight=sample_weight)


def _collapsed_sweep(
    X: NDArray, penalty: float, Z: NDArray, cap: float, sample_weight: Weights
) -> tuple[NDArray[np.uint8], bool]:
    """All rows in order. The kernel stops where features come or go; then everything is set up anew."""
    from madbayes.engine import kernels

    N, any_change, n = len(X), False, 0
    weights = np.ones(N) if sample_weight is None else sample_weight
    limits = (penalty, (1 + RELATIVE_GAIN) * penalty, rounding_error(X), RELATIVE_GAIN, JOINT_LIMIT)
    while n < N:
        Z = np.ascontiguousarray(Z)
        P, A = gram_inverse((Z.T * weights) @ Z), least_squares(X, Z, sample_weight)
        n, wants, changed = kernels.collapsed_rows(X, weights, Z, A, P, n, *limits, Z.shape[1] >= cap)
        any_change = any_change or bool(changed) or bool(wants)
        if n < N:
            Z = Z[:, independent_columns(Z)]
            if wants and Z.shape[1] < cap:
                Z = np.column_stack([Z, np.arange(N) == n]).astype(np.uint8)
            n += 1
    return Z, any_change
