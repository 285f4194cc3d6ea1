"""Exact solutions of small problems: dynamic programs for clusters, branch and bound over rows for features."""

import numpy as np

from madbayes.engine.kernels.compiling import REORDER, compiled

# A code outside the span of those before it has a larger square there; inside, rounding leaves less than 1e-12.
OUTSIDE = 1e-6


@compiled()
def interval_errors(x, weights, penalty, errors, starts):  # type: ignore[no-untyped-def]
    """The least squared errors of sorted numbers in 1, 2, ... clusters, all of which are intervals.

    x : IN (N,), sorted
    errors : OUT (K,); starts : OUT (K, N), where the last of so many clusters of the first numbers begins

    Returns for how many counts it did so: one more cluster than that costs more than what was found.
    """
    (K, N), best = starts.shape, np.inf
    now, before = np.empty(N), np.empty(N)
    for k in range(K):
        if k * penalty >= best:
            return k
        now, before = before, now
        for n in range(N):
            mean, weight, cost = x[n], 0.0, 0.0
            now[n], starts[k, n] = np.inf, n
            for start in range(n, k - 1, -1):
                # The squared error of an interval only grows with it: no difference of large numbers, and an end.
                step = x[start] - mean
                cost += weight * weights[start] / (weight + weights[start]) * step * step
                weight += weights[start]
                mean += weights[start] / weight * step
                if cost >= now[n]:
                    break
                error = np.inf
                if start > 0 and k > 0:
                    error = cost + before[start - 1]
                elif start == k:
                    error = cost
                if error < now[n]:
                    now[n], starts[k, n] = error, start
        errors[k] = now[N - 1]
        best = min(best, errors[k] + k * penalty)
    return K


@compiled()
def subset_costs(distances, weights, costs):  # type: ignore[no-untyped-def]
    """Squared error of every set of rows about its mean: the sum of w_i w_j d_ij over its pairs, by its weight.

    distances : IN (N, N), squared; costs : OUT (2^N,)
    """
    N = len(weights)
    masses = np.zeros(1 << N)
    costs[0] = 0.0
    for i in range(N):
        for rest in range(1 << i):
            pairs = 0.0
            for j in range(i):
                if (rest >> j) & 1:
                    pairs += weights[j] * distances[i, j]
            costs[rest | (1 << i)] = costs[rest] + weights[i] * pairs
            masses[rest | (1 << i)] = masses[rest] + weights[i]
    for rows in range(1, 1 << N):
        costs[rows] /= masses[rows]


@compiled()
def subset_errors(costs, penalty, errors, parts):  # type: ignore[no-untyped-def]
    """The least squared errors of sets of rows in 1, 2, ... clusters.

    The cluster of a set's lowest row is split off, so only sets without row 0 and the whole table matter.

    costs : IN (2^N,); errors : OUT (K, 2^N); parts : OUT (K, 2^N), the cluster of the lowest row

    Returns for how many counts it did so: one more cluster than that costs more than what was found.
    """
    K, size = errors.shape
    best = np.inf
    for k in range(K):
        if k * penalty >= best:
            return k
        for i in range(size >> 1):
            rows = 2 * i if i else size - 1
            lowest = rows & -rows
            others, part = rows ^ lowest, rows ^ lowest
            errors[k, rows], parts[k, rows] = np.inf, rows
            if k == 0:
                errors[k, rows] = costs[rows]
                continue
            while part:
                part = (part - 1) & others  # all that may join the lowest row, except everybody
                error = costs[part | lowest] + errors[k - 1, others ^ part]
                if error < errors[k, rows]:
                    errors[k, rows], parts[k, rows] = error, part | lowest
        best = min(best, errors[k, size - 1] + k * penalty)
    return K


@compiled(fastmath=REORDER)
def code_costs(x, weight, A, P, Q, tied, residuals, scales, outside, costs):  # type: ignore[no-untyped-def]
    """What the squared error of the rows so far grows by when the next row gets each of the codes.

    Adding a row x of code z costs |x - zA|^2 / (1/w + zPz') with P the inverse of Z'WZ on the span of the codes so
    far, and nothing if z is outside that span: A can still be chosen there. Q projects on what is outside.

    x, weight, A, P, Q : IN
    tied : IN, bit k is set while columns k and k + 1 are equal: of codes that differ in their order only, one is tried
    residuals (2^K, D) : scratch; scales, outside : OUT (2^K,), 1/w + zPz' and zQz'
    costs : OUT (2^K,), infinite for codes not to be tried
    """
    K, D = A.shape
    for d in range(D):
        residuals[0, d] = x[d]
    scales[0], outside[0] = 1.0 / weight, 0.0
    for z in range(1 << K):
        if z:
            k = 0
            while not (z >> k) & 1:
                k += 1
            rest = z ^ (1 << k)
            for d in range(D):
                residuals[z, d] = residuals[rest, d] - A[k, d]
            scales[z], outside[z] = scales[rest] + P[k, k], outside[rest] + Q[k, k]
            for j in range(k + 1, K):
                if (rest >> j) & 1:
                    scales[z] += 2.0 * P[k, j]
                    outside[z] += 2.0 * Q[k, j]
        costs[z] = 0.0
        if (z >> 1) & ~z & tied:
            costs[z] = np.inf
        elif outside[z] <= OUTSIDE:
            square = 0.0
            for d in range(D):
                square += residuals[z, d] * residuals[z, d]
            costs[z] = square / scales[z]


@compiled(fastmath=REORDER)
def add_row(x, z, scale, outside, A, P, Q, residual, Pz, Qz, A_next, P_next, Q_next):  # type: ignore[no-untyped-def]
    """Least squares with one more row x, of code z.

    residual (D,), Pz, Qz (K,) : scratch; A_next, P_next, Q_next : OUT
    """
    K, D = A.shape
    for d in range(D):
        residual[d] = x[d]
    for k in range(K):
        Pz[k], Qz[k] = 0.0, 0.0
        for j in range(K):
            if (z >> j) & 1:
                Pz[k] += P[k, j]
                Qz[k] += Q[k, j]
        if (z >> k) & 1:
            for d in range(D):
                residual[d] -= A[k, d]
    is_new = outside > OUTSIDE
    for k in range(K):
        gain = Qz[k] / outside if is_new else Pz[k] / scale
        for d in range(D):
            A_next[k, d] = A[k, d] + gain * residual[d]
        for j in range(K):
            if is_new:
                other = Qz[j] / outside
                P_next[k, j] = P[k, j] - Pz[k] * other - gain * Pz[j] + scale * gain * other
                Q_next[k, j] = Q[k, j] - gain * Qz[j]
            else:
                P_next[k, j] = P[k, j] - gain * Pz[j]
                Q_next[k, j] = Q[k, j]


@compiled()
def branch_rows(X, weights, tails, K, cutoff, slack, node_limit, codes):  # type: ignore[no-untyped-def]
    """Codes in K features for all rows whose squared error is below the cutoff: the least there is, if any.

    Rows get their codes one after the other, the cheapest first. What the rows so far cost and what those to come
    must cost at least is a bound for all that follows.

    tails : IN (N + 1,), what the rows from each one on cost at least
    slack : IN, differences up to this do not count; node_limit : IN, codes of single rows to look at
    codes : OUT (N,), one bit for each feature, if there is something below the cutoff

    Returns the squared error found (or the cutoff), a lower bound for what was not looked at for want of nodes, and
    the nodes used.
    """
    N, D = X.shape
    A, P, Q = np.zeros((N + 1, K, D)), np.zeros((N + 1, K, K)), np.zeros((N + 1, K, K))
    scales, outside, costs = np.empty((N, 1 << K)), np.empty((N, 1 << K)), np.empty((N, 1 << K))
    residuals, residual, Pz, Qz = np.empty((1 << K, D)), np.empty(D), np.empty(K), np.empty(K)
    path, tied, errors = np.zeros(N, np.int64), np.zeros(N + 1, np.int64), np.zeros(N + 1)
    for k in range(K):
        Q[0, k, k] = 1.0
    tied[0] = (1 << (K - 1)) - 1
    n, nodes, unexplored, is_fresh = 0, 0, np.inf, True
    while n >= 0:
        if is_fresh:
            code_costs(X[n], weights[n], A[n], P[n], Q[n], tied[n], residuals, scales[n], outside[n], costs[n])
            nodes += 1 << K
        z = 0
        for code in range(1, 1 << K):
            if costs[n, code] < costs[n, z]:
                z = code
        bound, is_fresh = errors[n] + costs[n, z] + tails[n + 1], False
        if bound >= cutoff - slack or nodes >= node_limit:
            if bound < cutoff - slack:
                unexplored = min(unexplored, bound)
            n -= 1
            continue
        path[n], errors[n + 1], costs[n, z] = z, errors[n] + costs[n, z], np.inf
        if n == N - 1:
            cutoff = errors[N]
            for i in range(N):
                codes[i] = path[i]
            continue
        add_row(X[n], z, scales[n, z], outside[n, z], A[n], P[n], Q[n], residual, Pz, Qz, A[n + 1], P[n + 1], Q[n + 1])
        tied[n + 1] = tied[n] & ~(z ^ (z >> 1))
        n, is_fresh = n + 1, True
    return cutoff, unexplored, nodes
