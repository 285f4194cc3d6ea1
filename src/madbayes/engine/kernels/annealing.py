"""Annealing: collapsed BP-means with chance, which the temperature turns down, of rows side by side.

As in :mod:`madbayes.engine.kernels.collapsed`, what a code of a row costs is the squared error when features follow it.
A bit is flipped if that lowers the squared error, or else with probability exp(-increase / temperature): where noise
makes many local optima, they are passed while it is warm.

Rows of a block are looked at side by side, as vector instructions take them: each as if the others kept their codes.
Least squares follow when the block is done. With many rows what one of them changes for the others is little, and a
descent that knows of all comes after.

A flip that costs c is made if c is less than the temperature times an exponential random number.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.kernels.compiling import REORDER, compiled
from madbayes.engine.kernels.features import count_pairs, invert, square_features, sum_rows

# Rows of a block are a multiple of so many.
LANES = 8
# Exponential random numbers that are drawn once; which of them rows have is drawn for each bit and block.
POOL = 4096
# Sweeps after which least squares are computed anew.
FRESH = 8
# Rows of a higher leverage are left alone: without them, features are not determined.
HIGH = 1.0 - 1e-7
# Weights of a feature up to this share of all are rounding.
ROUNDING = 1e-12


class State(NamedTuple):
    """Least squares of all rows with the codes they have."""

    M: NDArray  # (K, K), Z'WZ
    C: NDArray  # (K, D), Z'WX
    P: NDArray  # (K, K), inverse of Z'WZ
    A: NDArray  # (K, D), features PC
    G: NDArray  # (K, K), AA'
    least: float  # smaller pivots of Z'WZ are rounding


class Block(NamedTuple):
    """Rows side by side; the last of them may weigh nothing."""

    X: NDArray  # (rows, D), those that there are
    columns: NDArray  # (D, n), the same the other way round
    weights: NDArray  # (n,)
    squares: NDArray  # (n,), |x|^2
    z: NDArray  # (K, n), codes
    before: NDArray  # (K, n), what they were when the block began
    b: NDArray  # (K, n), Ax
    v: NDArray  # (K, n), Pz' of the code at the beginning, with the row still in
    a: NDArray  # (K, n), -Ar with r = x - zA, likewise
    g: NDArray  # (K, n), half the gradient of |x - yA|^2 at the code y, by the features of the others
    q: NDArray  # (K, n), half the gradient of yPy', of the others
    errors: NDArray  # (n,), |x - yA|^2 by the features of the others
    leverages: NDArray  # (n,), yPy' of the others
    costs: NDArray  # (n,), what the code adds to the squared error
    shrink: NDArray  # (n,), w / (1 - w zPz')
    square: NDArray  # (n,), that times the squared error with the row in
    new_errors: NDArray  # (n,), with a bit flipped
    new_leverages: NDArray  # (n,), likewise
    margins: NDArray  # (n,), positive where a flip costs less than it may


@compiled(fastmath=REORDER)
def add_product(M, N, out):  # type: ignore[no-untyped-def]
    """out : INOUT, MN is added to it; four rows of N at a time share what is read and written of a row."""
    (m, K), n = M.shape, N.shape[1]
    whole = K - K % 4
    for i in range(m):
        row = out[i]
        for k in range(0, whole, 4):
            p0, p1, p2, p3 = M[i, k], M[i, k + 1], M[i, k + 2], M[i, k + 3]
            for r in range(n):
                row[r] += p0 * N[k, r] + p1 * N[k + 1, r] + p2 * N[k + 2, r] + p3 * N[k + 3, r]
        for k in range(whole, K):
            p = M[i, k]
            for r in range(n):
                row[r] += p * N[k, r]


@compiled()
def fit(state):  # type: ignore[no-untyped-def]
    """state : INOUT, P, A and G follow M and C; returns whether columns are independent."""
    K = len(state.M)
    if not invert(state.M, state.P, K, state.least):
        return False
    state.A[:] = 0.0
    add_product(state.P, state.C, state.A)
    square_features(state.A, K, state.G)
    return True


@compiled()
def fit_anew(X, weights, Z, state):  # type: ignore[no-untyped-def]
    """state : OUT, of the codes Z; returns whether columns are independent."""
    pairs = np.empty(state.M.shape)
    count_pairs(Z, weights, Z.shape[1], pairs, state.M)
    if not weights.size:
        state.M[:] = pairs
    sum_rows(X, weights, Z, Z.shape[1], state.C)
    return fit(state)


@compiled(fastmath=REORDER)
def take_out(state, block):  # type: ignore[no-untyped-def]
    """block : INOUT, each row as it is to the least squares of the others, its code being z."""
    weights, z, b, v, a, g, q = block.weights, block.z, block.b, block.v, block.a, block.g, block.q
    errors, leverages, costs, shrink, square = block.errors, block.leverages, block.costs, block.shrink, block.square
    squares, left, G, P, (K, n) = block.squares, block.margins, state.G, state.P, z.shape
    for r in range(n):
        errors[r], leverages[r] = squares[r], 0.0
    for k in range(K):
        for r in range(n):
            v[k, r], a[k, r] = 0.0, -b[k, r]
    add_product(P, z, v)
    add_product(G, z, a)
    for k in range(K):
        for r in range(n):
            leverages[r] += z[k, r] * v[k, r]
        for r in range(n):
            errors[r] += z[k, r] * (a[k, r] - b[k, r])
    for r in range(n):
        h = weights[r] * leverages[r]
        left[r] = 1.0 / (1.0 - h) if h < HIGH else 1.0
        costs[r] = 0.0 if (h < HIGH) & (weights[r] > 0.0) else -np.inf
    for r in range(n):
        shrink[r] = weights[r] * left[r]
    for r in range(n):
        square[r] = shrink[r] * errors[r]
    for r in range(n):
        errors[r] *= left[r] * left[r]
        leverages[r] *= left[r]
    for r in range(n):
        costs[r] += weights[r] * errors[r] / (1.0 + weights[r] * leverages[r])
    for k in range(K):
        for r in range(n):
            g[k, r] = (square[r] * v[k, r] + a[k, r]) * left[r]
        for r in range(n):
            q[k, r] = v[k, r] * left[r]


@compiled(fastmath=REORDER)
def flip_bits(state, block, temperature, chance, rng):  # type: ignore[no-untyped-def]
    """One bit after the other of all rows, each taken out by itself; returns whether any is flipped.

    chance : IN (POOL,), exponential random numbers; block, state.M and state.C : INOUT

    Loops over rows are short and write one array each: of more, it is not seen that they do not overlap.
    """
    X, weights, z, v, a, g, q = block.X, block.weights, block.z, block.v, block.a, block.g, block.q
    errors, leverages, costs, shrink, square = block.errors, block.leverages, block.costs, block.shrink, block.square
    new_errors, new_leverages, margins = block.new_errors, block.new_leverages, block.margins
    M, C, G, P, (K, n), D, changed = state.M, state.C, state.G, state.P, z.shape, X.shape[1], False
    for k in range(K):
        first = int(rng.random() * (POOL - n))
        for r in range(n):
            own = shrink[r] * v[k, r] * (square[r] * v[k, r] + 2.0 * a[k, r])
            new_errors[r] = errors[r] + G[k, k] + own + (2.0 - 4.0 * z[k, r]) * g[k, r]
        for r in range(n):
            own = shrink[r] * v[k, r] * v[k, r]
            new_leverages[r] = leverages[r] + P[k, k] + own + (2.0 - 4.0 * z[k, r]) * q[k, r]
        for r in range(n):
            limit = (costs[r] + temperature * chance[first + r]) * (1.0 + weights[r] * new_leverages[r])
            margins[r] = limit - weights[r] * new_errors[r]
        for r in range(n):
            if not margins[r] > 0.0:
                continue
            changed, w, sign = True, weights[r], 1.0 - 2.0 * z[k, r]
            step = sign * shrink[r]
            across, along = step * v[k, r], step * (square[r] * v[k, r] + a[k, r])
            z[k, r] += sign
            errors[r], leverages[r] = new_errors[r], new_leverages[r]
            costs[r] = w * errors[r] / (1.0 + w * leverages[r])
            for j in range(k + 1, K):
                g[j, r] += sign * G[k, j] + along * v[j, r] + across * a[j, r]
                q[j, r] += sign * P[k, j] + across * v[j, r]
            for j in range(K):
                M[k, j] += w * sign * (z[j, r] if j != k else 1.0)
            for d in range(D):
                C[k, d] += w * sign * X[r, d]
        for j in range(K):
            M[j, k] = M[k, j]
    return changed


@compiled()
def anneal_block(state, block, temperature, chance, rng):  # type: ignore[no-untyped-def]
    """All rows of a block, block.z and state : INOUT; returns whether any has changed."""
    block.b[:] = 0.0
    add_product(state.A, block.columns, block.b)
    block.before[:] = block.z
    take_out(state, block)
    return flip_bits(state, block, temperature, chance, rng)


@compiled()
def anneal(X, squares, weights, Z, temperatures, at_once, rng):  # type: ignore[no-untyped-def]
    """A sweep over all rows for each temperature: Z : INOUT; no column may be redundant.

    squares : IN (N,), |x|^2; at_once : IN, rows of a block, about, at most half of POOL
    """
    (N, K), D = Z.shape, X.shape[1]
    n_blocks = -(-N // at_once)
    n = -(-N // (n_blocks * LANES)) * LANES
    codes, columns = np.zeros((n_blocks, K, n)), np.zeros((n_blocks, D, n))
    m, v = np.zeros((6, K, n)), np.zeros((8, n))
    padded, chance = np.zeros((2, n_blocks * n)), rng.standard_exponential(POOL)
    for r in range(N):
        padded[0, r], padded[1, r] = weights[r] if weights.size else 1.0, squares[r]
        for k in range(K):
            codes[r // n, k, r % n] = Z[r, k]
        for d in range(D):
            columns[r // n, d, r % n] = X[r, d]
    least = ROUNDING * padded[0].sum()
    state = State(np.empty((K, K)), np.empty((K, D)), np.empty((K, K)), np.empty((K, D)), np.empty((K, K)), least)
    for sweep in range(len(temperatures)):
        if sweep % FRESH == 0 and not fit_anew(X, weights, Z, state):
            return
        for i in range(n_blocks):
            rows, some = slice(i * n, min((i + 1) * n, N)), slice(i * n, (i + 1) * n)
            block = Block(
                X[rows], columns[i], padded[0, some], padded[1, some], codes[i],
                m[0], m[1], m[2], m[3], m[4], m[5], v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7],
            )  # fmt: skip
            if not anneal_block(state, block, temperatures[sweep], chance, rng):
                continue
            if fit(state):
                for r in range(len(block.X)):
                    for k in range(K):
                        Z[i * n + r, k] = np.uint8(codes[i, k, r])
            else:  # together they made columns dependent
                codes[i] = block.before
                fit_anew(X, weights, Z, state)
