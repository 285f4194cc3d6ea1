"""Best codes of all rows given the features, as the search needs them: over and over, from codes that are nearly right.

As in the module on features, a code z of a row with b = Ax costs zGz' - 2 b.z beside the row's own square, G = AA'.
Half its gradient is g = Gz - b, or -Ar with the residual r = x - zA, which keeps its digits far from the origin.
"""

import numpy as np

from madbayes.engine.kernels.branching import branch, distance, make_tree
from madbayes.engine.kernels.compiling import REORDER, compiled
from madbayes.engine.kernels.features import (
    count_pairs,
    drop_dependent,
    project,
    solve,
    square_features,
    sum_rows,
    take_residual,
)
from madbayes.engine.kernels.runs import fit_run

# Of up to so many bits all codes are compared, which takes no longer than branch and bound.
FEW = 13
# So many rows are compared at once.
ABREAST = 128


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


@compiled(fastmath=REORDER)
def bound(P, used, ridges, slack):  # type: ignore[no-untyped-def]
    """slack : OUT (used,), a diagonal that leaves G positive: flips f change a code's cost by at least f.(slack f).

    P : IN, inverse of G + ridges. With its diagonal scaled to one, no eigenvalue exceeds the largest sum of a row.
    """
    norm = 0.0
    for k in range(used):
        total = 0.0
        for j in range(used):
            total += np.abs(P[k, j]) / np.sqrt(P[j, j])
        norm = max(norm, total / np.sqrt(P[k, k]))
    for k in range(used):
        slack[k] = 1.0 / (norm * P[k, k]) - ridges[k]


@compiled(fastmath=REORDER)
def factor(G, used, order, R, P, ridges, slack):  # type: ignore[no-untyped-def]
    """A triangle R with R'R = G + ridges for branch and bound, whose most decisive bits come last.

    As bits are their own squares, ridges on the diagonal of G and half of them beside b leave every cost as it is, and
    there is a triangle even where features are dependent.

    order : OUT (used,), which feature stands where; R : OUT (used, used); P : scratch (used, used)
    ridges : OUT (used,), of the features; slack : OUT (used,), as in :func:`bound`
    """
    for k in range(used):
        order[k], ridges[k] = k, 1e-3 * G[k, k] + np.finfo(np.float64).tiny
        for j in range(used):
            P[k, j] = G[k, j] + (ridges[k] if j == k else 0.0)
    # Inverse in place, by pivots on the diagonal.
    for k in range(used):
        pivot = 1.0 / P[k, k]
        for i in range(used):
            if i != k:
                f = P[i, k] * pivot
                for j in range(used):
                    if j != k:
                        P[i, j] -= f * P[k, j]
                P[i, k] = -f
        for j in range(used):
            if j != k:
                P[k, j] *= pivot
        P[k, k] = pivot
    bound(P, used, ridges, slack)
    for last in range(used - 1, 0, -1):
        best = 0
        for i in range(last + 1):
            if P[order[i], order[i]] < P[order[best], order[best]]:
                best = i
        order[best], order[last] = order[last], order[best]
        m = order[last]
        for i in range(last):
            f = P[order[i], m] / P[m, m]
            for j in range(last):
                P[order[i], order[j]] -= f * P[m, order[j]]
    for i in range(used):
        for j in range(i, used):
            total = G[order[i], order[j]] + (ridges[order[i]] if i == j else 0.0)
            for k in range(i):
                total -= R[k, i] * R[k, j]
            R[i, j] = np.sqrt(total) if i == j else total / R[i, i]


@compiled()
def branch_row(g, G, lengths, R, order, ridges, z, used, rounding, node_limit, y, code, tree):  # type: ignore[no-untyped-def]
    """Branch and bound from the code z; returns whether there was a better one. z : INOUT; y, code, tree : scratch.

    g : IN (used,), half the gradient at z, which tells by how much what is found is better
    """
    for i in range(used):
        k = order[i]
        code[i] = z[k]
        y[i] = 0.5 * ridges[k] - g[k]
        for j in range(used):
            if z[j]:
                y[i] += G[k, j]
        for j in range(i):
            y[i] -= R[j, i] * y[j]
        y[i] /= R[i, i]
    if not branch(y, R, used, distance(y, R, code, used), node_limit, tree, code):
        return False
    change = 0.0
    for i in range(used):
        k = order[i]
        if code[i] != z[k]:
            change += 2.0 * (1.0 - 2.0 * z[k]) * g[k] + rounding * lengths[k]
            for m in range(used):
                j = order[m]
                if code[m] != z[j]:
                    change += (1.0 - 2.0 * z[k]) * (1.0 - 2.0 * z[j]) * G[k, j]
    if change >= 0.0:
        return False
    for i in range(used):
        z[order[i]] = code[i]
    return True


@compiled(fastmath=REORDER)
def is_settled(single, slack, G, used):  # type: ignore[no-untyped-def]
    """Whether no flips of any bits gain: together they change the cost by the sum of at least these numbers."""
    least = 0.0
    for k in range(used):
        least = min(least, single[k] - G[k, k] + slack[k])
    return least >= 0.0


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

    squares : IN (2^K,), zGz' of every code z
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
    b, limits, sums, better = np.zeros((K, ABREAST)), np.empty(ABREAST), np.empty(ABREAST), np.empty(ABREAST, np.uint8)
    for k in range(used):
        total += np.sqrt(G[k, k])
    project(X, A, used, B)
    for start in range(0, len(X), ABREAST):
        n_rows = min(ABREAST, len(X) - start)
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
def gradients(X, A, G, Z, used, is_far, B):  # type: ignore[no-untyped-def]
    """B : OUT (N, room), half the gradients at the codes Z."""
    if is_far:
        residual = np.empty(X.shape[1])
        for n in range(len(X)):
            take_residual(X[n], Z[n], A, used, residual)
            for k in range(used):
                total = 0.0
                for d in range(X.shape[1]):
                    total -= A[k, d] * residual[d]
                B[n, k] = total
        return
    project(X, A, used, B)
    for n in range(len(X)):
        move_to_code(B[n], G, Z[n], used)


@compiled(fastmath=REORDER)
def project_across(X, A, used, b):  # type: ignore[no-untyped-def]
    """b : OUT (used, n), 2 Ax of rows side by side; four rows at a time share what is read of a feature."""
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
            b[k, n], b[k, n + 1], b[k, n + 2], b[k, n + 3] = 2.0 * b0, 2.0 * b1, 2.0 * b2, 2.0 * b3
    for n in range(whole, n_rows):
        for k in range(used):
            total = 0.0
            for d in range(D):
                total += X[n, d] * A[k, d]
            b[k, n] = 2.0 * total


@compiled(fastmath=REORDER)
def look_for_flips(b, bits, G, lengths, rounding, costs, better):  # type: ignore[no-untyped-def]
    """better : OUT (n,), whether flipping one or two bits of each of some rows gains; costs : scratch (used, n).

    b : IN (used, n), 2 Ax of each row; bits : IN (used, n), 1 or -1; lengths, rounding : IN, as in :func:`flip_row`
    """
    used, n = b.shape
    for r in range(n):
        better[r] = 0
    for k in range(used):
        own, bit, x, cost, square, length = 0.0, bits[k], b[k], costs[k], G[k, k], lengths[k]
        for r in range(n):
            cost[r] = -x[r]
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

    The same as :func:`search_rows` without branch and bound, but most rows need no more than a look, many at once.
    """
    changed, g, single, largest, lengths = 0, np.empty(used), np.empty(used), np.empty(used), np.empty(used)
    total, rounding, better = measure(G, used, largest, lengths), np.zeros(ABREAST), np.empty(ABREAST, np.uint8)
    b, bits, costs = np.zeros((used, ABREAST)), np.ones((used, ABREAST)), np.empty((used, ABREAST))
    for start in range(0, len(X), ABREAST):
        n_rows = min(ABREAST, len(X) - start)
        project_across(X[start : start + n_rows], A, used, b)
        for r in range(n_rows):
            rounding[r] = gain * (np.sqrt(squares[start + r]) + total)
            for k in range(used):
                bits[k, r] = 2.0 * Z[start + r, k] - 1.0
        look_for_flips(b, bits, G, lengths, rounding, costs, better)
        for r in range(n_rows):
            if better[r]:
                for k in range(used):
                    g[k] = 0.5 * b[k, r]
                move_to_code(g, G, Z[start + r], used)
                changed += flip_row(g, G, largest, lengths, Z[start + r], used, rounding[r], single)
    return changed


@compiled(inline="always")
def search_rows(B, G, squares, Z, used, gain, node_limit):  # type: ignore[no-untyped-def]
    """Flips of one or two bits, then branch and bound if ``node_limit`` allows it; returns how many codes changed.

    B : INOUT (N, room), half the gradients at the codes; Z : INOUT
    """
    if used == 0:
        return 0
    K, changed = used, 0
    R, P, order = np.empty((K, K)), np.empty((K, K)), np.empty(K, np.int64)
    y, single, largest, lengths = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    ridges, slack, code, tree = np.empty(K), np.empty(K), np.empty(K, np.uint8), make_tree(K)
    total = measure(G, used, largest, lengths)
    if node_limit:
        factor(G, used, order, R, P, ridges, slack)
    for n in range(len(B)):
        g, z, rounding = B[n], Z[n], gain * (np.sqrt(squares[n]) + total)
        moved = flip_row(g, G, largest, lengths, z, used, rounding, single)
        if node_limit and not is_settled(single, slack, G, used):
            found = branch_row(g, G, lengths, R, order, ridges, z, used, rounding, node_limit, y, code, tree)
            moved = moved or found
        changed += moved
    return changed


@compiled()
def carry_on(A, before, used, momentum):  # type: ignore[no-untyped-def]
    """A : INOUT, goes on by a share of the step from ``before``, which becomes what A was. before : INOUT."""
    for k in range(used):
        for d in range(A.shape[1]):
            now = A[k, d]
            A[k, d] += momentum * (now - before[k, d])
            before[k, d] = now


@compiled(fastmath=REORDER)
def follow(X, Z, before, used, pairs, sums):  # type: ignore[no-untyped-def]
    """pairs, sums : INOUT (room, room) and (room, D), Z'Z and Z'X of the codes ``before``, and then of Z.

    before : INOUT, becomes Z
    """
    for n in range(len(X)):
        same = True
        for k in range(used):
            same &= Z[n, k] == before[n, k]
        if same:
            continue
        for i in range(used):
            for j in range(used):
                pairs[i, j] += np.float64(Z[n, i] * Z[n, j]) - np.float64(before[n, i] * before[n, j])
        for k in range(used):
            if Z[n, k] != before[n, k]:
                step = 2.0 * Z[n, k] - 1.0
                for d in range(X.shape[1]):
                    sums[k, d] += step * X[n, d]
                before[n, k] = Z[n, k]


@compiled()
def polish(X, squares, weights, Z, A, used, gain, node_limit, max_iter, momentum, is_far, scratch):  # type: ignore[no-untyped-def]
    """Least squares and best codes in turn until no code changes. Z, A : INOUT.

    momentum : IN, a share by which features first go beyond least squares, in the direction they come from: fewer
    iterations and lower ends on average, but the squared error may rise on the way
    is_far : IN, whether products of rows lose the digits that matter

    Returns how many features there are, and the number of iterations.
    """
    iteration, changed, exact, moving, is_new = 0, 1, False, momentum > 0.0, True
    pairs, weighted, codes = np.empty((used, used)), np.empty((used, used)), Z.copy()
    before, last = np.zeros(A.shape), -1
    while changed and iteration < max_iter:
        iteration += 1
        # Weights are not followed: next to large ones that come and go, small ones would be lost.
        if is_new or weights.size or 2 * changed > len(Z):
            count_pairs(Z, weights, used, pairs, weighted)
            sum_rows(X, weights, Z, used, scratch.sums)
            codes[:] = Z
        else:
            follow(X, Z, codes, used, pairs, scratch.sums)
        scratch.pairs[:used, :used], scratch.weighted[:used, :used] = pairs[:used, :used], weighted[:used, :used]
        solve(scratch.pairs, scratch.weighted, weights.size > 0, scratch.sums, A, used, scratch.independent)
        kept = drop_dependent(Z, A, used, scratch.independent)
        used, is_new = kept, kept < used
        if moving:
            carry_on(A, before, used, momentum if used == last else 0.0)
            last = used
        square_features(A, used, scratch.G)
        if exact and node_limit and used <= FEW and not is_far:
            changed = compare_rows(X, A, scratch.G, squares, Z, used, gain, scratch.B)
        elif used and not is_far and not (exact and node_limit):
            changed = flip_rows(X, A, scratch.G, squares, Z, used, gain)
        else:
            gradients(X, A, scratch.G, Z, used, is_far, scratch.B)
            changed = search_rows(scratch.B, scratch.G, squares, Z, used, gain, node_limit if exact else 0)
        if moving:
            moving, changed = changed > 0, 1
            continue
        # Flips of one or two bits first; once they change nothing, all codes, or branch and bound.
        exact, changed = changed == 0, changed + (not exact)
    fit_run(X, weights, Z, A, used, scratch)  # without the rounding of what was followed
    return drop_dependent(Z, A, used, scratch.independent), iteration


@compiled(fastmath=REORDER)
def best_end(R, weights, order):  # type: ignore[no-untyped-def]
    """How many of the first rows explain most if they share a feature: |sum of w r|^2 over the sum of w.

    R : IN (N, D); order : IN (N,)
    """
    D = R.shape[1]
    sums, size, most, count = np.zeros(D), 0.0, -1.0, 1
    for i in range(len(order)):
        n, square = order[i], 0.0
        size += weights[n]
        for d in range(D):
            sums[d] += weights[n] * R[n, d]
            square += sums[d] * sums[d]
        if square > most * size:
            most, count = square / size, i + 1
    return count
