"""Collapsed BP-means by rank-one algebra.

With P = (Z'WZ)^-1, h = zPz' and r = x - zA, taking row x out of least squares gives P + w Pz'zP / (1 - wh) and
A - w Pz'r / (1 - wh); a code y of the row then adds w |x - yA|^2 / (1 + w yPy') to the squared error. If wh = 1 the
other rows do not determine all features: codes with w y.Pz' = 0 are compared with one feature left out, all others fit
the row exactly, at the price of a feature.

Codes are looked at from the old one: with s_k = 1 for a bit that is off and -1 for one that is on, flipping the bits T
changes a quadratic form with matrix M and half gradient g by the sum over k in T of M_kk + 2 s_k g_k, plus the sum over
pairs in T of 2 s_j s_k M_jk.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.kernels.compiling import REORDER, compiled
from madbayes.engine.kernels.features import (
    count_pairs,
    drop_dependent,
    eliminate,
    row_errors,
    square_features,
    sum_rows,
    weighted_sum,
)

# Changes by flips of this many bits stand in a table; the other bits follow a Gray code.
LOW = 5
# Above this, w y.Pz' is not zero.
OUTSIDE = 1e-6


class Fit(NamedTuple):
    """Least squares, and what belongs to it."""

    A: NDArray  # (room, D), features
    P: NDArray  # (room, room), inverse of Z'WZ
    G: NDArray  # (room, room), AA'


class View(NamedTuple):
    """A row taken out: least squares of the others, seen from the row's old code z."""

    fit: Fit  # of the others; A is only kept up where a feature is left out
    r: NDArray  # (D,), x - zA, with the row still in
    v: NDArray  # (room,), Pz', with the row still in
    g: NDArray  # (room,), half the gradient of |x - zA|^2
    q: NDArray  # (room,), half the gradient of zPz'


class Tables(NamedTuple):
    """Squared errors and leverages of codes that differ in their low bits, and what further flips change in them."""

    errors: NDArray  # (2^LOW,)
    leverages: NDArray  # (2^LOW,)
    error_changes: NDArray  # (bits above LOW, 2^LOW)
    leverage_changes: NDArray  # (bits above LOW, 2^LOW)


@compiled(inline="always")
def set_up(X, weights, Z, used, fit, pairs, weighted, independent):  # type: ignore[no-untyped-def]
    """fit : OUT, least squares of all rows. The last three are scratch; no column may be redundant."""
    count_pairs(Z, weights, used, pairs, weighted)
    for k in range(used):
        for j in range(used):
            if weights.size:
                pairs[k, j] = weighted[k, j]
            else:
                weighted[k, j] = pairs[k, j]
            fit.P[k, j] = 1.0 if j == k else 0.0
    sum_rows(X, weights, Z, used, fit.A)
    eliminate(pairs, fit.A, used, independent)
    eliminate(weighted, fit.P, used, independent)
    square_features(fit.A, used, fit.G)


@compiled(fastmath=REORDER)
def take_out(w, h, used, fit, view):  # type: ignore[no-untyped-def]
    """Least squares without a row that the others can spare: view : INOUT, r and v given. Returns error and leverage.

    A itself is not needed: with a = Ar, AA' changes by rank two.
    """
    A, r, v, D = fit.A, view.r, view.v, fit.A.shape[1]
    shrink, square = w / (1.0 - w * h), 0.0
    for d in range(D):
        square += r[d] * r[d]
    a = view.q
    for k in range(used):
        a[k] = 0.0
        for d in range(D):
            a[k] += A[k, d] * r[d]
    for k in range(used):
        for j in range(used):
            view.fit.P[k, j] = fit.P[k, j] + shrink * v[k] * v[j]
            change = shrink * square * v[k] * v[j] - v[k] * a[j] - a[k] * v[j]
            view.fit.G[k, j] = fit.G[k, j] + shrink * change
    for k in range(used):
        view.g[k] = (shrink * square * v[k] - a[k]) / (1.0 - w * h)
        view.q[k] = v[k] / (1.0 - w * h)
    return square / (1.0 - w * h) ** 2, h / (1.0 - w * h)


@compiled(fastmath=REORDER)
def leave_out(A, P, used, j):  # type: ignore[no-untyped-def]
    """Least squares without feature j: A : INOUT (room, D), P : INOUT (room, room); row and column j become zero."""
    for k in range(used):
        if k != j:
            factor = P[k, j] / P[j, j]
            for d in range(A.shape[1]):
                A[k, d] -= factor * A[j, d]
            for i in range(used):
                if i != j:
                    P[k, i] -= factor * P[j, i]
    for d in range(A.shape[1]):
        A[j, d] = 0.0
    for k in range(used):
        P[k, j] = 0.0
        P[j, k] = 0.0


@compiled(fastmath=REORDER)
def look_from(x, z, used, view):  # type: ignore[no-untyped-def]
    """Residual and half gradients at the code z: view : INOUT, fit given. Returns error and leverage."""
    A, P, D = view.fit.A, view.fit.P, view.fit.A.shape[1]
    error, leverage = 0.0, 0.0
    for d in range(D):
        view.r[d] = x[d]
    for k in range(used):
        if z[k]:
            for d in range(D):
                view.r[d] -= A[k, d]
    for d in range(D):
        error += view.r[d] * view.r[d]
    for k in range(used):
        view.g[k] = view.q[k] = 0.0
        for d in range(D):
            view.g[k] -= A[k, d] * view.r[d]
        for j in range(used):
            if z[j]:
                view.q[k] += P[k, j]
        if z[k]:
            leverage += view.q[k]
    return error, leverage


@compiled(fastmath=REORDER, inline="always")
def take_out_last(x, w, z, used, fit, view):  # type: ignore[no-untyped-def]
    """Least squares without a row that alone determines a feature, which is left out. As :func:`take_out`."""
    A, P, D = view.fit.A, view.fit.P, view.fit.A.shape[1]
    j = 0
    for k in range(used):
        if np.abs(view.v[k]) > np.abs(view.v[j]):
            j = k
        for d in range(D):
            A[k, d] = fit.A[k, d]
        for i in range(used):
            P[k, i] = fit.P[k, i]
    leave_out(A, P, used, j)
    _, leverage = look_from(x, z, used, view)
    shrink = w / (1.0 - w * leverage)
    for k in range(used):
        for d in range(D):
            A[k, d] -= shrink * view.q[k] * view.r[d]
        for i in range(used):
            P[k, i] += shrink * view.q[k] * view.q[i]
    square_features(A, used, view.fit.G)
    return look_from(x, z, used, view)


@compiled(fastmath=REORDER)
def put_in(x, w, h, z, used, fit, view):  # type: ignore[no-untyped-def]
    """Least squares with a row put back that :func:`take_out` had taken, its code now z. fit : INOUT.

    AA' changes by rank two, as there.
    """
    A, P, r, v, a, D = fit.A, view.fit.P, view.r, view.v, view.q, fit.A.shape[1]
    shrink, leverage, square = w / (1.0 - w * h), 0.0, 0.0
    for k in range(used):
        for d in range(D):
            A[k, d] -= shrink * v[k] * r[d]
    for d in range(D):
        r[d] = x[d]
    for k in range(used):
        v[k] = 0.0
        for j in range(used):
            if z[j]:
                v[k] += P[k, j]
        if z[k]:
            leverage += v[k]
            for d in range(D):
                r[d] -= A[k, d]
    for d in range(D):
        square += r[d] * r[d]
    shrink = w / (1.0 + w * leverage)
    for k in range(used):
        a[k] = 0.0
        for d in range(D):
            a[k] += A[k, d] * r[d]
        for d in range(D):  # by itself: both loops together take twice as long
            A[k, d] += shrink * v[k] * r[d]
    for k in range(used):
        for j in range(used):
            fit.P[k, j] = P[k, j] - shrink * v[k] * v[j]
            change = shrink * square * v[k] * v[j] + v[k] * a[j] + a[k] * v[j]
            fit.G[k, j] = view.fit.G[k, j] + shrink * change


@compiled()
def change(M, g, z, k):  # type: ignore[no-untyped-def]
    """What flipping bit k alone changes in the form with matrix M."""
    return M[k, k] + 2.0 * (1.0 - 2.0 * z[k]) * g[k]


@compiled()
def interaction(M, z, j, k):  # type: ignore[no-untyped-def]
    """What flipping bits j and k together changes in the form with matrix M, beyond what each does alone."""
    return 2.0 * (1.0 - 2.0 * z[j]) * (1.0 - 2.0 * z[k]) * M[j, k]


@compiled()
def tabulate(M, z, k, bits, first, table):  # type: ignore[no-untyped-def]
    """table : OUT (2^bits,), what flipping bit k changes beside any flips of the first bits; ``first`` without any."""
    table[0] = first
    for j in range(bits):
        lower, upper, more = table[: 1 << j], table[1 << j : 2 << j], interaction(M, z, j, k)
        for t in range(1 << j):
            upper[t] = lower[t] + more


@compiled()
def is_outside(v, w, z, flips, used):  # type: ignore[no-untyped-def]
    """Whether the code that differs from z by these flips is none that the other rows determine."""
    total = 0.0
    for k in range(used):
        if z[k] ^ ((flips >> k) & 1):
            total += v[k]
    return np.abs(w * total) > OUTSIDE


@compiled(fastmath=REORDER)
def compare_all(view, w, z, used, singular, error, leverage, least, gain, tables, code):  # type: ignore[no-untyped-def]
    """The cheapest of all codes: code : OUT, if its cost is less than ``least``. Returns that cost.

    error, leverage : IN, of the code z
    """
    G, P, low = view.fit.G, view.fit.P, min(used, LOW)
    errors, leverages, size = tables.errors, tables.leverages, 1 << low
    errors[0], leverages[0] = error, leverage
    for k in range(low):
        half = 1 << k
        tabulate(G, z, k, k, change(G, view.g, z, k), tables.error_changes[0])
        tabulate(P, z, k, k, change(P, view.q, z, k), tables.leverage_changes[0])
        more_errors, more_leverages = errors[half:], leverages[half:]
        for t in range(half):
            more_errors[t] = errors[t] + tables.error_changes[0, t]
            more_leverages[t] = leverages[t] + tables.leverage_changes[0, t]
    for k in range(low, used):
        tabulate(G, z, k, low, change(G, view.g, z, k), tables.error_changes[k - low])
        tabulate(P, z, k, low, change(P, view.q, z, k), tables.leverage_changes[k - low])
    best = high = 0
    for i in range(1 << (used - low)):
        if i > 0:
            b = 0
            while not (i >> b) & 1:
                b += 1
            high ^= 1 << b
            step = 1.0 if (high >> b) & 1 else -1.0
            more_error = more_leverage = 0.0
            for j in range(used - low):
                if j != b and (high >> j) & 1:
                    more_error += interaction(G, z, low + j, low + b)
                    more_leverage += interaction(P, z, low + j, low + b)
            for t in range(size):
                errors[t] += step * (tables.error_changes[b, t] + more_error)
                leverages[t] += step * (tables.leverage_changes[b, t] + more_leverage)
        candidates = 0
        for t in range(size):
            candidates += w * errors[t] < (1.0 - gain) * least * (1.0 + w * leverages[t])
        for t in range(size if candidates else 0):
            cost = w * errors[t] / (1.0 + w * leverages[t])
            flips = (high << low) + t
            if cost < (1.0 - gain) * least and not (singular and is_outside(view.v, w, z, flips, used)):
                least, best = cost, flips
    for k in range(used):
        code[k] = z[k] ^ ((best >> k) & 1)
    return least


@compiled(fastmath=REORDER)
def flip(k, used, code, view):  # type: ignore[no-untyped-def]
    """Flip bit k; the half gradients follow. code, view : INOUT."""
    sign = 1.0 - 2.0 * code[k]
    code[k] = 1 - code[k]
    for j in range(used):
        view.g[j] += sign * view.fit.G[k, j]
        view.q[j] += sign * view.fit.P[k, j]


@compiled(fastmath=REORDER)
def compare_bits(view, w, z, used, singular, error, leverage, least, gain, code):  # type: ignore[no-untyped-def]
    """One bit after the other set to its cheaper value. As :func:`compare_all`; g and q of the view follow."""
    outside = 0.0
    for k in range(used):
        code[k] = z[k]
        outside += view.v[k] * z[k]
    for k in range(used):
        new_outside = outside + (1.0 - 2.0 * code[k]) * view.v[k]
        new_error = error + change(view.fit.G, view.g, code, k)
        new_leverage = leverage + change(view.fit.P, view.q, code, k)
        cost = w * new_error / (1.0 + w * new_leverage)
        is_determined = not singular or np.abs(w * new_outside) <= OUTSIDE
        if is_determined and cost < (1.0 - gain) * least:
            flip(k, used, code, view)
            error, leverage, least, outside = new_error, new_leverage, cost, new_outside
    return least


@compiled(fastmath=REORDER)
def stand(x, w, z, used, fit, view):  # type: ignore[no-untyped-def]
    """Where a row stands: view.r and view.v : OUT. Returns its leverage h."""
    h = 0.0
    for d in range(len(x)):
        view.r[d] = x[d]
    for k in range(used):
        view.v[k] = 0.0
        for j in range(used):
            if z[j]:
                view.v[k] += fit.P[k, j]
        if z[k]:
            h += view.v[k]
            for d in range(len(x)):
                view.r[d] -= fit.A[k, d]
    return h


@compiled(inline="always")
def collapsed_sweep(X, weights, Z, used, limits, joint_limit, fit, view, tables, code, pairs, weighted, independent):  # type: ignore[no-untyped-def]
    """All rows in order, each to its cheapest code; features come and go. Z, fit : INOUT; what follows is scratch.

    Returns how many features there are, and how many rows changed, -1 if there was no room.
    """
    changed, (N, room) = 0, Z.shape
    for n in range(N):
        x, z, w = X[n], Z[n], weights[n] if weights.size else 1.0
        h = stand(x, w, z, used, fit, view)
        singular = 1.0 - w * h < 1e-9
        if singular:
            error, leverage = take_out_last(x, w, z, used, fit, view)
            now = limits.penalty
        else:
            error, leverage = take_out(w, h, used, fit, view)
            now = w * error / (1.0 + w * leverage)
        if used <= joint_limit:
            least = compare_all(view, w, z, used, singular, error, leverage, now, limits.gain, tables, code)
        else:
            least = compare_bits(view, w, z, used, singular, error, leverage, now, limits.gain, code)
        moved = least < now
        wants = used < limits.cap and least > limits.threshold and least > w * limits.negligible
        for k in range(used):
            z[k] = code[k]
        changed += moved or wants
        if moved and not singular and not wants:
            put_in(x, w, h, z, used, fit, view)
        elif moved or wants:
            # Which features there are may change: everything is set up anew.
            count_pairs(Z, weights, used, pairs, weighted)
            eliminate(pairs, fit.A, used, independent)
            used = drop_dependent(Z, fit.A, used, independent)
            if wants:
                if used == room:
                    return used, -1
                for m in range(N):
                    Z[m, used] = m == n
                used += 1
            set_up(X, weights, Z, used, fit, pairs, weighted, independent)
    return used, changed


@compiled()
def run_collapsed(X, weights, Z, A, used, limits, joint_limit, trace):  # type: ignore[no-untyped-def]
    """A whole run of collapsed BP-means. As :func:`madbayes.engine.kernels.runs.run_features`; A : OUT."""
    (N, room), D = Z.shape, X.shape[1]
    errors, code = np.empty(N), np.empty(room, dtype=np.uint8)
    pairs, weighted, independent = np.empty((room, room)), np.empty((room, room)), np.empty(room, dtype=np.bool_)
    fit = Fit(A, np.empty((room, room)), np.empty((room, room)))
    others = Fit(np.empty((room, D)), np.empty((room, room)), np.empty((room, room)))
    view = View(others, np.empty(D), np.empty(room), np.empty(room), np.empty(room))
    rest, size = max(1, joint_limit - LOW), 1 << LOW
    tables = Tables(np.empty(size), np.empty(size), np.empty((rest, size)), np.empty((rest, size)))
    iteration, changed = 0, 1
    while True:
        set_up(X, weights, Z, used, fit, pairs, weighted, independent)
        row_errors(X, Z, A, used, errors)
        trace[iteration] = weighted_sum(errors, weights) + limits.penalty * used
        if changed == 0 or iteration + 1 == len(trace):
            return used, iteration, changed == 0
        used, changed = collapsed_sweep(
            X, weights, Z, used, limits, joint_limit, fit, view, tables, code, pairs, weighted, independent
        )
        if changed < 0:
            return used, -1, False
        iteration += 1
