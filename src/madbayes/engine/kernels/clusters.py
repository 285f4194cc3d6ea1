"""Clusters: nearest centres, sums, new clusters, collapsed DP-means."""

import numpy as np

from madbayes.engine.kernels.compiling import REORDER, compiled

# Slack is cut by this much, more than what it may gain from rounding while shifts are taken off it, ...
SURE = 1 - 1e-9
# ... and by this much each time, for where it is kept in single precision.
ROUNDED_DOWN = 1 - 1.2e-7


@compiled(fastmath=REORDER)
def squared_distance(x, y):  # type: ignore[no-untyped-def]
    """Sum of squared differences, in double precision."""
    total = 0.0
    for d in range(len(x)):
        difference = np.float64(x[d]) - np.float64(y[d])
        total += difference * difference
    return total


@compiled()
def pending_rows(labels, shifts, slack, rows):  # type: ignore[no-untyped-def]
    """Rows whose label is no longer certain, now that the centres have moved.

    labels : IN (n,)
    shifts : IN (K,), what a row of each cluster loses of its slack
    slack : INOUT (n,), how far centres may still move before the row has to be looked at
    rows : OUT (n,), those that have none left

    Returns how many.
    """
    used = 0
    for n in range(len(labels)):
        slack[n] = ROUNDED_DOWN * (slack[n] - shifts[labels[n]])
        rows[used] = n
        used += 0 if slack[n] > 0.0 else 1
    return used


@compiled(fastmath=REORDER)
def two_least(X, bias, codes, scores, keys, infinite, squares, found, least_keys, second_keys):  # type: ignore[no-untyped-def]
    """The two least squared distances of each row, from products.

    Positive floats are ordered as the integers of their bits. The least of integers is found with vector
    instructions; that of floats, which may not be numbers, is not. Where rounding gives negative ones, which of them
    is taken does not matter: all are in doubt. One loop over all rows after the other, as reading what has just been
    written stalls.

    X : IN (n, D), less an origin
    bias : IN (K,), squares of the centres, less the same origin; codes : IN (K,), of the centres
    scores : INOUT (n, K), minus twice the products of rows and centres; squared distances afterwards
    keys : IN (n, K), the memory of scores as integers; infinite : IN, what infinity is there
    squares : OUT (n,), of the rows
    found : OUT (n,), code of the nearest centre, or the sum of several
    least_keys, second_keys : OUT (n,), the two least as integers
    """
    n_rows, K = scores.shape
    nothing, several = bias.dtype.type(0), codes[0] + codes[0]
    for n in range(n_rows):
        square = nothing
        for d in range(X.shape[1]):
            square += X[n, d] * X[n, d]
        squares[n] = square
    for n in range(n_rows):
        for k in range(K):
            scores[n, k] += bias[k] + squares[n]
    for n in range(n_rows):
        least = infinite
        for k in range(K):
            key = keys[n, k]
            least = key if key < least else least
        least_keys[n] = least
    for n in range(n_rows):
        least, second, code = least_keys[n], infinite, nothing
        for k in range(K):
            key = keys[n, k]
            code += codes[k] if key <= least else nothing
            other = key if key > least else infinite
            second = other if other < second else second
        found[n] = code
        second_keys[n] = second if code < several else least


@compiled(fastmath=REORDER)
def two_least_narrow(X, factor, bias, codes, strip, squares, found, least, second):  # type: ignore[no-untyped-def]
    """The same without a matrix product, which is not worth its name for a few columns.

    Each loop goes over a strip of rows and does the same to all, so that the two least ones need no reduction.

    X : IN (n, D), less an origin
    factor : IN (D, K), minus twice the centres, less the same origin
    bias, codes : IN (K,), as in two_least
    strip : OUT (D + 1, rows of a strip), to work in
    squares, found, least, second : OUT (n,), as in two_least, but as floats
    """
    (n_rows, D), nothing = X.shape, bias.dtype.type(0)
    for begin in range(0, n_rows, strip.shape[1]):
        end = min(begin + strip.shape[1], n_rows)
        some, total, scores = X[begin:end], squares[begin:end], strip[D]
        low, next_low, code = least[begin:end], second[begin:end], found[begin:end]
        for n in range(end - begin):
            square = nothing
            for d in range(D):
                square += some[n, d] * some[n, d]
                strip[d, n] = some[n, d]
            total[n] = square
        for n in range(end - begin):
            low[n], next_low[n] = np.inf, np.inf
        for k in range(len(bias)):
            number, constant, slope = codes[k], bias[k], factor[0, k]
            for n in range(end - begin):
                scores[n] = constant + total[n] + slope * strip[0, n]
            for d in range(1, D):
                slope = factor[d, k]
                for n in range(end - begin):
                    scores[n] += slope * strip[d, n]
            for n in range(end - begin):
                score, lowest, after = scores[n], low[n], next_low[n]
                closer = score < lowest
                other = lowest if closer else score
                next_low[n] = other if other < after else after
                low[n] = score if closer else lowest
                code[n] = number if closer else code[n]


@compiled()
def take_slack(squares, least, second, weights, limits, threshold, slack):  # type: ignore[no-untyped-def]
    """How far centres may move until another is nearer, or the nearest is too far.

    squares, least, second : IN (n,), of a row, and from it to the two nearest centres
    weights : IN (n,), or of length 0 when all rows weigh 1
    limits : IN (3,), share of the squares that rounding may have changed; squares too small for that, and too large
    threshold : IN, squared distance times weight above which a row is too far
    slack : OUT (n,); not a positive number where one of the two is in doubt now
    """
    doubt, smallest, largest = limits[0], limits[1], limits[2]
    nothing, share, reach = squares.dtype.type(0), squares.dtype.type(1) - doubt, np.sqrt(threshold)
    for n in range(len(slack)):
        error = doubt * (squares[n] + np.abs(least[n]) + smallest)
        nearest = np.sqrt(np.abs(least[n]) + error)
        apart = share * second[n] - error
        others = np.sqrt(apart if apart > nothing else nothing)
        limit = reach / np.sqrt(weights[n]) if weights.size else reach
        room = SURE * ((others if others < limit else limit) - nearest)
        slack[n] = room if squares[n] < largest else 0.0


@compiled(fastmath=REORDER)
def nearest_of(x, A, label):  # type: ignore[no-untyped-def]
    """The nearest centre by differences, and its squared distance; of several the label, or else the first."""
    best, least = -1, np.inf
    for k in range(len(A)):
        d = squared_distance(x, A[k])
        if d < least or (d == least and k == label):
            best, least = k, d
    return best, least


@compiled()
def decide_rows(X, A, weights, codes, limits, threshold, squares, found, least, second, labels, slack):  # type: ignore[no-untyped-def]
    """Labels of rows as found; by differences where rounding leaves a doubt.

    X : IN (n, D), and A : IN (K, D), as they are
    weights : IN (n,), or of length 0 when all rows weigh 1
    limits : IN (3,), and threshold : IN, as in take_slack
    squares, found, least, second : IN (n,), and codes : IN (K,), as in two_least
    labels : INOUT (n,); a label stays where it is as near as any, -1 for none
    slack : OUT (n,); not positive where the label was in doubt, minus infinity where the row is too far
    """
    take_slack(squares, least, second, weights, limits, threshold, slack)
    for n in range(len(labels)):
        if slack[n] > 0.0:
            labels[n] = np.int64(found[n] - codes[0])
        else:
            w = weights[n] if weights.size else 1.0
            labels[n], distance = nearest_of(X[n], A, labels[n])
            slack[n] = -np.inf if w * distance > threshold else 0.0


@compiled(fastmath=REORDER)
def row_distances(X, A, labels, distances):  # type: ignore[no-untyped-def]
    """Squared distance of each row to the centre of its label, by differences.

    X : IN (n, D); A : IN (K, D); labels : IN (n,)
    distances : OUT (n,)
    """
    for n in range(len(X)):
        distances[n] = squared_distance(X[n], A[labels[n]])


@compiled(fastmath=REORDER)
def add_rows(X, origin, weights, labels, A, sums, sizes, counts):  # type: ignore[no-untyped-def]
    """Sums, weights and numbers of the rows of each cluster.

    X : IN (n, D); origin : IN (D,), taken off each row
    weights : IN (n,), or of length 0 when all rows weigh 1
    labels : IN (n,); A : IN (K, D), centres
    sums : INOUT (K, D), float64; sizes : INOUT (K,), float64; counts : INOUT (K,), int64; all added to

    Returns the squared error about the centres.
    """
    error = 0.0
    for n in range(len(X)):
        k = labels[n]
        w = weights[n] if weights.size else 1.0
        for d in range(X.shape[1]):
            sums[k, d] += w * (np.float64(X[n, d]) - origin[d])
        sizes[k] += w
        counts[k] += 1
        error += w * squared_distance(X[n], A[k])
    return error


@compiled(fastmath=REORDER)
def move_rows(X, origin, weights, rows, before, after, A, sums, sizes, counts):  # type: ignore[no-untyped-def]
    """The same, when some rows go from one cluster to another.

    X : IN (N, D); origin : IN (D,), taken off each row
    weights : IN (N,), or of length 0 when all rows weigh 1
    rows : IN, those that move; before, after : IN (N,), labels
    A : IN (K, D), centres
    sums : INOUT (K, D); sizes, counts : INOUT (K,)

    Returns what it adds to the squared error about the centres.
    """
    error = 0.0
    for i in range(len(rows)):
        n = rows[i]
        j, k = before[n], after[n]
        w = weights[n] if weights.size else 1.0
        for d in range(X.shape[1]):
            change = w * (np.float64(X[n, d]) - origin[d])
            sums[j, d] -= change
            sums[k, d] += change
        sizes[j] -= w
        sizes[k] += w
        counts[j] -= 1
        counts[k] += 1
        error += w * (squared_distance(X[n], A[k]) - squared_distance(X[n], A[j]))
    return error


@compiled()
def open_clusters(X, weights, labels, distances, threshold, negligible, first_label, opened):  # type: ignore[no-untyped-def]
    """Rows in order: one that is too far from all centres opens a cluster on itself.

    X : IN (n, D)
    weights : IN (n,), or of length 0 when all rows weigh 1
    labels, distances : INOUT (n,), to the nearest centre so far
    threshold, negligible : IN, a row is too far if its squared distance is above both, the first one with its weight
    first_label : IN, label of the first of them
    opened : OUT (room,), rows that opened a cluster

    Returns how many they are, which is at most the room.
    """
    used = 0
    for i in range(len(X)):
        w = weights[i] if weights.size else 1.0
        if used < len(opened) and w * distances[i] > threshold and distances[i] > negligible:
            opened[used] = i
            labels[i] = first_label + used
            distances[i] = 0.0
            for j in range(i + 1, len(X)):
                d = squared_distance(X[j], X[i])
                if d < distances[j]:
                    distances[j] = d
                    labels[j] = first_label + used
            used += 1
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
