"""Annealing: collapsed BP-means with chance, which the temperature turns down.

As in :mod:`madbayes.engine.kernels.collapsed`, features follow every change of a bit. A bit is flipped if that lowers
the squared error, or else with probability exp(-increase / temperature): where noise makes many local optima, they are
passed while it is warm.
"""

import numpy as np

from madbayes.engine.kernels.collapsed import Fit, View, change, flip, put_in, set_up, stand, take_out
from madbayes.engine.kernels.compiling import REORDER, compiled

# Increases of more than so many times the temperature do not happen.
NEVER = 40.0
# Sweeps after which least squares are computed anew.
FRESH = 8
# Rows of a higher leverage are left alone: without them, features are not determined.
HIGH = 1.0 - 1e-7


@compiled(fastmath=REORDER)
def draw_flips(view, w, z, used, error, leverage, temperature, rng, code):  # type: ignore[no-untyped-def]
    """One bit after the other of a row that was taken out: code : OUT. Returns whether it differs from z.

    error, leverage : IN, of the code z
    """
    cost, different = w * error / (1.0 + w * leverage), 0
    for k in range(used):
        code[k] = z[k]
    for k in range(used):
        new_error = error + change(view.fit.G, view.g, code, k)
        new_leverage = leverage + change(view.fit.P, view.q, code, k)
        new_cost = w * new_error / (1.0 + w * new_leverage)
        warmth = (new_cost - cost) / temperature
        if warmth <= 0.0 or (warmth < NEVER and rng.random() < np.exp(-warmth)):
            flip(k, used, code, view)
            error, leverage, cost = new_error, new_leverage, new_cost
            different += 1 if code[k] != z[k] else -1
    return different > 0


@compiled()
def anneal(X, weights, Z, temperatures, rng):  # type: ignore[no-untyped-def]
    """A sweep over all rows for each temperature: Z : INOUT; no column may be redundant."""
    (N, K), D = Z.shape, X.shape[1]
    fit = Fit(np.empty((K, D)), np.empty((K, K)), np.empty((K, K)))
    others = Fit(np.empty((0, D)), np.empty((K, K)), np.empty((K, K)))
    view = View(others, np.empty(D), np.empty(K), np.empty(K), np.empty(K))
    pairs, weighted, independent = np.empty((K, K)), np.empty((K, K)), np.empty(K, dtype=np.bool_)
    code = np.empty(K, dtype=np.uint8)
    for sweep in range(len(temperatures)):
        if sweep % FRESH == 0:
            set_up(X, weights, Z, K, fit, pairs, weighted, independent)
        for n in range(N):
            x, z, w = X[n], Z[n], weights[n] if weights.size else 1.0
            h = stand(x, w, z, K, fit, view)
            if w * h > HIGH:
                continue
            error, leverage = take_out(w, h, K, fit, view)
            if draw_flips(view, w, z, K, error, leverage, temperatures[sweep], rng, code):
                for k in range(K):
                    z[k] = code[k]
                put_in(x, w, h, z, K, fit, view)
