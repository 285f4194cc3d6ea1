"""Runs of features: bits, least squares, new features, seeding.

A binary code z of a row x has the squared error |x|^2 - 2 b.z + zGz' with b = Ax and G = AA'. Flipping bit k changes it
by G_kk + 2 s_k g_k, where s_k is 1 for a bit that is off and -1 for one that is on, and g = Gz - b.
"""

import numpy as np

from madbayes.engine.kernels.compiling import REORDER, compiled


@compiled(fastmath=REORDER)
def sweep_bits(B, G, squares, Z, gain, changed, errors):  # type: ignore[no-untyped-def]
    """One ordered sweep over the bits of every row, for many runs at once.

    B : IN (n, R, K), b of each row under each run
    G : IN (R, K, K)
    squares : IN (n,), |x|^2
    Z : INOUT (n, R, K), uint8
    gain : IN, a flip must lower the error by more than this share of G_kk
    changed : INOUT (R,), number of flips added
    errors : OUT (n, R), squared error of each row
    """
    n_rows, R, K = B.shape
    g = np.empty(K, dtype=G.dtype)
    for n in range(n_rows):
        for r in range(R):
            for k in range(K):
                g[k] = -B[n, r, k]
            for j in range(K):
                if Z[n, r, j]:
                    for k in range(K):
                        g[k] += G[r, j, k]
            for k in range(K):
                sign = 1.0 - 2.0 * Z[n, r, k]
                if G[r, k, k] + 2.0 * sign * g[k] < -gain * G[r, k, k]:
                    Z[n, r, k] = 1 - Z[n, r, k]
                    changed[r] += 1
                    for j in range(K):
                        g[j] += sign * G[r, k, j]
            error = squares[n]
            for k in range(K):
                if Z[n, r, k]:
                    error += g[k] - B[n, r, k]
            errors[n, r] = error


@compiled()
def count_pairs(Z, weights, pairs, weighted):  # type: ignore[no-untyped-def]
    """Z'Z of many runs, exactly, and Z'WZ.

    Z : IN (n, R, K), uint8
    weights : IN (n,), or of length 0 when all rows weigh 1
    pairs : INOUT (R, K, K), int64, added to
    weighted : INOUT (R, K, K), float64, added to; not touched without weights
    """
    n_rows, R, K = Z.shape
    on = np.empty(K, dtype=np.int64)
    for n in range(n_rows):
        for r in range(R):
            count = 0
            for k in range(K):
                if Z[n, r, k]:
                    on[count] = k
                    count += 1
            for i in range(count):
                for j in range(count):
                    pairs[r, on[i], on[j]] += 1
                    if weights.size:
                        weighted[r, on[i], on[j]] += weights[n]


@compiled(fastmath=REORDER)
def solve_grams(grams, sums, A, independent):  # type: ignore[no-untyped-def]
    """Least squares for many runs, by elimination in the order of the columns; dependent ones are left out.

    grams : INOUT (R, K, K), float64, destroyed
    sums : IN (R, K, D)
    A : OUT (R, K, D), float64; zero for columns that are linear combinations of earlier ones
    independent : OUT (R, K), which columns are not
    """
    R, K, D = sums.shape
    for r in range(R):
        A[r] = sums[r]
        for k in range(K):
            # The pivot is the squared distance of column k to the span of the columns before it. Its own square
            # is put together again from the entries left of the diagonal, which elimination does not change.
            pivot = size = grams[r, k, k]
            for j in range(k):
                if independent[r, j]:
                    size += grams[r, k, j] * grams[r, k, j] / grams[r, j, j]
            independent[r, k] = pivot > 1e-10 * size
            if not independent[r, k]:
                A[r, k] = 0.0
                continue
            for i in range(k + 1, K):
                factor = grams[r, i, k] / pivot
                for j in range(k + 1, K):
                    grams[r, i, j] -= factor * grams[r, k, j]
                for d in range(D):
                    A[r, i, d] -= factor * A[r, k, d]
        for k in range(K - 1, -1, -1):
            if not independent[r, k]:
                continue
            for j in range(k + 1, K):
                if independent[r, j]:
                    for d in range(D):
                        A[r, k, d] -= grams[r, k, j] * A[r, j, d]
            for d in range(D):
                A[r, k, d] /= grams[r, k, k]


@compiled(fastmath=REORDER)
def take_residual(x, z, A, residual):  # type: ignore[no-untyped-def]
    """residual : OUT (D,), x - zA by differences. Returns its square."""
    square = 0.0
    for d in range(len(x)):
        residual[d] = x[d]
    for k in range(len(A)):
        if z[k]:
            for d in range(len(x)):
                residual[d] -= A[k, d]
    for d in range(len(x)):
        square += residual[d] * residual[d]
    return square


@compiled(fastmath=REORDER)
def give_feature(X, A, k, Z, errors, first, residual, square, gain):  # type: ignore[no-untyped-def]
    """Make a residual feature k, and set the bit of every row from the first on that gains by it.

    X : IN (N, D); residual : IN (D,); square : IN, its square
    A : INOUT (K, D); Z : INOUT (N, K), uint8; errors : INOUT (N,), squared errors
    """
    D = X.shape[1]
    overlaps = np.zeros(k)
    for j in range(k):
        for d in range(D):
            overlaps[j] += A[j, d] * residual[d]
    for d in range(D):
        A[k, d] = residual[d]
    for m in range(first, len(X)):
        dot = 0.0
        for d in range(D):
            dot += X[m, d] * residual[d]
        for j in range(k):
            if Z[m, j]:
                dot -= overlaps[j]
        change = square - 2.0 * dot
        if change < -gain * square:
            Z[m, k] = 1
            errors[m] = max(errors[m] + change, 0.0)


@compiled()
def row_errors(X, Z, A, errors):  # type: ignore[no-untyped-def]
    """errors : OUT (n,), squared errors of rows X with codes Z, by differences."""
    residual = np.empty(X.shape[1])
    for n in range(len(X)):
        errors[n] = take_residual(X[n], Z[n], A, residual)


@compiled()
def seed_run(X, weights, base, base_errors, uniforms, penalty, negligible, A, Z, errors):  # type: ignore[no-untyped-def]
    """++ seeding of one run: the base feature, then residuals of rows drawn by their weighted error.

    X : IN (N, D); weights : IN (N,)
    base : IN (D,), the mean of the rows; base_errors : IN (N,), squared errors about it
    uniforms : IN (room,), one number for each draw
    penalty : IN, a feature must lower the weighted error by more than this; negative for "add all there is room for"
    negligible : IN, squared errors up to this are rounding
    A : OUT (room, D), float64; Z : OUT (N, room), uint8, zero before; errors : scratch (N,)

    Returns the number of features; the room is exhausted if it is that many.
    """
    N, room = Z.shape
    residual = np.empty(X.shape[1])
    A[0] = base
    Z[:, 0] = 1
    errors[:] = base_errors
    used = 1
    while used < room:
        total, largest = 0.0, 0.0
        for n in range(N):
            total += weights[n] * errors[n]
            largest = max(largest, errors[n])
        if largest <= 1e10 * negligible:  # updated errors are only good to rounding of the rows' squares
            row_errors(X, Z[:, :used], A[:used], errors)
            total, largest = 0.0, 0.0
            for n in range(N):
                total += weights[n] * errors[n]
                largest = max(largest, errors[n])
            if largest <= negligible:
                break
        target, drawn, cumulative = uniforms[used - 1] * total, N - 1, 0.0
        for n in range(N):
            cumulative += weights[n] * errors[n]
            if cumulative > target:
                drawn = n
                break
        square = take_residual(X[drawn], Z[drawn, :used], A[:used], residual)
        give_feature(X, A, used, Z, errors, 0, residual, square, 0.0)
        errors[drawn] = 0.0
        if penalty >= 0.0:
            after = 0.0
            for n in range(N):
                after += weights[n] * errors[n]
            if not after + penalty < total:
                Z[:, used] = 0
                break
        used += 1
    return used


@compiled(fastmath=REORDER)
def open_features(X, weights, A, used, Z, errors, first_rows, threshold, negligible, gain, cap):  # type: ignore[no-untyped-def]
    """Rows in order: one whose weighted error exceeds the threshold opens a feature, which later rows may take.

    X : IN (N, D)
    weights : IN (N,), or of length 0 when all rows weigh 1
    A : INOUT (R, K, D), float64, room for K features
    used : INOUT (R,), how many of them there are
    Z : INOUT (N, R, K), uint8
    errors : INOUT (N, R), squared errors; those of rows near the threshold are taken anew by differences
    first_rows : INOUT (R,), where to begin; N when done, else the row for which there was no room
    threshold, negligible, gain, cap : IN
    """
    (N, D), (R, K) = X.shape, A.shape[:2]
    residual = np.empty(D)
    for r in range(R):
        n = first_rows[r]
        while n < N:
            w = weights[n] if weights.size else 1.0
            # Rounding may have moved an error by a little: whoever is close is looked at again.
            if used[r] < cap and w * errors[n, r] > 0.999 * threshold and errors[n, r] > 0.0:
                error = take_residual(X[n], Z[n, r, : used[r]], A[r, : used[r]], residual)
                if w * error > threshold and error > negligible:
                    if used[r] == K:
                        break
                    give_feature(X, A[r], used[r], Z[:, r], errors[:, r], n + 1, residual, error, gain)
                    Z[n, r, used[r]] = 1
                    errors[n, r] = 0.0
                    used[r] += 1
            n += 1
        first_rows[r] = n
