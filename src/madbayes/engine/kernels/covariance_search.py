"""From labels to a local optimum of clusters with shapes, as the search needs it.

Distances are those of a table in which a cluster without scatter is round. A cluster of scatter S has the precision
P = (I + S)^-1 and costs log|I + S| where covariances are learned; where they are known, P is given and the cost is
tr(P S). A row at r = x - mean of weight w that leaves a cluster of weight W changes S by -t r r' with
t = W w / (W - w), and one that comes by t r r' with t = W w / (W + w): so the determinant changes by the factor
1 -+ t r'P r, and P by a matrix of rank one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.kernels.cluster_search import join_partners
from madbayes.engine.kernels.compiling import REORDER, compiled

# A cluster that shrinks to less than this share of its volume is fitted anew: P would lose too many digits.
FRAGILE = 1e-4


class Ellipses(NamedTuple):
    """Buffers: where rows are, and the shapes of clusters. Those without rows are free to be used."""

    labels: NDArray  # (N,), int64
    means: NDArray  # (room, D)
    sizes: NDArray  # (room,), weights
    counts: NDArray  # (room,), int64, rows
    S: NDArray  # (room, D, D), scatters
    P: NDArray  # (room, D, D), precisions
    lows: NDArray  # (room,), no eigenvalue of a precision is smaller
    costs: NDArray  # (room,)
    changed: NDArray  # (room,), bool: rows have come or gone since the cluster was fitted
    stamps: NDArray  # (room,), int64: when they last did
    seen: NDArray  # (N,), int64: when a row was last compared with all clusters


@compiled()
def log_det(S, L):  # type: ignore[no-untyped-def]
    """Log-determinant of I + S, exact for small S too.

    L : OUT (D, D); I + S = L diag(1 + e) L' with e in the place of the ones on the diagonal
    """
    total = 0.0
    for j in range(len(S)):
        e = S[j, j]
        for i in range(j):
            e -= L[j, i] * L[j, i] * (1.0 + L[i, i])
        L[j, j] = max(e, 0.0)
        total += np.log1p(L[j, j])
        for r in range(j + 1, len(S)):
            value = S[r, j]
            for i in range(j):
                value -= L[r, i] * L[j, i] * (1.0 + L[i, i])
            L[r, j] = value / (1.0 + L[j, j])
    return total


@compiled()
def invert(L, P):  # type: ignore[no-untyped-def]
    """The inverse of I + S from its factors. P : OUT (D, D)."""
    D = len(L)
    for c in range(D):
        for j in range(D):
            value = 1.0 if j == c else 0.0
            for i in range(c, j):
                value -= L[j, i] * P[i, c]
            P[j, c] = value if j >= c else 0.0
        for j in range(D - 1, -1, -1):
            value = P[j, c] / (1.0 + L[j, j])
            for i in range(j + 1, D):
                value -= L[i, j] * P[i, c]
            P[j, c] = value


@compiled(fastmath=REORDER)
def square_of(P, x, mean, r, u):  # type: ignore[no-untyped-def]
    """r'P r. r : OUT (D,), x less the mean; u : OUT (D,), P r."""
    D, square = len(x), 0.0
    for d in range(D):
        r[d] = x[d] - mean[d]
    for d in range(D):
        total, row = 0.0, P[d]
        for e in range(D):
            total += row[e] * r[e]
        u[d] = total
        square += total * r[d]
    return square


@compiled()
def fit_ellipses(X, weights, state, used, learned):  # type: ignore[no-untyped-def]
    """Clusters that changed are fitted to their rows; P is left as it is where it is known."""
    labels, means, sizes, counts, S, P, lows, costs, changed, _, _ = state
    D = X.shape[1]
    r, L = np.empty(D), np.empty((D, D))
    for k in range(used):
        if changed[k]:
            sizes[k], counts[k], costs[k] = 0.0, 0, 0.0
            for d in range(D):
                means[k, d] = 0.0
                for e in range(D):
                    S[k, d, e] = 0.0
    for n in range(len(X)):
        k = labels[n]
        if changed[k]:
            sizes[k] += weights[n]
            counts[k] += 1
            for d in range(D):
                means[k, d] += weights[n] * (X[n, d] - means[k, d]) / sizes[k]
    for n in range(len(X)):
        k = labels[n]
        if changed[k]:
            for d in range(D):
                r[d] = X[n, d] - means[k, d]
                for e in range(d + 1):
                    S[k, d, e] += weights[n] * r[d] * r[e]
    for k in range(used):
        if changed[k]:
            changed[k] = False
            for d in range(D):
                for e in range(d):
                    S[k, e, d] = S[k, d, e]
            if learned:
                costs[k] = log_det(S[k], L)
                invert(L, P[k])
                trace = 1.0
                for d in range(D):
                    trace += S[k, d, d]
                lows[k] = 1.0 / trace
            else:
                for d in range(D):
                    for e in range(D):
                        costs[k] += P[k, d, e] * S[k, d, e]


@compiled(fastmath=REORDER)
def add_square(P, u, factor):  # type: ignore[no-untyped-def]
    """Add factor times u u' to P."""
    for d in range(len(u)):
        for e in range(len(u)):
            P[d, e] += factor * u[d] * u[e]


@compiled()
def transfer_rows(X, weights, state, used, learned, gain, clock):  # type: ignore[no-untyped-def]
    """Rows move, one after the other, to where the objective is lowest, clusters following at once.

    What has not changed since a row was last compared with it is passed over. Returns how many moved.

    clock : INOUT (1,), counts the moves
    """
    labels, means, sizes, counts, _, P, lows, _, changed, stamps, seen = state
    D, moved = X.shape[1], 0
    r, u, v = np.empty(D), np.empty(D), np.empty(D)
    for n in range(len(X)):
        old, w, x, since = labels[n], weights[n], X[n], seen[n]
        left = sizes[old] - w
        seen[n] = clock[0]
        if counts[old] == 1 or not left > 0.0:
            continue
        look = False
        for k in range(used):
            look |= counts[k] > 0 and stamps[k] > since
        if not look:
            continue
        out = sizes[old] * w / left
        square = square_of(P[old], x, means[old], r, u)
        now = out * square
        if learned:
            now = now / (1.0 - now) if now < 1.0 else np.inf
        least, new, all_of_them = (1.0 - gain) * now, -1, stamps[old] > since
        for k in range(used):
            if k != old and counts[k] > 0 and (all_of_them or stamps[k] > since):
                into, length = sizes[k] * w / (sizes[k] + w), 0.0
                for d in range(D):
                    length += (x[d] - means[k, d]) ** 2
                if into * lows[k] * length < least:
                    cost = into * square_of(P[k], x, means[k], r, v)
                    if cost < least:
                        least, new = cost, k
        if new < 0:
            continue
        clock[0] += 1
        stamps[old] = stamps[new] = clock[0]
        changed[old] = changed[new] = True
        labels[n] = new
        moved += 1
        square_of(P[new], x, means[new], r, v)
        into, length = sizes[new] * w / (sizes[new] + w), 0.0
        sizes[old], sizes[new] = left, sizes[new] + w
        counts[old], counts[new] = counts[old] - 1, counts[new] + 1
        for d in range(D):
            length += r[d] * r[d]
            means[old, d] -= w / left * (x[d] - means[old, d])
            means[new, d] += w / sizes[new] * r[d]
        if learned:
            lows[new] = 1.0 / (1.0 / lows[new] + into * length)
            add_square(P[new], v, -into / (1.0 + least))
            if 1.0 - out * square > FRAGILE:
                add_square(P[old], u, out / (1.0 - out * square))
            else:
                fit_ellipses(X, weights, state, used, learned)
    return moved


@compiled()
def own_squares(X, state, squares):  # type: ignore[no-untyped-def]
    """r'P r of each row in its cluster. squares : OUT (N,)."""
    labels, means, _, _, _, P, _, _, _, _, _ = state
    r, u = np.empty(X.shape[1]), np.empty(X.shape[1])
    for n in range(len(X)):
        squares[n] = square_of(P[labels[n]], X[n], means[labels[n]], r, u)


@compiled()
def open_on_rows(X, weights, state, used, most, threshold, negligible):  # type: ignore[no-untyped-def]
    """Of each cluster, the row that gains most becomes one, if that is more than the threshold.

    The gain is t r'P r, and one less that is the factor of the determinant where covariances are learned. If there are
    not as many places, those rows that gain most. Returns how many clusters there are, with and without free ones.
    """
    labels, _, sizes, counts, _, _, _, _, changed, _, _ = state
    squares, best, rows = np.empty(len(X)), np.zeros(used), np.zeros(used, np.int64)
    own_squares(X, state, squares)
    n_used = 0
    for k in range(used):
        n_used += counts[k] > 0
    for n in range(len(X)):
        k, w = labels[n], weights[n]
        left = sizes[k] - w
        if counts[k] > 1 and left > 0.0 and squares[n] > negligible:
            gain = sizes[k] * w / left * squares[n]
            if gain > best[k]:
                best[k], rows[k] = gain, n
    while n_used < most:
        first, place = 0, 0
        for k in range(len(best)):
            if best[k] > best[first]:
                first = k
        while place < used and counts[place] > 0:
            place += 1
        if not best[first] > threshold or place == len(counts):
            break
        used, n_used = max(used, place + 1), n_used + 1
        labels[rows[first]] = place
        counts[place] = 1
        changed[first] = changed[place] = True
        best[first] = 0.0
    return used, n_used


@compiled()
def merged_cost(state, j, k, learned, M, L):  # type: ignore[no-untyped-def]
    """What two clusters cost more as one, and which of them it is best called. M, L : scratch (D, D)."""
    _, means, sizes, _, S, P, _, costs, _, _, _ = state
    D, share = len(M), sizes[j] * sizes[k] / (sizes[j] + sizes[k])
    as_j, as_k = 0.0, 0.0
    for d in range(D):
        for e in range(D):
            M[d, e] = S[j, d, e] + S[k, d, e] + share * (means[j, d] - means[k, d]) * (means[j, e] - means[k, e])
            if not learned:
                as_j += P[j, d, e] * M[d, e]
                as_k += P[k, d, e] * M[d, e]
    if learned:
        as_j = as_k = log_det(M, L)
    return min(as_j, as_k) - costs[j] - costs[k], j if as_j <= as_k else k


@compiled()
def merge_pairs(state, used, limit, learned, price, negligible):  # type: ignore[no-untyped-def]
    """Merge clusters that are each other's cheapest, cheapest pairs first, if they cost less than the price.

    Means that coincide are worth nothing at any price. Returns how many pairs there were, at most ``limit``.
    """
    labels, means, _, counts, _, _, _, _, changed, _, _ = state
    D = means.shape[1]
    M, L = np.empty((D, D)), np.empty((D, D))
    costs, partners, names = np.full(used, price), np.full(used, -1), np.arange(used)
    for j in range(used):
        for k in range(j):
            if counts[j] > 0 and counts[k] > 0:
                cost, name = merged_cost(state, k, j, learned, M, L)
                distance = 0.0
                for d in range(D):
                    distance += (means[j, d] - means[k, d]) ** 2
                if distance <= negligible:
                    cost = min(cost, 0.0) - 1e-300
                if cost < costs[j]:
                    costs[j], partners[j], names[j] = cost, k, name
                if cost < costs[k]:
                    costs[k], partners[k], names[k] = cost, j, name
    return join_partners(labels, changed, costs, partners, names, limit)


@compiled()
def prefix_costs(X, weights, order, P, learned, costs):  # type: ignore[no-untyped-def]
    """The cost of the first row, the first two, ..., in an order.

    P : INOUT (D, D), of a cluster without rows, and of all of them; costs : OUT (n,)
    """
    D, size, total = X.shape[1], 0.0, 0.0
    mean, r, u = np.zeros(D), np.empty(D), np.empty(D)
    for i in range(len(order)):
        x, w = X[order[i]], weights[order[i]]
        cost = size * w / (size + w) * square_of(P, x, mean, r, u)
        total += np.log1p(cost) if learned else cost
        if learned:
            add_square(P, u, -size * w / (size + w) / (1.0 + cost))
        size += w
        for d in range(D):
            mean[d] += w / size * r[d]
        costs[i] = total


@compiled()
def descend_ellipses(X, weights, state, used, most, learned, price, threshold, negligible, gain, max_iter):  # type: ignore[no-untyped-def]
    """Rows move one by one, clusters open and merge where that pays, until nothing does.

    X : IN (N, D); weights : IN (N,)
    state : INOUT, from labels and the precisions of clusters without scatter
    used : IN, clusters there are, free ones included; most : IN, so many are allowed
    price : IN, of a cluster; threshold : IN, what a row must gain to open one, as in ``open_on_rows``

    Returns how many clusters there are, free ones included.
    """
    labels, _, _, counts, _, _, _, costs, changed, stamps, seen = state
    best, best_used, best_labels = np.inf, used, labels.copy()
    best_count, clock = 0, np.ones(1, np.int64)
    for n in range(len(X)):
        seen[n] = 0
    for k in range(len(counts)):
        changed[k], counts[k], stamps[k] = True, 0, 1
    for _ in range(max_iter):
        fit_ellipses(X, weights, state, used, learned)
        count, loss = 0, 0.0
        for k in range(used):
            if counts[k] > 0:
                count, loss = count + 1, loss + costs[k]
        # Each turn gains something or saves a cluster. If not, it was rounding: the best there was is the answer.
        if best < np.inf:
            rise = loss - best + price * (count - best_count)
            if not (rise < -gain * best or (count < best_count and rise <= gain * best)):
                break
        best, best_used, best_count = loss, used, count
        for n in range(len(X)):
            best_labels[n] = labels[n]
        if count > most:
            best = np.inf
            merge_pairs(state, used, count - most, learned, np.inf, negligible)
        elif transfer_rows(X, weights, state, used, learned, gain, clock) > 0:
            continue
        else:
            used, after = open_on_rows(X, weights, state, used, most, threshold, negligible)
            if after == count and merge_pairs(state, used, used, learned, price, negligible) == 0:
                break
        clock[0] += 1
        for k in range(used):
            if changed[k]:
                stamps[k] = clock[0]
    for n in range(len(X)):
        labels[n] = best_labels[n]
    for k in range(best_used):
        changed[k] = True
    fit_ellipses(X, weights, state, best_used, learned)
    return best_used
