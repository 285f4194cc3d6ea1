"""Collapsed BP-means by rank-one algebra."""

import numpy as np

from madbayes.engine.kernels.compiling import REORDER, compiled


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
