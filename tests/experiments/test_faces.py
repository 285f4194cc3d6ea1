import pytest

from madbayes.experiments import faces
from madbayes.experiments.parts import run


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    out = tmp_path_factory.mktemp("faces") / "out"
    return run(faces.experiment(n_jobs=None), out)


def read(outcome, name):
    import json

    return json.loads((outcome.page.parent / f"{name}.json").read_text())


def test_three_features_are_chosen_and_counted_as_they_were_made(outcome):
    found = read(outcome, "features")
    assert found["values"]["features"] == 3
    rows = {row["code"]: row for row in found["tables"]["feature combinations"]}
    assert {code: row["faces"] for code, row in rows.items()} == {"100": 139, "110": 106, "101": 80, "111": 75}
    assert all(row["faces"] == row["paper"] for row in rows.values())  # the generated set has the paper's counts


def test_the_penalty_is_stated_and_in_the_interval_of_three(outcome):
    found = read(outcome, "features")
    (lo, hi) = next((r["from penalty"], r["to penalty"]) for r in found["tables"]["best for"] if r["features"] == 3)
    assert lo < found["values"]["penalty"] < hi
    assert f"at a penalty of {found['values']['penalty']:.4g} chooses 3 features" in found["verdict"][0]


def test_clusters_are_counted_beside_those_of_the_paper(outcome):
    rows = read(outcome, "features")["tables"]["clusters"]
    for K, paper in ((3, [154, 151, 95]), (4, [150, 121, 74, 55])):
        some = [row for row in rows if row["clusters"] == K]
        assert [row["paper"] for row in some] == paper
        assert sum(row["faces"] for row in some) == 400


def test_the_pictures_are_there(outcome):
    captions = list(read(outcome, "features")["figures"].values())
    assert captions == ["A face for each code", "Features", "Means of 3 clusters", "Means of 4 clusters"]


def test_two_features_on_a_base_are_two_clusters(outcome):
    clusters, free, based = read(outcome, "two")["tables"]["two"]
    assert based["groups"] == 2
    assert based["adjusted Rand index"] == 1
    assert based["squared error"] == pytest.approx(clusters["squared error"], rel=1e-6)
    assert free["squared error"] <= based["squared error"] * (1 + 1e-9)


def test_a_penalty_may_be_given(tmp_path):
    found = run(faces.experiment(penalty=1e6, quick=True, n_jobs=None), tmp_path / "out")
    assert read(found, "features")["values"] == {"penalty": 1e6, "features": 0}
    assert "chooses 0 features" in found.verdict[0]


def test_more_than_two_groups_without_a_base_are_said():
    rows = [
        {"groups": 2, "squared error": 5.0},
        {"groups": 4, "squared error": 3.0},
        {"groups": 2, "squared error": 5.0},
    ]
    (words,) = faces.two_words(rows)
    assert "with a base in all faces are the two clusters" in words
    assert "make 4 groups (3)" in words
    assert "more than two clusters" in words
