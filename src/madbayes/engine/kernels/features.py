"""The pieces of feature algorithms: bits, least squares, new features, seeding.

A binary code z of a row x has the squared error |x|^2 - 2 b.z + zGz' with b = Ax and G = AA'. Flipping bit k changes it
by G_kk + 2 s_k g_k, where s_k is 1 for a bit that is off and -1 for one that is on, and g = Gz - b.

A run has room for more features than it uses: Z is (N, room), A is (room, D), and ``used`` says how many there are.
Weights are those of the rows, or of length 0 when all weigh 1.
"""

import numpy as np

from madbayes.engine.kernels.compiling import REORDER, compiled

# A column is dependent when its squared distance from the span of others is this share of its square.
DEPENDENT = 1e-10


@compiled(fastmath=REORDER)
def project(X, A, used, B):  # type: ignore[no-untyped-def]
    """B : OUT (n, room), products of rows and features; four rows at a time share what is read of a feature."""
    n_rows, D = X.shape
    whole = n_rows - n_rows % 4
    for n in range(0, whole, 4):
        for k in range(used):
            b0 = b1 = b2 = b3 = 0.0
            for d in range(D):
                a = A[k, d]
                b0 += X[n, d] * a
                b1 += X[n + 1, d] * a
                b2 += X[n + 2, d] * a
                b3 += X[n + 3, d] * a
            B[n, k] = b0
            B[n + 1, k] = b1
            B[n + 2, k] = b2
            B[n + 3, k] = b3
    for n in range(whole, n_rows):
        for k in range(used):
            b = 0.0
            for d in range(D):
                b += X[n, d] * A[k, d]
            B[n, k] = b


@compiled(fastmath=REORDER)
def sweep_bits(B, G, squares, Z, used, gain, errors):  # type: ignore[no-untyped-def]
    """One ordered sweep over the bits of every row; returns how many flipped.

    B : IN (n, room), b of each row
    G : IN (room, room)
    squares : IN (n,), |x|^2
    Z : INOUT (n, room), uint8
    gain : IN, a flip must lower the error by more than this share of G_kk
    errors : OUT (n,), squared error of each row
    """
    changed = 0
    g = np.empty(used, dtype=G.dtype)
    for n in range(len(B)):
        for k in range(used):
            g[k] = -B[n, k]
        for j in range(used):
            if Z[n, j]:
                for k in range(used):
                    g[k] += G[j, k]
        for k in range(used):
            sign = 1.0 - 2.0 * Z[n, k]
            if G[k, k] + 2.0 * sign * g[k] < -gain * G[k, k]:
                Z[n, k] = 1 - Z[n, k]
                changed += 1
                for j in range(used):
                    g[j] += sign * G[k, j]
        error = squares[n]
        for k in range(used):
            if Z[n, k]:
                error += g[k] - B[n, k]
        errors[n] = error
    return changed


@compiled()
def count_pairs(Z, weights, used, pairs, weighted):  # type: ignore[no-untyped-def]
    """Z'Z, exactly, and Z'WZ.

    Z : IN (n, room), uint8
    pairs, weighted : OUT (used, used), float64; weighted is not touched without weights
    """
    on = np.empty(used, dtype=np.int64)
    for i in range(used):
        for j in range(used):
            pairs[i, j] = 0.0
            if weights.size:
                weighted[i, j] = 0.0
    for n in range(len(Z)):
        count = 0
        for k in range(used):
            if Z[n, k]:
                on[count] = k
                count += 1
        for i in range(count):
            for j in range(i + 1):
                pairs[on[i], on[j]] += 1.0
                if weights.size:
                    weighted[on[i], on[j]] += weights[n]
    for i in range(used):
        for j in range(i):
            pairs[j, i] = pairs[i, j]
            if weights.size:
                weighted[j, i] = weighted[i, j]


@compiled(fastmath=REORDER)
def sum_rows(X, weights, Z, used, sums):  # type: ignore[no-untyped-def]
    """sums : OUT (room, D), float64, Z'WX."""
    D = X.shape[1]
    for k in range(used):
        for d in range(D):
            sums[k, d] = 0.0
    for n in range(len(X)):
        w = weights[n] if weights.size else 1.0
        for k in range(used):
            if Z[n, k]:
                for d in range(D):
                    sums[k, d] += w * X[n, d]


@compiled(fastmath=REORDER)
def invert(M, P, used, least):  # type: ignore[no-untyped-def]
    """P : OUT (room, room), inverse of a positive matrix M, by pivots on the diagonal.

    Returns whether there is one: whether no pivot is a tiny share of what stood there, or less than this.
    """
    for k in range(used):
        for j in range(used):
            P[k, j] = M[k, j]
    for k in range(used):
        if not P[k, k] > max(DEPENDENT * M[k, k], least):
            return False
        pivot = 1.0 / P[k, k]
        for i in range(used):
            if i != k:
                f = P[i, k] * pivot
                for j in range(used):
                    P[i, j] -= f * P[k, j]
                P[i, k] = -f
        for j in range(used):
            P[k, j] *= pivot
        P[k, k] = pivot
    return True


@compiled(fastmath=REORDER)
def eliminate(gram, A, used, independent):  # type: ignore[no-untyped-def]
    """Least squares by elimination in the order of the columns; dependent ones are left out.

    gram : INOUT (room, room), float64, destroyed
    A : INOUT (room, D), float64: Z'WX before; features after, zero for combinations of earlier columns
    independent : OUT (room,), which columns are not such
    """
    D = A.shape[1]
    for k in range(used):
        # The pivot is the squared distance of column k to the span of the columns before it. Its own square
        # is put together again from the entries left of the diagonal, which elimination does not change.
        pivot = size = gram[k, k]
        for j in range(k):
            if independent[j]:
                size += gram[k, j] * gram[k, j] / gram[j, j]
        independent[k] = pivot > DEPENDENT * size
        if not independent[k]:
            for d in range(D):
                A[k, d] = 0.0
            continue
        for i in range(k + 1, used):
            factor = gram[i, k] / pivot
            for j in range(k + 1, used):
                gram[i, j] -= factor * gram[k, j]
            for d in range(D):
                A[i, d] -= factor * A[k, d]
    for k in range(used - 1, -1, -1):
        if independent[k]:
            for j in range(k + 1, used):
                if independent[j]:
                    for d in range(D):
                        A[k, d] -= gram[k, j] * A[j, d]
            for d in range(D):
                A[k, d] /= gram[k, k]


@compiled(fastmath=REORDER)
def solve(pairs, weighted, has_weights, sums, A, used, independent):  # type: ignore[no-untyped-def]
    """Least-squares features; returns by how much they lower the squared error below that of no feature.

    pairs, weighted : INOUT (room, room), Z'Z and Z'WZ, destroyed
    sums : IN (room, D), Z'WX
    A : OUT (room, D); independent : OUT (room,), as in :func:`eliminate`
    """
    D = A.shape[1]
    for k in range(used):
        for d in range(D):
            A[k, d] = sums[k, d]
    eliminate(pairs, A, used, independent)
    if has_weights:  # what is redundant does not depend on weights
        for k in range(used):
            for d in range(D):
                A[k, d] = sums[k, d]
            for j in range(used):
                if not (independent[j] and independent[k]):
                    weighted[j, k] = 0.0
        eliminate(weighted, A, used, independent)
    explained = 0.0
    for k in range(used):
        for d in range(D):
            explained += sums[k, d] * A[k, d]
    return explained


@compiled()
def drop_dependent(Z, A, used, independent):  # type: ignore[no-untyped-def]
    """Only the independent features, in their order. Z, A : INOUT; returns how many there are."""
    kept = 0
    for k in range(used):
        if independent[k]:
            if kept < k:
                for n in range(len(Z)):
                    Z[n, kept] = Z[n, k]
                for d in range(A.shape[1]):
                    A[kept, d] = A[k, d]
            kept += 1
    return kept


@compiled(fastmath=REORDER)
def take_residual(x, z, A, used, residual):  # type: ignore[no-untyped-def]
    """residual : OUT (D,), x - zA by differences. Returns its square."""
    square = 0.0
    for d in range(len(x)):
        residual[d] = x[d]
    for k in range(used):
        if z[k]:
            for d in range(len(x)):
                residual[d] -= A[k, d]
    for d in range(len(x)):
        square += residual[d] * residual[d]
    return square


@compiled()
def row_errors(X, Z, A, used, errors):  # type: ignore[no-untyped-def]
    """errors : OUT (n,), squared errors of the rows, by differences."""
    residual = np.empty(X.shape[1])
    for n in range(len(X)):
        errors[n] = take_residual(X[n], Z[n], A, used, residual)


@compiled(inline="always")
def weighted_sum(errors, weights):  # type: ignore[no-untyped-def]
    """Sum over rows, each times its weight."""
    total = 0.0
    for n in range(len(errors)):
        total += weights[n] * errors[n] if weights.size else errors[n]
    return total


@compiled()
def largest(errors):  # type: ignore[no-untyped-def]
    """The largest of some squared errors."""
    most = 0.0
    for n in range(len(errors)):
        most = max(most, errors[n])
    return most


@compiled(fastmath=REORDER)
def give_feature(X, A, k, Z, errors, first, residual, square, gain):  # type: ignore[no-untyped-def]
    """Make a residual feature k, and set the bit of every row from the first on that gains by it.

    residual : IN (D,); square : IN, its square
    A : INOUT (room, D); Z : INOUT (N, room), uint8; errors : INOUT (N,), squared errors
    """
    D = X.shape[1]
    overlaps = np.zeros(k)
    for j in range(k):
        for d in range(D):
            overlaps[j] += A[j, d] * residual[d]
    for d in range(D):
        A[k, d] = residual[d]
    for m in range(first):
        Z[m, k] = 0
    for m in range(first, len(X)):
        dot = 0.0
        for d in range(D):
            dot += X[m, d] * residual[d]
        for j in range(k):
            if Z[m, j]:
                dot -= overlaps[j]
        change = square - 2.0 * dot
        Z[m, k] = change < -gain * square
        if Z[m, k]:
            errors[m] = max(errors[m] + change, 0.0)


@compiled(inline="always")
def seed_run(X, weights, base_errors, uniforms, penalty, negligible, A, Z, errors):  # type: ignore[no-untyped-def]
    """++ seeding of one run: the base feature, then residuals of rows drawn by their weighted error.

    base_errors : IN (N,), squared errors about the base feature, which stands in A[0]
    uniforms : IN (room,), one number for each draw
    penalty : IN, a feature must lower the weighted error by more than this; negative for "add all there is room for"
    negligible : IN, squared errors up to this are rounding
    A : INOUT (room, D), float64; Z : OUT (N, room), uint8; errors : scratch (N,)

    Returns the number of features; the room is exhausted if it is that many.
    """
    N, room = Z.shape
    residual = np.empty(X.shape[1])
    for n in range(N):
        Z[n, 0] = 1
        errors[n] = base_errors[n]
    used, all_rows = np.int64(1), np.int64(0)  # literals would be compiled apart
    while used < room:
        if largest(errors) <= 1e10 * negligible:  # updated errors are only good to rounding of the rows' squares
            row_errors(X, Z, A, used, errors)
            if largest(errors) <= negligible:
                break
        total = weighted_sum(errors, weights)
        target, drawn, cumulative = uniforms[used - 1] * total, N - 1, 0.0
        for n in range(N):
            cumulative += weights[n] * errors[n] if weights.size else errors[n]
            if cumulative > target:
                drawn = n
                break
        square = take_residual(X[drawn], Z[drawn], A, used, residual)
        give_feature(X, A, used, Z, errors, all_rows, residual, square, 0.0)
        errors[drawn] = 0.0
        if penalty >= 0.0 and not weighted_sum(errors, weights) + penalty < total:
            break
        used += 1
    return used


@compiled()
def seed_runs(X, weights, base_errors, uniforms, penalty, negligible, A, Z, used):  # type: ignore[no-untyped-def]
    """:func:`seed_run` for each of R runs: uniforms (R, room), A (R, room, D), Z (R, N, room); used : OUT (R,)."""
    errors = np.empty(len(X))
    for r in range(len(used)):
        used[r] = seed_run(X, weights, base_errors, uniforms[r], penalty, negligible, A[r], Z[r], errors)


@compiled(fastmath=REORDER)
def square_features(A, used, G):  # type: ignore[no-untyped-def]
    """G : OUT (room, room), AA'."""
    for i in range(used):
        for j in range(i + 1):
            dot = 0.0
            for d in range(A.shape[1]):
                dot += A[i, d] * A[j, d]
            G[i, j] = dot
            G[j, i] = dot
