"""The best code of a row among more than a few features."""

import numpy as np

from madbayes.engine.kernels.branching import branch, distance, make_tree
from madbayes.engine.kernels.compiling import compiled
from madbayes.engine.kernels.features import take_residual


@compiled()
def search_codes(X, A, Q, R, offset, rounder, codes, node_limit):  # type: ignore[no-untyped-def]
    """A code of least squared error for each row: descent by single and pair flips, then branch and bound.

    Every row goes its own way through sums in a fixed order, so its code depends on no other row.

    X : IN (n, D); A : IN (K, D); rounder : IN (D, K), a pseudo-inverse of A
    Q, R, offset : IN (D, K), (K, K), (K,), such that |Q'x + offset - Rz|^2 is the squared error up to a constant
    codes : OUT (n, K), uint8
    node_limit : IN, branch and bound gives up after this many nodes
    """
    n_rows, D = X.shape
    K = len(A)
    G = np.zeros((K, K))
    for j in range(K):
        for k in range(K):
            for d in range(D):
                G[j, k] += A[j, d] * A[k, d]
    first, second = np.empty(K, np.uint8), np.empty(K, np.uint8)
    residual, y, tree = np.empty(D), np.empty(K), make_tree(K)
    for n in range(n_rows):
        x = X[n]
        size = 0.0
        for d in range(D):
            size += x[d] * x[d]
        for k in range(K):
            share = 0.0
            for d in range(D):
                share += x[d] * rounder[d, k]
            first[k], second[k] = 0, share > 0.5
        _flip_down(x, A, G, first, residual, size)
        _flip_down(x, A, G, second, residual, size)
        error, other = take_residual(x, first, A, K, residual), take_residual(x, second, A, K, residual)
        if other < error - _doubt(size, error):
            first[:] = second
            error = other
        for k in range(K):
            y[k] = offset[k]
            for d in range(D):
                y[k] += Q[d, k] * x[d]
        now = distance(y, R, first, K)
        branch(y, R, K, now - _doubt(size, now), node_limit, tree, first)
        codes[n] = first


@compiled()
def _doubt(size, error):  # type: ignore[no-untyped-def]
    """How far rounding may move a squared error of a row of this square."""
    slack = 1e-14 * np.sqrt(size)
    return 1e-12 * error + 2.0 * slack * np.sqrt(error) + slack * slack


@compiled()
def _flip_down(x, A, G, z, residual, size):  # type: ignore[no-untyped-def]
    """Best single or pair flip until none lowers the error, which is taken anew after each."""
    K = len(A)
    single = np.empty(K)
    error = take_residual(x, z, A, K, residual)
    for _ in range(4 * K):
        for k in range(K):
            dot = 0.0
            for d in range(len(x)):
                dot += residual[d] * A[k, d]
            single[k] = G[k, k] - 2.0 * (1.0 - 2.0 * z[k]) * dot
        least, i, j = np.inf, 0, 0
        for k in range(K):
            if single[k] < least:
                least, i, j = single[k], k, k
            for m in range(k):
                sign = (1.0 - 2.0 * z[k]) * (1.0 - 2.0 * z[m])
                change = single[k] + single[m] + 2.0 * sign * G[k, m]
                if change < least:
                    least, i, j = change, k, m
        z[i] = 1 - z[i]
        if i != j:
            z[j] = 1 - z[j]
        lower = take_residual(x, z, A, K, residual)
        if not lower < error - _doubt(size, error):
            z[i] = 1 - z[i]
            if i != j:
                z[j] = 1 - z[j]
            break
        error = lower
