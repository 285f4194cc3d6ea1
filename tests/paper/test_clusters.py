"""The clustering algorithms: laws, brute force, and a literal row-by-row transcription."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from madbayes import paper
from madbayes.model import (
    CRP,
    CollapsedGaussian,
    DirichletMultinomial,
    FullCovarianceGaussian,
    KnownCovarianceGaussian,
    Objective,
    covariance_objective,
    dp_means_objective,
    k_means_objective,
)
from madbayes.model.likelihoods import mahalanobis
from madbayes.model.priors import one_hot

PHI = np.array([[1.0, 0.2], [0.2, 0.5]])
# Multiples of a half, so that ties and repeated rows are common.
TABLES = arrays(float, st.tuples(st.integers(1, 8), st.just(2)), elements=st.integers(-6, 6).map(lambda i: i / 2))
PENALTIES = st.sampled_from([0.0, 0.5, 2.0, 7.5, 30.0])
WEIGHTS = st.sampled_from([None, "random"])


def weights_for(choice, X):
    return None if choice is None else np.random.default_rng(len(X)).choice([0.25, 1.0, 3.0], size=len(X))


def run_known(X, penalty, **options):
    return paper.covariance_dp_means(X, penalty, KnownCovarianceGaussian(PHI), **options)


def run_full(X, penalty, **options):
    return paper.covariance_dp_means(X, penalty, FullCovarianceGaussian(PHI, 1.3), **options)


ALGORITHMS = {
    "dp_means": (paper.dp_means, lambda penalty: dp_means_objective(penalty)),
    "collapsed": (paper.collapsed_dp_means, lambda penalty: dp_means_objective(penalty)),
    "known": (run_known, lambda penalty: Objective(KnownCovarianceGaussian(PHI), CRP(), penalty)),
    "full": (run_full, lambda penalty: covariance_objective(penalty, PHI, 1.3)),
    "capped": (partial(paper.dp_means, max_clusters=2), lambda penalty: dp_means_objective(penalty)),
    "collapsed capped": (
        partial(paper.collapsed_dp_means, max_clusters=2),
        lambda penalty: dp_means_objective(penalty),
    ),
}
each_algorithm = pytest.mark.parametrize(("algorithm", "objective_at"), ALGORITHMS.values(), ids=ALGORITHMS)


def assert_sound(result, objective, X, weights):
    """What holds of every run: converged, never rising, reporting its own objective, no empty cluster."""
    scale = 1e-9 * max(1.0, result.trace[0])
    assert result.converged
    assert (np.diff(result.trace) <= scale).all()
    assert len(result.trace) == result.iterations + 1
    assert result.value == pytest.approx(objective(X, result.Z, result.A, weights), abs=scale)
    assert (result.Z.sum(axis=1) == 1).all()
    assert result.Z.any(axis=0).all()


@each_algorithm
@given(X=TABLES, penalty=PENALTIES, choice=WEIGHTS)
def test_runs_descend_and_end(algorithm, objective_at, X, penalty, choice):
    weights = weights_for(choice, X)
    result = algorithm(X, penalty, sample_weight=weights)
    assert_sound(result, objective_at(penalty), X, weights)


@pytest.mark.parametrize("choice", [None, "random"])
@given(X=TABLES, penalty=PENALTIES)
def test_dp_means_ends_where_no_row_wants_to_move(choice, X, penalty):
    weights = weights_for(choice, X)
    result = paper.dp_means(X, penalty, sample_weight=weights)
    D = ((X[:, None] - result.A) ** 2).sum(axis=2)
    own = D[np.arange(len(X)), result.labels]
    assert (own <= D.min(axis=1) + 1e-9).all()
    assert ((1.0 if weights is None else weights) * D.min(axis=1) <= penalty + 1e-9).all()
    sums = [np.average(X[result.labels == k], axis=0, weights=None if weights is None else weights[result.labels == k])
            for k in range(result.K)]  # fmt: skip
    np.testing.assert_allclose(result.A, sums, atol=1e-9)


@pytest.mark.parametrize("choice", [None, "random"])
@pytest.mark.parametrize("cap", [None, 2])
@given(X=TABLES, penalty=PENALTIES)
def test_collapsed_ends_where_no_single_move_helps(cap, choice, X, penalty):
    weights = weights_for(choice, X)
    result = paper.collapsed_dp_means(X, penalty, max_clusters=cap, sample_weight=weights)
    prior = CRP() if cap is None else DirichletMultinomial(cap)
    objective = Objective(CollapsedGaussian(), prior, penalty)
    for n in range(len(X)):
        for k in range(result.K + 1):
            labels = result.labels.copy()
            labels[n] = k
            moved = objective(X, one_hot(labels, result.K + 1), sample_weight=weights)
            assert moved >= result.value - 1e-9 * max(1.0, result.value)


@pytest.mark.parametrize("run", [run_known, run_full])
@given(X=TABLES, penalty=PENALTIES)
def test_covariance_ends_where_no_row_wants_to_move(run, X, penalty):
    result = run(X, penalty)
    D = mahalanobis(X, *result.A)
    assert (D[np.arange(len(X)), result.labels] <= D.min(axis=1) + 1e-9).all()
    assert (D.min(axis=1) <= penalty + 1e-9).all()


def literal_pass(X, penalty, A, order, weights, cap):
    """DP-means, one pass, row by row with all distances taken anew."""
    A, labels = [*A], np.zeros(len(X), dtype=int)
    for n in order:
        distances = [((X[n] - mean) ** 2).sum() for mean in A]
        nearest = int(np.argmin(distances))
        if weights[n] * distances[nearest] > penalty and len(A) < cap:
            A.append(X[n])
            nearest = len(A) - 1
        labels[n] = nearest
    return labels


@pytest.mark.parametrize("cap", [np.inf, 4])
@given(seed=st.integers(0, 10**6))
def test_a_pass_is_the_serial_pass(cap, seed):
    rng = np.random.default_rng(seed)
    X, weights, order = rng.normal(size=(30, 2)), rng.random(30) + 0.5, rng.permutation(30)
    expected = literal_pass(X, 1.5, [np.average(X, axis=0, weights=weights)], order, weights, cap)
    result = paper.dp_means(
        X, 1.5, order=order, sample_weight=weights, max_clusters=None if cap == np.inf else cap, max_iter=1
    )
    _, expected = np.unique(expected, return_inverse=True)
    np.testing.assert_array_equal(result.labels, expected)


@each_algorithm
@settings(max_examples=15)
@given(X=TABLES.filter(lambda X: len(X) <= 6), penalty=PENALTIES)
def test_no_run_is_below_the_enumerated_optimum(algorithm, objective_at, X, penalty):
    optimum = paper.exhaustive(X, objective_at(penalty))
    assert algorithm(X, penalty).value >= optimum.value - 1e-9 * max(1.0, optimum.value)


@pytest.mark.parametrize("penalty", [4.0, 12.0])
def test_best_of_many_orders_finds_an_easy_optimum(penalty):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(3, 2)) * 0.3, rng.normal(size=(4, 2)) * 0.3 + 5])
    best, runs = paper.restarts(lambda seed: paper.dp_means(X, penalty, order=shuffled(seed, len(X))), range(20))
    assert best.value == pytest.approx(paper.exhaustive(X, dp_means_objective(penalty)).value)
    assert best.value == min(run.value for run in runs)
    assert [run.seed for run in runs] == list(range(20))


def shuffled(seed, N):
    return np.random.default_rng(seed).permutation(N)


@pytest.mark.parametrize("choice", [None, "random"])
@given(X=TABLES, K=st.integers(1, 4), seed=st.integers(0, 99))
def test_k_means_is_sound_and_uses_all_clusters(choice, X, K, seed):
    weights = weights_for(choice, X)
    A = paper.seed_clusters(X, K, random_state=seed, sample_weight=weights)
    result = paper.k_means(X, A, sample_weight=weights)
    assert_sound(result, k_means_objective(K), X, weights)
    assert min(K, len(np.unique(X, axis=0))) == result.K


def test_k_means_refills_an_empty_cluster():
    X = np.array([[0.0], [0.1], [10.0], [20.0]])
    result = paper.k_means(X, np.array([[0.0], [500.0], [10.0]]))
    assert result.K == 3
    assert result.value == pytest.approx(paper.exhaustive(X, k_means_objective(3)).value)


def test_known_covariances_of_their_own_keep_their_column():
    rng = np.random.default_rng(1)
    wide, narrow = np.diag([9.0, 9.0]), np.diag([0.04, 0.04])
    X = np.concatenate([rng.normal(size=(30, 2)) * 3, rng.normal(size=(30, 2)) * 0.2 + [20, 0]])
    likelihood = KnownCovarianceGaussian(np.stack([wide, narrow]))
    result = paper.covariance_dp_means(X, 25.0, likelihood, A=np.array([[0.0, 0.0], [20.0, 0.0]]))
    np.testing.assert_array_equal(result.labels, np.repeat([0, 1], 30))
    np.testing.assert_array_equal(result.A.covariances, [wide, narrow])
    alone = paper.covariance_dp_means(X[:30], 1e6, likelihood)
    assert alone.Z.shape == (30, 2)
    assert not alone.Z[:, 1].any()


def test_an_opened_cluster_takes_a_free_covariance():
    X = np.array([[0.0], [0.1], [50.0]])
    likelihood = KnownCovarianceGaussian(np.array([[[1.0]], [[2.0]]]))
    result = paper.covariance_dp_means(X, 5.0, likelihood)
    assert result.K == 2
    assert len(np.unique(result.labels)) == 2


def test_weights_scale_the_distance_and_not_the_penalty():
    X = np.array([[0.0], [4.0]])
    assert paper.dp_means(X, 10.0).K == 1
    assert paper.dp_means(X, 10.0, sample_weight=np.array([3.0, 3.0])).K == 2


def test_max_iter_is_reported():
    X = np.random.default_rng(0).normal(size=(50, 2))
    result = paper.dp_means(X, 0.5, max_iter=1)
    assert (result.iterations, result.converged) == (1, False)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_scales_and_offsets_do_not_matter(scale, offset):
    rng = np.random.default_rng(2)
    X = np.round(rng.normal(size=(40, 2)), 3)
    moved = (X + offset) * scale
    plain = paper.dp_means(X, 2.0)
    np.testing.assert_array_equal(paper.dp_means(moved, 2.0 * scale**2).labels, plain.labels)
