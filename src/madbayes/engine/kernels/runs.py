"""Whole runs of BP-means and K-features on a table of one block. Conventions as in the module on their pieces."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.kernels.compiling import compiled
from madbayes.engine.kernels.features import (
    count_pairs,
    drop_dependent,
    eliminate,
    give_feature,
    project,
    row_errors,
    solve,
    square_features,
    sum_rows,
    sweep_bits,
    take_residual,
    weighted_sum,
)


class Limits(NamedTuple):
    """What a run of BP-means or K-features may do."""

    K: int  # features there must be if possible; 0 for BP-means
    cap: int  # no feature is opened beyond this many; 0 for K-features
    penalty: float  # the price of a feature
    threshold: float  # weighted error above which a row opens a feature
    negligible: float  # squared errors up to this are rounding
    gain: float  # a change must gain more than this share of what it is compared with


class Scratch(NamedTuple):
    """Buffers of a run."""

    errors: NDArray  # (N,)
    B: NDArray  # (N, room)
    G: NDArray  # (room, room)
    sums: NDArray  # (room, D)
    pairs: NDArray  # (room, room)
    weighted: NDArray  # (room, room)
    independent: NDArray  # (room,)


@compiled()
def open_features(X, weights, Z, A, used, errors, first, limits):  # type: ignore[no-untyped-def]
    """Rows in order: one whose weighted error exceeds the threshold opens a feature, which later rows may take.

    Z : INOUT (N, room), uint8; A : INOUT (room, D), float64
    errors : INOUT (N,), squared errors; those of rows near the threshold are taken anew by differences
    first : IN, the row to begin with

    Returns how many features there are, and the row for which there was no room, or N.
    """
    N, room = Z.shape
    residual = np.empty(X.shape[1])
    for n in range(first, N):
        w = weights[n] if weights.size else 1.0
        # Rounding may have moved an error by a little: whoever is close is looked at again.
        if used < limits.cap and w * errors[n] > 0.999 * limits.threshold and errors[n] > 0.0:
            error = take_residual(X[n], Z[n], A, used, residual)
            if w * error > limits.threshold and error > limits.negligible:
                if used == room:
                    return used, n
                give_feature(X, A, used, Z, errors, n + 1, residual, error, limits.gain)
                Z[n, used] = 1
                errors[n] = 0.0
                used += 1
    return used, N


@compiled(inline="always")
def fit_run(X, weights, Z, A, used, scratch):  # type: ignore[no-untyped-def]
    """Least squares of one run: A : OUT; ``independent`` says what is not redundant. Returns what is explained."""
    count_pairs(Z, weights, used, scratch.pairs, scratch.weighted)
    sum_rows(X, weights, Z, used, scratch.sums)
    return solve(scratch.pairs, scratch.weighted, weights.size > 0, scratch.sums, A, used, scratch.independent)


@compiled(inline="always")
def leave_out_redundant(X, weights, Z, A, used, scratch):  # type: ignore[no-untyped-def]
    """A run that starts with redundant features goes on without them, from least squares. Returns how many are left."""
    count_pairs(Z, weights, used, scratch.pairs, scratch.weighted)
    sum_rows(X, weights, Z, used, scratch.sums)
    eliminate(scratch.pairs, scratch.sums, used, scratch.independent)
    for k in range(used):
        if not scratch.independent[k]:
            fit_run(X, weights, Z, A, used, scratch)
            return drop_dependent(Z, A, used, scratch.independent)
    return used


@compiled(inline="always")
def refill(X, weights, Z, A, used, limits, scratch):  # type: ignore[no-untyped-def]
    """Features made of the row of largest error until there are K, or nothing is left to explain.

    Z, A : INOUT. Returns how many there are, and what they explain.
    """
    errors, residual, all_rows = scratch.errors, np.empty(X.shape[1]), np.int64(0)
    explained = fit_run(X, weights, Z, A, used, scratch)
    while used < limits.K:
        row_errors(X, Z, A, used, errors)
        worst, most = 0, -1.0
        for n in range(len(X)):
            error = weights[n] * errors[n] if weights.size else errors[n]
            if error > most:
                worst, most = n, error
        if errors[worst] <= limits.negligible:
            break
        square = take_residual(X[worst], Z[worst], A, used, residual)
        give_feature(X, A, used, Z, errors, all_rows, residual, square, 0.0)
        explained = fit_run(X, weights, Z, A, used + 1, scratch)
        kept = drop_dependent(Z, A, used + 1, scratch.independent)
        used, exhausted = kept, kept == used
        if exhausted:
            break
    return used, explained


@compiled(inline="always")
def advance(X, squares, weights, Z, A, used, limits, scratch):  # type: ignore[no-untyped-def]
    """One iteration of a run. Z, A : INOUT.

    Returns how many features there are, how much has changed in Z (-1 if there was no room) and what is explained.
    """
    project(X, A, used, scratch.B)
    square_features(A, used, scratch.G)
    changed = sweep_bits(scratch.B, scratch.G, squares, Z, used, limits.gain, scratch.errors)
    before = used
    used, stopped = open_features(X, weights, Z, A, used, scratch.errors, np.int64(0), limits)
    if stopped < len(X):
        return used, -1, 0.0
    explained = fit_run(X, weights, Z, A, used, scratch)
    kept = drop_dependent(Z, A, used, scratch.independent)
    changed += (used - before) + (used - kept)
    used = kept
    if used < limits.K:
        used, explained = refill(X, weights, Z, A, kept, limits, scratch)
        changed += used - kept
    return used, changed, explained


@compiled(inline="always")
def run_features(X, squares, weights, total, Z, A, used, limits, trace, scratch):  # type: ignore[no-untyped-def]
    """A whole run of BP-means, or of K-features, from its start to where nothing changes.

    squares : IN (N,), |x|^2; total : IN, their weighted sum
    Z : INOUT (N, room), uint8; A : INOUT (room, D), float64; used : IN, features at the start
    trace : OUT (1 + iterations at most,), the objective

    Returns how many features there are, the iterations made (-1 if there was no room) and whether it converged.
    """
    used = leave_out_redundant(X, weights, Z, A, used, scratch)
    row_errors(X, Z, A, used, scratch.errors)
    trace[0] = weighted_sum(scratch.errors, weights) + limits.penalty * used
    iteration, converged = 0, False
    while not converged and iteration + 1 < len(trace):
        used, changed, explained = advance(X, squares, weights, Z, A, used, limits, scratch)
        if changed < 0:
            return used, -1, False
        iteration += 1
        trace[iteration] = total - explained + limits.penalty * used
        # A start need not be least squares: its A may change although no bit does.
        falls = trace[iteration] < (1.0 - limits.gain) * trace[iteration - 1]
        converged = changed == 0 and (iteration > 1 or not falls)
    row_errors(X, Z, A, used, scratch.errors)
    trace[iteration] = weighted_sum(scratch.errors, weights) + limits.penalty * used
    return used, iteration, converged


@compiled()
def run_all(X, squares, weights, total, Z, A, used, limits, traces, iterations, converged):  # type: ignore[no-untyped-def]
    """:func:`run_features` for each of R runs: Z (R, N, room), A (R, room, D), traces (R, 1 + iterations at most).

    used : INOUT (R,); iterations, converged : OUT (R,)
    """
    R, N, room = Z.shape
    scratch = Scratch(
        np.empty(N),
        np.empty((N, room)),
        np.empty((room, room)),
        np.empty((room, X.shape[1])),
        np.empty((room, room)),
        np.empty((room, room)),
        np.empty(room, dtype=np.bool_),
    )
    for r in range(R):
        used[r], iterations[r], converged[r] = run_features(
            X, squares, weights, total, Z[r], A[r], used[r], limits, traces[r], scratch
        )
