import json
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, penalty_path, stability
from madbayes.engine.path import PenaltyPath
from madbayes.estimators.describing import Units, extreme_rows, top_columns
from madbayes.estimators.problem import quantile
from madbayes.evidence import path_words
from madbayes.explain import explain
from madbayes.words import number, percent

BLOBS = np.repeat([[0.0, 0.0], [30.0, 0.0], [0.0, 60.0]], [12, 9, 6], axis=0)


@pytest.fixture
def X():
    return BLOBS + np.random.default_rng(0).normal(size=BLOBS.shape)


@pytest.fixture
def model(X):
    return DPMeans(500.0, random_state=0).fit(X)


def a_recipe(scale, mean, names=("income", "colour=red")):
    """What the table recipe offers: X = (original - mean) / scale."""
    return SimpleNamespace(
        encoded_names_=list(names),
        means_=np.array(mean),
        deviations_=np.array(scale),
        inverse_transform=lambda rows: np.asarray(rows) * scale + mean,
    )


def path_of(losses, **more):
    losses = np.asarray(losses, dtype=np.float64)
    return PenaltyPath(np.arange(1, len(losses) + 1), losses, [None] * len(losses), **more)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *[(0, "0"), (1 / 3, "0.333"), (31.25, "31.2"), (1987.0, "1987"), (51987.0, "51 990"), (-1234567, "-1 235 000")],
        *[(19_540_000_000, "1.95e10"), (-1e7, "-1e7"), (9.28e-7, "9.28e-7"), (np.inf, "inf")],
    ],
)
def test_numbers_as_one_reads_them(value, words):
    assert number(value) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0 %"), (0.001, "less than 1 %"), (0.354, "35 %"), (0.9999, "more than 99 %"), (1, "100 %")],
)
def test_shares_are_never_rounded_to_none_or_all(share, words):
    assert percent(share) == words


def test_columns_in_words_and_units():
    units = Units(["income", "colour=red", "plain"], np.array([31e3, 0.4, 1e-17]), np.array([1e4, 0.49, 1.0]), False)
    facts = top_columns(np.array([52e3, 0.92, 0.2]), units, 3)
    assert [fact.words for fact in facts] == [
        "income +2.1 sd (52 000 against 31 000)",
        "colour is red in 92 % (against 40 %)",
        "plain +0.2 sd (0.2 against 0)",
    ]
    assert facts[0][:4] == ("income", 52e3, 31e3, pytest.approx(2.1))


def test_features_add_and_take():
    units = Units(["income", "a=b=c"], np.array([31e3, 0.5]), np.array([1e4, 0.5]), True)
    words = [fact.words for fact in top_columns(np.array([-5e3, 0.75]), units, 2)]
    assert words == ["a=b is c: adds 75 %", "income -0.5 sd (takes 5000)"]


def test_zeros_and_ones_are_shares_whatever_their_name():
    column = np.array([0.0, 1.0, 1.0, 1.0])
    for values, share in ((column, True), (column / 2, False), (column[1:], False)):
        assert Units(["smoker"], values.mean(keepdims=True), values.std(keepdims=True), False).is_share(0) == share


def test_no_row_is_both_typical_and_worst():
    errors = np.array([3.0, 1.0, 2.0, 9.0])
    assert extreme_rows(errors, np.array([0, 1, 2]), 2) == ([1, 2], [0])
    assert extreme_rows(errors, np.array([3]), 2) == ([3], [])


def test_describe_gains_names_words_and_rows(model, X):
    plain, full = model.describe(), model.describe(X=X, n_rows=2)
    for before, group in zip(plain, full, strict=True):
        members = np.flatnonzero(model.labels_ == group["group"])
        own = ((X[members] - X[members].mean(axis=0)) ** 2).sum(axis=1)
        assert {**before, "typical_rows": group["typical_rows"], "worst_rows": group["worst_rows"]} == group
        assert_array_equal(group["typical_rows"], members[own.argsort()[:2]])
        assert_array_equal(group["worst_rows"], members[own.argsort()[::-1][:2]])
    assert [group["name"] for group in plain] == ["group 0", "group 1", "group 2"]
    assert plain[1]["words"].startswith("x0 +")


def test_names_stay_until_the_next_fit(model, X):
    assert model.rename({2: " cheap "}) is model
    assert model.group_names_ == ["group 0", "group 1", "cheap"]
    assert [group["name"] for group in model.describe()] == model.group_names_
    assert "cheap: 6 rows" in str(explain(model, X))
    assert not hasattr(clone(model), "group_names_")
    assert model.fit(X).group_names_ == ["group 0", "group 1", "group 2"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({3: "a"}, "no group 3"),
        ({-1: "a"}, "no group -1"),
        ({True: "a"}, "no group True"),
        ({"0": "a"}, "no group '0'"),
        ({0: ""}, "no name for group 0"),
        ({0: "a\nb"}, "one line"),
        ({0: 5}, "5 is no name"),
        ({0: "group 1"}, "two groups would be named 'group 1'"),
        (["a"], "dictionary"),
    ],
)
def test_names_that_are_none(model, names, message):
    with pytest.raises(ValueError, match=message):
        model.rename(names)
    assert model.group_names_ == ["group 0", "group 1", "group 2"]


def test_groups_may_swap_names(model):
    assert model.rename({0: "group 1", 1: "group 0"}).group_names_ == ["group 1", "group 0", "group 2"]
    with pytest.raises(NotFittedError):
        DPMeans().rename({0: "a"})


@pytest.mark.parametrize(
    "model", [DPMeans(1e4), KFeatures(2), CovarianceDPMeans(1e4)], ids=["clusters", "features", "covariance"]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_training_row_in_a_hundred_is_unusual(model, dtype):
    X = np.random.default_rng(1).normal(size=(1000, 3)).astype(dtype)
    model = clone(model).set_params(random_state=0, n_init=2).fit(X)
    found = explain(model, X)
    assert found.unusual.sum() == 10
    assert_array_equal(np.flatnonzero(found.unusual), np.sort(model.score_samples(X)[:, 0].argsort()[-10:]))
    # A row fits as well alone as among others.
    alone = np.concatenate([model.score_samples(X[n : n + 1])[:, 0] for n in range(0, 1000, 7)])
    assert_array_equal(alone > model.unusual_error_, found.unusual[::7])


def test_weights_count_in_what_is_unusual():
    X = np.array([[-1.0], [1.0], [-3.0], [3.0], [50.0]])
    # The two rows at 3 are more than a hundredth of the weight, or less.
    assert DPMeans(1e9).fit(X, sample_weight=[97, 97, 1, 1, 0]).unusual_error_ == pytest.approx(9.0)
    assert DPMeans(1e9).fit(X, sample_weight=[100, 100, 1, 1, 0]).unusual_error_ == pytest.approx(1.0)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("n_rows", [1, 2, 99, 100, 101])
def test_quantiles_with_and_without_weights(share, n_rows):
    values = np.random.default_rng(0).permutation(n_rows).astype(np.float64)
    # By definition: so many of the values are no larger.
    expected = min(value for value in values if (values <= value).mean() >= share)
    assert quantile(values, share, None) == expected
    assert quantile(values, share, np.full(n_rows, 2.0)) == expected


def test_a_summary_in_the_units_of_the_user():
    rng = np.random.default_rng(0)
    income = np.concatenate([rng.normal(52e3, 1e3, 30), rng.normal(20e3, 1e3, 50)])
    red = np.repeat([1.0, 0.0], [30, 50])
    table = np.column_stack([income, red])
    scaler = StandardScaler().fit(table)
    X = scaler.transform(table)
    recipe = a_recipe(scaler.scale_, scaler.mean_)
    model = DPMeans(random_state=0).fit(X)
    found = explain(model, X, recipe=recipe, ids=[f"id{n}" for n in range(80)], n_rows=2)
    assert found.headline == "2 clusters of 80 rows."
    assert [group.size for group in found.groups] == [50, 30]
    rich = found.groups[1]
    assert {column.name: column.value for column in rich.columns} == {
        "income": pytest.approx(income[:30].mean()),
        "colour=red": pytest.approx(1.0),
    }
    assert rich.columns[0].typical in (pytest.approx(income.mean()), pytest.approx(red.mean()))
    assert "colour is red in 100 % (against 38 %)" in rich.words
    assert all(0 <= int(row.id[2:]) == row.row < 30 for row in rich.typical_rows + rich.worst_rows)
    assert "The evidence is clear: 2 clusters" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["groups"][1]["columns"][0]["words"] in str(found)


def test_what_features_add_has_no_offset():
    Z = np.array([[1, 0], [0, 1], [1, 1], [1, 1], [0, 0]])
    table = Z @ np.array([[3.0, 0.0], [0.0, 5.0]])
    recipe = a_recipe(np.array([2.0, 4.0]), np.array([7.0, 7.0]), ("a", "b"))
    model = KFeatures(2, random_state=0).fit(table)
    found = explain(model, table, recipe=recipe, n_columns=1)
    assert sorted((group.columns[0].name, group.columns[0].value) for group in found.groups) == [
        ("a", pytest.approx(6.0)),
        ("b", pytest.approx(20.0)),
    ]
    assert found.headline == "2 features in 5 rows; a row has 1.2 of them on average."
    assert found.evidence[1] == "The number of features was given."


def test_no_groups_in_words():
    X = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.warns(UserWarning, match="weak evidence"):
        model = DPMeans(random_state=0).fit(X)
    assert explain(model, X).evidence[0].startswith("No groups found")
    assert "1 cluster is the simplest answer." in explain(model, X).evidence
    assert explain(model, X).groups[0].words == "nothing sets it apart"
    empty = BPMeans(1e9).fit(X)
    found = explain(empty, X)
    assert found.headline == "No features in 60 rows."
    assert found.groups == []
    assert json.dumps(found.to_dict())


def test_a_category_stands_for_the_others_of_its_column():
    means, scales = np.array([0.4, 0.6, 5.0]), np.array([0.49, 0.49, 1.0])
    units = Units(["colour=red", "colour=blue", "price"], means, scales, False)
    names = [fact.name for fact in top_columns(np.array([0.9, 0.1, 5.5]), units, 3)]
    assert names == ["colour=red", "price"]


def test_a_penalty_of_ones_own_beside_a_path(X):
    model = DPMeans(500.0, random_state=0).fit(X)
    found = explain(model, X, path=penalty_path(X, "clusters", random_state=0)).evidence
    assert "The rows themselves speak for 3 clusters." in found
    assert not any(sentence.startswith("The evidence") for sentence in found)
    assert any(sentence.startswith("The penalty was given: one more cluster costs 500") for sentence in found)


def test_groups_of_ones_own_where_none_stand_out(X):
    """They are not said not to be there."""
    path = path_of([100.0, 60.0, 10.0, 9.0], null_ratios=[{3: 300.0}] * 3)
    found = explain(DPMeans("10%", random_state=0).fit(X), X, path=path)
    assert len(found.groups) > 1
    assert "No groups found" not in str(found)
    assert "The rows themselves speak for no number of clusters" in str(found)


def test_a_summary_without_columns(model, X):
    full, short = explain(model, X).text(), explain(model, X).text(columns=False)
    assert " sd (" in full
    assert [line for line in full.splitlines() if " sd (" not in line] == short.splitlines()


def test_evidence_of_a_path():
    null = [{2: 1.3, 3: 1.2, 4: 1.1}] * 3
    clear = path_words(path_of([100.0, 60.0, 10.0, 9.0], null_ratios=null, n_outliers=2), "clusters")
    assert clear[0].startswith("The evidence is clear: 3 clusters are best for penalties from 1 to 45, a factor of 45;")
    assert clear[1].startswith("2 rows were set aside")
    weak = path_words(path_of([100.0, 60.0, 10.0, 9.0], null_ratios=[{3: 35.0}] * 3), "features")
    assert weak[0].startswith("The evidence is weak: 3 features")
    none = path_words(path_of([100.0, 60.0, 10.0, 9.0], null_ratios=[{3: 300.0}] * 3), "features")
    assert none[0].startswith("No groups found")
    assert "too simple" in path_words(path_of([100.0]), "clusters")[0]
    several = path_words(path_of([1e3, 100.0, 90.0, 10.0, 9.0]), "clusters")
    assert several[1].startswith("Also plausible")


def test_stability_in_words(model, X):
    found = explain(model.rename({0: "a"}), X, stability=stability(X, model, n_refits=4, random_state=0))
    assert found.stability == [
        "In 4 refits to 50 % of the rows, 100 % of the memberships came back.",
        "All groups are stable.",
    ]
    assert "a: 12 rows (44 %), stable (1.00)" in str(found)


def test_unstable_groups_are_named(X):
    noise = np.random.default_rng(0).normal(size=(80, 2))
    model = DPMeans(12.0, random_state=0).fit(noise)
    refits = stability(noise, model, n_refits=5, random_state=0)
    words = explain(model, noise, stability=refits).stability[-1]
    assert all(model.group_names_[k] in words for k in refits.unstable) or words.startswith("No group is stable")


def test_caps_and_given_penalties_in_words(X):
    capped = explain(DPMeans(1.0, max_clusters=2, random_state=0).fit(X), X).evidence
    assert capped[1:3] == ["At most 2 clusters were asked for.", "There may be more."]
    assert (
        "The number of clusters was given: 2." in explain(DPMeans(0, max_clusters=2, random_state=0).fit(X), X).evidence
    )


def test_the_share_explained_is_that_of_the_squared_error(X):
    wine = StandardScaler().fit_transform(load_wine().data)
    model = DPMeans("8%", random_state=0).fit(wine)
    share = 1 - model.sse_ / wine.size  # a standardised table has N D about its mean
    assert f"They explain {100 * share:.0f} % of" in explain(model, wine).evidence[0]
    errors = explain(model, wine).errors
    assert_allclose(errors.sum(), model.sse_)


def test_a_search_that_was_stopped_says_so(X):
    with pytest.warns(UserWarning, match="not enough to converge"):
        model = DPMeans(5.0, search="paper", max_iter=1, random_state=0).fit(X)
    assert any("best so far" in sentence for sentence in explain(model, X).evidence)


def test_many_groups_are_counted_not_listed():
    X = 100.0 * np.arange(30)[:, None]
    found = explain(DPMeans(1.0, random_state=0).fit(X), X)
    assert len(found.groups) == 30
    assert "... and 10 more groups" in str(found)


def test_ids_must_fit(model, X):
    with pytest.raises(ValueError, match="ids has 2 entries for 27 rows"):
        explain(model, X, ids=["a", "b"])
