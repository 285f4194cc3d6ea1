import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler, StandardScaler

import madbayes
from madbayes import BPMeans, DPMeans
from madbayes.tables import Recipe, TableError

RNG = np.random.default_rng(0)
N = 60


def mixed():
    """A table with a bit of everything."""
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "customer_id": rng.permutation(np.arange(5000, 5000 + 7 * N, 7)),
            "row": np.arange(N),
            "name": [f"somebody {n}" for n in range(N)],
            "income": rng.lognormal(10, 1, N),
            "age": rng.integers(18, 80, N),
            "colour": rng.choice(["red", "green", "blue"], N),
            "member": rng.random(N) < 0.5,
            "country": "here",
            "nothing": [None] * N,
            "since": pd.date_range("2020-01-01", periods=N),
            "born": [f"19{n % 90 + 10}-03-0{n % 9 + 1}" for n in range(N)],
        }
    )


def roles(recipe):
    return {one.column: one.role for one in recipe.decisions_}


def test_every_column_is_decided_about():
    recipe = Recipe().fit(mixed())
    assert roles(recipe) == {
        "customer_id": "id", "row": "id", "name": "id", "income": "number", "age": "number", "colour": "category",
        "member": "flag", "country": "constant", "nothing": "empty", "since": "date", "born": "date",
    }  # fmt: skip
    assert recipe.encoded_names_ == ["income", "age", "colour=blue", "colour=green", "colour=red", "member"]
    assert recipe.id_columns_ == ["customer_id", "row", "name"]
    assert all(one.words for one in recipe.decisions_)


def test_numbers_are_scaled_as_scikit_learn_does_it_and_zeros_and_ones_are_left():
    frame = mixed()
    numbers = frame[["income", "age"]].to_numpy(float)
    found = Recipe().fit_transform(frame)
    assert np.allclose(found[:, :2], StandardScaler().fit_transform(numbers))
    assert np.array_equal(found[:, 2:5], pd.get_dummies(frame["colour"]).to_numpy(float))
    assert np.array_equal(found[:, 5], frame["member"])
    robust = RobustScaler(unit_variance=True).fit_transform(numbers)
    assert np.allclose(Recipe(scale="robust").fit_transform(frame)[:, :2], robust)
    assert np.array_equal(Recipe(scale="none").fit_transform(frame)[:, :2], numbers)


def test_features_are_not_centred():
    frame = mixed()
    numbers = frame[["income", "age"]].to_numpy(float)
    found = Recipe(kind="features").fit_transform(frame)
    assert np.allclose(found[:, :2], numbers / numbers.std(axis=0))
    assert "centred" not in " ".join(one.words for one in Recipe(kind="features").fit(frame).decisions_)


@pytest.mark.parametrize("kind", ["clusters", "features"])
@pytest.mark.parametrize("pca", [None, 3])
@pytest.mark.parametrize("scale", ["none", "standard", "robust"])
def test_a_row_has_the_same_numbers_alone_and_the_way_back_exists(kind, scale, pca):
    frame = mixed()
    recipe = Recipe(kind=kind, scale=scale, pca=pca)
    found = recipe.fit_transform(frame)
    assert np.array_equal(recipe.transform(frame), found)
    shuffled = frame.loc[:, ::-1].assign(other=1)
    for n in (0, 17, N - 1):
        assert np.array_equal(recipe.transform(shuffled.iloc[[n]])[0], found[n])
    if pca is None:
        back = recipe.inverse_transform(found)
        assert np.allclose(back[:, :2], frame[["income", "age"]])
    assert np.array_equal(Recipe._from_state(recipe._to_state()).transform(frame), found)
    assert len(recipe.get_feature_names_out()) == found.shape[1]


def test_principal_components_are_scikit_learns_up_to_sign():
    frame = pd.DataFrame(RNG.normal(size=(50, 6)) @ RNG.normal(size=(6, 6))).add_prefix("c")
    recipe = Recipe(pca=3)
    found = recipe.fit_transform(frame)
    expected = make_pipeline(StandardScaler(), PCA(3))
    wanted = expected.fit_transform(frame.to_numpy())
    assert np.allclose(np.abs(found), np.abs(wanted))
    assert np.allclose(recipe.inverse_transform(found), expected.inverse_transform(wanted))
    wide = frame.iloc[:4]  # fewer rows than columns
    assert np.allclose(Recipe(pca=3).fit(wide).inverse_transform(Recipe(pca=3).fit_transform(wide)), wide)
    with pytest.raises(TableError, match=r"--pca 7: there are 6 columns .* give 6 at most"):
        Recipe(pca=7).fit(frame)


def test_principal_components_of_features_keep_zero():
    frame = pd.DataFrame(5 + RNG.normal(size=(30, 4))).add_prefix("c")
    recipe = Recipe(kind="features", pca=2).fit(frame)
    assert np.allclose(recipe.inverse_transform(np.zeros((1, 2))), 0)


def test_means_and_deviations_are_in_original_units():
    frame = mixed()
    for scale in ("none", "standard", "robust"):
        recipe = Recipe(scale=scale).fit(frame)
        assert np.allclose(recipe.means_[:2], frame[["income", "age"]].mean())
        assert np.allclose(recipe.deviations_[:2], frame[["income", "age"]].std(ddof=0))
        assert np.allclose(recipe.means_[2:5], pd.get_dummies(frame["colour"]).mean())


@pytest.mark.parametrize("factor", [1e300, 1e-300, 3e307])
def test_absurd_scales_are_no_matter_once_scaled(factor):
    plain = pd.DataFrame({"a": [1.0, 2.0, 4.0, 5.5], "b": [0.0, 1.0, 0.5, -2.0]})
    huge = plain.assign(a=plain["a"] * factor)
    for scale in ("standard", "robust"):
        assert np.allclose(Recipe(scale=scale).fit_transform(huge), Recipe(scale=scale).fit_transform(plain))
    back = Recipe().fit(huge).inverse_transform(Recipe().fit_transform(huge))
    assert np.allclose(back[:, 0] / factor, plain["a"])


def test_what_cannot_be_squared_must_be_scaled():
    frame = pd.DataFrame({"a": [1e300, 2e300, 3e300], "b": [1.0, 2.0, 5.0]})
    with pytest.raises(TableError, match=r"column 'a' has values up to 3e\+300.*--scale standard"):
        Recipe(scale="none").fit(frame)


def test_missing_values_are_counted_by_column_with_the_flags_that_help():
    frame = mixed()
    frame.loc[[1, 5, 7], "income"] = np.nan
    frame.loc[5, "colour"] = None
    frame.loc[[0], "income"] = np.inf
    with pytest.raises(TableError, match=r"'income': 4, 'colour': 1\. .*--missing median.*4 of 60 .*--missing drop"):
        Recipe().fit(frame)


def test_rows_with_missing_values_can_be_left_out():
    frame = mixed()
    frame.loc[[1, 5], "income"] = np.nan
    frame.loc[7, "colour"] = None
    recipe = Recipe(missing="drop")
    found = recipe.fit_transform(frame)
    assert np.array_equal(np.flatnonzero(~recipe.kept_), [1, 5, 7])
    assert recipe.n_dropped_ == 3
    assert np.array_equal(found, Recipe().fit_transform(frame.drop(index=[1, 5, 7])))
    with pytest.warns(UserWarning, match="3 of 60 rows have missing values and are left out"):
        X, kept = recipe.rows(frame)
    assert np.array_equal(X, found)
    assert np.array_equal(kept, recipe.kept_)


def test_the_median_fills_in():
    frame = mixed()
    frame.loc[[1, 5], "income"] = np.nan
    frame.loc[[2, 3, 4], "colour"] = None
    frame["member"] = frame["member"].astype("boolean").mask(frame.index == 9)
    filled = frame.assign(
        income=frame["income"].fillna(frame["income"].median()),
        colour=frame["colour"].fillna(frame["colour"].mode()[0]),
        member=frame["member"].fillna(frame["member"].mode()[0]).astype(bool),
    )
    recipe = Recipe(missing="median")
    assert np.allclose(recipe.fit_transform(frame), Recipe().fit_transform(filled))
    complete = Recipe(missing="median").fit(filled)
    alone = pd.DataFrame({"income": [np.nan], "age": [40], "colour": [None], "member": [None]})
    assert complete.inverse_transform(complete.transform(alone))[0, 0] == pytest.approx(filled["income"].median())


def test_new_categories_are_zero_and_counted():
    frame = mixed()
    recipe = Recipe().fit(frame)
    new = frame.head(4).assign(colour=["mauve", "red", "taupe", None])
    with (
        pytest.warns(UserWarning, match="column 'colour' has 2 values that the model has never seen"),
        pytest.raises(TableError, match="'colour': 1"),
    ):
        recipe.transform(new)
    new = new.fillna({"colour": "blue"})
    with pytest.warns(UserWarning, match="column 'colour' has 2 values"):
        found = recipe.transform(new)
    assert found[:, 2:5].tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]


def test_columns_are_found_by_name():
    frame = mixed()
    recipe = Recipe().fit(frame)
    with pytest.raises(TableError, match=r"needs more columns: there is no column 'income'; did you mean 'Incomes'\?"):
        recipe.transform(frame.rename(columns={"income": "Incomes"}))
    with pytest.raises(TableError, match=r"column 'age' was numeric .* 1 other values, 'old' for example"):
        recipe.transform(frame.head(3).assign(age=["31", "old", "22"]))
    assert np.array_equal(recipe.transform(frame.head(2).assign(age=["31", "22"]))[:, 1], [
        *recipe.transform(frame.head(2).assign(age=[31, 22]))[:, 1]])  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["Income", "age"]}, r"--columns: there is no column 'Income'; did you mean 'income'\?"),
        ({"columns": ["weight"]}, r"--columns: there is no column 'weight'; there are 'customer_id', .* and 1 more"),
        ({"leave_out": ["agee"]}, r"--leave-out: .*did you mean 'age'\?"),
        ({"id_column": "customerid"}, r"--id-column: .*did you mean 'customer_id'\?"),
        ({"columns": ["country", "nothing"]}, "no column is left .*'country' the same in all rows"),
        ({"columns": ["born", "age"]}, "column 'born' holds dates"),
        ({"scale": "log"}, "scale='log' is not accepted: give one of none, standard, robust"),
        ({"pca": 0}, "pca=0 is not accepted"),
    ],
)
def test_wrong_wishes(options, message):
    with pytest.raises(TableError, match=message):
        Recipe(**options).fit(mixed())


def test_asked_for_columns_are_used_even_if_they_count():
    recipe = Recipe(columns=["row", "age", "colour"], leave_out=["colour"], id_column="name").fit(mixed())
    assert recipe.encoded_names_ == ["row", "age"]
    assert recipe.id_columns_ == ["name", "customer_id"]
    assert roles(recipe)["colour"] == roles(recipe)["income"] == "left out"


def test_all_columns_of_text_are_named_at_once_with_the_flags():
    frame = mixed().assign(
        city=[f"city {n // 3}" for n in range(N)],
        price=[*map(str, range(N - 2)), "unknown", "-"],
        tags=[[n] for n in range(N)],
    )
    with pytest.raises(TableError) as error:
        Recipe(max_categories=10).fit(frame)
    words = str(error.value)
    assert "column 'city' is text with 20 different values in 60 rows" in words
    assert "column 'price' is text, though 97% of its values are numbers; correct or empty 'unknown', '-'" in words
    assert "column 'tags' holds values of type list" in words
    assert words.endswith("--leave-out city --leave-out price --leave-out tags")
    assert Recipe(max_categories=10, leave_out=["city", "price", "tags"]).fit(frame).id_columns_
    assert Recipe(max_categories=20, leave_out=["price", "tags"]).fit(frame).encoded_names_[-1] == "city=city 9"


def test_integers_that_are_measured_are_no_identifiers():
    frame = pd.DataFrame({"weight": [50, 71, 93, 64, 88], "paid": [9, 4, 7, 1, 12], "id": [3, 1, 2, 9, 5]})
    assert roles(Recipe().fit(frame)) == {"weight": "number", "paid": "number", "id": "id"}


def test_too_few_rows():
    with pytest.raises(TableError, match="has 1 row: groups need at least 2"):
        Recipe(columns=["x0"], as_is=True).fit(np.ones((1, 2)))
    frame = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": [np.nan, 1.0, 2.0]})
    with pytest.raises(TableError, match="has 1 row when the 2 with missing values are left out"):
        Recipe(missing="drop").fit(frame)


def test_columns_of_the_same_name_are_refused():
    with pytest.raises(TableError, match=r"columns of the same name: 'a'\. Rename"):
        Recipe().fit(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))


@pytest.mark.parametrize(
    "values",
    [
        pd.array([1, 2, None, 7], dtype="Int64"),
        pd.array([1.0, 2.0, None, 7.0], dtype="Float64"),
        pd.array([1, 2, None, 7], dtype="int32[pyarrow]"),
        np.array([Decimal(1), Decimal(2), None, Decimal(7)], dtype=object),
        np.array([1, 2.0, None, 7], dtype=object),
        np.array([1, 2, np.nan, 7], dtype=np.float32),
    ],
    ids=lambda values: str(values.dtype),
)
def test_numbers_of_all_kinds(values):
    found = Recipe(missing="drop").fit_transform(pd.DataFrame({"a": values}))
    assert np.allclose(found[:, 0], StandardScaler().fit_transform([[1], [2], [7]])[:, 0])


@pytest.mark.parametrize(
    "values",
    [
        pd.array([True, False, None, True], dtype="boolean"),
        np.array([True, False, None, True], dtype=object),
        pd.array([True, False, None, True], dtype="bool[pyarrow]"),
    ],
    ids=lambda values: str(values.dtype),
)
def test_true_and_false_of_all_kinds(values):
    recipe = Recipe(missing="drop")
    assert recipe.fit_transform(pd.DataFrame({"a": values}))[:, 0].tolist() == [1, 0, 1]
    assert recipe.transform(pd.DataFrame({"a": ["False", "True"]}))[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical(["b", "a", None, "b"], categories=["c", "b", "a"]),
        pd.array(["b", "a", None, "b"], dtype="string"),
        np.array(["b", "a", None, "b"], dtype=object),
    ],
    ids=lambda values: str(values.dtype),
)
def test_text_of_all_kinds(values):
    recipe = Recipe(missing="drop")
    assert recipe.fit_transform(pd.DataFrame({"a": values})).tolist() == [[0, 1], [1, 0], [0, 1]]
    assert recipe.encoded_names_ == ["a=a", "a=b"]


def test_categories_that_are_numbers_are_known_again_with_a_decimal_point():
    recipe = Recipe().fit(pd.DataFrame({"a": pd.Categorical([1, 2, 1, 2]), "b": [1.0, 2.0, 4.0, 3.0]}))
    found = recipe.transform(pd.DataFrame({"a": [2.0, 1.0], "b": [1, 1]}))
    assert found[:, :2].tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"]),
        pd.to_timedelta([1, 2, 3], unit="D"),
        pd.period_range("2020-01", periods=3, freq="M"),
        [datetime.date(2020, 1, d) for d in (1, 2, 3)],
        ["2020-01-01T10:00", "2020-02-01T10:00", "2021-01-01T10:00"],
        ["31.12.2020", "1.1.2021", "2.1.2021"],
        ["12/31/20", "1/1/21", "1/2/21"],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_dates_of_all_kinds_are_left_out(values):
    recipe = Recipe().fit(pd.DataFrame({"a": values, "b": [1.0, 2.0, 4.0]}))
    assert roles(recipe) == {"a": "date", "b": "number"}


def test_complex_numbers_are_refused():
    with pytest.raises(TableError, match="column 'a' holds values of type complex"):
        Recipe().fit(pd.DataFrame({"a": [1j, 2.0, 3.0]}))


def test_pictures_keep_every_pixel():
    X = np.column_stack([np.zeros(5), np.arange(5.0), [3.0, 1.0, 2.0, 2.0, 0.0]])
    recipe = Recipe(scale="none", as_is=True)
    assert np.array_equal(recipe.fit_transform(X), X)
    assert recipe.encoded_names_ == ["x0", "x1", "x2"]
    assert np.array_equal(recipe.transform(pd.DataFrame(X[:, ::-1], columns=["x2", "x1", "x0"])), X)
    assert np.array_equal(Recipe(as_is=True).fit_transform(X)[:, 0], np.zeros(5))  # nothing to scale


def test_pictures_with_a_pixel_that_has_no_value_or_is_no_number():
    X = np.random.default_rng(0).normal(size=(6, 4))
    recipe = Recipe(scale="none", missing="median", as_is=True)
    with pytest.raises(TableError, match=r"columns without any value: 'x2'\. Leave them out"):
        recipe.fit(np.where(np.arange(4) == 2, np.nan, X))
    with pytest.raises(TableError, match="columns 'x0' to 'x3' are not all numbers"):
        recipe.fit(X).transform(pd.DataFrame(X, columns=[f"x{d}" for d in range(4)]).assign(x1="grey"))


def test_polars_frames_are_tables():
    frame = mixed()[["income", "colour"]]
    assert np.array_equal(
        Recipe().fit_transform(polars.DataFrame(frame.to_dict("list"))), Recipe().fit_transform(frame)
    )


def test_in_a_pipeline_with_both_kinds_of_models():
    frame = mixed()
    clusters = make_pipeline(Recipe(), DPMeans("20%", random_state=0)).fit(frame)
    assert np.array_equal(clusters.predict(frame), clusters[-1].labels_)
    features = make_pipeline(Recipe("features"), BPMeans("10%", random_state=0)).fit(frame)
    assert np.array_equal(features.transform(frame), features[-1].allocations_)
    assert features[-1].n_components_ > 1


def test_identifiers_stay_beside_the_groups_when_columns_are_asked_for():
    recipe = Recipe(columns=["income", "age"]).fit(mixed())
    assert recipe.id_columns_ == ["customer_id", "row", "name"]
    assert roles(recipe)["colour"] == roles(recipe)["since"] == "left out"


def test_one_error_has_all_the_flags():
    frame = mixed().assign(city=[f"city {n // 2}" for n in range(N)])
    frame.loc[3, "income"] = np.nan
    with pytest.raises(TableError, match=r"values are missing in 'income'\. .*--leave-out city --missing median$"):
        Recipe(max_categories=10).fit(frame)


@pytest.mark.parametrize(
    "change", [{"means": np.zeros(3)}, {"axes": None}, {"axes": np.zeros((1, 6))}, {"units": np.zeros((6, 2))}]
)
def test_a_state_that_does_not_fit_together_is_refused(change):
    state = Recipe(pca=2).fit(mixed())._to_state()
    assert Recipe._from_state(state).pca == 2
    with pytest.raises(ValueError, match="recipe"):
        Recipe._from_state({**state, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"id_columns": [["a"]]},
        {"decisions": [["a", "number", 5]]},
        {"columns": [{"name": 5, "role": "number", "categories": []}]},
        {"columns": [{"name": "a", "role": "category", "categories": [[]]}]},
        {"columns": [{"name": "a", "role": "chair", "categories": []}]},
    ],
)
def test_a_state_with_words_that_are_none_is_refused(change):
    state = Recipe().fit(mixed())._to_state()
    with pytest.raises(ValueError, match=r"the recipe has (names that are no text|columns of an unknown role)"):
        Recipe._from_state({**state, **change})


def test_a_saved_pipeline_knows_the_recipe(tmp_path):
    frame = mixed()
    pipeline = make_pipeline(Recipe(missing="median", pca=3), DPMeans("20%", random_state=0)).fit(frame)
    madbayes.save(pipeline, tmp_path / "model.madbayes")
    loaded = madbayes.load(tmp_path / "model.madbayes")
    assert np.array_equal(loaded.predict(frame), pipeline.predict(frame))
    assert loaded[0].decisions_ == pipeline[0].decisions_
    assert np.array_equal(loaded[0].transform(frame), pipeline[0].transform(frame))
