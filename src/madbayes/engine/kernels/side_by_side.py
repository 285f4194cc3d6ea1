"""Best codes of many rows at once: most have theirs already, which vector instructions tell of rows side by side.

As in the module on features, a code z of a row with b = Ax costs zGz' - 2 b.z beside the row's own square, G = AA'.
"""

import numpy as np

from madbayes.engine.kernels.compiling import REORDER, compiled
from madbayes.engine.kernels.features import project

# So many rows are compared at once.
AT_ONCE = 128


@compiled(fastmath=REORDER)
def measure(G, used, largest, lengths):  # type: ignore[no-untyped-def]
    """largest : OUT (used,), twice the largest product of each feature with another; lengths : OUT (used,), |a|.

    Returns the sum of the lengths.
    """
    total = 0.0
    for k in range(used):
        largest[k], lengths[k] = 0.0, np.sqrt(G[k, k])
        total += lengths[k]
        for j in range(used):
            if j != k:
                largest[k] = max(largest[k], 2.0 * np.abs(G[k, j]))
    return total


@compiled(fastmath=REORDER)
def flip_row(g, G, largest, lengths, z, used, rounding, single):  # type: ignore[no-untyped-def]
    """The best flip of one or two bits until none gains; returns whether any did.

    lengths : IN (used,), |a|; rounding : IN, times these lengths is rounding, which might go on for ever
    z : INOUT; g : INOUT (used,), half the gradient
    single : OUT (used,), what flipping each bit alone changes, and rounding
    """
    changed = False
    while True:
        least, first, second, smallest = 0.0, -1, -1, np.inf
        for k in range(used):
            single[k] = G[k, k] + 2.0 * (1.0 - 2.0 * z[k]) * g[k] + rounding * lengths[k]
            smallest = min(smallest, single[k])
        for k in range(used):
            if single[k] < least:
                least, first, second = single[k], k, k
        for k in range(used):
            if single[k] + smallest - largest[k] >= least:  # no pair with this bit gains more
                continue
            sk = 2.0 * (1.0 - 2.0 * z[k])
            for j in range(k):
                pair = single[k] + single[j] + sk * (1.0 - 2.0 * z[j]) * G[k, j]
                if pair < least:
                    least, first, second = pair, j, k
        if first < 0:
            return changed
        changed = True
        for i in range(1 if first == second else 2):
            k = first if i == 0 else second
            sign = 1.0 - 2.0 * z[k]
            z[k] = 1 - z[k]
            for j in range(used):
                g[j] += sign * G[k, j]


@compiled(fastmath=REORDER, inline="always")
def move_to_code(b, G, z, used):  # type: ignore[no-untyped-def]
    """b : INOUT (room,), Ax before, and then half the gradient at the code z."""
    for k in range(used):
        b[k] = -b[k]
    for j in range(used):
        if z[j]:
            for k in range(used):
                b[k] += G[j, k]


@compiled(fastmath=REORDER)
def look_for_flips(b, bits, G, lengths, rounding, costs, better):  # type: ignore[no-untyped-def]
    """better : OUT (n,), whether flipping one or two bits of each of some rows gains; costs : scratch (used, n).

    b : IN (used, n), Ax of each row; bits : IN (used, n), 1 or -1; lengths, rounding : IN, as in :func:`flip_row`
    """
    used, n = b.shape
    for r in range(n):
        better[r] = 0
    for k in range(used):
        own, bit, x, cost, square, length = 0.0, bits[k], b[k], costs[k], G[k, k], lengths[k]
        for r in range(n):
            cost[r] = -2.0 * x[r]
        for j in range(used):
            own, other, product = own + G[k, j], bits[j], G[k, j]
            for r in range(n):
                cost[r] += product * other[r]
        # The gradient is 2 Gz - 2 Ax, and 2z the bits and one.
        for r in range(n):
            cost[r] = square - bit[r] * (cost[r] + own) + rounding[r] * length
            better[r] |= cost[r] < 0.0
        for j in range(k):
            other, less, product = bits[j], costs[j], 2.0 * G[k, j]
            for r in range(n):
                better[r] |= cost[r] + less[r] + product * bit[r] * other[r] < 0.0


@compiled()
def flip_rows(X, A, G, squares, Z, used, gain):  # type: ignore[no-untyped-def]
    """Flips of one or two bits as long as they gain; returns how many codes changed. Z : INOUT.

    The same as flips of one row after the other, but most rows need no more than a look, many at once.
    """
    changed, g, single, largest, lengths = 0, np.empty(used), np.empty(used), np.empty(used), np.empty(used)
    total, rounding, better = measure(G, used, largest, lengths), np.zeros(AT_ONCE), np.empty(AT_ONCE, np.uint8)
    b, bits, costs = np.zeros((used, AT_ONCE)), np.ones((used, AT_ONCE)), np.empty((used, AT_ONCE))
    for start in range(0, len(X), AT_ONCE):
        n_rows = min(AT_ONCE, len(X) - start)
        project(X[start : start + n_rows], A, used, b.T)
        for r in range(n_rows):
            rounding[r] = gain * (np.sqrt(squares[start + r]) + total)
            for k in range(used):
                bits[k, r] = 2.0 * Z[start + r, k] - 1.0
        look_for_flips(b, bits, G, lengths, rounding, costs, better)
        for r in range(n_rows):
            if better[r]:
                for k in range(used):
                    g[k] = b[k, r]
                move_to_code(g, G, Z[start + r], used)
                changed += flip_row(g, G, largest, lengths, Z[start + r], used, rounding[r], single)
    return changed


@compiled(fastmath=REORDER)
def double(first, g, bits, table):  # type: ignore[no-untyped-def]
    """table : OUT (2^bits,), ``first`` plus 2 g.z for every code z, whose number has its bits."""
    table[0] = first
    for k in range(bits):
        lower, upper, more = table[: 1 << k], table[1 << k : 2 << k], 2.0 * g[k]
        for t in range(1 << k):
            upper[t] = lower[t] + more


@compiled(fastmath=REORDER)
def square_codes(G, used, more, squares):  # type: ignore[no-untyped-def]
    """squares : OUT (2^used,), zGz' for every code z; more : scratch (2^used,)."""
    squares[0] = 0.0
    for k in range(used):
        double(G[k, k], G[k], k, more)
        lower, upper = squares[: 1 << k], squares[1 << k : 2 << k]
        for t in range(1 << k):
            upper[t] = lower[t] + more[t]


@compiled(fastmath=REORDER)
def look_for_better(squares, b, limits, sums, better):  # type: ignore[no-untyped-def]
    """better : OUT (n,), whether any code of each of some rows costs less than its limit; sums : scratch (n,).

    squares : IN (2^K,), zGz' of every code z, K at least 3
    b : IN (K, n), 2 Ax of each row; limits : IN (n,)

    Codes come in eights that differ in their first three bits, and each eight differs from the last in one bit. Rows
    are side by side, as vector instructions take them.
    """
    n, high, first, second, third = len(limits), 0, b[0], b[1], b[2]
    for r in range(n):
        better[r], sums[r] = 0, limits[r]
    for step in range(len(squares) // 8):
        k = 0
        while step and not step >> k & 1:
            k += 1
        high ^= 1 << k if step else 0
        sign = 0.0 if not step else 1.0 if high >> k & 1 else -1.0
        flipped, s = b[k + 3 if step else 0], squares[8 * high : 8 * high + 8]
        s0, s1, s2, s3, s4, s5, s6, s7 = s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
        for r in range(n):
            t0 = sums[r] + sign * flipped[r]
            sums[r] = t0
            t1, t2, more = t0 + first[r], t0 + second[r], third[r]
            t3 = t1 + second[r]
            low = (s0 < t0) | (s1 < t1) | (s2 < t2) | (s3 < t3)
            better[r] |= low | (s4 < t0 + more) | (s5 < t1 + more) | (s6 < t2 + more) | (s7 < t3 + more)


@compiled()
def choose(squares, b, limit, used, sums, z):  # type: ignore[no-untyped-def]
    """The best of all codes of a row, if it costs less than the limit; returns whether it does.

    b : IN (room,), Ax; z : INOUT; sums : scratch (2^used,)
    """
    best = -1
    double(0.0, b, used, sums)
    for code in range(1 << used):
        if squares[code] - sums[code] < limit:
            limit, best = squares[code] - sums[code], code
    for k in range(used if best >= 0 else 0):
        z[k] = best >> k & 1
    return best >= 0


@compiled()
def compare_rows(X, A, G, squares, Z, used, gain, B):  # type: ignore[no-untyped-def]
    """The best of all codes of every row, if it gains more than rounding; returns how many changed.

    squares : IN (N,), |x|^2; Z : INOUT; B : scratch (N, room)
    """
    changed, total, K = 0, 0.0, max(used, 3)
    codes, more = np.full(1 << K, np.inf), np.empty(1 << K)
    square_codes(G, used, more, codes)
    b, limits, sums, better = np.zeros((K, AT_ONCE)), np.empty(AT_ONCE), np.empty(AT_ONCE), np.empty(AT_ONCE, np.uint8)
    for k in range(used):
        total += np.sqrt(G[k, k])
    project(X, A, used, B)
    for start in range(0, len(X), AT_ONCE):
        n_rows = min(AT_ONCE, len(X) - start)
        limits[n_rows:] = -np.inf
        for r in range(n_rows):
            n, code = start + r, 0
            limits[r] = -gain * (np.sqrt(squares[n]) + total) * total
            for k in range(used):
                b[k, r] = 2.0 * B[n, k]
                if Z[n, k]:
                    code += 1 << k
                    limits[r] -= b[k, r]
            limits[r] += codes[code]
        look_for_better(codes, b, limits, sums, better)
        for r in range(n_rows):
            if better[r]:
                changed += choose(codes, B[start + r], limits[r], used, more, Z[start + r])
    return changed
