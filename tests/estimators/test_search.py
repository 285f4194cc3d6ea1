"""Restarts of the paper's algorithm: replayed from their seeds, in parallel, stopped early; and the penalty path."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures, paper

WEIGHTS = np.arange(18) % 3 + 1.0


def order_of(seed, N):
    return None if seed is None else np.random.default_rng(seed).permutation(N)


def attributes(model):
    return pickle.dumps({name: value for name, value in vars(model).items()
                         if name.endswith("_") and name not in ("runs_", "path_")})  # fmt: skip


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("cap", [None, 3])
@pytest.mark.parametrize("collapsed", [False, True])
def test_runs_of_dp_means_can_be_replayed(X, weights, cap, collapsed):
    model = DPMeans(5.0, max_clusters=cap, collapsed=collapsed, search="paper", n_init=5, random_state=1)
    model.fit(X, sample_weight=weights)
    algorithm = paper.collapsed_dp_means if collapsed else paper.dp_means
    assert len(model.runs_) == 5
    assert model.runs_[0].seed is None
    for run in model.runs_:
        order = order_of(run.seed, len(X))
        replayed = algorithm(X, 5.0, order=order, max_clusters=cap, sample_weight=weights)
        assert run.value == pytest.approx(replayed.value, rel=1e-9)
        assert (run.K, run.iterations) == (replayed.K, replayed.iterations)
        assert run.seconds > 0
    assert len({run.seed for run in model.runs_}) == 5


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_runs_of_k_means_can_be_replayed(X, weights):
    model = DPMeans(0, max_clusters=4, search="paper", n_init=5, random_state=1).fit(X, sample_weight=weights)
    for run in model.runs_:
        start = paper.seed_clusters(X, 4, random_state=run.seed, sample_weight=weights)
        assert run.value == pytest.approx(paper.k_means(X, start, sample_weight=weights).value, rel=1e-9)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("collapsed", [False, True])
def test_runs_of_bp_means_can_be_replayed(X, weights, collapsed):
    model = BPMeans(5.0, collapsed=collapsed, search="paper", n_init=5, random_state=1).fit(X, sample_weight=weights)
    assert len({run.seed for run in model.runs_}) == 5
    for run in model.runs_:
        Z, A = paper.seed_features(X, penalty=5.0, random_state=run.seed, sample_weight=weights)
        if collapsed:
            replayed = paper.collapsed_bp_means(X, 5.0, Z, sample_weight=weights)
        else:
            replayed = paper.bp_means(X, 5.0, Z, A, sample_weight=weights)
        assert run.value == pytest.approx(replayed.value, rel=1e-9)
        assert run.K == replayed.K


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_runs_of_k_features_can_be_replayed(X, weights):
    model = KFeatures(3, search="paper", n_init=5, random_state=1).fit(X, sample_weight=weights)
    for run in model.runs_:
        start = paper.seed_features(X, 3, random_state=run.seed, sample_weight=weights)
        assert run.value == pytest.approx(paper.k_features(X, 3, *start, sample_weight=weights).value, rel=1e-9)


def test_runs_of_stepwise_k_features_can_be_replayed(X):
    model = StepwiseKFeatures(5.0, search="paper", n_init=3, random_state=1).fit(X)
    assert len(model.runs_) % 3 == 0
    for i, run in enumerate(model.runs_):
        K = i // 3 + 1
        replayed = paper.k_features(X, K, *paper.seed_features(X, K, random_state=run.seed))
        assert_allclose(run.value, replayed.value + 5.0 * replayed.K)


def test_the_best_run_is_kept(model, X):
    model.set_params(search="paper", n_init=6).fit(X)
    best = min(run.value for run in model.runs_)
    assert_allclose(model.objective_, best)
    assert_allclose(model.objective_trace_[-1], model.objective_)
    assert model.converged_
    assert model.n_iter_ >= 1
    assert model.search_info_["n_init"] == len(model.runs_)


def test_ten_restarts_unless_told_otherwise(X):
    for model in (DPMeans(5.0), BPMeans(5.0), KFeatures(2), CovarianceDPMeans(0.1)):
        assert len(model.set_params(search="paper").fit(X).runs_) == 10


def test_same_seed_same_answer_for_any_number_of_jobs(model, X):
    first, second = (clone(model).set_params(n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    assert attributes(first) == attributes(second)
    assert [run[:4] for run in first.runs_] == [run[:4] for run in second.runs_]


def test_random_states(X):
    model = BPMeans(5.0, n_init=4)
    seeds = [
        [run.seed for run in clone(model).set_params(random_state=state).fit(X).runs_]
        for state in (3, np.random.RandomState(3), 4)
    ]
    assert seeds[0] == seeds[1] != seeds[2]


@pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")
@pytest.mark.parametrize("penalty", [1.0, "auto"])
def test_refitting_gives_the_same(model, X, penalty):
    if "penalty" in model.get_params():
        model.set_params(penalty=penalty)
    first = attributes(model.fit(X))
    model.fit(X[:5] + 1)
    assert attributes(model.fit(X)) == first


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_time_limit_stops_early_but_not_before_one_run(X, n_jobs):
    options = {"search": "paper", "random_state": 0}
    model = DPMeans(5.0, n_init=10**6, time_limit=0.05, n_jobs=n_jobs, **options).fit(X)
    assert 1 <= len(model.runs_) < 10**5
    assert [run.seed for run in model.runs_[:2]] == [run.seed for run in DPMeans(5.0, **options).fit(X).runs_[:2]]
    assert len(DPMeans(5.0, time_limit=1e-9, **options).fit(X).runs_) == 1


def test_the_runs_done_in_the_time_can_be_asked_for_again(X):
    model = DPMeans(5.0, search="paper", n_init=10**5, time_limit=0.05, random_state=0).fit(X)
    again = clone(model).set_params(n_init=len(model.runs_), time_limit=None).fit(X)
    assert [run[:4] for run in again.runs_] == [run[:4] for run in model.runs_]
    assert attributes(again) == attributes(model)


def test_verbose_prints_a_line_for_each_run(model, X, capsys):
    model.fit(X)
    assert capsys.readouterr().out == ""
    model.set_params(verbose=1).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.runs_)
    words = [f"{type(model).__name__}: K={run.K} objective={run.value:.6g} " for run in model.runs_]
    # Lineages are printed as they end, and kept best first.
    assert sorted(line.partition("iterations")[0] for line in lines) == sorted(words)


INTERRUPTED = [
    (DPMeans(5.0), "_run_one"),
    (BPMeans(5.0), "_run"),
    (KFeatures(2), "_run"),
    (StepwiseKFeatures(5.0), "_run_k_features"),
    (CovarianceDPMeans(0.1), "_run"),
]


def interrupt(monkeypatch, model, method, call):
    """One restart at a time, and Ctrl-C in the given call of a method."""
    original, calls = getattr(type(model), method), []

    def interrupted(*args, **kwargs):
        calls.append(args)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(type(model), method, interrupted)
    monkeypatch.setattr(type(model), "_batch", lambda self, problem: 1)
    model.set_params(search="paper")
    return calls


@pytest.mark.parametrize(("model", "method"), INTERRUPTED, ids=lambda part: getattr(part, "__name__", ""))
class TestInterrupt:
    def test_in_a_later_run_keeps_the_earlier_ones(self, model, method, monkeypatch, X):
        model = clone(model).set_params(random_state=0)
        # Stepwise K-features starts with a run for no features at all.
        call = 4 if isinstance(model, StepwiseKFeatures) else 3
        calls = interrupt(monkeypatch, model, method, call)
        with pytest.warns(UserWarning, match="interrupted: keeping the best of"):
            model.fit(X)
        assert len(calls) == call
        assert len(model.runs_) == 2
        assert model.objective_ <= min(run.value for run in model.runs_) * (1 + 1e-9)

    def test_in_the_first_run_is_an_interrupt(self, model, method, monkeypatch, X):
        model = clone(model)
        interrupt(monkeypatch, model, method, 1)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)


def test_too_few_iterations_are_a_warning():
    X = np.random.default_rng(0).normal(size=(200, 3))
    for model in (DPMeans(3.0), BPMeans(3.0), KFeatures(4)):
        with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
            model.set_params(search="paper", max_iter=1, n_init=1, random_state=0).fit(X)
        assert not model.converged_
        assert model.n_iter_ == 1


def test_collapsed_and_search_report_the_same_objective(X):
    for collapsed in (False, True):
        for search in ("best", "paper"):
            model = DPMeans(5.0, collapsed=collapsed, search=search, random_state=0).fit(X)
            assert_allclose(model.objective_, ((X - model.cluster_centers_[model.labels_]) ** 2).sum()
                            + 5.0 * (model.n_clusters_ - 1))  # fmt: skip


@pytest.mark.parametrize("search", ["best", "paper"])
@pytest.mark.parametrize("weights", [None, np.linspace(1, 2, 90)])
def test_auto_finds_three_clusters(blobs, weights, search):
    X, labels = blobs
    model = DPMeans(search=search, random_state=0).fit(X, sample_weight=weights)
    assert_array_equal(model.labels_, labels)
    assert model.path_.best == 3
    lo, hi = model.path_.intervals[3]
    assert lo < model.penalty_ < hi
    assert model.path_.ratio == hi / lo
    assert search == "best" or "path" in [run.seed for run in model.runs_]


def test_auto_finds_clusters_on_a_sample_of_many_rows(blobs):
    X, _ = blobs
    rows = np.random.default_rng(0).integers(len(X), size=3000)
    model = DPMeans(n_init=1, random_state=0).fit(X[rows])
    assert model.n_clusters_ == 3
    few = DPMeans(n_init=1, random_state=0).fit(X)
    assert_allclose(model.penalty_share_, few.penalty_share_, rtol=0.3)


def test_auto_finds_features():
    """A base that all rows have and two parts that come and go."""
    A = np.array([[9.0, 9.0, 9.0, 9.0], [0.0, 0.0, 7.0, 7.0], [-5.0, 5.0, 0.0, 0.0]])
    Z = np.tile([[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1]], (8, 1))
    X = Z @ A + 0.1 * np.random.default_rng(0).normal(size=(40, 4))
    model = BPMeans(random_state=0).fit(X)
    assert model.path_.best == model.n_components_ == 3
    lo, hi = model.path_.intervals[3]
    assert lo < model.penalty_ < hi
    assert model.sse_ <= ((X - Z @ A) ** 2).sum()


@pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")
def test_a_path_only_with_auto(X):
    model = DPMeans(random_state=0).fit(X)
    assert list(model.path_.n_components) == list(range(1, 11))  # with 18 rows, nine clusters and one to judge them
    model.set_params(penalty=3.0).fit(X)
    assert not hasattr(model, "path_")


def test_losses_on_the_path_are_those_of_k_means(blobs):
    X, labels = blobs
    path = DPMeans(random_state=0).fit(X).path_
    assert_allclose(path.losses[0], ((X - X.mean(axis=0)) ** 2).sum())
    centers = np.array([X[labels == k].mean(axis=0) for k in range(3)])
    assert_allclose(path.losses[2], ((X - centers[labels]) ** 2).sum())


@pytest.mark.filterwarnings("ignore::madbayes.WeakEvidenceWarning")
def test_the_path_ends_at_the_cap(X):
    assert list(DPMeans(max_clusters=4).fit(X).path_.n_components) == [1, 2, 3, 4]
    assert list(BPMeans(max_components=2).fit(X).path_.n_components) == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:weak evidence")  # two rows are no evidence: any two are as far apart as two groups
@pytest.mark.parametrize("table", [np.zeros((4, 2)), np.full((4, 2), 7.0), np.ones((1, 3)), np.array([[1.0], [2.0]])])
def test_auto_on_almost_nothing(model, table):
    if isinstance(model, KFeatures):
        model = model.set_params(n_components=1)
        if not table.any():
            return
    else:
        model.set_params(penalty="auto")
    model.fit(table)
    constant = (table == table[0]).all()
    groups = model._n_features_out
    assert groups == (1 if table.any() or not model._adds_up else 0)
    assert np.isfinite(model.objective_)
    if constant:
        assert_allclose(model.sse_, 0, atol=1e-20)
