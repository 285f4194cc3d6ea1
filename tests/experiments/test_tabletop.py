import os
from pathlib import Path

import numpy as np
import pytest

from madbayes.experiments import tabletop_errors, tabletop_figure, tabletop_gibbs, tabletop_times
from madbayes.experiments.figures import around_grey, plot_counts
from madbayes.experiments.parts import Folder, Work
from madbayes.experiments.tabletop_setup import Effort, tabletop

QUICK = Effort.quick(20.0, 0, None)


def work(folder):
    return Work(lambda words, done, total: None, Folder(folder, "test"), "fingerprint")


@pytest.fixture(scope="module")
def stand_in():
    """With a seed for which some object is in most of the pictures."""
    return tabletop(None, seed=2)


def test_errors_fall_and_all_searches_choose_five(stand_in, tmp_path):
    found = tabletop_errors.findings(stand_in, QUICK, work(tmp_path))
    errors = [row["squared error"] for row in found.tables["squared errors"]]
    assert (np.diff(errors) < 0).all()
    assert all("published" not in row for row in found.tables["squared errors"])  # these are other pictures
    chosen = found.tables["chosen at penalty 20"]
    assert {row["features"] for row in chosen} == {5}
    assert [row["objective"] for row in chosen] == pytest.approx([errors[4] + 5 * 20] * 3)
    lo, hi = found.values["interval"]
    assert lo < 20 < hi
    assert hi == pytest.approx(errors[3] - errors[4])
    assert "100.0% of the memberships" in found.verdict[-1]


def test_errors_that_are_not_the_published_ones_are_said():
    rows = [{"features": K, "squared error": 600.0 - K, "published": 600.0 - K, "difference": 0.0} for K in range(1, 6)]
    assert tabletop_errors.error_words(rows) == ["Squared errors for 1 to 5 features are the published ones to 0."]
    rows[2]["difference"] = 0.3
    rows.append({"features": 6, "squared error": 149.9, "published": 156.1, "difference": -6.2})
    words = tabletop_errors.error_words(rows)
    assert "only to 0.3" in words[0]
    assert "149.9 for 6 (published: 156.1)" in words[1]


def test_the_figure_tells_objects_that_are_added_from_those_that_are_subtracted(stand_in, tmp_path):
    """The objects are known: a feature adds one if the pictures that have the feature are those that show it."""
    found = tabletop_figure.findings(stand_in, QUICK, work(tmp_path))
    rows = found.tables["features"]
    assert len(rows) == 4
    n_shown = stand_in.Z.sum(axis=0, dtype=int)
    told = [row["pictures"] if row["does"] == "add" else 100 - row["pictures"] for row in rows]
    assert sorted(told) == sorted(n_shown)
    assert {row["does"] for row in rows} == {"add", "subtract"}
    assert all(row["least with it"] > 0.9 and row["most without it"] < 0.1 for row in rows)
    n_codes = len(np.unique(stand_in.Z, axis=0))
    assert len(found.tables["codes"]) == n_codes
    assert sum(row["pictures"] for row in found.tables["codes"]) == 100
    assert "in places of their own (largest overlap 0%)" in found.verdict[0]


def test_without_features_there_is_no_figure(stand_in, tmp_path):
    found = tabletop_figure.findings(stand_in, QUICK._replace(penalty=1e6), work(tmp_path))
    assert found.verdict == ["No base: none of the 0 features is in all pictures."]
    assert not found.figures


def test_superfluous_features_are_drawn(stand_in, tmp_path):
    """At a tenth of the penalty the best of a few restarts has more features than the optimum."""
    found = tabletop_figure.findings(stand_in, QUICK._replace(penalty=2.0, n_restarts=5), work(tmp_path))
    rows = found.tables["restarts of BP-means"]
    n_surplus = sum(row["features"] > row["optimal"] for row in rows)
    assert n_surplus > 0
    assert len(found.figures) == 1 + n_surplus
    assert "superfluous" in found.verdict[-1]
    assert all(row["objective"] >= row["lowest"] * (1 - 1e-9) for row in rows)


def test_detail_is_what_changes_between_neighbours():
    bare, striped = np.full((6, 6, 3), 0.5), np.tile([0.0, 1.0], 18).reshape(6, 6)[..., None].repeat(3, axis=2)
    everywhere = np.ones((6, 6), dtype=bool)
    assert tabletop_figure.detail(bare, everywhere) == 0
    assert tabletop_figure.detail(striped, everywhere) == pytest.approx(3 * 6 * 5)


def test_the_table_of_times_has_the_paper_beside_it(stand_in, tmp_path):
    found = tabletop_times.findings(stand_in, QUICK, work(tmp_path))
    rows = {row["algorithm"]: row for row in found.tables["running times"]}
    assert list(rows) == ["IBP Gibbs", "collapsed BP-means", "BP-means", "stepwise K-features", 'search="best"']
    assert [rows[name]["paper: features"] for name in list(rows)[:4]] == [10, 5, 6, 5]
    assert rows["BP-means"]["runs"] == QUICK.n_restarts
    assert rows["stepwise K-features"]["runs"] % QUICK.n_stepwise == 0
    for row in rows.values():
        assert row["seconds in all"] == pytest.approx(row["runs"] * row["seconds per run"])
        assert row["Gibbs / this"] == pytest.approx(rows["IBP Gibbs"]["seconds in all"] / row["seconds in all"])
    assert rows["IBP Gibbs"]["Gibbs / this"] == 1
    assert rows["BP-means"]["paper: Gibbs / this"] == pytest.approx(8500 / 360)
    assert rows['search="best"']["features"] == 5
    assert rows['search="best"']["objective"] <= min(rows[name]["objective"] for name in list(rows)[1:4]) + 1e-9


def row(converged, draws):
    return {"start": "one", "mass": 0.1, "mean-noise": 1.0, "converged": converged, "draws of K": draws}


def test_chains_that_do_not_converge_are_listed_and_not_counted():
    words = tabletop_gibbs.words_of([row(True, [8, 9]), row(False, [30, 40])], {8: 1, 9: 1}, QUICK)
    assert words[0].startswith("1 of 2 Gibbs samplers converged")
    assert words[1] == "Not converged: one, mass 0.1, mean-noise 1."
    assert "8 to 9 features" in words[2]
    assert "That is so here, too." in words[2]


def test_the_grid_is_logarithmic_and_all_starts_are_run(stand_in, tmp_path):
    effort = QUICK._replace(n_grid=3, n_sweeps=6, n_draws=2)
    found = tabletop_gibbs.findings(stand_in, effort, work(tmp_path))
    rows = found.tables["chains"]
    assert len(rows) == 4 * 3 * 3
    assert {round(row["mass"], 9) for row in rows} == {0.01, 0.1, 1.0}
    assert {round(row["mean-noise"], 9) for row in rows} == {0.1, 1.0, 10.0}
    n_settled = sum(row["converged"] for row in rows)
    assert sum(row["draws"] for row in found.tables["histogram"]) == 2 * n_settled
    assert all(row["converged"] == (abs(row["shift"]) <= 1) for row in rows)


def test_grey_is_no_change():
    parts = np.array([[[0.0, 0.2]], [[-0.4, 0.0]]])
    assert np.allclose(around_grey(parts, np.array([1, -1])), [[[0.5, 0.75]], [[1.0, 0.5]]])


def test_bars_have_their_counts():
    figure = plot_counts({5: 10, 7: 3}, "features")
    bars = figure.axes[0].patches
    assert [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in bars] == [(5, 10), (7, 3)]


@pytest.mark.pictures
def test_the_pictures_of_the_paper(tmp_path):
    """The published squared errors; five features from about 11 to 44.6; the four objects, each in its own place."""
    table = tabletop(Path(os.environ["MADBAYES_DATA"]) / "tabletop")
    effort = QUICK._replace(n_restarts=100, largest=6)
    found = tabletop_errors.findings(table, effort, work(tmp_path / "errors"))
    errors = [row["squared error"] for row in found.tables["squared errors"]]
    assert errors[:5] == pytest.approx([615.9, 423.2, 295.3, 205.8, 161.2], abs=0.1)
    assert errors[5] < 150.51
    assert {row["features"] for row in found.tables["chosen at penalty 20"]} == {5}
    assert found.values["interval"] == pytest.approx((11.3, 44.6), rel=0.02)
    found = tabletop_figure.findings(table, effort, work(tmp_path / "figure"))
    rows = found.tables["features"]
    assert [row["does"] for row in rows].count("subtract") == 2  # as printed: phone and bottle here
    assert all(row["least with it"] > 0.8 and row["most without it"] < 0.2 for row in rows)
    assert len(found.tables["codes"]) == 16
