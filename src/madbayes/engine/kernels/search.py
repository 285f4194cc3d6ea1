"""Best codes of all rows given the features, as the search needs them: over and over, from codes that are nearly right.

As in the module on features, a code z of a row with b = Ax costs zGz' - 2 b.z beside the row's own square, G = AA'.
"""

import numpy as np

from madbayes.engine.kernels.branching import branch, distance, make_tree
from madbayes.engine.kernels.compiling import REORDER, compiled
from madbayes.engine.kernels.features import drop_dependent, project, square_features
from madbayes.engine.kernels.runs import fit_run


@compiled(fastmath=REORDER)
def flip_row(b, G, z, used, gain, square, g):  # type: ignore[no-untyped-def]
    """The best flip of one or two bits until none gains; returns whether any did. z : INOUT; g : scratch (used,)."""
    size = square
    for k in range(used):
        size += G[k, k]
        g[k] = -b[k]
        for j in range(used):
            if z[j]:
                g[k] += G[k, j]
    changed = False
    while True:
        # Less than this share of what is added up is rounding, which might go on for ever.
        least, first, second = -gain * size, -1, -1
        for k in range(used):
            sk = 1.0 - 2.0 * z[k]
            single = G[k, k] + 2.0 * sk * g[k]
            if single < least:
                least, first, second = single, k, k
            for j in range(k):
                sj = 1.0 - 2.0 * z[j]
                pair = single + G[j, j] + 2.0 * sj * (g[j] + sk * G[j, k])
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
                g[j] += sign * G[j, k]


@compiled(fastmath=REORDER)
def factor(G, used, order, R, P):  # type: ignore[no-untyped-def]
    """A triangle R with R'R = G + ridge for branch and bound, whose most decisive bits come last. Returns the ridge.

    As bits are their own squares, a ridge on the diagonal of G and half of it beside b leave every cost as it is, and
    there is a triangle even where features are dependent.

    order : OUT (used,), which feature stands where; R : OUT (used, used); P : scratch (used, used)
    """
    ridge = np.finfo(np.float64).tiny
    for k in range(used):
        ridge += 1e-3 * G[k, k] / used
    for k in range(used):
        order[k] = k
        for j in range(used):
            P[k, j] = G[k, j] + (ridge if j == k else 0.0)
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
            total = G[order[i], order[j]] + (ridge if i == j else 0.0)
            for k in range(i):
                total -= R[k, i] * R[k, j]
            R[i, j] = np.sqrt(total) if i == j else total / R[i, i]
    return ridge


@compiled()
def branch_row(b, R, order, ridge, z, used, gain, square, node_limit, y, code, tree):  # type: ignore[no-untyped-def]
    """Branch and bound from the code z; returns whether there was a better one. z : INOUT; y, code, tree : scratch."""
    for i in range(used):
        code[i] = z[order[i]]
        y[i] = b[order[i]] + 0.5 * ridge
        for k in range(i):
            y[i] -= R[k, i] * y[k]
        y[i] /= R[i, i]
    now = distance(y, R, code, used)
    found = branch(y, R, used, now - gain * (square + now), node_limit, tree, code)
    for i in range(used):
        z[order[i]] = code[i]
    return found


@compiled(inline="always")
def search_rows(B, G, squares, Z, used, gain, node_limit):  # type: ignore[no-untyped-def]
    """Flips of one or two bits, then branch and bound if ``node_limit`` allows it; returns how many codes changed."""
    if used == 0:
        return 0
    K, changed = used, 0
    R, P, order = np.empty((K, K)), np.empty((K, K)), np.empty(K, np.int64)
    y, g, code, tree = np.empty(K), np.empty(K), np.empty(K, np.uint8), make_tree(K)
    ridge = factor(G, used, order, R, P) if node_limit else 0.0
    for n in range(len(B)):
        moved = flip_row(B[n], G, Z[n], used, gain, squares[n], g)
        if node_limit:
            found = branch_row(B[n], R, order, ridge, Z[n], used, gain, squares[n], node_limit, y, code, tree)
            moved = moved or found
        changed += moved
    return changed


@compiled()
def polish(X, squares, weights, Z, A, used, gain, node_limit, max_iter, scratch):  # type: ignore[no-untyped-def]
    """Least squares and best codes in turn until no code changes. Z, A : INOUT.

    Returns how many features there are.
    """
    iteration, changed, exact = 0, 1, False
    while changed and iteration < max_iter:
        iteration += 1
        fit_run(X, weights, Z, A, used, scratch)
        used = drop_dependent(Z, A, used, scratch.independent)
        project(X, A, used, scratch.B)
        square_features(A, used, scratch.G)
        changed = search_rows(scratch.B, scratch.G, squares, Z, used, gain, node_limit if exact else 0)
        # Flips of one or two bits first; once they change nothing, branch and bound.
        exact, changed = changed == 0, changed + (not exact)
    return used
