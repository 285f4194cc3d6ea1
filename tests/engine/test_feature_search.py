"""The search of features: its codes, its descent, its moves and what they reach."""

from collections import Counter
from functools import cache
from itertools import count, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from madbayes.engine import feature_search, kernels
from madbayes.engine.blocks import Workers
from madbayes.engine.feature_moves import feature_moves, leave_out
from madbayes.engine.feature_search import (
    BASES,
    GLANCE,
    SPARE,
    FeatureLandscape,
    all_bases,
    deletion_costs,
    direction_columns,
    exchange_gains,
    explained,
    join_costs,
    rebased,
    row_columns,
)
from madbayes.engine.kernels import search as kernel
from madbayes.engine.kernels.annealing import FRESH, LANES, POOL
from madbayes.engine.kernels.side_by_side import AT_ONCE
from madbayes.engine.reductions import joined
from madbayes.engine.search import ABREAST, STRIDE, Search, report, search
from madbayes.model import bp_means_objective
from madbayes.paper import allocations, exhaustive

tables = st.tuples(st.integers(2, 9), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-6, 6).map(lambda i: i / 2))
)
penalties = st.sampled_from([0.0, 0.3, 1.0, 4.0, 20.0, 1e6])
seeds = st.integers(0, 2**16)


def linear_gaussian(N, D, K, sigma=0.5, p=0.5, seed=0):
    """Rows that are sums of features, and noise; and which features each has."""
    g = np.random.default_rng(seed)
    Z = g.random((N, K)) < p
    A = g.normal(size=(K, D))
    return Z @ A + sigma * g.normal(size=(N, D)), Z.astype(np.uint8)


def error_of(X, Z, weights=None):
    """Squared error of least squares by a library's routine, which knows nothing of ours."""
    roots = np.ones((len(X), 1)) if weights is None else np.sqrt(weights)[:, None]
    A = np.linalg.lstsq(roots * Z, roots * X, rcond=None)[0]
    return float(((roots * (X - Z @ A)) ** 2).sum())


def all_codes(K):
    return (np.arange(2**K)[:, None] >> np.arange(K)) & 1


def code_errors(X, A):
    """Squared error of each row for each of the 2^K codes."""
    return ((X[:, None] - all_codes(len(A)) @ A) ** 2).sum(axis=2)


def search_rows(X, A, Z, node_limit):
    """Z : changed to better codes of the rows; how many changed."""
    G, B = A @ A.T, Z @ (A @ A.T) - X @ A.T
    return kernel.search_rows(B, G, (X**2).sum(axis=1), Z, len(A), 1e-12, node_limit)


def flip_rows(X, A, Z):
    """Z : changed by flips of one or two bits of the rows; how many changed."""
    return kernel.flip_rows(X, A, A @ A.T, (X**2).sum(axis=1), Z, len(A), 1e-12)


def compare_rows(X, A, Z):
    """Z : changed to the best codes of the rows, all of which are compared; how many changed."""
    return kernel.compare_rows(X, A, A @ A.T, (X**2).sum(axis=1), Z, len(A), 1e-12, np.empty(Z.shape))


def random_weights(rng, N):
    """Unequal ones, or none."""
    return None if rng.random() < 0.3 else 10.0 ** rng.uniform(-2, 2, size=N)


def best_of(landscape, seed=0, options=None, workers=None):
    numbers = (int(np.random.default_rng([seed, i]).integers(2**31)) for i in count())
    lineages = search(landscape, feature_moves, options or Search(), numbers, workers or Workers(1))
    assert lineages[0].best is not None
    return lineages[0].best


def assert_valid(X, solution, penalty, weights=None):
    """Zeros and ones, independent features, least squares, and the value that the objective has there."""
    Z, A = solution.groups, solution.A
    scale = float((X**2).sum() if weights is None else weights @ (X**2).sum(axis=1))
    assert Z.shape == (len(X), solution.K)
    assert A.shape == (solution.K, X.shape[1])
    assert np.isin(Z, (0, 1)).all()
    assert np.linalg.matrix_rank(Z) == solution.K
    value = bp_means_objective(penalty)(X, Z, A, weights)
    assert solution.value == pytest.approx(value, rel=1e-9, abs=1e-9 * scale)
    fitted = error_of(X, Z, weights) + penalty * solution.K
    assert solution.value == pytest.approx(fitted, rel=1e-9, abs=1e-9 * scale)


# Codes of rows


@st.composite
def features(draw):
    """Up to 8 features of few columns: dependent ones, doubled ones and zeros among them, in any unit."""
    rng = np.random.default_rng(draw(seeds))
    K, D = draw(st.integers(1, 8)), draw(st.integers(1, 9))
    A = rng.normal(size=(K, D)) if draw(st.booleans()) else rng.integers(-2, 3, size=(K, D)).astype(float)
    for k in range(1, K):
        what = draw(st.sampled_from(["own", "own", "doubled", "zero", "opposite"]))
        A[k] *= what != "zero"
        if what in ("doubled", "opposite"):
            A[k] = A[k - 1] if what == "doubled" else -A[k - 1]
    X = rng.integers(2, size=(12, K)) @ A + draw(st.sampled_from([0.0, 0.3, 3.0])) * rng.normal(size=(12, D))
    return X, A, rng.integers(2, size=(12, K)).astype(np.uint8)


@given(features(), st.sampled_from([1e-100, 1e-50, 1.0, 1e50, 1e100]), st.booleans())
def test_codes_of_rows_are_the_best_of_all(problem, unit, compares):
    """Branch and bound that never gives up, and all codes by tables, against all 2^K codes one by one."""
    X, A, Z = problem[0] * unit, problem[1] * unit, problem[2].copy()
    changed = compare_rows(X, A, Z) if compares else search_rows(X, A, Z, 10**6)
    assert changed == (problem[2] != Z).any(axis=1).sum()
    X, A = problem[:2]
    errors = ((X - Z @ A) ** 2).sum(axis=1)
    slack = 1e-10 * ((X**2).sum(axis=1) + (A**2).sum() * len(A))
    assert (errors <= code_errors(X, A).min(axis=1) + slack).all()


@given(features(), st.sampled_from([1e-100, 1e-50, 1.0, 1e50, 1e100]), st.booleans())
def test_flips_alone_leave_no_pair_of_bits_to_flip(problem, unit, looks):
    """One row after the other, or after a look at many at once."""
    X, A, Z = problem[0] * unit, problem[1] * unit, problem[2].copy()
    changed = flip_rows(X, A, Z) if looks else search_rows(X, A, Z, 0)
    assert changed == (problem[2] != Z).any(axis=1).sum()
    X, A = problem[:2]
    errors = code_errors(X, A)
    own = ((X - Z @ A) ** 2).sum(axis=1)
    near = np.abs(Z[:, None].astype(int) - all_codes(len(A))).sum(axis=2) <= 2
    slack = 1e-10 * ((X**2).sum(axis=1) + (A**2).sum() * len(A))
    assert (own <= np.where(near, errors, np.inf).min(axis=1) + slack).all()


def test_codes_that_are_best_already_stay():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 8))
    Z = rng.integers(2, size=(50, 6)).astype(np.uint8)
    X, kept = Z @ A, Z.copy()
    for node_limit in (0, 100):
        assert search_rows(X, A, Z, node_limit) == 0
        assert_array_equal(Z, kept)
    assert compare_rows(X, A, Z) == 0
    assert_array_equal(Z, kept)


@pytest.mark.parametrize("n_rows", [1, AT_ONCE, 2 * AT_ONCE + 9])
@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_codes_of_many_rows_are_the_best_of_all(K, n_rows):
    """So many are compared at once, and the last ones, if fewer, no less."""
    rng = np.random.default_rng(K)
    X, A = rng.normal(size=(n_rows, 4)), rng.normal(size=(K, 4))
    Z = rng.integers(2, size=(n_rows, K)).astype(np.uint8)
    flipped, kept = Z.copy(), Z.copy()
    compare_rows(X, A, Z)
    assert_array_equal(Z, all_codes(K)[code_errors(X, A).argmin(axis=1)])
    assert flip_rows(X, A, flipped) == search_rows(X, A, kept, 0)
    assert_array_equal(flipped, kept)


@pytest.mark.parametrize("K", [kernel.FEW, kernel.FEW + 1])
def test_polishing_leaves_no_better_code_however_many_features_there_are(K):
    """Up to so many all codes are compared, beyond by branch and bound, which does not give up here."""
    X, _ = linear_gaussian(60, 20, K, sigma=0.3)
    landscape = FeatureLandscape.of(X, 0.0, K=K)
    solution = landscape.descend(landscape.rough_start(np.random.default_rng(1)), node_limit=10**6)
    own = ((X - solution.groups @ solution.A) ** 2).sum(axis=1)
    assert_allclose(own, code_errors(X, solution.A).min(axis=1), rtol=1e-9)


@given(seeds, st.integers(1, 20), st.integers(1, 6))
def test_sums_follow_the_codes(seed, N, K):
    rng = np.random.default_rng(seed)
    X, before = rng.normal(size=(N, 3)), rng.integers(2, size=(N, K), dtype=np.uint8)
    Z = np.where(rng.random((N, K)) < 0.2, 1 - before, before).astype(np.uint8)
    pairs, sums = before.T.astype(float) @ before, before.T @ X
    kernel.follow(X, Z, before, K, pairs, sums)
    assert_array_equal(before, Z)
    assert_array_equal(pairs, Z.T.astype(float) @ Z)
    assert_allclose(sums, Z.T @ X, atol=1e-12)


@given(features())
def test_the_triangle_of_branch_and_bound_is_a_factor(problem):
    A = problem[1]
    K, G = len(A), A @ A.T
    order, R, ridges, slack = np.empty(K, dtype=np.int64), np.zeros((K, K)), np.empty(K), np.empty(K)
    kernel.factor(G, K, order, R, np.empty((K, K)), ridges, slack)
    assert (ridges > 0).all()
    assert_array_equal(np.sort(order), np.arange(K))
    assert_array_equal(R, np.triu(R))
    expected = (G + np.diag(ridges))[np.ix_(order, order)]
    assert_allclose(R.T @ R, expected, rtol=1e-9, atol=1e-9 * np.trace(G))


@given(features(), seeds)
def test_flips_cost_at_least_what_the_slack_says(problem, seed):
    """By which rows are known to have their best code: the quadratic form is never below that of the diagonal."""
    A, rng = problem[1], np.random.default_rng(seed)
    K, slack = len(A), np.empty(len(A))
    scratch = np.empty(K, dtype=np.int64), np.zeros((K, K)), np.empty((K, K)), np.empty(K)
    kernel.factor(A @ A.T, K, *scratch, slack)
    flips = rng.integers(-1, 2, size=(50, K))
    assert (((flips @ A) ** 2).sum(axis=1) >= flips**2 @ slack - 1e-9 * (A**2).sum()).all()


@given(features())
def test_gradients_are_the_same_by_products_and_by_differences(problem):
    X, A, Z = problem
    G, near, far = A @ A.T, np.empty(Z.shape), np.empty(Z.shape)
    kernel.gradients(X, A, G, Z, len(A), False, near)
    kernel.gradients(X, A, G, Z, len(A), True, far)
    expected = -(X - Z @ A) @ A.T
    assert_allclose(near, expected, atol=1e-9 * (1 + np.abs(X).max()) * (1 + np.abs(A).sum()))
    assert_allclose(far, expected, atol=1e-9 * (1 + np.abs(X).max()) * (1 + np.abs(A).sum()))


# Polish


@st.composite
def rough_solutions(draw):
    """A table, weights, and any codes for up to 8 features: empty, doubled and dependent ones among them."""
    rng = np.random.default_rng(draw(seeds))
    N, D, K = draw(st.integers(2, 14)), draw(st.integers(1, 9)), draw(st.integers(0, 8))
    Z = rng.integers(2, size=(N, K)).astype(np.uint8)
    for k in range(1, K):
        what = draw(st.sampled_from(["own", "own", "own", "doubled", "empty"]))
        Z[:, k] = {"own": Z[:, k], "doubled": Z[:, k - 1], "empty": 0 * Z[:, k]}[what]
    X = Z @ rng.normal(size=(K, D)) + draw(st.sampled_from([0.0, 0.5, 2.0])) * rng.normal(size=(N, D))
    return X, random_weights(rng, N), Z


@given(rough_solutions(), penalties)
def test_polish_is_valid_and_never_worse(problem, penalty):
    X, weights, Z = problem
    kept = Z.copy()
    landscape = FeatureLandscape.of(X, penalty, weights)
    found = landscape.polish(Z)
    assert_array_equal(Z, kept)
    assert_valid(X, found, penalty, weights)
    before = error_of(X, Z, weights) + penalty * Z.shape[1]
    assert found.value <= before * (1 + 1e-9) + 1e-12 * landscape.unit * landscape.table.total


@given(rough_solutions(), penalties)
def test_polish_ends_at_the_best_of_all_codes(problem, penalty):
    X, weights, Z = problem
    with pytest.MonkeyPatch.context() as patch:  # branch and bound that never gives up
        patch.setattr(feature_search, "NODE_LIMIT", 10**6)
        found = FeatureLandscape.of(X, penalty, weights).polish(Z)
    errors = ((X - found.groups @ found.A) ** 2).sum(axis=1)
    slack = 1e-9 * ((X**2).sum(axis=1) + found.K * (found.A**2).sum())
    assert (errors <= code_errors(X, found.A).min(axis=1) + slack).all()


@given(rough_solutions())
def test_the_node_limit_is_no_limit_for_five_features(problem):
    """Of five bits there are 62 nodes."""
    X, weights, Z = problem
    assert feature_search.NODE_LIMIT >= 62
    found = FeatureLandscape.of(X, 0.0, weights).polish(Z[:, :5])
    errors = ((X - found.groups @ found.A) ** 2).sum(axis=1)
    slack = 1e-9 * ((X**2).sum(axis=1) + found.K * (found.A**2).sum())
    assert (errors <= code_errors(X, found.A).min(axis=1) + slack).all()


@given(rough_solutions(), penalties)
def test_polish_leaves_no_feature_that_costs_more_than_it_explains(problem, penalty):
    X, weights, Z = problem
    found = FeatureLandscape.of(X, penalty, weights).polish(Z)
    slack = 1e-9 * (X**2 if weights is None else weights[:, None] * X**2).sum()
    for k in range(found.K):
        fewer = np.delete(found.groups, k, axis=1)
        assert error_of(X, fewer, weights) + penalty * (found.K - 1) >= found.value - slack - 1e-9 * found.value


@pytest.mark.parametrize("unit", [1e-100, 1e-30, 1e30, 1e100])
def test_polish_follows_the_units(unit):
    X, _ = linear_gaussian(40, 5, 6)
    Z = np.random.default_rng(1).integers(2, size=(40, 6)).astype(np.uint8)
    found = FeatureLandscape.of(X, 3.0).polish(Z)
    scaled = FeatureLandscape.of(X * unit, 3.0 * unit**2).polish(Z)
    assert_array_equal(scaled.groups, found.groups)
    assert_allclose(scaled.A / unit, found.A, rtol=1e-9)
    assert scaled.value / unit**2 == pytest.approx(found.value, rel=1e-9)


@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_values_are_those_of_the_objective_far_from_the_origin(offset):
    """A feature of all rows explains nearly everything: what it leaves must not be lost in rounding."""
    X, Z = linear_gaussian(60, 5, 3)
    found = FeatureLandscape.of(X + offset, 20.0).polish(np.column_stack([np.ones(60, dtype=np.uint8), Z]))
    value = bp_means_objective(20.0)(X + offset, found.groups, found.A)
    assert found.value == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("offset", [1e5, 1e6, 1e7])
def test_a_search_far_from_the_origin_ends_as_low_as_nearer_to_it(offset):
    """With a feature of all rows the offset is at no one's expense: codes for one are as good for the other."""
    X, _ = linear_gaussian(60, 5, 3)
    near, far = (
        best_of(FeatureLandscape.of(X + shift, 20.0), options=Search(max_moves=300)) for shift in (1e3, offset)
    )
    values = [bp_means_objective(20.0)(X + offset, found.groups) for found in (near, far)]
    assert values[1] <= values[0] * 1.001


@pytest.mark.parametrize("offset", [1e6, 1e7, 1e8])
def test_codes_far_from_the_origin_are_the_best(offset):
    """Products of rows would have lost all digits at the last of these: 1e16 rounds to whole numbers."""
    X, Z = linear_gaussian(60, 5, 3)
    landscape = FeatureLandscape.of(X + offset, 0.0)
    assert landscape.is_far
    found = landscape.polish(np.column_stack([np.ones(60, dtype=np.uint8), np.roll(Z, 1, axis=0)]))
    rest = np.flatnonzero(found.groups.all(axis=0))
    base = found.A[rest].sum(axis=0)
    others = np.delete(found.A, rest, axis=0)
    errors = ((X + offset - base)[:, None] - all_codes(len(others)) @ others) ** 2
    own = ((X + offset - found.groups @ found.A) ** 2).sum(axis=1)
    assert (own <= errors.sum(axis=2).min(axis=1) * (1 + 1e-6) + 1e-6).all()


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1e150, 1e300])
def test_huge_and_tiny_weights(unit):
    """All the same: the same features, the value in their unit; no overflow on the way."""
    X, _ = linear_gaussian(60, 5, 3)
    weights = np.random.default_rng(0).uniform(0.1, 1, size=60) / 1e3
    for limit in ({}, {"K": 3}):
        price = 0.0 if limit else 0.02
        plain = best_of(FeatureLandscape.of(X, price, weights, **limit), options=Search(max_moves=60))
        found = best_of(FeatureLandscape.of(X, price * unit, weights * unit, **limit), options=Search(max_moves=60))
        assert found.K == plain.K > 0
        assert found.value / unit == pytest.approx(plain.value, rel=1e-9)


def test_one_huge_weight():
    X, _ = linear_gaussian(30, 4, 2)
    weights = np.ones(30)
    weights[3] = 1e300
    found = best_of(FeatureLandscape.of(X, 20.0, weights), options=Search(max_moves=60))
    assert np.isfinite(found.value)
    assert_allclose((found.groups @ found.A)[3], X[3])  # nothing else is worth anything


@given(rough_solutions(), st.integers(1, 6))
def test_polish_brings_about_the_number_that_is_given(problem, K):
    X, weights, Z = problem
    landscape = FeatureLandscape.of(X, 0.0, weights, K=K)
    found = landscape.polish(Z[:, :K])
    if np.isfinite(found.value):
        assert_valid(X, found, 0.0, weights)
        assert min(K, len(X)) == found.K or landscape.is_exact(found)
    assert K >= found.K


@given(tables, penalties, seeds)
def test_the_stronger_polish_of_few_rows_is_never_worse(X, penalty, seed):
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, len(X))
    for limit in ({}, {"K": 2}):
        landscape = FeatureLandscape.of(X, penalty, weights, **limit)
        solution = landscape.start(rng)
        (stronger,) = landscape.stronger
        harder = stronger.polish(solution, rng)
        assert_valid(X, harder, penalty, weights)
        assert harder.value <= solution.value * (1 + 1e-9) + 1e-9


def test_what_is_nearly_as_good_is_polished_by_collapsed_bp_means():
    """Which never makes it worse, and often better; what is better, as good or much worse is left as it is."""
    rng, better = np.random.default_rng(0), 0
    for instance in range(10):
        X = np.random.default_rng(instance).normal(size=(40, 10))
        landscape = FeatureLandscape.of(X, 0.0, K=5)
        solution = landscape.start(rng)
        found = landscape.polish_near(solution, solution.value / 1.01)
        assert_valid(X, found, 0.0)
        assert found.value <= solution.value * (1 + 1e-9)
        assert found.passes > solution.passes
        better += found.value < solution.value * (1 - 1e-9)
        for best in (1.01 * solution.value, solution.value, solution.value / 1.1):
            assert landscape.polish_near(solution, best) is solution
    assert better >= 5


# Annealing


def annealed_row(X, Z, weights, n, limits):
    """The code of row n, changed one bit after the other by the squared error of least squares, of a library's routine.

    A row without which features are not determined keeps its code.
    """
    Z, is_spared = Z.copy(), np.linalg.matrix_rank(np.delete(Z, n, axis=0)) == Z.shape[1]
    for k, limit in enumerate(limits if is_spared else ()):
        flipped = Z.copy()
        flipped[n, k] ^= 1
        if error_of(X, flipped, weights) - error_of(X, Z, weights) < limit:
            Z = flipped
    return Z[n]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_annealing_flips_bits_by_what_they_cost(seed, weighted):
    """The same flips as by least squares for each, with the same random numbers, for more sweeps than go by updates.

    Rows of a block know only what was before it; the second block is not full.
    """
    X, Z = linear_gaussian(2 * LANES - 3, 5, 3, sigma=1.0, seed=seed)
    weights = np.random.default_rng(seed).uniform(0.2, 1.0, size=len(X)) if weighted else None
    temperatures, expected, ours = np.geomspace(8.0, 0.1, 2 * FRESH), Z.copy(), Z.copy()
    rng = np.random.default_rng(seed)
    chance = rng.standard_exponential(POOL)
    for temperature in temperatures:
        for start in (0, LANES):
            drawn = [int(rng.random() * (POOL - LANES)) for _ in range(3)]
            limits = temperature * np.array([chance[first : first + LANES] for first in drawn])
            rows = range(start, min(start + LANES, len(X)))
            expected[rows] = [annealed_row(X, expected, weights, n, limits[:, n - start]) for n in rows]
    annealed(X, ours, temperatures, np.random.default_rng(seed), weights)
    assert_array_equal(ours, expected)
    assert not np.array_equal(ours, Z)


def annealed(X, Z, temperatures, rng, weights=None):
    """Z : changed by annealing, in blocks as small as can be."""
    w = np.empty(0) if weights is None else weights
    kernels.anneal(X, (X**2).sum(axis=1), w, Z, np.asarray(temperatures), LANES, rng)


@given(rough_solutions(), seeds, st.sampled_from([1e-300, 0.1, 1e3]))
def test_annealing_keeps_features_apart(problem, seed, temperature):
    """However many rows change at once, no feature becomes a combination of others."""
    X, weights, Z = problem
    solution = FeatureLandscape.of(X, 0.0, weights).descend(Z)
    Z = np.array(solution.groups, order="C")
    annealed(X, Z, np.full(12, temperature), np.random.default_rng(seed), weights)
    assert set(np.unique(Z)) <= {0, 1}
    assert np.linalg.matrix_rank(Z) == solution.K


def test_rows_that_together_would_undo_a_feature_keep_their_codes():
    """Each alone may leave it, and it pays for each; both at once may not."""
    X = np.zeros((LANES, 3))
    X[2:, 0] = 5.0
    Z = np.zeros((LANES, 2), dtype=np.uint8)
    Z[:2, 0] = Z[2:, 1] = 1
    annealed(X, Z, [1e-300], np.random.default_rng(0))
    assert Z[:, 0].any()
    assert np.linalg.matrix_rank(Z) == 2


def test_a_row_that_alone_has_a_feature_keeps_its_code():
    """Without it the others do not tell what the feature is."""
    X, Z = linear_gaussian(12, 4, 2)
    Z = np.column_stack([Z, np.eye(12, 1, dtype=np.uint8)])
    before = Z[0].copy()
    annealed(X, Z, [1e3], np.random.default_rng(0))
    assert_array_equal(Z[0], before)
    assert Z[1:, 2].any()  # from now on it might change, too


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("limit", [{"K": 8}, {}])
def test_annealing_leads_out_of_the_local_optima_of_noise(limit, weighted):
    """From where collapsed BP-means ends, on most tables; where it leads to is as valid."""
    lower = 0
    for instance in range(10):
        rng = np.random.default_rng(instance)
        X, weights = rng.normal(size=(60, 12)), rng.uniform(1, 9, size=60) if weighted else None
        landscape = FeatureLandscape.of(X, 0.0 if limit else 20.0, weights, **limit)
        start = landscape.polish_collapsed(landscape.start(rng))
        found = landscape.anneal(start, rng)
        assert_valid(X, found, landscape.penalty, weights)
        lower += found.value < start.value * (1 - 1e-9)
    assert lower >= 6


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5, 1e6, 1e7, 1e8])
def test_annealing_far_from_the_origin(offset):
    """Nearly the planted features are found again, or, where products have no digits left, kept."""
    X, Z = linear_gaussian(150, 12, 5)
    landscape = FeatureLandscape.of(X + offset, 0.0, K=6)
    start = landscape.polish(np.column_stack([np.ones(150, dtype=np.uint8), Z]))
    found = landscape.anneal(start, np.random.default_rng(0))
    assert found.value <= 1.02 * start.value
    assert (found is start) == (offset > 1e6)


def test_annealing_ends_with_better_columns_of_what_is_lower(monkeypatch):
    """Of what there was, where chance has led to nothing lower."""
    refined = []
    monkeypatch.setattr(FeatureLandscape, "refined", lambda self, one, rng: refined.append(one) or one)
    for seed in range(8):
        landscape, start = noise_optimum(seed)
        for one in (start, start._replace(value=0.5 * start.value)):
            landscape.anneal(one, np.random.default_rng(0))
    starts, of_much_lower = refined[::2], refined[1::2]
    assert sum(error_of(noise_optimum(i)[0].table.X, one.groups) < noise_optimum(i)[1].value * (1 - 1e-9)
               for i, one in enumerate(starts)) >= 3  # fmt: skip
    assert all(one.value == 0.5 * noise_optimum(i)[1].value for i, one in enumerate(of_much_lower))


@pytest.mark.parametrize(("worse", "expected"), [(1.15, []), (0.9, ["polish_collapsed", "refined"])])
def test_only_what_comes_near_the_best_is_polished_further(monkeypatch, worse, expected):
    """Of noise, whatever annealing leads to is about as good."""
    landscape, start = noise_optimum(0)
    called = []
    for name in ("polish_collapsed", "refined"):
        monkeypatch.setattr(landscape, name, lambda one, *_, name=name: called.append(name) or one)
    found = landscape.shaken(start, start.value / worse, np.random.default_rng(0))
    assert 0.95 * start.value < found.value < 1.1 * start.value
    assert called == expected


def test_equal_weights_are_only_a_unit():
    X, Z = linear_gaussian(60, 8, 3)
    for limit in ({}, {"K": 3}):
        equal, plain = (FeatureLandscape.of(X, 0.0, w, **limit) for w in (np.full(60, 7.0), None))
        assert not equal.table.weights.size
        found, expected = equal.polish(Z), plain.polish(Z)
        assert_array_equal(found.groups, expected.groups)
        assert found.value == pytest.approx(7 * error_of(X, found.groups))
    assert FeatureLandscape.of(X, 0.0, np.linspace(1, 2, 60)).table.weights.size


def test_nothing_is_annealed_where_nothing_is_left():
    X, Z = linear_gaussian(30, 6, 3, sigma=0.0)
    landscape = FeatureLandscape.of(X, 0.0)
    for solution in (landscape.simplest(), landscape.polish(Z)):
        assert landscape.anneal(solution, np.random.default_rng(0)) is solution


@pytest.mark.parametrize("K", [3, None])
def test_a_brief_start_tries_less_but_not_of_few_rows(monkeypatch, K):
    tried, made = [], {}

    def counted(name):
        make = getattr(FeatureLandscape, name)
        monkeypatch.setattr(FeatureLandscape, name, lambda self, rng: tried.append(name) or make(self, rng))

    for name in ("seeded", "of_rows", "_start_greedily"):
        counted(name)
    for N in (60, 15):
        X, _ = linear_gaussian(N, 8, 3)
        landscape = FeatureLandscape.of(X, 20.0, K=K)
        for is_brief in (False, True):
            assert_valid(X, landscape.start(np.random.default_rng(0), is_brief), 20.0)
            made[N, is_brief] = Counter(tried)
            tried.clear()
    assert made[60, True].keys() == made[60, False].keys() == {"seeded", "of_rows", "_start_greedily"}
    assert all(count < made[60, False][name] for name, count in made[60, True].items())
    assert made[15, True] == made[15, False] == made[60, False]


def test_at_a_price_a_start_is_as_good_as_a_greedy_one_and_others_with_as_many_features():
    """Seeds by themselves would open a feature for every row that is far from all: tens of them in this noise."""
    X, _ = linear_gaussian(200, 50, 10, sigma=0.5)
    landscape, made = FeatureLandscape.of(X, 60.0), []
    greedy = landscape.polish(landscape._start_greedily(np.random.default_rng(0)).groups)
    landscape.with_K = lambda K: made.append(K) or FeatureLandscape.with_K(landscape, K)
    start = landscape.start(np.random.default_rng(0))
    assert start.value <= greedy.value * (1 + 1e-12)
    assert made[0] <= 2 * 10


def noise_optimum(seed, N=60, D=30, K=8, weights=None):
    """A table of noise, and where collapsed BP-means ends in it."""
    rng = np.random.default_rng(seed)
    landscape = FeatureLandscape.of(rng.normal(size=(N, D)), 0.0, weights, K=K)
    return landscape, landscape.polish_collapsed(landscape.start(rng))


@pytest.mark.parametrize("weighted", [False, True])
def test_shaking_leads_out_of_the_local_optima_of_noise(weighted):
    """More often than the moves that it follows do without it, all of them tried as often."""
    ways, lower = ("shaken", "polish_near"), {"shaken": 0, "polish_near": 0}
    for instance in range(12):
        weights = np.random.default_rng(instance).uniform(1, 9, size=60) if weighted else None
        landscape, start = noise_optimum(instance, weights=weights)
        for way in ways:
            rng = np.random.default_rng(instance)
            for move in (feature_moves["scramble"], feature_moves["exchange"], feature_moves["split"]):
                found = landscape.polish(move(landscape, start, rng))
                extra = (rng,) if way == "shaken" else ()
                found = getattr(landscape, way)(found, start.value, *extra)
                assert_valid(landscape.table.X, found, 0.0, weights)
                lower[way] += found.value < start.value * (1 - 1e-9)
    assert lower["shaken"] >= 18
    assert lower["shaken"] >= 1.5 * lower["polish_near"]


def test_shaking_counts_its_passes_and_leaves_alone_what_is_much_worse():
    landscape, start = noise_optimum(0)
    found = landscape.shaken(start, start.value, np.random.default_rng(0))
    assert found.passes > start.passes + 50
    for best in (start.value / 1.2, start.value / 2):
        assert landscape.shaken(start, best, np.random.default_rng(0)) is start
    nothing = FeatureLandscape.of(landscape.table.X, 0.0, K=0).simplest()
    assert landscape.shaken(nothing, nothing.value, np.random.default_rng(0)) is nothing
    X, Z = linear_gaussian(30, 6, 3, sigma=0.0)
    planted = FeatureLandscape.of(X, 0.0, K=3)
    exact = planted.polish(Z)
    assert planted.shaken(exact, 1.0, np.random.default_rng(0)) is exact
    far = FeatureLandscape.of(landscape.table.X + 1e8, 0.0, K=8)
    solution = far.polish(start.groups)
    assert far.shaken(solution, solution.value, np.random.default_rng(0)) is solution


@pytest.mark.parametrize("weighted", [False, True])
def test_half_of_the_shakes_are_in_the_coarse_table(weighted, monkeypatch):
    """Each at the temperature of the noise there, in the units of the weights there; without one, none is."""
    weights = np.random.default_rng(5).uniform(1, 9, size=60) if weighted else None
    landscape, start = noise_optimum(0, weights=weights)
    seen, anneal = [], kernels.anneal

    def watched(X, squares, w, Z, temperatures, *args):
        noise = error_of(X, Z, w if weighted else None) / (w.sum() if weighted else len(X)) / X.shape[1]
        seen.append((X.shape[1], temperatures[0] / (2 * noise), temperatures[-1] / (2 * noise)))
        anneal(X, squares, w, Z, temperatures, *args)

    monkeypatch.setattr(kernels, "anneal", watched)
    rng = np.random.default_rng(0)
    for _ in range(40):
        landscape.shaken(start, start.value, rng)
    columns = [n_columns for n_columns, *_ in seen]
    assert set(columns) == {30, 8 + SPARE}
    assert 10 < columns.count(30) < 30
    warm, cold = np.array([heat for _, *heat in seen]).T
    assert_allclose(cold, 0.3)
    assert 1.0 <= warm.min() < 1.3
    assert 2.5 < warm.max() <= 3.0
    seen.clear()
    narrow, start = noise_optimum(0, D=8, weights=weights)
    narrow.shaken(start, start.value, rng)
    assert [n_columns for n_columns, *_ in seen] == [8]


def test_weights_in_other_units_change_nothing_for_shakes():
    weights = np.random.default_rng(5).uniform(1, 9, size=60)
    for unit in (1e-6, 1e6):
        for seed in range(6):  # in the table and in the coarse one
            found = []
            for scale in (1.0, unit):
                landscape, start = noise_optimum(1, weights=scale * weights)
                found.append(landscape.shaken(start, start.value, np.random.default_rng(seed)))
            assert found[1].value == pytest.approx(unit * found[0].value)


@pytest.mark.parametrize("limit", [{"K": 3}, {}])
def test_looking_around_finds_what_another_basis_leads_to(limit):
    """If any of all eighteen leads to something lower, and only then; else all of them were tried."""
    lower = 0
    for instance in range(30):
        rng = np.random.default_rng(instance)
        X = rng.normal(size=(40, 5))
        landscape = FeatureLandscape.of(X, 0.0 if limit else 20.0, **limit)
        solution = landscape.polish_collapsed(landscape.polish(landscape.start(rng).groups[:, :3]))
        if solution.K != 3:
            continue
        Z, values, passes = solution.groups, [], 0
        for j, k in permutations(range(3), 2):
            for column in (np.maximum(Z[:, j], Z[:, k]), Z[:, j] * (1 - Z[:, k]), (Z[:, j] + Z[:, k]) % 2):
                other = Z.copy()
                other[:, j] = column
                found = landscape.polish_near(landscape.polish(other), solution.value)
                values.append(found.value)
                passes += found.passes
        found = landscape.look_around(solution, rng)
        assert_valid(X, found, landscape.penalty)
        helps = min(values) < solution.value * (1 - 1e-9)
        assert (found.value < solution.value * (1 - 1e-9)) == helps
        assert found.passes == passes or helps
        assert found.passes <= passes
        lower += helps
    assert 3 <= lower <= 25


def test_other_bases_are_all_different():
    X, Z = linear_gaussian(60, 20, 8)
    solution = FeatureLandscape.of(X, 0.0).polish(Z)
    assert solution.K == 8
    others = {rebased(solution, *basis).tobytes() for basis in all_bases(8)}
    assert len(others - {solution.groups.tobytes()}) == len(all_bases(8)) == BASES
    assert all_bases(1) == all_bases(0) == []


@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_coarse_table_keeps_most_of_what_so_few_columns_can(is_weighted):
    """Products of weighted rows are those of the best approximation of its rank, which a library computes."""
    X, _ = linear_gaussian(60, 20, 4)
    weights = np.random.default_rng(1).uniform(0.1, 2, size=60) if is_weighted else None
    landscape = FeatureLandscape.of(X, 0.0, weights, K=4)
    roots = np.sqrt(landscape.weights)[:, None]
    U, s, _ = np.linalg.svd(roots * X, full_matrices=False)
    best = (U[:, : 4 + SPARE] * s[: 4 + SPARE] ** 2) @ U[:, : 4 + SPARE].T
    coarse = roots * landscape.coarse.table.X
    assert coarse.shape == (60, 4 + SPARE)
    assert_allclose(coarse @ coarse.T, best, atol=1e-9 * s[0] ** 2)
    assert landscape.coarse.cost(3) == landscape.cost(3)
    assert_array_equal(landscape.coarse.weights, landscape.weights)


@given(seeds, st.booleans())
def test_nothing_is_lost_in_the_coarse_table_if_the_rank_is_no_more(seed, is_weighted):
    """All codes have the same error in both, so polishing ends at the same value, and so does what is taken over."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3 + SPARE)) @ rng.normal(size=(3 + SPARE, 25))
    weights = rng.uniform(0.1, 2, size=40) if is_weighted else None
    landscape, Z = FeatureLandscape.of(X, 0.0, weights, K=3), rng.integers(2, size=(40, 3)).astype(np.uint8)
    solution = landscape.coarse.polish(Z)
    assert landscape.unit * solution.value == pytest.approx(landscape.polish(Z).value, rel=1e-9)
    assert landscape.taken_over(solution).value <= landscape.unit * solution.value * (1 + 1e-9)


@given(seeds)
def test_what_is_taken_over_is_a_solution_of_the_table(seed):
    X, _ = linear_gaussian(40, 15, 4, seed=seed)
    landscape = FeatureLandscape.of(X, 0.0, K=4)
    solution = landscape.coarse.start(np.random.default_rng(seed))
    taken = landscape.taken_over(solution)
    assert_valid(X, taken, 0.0)
    assert taken.K == 4
    assert taken.value <= error_of(X, solution.groups) * (1 + 1e-9)


def test_there_is_a_coarse_table_only_for_many_columns_and_a_given_number():
    X, _ = linear_gaussian(40, 4 + SPARE, 4)
    assert FeatureLandscape.of(X, 0.0, K=4).coarse is None
    assert FeatureLandscape.of(X, 0.0, K=3).coarse is not None
    assert FeatureLandscape.of(X, 5.0, K=None).coarse is None


def test_rough_starts_are_made_of_rows():
    """Each feature is a row, and those have it which are nearer with it than without."""
    X, _ = linear_gaussian(30, 6, 3)
    columns = {tuple(((X - row) ** 2).sum(axis=1) < (X**2).sum(axis=1)) for row in X}
    Z = FeatureLandscape.of(X, 0.0, K=4).rough_start(np.random.default_rng(0))
    assert Z.shape == (30, 4)
    assert all(tuple(column) in columns for column in Z.astype(bool).T)
    assert FeatureLandscape.of(X[:3], 0.0, K=4).rough_start(np.random.default_rng(0)).shape == (3, 3)
    assert FeatureLandscape.of(X, 0.0, K=0).rough_start(np.random.default_rng(0)) is None
    assert FeatureLandscape.of(X, 5.0).rough_start(np.random.default_rng(0)) is None


def test_weights_are_repeated_rows():
    rng = np.random.default_rng(0)
    X, Z = linear_gaussian(30, 4, 5, sigma=1.0)
    times = rng.integers(1, 5, size=30)
    once = FeatureLandscape.of(X, 2.0, times.astype(float)).polish(Z)
    repeated = FeatureLandscape.of(np.repeat(X, times, axis=0), 2.0).polish(np.repeat(Z, times, axis=0))
    assert_array_equal(np.repeat(once.groups, times, axis=0), repeated.groups)
    assert once.value == pytest.approx(repeated.value, rel=1e-9)


# What features cost and explain


@given(rough_solutions())
def test_deletion_costs_are_what_the_squared_error_grows_by(problem):
    X, weights, Z = problem
    landscape = FeatureLandscape.of(X, 0.0, weights)
    solution = landscape.polish(Z)
    before = error_of(X, solution.groups, weights)
    grown = [error_of(X, np.delete(solution.groups, k, axis=1), weights) - before for k in range(solution.K)]
    assert_allclose(
        deletion_costs(landscape, solution), grown, rtol=1e-7, atol=1e-9 * landscape.unit * landscape.table.total
    )


@given(tables, seeds)
def test_what_a_first_feature_explains(X, seed):
    rng = np.random.default_rng(seed)
    weights, columns = random_weights(rng, len(X)), rng.integers(2, size=(len(X), 4)).astype(np.uint8)
    landscape = FeatureLandscape.of(X, 0.0, weights)
    total = error_of(X, np.zeros((len(X), 0)), weights)
    assert landscape.simplest().value == pytest.approx(total)
    fallen = [total - error_of(X, column[:, None], weights) for column in columns.T]
    assert_allclose(explained(landscape, X, columns), fallen, rtol=1e-9, atol=1e-9 * max(total, 1e-30))


@given(tables, seeds)
def test_directions_are_cut_where_that_explains_most(X, seed):
    """No other place to cut the same order explains more; checked for one column, which has one order."""
    rng = np.random.default_rng(seed)
    x, weights = X[:, :1], random_weights(rng, len(X))
    landscape = FeatureLandscape.of(x, 0.0, weights)
    columns = direction_columns(landscape, x, rng)
    order = x[:, 0].argsort(kind="stable")
    ends = [np.isin(np.arange(len(x)), rows[: n + 1]) for rows in (order, order[::-1]) for n in range(len(x))]
    most = explained(landscape, x, np.array(ends, dtype=np.uint8).T).max()
    assert explained(landscape, x, columns).max() == pytest.approx(most, rel=1e-9, abs=1e-12)


@given(tables, seeds)
def test_rows_have_a_feature_made_of_a_row_if_it_brings_them_nearer(X, seed):
    rng = np.random.default_rng(seed)
    columns = row_columns(FeatureLandscape.of(X, 0.0), X, rng)
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    expected = (distances < (X**2).sum(axis=1)[:, None]).astype(np.uint8)
    for column in columns.T:
        assert any((column == other).all() for other in expected.T)


@given(rough_solutions(), seeds)
def test_what_is_left_without_a_feature(problem, seed):
    X, weights, Z = problem
    landscape = FeatureLandscape.of(X, 0.0, weights)
    solution = landscape.polish(Z)
    if solution.K:
        fewer, R = leave_out(landscape, solution, np.random.default_rng(seed))
        assert fewer.shape == (len(X), solution.K - 1)
        error = (R**2).sum(axis=1) @ (np.ones(len(X)) if weights is None else weights)
        assert error == pytest.approx(
            error_of(X, fewer, weights), rel=1e-7, abs=1e-9 * landscape.unit * landscape.table.total
        )


# Moves


@pytest.mark.parametrize("limit", [{}, {"K": 3}, {"cap": 2}])
@given(tables, penalties, seeds)
def test_moves_propose_codes_that_can_be_polished(limit, X, penalty, seed):
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, len(X))
    penalty = 0.0 if "K" in limit else penalty
    landscape = FeatureLandscape.of(X, penalty, weights, **limit)
    solution = landscape.start(rng)
    assert_valid(X, solution, penalty, weights)
    kept = solution.groups.copy()
    for move in feature_moves.values():
        for _ in range(2):
            Z = move(landscape, solution, rng)
            assert_array_equal(solution.groups, kept)
            if Z is None:
                continue
            assert Z.shape[0] == len(X)
            assert np.isin(Z, (0, 1)).all()
            found = landscape.polish(Z)
            assert landscape.most >= found.K
            if np.isfinite(found.value):
                assert_valid(X, found, penalty, weights)
                assert "K" not in limit or landscape.most == found.K or landscape.is_exact(found)


@given(tables, seeds)
def test_starts_have_the_number_that_is_given(X, seed):
    for K in (1, 2, 4):
        landscape = FeatureLandscape.of(X, 0.0, K=K)
        start = landscape.start(np.random.default_rng(seed))
        if np.isfinite(start.value):
            assert min(K, len(X)) == start.K or landscape.is_exact(start)


@pytest.mark.parametrize("name", feature_moves)
def test_each_move_improves_something(name):
    """From nothing, from too few features, and from two features in one."""
    X, Z = linear_gaussian(60, 12, 4, sigma=0.1)
    landscape, rng = FeatureLandscape.of(X, 3.0), np.random.default_rng(0)
    fused = np.column_stack([Z[:, 0] | Z[:, 1], Z[:, 0] & Z[:, 1], Z[:, 2:]])
    starts = [landscape.descend(start) for start in (Z[:, :0], Z[:, :3], fused, 1 - Z)]
    starts += [landscape.start(np.random.default_rng(i)) for i in range(4)]
    lower = 0
    for start in starts:
        proposals = [feature_moves[name](landscape, start, rng) for _ in range(20)]
        lower += sum(landscape.polish(Z).value < start.value * (1 - 1e-6) for Z in proposals if Z is not None)
    assert lower


@given(tables, seeds)
def test_neighbours_on_the_path_have_one_feature_more_or_less(X, seed):
    rng = np.random.default_rng(seed)
    landscape = FeatureLandscape.of(X, 0.0, K=2)
    solution = landscape.start(rng)
    for Z in landscape.grown(solution, rng):
        assert Z.shape == (len(X), solution.K + 1)
        assert_array_equal(Z[:, :-1], solution.groups)
    if solution.K:
        shrunk = landscape.shrunk(solution)
        assert {Z.shape for Z in shrunk} == {(len(X), solution.K - 1)}
        without = min(error_of(X, np.delete(solution.groups, k, axis=1)) for k in range(solution.K))
        assert error_of(X, shrunk[0]) <= without + 1e-9 * landscape.unit * landscape.table.total


@pytest.mark.parametrize("seed", range(5))
def test_the_cost_of_joining_two_features_is_that_with_the_best_new_one(seed):
    """Where rows are sums of features, and nothing else."""
    X, Z = linear_gaussian(30, 6, 4, sigma=0.0, seed=seed)
    weights = np.random.default_rng(seed).uniform(0.5, 3.0, size=len(X))
    landscape = FeatureLandscape.of(X, 0.0, weights)
    solution = landscape.descend(Z)
    costs, A = join_costs(landscape, solution), solution.A
    for j, k in np.ndindex(4, 4):
        if j == k:
            assert np.isinf(costs[j, k])
            continue
        either, R = Z[:, j] | Z[:, k], Z[:, [j, k]] @ A[[j, k]]
        new = np.average(R, axis=0, weights=weights * either)
        assert_allclose(costs[j, k], weights @ ((R - np.outer(either, new)) ** 2).sum(axis=1))
        expected = np.delete(np.column_stack([Z[:, :j], either, Z[:, j + 1 :]]), k, axis=1)
        assert_array_equal(joined(solution.groups, k, np.array([j])), expected)


@pytest.mark.parametrize("seed", range(5))
def test_the_gain_of_an_exchange_is_that_of_least_squares(seed):
    """Also where the new column says nothing new, or what the deleted feature said."""
    rng = np.random.default_rng(seed)
    X, _ = linear_gaussian(40, 6, 4, seed=seed)
    weights = rng.uniform(0.5, 3.0, size=len(X))
    landscape = FeatureLandscape.of(X, 0.0, weights)
    solution = landscape.polish(rng.integers(2, size=(40, 4)))
    Z, roots = solution.groups, np.sqrt(weights)[:, None]
    columns = np.column_stack([rng.integers(2, size=(40, 3)), Z[:, 1], np.zeros(40)]).astype(np.uint8)

    def error(Z):
        A = np.linalg.lstsq(roots * Z, roots * X, rcond=None)[0]
        return (weights[:, None] * (X - Z @ A) ** 2).sum()

    gains = exchange_gains(landscape, solution, columns)
    for k, c in np.ndindex(solution.K, columns.shape[1]):
        exchanged = np.column_stack([np.delete(Z, k, axis=1), columns[:, c]])
        assert_allclose(gains[k, c], error(Z) - error(exchanged), atol=1e-8 * error(Z))


@pytest.mark.parametrize("limit", [{}, {"K": 6}, {"cap": 6}])
def test_crossed_solutions_have_the_features_that_either_found(limit):
    """Each solution has four of the six planted features; what they have together is worth as much as the truth."""
    X, Z = linear_gaussian(200, 50, 6)
    landscape = FeatureLandscape.of(X, 0.0 if "K" in limit else 400.0, **limit)
    one, two = (landscape.descend(Z[:, some]) for some in ([0, 1, 2, 3], [2, 3, 4, 5]))
    found = landscape.polish(landscape.crossed(one, two))
    assert found.K == 6
    assert found.value == pytest.approx(landscape.polish(Z).value)


@given(rough_solutions(), st.integers(1, 4))
def test_more_features_than_allowed_are_left_out(problem, cap):
    X, weights, Z = problem
    found = FeatureLandscape.of(X, 0.0, weights, cap=cap).polish(Z)
    assert cap >= found.K
    assert_valid(X, found, 0.0, weights)


# What is reached


@cache
def all_allocations(N, K):
    return [np.array(list(some), dtype=float) for some in _by_number(N, K)]


def _by_number(N, K):
    everything = [[] for _ in range(K + 1)]
    for Z in allocations(N, K):
        everything[Z.shape[1]].append(Z)
    return everything


def least_errors(X, weights, most):
    """The smallest squared error with each number of features up to ``most``, over every allocation."""
    roots = np.sqrt(weights)[:, None]
    errors = []
    for Z in all_allocations(len(X), most):
        U, s, _ = np.linalg.svd(roots * Z, full_matrices=False)
        inside = U * (s > 1e-9 * s.max(axis=1, keepdims=True, initial=0.0))[:, None, :]
        errors.append((roots * X**2 * roots).sum() - ((inside.transpose(0, 2, 1) @ (roots * X)) ** 2).sum(axis=(1, 2)))
    return np.array([some.min() for some in errors])


def test_the_enumeration_agrees_with_exhaustive_search():
    rng = np.random.default_rng(5)
    X, weights = rng.normal(size=(4, 2)), rng.uniform(0.5, 2, size=4)
    values = least_errors(X, weights, 4) + 0.7 * np.arange(5)
    found = exhaustive(X, bp_means_objective(0.7), sample_weight=weights)
    assert values.min() == pytest.approx(found.value)
    assert best_of(FeatureLandscape.of(X, 0.7, weights)).value == pytest.approx(found.value)


def tiny_instance(seed, N):
    """Sums of few features, noise or whole numbers; weights in every third."""
    rng = np.random.default_rng(seed)
    X = [
        lambda: rng.normal(size=(N, 2)),
        lambda: rng.integers(-3, 4, size=(N, 2)).astype(float),
        lambda: rng.integers(2, size=(N, 2)) @ rng.normal(size=(2, 3)) + 0.2 * rng.normal(size=(N, 3)),
    ][seed % 3]()
    weights = rng.exponential(size=N) + 0.05 if seed % 4 == 0 else np.ones(N)
    share = np.exp(rng.uniform(np.log(0.01), np.log(0.5)))
    return X, weights, share * float(weights @ (X**2).sum(axis=1))


def reached(landscape, seed, optimum, total):
    """Whether the search ends at the optimum; below it nothing can be."""
    value = best_of(landscape, seed).value
    assert value >= optimum - 1e-9 * total
    return value <= optimum + 1e-9 * total


def test_four_rows_end_at_the_optimum():
    """Against every allocation; penalties from small to large, and numbers that are given."""
    for instance in range(0, 36, 2):
        X, weights, penalty = tiny_instance(instance, 4)
        errors, total, K = least_errors(X, weights, 4), float(weights @ (X**2).sum(axis=1)), 1 + instance % 3
        values = errors + penalty * np.arange(5)
        assert reached(FeatureLandscape.of(X, penalty, weights), instance, values.min(), total)
        assert reached(FeatureLandscape.of(X, 0.0, weights, K=K), instance, errors[: K + 1].min(), total)
        assert reached(FeatureLandscape.of(X, penalty, weights, cap=K), instance, values[: K + 1].min(), total)


def test_five_rows_end_at_the_optimum():
    """As above with up to three features, of which there are 4991 allocations."""
    for instance in range(36, 60, 2):
        X, weights, penalty = tiny_instance(instance, 5)
        errors, total, K = least_errors(X, weights, 3), float(weights @ (X**2).sum(axis=1)), 2 + instance % 2
        best = (errors + penalty * np.arange(4)).min()
        assert reached(FeatureLandscape.of(X, 0.0, weights, K=K), instance, errors[: K + 1].min(), total)
        assert reached(FeatureLandscape.of(X, penalty, weights, cap=3), instance, best, total)


@pytest.mark.parametrize("N", [6, 7, 8])
def test_up_to_eight_rows_end_at_the_optimum(N):
    """With one feature or two."""
    for instance in range(60, 66):
        X, _, penalty = tiny_instance(instance, N)
        errors, total = least_errors(X, np.ones(N), 2), float((X**2).sum())
        best = (errors + penalty * np.arange(3)).min()
        assert reached(
            FeatureLandscape.of(X, 0.0, K=1 + instance % 2), instance, errors[: 2 + instance % 2].min(), total
        )
        assert reached(FeatureLandscape.of(X, penalty, cap=2), instance, best, total)


@pytest.mark.parametrize("limit", [{}, {"K": 2}, {"cap": 2}])
def test_the_stronger_polish_of_few_rows_is_a_proof(limit):
    """From anywhere, it ends at the best of all allocations, and says that nothing is lower."""
    improved = 0
    for instance in range(100, 112):
        X, weights, price = tiny_instance(instance, 4)
        penalty = 0.0 if "K" in limit else price
        values = least_errors(X, weights, 4) + penalty * np.arange(5)
        optimum, total = values[: 1 + limit.get("K", limit.get("cap", 4))].min(), float(weights @ (X**2).sum(axis=1))
        landscape = FeatureLandscape.of(X, penalty, weights, **limit)
        start = landscape.polish(np.eye(4, landscape.most, dtype=np.uint8))
        best = landscape.prove(start, np.random.default_rng(0))
        assert best.value == pytest.approx(optimum, rel=1e-9, abs=1e-9 * total)
        assert landscape.is_final(best)
        if start.value > best.value + 1e-9 * total:
            assert not landscape.is_final(start)
            improved += 1
    assert improved


def test_a_proof_that_takes_too_long_is_given_up(monkeypatch):
    """What is known stays, and may not be the best."""
    X, weights, penalty = tiny_instance(0, 8)
    monkeypatch.setattr("madbayes.engine.feature_search.NODES", 0)
    landscape = FeatureLandscape.of(X, penalty / 10, weights)
    best = best_of(landscape)
    assert landscape.prove(best, np.random.default_rng(0)) is best
    assert landscape.optimum is None
    assert not landscape.is_final(best)


@pytest.mark.parametrize("limit", [{}, {"K": 3}, {"K": 5}, {"K": 8}])
def test_a_table_of_noise_is_not_searched_for_long(limit):
    """Lineages end at ever other values there: few are enough."""
    for instance in range(3):
        X = np.random.default_rng(instance).normal(size=(24 + 3 * instance, 4))
        landscape = FeatureLandscape.of(X, 0.0 if limit else 0.4, **limit)
        with Workers(1) as workers:
            told = report(search(landscape, feature_moves, Search(), iter(range(100)), workers))
        assert told["lineages"] <= 6
        assert told["moves"] <= 1000


@pytest.mark.parametrize("limit", [{"K": 3}, {}])
def test_tables_without_noise_are_hardly_searched(limit):
    """Nothing can be lower than no error, or than what the rank of the table costs at a small price: seldom does a
    lineage go on to the end of its patience, or a third begin.
    """
    told = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.integers(2, size=(60, 3)) @ rng.normal(size=(3, 8))
        landscape = FeatureLandscape.of(X, 0.0 if limit else 1e-3, **limit)
        told.append(report(search(landscape, feature_moves, Search(), iter(range(100)), Workers(1))))
    assert all(one["agreeing"] >= 1 for one in told)
    assert sum(one["lineages"] == ABREAST for one in told) >= 8
    assert sum(one["moves"] <= 2 * STRIDE for one in told) >= 8


@pytest.mark.parametrize("K", [6, 8])
def test_no_worse_than_the_planted_features(K):
    """Polished from the truth, which a search does not know; the number of features given, and not."""
    X, Z = linear_gaussian(200, 50, K)
    options = Search(max_lineages=6, agreement=2)
    for landscape in (FeatureLandscape.of(X, 0.0, K=K), FeatureLandscape.of(X, 400.0)):
        planted = landscape.polish(Z)
        assert planted.K == K
        found = best_of(landscape, options=options)
        assert found.K == K
        assert found.value <= planted.value * (1 + 1e-9)
        assert_valid(X, found, landscape.penalty)


@pytest.mark.parametrize("limit", [{}, {"K": 4}])
def test_the_same_bits_for_any_number_of_threads(limit):
    X, _ = linear_gaussian(80, 10, 4, sigma=1.0)
    answers = []
    for n_jobs in (1, 2):
        with Workers(n_jobs) as workers:
            landscape = FeatureLandscape.of(X, 0.0 if limit else 20.0, **limit)
            answers.append(best_of(landscape, options=Search(max_moves=300), workers=workers))
    assert answers[0].value == answers[1].value
    assert answers[0].groups.tobytes() == answers[1].groups.tobytes()
    assert answers[0].A.tobytes() == answers[1].A.tobytes()


def test_tables_that_leave_nothing_to_explain():
    for X, K in ((np.zeros((5, 3)), 0), (np.ones((5, 3)), 1), (np.repeat([[1.0, 0.0], [0.0, 1.0]], 3, axis=0), 2)):
        for given_K in (max(K, 1), 4):
            found = best_of(FeatureLandscape.of(X, 0.0, K=given_K), options=Search(max_lineages=3))
            assert found.K == K
            assert found.value == pytest.approx(0.0, abs=1e-20)
        assert best_of(FeatureLandscape.of(X, 1e-6)).K == K


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("instance", range(12))
def test_more_features_than_a_table_without_noise_has(instance, weighted):
    """A solution that leaves nothing to explain is found and counts, whatever rounding says about its error."""
    rng = np.random.default_rng(instance)
    K, N = 1 + instance % 3, 6 + 2 * instance
    X = rng.integers(2, size=(N, K)) @ rng.normal(size=(K, 1 + instance % 4))
    weights = rng.exponential(size=N) if weighted else None
    landscape = FeatureLandscape.of(X, 0.0, weights, K=K + 2)
    found = best_of(landscape, instance)
    assert found.value <= 1e-12 * landscape.unit * landscape.table.total
    assert K + 2 >= found.K
    assert_valid(X, found, 0.0, weights)


def test_a_huge_price_leaves_no_feature():
    X, Z = linear_gaussian(30, 4, 3)
    landscape = FeatureLandscape.of(X, 1e12)
    assert landscape.polish(Z).K == 0
    found = best_of(landscape)
    assert found.K == 0
    assert found.value == pytest.approx((X**2).sum())


def test_no_feature_allowed():
    X, _ = linear_gaussian(30, 4, 3)
    for landscape in (FeatureLandscape.of(X, 1.0, cap=0), FeatureLandscape.of(X, 0.0, K=0)):
        found = best_of(landscape, options=Search(max_lineages=2))
        assert found.K == 0
        assert found.value == pytest.approx((X**2).sum())


def test_a_single_row():
    X = np.array([[3.0, 4.0]])
    assert best_of(FeatureLandscape.of(X, 1.0)).K == 1
    assert best_of(FeatureLandscape.of(X, 26.0)).K == 0
    found = best_of(FeatureLandscape.of(X, 0.0, K=3))
    assert found.K == 1
    assert_allclose(found.A, X)


@pytest.mark.parametrize("seed", range(5))
def test_a_glance_goes_part_of_the_way(seed):
    """A few iterations from where least squares are; what they lead to is polished from there no worse."""
    X, _ = linear_gaussian(120, 15, 6, sigma=1.0, seed=seed)
    Z = np.random.default_rng(seed).integers(2, size=(120, 6), dtype=np.uint8)
    landscape = FeatureLandscape.of(X, 0.0)
    glance = landscape.glance(Z)
    assert glance.value < error_of(X, Z)
    assert glance.value == pytest.approx(error_of(X, glance.groups))
    assert glance.passes <= GLANCE < landscape.descend(Z).passes
    assert landscape.descend(glance.groups).value < glance.value


@pytest.mark.parametrize("weighted", [False, True])
def test_warm_starts_find_few_features(weighted):
    """Half of them at least; with the same random numbers the same."""
    X, Z = linear_gaussian(120, 20, 3)
    weights = np.random.default_rng(0).uniform(1, 3, size=120) if weighted else None
    landscape = FeatureLandscape.of(X, 0.0, weights, K=3)
    found = [landscape.start_warm(np.inf, np.random.default_rng(seed)) for seed in range(10)]
    for solution in found:
        assert_valid(X, solution, 0.0, weights)
    assert sum(one.value <= landscape.polish(Z).value * (1 + 1e-9) for one in found) >= 5
    assert_array_equal(landscape.start_warm(np.inf, np.random.default_rng(3)).groups, found[3].groups)


def test_no_feature_is_a_warm_start_where_none_is_wanted():
    X, _ = linear_gaussian(30, 6, 3)
    for landscape in (FeatureLandscape.of(X, 0.0, K=0), FeatureLandscape.of(X, 5.0)):
        assert landscape.start_warm(np.inf, np.random.default_rng(0)).K == 0


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_warm_starts_where_nothing_is_annealed_have_the_value_of_their_residuals(offset):
    X, _ = linear_gaussian(40, 6, 2, sigma=0.0)
    landscape = FeatureLandscape.of(X + offset, 0.0, K=3)
    for seed in range(10):
        found = landscape.start_warm(np.inf, np.random.default_rng(seed))
        if np.isfinite(found.value):  # where there are too few features it does not count
            expected = ((X + offset - found.groups @ found.A) ** 2).sum()
            assert found.value == pytest.approx(expected, rel=1e-9, abs=1e-20 * (X**2).sum())


def test_a_glance_has_the_value_of_its_residuals():
    """It is told by products, but for tables far from the origin, whose products have no digits left."""
    for offset in (0.0, 10.0, 1e6):
        X, Z = linear_gaussian(150, 12, 5, p=0.3)
        landscape = FeatureLandscape.of(X + offset, 0.0)
        glance = landscape.glance(np.column_stack([np.ones(150, dtype=np.uint8), Z[:, :3], 1 - Z[:, 3]]))
        assert glance.value == pytest.approx(error_of(X + offset, glance.groups), rel=1e-9 if offset < 1e3 else 1e-6)
