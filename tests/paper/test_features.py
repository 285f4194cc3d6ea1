"""The feature algorithms: laws, brute force, and refitting in place of algebra."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from madbayes import paper
from madbayes.model import bp_means_objective, collapsed_bp_means_objective, k_features_objective
from madbayes.paper.features import all_codes, choose_code, collapsed_costs, independent_columns

TABLES = arrays(float, st.tuples(st.integers(1, 7), st.just(3)), elements=st.integers(-6, 6).map(lambda i: i / 2))
PENALTIES = st.sampled_from([0.0, 0.5, 2.0, 7.5, 30.0])
BINARY = arrays(float, st.tuples(st.integers(1, 6), st.integers(0, 6)), elements=st.sampled_from([0.0, 1.0]))


def rank(Z):
    return np.linalg.matrix_rank(Z) if Z.size else 0


def weights_for(choice, X):
    return None if choice is None else np.random.default_rng(len(X)).choice([0.25, 1.0, 3.0], size=len(X))


def seeded(algorithm, X, penalty, seed, weights, **options):
    Z, A = paper.seed_features(X, penalty=penalty, random_state=seed, sample_weight=weights)
    cap = options.get("max_components")
    start = (Z[:, :cap], A[:cap]) if algorithm is paper.bp_means else (Z[:, :cap],)
    return algorithm(X, penalty, *start, sample_weight=weights, **options)


ALGORITHMS = {
    "bp_means": partial(seeded, paper.bp_means),
    "collapsed": partial(seeded, paper.collapsed_bp_means),
    "capped": partial(seeded, paper.bp_means, max_components=2),
    "collapsed capped": partial(seeded, paper.collapsed_bp_means, max_components=2),
    "from nothing": lambda X, penalty, seed, weights: paper.bp_means(X, penalty, sample_weight=weights),
}
each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
each_weighting = pytest.mark.parametrize("choice", [None, "random"])


def assert_sound(result, objective, X, weights):
    """What holds of every run: converged, never rising, reporting its own objective, nothing redundant."""
    scale = 1e-9 * max(1.0, result.trace[0])
    assert result.converged
    assert (np.diff(result.trace) <= scale).all()
    assert len(result.trace) == result.iterations + 1
    assert result.value == pytest.approx(objective(X, result.Z, result.A, weights), abs=scale)
    assert rank(result.Z) == result.K


def single_flips(Z):
    for n, k in np.ndindex(Z.shape):
        flipped = Z.copy()
        flipped[n, k] = 1 - flipped[n, k]
        yield flipped


@each_algorithm
@each_weighting
@given(X=TABLES, penalty=PENALTIES, seed=st.integers(0, 99))
def test_runs_descend_and_end(algorithm, choice, X, penalty, seed):
    weights = weights_for(choice, X)
    result = algorithm(X, penalty, seed, weights)
    assert_sound(result, bp_means_objective(penalty), X, weights)


@each_weighting
@given(X=TABLES, penalty=PENALTIES, seed=st.integers(0, 99))
def test_bp_means_ends_where_no_flip_helps(choice, X, penalty, seed):
    weights = weights_for(choice, X)
    result = ALGORITHMS["bp_means"](X, penalty, seed, weights)
    objective = bp_means_objective(penalty)
    slack = 1e-9 * max(1.0, result.value)
    for Z in single_flips(result.Z):
        assert k_error(X, Z, result.A, weights) + penalty * result.K >= result.value - slack
    errors = ((X - result.Z @ result.A) ** 2).sum(axis=1) * (1.0 if weights is None else weights)
    assert (errors <= penalty + slack).all()
    assert objective(X, result.Z, sample_weight=weights) == pytest.approx(result.value, abs=slack)


def k_error(X, Z, A, weights):
    return (((X - Z @ A) ** 2).sum(axis=1) * (1.0 if weights is None else weights)).sum()


@each_weighting
@given(X=TABLES, penalty=PENALTIES, seed=st.integers(0, 99))
def test_collapsed_ends_where_no_row_wants_another_code(choice, X, penalty, seed):
    """Every code of every row, with everything refitted and redundant features dropped."""
    weights = weights_for(choice, X)
    result = ALGORITHMS["collapsed"](X, penalty, seed, weights)
    objective = collapsed_bp_means_objective(penalty)
    Z = np.hstack([result.Z, np.zeros((len(X), 1), dtype=np.uint8)])
    for n in range(len(X)):
        for code in all_codes(min(Z.shape[1], 5)):
            candidate = Z.copy()
            candidate[n, : len(code)] = code
            candidate = candidate[:, independent_columns(candidate)]
            value = objective(X, candidate, sample_weight=weights)
            assert value >= result.value - 1e-8 * max(1.0, result.value)


@each_weighting
@given(Z=BINARY.filter(lambda Z: len(Z) >= 2), seed=st.integers(0, 10**6))
def test_collapsed_costs_are_what_refitting_says(choice, Z, seed):
    """Cost of a code = objective of all rows less that of the others, rank counted; singular cases included."""
    rng = np.random.default_rng(seed)
    X, penalty = rng.normal(size=(len(Z), 2)), 0.8
    weights = weights_for(choice, X)
    w, others = (1.0, None) if weights is None else (weights[0], weights[1:])

    def value(X, Z, weights):
        kept = Z[:, independent_columns(Z)]
        return collapsed_bp_means_objective(penalty)(X, kept, sample_weight=weights)

    codes = all_codes(Z.shape[1])
    costs = collapsed_costs(X[0], w, X[1:], Z[1:], penalty, others)(codes)
    expected = [value(X, np.vstack([code, Z[1:]]), weights) - value(X[1:], Z[1:], others) for code in codes]
    np.testing.assert_allclose(costs, expected, atol=1e-8)


def test_choose_code_above_the_joint_limit_goes_bit_by_bit():
    rng = np.random.default_rng(0)
    target = (rng.random(12) < 0.5).astype(float)
    code, cost = choose_code(np.zeros(12), lambda codes: np.abs(codes - target).sum(axis=1))
    np.testing.assert_array_equal(code, target)
    assert cost == 0


def test_collapsed_runs_with_many_features():
    rng = np.random.default_rng(1)
    Z, A = (rng.random((30, 12)) < 0.5).astype(float), rng.normal(size=(12, 15)) * 5
    X = Z @ A + 0.01 * rng.normal(size=(30, 15))
    result = paper.collapsed_bp_means(X, 1.0, Z)
    assert_sound(result, bp_means_objective(1.0), X, None)
    assert result.K == 12


@each_weighting
@given(X=TABLES, K=st.integers(0, 4), seed=st.integers(0, 99))
def test_k_features_is_sound_and_uses_all_features(choice, X, K, seed):
    weights = weights_for(choice, X)
    Z, A = paper.seed_features(X, K, random_state=seed, sample_weight=weights)
    result = paper.k_features(X, K, Z, A, sample_weight=weights)
    assert_sound(result, k_features_objective(K), X, weights)
    assert result.K == K or result.value <= 1e-9
    for flipped in single_flips(result.Z):
        assert k_error(X, flipped, result.A, weights) >= result.value - 1e-9 * max(1.0, result.value)


@given(Z=BINARY)
def test_independent_columns_are_a_basis(Z):
    keep = independent_columns(Z)
    assert keep.sum() == rank(Z)
    assert rank(Z[:, keep]) == keep.sum()
    for k in np.flatnonzero(~keep):
        assert rank(Z[:, : k + 1]) == rank(Z[:, :k])


def test_a_sum_of_two_columns_is_redundant():
    z1, z2 = np.array([1, 1, 0, 0]), np.array([0, 0, 1, 0])
    np.testing.assert_array_equal(independent_columns(np.column_stack([z1, z2, z1 + z2])), [True, True, False])


def test_dropping_a_redundant_feature_saves_its_penalty():
    rng = np.random.default_rng(3)
    X, z1, z2 = rng.normal(size=(5, 3)), np.array([1, 1, 0, 0, 0]), np.array([0, 0, 1, 1, 0])
    Z = np.column_stack([z1, z2, z1 + z2])
    with_it, without = (bp_means_objective(2.0)(X, some) for some in (Z, Z[:, :2]))
    assert with_it - without == pytest.approx(2.0)
    assert paper.bp_means(X, 100.0, Z).K <= 2


@pytest.mark.parametrize("algorithm", [ALGORITHMS["bp_means"], ALGORITHMS["collapsed"]], ids=["bp_means", "collapsed"])
@settings(max_examples=12)
@given(X=TABLES.filter(lambda X: len(X) <= 4), penalty=st.sampled_from([0.5, 2.0, 7.5]), seed=st.integers(0, 9))
def test_no_run_is_below_the_enumerated_optimum(algorithm, X, penalty, seed):
    optimum = paper.exhaustive(X, bp_means_objective(penalty))
    assert algorithm(X, penalty, seed, None).value >= optimum.value - 1e-9 * max(1.0, optimum.value)


def planted(seed=0, N=40, K=3, noise=0.01):
    rng = np.random.default_rng(seed)
    Z, A = rng.random((N, K)) < 0.5, 3 * rng.normal(size=(K, 6))
    return Z @ A + noise * rng.normal(size=(N, 6)), Z, A


def test_stepwise_finds_the_planted_number():
    X, Z, _ = planted()
    result, runs = paper.stepwise_k_features(X, 1.0, random_state=0)
    planted_value = bp_means_objective(1.0)(X, Z)
    assert result.K == 3
    assert result.value <= planted_value * (1 + 1e-9)
    assert {run.K for run in runs} == {1, 2, 3, 4}
    assert result.value == pytest.approx(min(run.value for run in runs))
    assert result.value == pytest.approx(bp_means_objective(1.0)(X, result.Z, result.A))


def test_stepwise_stops_at_the_cap_and_at_zero_error():
    X, _, _ = planted(noise=0.0)
    assert paper.stepwise_k_features(X, 1e-3, max_components=2, random_state=0)[0].K == 2
    assert paper.stepwise_k_features(X, 0.0, random_state=0)[0].K == 3
    assert paper.stepwise_k_features(X, 1e9, random_state=0)[0].K == 0


def test_a_table_as_wide_as_it_is_long():
    X = np.random.default_rng(0).normal(size=(100, 100))
    result = paper.k_features(X, 5, *paper.seed_features(X, 5, random_state=0))
    assert_sound(result, k_features_objective(5), X, None)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scales_do_not_matter(scale):
    X, _, _ = planted(noise=0.3)
    X = np.round(X, 3)
    plain = paper.bp_means(X, 20.0, *paper.seed_features(X, penalty=20.0, random_state=1))
    Z, A = paper.seed_features(X * scale, penalty=20.0 * scale**2, random_state=1)
    np.testing.assert_array_equal(paper.bp_means(X * scale, 20.0 * scale**2, Z, A).Z, plain.Z)


def test_a_huge_offset_is_one_more_feature():
    X, _, _ = planted(noise=0.0)
    result = paper.k_features(X + 1e8, 4, *paper.seed_features(X + 1e8, 4, random_state=2))
    assert_sound(result, k_features_objective(4), X + 1e8, None)
