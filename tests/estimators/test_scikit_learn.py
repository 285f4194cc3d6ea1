"""Life among other scikit-learn objects: frames, pipelines, searches, copies."""

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures

NAMES = ["height", "width"]


def answer(model, X):
    return model.predict(X) if hasattr(model, "predict") else model.transform(X)


def learned(model):
    return model.cluster_centers_ if hasattr(model, "cluster_centers_") else model.components_


@pytest.fixture(params=["pandas", "polars"])
def frame(request, X):
    return pd.DataFrame(X, columns=NAMES) if request.param == "pandas" else pl.DataFrame(X, schema=NAMES)


def test_frames_are_tables_with_names(model, X, frame):
    by_frame, by_array = clone(model).fit(frame), clone(model).fit(X)
    assert_array_equal(learned(by_frame), learned(by_array))
    assert_array_equal(answer(by_frame, frame), answer(by_array, X))
    assert list(by_frame.feature_names_in_) == NAMES
    assert {name for group in by_frame.describe() for name, _, _ in group["columns"]} <= set(NAMES)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_set_output(model, X, frame, kind):
    plain = clone(model).fit(frame).transform(frame)
    output = model.set_output(transform=kind).fit(frame).transform(frame)
    assert isinstance(output, {"pandas": pd.DataFrame, "polars": pl.DataFrame}[kind])
    assert list(output.columns) == list(model.get_feature_names_out())
    assert_array_equal(output.to_numpy(), plain)


def test_set_output_keeps_the_index(model, X):
    frame = pd.DataFrame(X, columns=NAMES, index=[f"row {n}" for n in range(len(X))])
    output = model.set_output(transform="pandas").fit(frame).transform(frame)
    assert list(output.index) == list(frame.index)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_set_output_without_components(X, kind):
    output = BPMeans(1e9).set_output(transform=kind).fit_transform(X)
    assert output.shape[1] == 0
    if kind == "pandas":
        assert len(output) == len(X)


def test_names_of_components(model, X):
    model.fit(X)
    K = len(learned(model))
    assert list(model.get_feature_names_out()) == [f"{type(model).__name__.lower()}{k}" for k in range(K)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_kept(model, X, dtype):
    X = X.astype(dtype)
    model.fit(X)
    assert learned(model).dtype == dtype
    assert model.transform(X).dtype == dtype
    assert model.score_samples(X).dtype == dtype
    if hasattr(model, "inverse_transform"):
        assert model.inverse_transform(model.transform(X)).dtype == dtype
        assert model.allocations_.dtype == np.uint8
    else:
        assert model.labels_.dtype == model.predict(X).dtype == np.int32


def test_single_precision_finds_the_same(model, X):
    X = X.astype(np.float32)
    single, double = clone(model).fit(X), clone(model).fit(X.astype(np.float64))
    assert_allclose(single.objective_, double.objective_, rtol=1e-5)
    assert_allclose(learned(single), learned(double), rtol=1e-4, atol=1e-4)


def same_numbers(X):
    """Whole numbers in many clothes."""
    whole = np.round(X)
    yield whole.astype(np.int8)
    yield whole.astype(np.int64)
    yield np.asfortranarray(whole)
    yield np.repeat(np.repeat(whole, 2, axis=0), 3, axis=1)[::2, ::3]
    yield whole[::-1, ::-1][::-1, ::-1]
    yield whole.astype(object)
    yield whole.tolist()
    yield pd.DataFrame(whole).astype({0: "Int64", 1: "Float64"})
    yield pd.DataFrame(whole).astype({0: "int8", 1: "float64"})
    yield whole.view(type("Subclass", (np.ndarray,), {}))


def test_the_same_numbers_in_any_form(model, X):
    reference = clone(model).fit(np.round(X))
    for table in same_numbers(X):
        assert_array_equal(learned(clone(model).fit(table)), learned(reference))
        assert_array_equal(answer(reference, table), answer(reference, np.round(X)))


def test_truth_values_are_zeros_and_ones(model):
    table = np.array([[True, False], [True, True], [False, True], [True, True]])
    reference = clone(model).fit(table.astype(float))
    assert_array_equal(learned(clone(model).fit(table)), learned(reference))


def test_nothing_given_is_modified(model, X):
    weights = np.arange(18.0) % 3
    init = X[:2].copy() if hasattr(model, "predict") else (np.ones((18, 1)), X[:1].copy())
    model.set_params(init=init)
    before = pickle.dumps((X, weights, init)), str(model.get_params())
    model.fit(X, sample_weight=weights)
    answer(model, X)
    model.score(X, sample_weight=weights)
    model.score_samples(X)
    assert (pickle.dumps((X, weights, init)), str(model.get_params())) == before
    assert model.init is init


def test_read_only_tables(model, X, tmp_path):
    reference = clone(model).fit(X)
    joblib.dump(X, tmp_path / "table.joblib")
    mapped = joblib.load(tmp_path / "table.joblib", mmap_mode="r")
    frozen = X.copy()
    frozen.setflags(write=False)
    for table in (mapped, frozen):
        fitted = clone(model).fit(table)
        assert_array_equal(learned(fitted), learned(reference))
        assert_array_equal(answer(fitted, table), answer(reference, X))
        assert_array_equal(fitted.score_samples(table), reference.score_samples(X))


@pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")
def test_pickle(model, X):
    model.set_params(**({} if isinstance(model, KFeatures) else {"penalty": "auto"})).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(answer(copy, X + 1), answer(model, X + 1))
    assert copy.score(X) == model.score(X)
    assert copy.describe() == model.describe()


def test_clone_forgets_what_was_learned(model, X):
    model.set_params(n_jobs=1, verbose=0).fit(X)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "objective_")


def test_html(model, X):
    assert type(model).__name__ in estimator_html_repr(model)
    assert type(model).__name__ in model.fit(X)._repr_html_()


def test_pipeline(model, X):
    pipeline = make_pipeline(StandardScaler(), clone(model)).fit(X)
    scaled = StandardScaler().fit_transform(X)
    model.fit(scaled)
    assert_array_equal(answer(pipeline, X), answer(model, scaled))
    assert_array_equal(pipeline.transform(X), model.transform(scaled))
    assert pipeline.score(X) == model.score(scaled)


def test_fit_predict_and_fit_transform(clusterer, featurer, X):
    assert_array_equal(make_pipeline(StandardScaler(), clusterer).fit_predict(X), clusterer.labels_)
    assert_array_equal(featurer.fit_transform(X), featurer.allocations_)
    weights = np.arange(18) % 3
    assert_array_equal(clusterer.fit_predict(X, sample_weight=weights), clusterer.fit(X, sample_weight=weights).labels_)
    components = featurer.fit(X, sample_weight=weights).components_
    featurer.fit_transform(X, sample_weight=weights)
    assert_array_equal(featurer.components_, components)


def test_components_feed_the_next_step(X):
    pipeline = Pipeline([("parts", KFeatures(2, random_state=0)), ("groups", DPMeans(0.5))]).fit(X)
    assert_array_equal(pipeline["groups"].labels_, pipeline.predict(X))
    assert pipeline["groups"].n_features_in_ == 2


def test_weights_find_their_way_through_a_pipeline(model, X):
    weights = np.arange(18) % 3
    with sklearn.config_context(enable_metadata_routing=True):
        step = clone(model).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), step)
        pipeline.fit(X, sample_weight=weights)
    reference = clone(model).fit(StandardScaler().fit_transform(X), sample_weight=weights)
    assert_array_equal(learned(pipeline[-1]), learned(reference))


def test_cross_validation(model, X):
    scores = cross_val_score(model, X, cv=3)
    parts = np.array_split(np.arange(18), 3)
    expected = [clone(model).fit(np.delete(X, part, axis=0)).score(X[part]) for part in parts]
    assert_allclose(scores, expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_grid_search(X):
    search = GridSearchCV(DPMeans(random_state=0), {"penalty": [0.5, 5.0, "5%"], "collapsed": [False, True]}, cv=2)
    search.fit(X)
    assert search.best_estimator_.score(X) == search.score(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    search = GridSearchCV(KFeatures(random_state=0, n_init=2), {"n_components": np.array([1, 2, 3])}, cv=2).fit(X)
    assert search.best_params_["n_components"] in (1, 2, 3)


def test_parameters_from_arrays(X):
    """Grids are often arrays, whose entries are numpy's numbers and truth values."""
    for collapsed in np.array([False, True]):
        for penalty in np.array([1, 2]):
            DPMeans(penalty, collapsed=collapsed, max_clusters=np.int64(3), n_init=np.int32(2)).fit(X)


def test_refitting_on_another_table(model, X):
    model.fit(X)
    other = np.random.default_rng(0).normal(size=(7, 5))
    model.fit(other)
    assert model.n_features_in_ == learned(model).shape[1] == 5
    assert len(answer(model, other)) == 7
    model.fit(pd.DataFrame(X, columns=NAMES))
    assert list(model.feature_names_in_) == NAMES
    model.fit(X)
    assert not hasattr(model, "feature_names_in_")


def test_signature_of_the_design():
    """Only the penalty, or the number of components, may be given by position."""
    assert DPMeans(2.0).penalty == BPMeans(2.0).penalty == CovarianceDPMeans(2.0).penalty == 2.0
    assert KFeatures(3).n_components == 3
    assert KFeatures().n_components == 8
    assert DPMeans().penalty == BPMeans().penalty == "auto"
    for estimator in (DPMeans, BPMeans, KFeatures, CovarianceDPMeans):
        with pytest.raises(TypeError):
            estimator(2, 3)
