from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from madbayes import BPMeans, KFeatures, StepwiseKFeatures, paper
from madbayes.datasets import make_linear_gaussian
from madbayes.model import bp_means_objective

SUMS = np.array([[3.0, 0.0], [0.0, 5.0], [3.0, 5.0], [3.0, 5.0]])


@pytest.mark.parametrize("model", [KFeatures(2), StepwiseKFeatures(1.0), BPMeans(1.0, collapsed=True)])
@pytest.mark.parametrize("search", ["best", "paper"])
def test_found_by_hand(model, search):
    model.set_params(search=search, random_state=0).fit(SUMS)
    assert_allclose(model.components_, [[0, 5], [3, 0]], atol=1e-12)
    assert_array_equal(model.allocations_, [[0, 1], [1, 0], [1, 1], [1, 1]])
    assert_allclose(model.inverse_transform(model.transform(SUMS)), SUMS, atol=1e-12)


@pytest.mark.parametrize("search", ["best", "paper"])
@pytest.mark.parametrize("collapsed", [False, True])
@pytest.mark.parametrize("weights", [None, np.arange(18) % 3])
def test_k_features_is_capped_bp_means_without_a_penalty(X, search, collapsed, weights):
    options = {"collapsed": collapsed, "search": search, "random_state": 5, "n_init": 4}
    first = KFeatures(3, **options).fit(X, sample_weight=weights)
    second = BPMeans(0, max_components=3, **options).fit(X, sample_weight=weights)
    assert_array_equal(first.components_, second.components_)
    assert_array_equal(first.allocations_, second.allocations_)
    assert [run[:4] for run in first.runs_] == [run[:4] for run in second.runs_]


@pytest.mark.parametrize("K", [4, 10**6])
@pytest.mark.parametrize("collapsed", [False, True])
def test_fewer_components_when_nothing_is_left_to_explain(K, collapsed, seed):
    X = np.random.default_rng(seed).normal(size=(3, 5))
    for rows, possible in (([0, 1, 2, 2, 1, 0], 3), ([1, 1, 1], 1)):
        with pytest.warns(ConvergenceWarning, match=f"{possible} .*fewer than the {K} asked for"):
            model = KFeatures(K, collapsed=collapsed, random_state=0).fit(X[rows])
        assert model.n_components_ == possible
        assert_allclose(model.objective_, 0, atol=1e-20)


def test_k_features_has_as_many_components_as_asked_for(seed):
    X = make_linear_gaussian(30, 5, 4, random_state=seed).X
    for K in (1, 4, 9):
        model = KFeatures(K, n_init=2, random_state=0).fit(X)
        assert model.n_components_ == K
        assert np.linalg.matrix_rank(model.allocations_) == K


@pytest.mark.parametrize("cap", [1, 2, 10**6])
def test_never_more_components_than_the_cap(X, cap):
    for model in (BPMeans(1.0, max_components=cap), StepwiseKFeatures(1.0, max_components=cap)):
        assert model.set_params(random_state=0).fit(X).n_components_ <= cap


def test_too_expensive_for_any_component(X):
    model = BPMeans(1e9).fit(X)
    assert model.components_.shape == (0, 2)
    assert model.allocations_.shape == (18, 0)
    assert_allclose(model.objective_, (X**2).sum())
    assert model.transform(X).shape == (18, 0)
    assert model.get_feature_names_out().shape == (0,)
    assert_array_equal(model.inverse_transform(np.zeros((5, 0))), np.zeros((5, 2)))
    assert np.isposinf(model.score_samples(X)[:, 1]).all()
    assert model.describe() == []


def test_a_share_is_of_the_squared_error_about_the_mean(X):
    weights = np.arange(1.0, len(X) + 1)
    model = BPMeans("5%", random_state=0).fit(X, sample_weight=weights)
    mean = np.average(X, axis=0, weights=weights)
    assert_allclose(model.penalty_, 0.05 * (weights @ ((X - mean) ** 2).sum(axis=1)))
    assert_allclose(model.penalty_share_, 0.05)


def test_every_component_is_used_when_codes_tie():
    X = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 3.0], [3.0, 0.0], [3.0, 3.0], [3.0, 3.0]])
    model = BPMeans(0.5, n_init=2, random_state=0).fit(X)
    assert model.allocations_.any(axis=0).all()
    assert_allclose(bp_means_objective(0.5)(X, model.allocations_, model.components_), model.objective_)


def test_above_ten_components_a_fit_is_not_worse_than_its_runs(seconds):
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(30, 3))
        with seconds(60):
            model = KFeatures(12, n_init=2, random_state=0).fit(X)
        assert model.objective_ <= min(run.value for run in model.runs_) + 1e-9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_above_ten_components_many_codes_of_equal_error_are_no_obstacle(seconds):
    for seed in range(20):
        X = np.random.default_rng(seed).integers(-3, 4, (40, 2)).astype(float)
        with seconds(60):
            model = KFeatures(12, n_init=1, random_state=0).fit(X)
        assert_array_equal(model.allocations_, model.transform(X))
        assert_allclose(-model.score(X), model.objective_, atol=1e-9)


def test_score_samples_against_all_flips(X):
    model = BPMeans(5.0, random_state=0).fit(X)
    new = X[:7] + 1
    Z, A = model.transform(new), model.components_
    errors = ((new - Z @ A) ** 2).sum(axis=1)
    flips = [((new - np.abs(Z - bit) @ A) ** 2).sum(axis=1) for bit in np.eye(len(A))]
    assert_allclose(model.score_samples(new), np.column_stack([errors, np.min(flips, axis=0) - errors]), atol=1e-9)
    assert_allclose(-model.score(new), errors.sum() + 5.0 * len(A))


def test_transform_is_exact(X):
    model = KFeatures(4, random_state=0).fit(X)
    new = X + 1
    codes = np.array(list(product([0, 1], repeat=4)))
    errors = ((new[:, None] - codes @ model.components_) ** 2).sum(axis=2)
    assert_array_equal(model.transform(new), codes[errors.argmin(axis=1)])


def test_init_with_codes_and_components(X, seed):
    rng = np.random.default_rng(seed)
    Z, A = np.eye(3)[rng.integers(3, size=len(X))], rng.normal(size=(3, 2))
    for model, value in (
        (BPMeans(5.0), paper.bp_means(X, 5.0, Z, A).value),
        (BPMeans(5.0, collapsed=True), paper.collapsed_bp_means(X, 5.0, Z).value),
        (KFeatures(3), paper.k_features(X, 3, Z, A).value),
    ):
        (run,) = model.set_params(init=(Z, A), search="paper").fit(X).runs_
        assert run.seed == "init"
        assert_allclose(run.value, value)
        assert model.objective_ <= value + 1e-9


def test_init_with_a_fitted_model(X):
    first = BPMeans(5.0, n_init=1, random_state=0).fit(X)
    for model in (BPMeans(5.0), StepwiseKFeatures(5.0, random_state=0)):
        second = model.set_params(init=first, search="paper").fit(X)
        assert second.objective_ <= first.objective_ + 1e-9
        assert "init" in [run.seed for run in second.runs_]
    same = KFeatures(first.n_components_, init=first, search="paper").fit(X)
    assert same.objective_ <= first.sse_ + 1e-9


def test_init_goes_with_rows_that_do_not_count(X):
    """Z has a line for every row of X, also for those of weight zero."""
    weights = np.arange(len(X)) % 3
    Z, A = (X[:, :1] > 4).astype(int), np.array([[8.0, 8.0]])
    model = BPMeans(5.0, init=(Z, A), search="paper").fit(X, sample_weight=weights)
    counted = weights > 0
    expected = paper.bp_means(X[counted], 5.0, Z[counted], A, sample_weight=weights[counted].astype(float))
    assert_allclose(model.runs_[0].value, expected.value)


def test_common_components_come_first_and_equal_ones_by_their_values():
    A = np.array([[0.0, 0.0, 9.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    Z = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 1, 1]])
    model = BPMeans(1e-3, init=(Z, A)).fit(Z @ A)
    assert_allclose(model.components_, A[[2, 1, 0]], atol=1e-9)
    model.fit(Z @ A, sample_weight=[1, 9, 1, 1])
    assert_allclose(model.components_, A[[0, 2, 1]], atol=1e-9)


def test_stepwise_is_the_best_of_k_features_for_each_number(X):
    model = StepwiseKFeatures(2.0, search="paper", n_init=5, random_state=0).fit(X)
    result, runs = paper.stepwise_k_features(X, 2.0, n_init=5, random_state=model_seed(0))
    assert [(run.seed, run.K, run.iterations) for run in model.runs_] == [(r.seed, r.K, r.iterations) for r in runs]
    assert_allclose([run.value for run in model.runs_], [run.value for run in runs])
    assert model.objective_ <= result.value + 1e-9


def model_seed(random_state):
    """The first seed an estimator draws."""
    return int(np.random.RandomState(random_state).randint(2**31 - 1, size=1)[0])


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_an_offset_is_one_more_component(offset, featurer, X):
    far = X + offset
    model = featurer.fit(far)
    assert np.isfinite(model.objective_)
    assert_array_equal(model.allocations_, model.transform(far))
    assert_allclose(-model.score(far), model.objective_, rtol=1e-5)
    assert model.objective_ <= ((X - X.mean(axis=0)) ** 2).sum() + 5.0


@pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")
@pytest.mark.parametrize("unit", [1e-100, 1e-8, 1e8, 1e100])
@pytest.mark.parametrize("penalty", [5.0, "5%", "auto"])
def test_units_do_not_matter(X, unit, penalty, seconds):
    unit = 2.0 ** round(np.log2(unit))
    reference = BPMeans(penalty, n_init=3, random_state=0).fit(X)
    penalty = penalty if isinstance(penalty, str) else penalty * unit**2
    with seconds(60):
        model = BPMeans(penalty, n_init=3, random_state=0).fit(unit * X)
    assert_array_equal(model.allocations_, reference.allocations_)
    assert_allclose(model.objective_ / unit**2, reference.objective_)


@pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")
@pytest.mark.parametrize("unit", [1e-100, 1e-30, 1e30, 1e100])
def test_the_unit_of_weights_does_not_matter(X, unit):
    unit = 2.0 ** round(np.log2(unit))
    weights = np.arange(1.0, len(X) + 1)
    reference = BPMeans(n_init=3, random_state=0).fit(X, sample_weight=weights)
    model = BPMeans(n_init=3, random_state=0).fit(X, sample_weight=unit * weights)
    assert_array_equal(model.allocations_, reference.allocations_)
    assert_allclose(model.objective_ / unit, reference.objective_)


def test_describe():
    groups = KFeatures(2, random_state=0).fit(SUMS).describe(n_columns=1)
    assert [(group["size"], group["share"]) for group in groups] == [(3, 0.75), (3, 0.75)]
    assert [group["columns"][0][0] for group in groups] == ["x1", "x0"]
    deviations = SUMS.std(axis=0)
    assert_allclose([group["columns"][0][1:] for group in groups], [(5, 5 / deviations[1]), (3, 3 / deviations[0])])
