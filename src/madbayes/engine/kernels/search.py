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
    invert,
    project,
    solve,
    square_features,
    sum_rows,
    take_residual,
)
from madbayes.engine.kernels.runs import fit_run
from madbayes.engine.kernels.side_by_side import compare_rows, flip_row, flip_rows, measure, move_to_code

# Of up to so many bits all codes are compared, which takes no longer than branch and bound.
FEW = 13


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
    invert(P, P, used, 0.0)  # in place: with ridges there is one
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
def polish(X, squares, weights, Z, A, used, gain, node_limit, max_iter, momentum, is_far, is_brief, scratch):  # type: ignore[no-untyped-def]
    """Least squares and best codes in turn until no code changes. Z, A : INOUT.

    momentum : IN, a share by which features first go beyond least squares, in the direction they come from: fewer
    iterations and lower ends on average, but the squared error may rise on the way
    is_far : IN, whether products of rows lose the digits that matter
    is_brief : IN, whether rounding of sums that were followed may stay

    Returns how many features there are, the number of iterations, and what the features explain.
    """
    iteration, changed, exact, moving = 0, 1, False, momentum > 0.0
    pairs, weighted, codes = np.empty((used, used)), np.empty((used, used)), Z.copy()
    before, last = np.zeros(A.shape), -1
    while changed and iteration < max_iter:
        iteration += 1
        # Weights are not followed: next to large ones that come and go, small ones would be lost.
        if iteration == 1 or weights.size or 2 * changed > len(Z):
            count_pairs(Z, weights, used, pairs, weighted)
            sum_rows(X, weights, Z, used, scratch.sums)
            codes[:] = Z
        else:
            follow(X, Z, codes, used, pairs, scratch.sums)
        scratch.pairs[:used, :used], scratch.weighted[:used, :used] = pairs[:used, :used], weighted[:used, :used]
        solve(scratch.pairs, scratch.weighted, weights.size > 0, scratch.sums, A, used, scratch.independent)
        used = drop_dependent(Z, A, used, scratch.independent)
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
    if is_brief and not weights.size:
        follow(X, Z, codes, used, pairs, scratch.sums)
        scratch.pairs[:used, :used] = pairs[:used, :used]
        explained = solve(scratch.pairs, weighted, False, scratch.sums, A, used, scratch.independent)
    else:
        explained = fit_run(X, weights, Z, A, used, scratch)
    return drop_dependent(Z, A, used, scratch.independent), iteration, explained


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
