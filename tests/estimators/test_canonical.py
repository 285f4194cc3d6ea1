"""Equivalent solutions print the same, and how far from the best they can be."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, paper
from madbayes.certificates import lower_bound
from madbayes.estimators import base, canonical
from madbayes.model import bp_means_objective, dp_means_objective

codes = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def told_by_the_fewer(Z, A, weights):
    return canonical.told_by_the_fewer(A, weights @ Z, weights.sum(), Z.all(axis=0))


@given(codes, st.integers(1, 12), st.integers(1, 4))
def test_components_told_by_the_fewer_add_up_to_the_same(rng, N, K):
    Z, A, weights = rng.integers(2, size=(N, K), dtype=np.uint8), rng.normal(size=(K, 3)), rng.integers(1, 4, N) * 1.0
    Z[:, 0] = 1
    turned = told_by_the_fewer(Z, A, weights)
    if turned is None:
        assert (weights @ Z[:, ~Z.all(axis=0)] <= weights.sum() / 2).all()
        return
    changed = (np.sign(turned) != np.sign(A)).all(axis=1)
    changed[np.flatnonzero(Z.all(axis=0))] = False
    told = np.where(changed, 1 - Z, Z)
    assert_allclose(told @ turned, Z @ A, atol=1e-12)
    assert (weights @ told[:, changed] <= weights.sum() / 2).all()
    assert told_by_the_fewer(told, turned, weights) is None


def test_without_a_base_nothing_is_told_otherwise():
    assert told_by_the_fewer(np.array([[1, 1], [1, 0], [0, 1]], dtype=np.uint8), np.eye(2), np.ones(3)) is None
    assert told_by_the_fewer(np.zeros((3, 0), dtype=np.uint8), np.zeros((0, 2)), np.ones(3)) is None


def told_otherwise(Z, A):
    return canonical.told_otherwise(A, Z.sum(axis=0), len(Z), Z.T.astype(float) @ Z, len(Z))


@given(codes, st.integers(2, 12), st.integers(2, 4))
def test_where_all_rows_have_one_of_two_components_there_can_be_a_base(rng, N, K):
    Z, A = rng.integers(2, size=(N, K), dtype=np.uint8), rng.normal(size=(K, 3))
    Z[0, 0], Z[1, 0] = 1, 0
    Z[:, 1] = 1 - Z[:, 0]
    assume(np.linalg.matrix_rank(Z) == K)  # as the components of estimators are
    told = told_otherwise(Z, A)
    sums = np.array([code @ told for code in np.ndindex(*[2] * K)])
    distances = ((Z @ A)[:, None] - sums) ** 2
    assert_allclose(distances.sum(axis=2).min(axis=1), 0, atol=1e-20)
    codes = np.array(list(np.ndindex(*[2] * K)))[distances.sum(axis=2).argmin(axis=1)]
    assert codes.all(axis=0).any()
    assert told_otherwise(codes.astype(np.uint8), told) is None


def test_two_components_with_a_row_that_has_both_or_none_are_left_alone():
    A = np.eye(2)
    assert told_otherwise(np.array([[1, 0], [0, 1], [1, 0]], dtype=np.uint8), A) is not None
    assert told_otherwise(np.array([[1, 0], [0, 1], [1, 1]], dtype=np.uint8), A) is None
    assert told_otherwise(np.array([[1, 0], [0, 1], [0, 0]], dtype=np.uint8), A) is None
    assert told_otherwise(np.array([[1, 1], [0, 0]], dtype=np.uint8), A) is None


def test_of_two_halves_the_positive_one():
    Z, A = np.array([[1, 1], [1, 0]], dtype=np.uint8), np.array([[5.0, 5.0], [-1.0, 2.0]])
    assert_allclose(told_by_the_fewer(Z, A, np.ones(2)), [[4.0, 7.0], [1.0, -2.0]])
    assert told_by_the_fewer(1 - Z * [0, 1], np.array([[4.0, 7.0], [1.0, -2.0]]), np.ones(2)) is None


@pytest.fixture
def based():
    """A base far from zero in all rows, two components in 70 % of them, one in 20 %."""
    rng = np.random.default_rng(5)
    Z = np.column_stack([np.ones(80), rng.random((80, 3)) < [0.7, 0.7, 0.2]]).astype(np.uint8)
    A = np.array([[30.0, 20, 10, 0, 5], [4, 0, 0, 4, 0], [0, 5, 0, 0, -3], [0, 0, 6, 1, 1]])
    return Z @ A + 0.05 * rng.normal(size=(80, 5)), Z, A


@pytest.mark.parametrize("model", [KFeatures(4, random_state=0), BPMeans(20.0, random_state=0)])
def test_two_components_of_which_each_row_has_one_print_as_a_base_and_one(model, based):
    """Whether or not the base is told, the sums are the same."""
    X, Z, A = based
    either, B = Z.copy(), A.copy()
    either[:, 0] -= Z[:, 1]
    B[1] += A[0]
    assert_allclose(either @ B, Z @ A)
    found = [model.set_params(search="paper", n_init=1, init=init).fit(X) and (model.components_, model.allocations_)
             for init in ((Z, A), (either, B))]  # fmt: skip
    assert found[1][1].all(axis=0).any()
    assert_array_equal(found[0][1], found[1][1])
    assert_allclose(found[0][0], found[1][0])


@pytest.mark.parametrize("model", [KFeatures(4, random_state=0), BPMeans(20.0, random_state=0)])
def test_equivalent_starts_print_the_same(model, based):
    X, Z, A = based
    first = model.set_params(search="paper", n_init=1, init=(Z, A)).fit(X)
    for turned in ([1], [2], [1, 2], [3], [1, 2, 3]):
        other_Z, other_A = Z.copy(), A.copy()
        other_Z[:, turned] ^= 1
        other_A[0] += A[turned].sum(axis=0)
        other_A[turned] *= -1
        other = model.set_params(init=(other_Z, other_A)).fit(X)
        assert_array_equal(other.allocations_, first.allocations_)
        assert_allclose(other.components_, first.components_, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_base_and_components_of_few_rows(dtype, based):
    X, Z, _ = based
    model = KFeatures(4, random_state=0).fit(X.astype(dtype))
    assert model.allocations_[:, 0].all()
    assert (model.allocations_[:, 1:].mean(axis=0) <= 0.5).all()
    assert_array_equal(model.transform(X.astype(dtype)), model.allocations_)
    assert model.objective_trace_[-1] <= model.objective_trace_[-2] * (1 + 1e-6)
    told = np.where(Z.mean(axis=0) > 0.5, 1 - Z, Z)
    told[:, 0] = 1
    found = {tuple(column) for column in model.allocations_.T}
    assert found == {tuple(column) for column in told.T}


# optimality_gap_


@settings(max_examples=20)
@given(codes, st.sampled_from([0.3, 2.0, 30.0]))
def test_no_fit_is_better_than_the_gap_allows(rng, penalty):
    X = rng.normal(size=(4, 2))
    for model, objective in ((BPMeans(penalty), bp_means_objective), (DPMeans(penalty), dp_means_objective)):
        model = model.set_params(search="paper", random_state=0).fit(X)
        optimum = paper.exhaustive(X, objective(penalty)).value
        assert 0 <= model.optimality_gap_ <= 1
        assert model.objective_ * (1 - model.optimality_gap_) <= optimum * (1 + 1e-9)


def test_the_gap_is_that_of_the_lower_bound(X):
    weights = np.arange(1.0, len(X) + 1)
    for model, bound in (
        (BPMeans(5.0), lower_bound(X, 5.0, sample_weight=weights)),
        (KFeatures(1), lower_bound(X, 0.0, K=1, sample_weight=weights)),
        (DPMeans(5.0), lower_bound(X, 5.0, "clusters", sample_weight=weights)),
        (DPMeans(0.0, max_clusters=2), lower_bound(X, 0.0, "clusters", K=2, sample_weight=weights)),
    ):
        model = model.set_params(random_state=0).fit(X, sample_weight=weights)
        assert_allclose(model.optimality_gap_, 1 - bound / model.objective_)
        assert bound > 0


def test_nothing_to_gain_on_an_exact_fit():
    X = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0]])
    assert KFeatures(2, random_state=0).fit(X).optimality_gap_ == pytest.approx(0, abs=1e-9)


def test_no_gap_where_it_is_not_known(X, monkeypatch):
    assert CovarianceDPMeans(0.1, random_state=0).fit(X).optimality_gap_ is None
    monkeypatch.setattr(base, "CHEAP", 10)
    assert DPMeans(5.0, random_state=0).fit(X).optimality_gap_ is None
