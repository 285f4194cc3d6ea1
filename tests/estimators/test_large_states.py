"""Tables of many rows: what a fit leaves behind when it fails, is stopped, goes on, or is looked at on the way."""

import warnings

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from madbayes import BPMeans, CovarianceDPMeans, DPMeans
from madbayes.engine import homes
from madbayes.engine.search import Search
from madbayes.estimators import base
from madbayes.estimators.checkpoints import NAME
from madbayes.estimators.problem import Problem
from madbayes.estimators.progress import Budget
from madbayes.io import load_record

QUICK = Search(max_moves=5, max_lineages=1)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tables are large from 200 rows on."""
    monkeypatch.setattr(homes, "PART_ENTRIES", 2**12)  # 256 rows
    for estimator in (DPMeans, BPMeans, CovarianceDPMeans):
        monkeypatch.setattr(estimator, "_search_rows", 200)


@pytest.fixture
def table():
    return np.random.default_rng(0).random((900, 3))


def slow(**params):
    """K-means that takes many passes."""
    return DPMeans(0, max_clusters=20, search=Search(max_moves=1, max_lineages=1), random_state=0, **params)


def mapped(X, tmp_path):
    np.save(tmp_path / "table.npy", X)
    return np.load(tmp_path / "table.npy", mmap_mode="r")


@pytest.mark.parametrize("place", ["_remember", "_store_gap", "_usual_error"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_fit_that_fails_at_its_end_leaves_the_model_as_it_was(place, error, table, monkeypatch):
    model = DPMeans(5.0, search=QUICK, random_state=0).fit(table)
    before = joblib.hash(vars(model))

    def fail(*args):
        raise error

    monkeypatch.setattr(DPMeans, place, fail)
    with pytest.raises(error):
        model.fit(table[:, :2] + 1)
    assert joblib.hash(vars(model)) == before


def test_errors_of_wide_tables_are_judged_by_fewer_rows(table, monkeypatch):
    drawn = []
    sample = Problem.sample
    monkeypatch.setattr(base, "JUDGED_ENTRIES", 3 * 600)
    monkeypatch.setattr(Problem, "sample", lambda self, n_rows: drawn.append(n_rows) or sample(self, n_rows))
    DPMeans(5.0, search=QUICK, random_state=0).fit(table)
    assert drawn[-1] == 600


def test_time_that_is_over_ends_the_passes(table, monkeypatch):
    """The user's start is not begun with, and nobody is told to allow more iterations."""
    passes = []
    monkeypatch.setattr(DPMeans, "_say_pass", lambda self, problem, run, budget: passes.append(run.value))
    monkeypatch.setattr(Budget, "is_spent", lambda self: len(passes) >= 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = slow(time_limit=1.0, init=table[:20]).fit(table)
    assert len(passes) == 3
    assert model.search_info_["stopped"] == "by the time limit"
    assert not model.converged_
    assert_array_equal(model.labels_, model.predict(table))


def test_what_a_sample_gave_is_not_in_the_trace_of_a_fit_that_goes_on(table, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(DPMeans, "_descend_at_home", fail)
        with pytest.raises(OSError, match="the disk is gone"):
            slow(checkpoint=tmp_path).fit(table)
    assert load_record(tmp_path / NAME).trace == []
    assert_array_equal(slow(checkpoint=tmp_path).fit(table).objective_trace_, slow().fit(table).objective_trace_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_that_did_not_converge_has_not_when_it_is_read_again(table, tmp_path):
    model = slow(checkpoint=tmp_path).set_params(search="paper", n_init=1, max_iter=1)
    assert not model.fit(table).converged_
    assert not model.fit(table).converged_


def test_other_weights_are_another_fit(table, tmp_path):
    model = DPMeans("2%", search=QUICK, random_state=0, checkpoint=tmp_path).fit(table)
    with pytest.raises(ValueError, match="state of another fit, its table is"):
        model.fit(table, sample_weight=np.full(len(table), 2.0))
    with pytest.raises(ValueError, match="state of another fit, its number of rows is 900 and not 899"):
        model.fit(table[1:])


@pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")
def test_the_path_of_a_fit_that_goes_on_is_kept_and_goes_with_the_next(table, tmp_path):
    first = DPMeans(search=QUICK, random_state=0, checkpoint=tmp_path).fit(table)
    again = DPMeans(search=QUICK, random_state=0, checkpoint=tmp_path).fit(table)
    assert again.penalty_ == first.penalty_
    assert_array_equal(again.path_.sse, first.path_.sse)
    assert not hasattr(again.set_params(penalty=5.0, checkpoint=None).fit(table), "path_")


def test_a_start_has_the_codes_of_the_rows_that_count(monkeypatch):
    """Rows of no weight come first: the codes of the others must not shift."""
    rng = np.random.default_rng(1)
    Z, A = (rng.random((600, 3)) < 0.5).astype(float), 3 * rng.normal(size=(3, 5))
    starts = []
    codes = BPMeans._init_groups
    monkeypatch.setattr(
        BPMeans, "_init_groups", lambda self, sample, likelihood: starts.append(sample) or codes(self, sample, None)
    )
    weights = np.r_[np.zeros(50), np.ones(550)]
    BPMeans(5.0, search=QUICK, init=(Z, A), random_state=0).fit(Z @ A, sample_weight=weights)
    (sample,) = starts
    assert_allclose(codes(BPMeans(), sample, None) @ A, sample.X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model", [DPMeans(2.0, search=QUICK), BPMeans(20.0, search=QUICK), CovarianceDPMeans(5.0, search=QUICK)], ids=repr
)
def test_rows_in_a_file_score_as_in_memory(model, dtype, table, tmp_path):
    X = table.astype(dtype)
    model.set_params(random_state=0).fit(X)
    weights = np.linspace(0, 2, len(X))
    rtol = 1e-12 if dtype == np.float64 else 1e-8
    assert_allclose(model.score(mapped(X, tmp_path)), -model.objective_, rtol=rtol)
    there = model.score(mapped(X, tmp_path), sample_weight=weights)
    assert_allclose(there, model.score(X, sample_weight=weights), rtol=rtol)
    with pytest.raises(ValueError, match="sample_weight has shape"):
        model.score(mapped(X, tmp_path), sample_weight=[1.0])
