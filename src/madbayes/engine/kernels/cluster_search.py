"""From labels to a local optimum of the squared error plus a price for each cluster, as the search needs it.

A move of the search changes a few clusters only. So rows are compared with centres that have moved, and with all of
them only where the others may have become the nearest: :class:`Clustering` knows how far they are at least.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.kernels.compiling import REORDER, compiled

# Rows that are compared with a centre at once, by vector instructions.
ROWS = 256


class Clustering(NamedTuple):
    """Buffers: where rows are, and what is known about distances. There is room for more clusters than are used."""

    labels: NDArray  # (N,), int64
    A: NDArray  # (room, D), means
    sizes: NDArray  # (room,), weights
    counts: NDArray  # (room,), int64, rows
    changed: NDArray  # (room,), bool: rows have come or gone since the mean was taken
    own: NDArray  # (N,), squared distance to the own centre
    others: NDArray  # (N,), no other centre is nearer than this; squared


@compiled()
def refit(X, weights, state, used):  # type: ignore[no-untyped-def]
    """Means, weights and numbers of rows of the clusters that changed."""
    labels, A, sizes, counts, changed, _, _ = state
    for k in range(used):
        if changed[k]:
            sizes[k], counts[k] = 0.0, 0
            for d in range(X.shape[1]):
                A[k, d] = 0.0
    for n in range(len(X)):
        k = labels[n]
        if changed[k]:
            sizes[k] += weights[n]
            counts[k] += 1
            for d in range(X.shape[1]):
                A[k, d] += weights[n] * X[n, d]
    for k in range(used):
        if changed[k] and counts[k] > 0:
            for d in range(X.shape[1]):
                A[k, d] /= sizes[k]


@compiled()
def drop_empty(state, used):  # type: ignore[no-untyped-def]
    """Clusters without rows go, the others keep their order. Returns how many are left."""
    labels, A, sizes, counts, changed, _, _ = state
    places, kept = np.empty(used, np.int64), 0
    for k in range(used):
        places[k] = kept
        if counts[k] > 0:
            if kept < k:
                sizes[kept], counts[kept], changed[kept] = sizes[k], counts[k], changed[k]
                for d in range(A.shape[1]):
                    A[kept, d] = A[k, d]
            kept += 1
    if kept < used:
        for n in range(len(labels)):
            labels[n] = places[labels[n]]
    return kept


@compiled(fastmath=REORDER)
def assign_near(X, columns, state, used, gain):  # type: ignore[no-untyped-def]
    """Every row to its nearest centre, labels that tie staying; returns how many moved.

    X : IN (N, D); columns : IN (D, N), its transpose
    state : INOUT; afterwards ``changed`` tells the clusters that have lost or won rows here
    """
    labels, A, _, _, changed, own, others = state
    N, D = X.shape
    centres, was_changed, n_centres, moved = np.empty(used, np.int64), changed[:used].copy(), 0, 0
    for k in range(used):
        if changed[k]:
            centres[n_centres] = k
            n_centres += 1
            changed[k] = False
    distances, near, second = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
    nearest = np.empty(ROWS, np.int64)
    for first in range(0, N, ROWS):
        size = min(ROWS, N - first)
        for i in range(size):
            near[i], second[i], nearest[i] = np.inf, np.inf, -1
        for m in range(n_centres):
            k = centres[m]
            for i in range(size):
                distances[i] = 0.0
            for d in range(D):
                a, column = A[k, d], columns[d, first : first + size]
                for i in range(size):
                    difference = column[i] - a
                    distances[i] += difference * difference
            for i in range(size):  # the nearest two of those that moved, without a branch
                distance, nearer = distances[i], near[i]
                farther = distance if distance > nearer else nearer
                second[i] = farther if farther < second[i] else second[i]
                nearest[i] = k if distance < nearer else nearest[i]
                near[i] = distance if distance < nearer else nearer
        for i in range(size):
            n = first + i
            old, bound = labels[n], others[n]
            if nearest[i] == old and near[i] <= bound:
                own[n], others[n] = near[i], min(bound, second[i])
                continue
            if was_changed[old]:
                own[n] = 0.0
                for d in range(D):
                    difference = X[n, d] - A[old, d]
                    own[n] += difference * difference
            now = own[n]
            least = min(second[i] if nearest[i] == old else near[i], bound)
            if least >= (1.0 - gain) * now:
                others[n] = least
                continue
            new, best, rest = nearest[i], near[i], min(bound, min(now, second[i]))
            if bound < near[i] or new == old:  # one that has not moved may be the nearest: look at all
                new, best, rest = old, now, np.inf
                for k in range(used):
                    if k != old:
                        distance = 0.0
                        for d in range(D):
                            difference = X[n, d] - A[k, d]
                            distance += difference * difference
                        if distance < best:
                            new, best, rest = k, distance, best
                        elif distance < rest:
                            rest = distance
                if best >= (1.0 - gain) * now:
                    others[n] = min(best, rest) if new != old else rest
                    continue
            changed[old] = changed[new] = True
            labels[n], own[n], others[n] = new, best, rest
            moved += 1
    return moved


@compiled(fastmath=REORDER)
def transfer(X, weights, state, used, gain):  # type: ignore[no-untyped-def]
    """Rows move, one after the other, to where the squared error about the means is least, means following at once.

    A row of weight w that leaves a cluster of weight W takes W w / (W - w) times its squared distance with it, and
    brings V w / (V + w) times that to one of weight V. Rows that are near enough to their centre for their bounds to
    decide are passed over. Returns how many moved.

    state : INOUT; bounds are left as they were, and hold up to the clusters that ``changed``
    """
    labels, A, sizes, counts, changed, own, others = state
    D, moved, smallest = X.shape[1], 0, np.inf
    for k in range(used):
        smallest = min(smallest, sizes[k])
    for n in range(len(X)):
        old, w = labels[n], weights[n]
        left = sizes[old] - w
        if counts[old] == 1 or not left > 0.0:
            continue
        if not changed[old] and smallest / (smallest + w) * others[n] >= sizes[old] / left * own[n]:
            continue
        now, least, new = 0.0, np.inf, -1
        for k in range(used):
            distance = 0.0
            for d in range(D):
                difference = X[n, d] - A[k, d]
                distance += difference * difference
            if k == old:
                now = sizes[k] / left * distance
            else:
                cost = sizes[k] / (sizes[k] + w) * distance
                if cost < least:
                    least, new = cost, k
        if least < (1.0 - gain) * now:
            sizes[old], sizes[new] = left, sizes[new] + w
            counts[old], counts[new] = counts[old] - 1, counts[new] + 1
            for d in range(D):
                A[old, d] -= w / left * (X[n, d] - A[old, d])
                A[new, d] += w / sizes[new] * (X[n, d] - A[new, d])
            labels[n] = new
            changed[old] = changed[new] = True
            moved += 1
    return moved


@compiled()
def open_rows(weights, state, used, room, price, negligible):  # type: ignore[no-untyped-def]
    """Of each cluster, the row that takes most squared error with it becomes one, if that is more than the price.

    If there is no room for all, those that take most. Returns how many clusters there are.
    """
    labels, _, sizes, counts, changed, own, _ = state
    gains, rows = np.zeros(used), np.empty(used, np.int64)
    for n in range(len(labels)):
        k = labels[n]
        left = sizes[k] - weights[n]
        if counts[k] > 1 and left > 0.0 and own[n] > negligible:
            gain = sizes[k] / left * weights[n] * own[n]
            if gain > gains[k]:
                gains[k], rows[k] = gain, n
    after = used
    while after < room:
        most = 0
        for k in range(used):
            if gains[k] > gains[most]:
                most = k
        if not gains[most] > price:
            break
        labels[rows[most]] = after
        changed[most] = changed[after] = True
        gains[most] = 0.0
        after += 1
    return after


@compiled()
def join_partners(labels, changed, costs, partners, names, limit):  # type: ignore[no-untyped-def]
    """Merge clusters that are each other's partners, cheapest pairs first.

    labels : INOUT (N,); changed : INOUT (used,), set where a cluster has other rows than before
    costs : IN (used,), of a cluster and its partner; partners : INOUT (used,), -1 for none
    names : IN (used,), what a pair is called by its first
    Returns how many pairs there were, at most ``limit``. The other name of each is left without rows.
    """
    merged, targets = 0, np.arange(len(partners))
    while merged < limit:
        first = -1
        for k in range(len(partners)):
            if partners[k] >= 0 and partners[partners[k]] == k and (first < 0 or costs[k] < costs[first]):
                first = k
        if first < 0:
            break
        second = partners[first]
        targets[first] = targets[second] = names[first]
        changed[first] = changed[second] = True
        partners[first] = partners[second] = -1
        merged += 1
    if merged > 0:
        for n in range(len(labels)):
            labels[n] = targets[labels[n]]
    return merged


@compiled(fastmath=REORDER)
def merge_cheapest(state, used, limit, price, negligible):  # type: ignore[no-untyped-def]
    """Merge clusters that are each other's cheapest, cheapest pairs first, if they cost less than the price.

    That is Ward's cost, V W / (V + W) times the squared distance; means that coincide are worth nothing at any price.
    Returns how many pairs there were, at most ``limit``. The second of each is left without rows.
    """
    labels, A, sizes, _, changed, _, _ = state
    costs, partners = np.full(used, price), np.full(used, -1)
    for j in range(used):
        for k in range(j):
            distance = 0.0
            for d in range(A.shape[1]):
                difference = A[j, d] - A[k, d]
                distance += difference * difference
            cost = sizes[j] * sizes[k] / (sizes[j] + sizes[k]) * distance if distance > negligible else -1.0
            if cost < costs[j]:
                costs[j], partners[j] = cost, k
            if cost < costs[k]:
                costs[k], partners[k] = cost, j
    return join_partners(labels, changed, costs, partners, np.arange(used), limit)


@compiled(fastmath=REORDER)
def distances_to(X, A, labels, distances):  # type: ignore[no-untyped-def]
    """Squared distance of each row to the centre of its label. distances : OUT (N,)."""
    for n in range(len(X)):
        distance, k = 0.0, labels[n]
        for d in range(X.shape[1]):
            difference = X[n, d] - A[k, d]
            distance += difference * difference
        distances[n] = distance


@compiled(fastmath=REORDER)
def seed_gains(X, weights, nearest, rows, distances, gains):  # type: ignore[no-untyped-def]
    """What the squared error falls by if there is one more centre, on each of some rows.

    nearest : IN (N,), squared distance to the nearest centre there is
    distances : OUT (len(rows), N), squared, from those rows; gains : OUT (len(rows),)
    """
    for i in range(len(rows)):
        row, gain, to_row = X[rows[i]], 0.0, distances[i]
        for n in range(len(X)):
            distance, x = 0.0, X[n]
            for d in range(X.shape[1]):
                difference = x[d] - row[d]
                distance += difference * difference
            to_row[n] = distance
            gain += weights[n] * max(nearest[n] - distance, 0.0)
        gains[i] = gain


@compiled(fastmath=REORDER)
def principal_scores(R, weights, direction, max_iter, scores):  # type: ignore[no-untyped-def]
    """Where rows lie along their first principal direction, nearly.

    R : IN (n, D), less its mean
    direction : INOUT (D,), where to begin; scores : OUT (n,)
    """
    n_rows, D = R.shape
    sums = np.empty(D)
    for _ in range(max_iter):
        for d in range(D):
            sums[d] = 0.0
        for n in range(n_rows):
            score, row = 0.0, R[n]
            for d in range(D):
                score += row[d] * direction[d]
            scores[n] = score
            score *= weights[n]
            for d in range(D):
                sums[d] += score * row[d]
        square = 0.0
        for d in range(D):
            square += sums[d] * sums[d]
        if not square > 0.0:
            return
        for d in range(D):
            direction[d] = sums[d] / np.sqrt(square)


@compiled(fastmath=REORDER)
def best_cut(R, weights, order):  # type: ignore[no-untyped-def]
    """How many of the first rows to set apart from the others so that the squared error falls most.

    R : IN (n, D), less its mean; order : IN (n,)
    """
    D = R.shape[1]
    sums, total, size, most, cut = np.zeros(D), 0.0, 0.0, -1.0, 1
    for n in range(len(order)):
        total += weights[n]
    for i in range(len(order) - 1):
        n = order[i]
        size += weights[n]
        square = 0.0
        for d in range(D):
            sums[d] += weights[n] * R[n, d]
            square += sums[d] * sums[d]
        if total > size and square * total > most * size * (total - size):
            most, cut = square * total / (size * (total - size)), i + 1
    return cut


@compiled()
def descend(X, columns, weights, state, used, most, price, negligible, gain, max_iter):  # type: ignore[no-untyped-def]
    """Lloyd's iterations; then clusters open or merge where that pays and rows move one by one; and so on.

    X : IN (N, D), about its mean; columns : IN (D, N), its transpose; weights : IN (N,)
    state : INOUT, from labels alone
    used : IN, clusters there are; most : IN, so many are allowed; price : IN, of a cluster

    Returns how many clusters there are, and the squared error.
    """
    labels, _, _, _, changed, own, others = state
    N, room = X.shape[0], min(most, len(changed))
    best, best_used, best_labels = np.inf, used, labels.copy()
    for n in range(N):
        own[n] = others[n] = np.inf
    for k in range(used):
        changed[k] = True
    iteration = 0
    while True:
        moved = 1
        while moved and iteration < max_iter:
            iteration += 1
            refit(X, weights, state, used)
            used = drop_empty(state, used)
            moved = assign_near(X, columns, state, used, gain)
        value = used * price
        for n in range(N):
            value += weights[n] * own[n]
        # Each turn gains something or saves a cluster. If not, it was rounding: the best there was is the answer.
        lower = value < best - gain * np.abs(best) or (used < best_used and value <= best + gain * np.abs(best))
        if best < np.inf and not lower:
            break
        best, best_used = value, used
        for n in range(N):
            best_labels[n] = labels[n]
        if moved:
            break
        if used > most:
            best = np.inf
            merge_cheapest(state, used, used - most, np.inf, negligible)
            continue
        before, used = used, open_rows(weights, state, used, room, price, negligible)
        if used > before or merge_cheapest(state, used, used, price, negligible) > 0:
            continue
        if transfer(X, weights, state, used, gain) == 0:
            break
    for n in range(N):
        labels[n] = best_labels[n]
    for k in range(best_used):
        changed[k] = True
    refit(X, weights, state, best_used)
    distances_to(X, state.A, labels, own)
    error = 0.0
    for n in range(N):
        error += weights[n] * own[n]
    return best_used, error
