import base64
import json
import re
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, penalty_path
from madbayes.report import render_report, write_report
from madbayes.report.charts import axis_of, histogram_of, short
from madbayes.report.images import Painter, check_shape
from madbayes.report.sections import examples, odd_rows, pairs, residuals
from madbayes.report.subject import subject_of
from madbayes.tables import Recipe
from madbayes.words import percent

NOTHING = dict.fromkeys(("recipe", "ids", "image_shape", "path", "stability"))
VOID = {"meta", "img", "input", "br", "col"}


class Page(HTMLParser):
    """Which tags and texts there are; it fails where tags are not closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


def subject(made):
    about = {key: made.about.get(key) for key in ("recipe", "ids", "image_shape", "path", "stability")}
    return subject_of(made.model, made.X, **about)


@pytest.fixture
def X():
    rng = np.random.default_rng(3)
    return np.repeat([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0]], [12, 10, 8], axis=0) + rng.normal(
        size=(30, 3)
    )


@pytest.mark.parametrize("name", ["houses", "dice"])
def test_the_page_is_whole_and_alone(name, request):
    page = Page(request.getfixturevalue(name).page)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [link["href"] for link in page.all("a")]
    assert all(link[0] == "#" and link[1:] in ids for link in links)
    assert all(image["src"].startswith("data:image/png;base64,") and "alt" in image for image in page.all("img"))
    assert not page.all("link")
    assert [script.get("src") for script in page.all("script")] == [None, None]
    labels = [attributes[key] for _, attributes in page.tags for key in ("aria-labelledby", "for") if key in attributes]
    assert set(labels) <= set(ids)
    assert all(header.get("scope") for header in page.all("th"))


def test_words_of_the_user_stay_words(houses):
    page = Page(houses.page)
    assert [script.get("type") for script in page.all("script")] == ["application/json", None]
    assert not [attributes for _, attributes in page.tags if "onerror" in attributes]
    for words in ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><script>alert(2)</script>"):
        assert words in "".join(page.texts)
    (data,) = re.findall(r'id="path-data">(.*?)</script>', houses.page)
    assert_allclose(json.loads(data)["sse"], houses.model.path_.sse)


def test_the_summary_and_the_details_are_there(houses):
    page = houses.page
    for words in ("3 clusters of 90 rows.", "The evidence is clear", "All groups are stable.", "madbayes fit", "seed"):
        assert words in page
    roles = {one.column: one.role for one in houses.about["recipe"].decisions_}
    assert roles["note"] == "constant"
    assert page.count('<article class="card" id="group-') == 3
    assert '<article class="stop" data-k="3">' in page  # without scripts, too


def test_pictures_show_the_groups(dice):
    (first, *_) = re.findall(r'<img class="large" alt="group 0" src="data:image/png;base64,(.*?)"', dice.page)
    image = np.asarray(Image.open(BytesIO(base64.b64decode(first))).convert("RGB"), dtype=np.int64)
    assert image.shape == (8, 8, 3)
    blue = image[..., 2] - image[..., 0]  # what is added
    strongest = np.sort(dice.model.components_[0].argsort()[-4:])
    assert_array_equal(np.sort(blue.ravel().argsort()[-4:]), strongest)


def test_painter_uses_the_whole_scale():
    painter = Painter((2, 2), -1.0, 3.0)
    for address, expected in (
        (painter.picture(np.array([-1.0, 3.0, 1.0, 9.0]), 8), [[0, 255], [128, 255]]),
        (painter.picture(np.array([1.0, 1.0, 1.0, 1.0]), 1), [[128]]),
    ):
        image = Image.open(BytesIO(base64.b64decode(address.partition(",")[2])))
        assert_array_equal(np.asarray(image), expected)
    colour = Painter((1, 1, 3), 0.0, 1.0).part(np.array([1.0, 0.0, -1.0]), 8)
    assert Image.open(BytesIO(base64.b64decode(colour.partition(",")[2]))).getpixel((0, 0)) == (255, 128, 0)


@pytest.mark.parametrize("shape", [(3, 3), (64,), (8, 8, 1), (-8, -8), (2, 2, 2, 8)])
def test_shapes_that_do_not_fit(shape):
    with pytest.raises(ValueError, match="rows of 64 numbers"):
        check_shape(shape, 64)


def test_features_that_go_together(dice):
    found, Z = pairs(subject(dice)), dice.model.allocations_
    expected = Z[Z[:, 0] == 1].mean(axis=0)
    assert found.shares[0][0] is None
    assert_allclose(found.shares[0][1:], expected[1:])


def test_neighbours_are_second_choices(houses):
    found, distances = pairs(subject(houses)), houses.model.transform(houses.X)
    second = distances.argsort(axis=1)[:, 1]
    for i in range(3):
        for j in range(3):
            share = np.mean(second[houses.model.labels_ == i] == j)
            assert found.shares[i][j] is None if i == j else found.shares[i][j] == pytest.approx(share)


def test_residuals_are_those_of_the_columns(houses):
    found, recipe = residuals(subject(houses)), houses.about["recipe"]
    table = recipe.inverse_transform(houses.X)
    rebuilt = recipe.inverse_transform(houses.model.cluster_centers_)[houses.model.labels_]
    shares = 1 - ((table - rebuilt) ** 2).mean(axis=0) / table.var(axis=0)
    assert {one.name: one.words for one in found.columns} == dict(
        zip(recipe.encoded_names_, map(percent, shares), strict=True)
    )
    assert sum(column.words.startswith("0 rows") for column in found.histogram.columns) == 0
    assert sum(int(column.words.split()[0]) for column in found.histogram.columns) == 90


def test_unusual_rows_are_shown_as_they_came():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": [f"w{n}" for n in range(300)], "a": rng.normal(size=300), "b": rng.normal(size=300)})
    frame.loc[7, "a"] = 25.0625
    recipe = Recipe(id_column="who")
    X = recipe.fit_transform(frame)
    model = DPMeans(1e9).fit(X)
    found = odd_rows(subject_of(model, X, **{**NOTHING, "recipe": recipe, "ids": frame["who"]}), frame)
    assert found.columns == ["a", "b"]
    assert (found.rows[0].row.id, found.rows[0].values[0]) == ("w7", "25.1")
    assert len(found.rows) == 3
    frame["a"] = frame["a"].astype(str) + "x" * 100
    assert len(odd_rows(subject_of(model, X, **NOTHING), frame).rows[0].values[1]) == 60


def test_missing_values_of_unusual_rows_are_shown_as_nothing():
    frame = pd.DataFrame({"a": np.arange(300.0), "b": ["x"] * 300, "c": pd.array([1] * 300, dtype="Int64")})
    X = frame[["a"]].to_numpy(copy=True)
    X[7] = 1e4
    frame.loc[7, ["a", "b", "c"]] = [np.nan, None, pd.NA]
    found = odd_rows(subject_of(DPMeans(1e12).fit(X), X, **NOTHING), frame)
    assert (found.rows[0].row.row, found.rows[0].values) == (7, ["", "", ""])


def test_absurd_scales_are_no_trouble():
    rng, kind = np.random.default_rng(0), np.repeat([0, 1], 20)
    huge, tiny = np.where(kind, 1e300, -1e300), np.where(kind, 1e-300, 3e-300)
    frame = pd.DataFrame({"huge": huge * (1 + rng.normal(0, 0.01, 40)), "tiny": tiny, "flag": kind == 1})
    recipe = Recipe()
    X = recipe.fit_transform(frame)
    page = render_report(DPMeans(5.0, random_state=0).fit(X), X, recipe=recipe, frame=frame)
    assert "tiny +1.0 sd (3e-300 against 2e-300)" in page
    assert "flag is 1 in 0 % (against 50 %)" in page


def test_examples_begin_with_typical_rows(dice):
    errors = dice.model.score_samples(dice.X)[:, 0]
    found = examples(subject(dice))
    assert (
        found[0].row.row
        == np.flatnonzero(dice.model.allocations_[:, 0])[errors[dice.model.allocations_[:, 0] == 1].argmin()]
    )
    assert found[-4].row.row == errors.argmax()
    assert found[-4].is_unusual
    names = [dice.model.group_names_[k] for k in np.flatnonzero(dice.model.allocations_[found[0].row.row])]
    assert found[0].groups == names


@pytest.mark.parametrize(
    "model",
    [BPMeans(1e9), DPMeans(1e9), KFeatures(2, random_state=0), CovarianceDPMeans(5.0, random_state=0)],
    ids=["none", "one", "features", "covariance"],
)
def test_any_model_has_a_report(model, X):
    model.fit(X)
    page = Page(render_report(model, X))
    assert len(page.all("article")) >= model._n_features_out
    assert not page.all("input")  # there is no path


def test_a_base_is_where_rows_start():
    rng = np.random.default_rng(0)
    Z = np.column_stack([np.ones(40), np.repeat([0, 1], 20)])
    X = Z @ np.array([[10.0, 20.0], [0.0, 5.0]]) + 0.01 * rng.normal(size=(40, 2))
    model = BPMeans(5.0, random_state=0).fit(X)
    page = render_report(model, X)
    assert "to which the others add" in str(subject_of(model, X, **NOTHING).explanation)
    assert "x1 -1.0 sd (20 against 22.5)" in page
    assert "x1 +2.0 sd (adds 5)" in page


def test_a_path_of_one_number_has_no_slider():
    X = np.repeat([[0.0], [5.0]], 20, axis=0)
    model = DPMeans(1.0).fit(X)
    path = penalty_path(X, "clusters", max_components=1, random_state=0)
    assert not Page(render_report(model, X, path=path)).all("input")


def test_a_report_of_many_noisy_pictures_is_small():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.random((30, 96 * 96 * 3)), 4, axis=0) + 0.01 * rng.random((120, 96 * 96 * 3))
    model = DPMeans(100.0, random_state=0, n_init=1).fit(X)
    page = render_report(model, X, image_shape=(96, 96, 3))
    assert model.n_clusters_ == 30
    assert "6 more groups are left out here." in page
    assert len(page) < 5e6


def test_a_wide_table_is_cut_and_says_so(X):
    wide = np.hstack([X, 0.01 * np.random.default_rng(0).normal(size=(30, 300))])
    page = render_report(DPMeans(60.0, random_state=0).fit(wide), wide)
    assert "263 more columns" in page
    assert len(page) < 2e5


def test_same_fit_same_page(houses):
    assert render_report(houses.model, houses.X, **houses.about) == houses.page


def test_written_whole_or_not_at_all(X, tmp_path):
    model, file = DPMeans(60.0, random_state=0).fit(X), tmp_path / "report.html"
    write_report(file, model, X, run={"timings": {"fit": 0.12345678}})
    assert "0.1235" in file.read_text(encoding="utf-8")
    before = file.read_bytes()
    with pytest.raises(ValueError, match="image_shape"):
        write_report(file, model, X, image_shape=(5, 5))
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_axes_have_round_numbers_inside():
    assert [tick.words for tick in axis_of(0.0, 23.0, 0, 230).ticks] == ["0", "5", "10", "15", "20"]
    assert [tick.at for tick in axis_of(0.0, 20.0, 100, 0).ticks] == [100, 75, 50, 25, 0]
    assert [tick.words for tick in axis_of(0.0, 3.0, 0, 10).ticks] == ["0", "1", "2", "3"]  # no halves of a group
    decades = axis_of(-0.1, 2.1, 0, 10, logarithmic=True).ticks
    assert [tick.words for tick in decades] == ["1", "3", "10", "30", "100"] or len(decades) >= 3
    assert axis_of(2.0, 2.0, 0, 10).at(2.0) == 5
    assert [short(one) for one in (999.0, 5000.0, 20e3, 1.5e6, 2e10)] == ["999", "5000", "20k", "1.5M", "20G"]


def test_a_histogram_with_a_limit_or_a_distance_without_end():
    found = histogram_of(np.array([1.0, 2.0, np.inf]), np.inf)
    assert np.isfinite(found.limit)
    assert sum(column.height > 0 for column in found.columns) == 2


def test_a_frame_of_other_rows_is_refused():
    with pytest.raises(ValueError, match="frame has 1 rows, and X has 6: give the table that X was made of"):
        render_report(DPMeans(penalty=1.0).fit(np.eye(6)), np.eye(6), frame=pd.DataFrame({"a": [1]}))


def test_a_histogram_of_nothing():
    found = histogram_of(np.zeros(10), 0.0)
    assert [column.words.split()[0] for column in found.columns] == ["10"]
