"""One column of Z at a time, with features that follow it: tabu search over the rows that have a feature.

Without feature a of column z, residuals are R + ha', where R = X - ZA are those with it and h is what is left of z when
the other columns have had their part. Another column y in its place explains

    |y'W(R + ha')|^2 / y'(W - WZPZ'W + Whh'W / h'Wh)y

of them, with P = (Z'WZ)^-1. So flips of single rows are compared by products with two matrices that are the same for
all columns but for h, and the products follow each flip. The best of the flips that do not undo what was done just
before is made, whether it helps or not: so it leaves columns that no single flip makes better.
"""

import numpy as np

from madbayes.engine.kernels.compiling import REORDER, compiled

# What is flipped is not flipped back for so many steps, of few rows a third of them, and up to as many more by chance.
TABU = 10
# What is left of the square of a column, below this, is rounding: the largest weight is one.
ROUNDING = 1e-6
# One column is better than another if it explains more by more than this share.
GAIN = 1e-9


@compiled(fastmath=REORDER)
def search_column(products, left, h, b, square, size, column, n_steps, rng):  # type: ignore[no-untyped-def]
    """From a column to the best that is met: column : INOUT; returns how many times as much that explains.

    products : IN (N, N), WRR'W
    left : IN (N, N), W - WZPZ'W
    h : IN (N,), Wh over its length, the root of h'Wh
    b : IN (N,), WRa times that length
    square, size : IN, |a|^2 h'Wh, and that length
    """
    N = len(h)
    sign, u, v, own_u, own_v, ratio = np.empty(N), np.empty(N), np.empty(N), np.empty(N), np.empty(N), np.empty(N)
    until, best_column = np.zeros(N, dtype=np.int64), column.copy()
    for i in range(N):
        sign[i] = 1.0 - 2.0 * column[i]
        u[i] = size * (b[i] + square * h[i])
        v[i] = size * h[i]
        own_u[i] = products[i, i] + 2.0 * b[i] * h[i] + square * h[i] * h[i]
        own_v[i] = left[i, i] + h[i] * h[i]
        if not own_v[i] > 0.0:  # it weighs nothing
            until[i] = n_steps
    explained, rest, best, tabu = size * size * square, size * size, square, min(TABU, N // 3)
    for step in range(n_steps):
        for i in range(N):
            after = rest + 2.0 * sign[i] * v[i] + own_v[i]
            ratio[i] = (explained + 2.0 * sign[i] * u[i] + own_u[i]) / after if after > ROUNDING else 0.0
        k, most = -1, 0.0
        for i in range(N):
            if ratio[i] > most and (until[i] <= step or ratio[i] > best * (1.0 + GAIN)):
                k, most = i, ratio[i]
        if k < 0:
            break
        s = sign[k]
        explained += 2.0 * s * u[k] + own_u[k]
        rest += 2.0 * s * v[k] + own_v[k]
        along, across = s * (b[k] + square * h[k]), s * h[k]
        row_u, row_v = products[k], left[k]
        for i in range(N):
            u[i] += s * row_u[i] + along * h[i] + across * b[i]
        for i in range(N):
            v[i] += s * row_v[i] + across * h[i]
        sign[k] = -s
        column[k] = 1 - column[k]
        until[k] = step + 1 + tabu + int(rng.random() * tabu)
        if explained > best * rest * (1.0 + GAIN):
            best = explained / rest
            best_column[:] = column
    column[:] = best_column
    return best / square
