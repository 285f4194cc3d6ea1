"""Bounds and exact solutions against enumeration, and against each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from madbayes import paper
from madbayes.certificates import lower_bound, optimal_clusters, optimal_features
from madbayes.engine.branching import far_apart, tail_squares
from madbayes.model import (
    bp_means_objective,
    capped_bp_means_objective,
    capped_dp_means_objective,
    dp_means_objective,
    k_features_objective,
)
from madbayes.model.priors import one_hot


def linear_gaussian(N, D, K, noise, seed):
    rng = np.random.default_rng(seed)
    Z, A = rng.random((N, K)) < 0.5, rng.normal(size=(K, D))
    return Z @ A + noise * rng.normal(size=(N, D))


def random_table(seed, N, D):
    """Rows, weights and a penalty; whole numbers half of the time, so that rows repeat and values tie."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) if seed % 2 else rng.integers(-2, 3, (N, D)).astype(float)
    weights = rng.random(N) * 3 + 0.1 if seed % 3 else None
    return X, weights, float(rng.choice([0.1, 0.5, 2.0, 8.0]))


def assert_is_optimal(certificate, X, objective, expected, weights):
    """The value is that of the groups returned, and of the optimum; the proof says so."""
    Z = certificate.groups if certificate.groups.ndim == 2 else one_hot(certificate.groups, certificate.K)
    assert certificate.value == objective(X, Z, certificate.A, weights)
    assert certificate.value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert certificate.bound == certificate.value
    assert certificate.proved is True
    assert certificate.gap == 0


@pytest.mark.parametrize("cap", [None, 1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_clusters_equal_those_of_enumeration(seed, cap):
    X, weights, penalty = random_table(seed, N=6, D=1 + seed % 3)
    objective = dp_means_objective(penalty) if cap is None else capped_dp_means_objective(cap, penalty)
    expected = paper.exhaustive(X, objective, sample_weight=weights).value
    certificate = optimal_clusters(X, penalty, max_clusters=cap, sample_weight=weights)
    assert_is_optimal(certificate, X, objective, expected, weights)


@pytest.mark.parametrize("seed", range(24))
def test_features_equal_those_of_enumeration(seed):
    X, weights, penalty = random_table(seed, N=4, D=1 + seed % 3)
    objective = bp_means_objective(penalty)
    expected = paper.exhaustive(X, objective, sample_weight=weights).value
    assert_is_optimal(optimal_features(X, penalty, sample_weight=weights), X, objective, expected, weights)


@pytest.mark.parametrize("K", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_k_features_equal_those_of_enumeration(seed, K):
    X, weights, penalty = random_table(seed, N=5 if K < 3 else 4, D=1 + seed % 3)
    for price, objective in ((None, k_features_objective(K)), (penalty, capped_bp_means_objective(K, penalty))):
        expected = paper.exhaustive(X, objective, max_components=K, sample_weight=weights).value
        assert_is_optimal(optimal_features(X, price, K, sample_weight=weights), X, objective, expected, weights)


@pytest.mark.parametrize("seed", range(8))
def test_branch_and_bound_makes_a_bad_incumbent_good(seed):
    """Nothing of the proof rests on the search."""
    X, weights, penalty = random_table(seed, N=8, D=3)
    objective = capped_bp_means_objective(3, penalty)
    expected = optimal_features(X, penalty, 3, sample_weight=weights).value
    nothing = np.zeros((len(X), 0))
    certificate = optimal_features(X, penalty, 3, sample_weight=weights, incumbent=nothing)
    assert_is_optimal(certificate, X, objective, expected, weights)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_rows_do_not_change_the_optimum(seed, size, monkeypatch):
    X, weights, penalty = random_table(seed, N=4, D=3)
    monkeypatch.setattr("madbayes.engine.branching.BLOCK", size)
    for K, objective in ((2, k_features_objective(2)), (None, bp_means_objective(penalty))):
        expected = paper.exhaustive(X, objective, max_components=K, sample_weight=weights).value
        certificate = optimal_features(X, objective.penalty or None, K, sample_weight=weights)
        assert_is_optimal(certificate, X, objective, expected, weights)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_a_proof_in_blocks_that_stopped(seed, monkeypatch):
    X = linear_gaussian(20, 8, 2, 0.5, seed)
    optimum = optimal_features(X, K=2)
    assert optimum.proved
    monkeypatch.setattr("madbayes.engine.branching.BLOCK", 6)
    bounds = [optimal_features(X, K=2, node_limit=4**i, incumbent=optimum.groups).bound for i in range(11)]
    assert max(bounds) <= optimum.value * (1 + 1e-9)
    assert bounds[-1] == pytest.approx(optimum.value)


tables = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 3)), elements=st.integers(-4, 4))


@given(tables, st.sampled_from([0.0, 0.3, 1.0, 7.0]), st.booleans())
def test_lower_bounds_never_exceed_the_optimum(X, penalty, weighted):
    weights = np.arange(1.0, len(X) + 1) if weighted else None
    for kind, objective in (("features", bp_means_objective(penalty)), ("clusters", dp_means_objective(penalty))):
        optimum = paper.exhaustive(X, objective, sample_weight=weights).value
        assert lower_bound(X, penalty, kind, sample_weight=weights) <= optimum + 1e-9


@given(tables, st.sampled_from([0.0, 1.0]), st.integers(1, 3))
def test_lower_bounds_with_a_cap_never_exceed_the_optimum(X, penalty, K):
    for kind, objective in (("features", capped_bp_means_objective), ("clusters", capped_dp_means_objective)):
        optimum = paper.exhaustive(X, objective(K, penalty), max_components=K).value
        assert lower_bound(X, penalty, kind) <= lower_bound(X, penalty, kind, K=K) + 1e-9 <= optimum + 2e-9


@given(tables, st.sampled_from([0.3, 1.0, 7.0]), st.integers(0, 20))
def test_bounds_of_a_stopped_proof_never_exceed_the_optimum(X, penalty, node_limit):
    optimum = paper.exhaustive(X, bp_means_objective(penalty)).value
    certificate = optimal_features(X, penalty, node_limit=node_limit, incumbent=np.zeros((len(X), 0)))
    assert certificate.bound <= optimum + 1e-9
    assert certificate.value >= optimum - 1e-9
    assert certificate.proved == (certificate.gap == 0)


def test_the_bound_by_hand():
    """Columns of squares 25 and 4: the penalty where that is less."""
    X = np.array([[5.0, 0.0], [0.0, 2.0]])
    assert lower_bound(X, 10.0) == pytest.approx(14.0)
    assert lower_bound(X, 10.0, sample_weight=[1.0, 3.0]) == pytest.approx(20.0)
    assert lower_bound(X, 10.0, "clusters") == pytest.approx(10.0)
    assert lower_bound(X + 1e3, 100.0, "clusters") == pytest.approx(29 / 2)
    assert lower_bound(X, 0.0, K=1) == pytest.approx(4.0)
    assert lower_bound(X, 0.0, "clusters", K=1) == pytest.approx(29 / 2)


def test_a_weight_is_as_good_as_so_many_copies():
    X, weights, penalty = linear_gaussian(5, 3, 2, 0.3, 0), np.array([1, 3, 2, 1, 2]), 0.7
    copies = np.repeat(X, weights, axis=0)
    for solve in (optimal_features, optimal_clusters):
        weighted, copied = solve(X, penalty, sample_weight=weights), solve(copies, penalty)
        assert weighted.value == pytest.approx(copied.value)
        assert_array_equal(np.repeat(weighted.groups, weights, axis=0), copied.groups)
    for kind in ("features", "clusters"):
        bound = lower_bound(X, penalty, kind, sample_weight=weights)
        assert bound == pytest.approx(lower_bound(copies, penalty, kind))


def test_rows_of_weight_zero_have_groups_and_no_influence(seed):
    X = linear_gaussian(6, 3, 2, 0.3, seed)
    X, weights = np.vstack([X, 100 * np.ones(3), X[:1]]), np.array([1.0] * 6 + [0.0, 0.0])
    for solve in (optimal_features, optimal_clusters):
        with_them, without = solve(X, 0.7, sample_weight=weights), solve(X[:6], 0.7)
        assert with_them.value == pytest.approx(without.value)
        assert_array_equal(with_them.groups[:6], without.groups)
        assert_array_equal(with_them.groups[7], without.groups[0])


@pytest.mark.parametrize("seed", range(10))
def test_intervals_equal_subsets(seed):
    X, weights, penalty = random_table(seed, N=14, D=1)
    flat = np.hstack([X, np.zeros_like(X)])  # a second column takes the other way
    for cap in (None, 2, 4):
        line = optimal_clusters(X, penalty, max_clusters=cap, sample_weight=weights)
        plane = optimal_clusters(flat, penalty, max_clusters=cap, sample_weight=weights)
        assert line.value == pytest.approx(plane.value, rel=1e-12)
        assert line.K == plane.K


def test_k_means_of_a_long_column(seed):
    """Groups far apart are found, and no K-means run of the paper is better where they are not."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(5, size=2000))
    X = 100.0 * labels[:, None] + rng.normal(size=(2000, 1))
    assert len(set(zip(optimal_clusters(X, 1e5).groups, labels, strict=True))) == 5
    best = optimal_clusters(X, 0.0, max_clusters=8)
    runs = [paper.k_means(X, paper.seed_clusters(X, 8, random_state=s)).value for s in range(5)]
    assert best.K == 8
    assert best.value <= min(runs) * (1 + 1e-12)
    assert best.value >= lower_bound(X, 0.0, "clusters")


def test_tight_clusters_far_apart_keep_their_digits():
    X = np.array([0.0, 1e-3, 1e8, 1e8 + 1e-3])[:, None]
    best = optimal_clusters(X, 1e-4)
    assert_array_equal(best.groups, [0, 0, 1, 1])
    assert best.value == pytest.approx(1e-4 + 1e-6, rel=1e-3)


def test_sixteen_rows(seed, seconds):
    X = np.random.default_rng(seed).normal(size=(16, 4))
    with seconds(60):
        best = optimal_clusters(X, 3.0)
    runs = [paper.collapsed_dp_means(X, 3.0, order=np.random.default_rng(s).permutation(16)).value for s in range(20)]
    assert lower_bound(X, 3.0, "clusters") <= best.value <= min(runs) + 1e-12


@pytest.mark.parametrize(
    ("N", "K", "noise"), [(30, 3, 0.5), (60, 3, 0.5), (60, 4, 0.3), (60, 4, 0.5), (200, 4, 0.3), (400, 3, 0.4)]
)
def test_proofs_of_linear_gaussian_tables(N, K, noise, seconds):
    X = linear_gaussian(N, 50, K, noise, seed=1)
    with seconds(60):
        best = optimal_features(X, K=K)
    assert best.proved
    assert best.K == K
    assert best.value == k_features_objective(K)(X, best.groups, best.A)
    assert best.value < noise**2 * (N - K) * 50 * 1.1


def test_the_number_of_features_is_part_of_the_proof(seconds):
    X = linear_gaussian(40, 50, 4, 0.3, seed=1)
    with seconds(60):
        best = optimal_features(X, penalty=60.0)
    assert best.proved
    assert best.K == 4
    assert lower_bound(X, 60.0) < best.value


def test_when_nodes_run_out_the_answer_says_so():
    X = linear_gaussian(60, 50, 4, 0.5, seed=1)
    by_rank, optimum = lower_bound(X, 0.0) + (np.linalg.svd(X, compute_uv=False)[4:] ** 2).sum(), None
    for node_limit in (0, 10, 1000, 100_000):
        stopped = optimal_features(X, K=4, node_limit=node_limit)
        optimum = stopped.value if optimum is None else optimum
        assert stopped.proved is False
        assert by_rank * (1 - 1e-12) <= stopped.bound < stopped.value == optimum
        assert 0 < stopped.gap < 0.1


def test_more_features_than_can_be_branched_on():
    X = linear_gaussian(30, 40, 12, 0.1, seed=0)
    certificate = optimal_features(X, penalty=3.0, node_limit=1000, incumbent=np.zeros((30, 0)))
    assert not certificate.proved
    assert certificate.bound >= lower_bound(X, 3.0) - 1e-9


def test_an_incumbent_is_improved_and_proved():
    X = linear_gaussian(30, 20, 2, 0.3, seed=2)
    best = optimal_features(X, penalty=20.0)
    spoilt = best.groups.copy()
    spoilt[:5] = 1 - spoilt[:5]
    again = optimal_features(X, penalty=20.0, incumbent=spoilt)
    assert again.proved
    assert_array_equal(again.groups, best.groups)
    assert_allclose(again.A, best.A)


def test_a_false_value_proves_nothing(monkeypatch):
    """The value of what branch and bound returns is computed anew."""
    X = linear_gaussian(12, 5, 2, 0.3, seed=2)
    expected = optimal_features(X, K=2)
    wrong = np.eye(12, 2, dtype=np.uint8)
    monkeypatch.setattr("madbayes.engine.branching.Proof._branch", lambda *_: (0.1, np.inf, 5, wrong))
    certificate = optimal_features(X, K=2)
    assert not certificate.proved
    assert certificate.value == expected.value
    assert 0.1 < certificate.bound < expected.value


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_all_sizes(seed):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(5, 3)), 10.0 ** rng.uniform(-5, 5, 5)
    objective = k_features_objective(2)
    expected = paper.exhaustive(X, objective, max_components=2, sample_weight=weights).value
    assert_is_optimal(optimal_features(X, K=2, sample_weight=weights), X, objective, expected, weights)


def test_groups_come_in_order_of_size():
    X = np.repeat([[0.0, 9.0], [9.0, 0.0], [9.0, 9.0]], [2, 3, 1], axis=0)
    assert_array_equal(optimal_clusters(X, 1.0).groups, [1, 1, 0, 0, 0, 2])
    assert_array_equal(optimal_features(X, 1.0).groups, [[0, 1]] * 2 + [[1, 0]] * 3 + [[1, 1]])


def test_far_offset_of_features():
    """Features are not translation-invariant; a base feature takes the offset up."""
    X = linear_gaussian(20, 5, 2, 0.2, seed=3) + 1e4
    best = optimal_features(X, K=3)
    objective = k_features_objective(3)
    assert best.proved
    assert best.value == pytest.approx(objective(X, best.groups), rel=1e-6)


@pytest.mark.parametrize("N", [5, 9])
def test_bounds_of_the_rows_to_come(N, monkeypatch, seed):
    """In long tables some rows take the bound of later ones, which is lower."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(N, 3)), rng.random(N) + 0.5
    exact = tail_squares(X, weights)
    for n in range(N + 1):
        rows = np.sqrt(weights[n:, None]) * X[n:]
        assert_allclose(exact[n].sum(), (rows**2).sum(), atol=1e-12)
    monkeypatch.setattr("madbayes.engine.branching.TAILS", 3)
    coarse = tail_squares(X, weights)
    for K in range(3):
        assert (coarse[:, K:].sum(axis=1) <= exact[:, K:].sum(axis=1) + 1e-12).all()
        assert coarse[0, K:].sum() == exact[0, K:].sum()


def test_the_order_of_rows_is_a_permutation_from_far_to_near():
    X = np.array([[0.0], [1.0], [10.0], [-4.0], [10.0]])
    assert_array_equal(far_apart(X, np.ones(5))[:3], [2, 3, 1])
    assert_array_equal(np.sort(far_apart(X, np.ones(5))), np.arange(5))


X4 = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lower_bound(X4, -1.0), r"penalty=-1.0 is not accepted: give a finite number >= 0"),
        (lambda: lower_bound(X4, "auto"), r"penalty='auto' is not accepted: give a finite number >= 0"),
        (lambda: lower_bound(X4, 1.0, "groups"), r"kind='groups' is not accepted: give one of 'features', 'clusters'"),
        (lambda: lower_bound(X4 * np.nan, 1.0), r"X contains 8 NaN"),
        (lambda: lower_bound(X4, 1.0, sample_weight=[1.0]), r"sample_weight has shape \(1,\), but X has 4 rows"),
        (lambda: optimal_clusters(X4, 1.0, max_clusters=0), r"max_clusters=0 is not accepted: give an integer >= 1"),
        (lambda: optimal_clusters(np.arange(40.0).reshape(20, 2), 1.0), r"X has 20 different rows .* up to 16"),
        (lambda: optimal_clusters(np.arange(5001.0)[:, None], 1.0), r"X has 5001 different rows of 1 columns"),
        (lambda: optimal_features(X4), r"penalty=None and K=None .*: give one of them"),
        (lambda: optimal_features(X4, K=1.5), r"K=1.5 is not accepted: give an integer >= 0 or None"),
        (lambda: optimal_features(X4, 1.0, node_limit=-1), r"node_limit=-1 is not accepted: give an integer >= 0"),
        (lambda: optimal_features(X4, 1.0, incumbent=[[2]] * 4), r"incumbent holds 2: give zeros and ones only"),
        (lambda: optimal_features(X4, 1.0, incumbent=[[1]]), r"incumbent has shape \(1, 1\): give shape \(4, any\)"),
        (lambda: optimal_features(X4, K=1, incumbent=np.eye(4)), r"incumbent has 4 columns: give at most K=1"),
    ],
)
def test_bad_arguments_get_a_clear_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()
