"""Clusters: nearest centres, sums, new clusters, collapsed DP-means."""

import numpy as np

from madbayes.engine.kernels.compiling import REORDER, compiled


@compiled(fastmath=REORDER)
def squared_distance(x, y):  # type: ignore[no-untyped-def]
    """Sum of squared differences, in double precision."""
    total = 0.0
    for d in range(len(x)):
        difference = np.float64(x[d]) - np.float64(y[d])
        total += difference * difference
    return total


@compiled(fastmath=REORDER)
def nearest_rows(X, products, centre_squares, row_squares, A, doubt, labels, distances):  # type: ignore[no-untyped-def]
    """Nearest of K centres for each row, from products; by differences where rounding leaves a doubt.

    X : IN (n, D), and A : IN (K, D), as they are
    products : IN (n, K), of rows and centres, both less a common origin
    centre_squares, row_squares : IN (K,) and (n,), about that origin
    doubt : IN, share of the squares below which two distances are taken anew
    labels : INOUT (n,); a label stays where it is as near as any, -1 for none
    distances : OUT (n,), float64, squared, by differences
    """
    n_rows, K = products.shape
    for n in range(n_rows):
        least, best = np.inf, -1
        for k in range(K):
            score = centre_squares[k] - 2.0 * products[n, k]
            if score < least:
                least, best = score, k
        limit = least + doubt * (row_squares[n] + np.abs(least))
        close = 0
        for k in range(K):
            if centre_squares[k] - 2.0 * products[n, k] <= limit:
                close += 1
        distance = squared_distance(X[n], A[best])
        if close > 1:
            best, distance = -1, np.inf
            for k in range(K):
                if centre_squares[k] - 2.0 * products[n, k] <= limit:
                    d = squared_distance(X[n], A[k])
                    if d < distance or (d == distance and k == labels[n]):
                        best, distance = k, d
        labels[n] = best
        distances[n] = distance


@compiled()
def add_rows(X, weights, labels, sums, sizes, counts):  # type: ignore[no-untyped-def]
    """Sums, weights and numbers of the rows of each cluster.

    X : IN (n, D)
    weights : IN (n,), or of length 0 when all rows weigh 1
    labels : IN (n,)
    sums : INOUT (K, D), float64; sizes : INOUT (K,), float64; counts : INOUT (K,), int64; all added to
    """
    for n in range(len(X)):
        k = labels[n]
        w = weights[n] if weights.size else 1.0
        for d in range(X.shape[1]):
            sums[k, d] += w * X[n, d]
        sizes[k] += w
        counts[k] += 1


@compiled()
def open_clusters(X, weights, rows, labels, distances, threshold, negligible, centres, used, first_label):  # type: ignore[no-untyped-def]
    """Rows of a chunk in order: one that is too far from all centres opens a cluster on itself.

    X : IN (N, D); rows : IN (n,), the chunk
    weights : IN (N,), or of length 0 when all rows weigh 1
    labels, distances : INOUT (n,), to the nearest centre so far
    threshold, negligible : IN
    centres : OUT (room,), rows that opened a cluster; used : IN, how many there are already
    first_label : IN, label of the first of them

    Returns how many there are now, which is at most the room.
    """
    for i in range(len(rows)):
        n = rows[i]
        w = weights[n] if weights.size else 1.0
        if used < len(centres) and w * distances[i] > threshold and distances[i] > negligible:
            centres[used] = n
            label = first_label + used
            used += 1
            labels[i] = label
            distances[i] = 0.0
            for j in range(i + 1, len(rows)):
                d = squared_distance(X[rows[j]], X[n])
                if d < distances[j]:
                    distances[j] = d
                    labels[j] = label
    return used


@compiled(fastmath=REORDER)
def collapsed_clusters(X, weights, order, first, labels, A, sizes, counts, used, penalty, negligible, gain, cap):  # type: ignore[no-untyped-def]
    """Collapsed DP-means: each row in order moves to where the objective is least, the means following at once.

    X : IN (N, D); order : IN (N,); first : IN, where in the order to begin
    weights : IN (N,)
    labels : INOUT (N,)
    A : INOUT (room, D); sizes : INOUT (room,), weights; counts : INOUT (room,), rows
    used : IN, clusters there are, empty ones included
    penalty, negligible, gain, cap : IN

    Returns how many clusters there are, how many rows moved, and where in the order there was no room any more.
    """
    D = X.shape[1]
    moved = 0
    occupied = 0
    for k in range(used):
        if counts[k] > 0:
            occupied += 1
    for i in range(first, len(order)):
        if used == len(A):
            return used, moved, i
        n = order[i]
        w, old = weights[n], labels[n]
        counts[old] -= 1
        alone = counts[old] == 0
        if alone:
            sizes[old] = 0.0
            occupied -= 1
        else:
            sizes[old] -= w
            for d in range(D):
                A[old, d] -= w / sizes[old] * (X[n, d] - A[old, d])
        least, best, now = np.inf, -1, np.inf
        for k in range(used):
            if counts[k] > 0:
                cost = sizes[k] * w / (sizes[k] + w) * squared_distance(X[n], A[k])
                if k == old:
                    now = cost
                if cost < least:
                    least, best = cost, k
        if alone:
            now = penalty
        opens = occupied < cap and least > penalty and least > w * negligible
        new = old
        if (penalty if opens else least) < (1.0 - gain) * now:
            new = used if opens else best
            moved += 1
        if new == used:
            used += 1
            sizes[new] = 0.0
            counts[new] = 0
            for d in range(D):
                A[new, d] = X[n, d]
        if counts[new] == 0:
            occupied += 1
        counts[new] += 1
        sizes[new] += w
        labels[n] = new
        for d in range(D):
            A[new, d] += w / sizes[new] * (X[n, d] - A[new, d])
    return used, moved, len(order)
