"""Annealing: collapsed BP-means with chance, which the temperature turns down.

As in :mod:`madbayes.engine.kernels.collapsed`, features follow every change of a bit. A bit is flipped if that lowers
the squared error, or else with probability exp(-increase / temperature): where noise makes many local optima, they are
passed while it is warm.

Of sweeps there are hundreds, so neither features nor matrices without a row are kept up: with C = Z'WX features are
A = PC, and of what :mod:`madbayes.engine.kernels.collapsed` says of a row taken out and put in, only products with the
row's own code are needed as long as it keeps it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.kernels.collapsed import Fit, set_up
from madbayes.engine.kernels.compiling import REORDER, compiled
from madbayes.engine.kernels.features import sum_rows

# Increases of more than so many times the temperature do not happen.
NEVER = 40.0
# Vectors over features have room for a multiple of so many, zeros at their end, so that vector instructions take all.
WIDTH = 8
# Sweeps after which least squares are computed anew.
FRESH = 8
# Rows of a higher leverage are left alone: without them, features are not determined.
HIGH = 1.0 - 1e-7


class Row(NamedTuple):
    """What a row is to the features, its code z given; each (room,)."""

    v: NDArray  # Pz', with the row still in
    a: NDArray  # Ar with r = x - zA, with the row still in
    g: NDArray  # half the gradient of |x - yA|^2 at a code y, by the features of the others
    q: NDArray  # half the gradient of yPy', of the others
    c: NDArray  # Cx


@compiled(fastmath=REORDER, inline="always")
def meet(x, z, C, fit, row):  # type: ignore[no-untyped-def]
    """row.v and row.a : OUT; row.c : scratch. Returns leverage zPz' and squared error |x - zA|^2."""
    K, room, D, h, error = len(z), len(row.v), len(x), 0.0, 0.0
    v, a, c = row.v, row.a, row.c
    for j in range(room):
        v[j] = a[j] = 0.0
    for k in range(K):
        c[k] = 0.0
        for d in range(D):
            c[k] += C[k, d] * x[d]
    for d in range(D):
        error += x[d] * x[d]
    for k in range(K):
        for j in range(room):
            a[j] += c[k] * fit.P[k, j]
    for k in range(K):
        if z[k]:
            error -= a[k]
    for k in range(K):
        if z[k]:
            for j in range(room):
                v[j] += fit.P[k, j]
                a[j] -= fit.G[k, j]
    for k in range(K):
        if z[k]:
            h += v[k]
            error -= a[k]
    return h, error


@compiled(fastmath=REORDER, inline="always")
def draw_flips(w, z, h, error, fit, row, temperature, rng, code):  # type: ignore[no-untyped-def]
    """One bit after the other of a row that was met: code : OUT, row.g and row.q : OUT, at this code.

    h, error : IN, what :func:`meet` returned. Returns whether the code differs from z, its squared error by the
    features of the others, and its leverage.
    """
    K, room, P, G, v, a, g, q, different = len(z), len(row.v), fit.P, fit.G, row.v, row.a, row.g, row.q, 0
    left = 1.0 - w * h
    shrink = w / left
    square = shrink * error
    for k in range(K):
        code[k] = z[k]
    for j in range(room):
        g[j], q[j] = (square * v[j] - a[j]) / left, v[j] / left
    error, leverage = error / left**2, h / left
    cost = w * error / (1.0 + w * leverage)
    for k in range(K):
        sign = 1.0 - 2.0 * code[k]
        more = G[k, k] + shrink * v[k] * (square * v[k] - 2.0 * a[k])
        new_error = error + more + 2.0 * sign * g[k]
        new_leverage = leverage + P[k, k] + shrink * v[k] * v[k] + 2.0 * sign * q[k]
        new_cost = w * new_error / (1.0 + w * new_leverage)
        warmth = (new_cost - cost) / temperature
        if warmth <= 0.0 or (warmth < NEVER and rng.random() < np.exp(-warmth)):
            code[k] = 1 - code[k]
            along, across = sign * shrink * (square * v[k] - a[k]), sign * shrink * v[k]
            for j in range(room):
                g[j] += sign * G[k, j] + along * v[j] - across * a[j]
                q[j] += sign * P[k, j] + across * v[j]
            error, leverage, cost = new_error, new_leverage, new_cost
            different += 1 if code[k] != z[k] else -1
    return different > 0, error, leverage


@compiled(fastmath=REORDER, inline="always")
def change_code(x, w, z, h, error, new_error, leverage, code, C, fit, row):  # type: ignore[no-untyped-def]
    """The row has this code from now on. z, C, fit : INOUT; the rest as :func:`draw_flips` leaves it."""
    K, room, P, G, v, a, g, q = len(z), len(row.v), fit.P, fit.G, row.v, row.a, row.g, row.q
    out, into = w / (1.0 - w * h), w / (1.0 + w * leverage)
    for k in range(K):
        # P and AA' without the row, and with its new code: both change by what is made of two vectors.
        of_v, of_a = out * (out * error * v[k] - a[k]), -out * v[k]
        of_q, of_g = into * (into * new_error * q[k] - g[k]), -into * q[k]
        for j in range(room):
            P[k, j] += out * v[k] * v[j] - into * q[k] * q[j]
            G[k, j] += of_v * v[j] + of_a * a[j] + of_q * q[j] + of_g * g[j]
        if code[k] != z[k]:
            step = w * (1.0 - 2.0 * z[k])
            z[k] = code[k]
            for d in range(len(x)):
                C[k, d] += step * x[d]


@compiled(fastmath=REORDER)
def anneal(X, weights, Z, temperatures, rng):  # type: ignore[no-untyped-def]
    """A sweep over all rows for each temperature: Z : INOUT; no column may be redundant."""
    (N, K), D = Z.shape, X.shape[1]
    room = -(-K // WIDTH) * WIDTH
    # P and AA' have rows with room for vector instructions, and zeros there.
    C, fit = np.empty((K, D)), Fit(np.empty((K, D)), np.zeros((K, room)), np.zeros((K, room)))
    row = Row(np.empty(room), np.empty(room), np.empty(room), np.empty(room), np.empty(room))
    pairs, weighted, independent = np.empty((K, K)), np.empty((K, K)), np.empty(K, dtype=np.bool_)
    code = np.empty(K, dtype=np.uint8)
    for sweep in range(len(temperatures)):
        if sweep % FRESH == 0:
            set_up(X, weights, Z, K, fit, pairs, weighted, independent)
            sum_rows(X, weights, Z, K, C)
        for n in range(N):
            x, z, w = X[n], Z[n], weights[n] if weights.size else 1.0
            h, error = meet(x, z, C, fit, row)
            if w * h > HIGH:
                continue
            changed, new_error, leverage = draw_flips(w, z, h, error, fit, row, temperatures[sweep], rng, code)
            if changed:
                change_code(x, w, z, h, error, new_error, leverage, code, C, fit, row)
