"""Gibbs sampling of the linear-Gaussian model with the Indian buffet process prior, by rank-one algebra.

With ratio = sigma2 / rho2, P = (Z'Z + ratio I)^-1 and A = PZ'X are least squares with a ridge: a row leaves and comes
back as in collapsed BP-means, whose algebra this is. To the others' A and P the row with the code z is Gaussian around
zA with variance sigma2 (1 + zPz'). Where A is part of the state P is zero, and all else the same.

Numbers are drawn in the order of :class:`madbayes.paper.gibbs.IBPGibbs`: the same seed gives the same chain.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from madbayes.engine.kernels.collapsed import Fit, View, change, flip, put_in, stand, take_out
from madbayes.engine.kernels.compiling import REORDER, compiled
from madbayes.engine.kernels.features import (
    count_pairs,
    drop_dependent,
    row_errors,
    square_features,
    sum_rows,
)


class Rules(NamedTuple):
    """What is integrated out, what is sampled, and under which priors."""

    collapsed: bool
    sample_sigma2: bool
    sample_rho2: bool
    sample_mass: bool
    variance_shape: float
    variance_scale: float
    mass_shape: float
    mass_rate: float


class Parameters(NamedTuple):
    """The numbers that may be sampled."""

    sigma2: float
    rho2: float
    mass: float


class Table(NamedTuple):
    """The state of a chain, its parameters apart."""

    Z: NDArray  # (N, room), uint8
    sizes: NDArray  # (room,), int64, rows of each feature
    fit: Fit  # A, or its posterior mean; P, zero where A is not integrated out; AA'


class Equations(NamedTuple):
    """Buffers for what determines A."""

    gram: NDArray  # (room, room), Z'Z
    sums: NDArray  # (room, D), Z'X
    factor: NDArray  # (room, room), the triangle L with LL' = Z'Z + ratio I
    weights: NDArray  # (0,): all rows weigh 1


class GibbsScratch(NamedTuple):
    """Buffers of a chain."""

    others: View  # a row taken out
    equations: Equations
    log_odds: NDArray  # (N,), IN: of a feature that m of the other rows have, for m > 0
    thresholds: NDArray  # (room,), where log-odds of bits become ones
    keys: NDArray  # (room,), random numbers to sort
    order: NDArray  # (room,), int64, of the bits
    code: NDArray  # (room,), uint8
    shared: NDArray  # (room,), bool, whether other rows have the feature
    draw: NDArray  # (room, D), a draw of A
    errors: NDArray  # (N,)


class Trace(NamedTuple):
    """The states after each of S sweeps, OUT."""

    Z: NDArray  # (S, N, room), uint8
    A: NDArray  # (S, room, D)
    used: NDArray  # (S,), int64
    sigma2: NDArray  # (S,)
    rho2: NDArray  # (S,)
    mass: NDArray  # (S,)


@compiled()
def copy_rows(source, n_rows, n_columns, target):  # type: ignore[no-untyped-def]
    """target : OUT, its first rows and columns become those of the source; slices would take long to compile."""
    for i in range(n_rows):
        for j in range(n_columns):
            target[i, j] = source[i, j]


@compiled(fastmath=REORDER)
def factorise(gram, ratio, used, factor):  # type: ignore[no-untyped-def]
    """factor : OUT (room, room), the lower triangle L with LL' = gram + ratio I."""
    for i in range(used):
        for j in range(i + 1):
            dot = gram[i, j] + (ratio if i == j else 0.0)
            for k in range(j):
                dot -= factor[i, k] * factor[j, k]
            factor[i, j] = np.sqrt(dot) if i == j else dot / factor[j, j]


@compiled(fastmath=REORDER)
def solve_lower(factor, used, B, D):  # type: ignore[no-untyped-def]
    """B : INOUT (room, at least D), its first D columns become L^-1 B."""
    for k in range(used):
        for j in range(k):
            for d in range(D):
                B[k, d] -= factor[k, j] * B[j, d]
        for d in range(D):
            B[k, d] /= factor[k, k]


@compiled(fastmath=REORDER)
def solve_upper(factor, used, B, D):  # type: ignore[no-untyped-def]
    """B : INOUT (room, at least D), its first D columns become L'^-1 B."""
    for k in range(used - 1, -1, -1):
        for j in range(k + 1, used):
            for d in range(D):
                B[k, d] -= factor[j, k] * B[j, d]
        for d in range(D):
            B[k, d] /= factor[k, k]


@compiled()
def draw_features(gram, used, sigma2, ratio, factor, A, rng):  # type: ignore[no-untyped-def]
    """A : INOUT (room, D), Z'X before, then a draw of A given Z and X; factor : OUT."""
    scale, D = np.sqrt(sigma2), A.shape[1]
    factorise(gram, ratio, used, factor)
    solve_lower(factor, used, A, D)
    for k in range(used):
        for d in range(D):
            A[k, d] += scale * rng.standard_normal()
    solve_upper(factor, used, A, D)


@compiled()
def count_and_sum(X, Z, used, sizes, equations):  # type: ignore[no-untyped-def]
    """Z'Z, Z'X and the sizes of the features, from scratch. sizes, equations : OUT."""
    gram, weights = equations.gram, equations.weights
    count_pairs(Z, weights, used, gram, gram)
    sum_rows(X, weights, Z, used, equations.sums)
    for k in range(used):
        sizes[k] = np.int64(gram[k, k])


@compiled()
def set_up(used, ratio, equations, fit):  # type: ignore[no-untyped-def]
    """fit : OUT, from Z'Z and Z'X: rounding that updates have gathered goes."""
    (A, P, G), factor, D = fit, equations.factor, fit.A.shape[1]
    factorise(equations.gram, ratio, used, factor)
    copy_rows(equations.sums, used, D, A)
    for k in range(used):
        for j in range(used):
            P[k, j] = 1.0 if j == k else 0.0
    solve_lower(factor, used, A, D)
    solve_upper(factor, used, A, D)
    solve_lower(factor, used, P, used)
    solve_upper(factor, used, P, used)
    square_features(A, used, G)


@compiled()
def renew(X, table, used, ratio, collapsed, equations):  # type: ignore[no-untyped-def]
    """What follows from Z, and from A where it is part of the state, after features have come or gone."""
    count_and_sum(X, table.Z, used, table.sizes, equations)
    if collapsed:
        set_up(used, ratio, equations, table.fit)
    else:
        square_features(table.fit.A, used, table.fit.G)


@compiled()
def draw_order(used, keys, order, rng):  # type: ignore[no-untyped-def]
    """order : OUT (room,), the order of random numbers: all orders are equally likely. keys is scratch."""
    for i in range(used):
        key, place = rng.random(), i
        while place > 0 and keys[place - 1] > key:
            keys[place], order[place] = keys[place - 1], order[place - 1]
            place -= 1
        keys[place], order[place] = key, i


@compiled(inline="always")
def draw_bits(z, used, sizes, D, error, leverage, sigma2, own, scratch, rng):  # type: ignore[no-untyped-def]
    """Gibbs over the bits of a row that was taken out: scratch.code : OUT. Returns its error and leverage.

    z : IN (room,), the code before; error, leverage : IN, of z
    own : IN, variance from features that the row had to itself
    """
    view, code, thresholds = scratch.others, scratch.code, scratch.thresholds
    for k in range(used):
        code[k] = z[k]
        # A logistic number is below the log-odds with just the probability of the bit.
        thresholds[k] = rng.logistic() - scratch.log_odds[sizes[k] - z[k]]
    draw_order(used, scratch.keys, scratch.order, rng)
    variance = sigma2 * (1.0 + leverage) + own
    for i in range(used):
        k = scratch.order[i]
        new_error = error + change(view.fit.G, view.g, code, k)
        new_leverage = leverage + change(view.fit.P, view.q, code, k)
        new_variance = sigma2 * (1.0 + new_leverage) + own
        gain = 0.5 * (error / variance - new_error / new_variance - D * np.log(new_variance / variance))
        flips = gain > thresholds[k] if code[k] == 0 else -gain <= thresholds[k]
        if flips:
            flip(k, used, code, view)
            error, leverage, variance = new_error, new_leverage, new_variance
    return error, leverage


@compiled()
def draw_count(error, variance, D, rho2, rate, rng):  # type: ignore[no-untyped-def]
    """Number k of new features: Poisson(k; rate) times the density of the row with variance + k rho2.

    Up to twice the k of the best density its logarithm is concave, and beyond that it falls: from twice the rate on,
    a negligible weight is followed by smaller ones only.
    """
    log_weights = np.empty(8)
    k, poisson, most = 0, 0.0, -np.inf
    while True:
        if k == len(log_weights):
            log_weights = np.append(log_weights, log_weights)
        total = variance + k * rho2
        log_weights[k] = poisson - 0.5 * (D * np.log(total) + error / total)
        most = max(most, log_weights[k])
        # exp(-40) is below the rounding of double precision; what is not a number must not go on for ever.
        if k >= 2.0 * rate and not log_weights[k] >= most - 40.0:
            break
        k += 1
        poisson += np.log(rate / k)
    total = 0.0
    for j in range(k):
        total += np.exp(log_weights[j] - most)
    target, cumulative = rng.random() * total, 0.0
    for j in range(k):
        cumulative += np.exp(log_weights[j] - most)
        if cumulative > target:
            return j
    return k


@compiled(inline="always")
def drop_own(X, n, table, used, ratio, collapsed, scratch):  # type: ignore[no-untyped-def]
    """Features that no row but n has go. Returns how many are left, and how many of those gone row n had."""
    Z, own, all_shared = table.Z, 0, True
    for k in range(used):
        scratch.shared[k] = table.sizes[k] > Z[n, k]
        if not scratch.shared[k]:
            all_shared = False
            own += Z[n, k]
    if not all_shared:
        used = drop_dependent(Z, table.fit.A, used, scratch.shared)
        renew(X, table, used, ratio, collapsed, scratch.equations)
    return used, own


@compiled(inline="always")
def give_own(X, n, table, used, new, sigma2, ratio, collapsed, scratch, rng):  # type: ignore[no-untyped-def]
    """New features that row n alone has, their A drawn if it is part of the state: there must be room."""
    Z, A, gram = table.Z, table.fit.A, scratch.equations.gram
    if not collapsed:
        stand(X[n], 1.0, Z[n], used, table.fit, scratch.others)
        for i in range(new):
            for j in range(new):
                gram[i, j] = 1.0
            for d in range(A.shape[1]):
                A[used + i, d] = scratch.others.r[d]
        draw_features(gram, new, sigma2, ratio, scratch.equations.factor, A[used:], rng)
    for k in range(used, used + new):
        for m in range(len(Z)):
            Z[m, k] = m == n
    renew(X, table, used + new, ratio, collapsed, scratch.equations)


@compiled()
def sweep_rows(X, table, used, parameters, rules, scratch, rng):  # type: ignore[no-untyped-def]
    """The code of every row drawn, in order; features come and go. table : INOUT.

    Returns how many features there are, -1 if there was no room.
    """
    (N, room), D = table.Z.shape, X.shape[1]
    sigma2, rho2, mass = parameters
    ratio, fit, view, code = sigma2 / rho2, table.fit, scratch.others, scratch.code
    for n in range(N):
        x, z = X[n], table.Z[n]
        used, own = drop_own(X, n, table, used, ratio, rules.collapsed, scratch)
        h = stand(x, 1.0, z, used, fit, view)
        error, leverage = take_out(1.0, h, used, fit, view)
        error, leverage = draw_bits(z, used, table.sizes, D, error, leverage, sigma2, own * rho2, scratch, rng)
        new = draw_count(error, sigma2 * (1.0 + leverage), D, rho2, mass / N, rng)
        moved = False
        for k in range(used):
            moved = moved or code[k] != z[k]
            table.sizes[k] += np.int64(code[k]) - np.int64(z[k])
            z[k] = code[k]
        if new:
            if used + new > room:
                return -1
            give_own(X, n, table, used, new, sigma2, ratio, rules.collapsed, scratch, rng)
            used += new
        elif moved and rules.collapsed:
            put_in(x, 1.0, h, z, used, fit, view)
    return used


@compiled()
def draw_gamma(shape, rate, rng):  # type: ignore[no-untyped-def]
    """Gamma number, kept off zero."""
    return max(rng.standard_gamma(shape), 1e-200) / rate


@compiled(fastmath=REORDER)
def square(A, used):  # type: ignore[no-untyped-def]
    """Sum of the squared entries of the features."""
    total = 0.0
    for k in range(used):
        for d in range(A.shape[1]):
            total += A[k, d] * A[k, d]
    return total


@compiled(inline="always")
def draw_parameters(X, Z, A, used, parameters, rules, errors, rng):  # type: ignore[no-untyped-def]
    """The parameters given Z and A, those that are sampled. errors is scratch."""
    (N, D), (sigma2, rho2, mass) = X.shape, parameters
    shape, scale = rules.variance_shape, rules.variance_scale
    if rules.sample_sigma2:
        row_errors(X, Z, A, used, errors)
        sigma2 = 1.0 / draw_gamma(shape + 0.5 * N * D, scale + 0.5 * errors.sum(), rng)
    if rules.sample_rho2:
        rho2 = 1.0 / draw_gamma(shape + 0.5 * used * D, scale + 0.5 * square(A, used), rng)
    if rules.sample_mass:
        harmonic = 0.0
        for n in range(N):
            harmonic += 1.0 / (n + 1)
        mass = draw_gamma(rules.mass_shape + used, rules.mass_rate + harmonic, rng)
    return Parameters(sigma2, rho2, mass)


@compiled(inline="always")
def draw_rest(X, table, used, parameters, rules, scratch, rng):  # type: ignore[no-untyped-def]
    """A and the parameters after the rows; A is forgotten where it is integrated out. table : INOUT."""
    fit, equations, draw, D = table.fit, scratch.equations, scratch.draw, X.shape[1]
    sigma2, ratio = parameters.sigma2, parameters.sigma2 / parameters.rho2
    count_and_sum(X, table.Z, used, table.sizes, equations)
    copy_rows(equations.sums, used, D, draw)
    draw_features(equations.gram, used, sigma2, ratio, equations.factor, draw, rng)
    parameters = draw_parameters(X, table.Z, draw, used, parameters, rules, scratch.errors, rng)
    if rules.collapsed:
        set_up(used, parameters.sigma2 / parameters.rho2, equations, fit)
    else:
        copy_rows(draw, used, D, fit.A)
        square_features(fit.A, used, fit.G)
    return parameters


@compiled()
def run_gibbs(X, table, used, parameters, rules, trace, scratch, rng):  # type: ignore[no-untyped-def]
    """Sweeps of a chain, as many as the trace takes.

    table : INOUT, of which Z and A are given at the start

    Returns whether there was room; if not, neither table nor trace are of use.
    """
    N, D = X.shape
    renew(X, table, used, parameters.sigma2 / parameters.rho2, rules.collapsed, scratch.equations)
    for s in range(len(trace.used)):
        used = sweep_rows(X, table, used, parameters, rules, scratch, rng)
        if used < 0:
            return False
        parameters = draw_rest(X, table, used, parameters, rules, scratch, rng)
        trace.used[s] = used
        trace.sigma2[s], trace.rho2[s], trace.mass[s] = parameters
        copy_rows(table.Z, N, used, trace.Z[s])
        copy_rows(table.fit.A, used, D, trace.A[s])
    return True
