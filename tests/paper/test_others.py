"""Seeding, restarts, exhaustive search, and descent on any objective."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from madbayes import paper
from madbayes.model import (
    CRP,
    IBP,
    BetaBernoulli,
    CollapsedGaussian,
    DirichletMultinomial,
    FullCovarianceGaussian,
    Gaussian,
    Objective,
    bp_means_objective,
    dp_means_objective,
)


def test_the_first_feature_is_the_base():
    X = np.random.default_rng(0).normal(size=(20, 3)) + 5
    Z, A = paper.seed_features(X, 4, random_state=1)
    assert Z[:, 0].all()
    np.testing.assert_allclose(A[0], X.mean(axis=0))


@given(seed=st.integers(0, 10**6))
def test_a_seeded_feature_is_a_residual_that_all_its_rows_want(seed):
    X = np.random.default_rng(seed).normal(size=(12, 3))
    Z, A = paper.seed_features(X, 4, random_state=seed)
    for k in range(1, 4):
        R = X - Z[:, :k] @ A[:k]
        assert (np.abs(R - A[k]).max(axis=1) < 1e-12).any()
        shortened = ((R - A[k]) ** 2).sum(axis=1) < (R**2).sum(axis=1)
        np.testing.assert_array_equal(Z[:, k], shortened)


@given(seed=st.integers(0, 10**6), penalty=st.floats(0.01, 100.0))
def test_with_unknown_number_every_feature_after_the_base_lowers_the_objective(seed, penalty):
    X = np.random.default_rng(seed).normal(size=(12, 3)) + 1
    Z, A = paper.seed_features(X, penalty=penalty, random_state=seed)
    objective = bp_means_objective(penalty)
    values = [objective(X, Z[:, :k], A[:k]) for k in range(1, Z.shape[1] + 1)]
    assert Z[:, 0].all()
    assert (np.diff(values) < 0).all()


def test_rows_are_drawn_by_their_squared_error():
    """One row far away, weight and distance multiplied: it is drawn with the stated probability."""
    X, weights = np.array([[0.0], [0.5], [2.0], [-1.0]]), np.array([1.0, 1.0, 2.0, 4.0])
    mean = np.average(X[:, 0], weights=weights)
    errors = weights * (X[:, 0] - mean) ** 2
    drawn = [paper.seed_features(X, 2, random_state=s, sample_weight=weights)[1][1, 0] for s in range(4000)]
    share = np.mean(np.isclose(drawn, X[3, 0] - mean))
    expected = errors[3] / errors.sum()
    assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / 4000)


def test_seeding_stops_when_nothing_is_left():
    assert paper.seed_features(np.ones((5, 2)), 3, random_state=0)[0].shape == (5, 1)
    assert paper.seed_features(np.zeros((5, 2)), penalty=1.0)[0].shape == (5, 0)
    assert paper.seed_clusters(np.ones((5, 2)), 3, random_state=0).shape == (1, 2)


def test_cluster_seeds_are_distinct_rows():
    X = np.repeat(np.arange(6.0)[:, None], 3, axis=0)
    centres = paper.seed_clusters(X, 6, random_state=0)
    np.testing.assert_array_equal(np.sort(centres[:, 0]), np.arange(6))


def test_farthest_first_by_hand():
    """The mean is 4.2: the farthest row is 12, then 0, then 5, which is nearer to the mean than to both."""
    X = np.array([[0.0], [0.0], [4.0], [5.0], [12.0]])
    mean = X.mean()
    assert paper.farthest_first_penalty(X, 1) == pytest.approx((12 - mean) ** 2)
    assert paper.farthest_first_penalty(X, 2) == pytest.approx(mean**2)
    assert paper.farthest_first_penalty(X, 3) == pytest.approx((5 - mean) ** 2)


def test_farthest_first_gives_about_the_wanted_number():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 2)) * 0.1 + centre for centre in ([0, 0], [9, 0], [0, 9], [9, 9])])
    assert paper.dp_means(X, paper.farthest_first_penalty(X, 4)).K == 4


def test_restarts_keep_the_first_of_equal_results():
    X = np.array([[0.0], [10.0]])
    best, runs = paper.restarts(lambda seed: paper.dp_means(X, 1.0), [7, None, "start"])
    assert [run.seed for run in runs] == [7, None, "start"]
    assert {(run.K, run.value, run.iterations) for run in runs} == {(2, 1.0, best.iterations)}


@pytest.mark.parametrize("N", [1, 3, 6])
def test_partitions_are_counted_by_bell_numbers(N):
    all_Z = [tuple(Z.argmax(axis=1)) for Z in paper.partitions(N)]
    assert len(set(all_Z)) == len(all_Z) == {1: 1, 3: 5, 6: 203}[N]


def test_allocations_are_sets_or_multisets_of_columns():
    assert sum(1 for _ in paper.allocations(3, 2)) == 1 + 7 + math.comb(7, 2)
    assert sum(1 for _ in paper.allocations(3, 2, repeats=True)) == 1 + 7 + math.comb(8, 2)


def test_exhaustive_by_hand():
    """Two pairs: joined they cost 100.99 or so, apart 0.01 and one penalty."""
    X = np.array([[0.0], [0.1], [10.0], [10.1]])
    result = paper.exhaustive(X, dp_means_objective(50.0))
    assert result.K == 2
    assert result.value == pytest.approx(0.01 + 50)
    assert paper.exhaustive(X, dp_means_objective(200.0)).K == 1
    Z = np.array([[1, 0], [0, 1], [1, 1]])
    A = np.array([[3.0, 0.0], [0.0, 5.0]])
    assert paper.exhaustive(Z @ A, bp_means_objective(1.0)).value == pytest.approx(2.0)


OBJECTIVES = [
    Objective(Gaussian(), CRP(), 2.0),
    Objective(CollapsedGaussian(), DirichletMultinomial(2), 2.0),
    Objective(FullCovarianceGaussian(np.eye(2)), CRP(), 1.0),
    Objective(Gaussian(), IBP(), 2.0),
    Objective(CollapsedGaussian(), BetaBernoulli(2), 2.0),
]


@pytest.mark.parametrize(
    "objective", OBJECTIVES, ids=lambda o: f"{type(o.likelihood).__name__}-{type(o.prior).__name__}"
)
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_minimise_descends_to_a_point_no_neighbour_improves(objective, seed):
    X = np.random.default_rng(seed).normal(size=(4, 2)) * 2
    result = paper.minimise(X, objective)
    assert result.converged
    assert (np.diff(result.trace) <= 1e-9).all()
    assert result.value == pytest.approx(objective(X, result.Z, result.A))
    assert result.value >= paper.exhaustive(X, objective).value - 1e-9
    again = paper.minimise(X, objective, result.Z)
    assert again.value == pytest.approx(result.value)
    for k in range(result.K if objective.prior.kind == "features" else 0):
        assert objective(X, np.delete(result.Z, k, axis=1)) >= result.value - 1e-9


def test_minimise_says_what_is_missing():
    class Lacking:
        kind = "clusters"

    with pytest.raises(TypeError, match="minimise needs penalty of the prior, which Lacking lacks"):
        paper.minimise(np.zeros((2, 1)), Objective(Gaussian(), Lacking()))
