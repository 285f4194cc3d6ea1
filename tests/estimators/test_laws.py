"""What holds for every fit, on small tables full of ties, duplicates and constant columns."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures, paper
from madbayes.model import (
    CRP,
    FullCovarianceGaussian,
    MeansCovariances,
    Objective,
    bp_means_objective,
    capped_bp_means_objective,
    capped_dp_means_objective,
    dp_means_objective,
    k_features_objective,
)
from madbayes.model.priors import one_hot

SMALL = settings(max_examples=25)
pytestmark = pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")


@st.composite
def tables(draw, max_rows=10):
    shape = draw(st.integers(1, max_rows)), draw(st.integers(1, 4))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    elements = draw(st.sampled_from([st.integers(-3, 3), st.floats(-100, 100, width=32, allow_subnormal=False)]))
    return draw(arrays(dtype, shape, elements=elements))


@st.composite
def weighted_tables(draw):
    X = draw(tables())
    weights = draw(st.none() | arrays(np.int64, len(X), elements=st.integers(0, 4)).filter(np.any))
    return X, weights


# Rows with several codes of the same error.
TIES = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 3.0], [3.0, 0.0], [3.0, 3.0], [3.0, 3.0]])
LINE = np.array([[3.0], [-1.0], [1.0], [-2.0], [0.0], [2.0], [0.0]])

penalties = st.sampled_from([0.0, 0.5, 2.0, 30.0, "3%", "auto"])
caps = st.sampled_from([None, 1, 3, 20])
collapsed = st.booleans()


def fitted(model, X, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.set_params(n_init=2, random_state=0).fit(X, sample_weight=weights)


def close(X):
    """Rounding of squares of these numbers."""
    return {"rtol": 1e-9, "atol": 1e-12 * max(1.0, float((X.astype(float) ** 2).sum()))}


def check_canonical(sizes, means):
    keys = [(-size, *mean) for size, mean in zip(sizes, means.tolist(), strict=True)]
    assert keys == sorted(keys)


def check_clusters(model, X, weights):
    assert_array_equal(model.labels_, model.predict(X))
    counted = np.ones(len(X)) if weights is None else weights
    sizes = np.bincount(model.labels_, counted, minlength=model.n_clusters_)
    assert (sizes > 0).all()
    check_canonical(sizes, model.cluster_centers_)
    assert_allclose(-model.score(X, sample_weight=weights), model.objective_, **close(X))
    assert_allclose(model.sse_ + model.penalty_ * (model.n_clusters_ - 1), model.objective_, **close(X))
    return one_hot(model.labels_, model.n_clusters_)


def check_features(model, X, weights):
    assert_array_equal(model.allocations_, model.transform(X))
    assert model.allocations_.shape == (len(X), model.n_components_)
    counted = np.ones(len(X)) if weights is None else weights
    sizes = counted @ model.allocations_
    assert (sizes > 0).all()
    if model.n_components_:
        assert np.linalg.matrix_rank(model.allocations_[counted > 0]) == model.n_components_
    check_canonical(sizes, model.components_)
    assert_allclose(-model.score(X, sample_weight=weights), model.objective_, **close(X))
    assert_allclose(model.sse_ + model.penalty_ * model.n_components_, model.objective_, **close(X))
    sums = model.allocations_ @ model.components_
    assert_allclose(model.inverse_transform(model.transform(X)), sums, rtol=1e-5, atol=1e-5 * np.abs(X).max())


def recomputed(objective, X, Z, A, weights):
    weights = None if weights is None else weights.astype(float)
    return objective(X.astype(float), Z, A, weights)


@SMALL
@given(weighted_tables(), penalties, caps, collapsed)
def test_dp_means(table, penalty, cap, collapsed):
    X, weights = table
    model = fitted(DPMeans(penalty, max_clusters=cap, collapsed=collapsed), X, weights)
    Z = check_clusters(model, X, weights)
    capped = capped_dp_means_objective(cap, model.penalty_) if cap else dp_means_objective(model.penalty_)
    value = recomputed(capped, X, Z, model.cluster_centers_.astype(float), weights)
    assert_allclose(value, model.objective_, **close(X))


@SMALL
@given(weighted_tables(), penalties, caps, collapsed)
@example((TIES, None), 0.5, None, False)
def test_bp_means(table, penalty, cap, collapsed):
    X, weights = table
    model = fitted(BPMeans(penalty, max_components=cap, collapsed=collapsed), X, weights)
    check_features(model, X, weights)
    capped = capped_bp_means_objective(cap, model.penalty_) if cap else bp_means_objective(model.penalty_)
    value = recomputed(capped, X, model.allocations_, model.components_.astype(float), weights)
    assert_allclose(value, model.objective_, **close(X))


@SMALL
@given(weighted_tables(), st.sampled_from([1, 2, 5, 12]), collapsed)
def test_k_features(table, K, collapsed):
    X, weights = table
    model = fitted(KFeatures(K, collapsed=collapsed), X, weights)
    check_features(model, X, weights)
    value = recomputed(k_features_objective(K), X, model.allocations_, model.components_.astype(float), weights)
    assert_allclose(value, model.objective_, **close(X))
    assert model.penalty_ == 0


@SMALL
@given(weighted_tables(), penalties, caps)
def test_stepwise_k_features(table, penalty, cap):
    X, weights = table
    model = fitted(StepwiseKFeatures(penalty, max_components=cap), X, weights)
    check_features(model, X, weights)
    assert model.n_components_ <= (cap or np.inf)


@SMALL
@given(weighted_tables(), st.sampled_from([0.1, 2.0, "3%", "auto"]), caps, st.sampled_from([0.5, 3.0]))
@example((np.array([[1e-24], [0.0]], dtype=np.float32), None), 0.1, None, 0.5)
def test_covariance_dp_means(table, penalty, cap, c):
    X, weights = table
    model = fitted(CovarianceDPMeans(penalty, covariance_penalty=c, max_clusters=cap), X, weights)
    check_clusters(model, X, weights)
    assert_allclose(model.covariances_, model.covariances_.swapaxes(1, 2))


@SMALL
@given(weighted_tables(), st.sampled_from([0.1, 2.0]))
def test_covariance_objective(table, penalty):
    X, weights = table
    Phi = np.eye(X.shape[1]) + 0.5
    model = fitted(CovarianceDPMeans(penalty, covariance_penalty=2.0, prior_covariance=Phi), X, weights)
    A = MeansCovariances(model.cluster_centers_.astype(float), model.covariances_.astype(float))
    objective = Objective(FullCovarianceGaussian(Phi, 2.0), CRP(), penalty)
    value = recomputed(objective, X, one_hot(model.labels_, model.n_clusters_), A, weights)
    assert_allclose(model.objective_, value, **close(X))


@SMALL
@given(weighted_tables(), penalties)
@example((LINE, None), 0.5)
def test_no_fit_is_worse_than_its_best_run(table, penalty):
    X, weights = table
    X = X.astype(float)
    for model in (DPMeans(penalty), BPMeans(penalty), StepwiseKFeatures(penalty), KFeatures(3)):
        fitted(model, X, weights)
        best = min((run.value for run in model.runs_), default=np.inf)
        assert model.objective_ <= (1 + 1e-9) * best + close(X)["atol"]


@SMALL
@given(tables(max_rows=6), st.sampled_from([0.5, 2.0, 30.0]))
def test_no_fit_is_better_than_the_optimum(X, penalty):
    X = X.astype(float)
    optimum = paper.exhaustive(X, dp_means_objective(penalty)).value
    assert fitted(DPMeans(penalty), X, None).objective_ >= (1 - 1e-9) * optimum - close(X)["atol"]


@SMALL
@given(weighted_tables(), st.sampled_from([0.5, 2.0, "3%", "auto"]))
def test_rows_of_weight_zero_have_labels_and_no_influence(table, penalty):
    X, weights = table
    weights = 2 * (np.arange(len(X)) % 2 == 0) if weights is None else 2 * weights
    counted = weights > 0
    for model in (DPMeans(penalty), CovarianceDPMeans(penalty)):
        whole = fitted(model, X, weights)
        centers, labels, value = whole.cluster_centers_, whole.labels_, whole.objective_
        part = fitted(model, X[counted], weights[counted])
        assert_array_equal(part.cluster_centers_, centers)
        assert_array_equal(part.predict(X), labels)
        assert part.objective_ == value
    for model in (BPMeans(penalty), KFeatures(2), StepwiseKFeatures(penalty)):
        whole = fitted(model, X, weights)
        components, allocations, value = whole.components_, whole.allocations_, whole.objective_
        part = fitted(model, X[counted], weights[counted])
        assert_array_equal(part.components_, components)
        assert_array_equal(part.transform(X), allocations)
        assert part.objective_ == value


@SMALL
@given(weighted_tables(), penalties)
def test_a_weight_counts_as_so_many_copies(table, penalty):
    X, weights = table
    weights = np.arange(len(X)) % 3 + 1 if weights is None else weights
    for model in (DPMeans(penalty), BPMeans(penalty), KFeatures(2)):
        fitted(model, X, weights)
        assert_allclose(model.score(X, sample_weight=weights), model.score(np.repeat(X, weights, axis=0)), **close(X))


@pytest.mark.parametrize("order", ["rows", "columns"])
def test_reordering_the_table_reorders_the_answer(order, blobs):
    X, _ = blobs
    turned = X[::-1] if order == "rows" else X[:, ::-1]
    first, second = (DPMeans(100.0, random_state=0).fit(table) for table in (X, turned))
    labels = second.labels_[::-1] if order == "rows" else second.labels_
    assert_array_equal(first.labels_, labels)
    assert_allclose(first.objective_, second.objective_)
