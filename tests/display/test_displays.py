"""Displays in the manner of scikit-learn, and the path as a table."""

import sys
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import sklearn
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.utils.fixes import parse_version

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, penalty_path
from madbayes.datasets import make_dice
from madbayes.display import AllocationDisplay, FeatureDisplay, PathDisplay, TraceDisplay
from madbayes.engine.path import PenaltyPath
from madbayes.paper import Run

DISPLAYS = [AllocationDisplay, FeatureDisplay, PathDisplay, TraceDisplay]


@pytest.fixture(scope="module")
def table():
    """Three clusters of 20, 15 and 10 rows, in two columns with names."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [20, 15, 10])
    X = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 30.0]])[labels] + rng.normal(size=(45, 2))
    return pd.DataFrame(X, columns=["height", "<b>width"])


@pytest.fixture(scope="module")
def clusters(table):
    return DPMeans(random_state=0).fit(table)


@pytest.fixture(scope="module")
def dice():
    data = make_dice(60, noise=0.02, random_state=0)
    return data.X, BPMeans("2%", random_state=0).fit(data.X)


@pytest.mark.parametrize("display", DISPLAYS)
def test_a_model_must_be_fitted(display):
    with pytest.raises(NotFittedError):
        display.from_estimator(DPMeans())


@pytest.mark.parametrize("display", DISPLAYS)
def test_displays_are_drawn_on_the_axis_given_or_on_their_own(display, clusters):
    axis = Figure().subplots(2, 2)[0, 1]
    given, own = display.from_estimator(clusters, ax=axis), display.from_estimator(clusters)
    assert given.ax_ is axis
    assert given.figure_ is axis.figure
    assert own.figure_ is own.ax_.figure is not given.figure_


@pytest.mark.parametrize("display", DISPLAYS)
def test_a_notebook_shows_what_was_drawn(display, clusters):
    drawn = display.from_estimator(clusters)
    assert drawn._repr_png_().startswith(b"\x89PNG")
    del drawn.figure_
    assert drawn._repr_png_() is None


@pytest.mark.parametrize("display", DISPLAYS)
def test_without_matplotlib_the_error_names_the_extra(display, clusters, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "madbayes\[plot\]"'):
        display.from_estimator(clusters)


def test_displays_of_many_parts_need_a_place_in_a_grid():
    axis = Figure().add_axes((0.1, 0.1, 0.5, 0.5))
    with pytest.raises(ValueError, match="make it with subplots"):
        FeatureDisplay(np.eye(2)).plot(ax=axis)


class TestFeatures:
    def test_images_are_the_components(self, dice):
        _, model = dice
        display = FeatureDisplay.from_estimator(model, shape=(8, 8))
        shown = [axis.images[0].get_array().data for axis in display.axes_.ravel() if axis.images]
        assert_array_equal(shown, model.components_.reshape(-1, 8, 8))
        titles = [axis.get_title() for axis in display.axes_.ravel() if axis.images]
        assert titles == model.group_names_ == [f"group {k}" for k in range(model.n_components_)]

    def test_bars_are_the_distances_of_describe(self, clusters):
        display = FeatureDisplay.from_estimator(clusters)
        for axis, group in zip(display.axes_.ravel(), clusters.describe(2), strict=True):
            expected = {name: distance for name, _, distance in group["columns"]}
            widths = [bar.get_width() for bar in axis.patches]
            assert_allclose(widths, [expected["height"], expected["<b>width"]])
        first = display.axes_[0, 0]
        assert [label.get_text() for label in first.get_yticklabels()] == ["height", "<b>width"]
        assert first.get_xlabel() == "standard deviations"

    def test_all_categories_of_a_column_have_their_bars(self):
        X = pd.DataFrame(np.eye(3).repeat([3, 2, 1], axis=0), columns=["colour=red", "colour=blue", "colour=green"])
        model = DPMeans(penalty=0, max_clusters=3).fit(X)
        display = FeatureDisplay.from_estimator(model)
        shares = np.array([3, 2, 1]) / 6
        expected = (np.eye(3) - shares) / np.sqrt(shares * (1 - shares))
        assert_allclose(display.components, expected)

    def test_names_of_groups_are_those_the_user_gave(self, table):
        model = DPMeans(random_state=0).fit(table)
        model.group_names_ = ["near", "right", "up"]
        titles = [axis.get_title() for axis in FeatureDisplay.from_estimator(model).axes_.ravel()]
        assert titles == ["near", "right", "up"]

    def test_a_model_of_others_has_its_components_drawn(self, table):
        model = PCA(2).fit(table)
        display = FeatureDisplay.from_estimator(model)
        assert_allclose([bar.get_width() for bar in display.axes_[0, 1].patches], model.components_[1])
        assert display.unit == "value"

    def test_of_many_columns_the_largest_are_shown_in_their_order(self):
        components = np.array([[0.0, 5.0, 1.0, -9.0], [0.5, 0.0, 1.0, 0.0]])
        display = FeatureDisplay(components, columns=list("abcd")).plot(max_bars=2)
        assert [label.get_text() for label in display.axes_[0, 0].get_yticklabels()] == ["b", "d"]

    @pytest.mark.parametrize("shape", [None, (2, 2)])
    def test_no_components_are_an_empty_picture(self, shape):
        display = FeatureDisplay(np.zeros((0, 4)), shape=shape).plot()
        assert not any(axis.axison for axis in display.axes_.ravel())

    def test_names_must_be_as_many_as_groups(self):
        with pytest.raises(ValueError, match="1 names for 2 of them"):
            FeatureDisplay(np.eye(2), names=["one"])


class TestAllocations:
    def test_rows_with_the_same_code_are_beside_each_other(self, dice):
        _, model = dice
        display = AllocationDisplay.from_estimator(model)
        drawn = display.image_ax_.images[0].get_array().data
        assert_array_equal(drawn, model.allocations_[display.order])
        codes = drawn @ (2 ** np.arange(model.n_components_)[::-1])
        assert (np.diff(codes) <= 0).all()
        heights = [bar.get_height() for bar in display.sizes_ax_.patches]
        assert_array_equal(heights, model.allocations_.sum(axis=0))

    def test_other_rows(self, dice):
        X, model = dice
        assert_array_equal(AllocationDisplay.from_estimator(model, X[:7]).groups, model.allocations_[:7])

    def test_margins_by_hand(self):
        """At 1 of 0 and 4, the squared distances are 1 and 9."""
        model = DPMeans(1.0, init=[[0.0], [4.0]], search="paper").fit([[0.0], [0.0], [4.0], [4.0]])
        display = AllocationDisplay.from_estimator(model, [[1.0], [0.0], [2.0]])
        assert_allclose(display.margins, [8 / 9, 1.0, 0.0])

    @pytest.mark.parametrize("has_margins", [False, True])
    def test_clusters_are_bands_as_high_as_their_rows(self, clusters, table, has_margins):
        display = AllocationDisplay.from_estimator(clusters, table if has_margins else None)
        labels = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert labels == ["group 0 (20)", "group 1 (15)", "group 2 (10)"]
        assert len(display.ax_.collections) == 3
        assert bool(display.ax_.get_xlabel()) == has_margins
        for band, (low, high) in zip(display.ax_.collections, [(0, 20), (20, 35), (35, 45)], strict=True):
            box = band.get_paths()[0].get_extents()
            assert (box.y0, box.y1) == (low, high)

    def test_one_cluster_has_the_whole_margin(self, table):
        model = CovarianceDPMeans(1e9, random_state=0).fit(table)
        assert_array_equal(AllocationDisplay.from_estimator(model, table).margins, np.ones(len(table)))

    def test_no_components(self):
        display = AllocationDisplay(np.zeros((5, 0))).plot()
        assert not display.image_ax_.images

    def test_a_cluster_none_of_the_rows_is_in(self, clusters, table):
        display = AllocationDisplay.from_estimator(clusters, table[:20])
        assert list(display.sizes) == [20, 0, 0]


class TestPath:
    path = PenaltyPath(np.array([1, 2, 3, 4]), np.array([100.0, 60.0, 10.0, 9.0]), [None] * 4)

    def test_intervals_are_drawn_where_they_are(self):
        axis = PathDisplay(self.path).plot().ax_
        drawn = {int(line.get_ydata()[0]): tuple(line.get_xdata()) for line in axis.lines}
        assert drawn == {1: (45.0, 450.0), 3: (1.0, 45.0), 4: (0.1, 1.0)}  # missing ends are a decade away
        colours = {int(line.get_ydata()[0]): line.get_color() for line in axis.lines}
        assert colours[1] == colours[4] != colours[3]

    def test_squared_errors(self):
        axis = PathDisplay(self.path).plot(kind="sse").ax_
        assert_array_equal(axis.lines[0].get_xydata(), np.column_stack([[1, 2, 3, 4], [100, 60, 10, 9]]))
        assert [text.get_text() for text in axis.get_legend().get_texts()] == ["best: 3"]

    def test_groupless_data_are_drawn_beside(self, clusters):
        path = clusters.path_
        axis = PathDisplay.from_estimator(clusters).ax_
        (null,) = [line for line in axis.lines if "groupless" in line.get_label()]
        low, high = null.get_xdata()
        assert null.get_ydata()[0] == path.best
        assert_allclose(high / low, path.null_ratio)
        assert_allclose(np.sqrt(low * high), np.sqrt(np.prod(path.intervals[path.best])))

    def test_long_paths_are_cut(self):
        numbers = np.arange(1, 41)
        path = PenaltyPath(numbers, 100.0 / numbers, [None] * 40)
        for most, shown in ((None, 16), (5, 5)):
            axis = PathDisplay(path).plot(kind="sse", max_groups=most).ax_
            assert axis.lines[0].get_xdata().max() == shown

    def test_the_picture_of_a_path_is_made_of_both(self):
        figure = self.path.plot()
        assert [axis.get_ylabel() for axis in figure.axes] == ["groups", "squared error"]
        axes = Figure().subplots(1, 2)
        assert self.path.plot(axes) is axes[0].figure
        assert axes[1].lines

    def test_what_has_no_path_says_how_to_get_one(self, table):
        with pytest.raises(ValueError, match='this DPMeans has no path_: fit it with penalty="auto"'):
            PathDisplay.from_estimator(DPMeans(5.0).fit(table))
        with pytest.raises(ValueError, match="kind='x' is not accepted"):
            PathDisplay(self.path).plot(kind="x")


class TestTrace:
    def test_the_trace_and_the_runs_sorted(self, table):
        model = DPMeans(5.0, search="paper", n_init=6, random_state=0).fit(table)
        display = TraceDisplay.from_estimator(model)
        assert_array_equal(display.trace_ax_.lines[0].get_ydata(), model.objective_trace_)
        drawn = display.runs_ax_.collections[0].get_offsets().data[:, 1]
        assert_array_equal(drawn, sorted(run.value for run in model.runs_))
        assert (display.unit, display.word) == ("iterations", "runs")

    def test_a_search_counts_improvements(self, clusters):
        display = TraceDisplay.from_estimator(clusters)
        assert (display.unit, display.word) == ("improvements", "lineages")

    def test_agreeing_runs_are_counted_and_infinite_values_left_out(self):
        runs = [Run(0, 2, 3.0, 5, 0.1), Run(1, 2, 3.0, 5, 0.1), Run(2, 3, 4.0, 5, 0.1), Run(3, 0, np.inf, 5, 0.1)]
        display = TraceDisplay([np.inf, 4.0, 3.0], runs).plot()
        assert display.runs_ax_.get_title() == "2 of 3 runs agree"
        assert_array_equal(display.trace_ax_.lines[0].get_xydata(), [[1, 4], [2, 3]])

    def test_without_runs_there_is_one_axis(self):
        assert not hasattr(TraceDisplay([2.0, 1.0]).plot(), "runs_ax_")


class TestTable:
    def test_the_table_says_what_the_path_says(self):
        path = TestPath.path
        root = ElementTree.fromstring(path._repr_html_())
        assert root.find("p").text == str(path)
        cells = [["".join(cell.itertext()) for cell in row] for row in root.find("table/tbody")]
        assert cells == [
            ["1", "100", "45 and more", "", ""],
            ["2", "60", "never", "", ""],
            ["3", "10", "1 to 45", "", "45"],
            ["4", "9", "0 to 1", "", ""],
        ]
        assert [bold.text for bold in root.iter("b")] == ["3"]

    def test_bars_follow_each_other_without_a_gap(self):
        bars = [bar.attrib for bar in ElementTree.fromstring(TestPath.path._repr_html_()).iter("rect")]
        starts, widths = (np.array([float(bar[name]) for bar in bars]) for name in ("x", "width"))
        assert_allclose(starts[:-1], (starts + widths)[1:], atol=0.11)
        assert starts[-1] == 0
        assert_allclose(starts[0] + widths[0], 240, atol=0.11)

    @pytest.mark.parametrize("losses", [[1.0], [0.0], [4.0, 0.0]])
    def test_short_paths(self, losses):
        path = PenaltyPath(np.arange(1, len(losses) + 1), np.array(losses), [None] * len(losses))
        assert len(list(ElementTree.fromstring(path._repr_html_()).iter("tr"))) == len(losses) + 1

    def test_it_needs_no_matplotlib(self, monkeypatch, table):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        path = penalty_path(table, "clusters", max_components=4, n_null=1, random_state=0)
        assert "<table>" in path._repr_html_()

    def test_a_fitted_model_shows_what_it_found(self, clusters):
        """scikit-learn shows fitted attributes since 1.9, and the name and parameters of a model before."""
        page = clusters._repr_html_()
        assert "DPMeans" in page
        if parse_version(sklearn.__version__) >= parse_version("1.9.0"):
            for name in ("n_clusters_", "objective_", "penalty_"):
                assert name in page
        assert "<b>width" not in page
