"""Whatever is wrong: an error that names the argument and the value, or the right answer."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures

NUMBERS = [-1, -0.5, np.nan, np.inf, -np.inf, True, np.True_, None, [1.0], (2,), {}, 1 + 2j, np.array([1.0]), 10**400]
WORDS = ["", "2", "2 percent", "-2%", "%", "nan%", "inf%", "2%%", "%2", "two%", "automatic", "Auto"]
PRICED = [DPMeans(), BPMeans(), StepwiseKFeatures()]


def refuses(model, X, message, **fit):
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, **fit)


@pytest.mark.parametrize("model", PRICED, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("penalty", [*NUMBERS, *WORDS], ids=lambda penalty: repr(penalty)[:12])
def test_penalty(model, penalty, X):
    with pytest.raises(ValueError, match="penalty=") as error:
        clone(model).set_params(penalty=penalty).fit(X)
    assert repr(penalty) in str(error.value)
    assert '"2%"' in str(error.value)


@pytest.mark.parametrize("penalty", [2, 2.0, np.float32(2), np.int8(2), "2%", " 2.0 %", ".5%", "0%", "300%"])
def test_penalties_that_are_accepted(penalty, X):
    model = DPMeans(penalty).fit(X)
    one_group = ((X - X.mean(axis=0)) ** 2).sum()
    number = float(penalty.strip(" %")) / 100 * one_group if isinstance(penalty, str) else 2.0
    assert_allclose(model.penalty_, number)


@pytest.mark.parametrize("value", [0, -3, 2.0, 2.5, True, "3", np.nan, [2]])
@pytest.mark.parametrize(
    ("model", "name"),
    [
        (DPMeans(1.0), "max_clusters"),
        (BPMeans(1.0), "max_components"),
        (StepwiseKFeatures(1.0), "max_components"),
        (KFeatures(), "n_components"),
    ],
)
def test_caps(model, name, value, X):
    with pytest.raises(ValueError, match=f"{name}=") as error:
        clone(model).set_params(**{name: value}).fit(X)
    assert repr(value) in str(error.value)
    assert "integer >= 1" in str(error.value)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("search", ["fast", None, "Best", ["best"]]),
        ("n_init", [0, -1, 1.5, "many", None, True]),
        ("max_iter", [0, -1, 2.0, None, "x"]),
        ("time_limit", [-1, 0, np.nan, "x", True]),
        ("n_jobs", [0, 1.5, "x"]),
        ("device", ["cuda", "gpu", None, 0]),
        ("verbose", ["x", -1, None, 1.5]),
        ("random_state", ["x", 1.5, [1], -1, 2**32]),
    ],
)
def test_options(model, name, values, X):
    for value in values:
        with pytest.raises(ValueError, match=name) as error:
            clone(model).set_params(**{name: value}).fit(X)
        assert repr(value) in str(error.value)


@pytest.mark.parametrize("value", ["yes", None, 2])
def test_collapsed(value, X):
    for model in (DPMeans(1.0), BPMeans(1.0), KFeatures(2)):
        refuses(model.set_params(collapsed=value), X, f"collapsed={value!r}")


def test_other_devices_are_for_later(model, X):
    refuses(model.set_params(device="cuda"), X, "device='cuda'.*cpu")


def test_missing_and_infinite_values_are_counted_by_column(model, X):
    X[0, 1] = X[3, 1] = np.nan
    X[1, 0] = -np.inf
    message = "X contains 2 NaN and 1 inf .*column {}: 0 NaN, 1 inf; {}: 2 NaN, 0 inf"
    refuses(model, X, message.format(0, 1))
    refuses(model, X.astype(np.float32), message.format(0, 1))
    refuses(model, pd.DataFrame(X, columns=["height", "width"]), message.format("'height'", "'width'"))
    refuses(model, pl.DataFrame(X, schema=["height", "width"]), message.format("'height'", "'width'"))


def test_missing_values_of_frames(model):
    for frame in (
        pd.DataFrame({"a": [1, None, 3], "b": [1, 2, 3]}, dtype="Int64"),
        pl.DataFrame({"a": [1, None, 3], "b": [1, 2, 3]}),
    ):
        refuses(model, frame, "1 NaN and 0 inf .*'a': 1 NaN")


def test_many_columns_with_missing_values_are_not_all_named(model):
    with pytest.raises(ValueError, match="X contains 300 NaN") as error:
        model.fit(np.full((3, 100), np.nan))
    assert len(str(error.value)) < 1000


def test_missing_values_in_new_rows(model, X):
    model.fit(X)
    X[2, 1] = np.nan
    for method in ("predict", "transform", "score", "score_samples"):
        if hasattr(model, method):
            with pytest.raises(ValueError, match=r"X contains 1 NaN .*column 1"):
                getattr(model, method)(X)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.zeros((0, 2)), "0 sample"),
        (np.zeros((3, 0)), "0 feature"),
        (np.zeros(3), "2D array, got 1D"),
        (np.zeros((2, 2, 2)), "dim 3"),
        (1.0, "2D array, got scalar"),
        (None, "2D array|None"),
        ([["a", "b"], ["c", "d"]], "X must hold numbers only.*'a'"),
        (np.ones((3, 2)) * 1j, "(?i)complex"),
        ([[1.0, 2.0], [3.0]], "(?i)inhomogeneous|same length"),
        (pd.Series([1.0, 2.0]), "2-dimensional|2D"),
    ],
)
def test_tables_that_are_none(model, table, message):
    refuses(model, table, message)


def test_text_columns_are_named(model):
    columns = {"size": [1.0, 2.0], "colour": ["red", "blue"], "name": ["x", "y"]}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pd.DataFrame(columns).astype({"name": "category"})):
        with pytest.raises(ValueError, match=r"X must hold numbers only.*'colour', 'name'") as error:
            model.fit(frame)
        assert "'size'" not in str(error.value)


def test_dates_are_named():
    frame = pd.DataFrame({"size": [1.0, 2.0], "day": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    refuses(DPMeans(), frame, "'day'")


def test_sparse_tables_are_for_later(model, X):
    with pytest.raises((ValueError, TypeError), match=r"(?i)sparse.*dense.*toarray") as error:
        model.fit(sparse.csr_array(X))
    assert "numbers only" not in str(error.value)


def test_a_sparse_frame(X):
    with pytest.raises((ValueError, TypeError), match=r"(?i)sparse") as error:
        DPMeans().fit(pd.DataFrame(X, columns=["a", "b"]).astype(pd.SparseDtype(float, 0.0)))
    assert "leave out" not in str(error.value)


def test_names_that_are_not_all_text(X):
    with pytest.raises(TypeError, match="string names") as error:
        DPMeans().fit(pd.DataFrame(X, columns=["a", 1]))
    assert "numbers only" not in str(error.value)


def test_numbers_of_any_kind_are_numbers(model):
    table = np.array([[1, 2], [3, 5], [4, 0]])
    reference = clone(model).fit(table)
    decimals = [[Decimal(int(number)) for number in row] for row in table]
    for same in (decimals, table.astype(object), table.astype(np.uint8)):
        assert clone(model).fit(same).objective_ == reference.objective_


@pytest.mark.parametrize("size", [1e160, 1e200, 1e300])
def test_values_whose_squares_overflow(model, X, size):
    refuses(model, size * X, r"X has values up to .*rescale")


@pytest.mark.parametrize("size", [1e160, 1e300])
def test_new_values_whose_squares_overflow(model, X, size):
    model.fit(X)
    for method in ("predict", "transform", "score", "score_samples"):
        if hasattr(model, method):
            with pytest.raises(ValueError, match=r"X has values up to .*rescale"):
                getattr(model, method)(size * X)


@pytest.mark.parametrize("size", [1e-160, 1e-200, 1e-300])
def test_values_whose_squares_vanish(model, X, size, seconds):
    if "penalty" in model.get_params():
        model.set_params(penalty="auto")
    with seconds(60):
        refuses(model, size * X, r"X has values up to .*rescale")


def test_tiny_values_beside_others_are_zeros(model, X):
    tiny, zero = X * [1.0, 1e-300], X * [1.0, 0.0]
    assert_allclose(clone(model).fit(tiny).objective_, clone(model).fit(zero).objective_)


def test_weights(model, X):
    refuses(model, X, "sample_weight is zero", sample_weight=np.zeros(18))
    refuses(model, X, "sample_weight has -2 ", sample_weight=np.arange(18) - 2)
    refuses(model, X, "sample_weight contains NaN", sample_weight=np.full(18, np.nan))
    refuses(model, X, "sample_weight contains infinity", sample_weight=np.full(18, np.inf))
    refuses(model, X, r"sample_weight has shape \(3,\), but X has 18 rows", sample_weight=np.ones(3))
    refuses(model, X, r"sample_weight has shape \(18, 1\)", sample_weight=np.ones((18, 1)))


@pytest.mark.parametrize("weights", [2.0, "heavy", ["heavy"] * 18, np.ones(18) * 1j, []], ids=lambda w: repr(w)[:9])
def test_weights_that_are_no_numbers(weights, X):
    refuses(DPMeans(1.0), X, "sample_weight", sample_weight=weights)


def test_weights_of_new_rows(model, X):
    model.fit(X)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(3,\)"):
        model.score(X, sample_weight=np.ones(3))


@pytest.mark.parametrize("weight", [1e-300, 1e-12, 1e12, 1e300])
def test_extreme_weights(model, X, weight):
    """One row that weighs nothing beside the others, or everything."""
    weights = np.ones(18)
    weights[4] = weight
    model.fit(X, sample_weight=weights)
    assert np.isfinite(model.objective_)
    assert_allclose(-model.score(X, sample_weight=weights), model.objective_, rtol=1e-6, atol=1e-20 * max(weight, 1))


@pytest.mark.parametrize("weight", [5e-324, 1.7e308])
def test_weights_at_the_end_of_the_range(X, weight):
    refuses(DPMeans(5.0), X, "sample_weight", sample_weight=np.full(18, weight))


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.zeros((2, 3)), r"init has shape \(2, 3\): give shape \(any, 2\)"),
        (np.zeros((0, 2)), "init has 0 centres"),
        (np.full((1, 2), np.nan), "init contains NaN"),
        (np.zeros(2), "init"),
        (np.zeros((1, 2, 2)), "init"),
        (3, "init=3"),
        ("k-means++", "init='k-means"),
        ([["a", "b"]], "init"),
        (DPMeans(), "init=DPMeans"),
        (BPMeans(), "init=BPMeans"),
    ],
    ids=repr,
)
def test_init_of_clusters(clusterer, X, init, message):
    refuses(clusterer.set_params(init=init), X, message)


def test_more_centres_than_allowed(clusterer, X):
    refuses(clusterer.set_params(init=X[:3], max_clusters=2), X, "init has 3 centres.*max_clusters=2")


def test_more_centres_than_rows(clusterer, X):
    model = clusterer.set_params(init=np.vstack([X, X + 100])).fit(X)
    assert model.n_clusters_ <= len(X)


ONES, ROW = np.ones((18, 1)), np.ones((1, 2))


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ((2 * ONES, ROW), r"init\[0\] holds 2"),
        ((0.5 * ONES, ROW), r"init\[0\] holds 0.5"),
        ((ONES[:3], ROW), r"init\[0\] has shape \(3, 1\): give shape \(18, any\)"),
        ((ONES, np.ones((1, 3))), r"init\[1\] has shape \(1, 3\): give shape \(1, 2\)"),
        ((ONES, np.ones((2, 2))), r"init\[1\] has shape \(2, 2\): give shape \(1, 2\)"),
        ((ONES, np.nan * ROW), r"init\[1\] contains NaN"),
        ((ONES,), "(?s)init=.*fitted model"),
        (np.ones((18, 2)), "(?s)init=.*fitted model"),
        ("random", "init='random'"),
        (BPMeans(), "init=BPMeans"),
        (DPMeans(), "init=DPMeans"),
        ((ONES, None), "init"),
        (("a", "b"), "init"),
        ((ONES, 1e300 * ROW), "init"),
    ],
)
def test_init_of_features(featurer, X, init, message):
    refuses(featurer.set_params(init=init), X, message)


def test_more_components_than_allowed(X):
    init = np.eye(18)[:, :3], np.ones((3, 2))
    refuses(BPMeans(1.0, max_components=2, init=init), X, "init has 3 components: at most 2")
    refuses(KFeatures(2, init=init), X, "init has 3 components: at most 2")


def test_init_for_other_columns(X):
    for model in (DPMeans(5.0), BPMeans(5.0)):
        other = clone(model).fit(np.random.default_rng(0).normal(size=(9, 3)) * 9)
        refuses(model.set_params(init=other), X, r"init has shape \(\d+, 3\): give shape \(any, 2\)")


def methods(model):
    return [name for name in ("predict", "transform", "score", "score_samples") if hasattr(model, name)]


def test_before_fit(model, X):
    for method in methods(model):
        with pytest.raises(NotFittedError, match=f"{type(model).__name__} instance is not fitted"):
            getattr(model, method)(X)
    for method in ("describe", "get_feature_names_out"):
        with pytest.raises(NotFittedError):
            getattr(model, method)()
    if hasattr(model, "inverse_transform"):
        with pytest.raises(NotFittedError):
            model.inverse_transform(np.ones((1, 2)))


def test_other_columns_than_in_fit(model, X):
    model.fit(X)
    for method in methods(model):
        with pytest.raises(ValueError, match=r"X has 1 features, but .* is expecting 2"):
            getattr(model, method)(X[:, :1])


def test_other_names_than_in_fit(model, X):
    frame = pd.DataFrame(X, columns=["a", "b"])
    model.fit(frame)
    for method in methods(model):
        call = getattr(model, method)
        with pytest.raises(ValueError, match=r"(?s)feature names.*order"):
            call(frame[["b", "a"]])
        with pytest.raises(ValueError, match=r"(?s)feature names.*- z"):
            call(frame.rename(columns={"a": "z"}))
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            call(X)


def test_codes_of_another_shape(featurer, X):
    featurer.fit(X)
    K = featurer.n_components_
    for Z in (np.ones((3, K + 1)), np.ones((3, 0))):
        with pytest.raises(ValueError, match=rf"Z has shape \(3, {Z.shape[1]}\): give shape \(any, {K}\)"):
            featurer.inverse_transform(Z)


def test_no_partial_fit(X):
    model = CovarianceDPMeans(0.1)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=r"CovarianceDPMeans has no partial_fit.*whole table"):
        model.partial_fit(X)


@pytest.mark.parametrize(
    ("table", "fit"),
    [
        (np.full((4, 3), np.nan), {}),
        (np.ones((4, 3)), {"sample_weight": [-1] * 4}),
        (pd.DataFrame(np.ones((4, 2)), columns=["a", "b"]), {"sample_weight": [-1] * 4}),
        (np.full((4, 3), 1e200), {}),
    ],
)
def test_a_fit_that_fails_leaves_no_half_fitted_model(model, X, table, fit):
    """Either the model before is still there, or none."""
    model.fit(X)
    before = model.transform(X)
    with pytest.raises(ValueError, match=r"X|sample_weight"):
        model.fit(table, **fit)
    try:
        after = model.transform(X)
    except NotFittedError:
        return
    assert_array_equal(after, before)


def test_one_row(model):
    if isinstance(model, KFeatures):
        model.set_params(n_components=1)
    model.fit([[30.0, 40.0]])
    assert_allclose(model.sse_, 0, atol=1e-20)
    assert model._n_features_out == 1


def test_duplicate_rows(model, X):
    model.fit(np.vstack([X] * 3))
    for labels in (getattr(model, "labels_", None), getattr(model, "allocations_", None)):
        if labels is not None:
            assert_array_equal(labels[:18], labels[18:36])
            assert_array_equal(labels[:18], labels[36:])


def test_constant_and_repeated_columns(model, X):
    table = np.column_stack([X, X[:, 0], np.full(18, 5.0), np.zeros(18)])
    model.fit(table)
    assert np.isfinite(model.objective_)
    assert_allclose(-model.score(table), model.objective_)


@pytest.mark.parametrize("shape", [(3, 30), (30, 1), (2, 1), (1, 5)])
def test_odd_shapes(model, shape):
    if isinstance(model, KFeatures):
        model.set_params(n_components=1)
    X = np.random.default_rng(0).normal(size=shape)
    model.fit(X)
    assert_allclose(-model.score(X), model.objective_, atol=1e-12)


def test_strange_numbers_of_columns_to_describe(X):
    model = DPMeans(5.0).fit(X)
    assert all(group["columns"] == [] for group in model.describe(0))
    assert all(len(group["columns"]) == 2 for group in model.describe(99))
    for wrong in (-1, 1.5, "x"):
        with pytest.raises((ValueError, TypeError), match="n_columns="):
            model.describe(wrong)


def test_an_array_of_another_library_is_not_taken_for_dates(X):
    """Its dtype need not say of which kind it is."""

    class Foreign:
        dtype, shape = "float64", X.shape

        def __array__(self, dtype=None, copy=None):
            return np.array(X, dtype=dtype)

        def __len__(self):
            return len(X)

    assert_array_equal(DPMeans(5.0).fit(Foreign()).labels_, DPMeans(5.0).fit(X).labels_)


def test_kinds_of_numbers_that_are_none_are_told_in_one_line(model, X):
    for table, words in (
        (np.zeros(3, [("a", float), ("b", float)]), "X has the fields a, b: give rows and columns"),
        (X.astype(complex), "X must hold real numbers, it has complex128 ones"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            model.fit(table)
        assert "\n" not in str(caught.value)


def test_a_table_of_arrow(model, X):
    import pyarrow as pa

    names = [f"c{d}" for d in range(X.shape[1])]
    assert list(model.fit(pa.table(dict(zip(names, X.T, strict=True)))).feature_names_in_) == names
    with pytest.raises(ValueError, match="encode or leave out column 'a'"):
        model.fit(pa.table({"a": ["x", "y"]}))


def test_no_name_is_not_the_folder_we_are_in(model):
    with pytest.raises(ValueError, match="X='' is no name"):
        model.fit("")
