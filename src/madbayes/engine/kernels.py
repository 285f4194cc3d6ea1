"""Compiled loops over blocks of rows. They hold no lock, call no library, and import nothing of this package.

Arguments are marked IN, OUT or INOUT; buffers belong to the caller. A binary code z of a row x has the squared error
|x|^2 - 2 b.z + zGz' with b = Ax and G = AA'. Flipping bit k changes it by G_kk + 2 s_k g_k, where s_k is 1 for a bit
that is off and -1 for one that is on, and g = Gz - b.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit


def compiled(**options: Any) -> Callable:
    """Numba's njit, cached on disk where that is possible."""

    def decorate(function: Callable) -> Callable:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # no folder to write the cache to: compile anew in each process
            return njit(nogil=True, **options)(function)

    return decorate


# Sums may be reordered for the sake of vector instructions: the same machine code gives the same bits.
REORDER = {"reassoc", "contract", "nsz"}


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


@compiled(fastmath=REORDER)
def squared_distance(x, y):  # type: ignore[no-untyped-def]
    """Sum of squared differences, in double precision."""
    total = 0.0
    for d in range(len(x)):
        difference = np.float64(x[d]) - np.float64(y[d])
        total += difference * difference
    return total


@compiled(fastmath=REORDER)
def nearest_rows(X, products, centre_squares, row_squares, A, doubt, labels, distances):  # type: ignore[no-untyped-def]
    """Nearest of K centres for each row, from products; by differences where rounding leaves a doubt.

    X : IN (n, D), and A : IN (K, D), as they are
    products : IN (n, K), of rows and centres, both less a common origin
    centre_squares, row_squares : IN (K,) and (n,), about that origin
    doubt : IN, share of the squares below which two distances are taken anew
    labels : INOUT (n,); a label stays where it is as near as any, -1 for none
    distances : OUT (n,), float64, squared, by differences
    """
    n_rows, K = products.shape
    for n in range(n_rows):
        least, best = np.inf, -1
        for k in range(K):
            score = centre_squares[k] - 2.0 * products[n, k]
            if score < least:
                least, best = score, k
        limit = least + doubt * (row_squares[n] + np.abs(least))
        close = 0
        for k in range(K):
            if centre_squares[k] - 2.0 * products[n, k] <= limit:
                close += 1
        distance = squared_distance(X[n], A[best])
        if close > 1:
            best, distance = -1, np.inf
            for k in range(K):
                if centre_squares[k] - 2.0 * products[n, k] <= limit:
                    d = squared_distance(X[n], A[k])
                    if d < distance or (d == distance and k == labels[n]):
                        best, distance = k, d
        labels[n] = best
        distances[n] = distance


@compiled()
def add_rows(X, weights, labels, sums, sizes, counts):  # type: ignore[no-untyped-def]
    """Sums, weights and numbers of the rows of each cluster.

    X : IN (n, D)
    weights : IN (n,), or of length 0 when all rows weigh 1
    labels : IN (n,)
    sums : INOUT (K, D), float64; sizes : INOUT (K,), float64; counts : INOUT (K,), int64; all added to
    """
    for n in range(len(X)):
        k = labels[n]
        w = weights[n] if weights.size else 1.0
        for d in range(X.shape[1]):
            sums[k, d] += w * X[n, d]
        sizes[k] += w
        counts[k] += 1


@compiled()
def open_clusters(X, weights, rows, labels, distances, threshold, negligible, centres, used, first_label):  # type: ignore[no-untyped-def]
    """Rows of a chunk in order: one that is too far from all centres opens a cluster on itself.

    X : IN (N, D); rows : IN (n,), the chunk
    weights : IN (N,), or of length 0 when all rows weigh 1
    labels, distances : INOUT (n,), to the nearest centre so far
    threshold, negligible : IN
    centres : OUT (room,), rows that opened a cluster; used : IN, how many there are already
    first_label : IN, label of the first of them

    Returns how many there are now, which is at most the room.
    """
    for i in range(len(rows)):
        n = rows[i]
        w = weights[n] if weights.size else 1.0
        if used < len(centres) and w * distances[i] > threshold and distances[i] > negligible:
            centres[used] = n
            label = first_label + used
            used += 1
            labels[i] = label
            distances[i] = 0.0
            for j in range(i + 1, len(rows)):
                d = squared_distance(X[rows[j]], X[n])
                if d < distances[j]:
                    distances[j] = d
                    labels[j] = label
    return used


@compiled(fastmath=REORDER)
def collapsed_clusters(X, weights, order, labels, A, sizes, counts, used, penalty, negligible, gain, cap):  # type: ignore[no-untyped-def]
    """Collapsed DP-means: each row in order moves to where the objective is least, the means following at once.

    X : IN (N, D); order : IN (N,)
    weights : IN (N,)
    labels : INOUT (N,)
    A : INOUT (room, D); sizes : INOUT (room,), weights; counts : INOUT (room,), rows
    used : IN, clusters there are, empty ones included
    penalty, negligible, gain, cap : IN

    Returns how many clusters there are and how many rows moved. There must be room for N more clusters.
    """
    D = X.shape[1]
    moved = 0
    occupied = 0
    for k in range(used):
        if counts[k] > 0:
            occupied += 1
    for n in order:
        w, old = weights[n], labels[n]
        counts[old] -= 1
        alone = counts[old] == 0
        if alone:
            sizes[old] = 0.0
            occupied -= 1
        else:
            sizes[old] -= w
            for d in range(D):
                A[old, d] -= w / sizes[old] * (X[n, d] - A[old, d])
        least, best, now = np.inf, -1, np.inf
        for k in range(used):
            if counts[k] > 0:
                cost = sizes[k] * w / (sizes[k] + w) * squared_distance(X[n], A[k])
                if k == old:
                    now = cost
                if cost < least:
                    least, best = cost, k
        if alone:
            now = penalty
        opens = occupied < cap and least > penalty and least > w * negligible
        new = old
        if (penalty if opens else least) < (1.0 - gain) * now:
            new = used if opens else best
            moved += 1
        if new == used:
            used += 1
            sizes[new] = 0.0
            counts[new] = 0
            for d in range(D):
                A[new, d] = X[n, d]
        if counts[new] == 0:
            occupied += 1
        counts[new] += 1
        sizes[new] += w
        labels[n] = new
        for d in range(D):
            A[new, d] += w / sizes[new] * (X[n, d] - A[new, d])
    return used, moved


@compiled(fastmath=REORDER)
def collapsed_rows(X, weights, Z, A, P, first, penalty, threshold, negligible, gain, joint_limit, full):  # type: ignore[no-untyped-def]
    """Collapsed BP-means, row by row, until something happens that changes which features there are.

    With P = (Z'WZ)^-1, h = zPz' and r = x - zA, taking row n out gives P + w Pz'zP / (1 - wh) and
    A - w Pz'r / (1 - wh); a code y then costs w |x - yA|^2 / (1 + w yPy'). If wh = 1 the other rows do not determine
    all features: codes with y.Pz' = 0 are compared with one feature left out, all others fit the row exactly.

    X : IN (N, D); weights : IN (N,)
    Z : INOUT (N, K), uint8
    A : INOUT (K, D); P : INOUT (K, K); float64, follow every change
    first : IN, the row to begin with
    penalty, threshold, negligible, gain : IN
    joint_limit : IN, up to this many features all codes are compared, above it one bit after the other
    full : IN, whether no feature may be added

    Returns the row it stopped at (N if none), whether that row wants a feature of its own, and how many rows changed.
    Where it stopped, A and P are those before the row, Z is that after it.
    """
    (N, D), K = X.shape, len(A)
    v, u, g, q = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    y, best_code, old = np.empty(K, np.uint8), np.empty(K, np.uint8), np.empty(K, np.uint8)
    r = np.empty(D)
    A0, P0, G = np.empty((K, D)), np.empty((K, K)), np.empty((K, K))
    changed = 0
    for n in range(first, N):
        w = weights[n]
        old[:] = Z[n]
        for k in range(K):
            v[k] = 0.0
            for j in range(K):
                if old[j]:
                    v[k] += P[k, j]
        h = 0.0
        for k in range(K):
            if old[k]:
                h += v[k]
        singular = 1.0 - w * h < 1e-9
        left_out = -1
        A0[:] = A
        P0[:] = P
        if singular:
            left_out = int(np.argmax(np.abs(v)))
            _leave_out(A0, P0, left_out)
            for k in range(K):
                u[k] = 0.0
                for j in range(K):
                    if old[j] and j != left_out:
                        u[k] += P0[k, j]
            h = 0.0
            for k in range(K):
                if old[k] and k != left_out:
                    h += u[k]
        else:
            u[:] = v
        # Take the row out.
        for d in range(D):
            r[d] = X[n, d]
        for k in range(K):
            if old[k] and k != left_out:
                for d in range(D):
                    r[d] -= A0[k, d]
        shrink = w / (1.0 - w * h)
        for k in range(K):
            for d in range(D):
                A0[k, d] -= shrink * u[k] * r[d]
            for j in range(K):
                P0[k, j] += shrink * u[k] * u[j]
        # Where every code starts from: residual and leverage of the old one.
        error, leverage = 0.0, 0.0
        for d in range(D):
            r[d] = X[n, d]
        for k in range(K):
            if old[k]:
                for d in range(D):
                    r[d] -= A0[k, d]
        for d in range(D):
            error += r[d] * r[d]
        for k in range(K):
            g[k], q[k] = 0.0, 0.0
            for d in range(D):
                g[k] -= A0[k, d] * r[d]
            for j in range(K):
                G[k, j] = 0.0
                for d in range(D):
                    G[k, j] += A0[k, d] * A0[j, d]
                if old[j]:
                    q[k] += P0[k, j]
        for k in range(K):
            if old[k]:
                leverage += q[k]
        outside = 0.0
        if singular:
            for k in range(K):
                if old[k]:
                    outside += v[k]
        cost = penalty if np.abs(outside) > 1e-6 else w * error / (1.0 + w * leverage)
        now = cost
        least = cost
        best_code[:] = old
        y[:] = old
        steps = (1 << K) - 1 if joint_limit >= K else K
        for i in range(1, steps + 1):
            # A Gray code flips one bit at a time; above the limit, bit after bit, taken back where it does not help.
            k = i - 1
            if joint_limit >= K:
                k = 0
                while not (i >> k) & 1:
                    k += 1
            sign = 1.0 - 2.0 * y[k]
            error += G[k, k] + 2.0 * sign * g[k]
            leverage += P0[k, k] + 2.0 * sign * q[k]
            outside += sign * v[k]
            y[k] = 1 - y[k]
            for j in range(K):
                g[j] += sign * G[k, j]
                q[j] += sign * P0[k, j]
            cost = penalty if singular and np.abs(outside) > 1e-6 else w * error / (1.0 + w * leverage)
            if cost < (1.0 - gain) * least:
                least = cost
                best_code[:] = y
            elif joint_limit < K:
                error -= G[k, k] + 2.0 * sign * (g[k] - sign * G[k, k])
                leverage -= P0[k, k] + 2.0 * sign * (q[k] - sign * P0[k, k])
                outside -= sign * v[k]
                y[k] = 1 - y[k]
                for j in range(K):
                    g[j] -= sign * G[k, j]
                    q[j] -= sign * P0[k, j]
        wants = not full and least > threshold and least > w * negligible
        moved = least < (1.0 - gain) * now
        if moved:
            Z[n] = best_code
            changed += 1
        if wants or (moved and singular):
            return n, wants, changed
        if moved:
            _put_in(X[n], w, best_code, A0, P0, r, u)
            A[:] = A0
            P[:] = P0
    return N, False, changed


@compiled(fastmath=REORDER)
def _leave_out(A, P, j):  # type: ignore[no-untyped-def]
    """Least squares without feature j: A : INOUT (K, D), P : INOUT (K, K); row and column j become zero."""
    K = len(A)
    for k in range(K):
        if k != j:
            factor = P[k, j] / P[j, j]
            for d in range(A.shape[1]):
                A[k, d] -= factor * A[j, d]
            for i in range(K):
                if i != j:
                    P[k, i] -= factor * P[j, i]
    A[j] = 0.0
    P[j] = 0.0
    P[:, j] = 0.0


@compiled(fastmath=REORDER)
def _put_in(x, w, z, A, P, r, u):  # type: ignore[no-untyped-def]
    """Add a row with the code z: A : INOUT (K, D), P : INOUT (K, K); r (D,) and u (K,) are scratch."""
    K, D = A.shape
    h = 0.0
    for d in range(D):
        r[d] = x[d]
    for k in range(K):
        u[k] = 0.0
        for j in range(K):
            if z[j]:
                u[k] += P[k, j]
        if z[k]:
            for d in range(D):
                r[d] -= A[k, d]
    for k in range(K):
        if z[k]:
            h += u[k]
    shrink = w / (1.0 + w * h)
    for k in range(K):
        for d in range(D):
            A[k, d] += shrink * u[k] * r[d]
        for j in range(K):
            P[k, j] -= shrink * u[k] * u[j]


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
    residual = np.empty(D)
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
        error, other = take_residual(x, first, A, residual), take_residual(x, second, A, residual)
        if other < error - _doubt(size, error):
            first[:] = second
            error = other
        _branch_and_bound(x, Q, R, offset, first, node_limit, size)
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
    error = take_residual(x, z, A, residual)
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
        lower = take_residual(x, z, A, residual)
        if not lower < error - _doubt(size, error):
            z[i] = 1 - z[i]
            if i != j:
                z[j] = 1 - z[j]
            break
        error = lower


@compiled()
def _branch_and_bound(x, Q, R, offset, code, node_limit, size):  # type: ignore[no-untyped-def]
    """Replace the code by a better one, if there is one: bits from the last to the first, the nearer value first."""
    D, K = Q.shape
    y, rest, partial = offset.copy(), np.empty(K), np.zeros(K + 1)
    z, nearer, tried = np.zeros(K, np.uint8), np.zeros(K, np.uint8), np.zeros(K, np.int64)
    for k in range(K):
        for d in range(D):
            y[k] += Q[d, k] * x[d]
    best = 0.0
    for i in range(K):
        c = y[i]
        for j in range(i, K):
            if code[j]:
                c -= R[i, j]
        best += c * c
    best -= _doubt(size, best)
    level, nodes = K - 1, 0
    while level < K:
        if tried[level] == 2 or nodes > node_limit:
            level += 1
            continue
        if tried[level] == 0:
            rest[level] = y[level]
            for j in range(level + 1, K):
                if z[j]:
                    rest[level] -= R[level, j]
            nearer[level] = abs(rest[level] - R[level, level]) < abs(rest[level])
        bit = nearer[level] if tried[level] == 0 else 1 - nearer[level]
        tried[level] += 1
        nodes += 1
        c = rest[level] - (R[level, level] if bit else 0.0)
        error = partial[level + 1] + c * c
        if error >= best:
            tried[level] = 2  # the other value is farther still
            continue
        z[level], partial[level] = bit, error
        if level == 0:
            best = error
            code[:] = z
        else:
            level -= 1
            tried[level] = 0
