"""Iterated local search, which is what search="best" stands for: how low it gets, and what it promises."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, StepwiseKFeatures, paper
from madbayes.datasets import make_linear_gaussian, make_mixture
from madbayes.engine.cluster_search import ClusterLandscape, cluster_moves
from madbayes.engine.covariance_search import covariance_moves
from madbayes.engine.feature_moves import feature_moves
from madbayes.engine.feature_search import FeatureLandscape
from madbayes.engine.search import Search
from madbayes.estimators.progress import Budget
from madbayes.model import (
    bp_means_objective,
    capped_bp_means_objective,
    capped_dp_means_objective,
    dp_means_objective,
    k_features_objective,
)

# Tables are small as they are, and a search too slow to repeat it for smaller ones.
FEW = settings(max_examples=8, phases=(Phase.explicit, Phase.generate))
MODELS = [DPMeans(5.0), BPMeans(5.0), KFeatures(2), StepwiseKFeatures(5.0), CovarianceDPMeans(0.1)]
# One feature less is better, with others in place of all.
LINE = np.array([[-1.32402992], [5.38451529], [9.97139645], [-1.10000002], [-1.5], [-8.08086777]])
penalties = st.sampled_from([0.0, 0.5, 3.0, 40.0, "2%", "20%"])
caps = st.sampled_from([None, 1, 2, 4])
# Names of the polishes beside the moves.
STRONGER = ("anneal", "look_around", "prove")


@pytest.fixture(params=MODELS, ids=lambda model: type(model).__name__)
def model(request):
    return clone(request.param).set_params(random_state=0)


@pytest.fixture(params=MODELS[:4], ids=lambda model: type(model).__name__)
def squared(request):
    """Those whose objective is in the squared units of the table."""
    return clone(request.param).set_params(random_state=0)


@st.composite
def tables(draw):
    """Small, full of ties and duplicates or with neither; weights, some of them zero, or none."""
    shape = draw(st.integers(1, 10)), draw(st.integers(1, 3))
    elements = draw(st.sampled_from([st.integers(-3, 3), st.floats(-10, 10, width=32, allow_subnormal=False)]))
    X = draw(arrays(np.float64, shape, elements=elements))
    X[np.abs(X) < 1e-3] = 0
    return X, draw(st.none() | arrays(np.int64, len(X), elements=st.integers(0, 3)).filter(np.any))


def fitted(model, X, weights=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).set_params(**parameters).fit(X, sample_weight=weights)


def rounding(X):
    return 1e-12 * max(1.0, (X**2).sum())


def groups(model):
    return (
        (model.labels_, model.cluster_centers_)
        if hasattr(model, "labels_")
        else (model.allocations_, model.components_)
    )


def bits(model):
    """All that a fit finds, but not how long it took."""
    runs = [run[:4] for run in model.runs_]
    return pickle.dumps([*groups(model), model.objective_, model.objective_trace_, model.search_info_, runs])


def mixture(N, D, K, sep, seed):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(K, D)) * sep / np.sqrt(2)
    labels = rng.integers(K, size=N)
    X = means[labels] + rng.normal(size=(N, D))
    return X - X.mean(axis=0)


def sums(N=60, D=6, K=4, seed=0):
    return make_linear_gaussian(N, D, K, random_state=seed).X


# How low it gets


@FEW
@given(tables(), penalties, caps, st.integers(0, 5))
@example((LINE, None), 0.5, 4, 0)
def test_never_worse_than_restarts(table, penalty, cap, seed):
    X, weights = table
    for model in (
        DPMeans(penalty, max_clusters=cap),
        BPMeans(penalty, max_components=cap),
        KFeatures(cap or 3),
        StepwiseKFeatures(penalty, max_components=cap),
    ):
        best, restarts = (fitted(model, X, weights, search=s, random_state=seed) for s in ("best", "paper"))
        assert best.objective_ <= (1 + 1e-9) * restarts.objective_ + rounding(X), model


@pytest.mark.parametrize("data", range(3))
@pytest.mark.parametrize("weighted", [False, True])
def test_never_worse_than_restarts_on_tables_with_structure(data, weighted):
    clusters, features = make_mixture(100, 3, 6, random_state=data).X, sums(40, 6, 3, seed=data)
    for model, X in (
        (DPMeans(4.0), clusters),
        (DPMeans("1%"), clusters),
        (DPMeans(0, max_clusters=8), clusters),
        (DPMeans(2.0, max_clusters=5), clusters),
        (BPMeans(8.0), features),
        (BPMeans("3%", max_components=3), features),
        (KFeatures(4), features),
        (StepwiseKFeatures(8.0), features),
    ):
        weights = np.random.default_rng(data).exponential(size=len(X)) if weighted else None
        best, restarts = (fitted(model, X, weights, search=s, random_state=data) for s in ("best", "paper"))
        assert best.objective_ <= (1 + 1e-9) * restarts.objective_, model


@pytest.mark.parametrize("data", range(12))
@pytest.mark.parametrize("cap", [None, 2])
def test_clusters_of_tiny_tables_are_optimal(data, cap):
    rng = np.random.default_rng(data)
    X = rng.normal(size=(7, 2)) if data % 3 else rng.integers(-3, 4, size=(7, 2)).astype(float)
    weights = rng.integers(1, 4, size=7).astype(float) if data % 2 else None
    for penalty in (0.3, 1.0, 5.0):
        objective = dp_means_objective(penalty) if cap is None else capped_dp_means_objective(cap, penalty)
        optimum = paper.exhaustive(X, objective, sample_weight=weights).value
        model = fitted(DPMeans(penalty, max_clusters=cap), X, weights, random_state=0)
        assert_allclose(model.objective_, optimum, rtol=1e-9)


@pytest.mark.parametrize("data", range(12))
@pytest.mark.parametrize("cap", [None, 2])
def test_features_of_tiny_tables_are_optimal(data, cap):
    rng = np.random.default_rng(data)
    X = rng.normal(size=(4, 3)) if data % 3 else rng.integers(-3, 4, size=(4, 3)).astype(float)
    weights = rng.integers(1, 4, size=4).astype(float) if data % 2 else None
    for penalty in (0.5, 3.0):
        objective = bp_means_objective(penalty) if cap is None else capped_bp_means_objective(cap, penalty)
        optimum = paper.exhaustive(X, objective, max_components=cap, sample_weight=weights).value
        for model in (BPMeans(penalty, max_components=cap), StepwiseKFeatures(penalty, max_components=cap)):
            found = fitted(model, X, weights, random_state=0).objective_
            assert_allclose(found, optimum, rtol=1e-9, err_msg=str(model))


@pytest.mark.parametrize("data", range(12))
@pytest.mark.parametrize("K", [1, 2])
def test_k_features_of_tiny_tables_are_optimal(data, K):
    rng = np.random.default_rng(data)
    X = rng.normal(size=(5, 3))
    weights = rng.integers(1, 4, size=5).astype(float) if data % 2 else None
    optimum = paper.exhaustive(X, k_features_objective(K), max_components=K, sample_weight=weights).value
    assert_allclose(fitted(KFeatures(K), X, weights, random_state=0).objective_, optimum, rtol=1e-9)


def test_twenty_clusters_where_restarts_see_one():
    X = mixture(2000, 10, 20, 4, seed=1)
    best, restarts = (DPMeans(400.0, search=search, random_state=0).fit(X) for search in ("best", "paper"))
    assert restarts.n_clusters_ == 1
    assert best.n_clusters_ == 20
    assert best.objective_ <= 27155.6


def test_stepwise_finds_what_bp_means_finds(X):
    first, second = (fitted(kind(5.0), X, random_state=0) for kind in (BPMeans, StepwiseKFeatures))
    assert bits(first) == bits(second)


# What it reports


def test_counts_agree(model):
    X = make_mixture(80, 3, 6, random_state=0).X
    model.set_params(search=Search(agreement=10, max_lineages=10)).fit(X)
    info = model.search_info_
    assert set(info) == {"search", "rows", "lineages", "agreeing", "moves", "tried", "kept"}
    assert (info["search"], info["rows"]) == ("best", len(X))
    assert info["lineages"] == len(model.runs_) == 10
    assert info["moves"] == sum(run.iterations for run in model.runs_)
    assert sum(info["tried"].values()) == info["moves"]
    assert all(0 < count <= info["tried"][name] for name, count in info["kept"].items())
    assert set(info["tried"]) <= {*moves_of(model), *STRONGER, "cross"}
    best = min(run.value for run in model.runs_)
    assert info["agreeing"] == sum(run.value <= best * (1 + 1e-9) for run in model.runs_) >= 1
    assert model.runs_[0].value == best
    assert_allclose(model.objective_, best, rtol=1e-9)
    assert model.n_iter_ == max(1, model.runs_[0].iterations)


@FEW
@given(tables(), penalties, caps)
def test_the_trace_never_rises_and_ends_at_the_objective(table, penalty, cap):
    X, weights = table
    for model in (DPMeans(penalty, max_clusters=cap), BPMeans(penalty, max_components=cap), KFeatures(cap or 2)):
        model = fitted(model, X, weights, n_init=2, random_state=0)
        trace = model.objective_trace_
        assert (np.diff(trace) <= 1e-9 * np.abs(trace[:-1]) + rounding(X)).all()
        assert trace[-1] == model.objective_


def test_four_lineages_that_agree_are_enough(blobs):
    model = DPMeans(100.0, random_state=0).fit(blobs[0])
    assert 4 <= model.search_info_["agreeing"] <= len(model.runs_) < 40


@pytest.mark.parametrize("n_init", [1, 3])
def test_n_init_is_the_number_of_lineages_at_most(model, more, n_init):
    model.set_params(n_init=n_init, search=Search(agreement=100)).fit(more)
    assert len(model.runs_) == model.search_info_["lineages"] == n_init


def test_verbose_prints_a_line_for_each_lineage(model, X, capsys):
    model.set_params(verbose=1).fit(X)
    assert len(capsys.readouterr().out.splitlines()) == len(model.runs_)


# The same answer again


def test_same_bits_for_any_number_of_threads(model):
    X = make_mixture(60, 3, 4, random_state=0).X
    first, second, third = (bits(fitted(model, X, n_jobs=n_jobs)) for n_jobs in (1, 2, 4))
    assert first == second == third


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_time_limit_stops_early_and_its_moves_can_be_asked_for_again(model, n_jobs):
    X = make_mixture(300, 4, 8, random_state=0).X
    model.set_params(search=Search(agreement=10**6, max_lineages=None), time_limit=0.1, n_jobs=n_jobs).fit(X)
    assert_array_equal(groups(model)[0], model.predict(X) if hasattr(model, "predict") else model.transform(X))
    assert_allclose(-model.score(X), model.objective_)
    options = Search(agreement=10**6, max_lineages=None, max_moves=model.search_info_["moves"])
    assert bits(fitted(model, X, search=options, time_limit=None)) == bits(model)


def test_a_limit_of_no_time_leaves_the_first_moves(model, X):
    model.set_params(time_limit=1e-9).fit(X)
    assert 1 <= len(model.runs_) <= 2
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize("looks", [1, 2, 5, 10, 15, 20, 25, 30])
def test_whenever_the_clock_stops_its_moves_can_be_asked_for_again(looks, model, monkeypatch):
    """Also between the stronger polish and the next move."""
    X, left = sums(30, 3, 3), [looks]

    def is_spent(budget):
        left[0] -= 1
        return left[0] <= 0

    options = Search(agreement=100, max_lineages=20)
    with monkeypatch.context() as patch:
        patch.setattr(Budget, "is_spent", is_spent)
        stopped = fitted(model, X, search=options)
    options = Search(agreement=100, max_lineages=20, max_moves=stopped.search_info_["moves"])
    assert bits(fitted(model, X, search=options)) == bits(stopped)


def test_the_moves_of_a_whole_search_can_be_asked_for_again(model, X):
    for penalty in (1.0, 5.0, 1e9):
        if "penalty" in model.get_params():
            model.set_params(penalty=penalty)
        whole = fitted(model, X, n_init=1)
        again = fitted(model, X, n_init=1, search=Search(max_moves=whole.search_info_["moves"]))
        assert bits(whole) == bits(again)


# Interrupts and moves of one's own


def moves_of(model):
    if isinstance(model, CovarianceDPMeans):
        return covariance_moves
    return cluster_moves if isinstance(model, DPMeans) else feature_moves


def counting(model, call=None):
    """The usual moves, and how often they were called; Ctrl-C in the given call."""
    calls = []

    def counted(move):
        def wrapped(*args):
            calls.append(move)
            if len(calls) == call:
                raise KeyboardInterrupt
            return move(*args)

        return wrapped

    return {name: counted(move) for name, move in moves_of(model).items()}, calls


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_keeps_the_best_so_far(model, more, n_jobs):
    moves, calls = counting(model, 40)
    model.set_params(search=Search(moves=moves, agreement=100), n_jobs=n_jobs)
    with pytest.warns(UserWarning, match="interrupted: keeping the best of"):
        model.fit(more)
    assert len(calls) <= 40 + 8 * len(model.runs_)  # each lineage may finish its stride
    assert model.objective_ <= min(run.value for run in model.runs_) * (1 + 1e-9)
    assert_array_equal(groups(model)[0], model.predict(more) if hasattr(model, "predict") else model.transform(more))
    assert_allclose(-model.score(more), model.objective_)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_in_the_first_move_keeps_the_start(model, X, n_jobs):
    moves, _ = counting(model, 1)
    model.set_params(search=Search(moves=moves), n_jobs=n_jobs)
    with pytest.warns(UserWarning, match="interrupted: keeping the best of [12] "):
        model.fit(X)
    assert_allclose(-model.score(X), model.objective_)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_before_there_is_anything_is_an_interrupt(model, X, n_jobs, monkeypatch):
    def start(landscape, rng, is_brief=False):
        raise KeyboardInterrupt

    landscape = FeatureLandscape if hasattr(model, "inverse_transform") else ClusterLandscape
    monkeypatch.setattr(landscape, "start", start)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(n_jobs=n_jobs).fit(X)
    assert not hasattr(model, "objective_")


def one_elsewhere(landscape, solution, rng):
    """A row goes to another cluster, or a bit is flipped."""
    changed = solution.groups.copy()
    n = rng.integers(len(changed))
    if changed.ndim == 1:
        changed[n] = rng.integers(solution.K)
    elif solution.K:
        changed[n, rng.integers(solution.K)] ^= 1
    return changed


def test_a_move_of_ones_own_is_called_and_may_be_kept():
    X = make_mixture(200, 2, 12, random_state=0).X
    goal = DPMeans(3.0, random_state=0).fit(X)

    def oracle(landscape, solution, rng):
        return goal.predict(landscape.X + landscape.origin).astype(np.int64)

    alone = DPMeans(3.0, search=Search(moves={"oracle": oracle}), n_init=1, random_state=1).fit(X)
    assert set(alone.search_info_["tried"]) <= {"oracle", *STRONGER}
    assert alone.search_info_["kept"] == {"oracle": 1}
    assert_allclose(alone.objective_, goal.objective_)


def test_a_move_beside_the_usual_ones(model, X):
    model.set_params(search=Search(moves={**moves_of(model), "mine": one_elsewhere}, agreement=100)).fit(X)
    assert model.search_info_["tried"]["mine"] > 0
    assert set(model.search_info_["kept"]) <= {*moves_of(model), "mine", *STRONGER}


def test_a_move_that_never_proposes_anything_ends_all_the_same(model, X):
    model.set_params(search=Search(moves={"idle": lambda *_: None})).fit(X)
    assert set(model.search_info_["tried"]) <= {"idle", *STRONGER, "cross"}
    assert np.isfinite(model.objective_)


def test_a_search_is_cloned_and_pickled_with_its_estimator(model, X):
    options = Search(moves={"mine": one_elsewhere}, patience=2, max_lineages=3)
    model.set_params(search=options)
    copies = clone(model), pickle.loads(pickle.dumps(model))
    expected = bits(model.fit(X))
    for copy in (*copies, pickle.loads(pickle.dumps(model))):
        assert copy.search == options
        assert bits(copy.fit(X)) == expected
    assert "patience=2" in repr(options)


def test_the_defaults_written_out_are_best(model, X):
    assert bits(fitted(model, X, search=Search())) == bits(fitted(model, X, search="best"))


@pytest.mark.parametrize("search", ["fast", None, 1, ["best"], Search, {"patience": 2}])
def test_what_is_no_search_is_refused(model, X, search):
    with pytest.raises(ValueError, match=r"search=.* give one of 'best', 'paper', or a madbayes.engine.search.Search"):
        model.set_params(search=search).fit(X)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("moves", {}), ("moves", [one_elsewhere]), ("moves", {"mine": 1}), ("moves", {1: one_elsewhere}),
        ("start", "++"),
        ("patience", -1), ("agreement", 0), ("max_lineages", 0), ("max_moves", -1), ("max_moves", True),
        ("patience", 2.0), ("agreement", np.nan),
    ],
)  # fmt: skip
def test_a_search_that_cannot_be_is_refused(X, name, value):
    with pytest.raises(ValueError, match=rf"{name}=.*give"):
        DPMeans(5.0, search=Search(**{name: value})).fit(X)


def no_assignments(groups):
    """Arrays that are nearly such, and other things."""
    yield from (groups[1:], np.concatenate([groups, groups[:1]]), groups[None], groups - 1, groups + 1e6)
    yield from (
        groups.astype(float) + 0.5,
        groups.astype(str),
        groups.astype(object),
        groups.tolist(),
        len(groups),
        "all",
    )
    yield groups[:, 0] if groups.ndim == 2 else groups[:, None]
    yield np.ma.masked_greater(np.where(groups == groups.max(), np.int64(10**9), groups), 10**8)


@pytest.mark.parametrize("i", range(13))
def test_moves_and_starts_that_return_no_assignments_are_refused(model, X, i):
    """By name, and before anything else looks at what they return."""

    def odd(landscape, *others):
        return list(no_assignments(landscape.start(np.random.default_rng(0)).groups))[i]

    with pytest.raises(ValueError, match=r"what the start returns, of type .*: return (labels|an allocation Z): "):
        model.set_params(search=Search(start=odd)).fit(X)
    with pytest.raises(ValueError, match=r"what the move 'odd' returns, of type .*: return (labels|an allocation Z): "):
        model.set_params(search=Search(moves={"odd": odd})).fit(X)


# Starts of the user's


@FEW
@given(tables(), st.sampled_from([0.0, 0.5, 3.0, 40.0]), st.integers(0, 99))
def test_given_centres_are_never_made_worse(table, penalty, seed):
    X, weights = table
    C = np.random.default_rng(seed).normal(size=(3, X.shape[1]))
    w = np.ones(len(X)) if weights is None else weights
    squares = ((X[:, None] - C) ** 2).sum(axis=2)
    used = len(np.unique(squares[w > 0].argmin(axis=1)))
    before = w @ squares.min(axis=1) + penalty * (used - 1)
    model = fitted(DPMeans(penalty, init=C), X, weights, random_state=0)
    assert len(model.runs_) == 1
    assert model.objective_ <= (1 + 1e-9) * before + rounding(X)


@FEW
@given(tables(), st.sampled_from([0.5, 3.0, 40.0]), st.integers(0, 99))
def test_given_codes_and_components_are_never_made_worse(table, penalty, seed):
    X, weights = table
    rng = np.random.default_rng(seed)
    Z, A = rng.integers(2, size=(len(X), 2)), rng.normal(size=(2, X.shape[1]))
    w = np.ones(len(X)) if weights is None else weights
    error = w @ ((X - Z @ A) ** 2).sum(axis=1)
    used = Z[w > 0].any(axis=0).sum()
    for model, before in (
        (BPMeans(penalty), error + penalty * used),
        (StepwiseKFeatures(penalty), error + penalty * used),
        (KFeatures(2), error),
    ):
        model = fitted(model, X, weights, init=(Z, A), random_state=0)
        assert len(model.runs_) == 1
        assert model.objective_ <= (1 + 1e-9) * before + rounding(X), model


@pytest.mark.parametrize("rows", [10**6, 10])
def test_a_fitted_model_is_never_made_worse(model, rows, monkeypatch):
    monkeypatch.setattr(type(model), "_search_rows", rows)
    X = make_mixture(60, 3, 5, random_state=0).X
    for search in ("paper", "best"):
        first = fitted(model, X, search=search)
        second = fitted(model, X, init=first, random_state=1)
        assert len(second.runs_) == 1
        assert second.objective_ <= first.objective_ * (1 + 1e-9)


def test_with_a_start_n_init_asks_for_more_lineages(model, more):
    first = fitted(model, more, n_init=1)
    assert len(fitted(model, more, init=first, n_init=3, search=Search(agreement=100)).runs_) == 3


# What must not matter


@FEW
@given(tables(), penalties, caps)
def test_a_weight_is_so_many_copies(table, penalty, cap):
    X, weights = table
    weights = np.arange(len(X)) % 3 + 1 if weights is None else weights
    for model in (DPMeans(penalty, max_clusters=cap), BPMeans(penalty, max_components=cap), KFeatures(cap or 2)):
        weighted = fitted(model, X, weights, random_state=0).objective_
        copied = fitted(model, np.repeat(X, weights, axis=0), random_state=0).objective_
        assert_allclose(weighted, copied, rtol=1e-9, atol=rounding(X), err_msg=str(model))


@FEW
@given(tables(), penalties, caps)
def test_rows_of_weight_zero_have_no_influence(table, penalty, cap):
    X, weights = table
    weights = np.arange(len(X)) % 2 == 0 if weights is None else weights
    counted = weights > 0
    for model in (DPMeans(penalty, max_clusters=cap), BPMeans(penalty, max_components=cap), KFeatures(cap or 2)):
        whole = fitted(model, X, weights, random_state=0)
        part = fitted(model, X[counted], weights[counted], random_state=0)
        assert_array_equal(groups(whole)[1], groups(part)[1])
        assert_array_equal(groups(whole)[0][counted], groups(part)[0])
        assert whole.objective_ == part.objective_


def test_the_order_of_the_rows_does_not_matter(model):
    X = make_mixture(40, 3, 4, random_state=0).X
    order = np.random.default_rng(0).permutation(len(X))
    first, second = fitted(model, X), fitted(model, X[order])
    assert_allclose(first.objective_, second.objective_, rtol=1e-12)
    assert_array_equal(groups(first)[0][order], groups(second)[0])


@pytest.mark.parametrize("unit", [1e-100, 1e-10, 1e10, 1e100])
@pytest.mark.parametrize("share", [False, True])
def test_units_do_not_matter(squared, X, unit, share):
    if "penalty" in squared.get_params():
        squared.set_params(penalty="3%" if share else 5.0)
    reference = fitted(squared, X)
    if "penalty" in squared.get_params() and not share:
        squared.set_params(penalty=5.0 * unit**2)
    scaled = fitted(squared, unit * X)
    assert_allclose(scaled.objective_ / unit**2, reference.objective_, rtol=1e-9)
    assert_array_equal(groups(scaled)[0], groups(reference)[0])


@pytest.mark.parametrize("unit", [1e-100, 1e-10, 1e10, 1e100])
def test_the_unit_of_weights_does_not_matter(squared, X, unit):
    weights = np.arange(1.0, len(X) + 1)
    if "penalty" in squared.get_params():
        squared.set_params(penalty="3%")
    reference, scaled = fitted(squared, X, weights), fitted(squared, X, unit * weights)
    assert_allclose(scaled.objective_ / unit, reference.objective_, rtol=1e-9)
    assert_array_equal(groups(scaled)[0], groups(reference)[0])


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e8])
@pytest.mark.parametrize("parameters", [{"penalty": 2.0}, {"penalty": "2%"}, {"penalty": 0, "max_clusters": 5}])
def test_an_offset_does_not_matter_to_clusters(offset, parameters):
    X = np.round(make_mixture(60, 3, 5, random_state=0).X, 3)
    near, far = (DPMeans(random_state=0, **parameters).fit(table) for table in (X, X + offset))
    assert_array_equal(near.labels_, far.labels_)
    assert_allclose(far.objective_, near.objective_, rtol=1e-5)


# Hardly anything to search


@pytest.mark.parametrize("table", [np.zeros((5, 2)), np.full((5, 2), 7.0), np.array([[3.0, -4.0]]), np.zeros((1, 1))])
@pytest.mark.parametrize("weights", [False, True])
def test_constant_tables_and_single_rows(squared, table, weights):
    model = fitted(squared, table, np.arange(1.0, len(table) + 1) if weights else None)
    assert (groups(model)[0] == groups(model)[0][0]).all()
    if isinstance(model, DPMeans):
        assert model.n_clusters_ == 1
        assert_allclose(model.objective_, 0, atol=1e-20)
    else:
        w = np.arange(1.0, len(table) + 1) if weights else np.ones(len(table))
        whole = w @ (table**2).sum(axis=1)
        assert_allclose(model.objective_, min(whole, model.penalty_), atol=1e-20)


@pytest.mark.parametrize("copies", [1, 3])
def test_more_groups_than_distinct_rows(copies):
    X = np.tile([[0.0, 1.0], [5.0, 2.0], [-3.0, 8.0]], (copies, 1))
    model = fitted(DPMeans(0, max_clusters=7), X, random_state=0)
    assert model.n_clusters_ == 3
    assert_allclose(model.objective_, 0, atol=1e-20)
    with pytest.warns(ConvergenceWarning, match="fewer than the 7 asked for"):
        model = KFeatures(7, random_state=0).fit(X)
    assert model.n_components_ <= 3
    assert_allclose(model.objective_, 0, atol=1e-20)


def test_duplicated_rows_are_in_the_same_groups(model, X):
    whole = fitted(model, np.vstack([X, X[::-1], X]))
    first, second, third = np.split(groups(whole)[0], 3)
    assert_array_equal(first, second[::-1])
    assert_array_equal(first, third)


def test_without_any_components(model, X):
    if "penalty" in model.get_params():
        model = fitted(model, X, penalty=1e9)
        assert len(groups(model)[1]) == (0 if hasattr(model, "components_") else 1)
        assert_array_equal(groups(model)[0].sum(), 0)


# On a sample


def test_clusters_found_on_a_sample(monkeypatch):
    X = make_mixture(900, 3, 5, separation=8, random_state=0).X
    whole = DPMeans(50.0, random_state=0).fit(X)
    monkeypatch.setattr(DPMeans, "_search_rows", 200)
    part = DPMeans(50.0, random_state=0).fit(X)
    assert (whole.search_info_["rows"], part.search_info_["rows"]) == (900, 200)
    assert_array_equal(part.labels_, part.predict(X))
    assert whole.objective_ * (1 - 1e-9) <= part.objective_ <= 1.03 * whole.objective_


@pytest.mark.parametrize("kind", [BPMeans, StepwiseKFeatures, KFeatures])
def test_features_found_on_a_sample(kind, monkeypatch):
    X = make_linear_gaussian(600, 12, 4, noise=0.3, random_state=0).X
    model = kind(4, random_state=0) if kind is KFeatures else kind("2%", random_state=0)
    whole = fitted(model, X)
    monkeypatch.setattr(kind, "_search_rows", 150)
    part = fitted(model, X)
    assert (whole.search_info_["rows"], part.search_info_["rows"]) == (600, 150)
    assert part.allocations_.shape == (600, part.n_components_)
    assert_array_equal(part.allocations_, part.transform(X))
    assert whole.objective_ * (1 - 1e-9) <= part.objective_ <= 1.03 * whole.objective_


@pytest.mark.parametrize("rows", [1, 2, 5, 17])
def test_any_size_of_sample_will_do(model, X, rows, monkeypatch):
    monkeypatch.setattr(type(model), "_search_rows", rows)
    weights = np.arange(18) % 3 + 1.0
    model = fitted(model, X, weights)
    assert model.search_info_["rows"] == rows
    assert len(groups(model)[0]) == len(X)
    assert_allclose(-model.score(X, sample_weight=weights), model.objective_)
    assert (np.diff(model.objective_trace_) <= 1e-9 * model.objective_trace_[0]).all()
