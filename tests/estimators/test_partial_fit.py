import pickle
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import madbayes
from madbayes import BPMeans, DPMeans, KFeatures, StepwiseKFeatures
from madbayes.datasets import make_linear_gaussian
from madbayes.engine import online, online_features
from madbayes.model import CRP, IBP, Gaussian, Objective
from madbayes.model.priors import one_hot

ONLINE = [
    DPMeans("5%", random_state=0),
    BPMeans("5%", random_state=0),
    KFeatures(3, random_state=0),
    StepwiseKFeatures("5%", random_state=0),
]


@pytest.fixture(params=ONLINE, ids=lambda model: type(model).__name__)
def streamer(request):
    return clone(request.param)


CENTRES = np.array([[0.0, 0.0, 0.0], [12.0, 0.0, 3.0], [0.0, 14.0, 0.0], [9.0, 9.0, -9.0]])
ELSEWHERE = CENTRES + np.array([0.0, 0.0, 70.0])


def blob_batches(sizes, seed=0, centres=CENTRES):
    rng = np.random.default_rng(seed)
    return [centres[rng.integers(len(centres), size=n)] + rng.normal(size=(n, centres.shape[1])) for n in sizes]


def feature_batches(n_batches, n_rows=150, K=3, seed=0):
    X = make_linear_gaussian(n_batches * n_rows, 12, K, noise=0.3, random_state=seed).X
    return np.split(X, n_batches)


def batches_for(model, n_batches=6):
    return blob_batches([60] * n_batches) if isinstance(model, DPMeans) else feature_batches(n_batches, 60)


@pytest.fixture
def record(monkeypatch):
    """What the engine did with each batch."""
    calls: list = []

    def recorded(absorb: Callable) -> Callable:
        def call(*args, **options):
            calls.append(absorb(*args, **options))
            return calls[-1]

        return call

    monkeypatch.setattr(online, "absorb", recorded(online.absorb))
    monkeypatch.setattr(online_features, "absorb", recorded(online_features.absorb))
    return calls


def stream_clusters(model, batches, record):
    """The cluster of all rows seen, followed through merges, in the order of the rows."""
    model.partial_fit(batches[0])
    pieces = model.labels_.astype(np.int64)
    for X in batches[1:]:
        model.partial_fit(X)
        pieces = np.concatenate([record[-1].became[pieces], record[-1].rows])
    return pieces if not record else record[-1].pieces.groups[pieces]


def stream_features(model, batches, record):
    """The codes of all rows seen: zeros where a feature was not there yet."""
    model.partial_fit(batches[0])
    Z = model.allocations_
    for X in batches[1:]:
        model.partial_fit(X)
        new = record[-1]
        old = [np.zeros(len(Z)) if k is None else Z[:, k] for k in new.origins]
        Z = np.vstack([np.column_stack([*old, np.zeros((len(Z), 0))]), new.Z])
    return Z[:, record[-1].sums.shown]


@pytest.mark.parametrize("penalty", ["5%", "auto", 90.0])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_the_objective_of_clusters_is_that_of_all_rows_with_the_labels_they_have(penalty, offset, record):
    batches = [X + offset for X in blob_batches([50, 60, 40, 1, 80, 100])]
    model = DPMeans(penalty, random_state=0)
    labels = stream_clusters(model, batches, record)
    X = np.vstack(batches)
    objective = Objective(Gaussian(), CRP(), model.penalty_)
    assert_allclose(model.objective_, objective(X, one_hot(labels, model.n_clusters_)), rtol=1e-9)
    assert_allclose(model._sizes, np.bincount(labels))
    assert_allclose(model.cluster_centers_, [X[labels == k].mean(axis=0) for k in range(model.n_clusters_)])
    assert_array_equal(model.labels_, labels[-100:])


def test_with_decay_older_rows_weigh_less(record):
    batches = blob_batches([50, 60, 40, 80])
    model = DPMeans("5%", random_state=0, decay=0.5)
    labels = stream_clusters(model, batches, record)
    weights = np.repeat([0.125, 0.25, 0.5, 1.0], [50, 60, 40, 80])
    X, objective = np.vstack(batches), Objective(Gaussian(), CRP(), model.penalty_)
    expected = objective(X, one_hot(labels, model.n_clusters_), sample_weight=weights)
    assert_allclose(model.objective_, expected)
    one_group = Objective(Gaussian(), CRP(), 0.0)(X, np.ones((len(X), 1)), sample_weight=weights)
    assert_allclose(model.penalty_, 0.05 * one_group)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("model", ONLINE[1:], ids=lambda model: type(model).__name__)
def test_the_objective_of_features_is_that_of_all_rows_with_the_codes_they_have(model, offset, record):
    batches = [X + offset for X in feature_batches(5, 80)]
    model = clone(model)
    Z = stream_features(model, batches, record)
    X, objective = np.vstack(batches), Objective(Gaussian(), IBP(), model.penalty_)
    assert_allclose(model.objective_, objective(X, Z), rtol=1e-8)
    assert_allclose(model.components_, np.linalg.lstsq(Z.astype(float), X, rcond=None)[0], atol=1e-6)
    assert_array_equal(model.allocations_, Z[-80:])


def test_hidden_features_count_once_they_are_shown(record):
    """A feature that comes late: its rows are known before it pays, and the objective is exact throughout."""
    late = make_linear_gaussian(1600, 12, 3, noise=0.3, random_state=1)
    Z = late.Z.copy()
    Z[:800, -1] = 0
    batches = np.split(Z @ late.A + 0.3 * np.random.default_rng(0).normal(size=late.X.shape), 16)
    model = BPMeans(random_state=0)
    Z = stream_features(model, batches, record)
    counts = [(call.sums.K, int(call.sums.shown.sum())) for call in record]
    assert counts[6] == (2, 2)
    assert (3, 2) in counts
    assert counts[-1] == (3, 3)
    assert_allclose(model.objective_, Objective(Gaussian(), IBP(), model.penalty_)(np.vstack(batches), Z))


def test_the_first_batch_is_a_fit(streamer):
    X = batches_for(streamer)[0]
    fitted, streamed = clone(streamer).fit(X), streamer.partial_fit(X)
    assert streamed.objective_ == fitted.objective_
    assert_array_equal(streamed._groups(), fitted._groups())
    assert_array_equal(streamed.transform(X), fitted.transform(X))


def test_after_a_fit_the_stream_goes_on(streamer):
    first, second, *_ = batches_for(streamer)
    streamed = clone(streamer).partial_fit(first).partial_fit(second)
    gone_on = streamer.fit(first).partial_fit(second)
    assert gone_on.objective_ == streamed.objective_
    assert gone_on._total == len(first) + len(second)
    assert streamer.fit(second)._total == len(second)  # and a fit forgets


def test_all_rows_at_once_are_never_worse(streamer):
    batches = batches_for(streamer)
    for X in batches:
        streamer.partial_fit(X)
    price = {} if isinstance(streamer, KFeatures) else {"penalty": streamer.penalty_}
    whole = clone(streamer).set_params(**price).fit(np.vstack(batches))
    assert whole.objective_ <= streamer.objective_ * (1 + 1e-9)
    assert streamer.objective_ <= 1.01 * whole.objective_  # 1.0000 to 1.0001 when it was written


def test_two_hundred_batches_keep_the_number_of_clusters():
    model = DPMeans(random_state=0)
    for X in blob_batches([100] * 200):
        model.partial_fit(X)
        assert model.n_clusters_ == 4
    assert model._total == 20_000
    assert_allclose(model.cluster_centers_[model.predict(CENTRES)], CENTRES, atol=0.1)


def test_a_group_that_comes_late_and_slowly_is_opened_when_it_pays():
    """One row in ten of each batch, far less than the price of all rows: no batch could open it alone."""
    rng = np.random.default_rng(0)
    model = DPMeans("2%", random_state=0)
    for X in blob_batches([100] * 30, centres=CENTRES[:3]):
        model.partial_fit(X)
    counts = []
    for X in blob_batches([100] * 60, seed=1, centres=CENTRES[:3]):
        X[:10] = CENTRES[3] + rng.normal(size=(10, 3))
        gain = 10 * ((CENTRES[3] - CENTRES[:3]) ** 2).sum(axis=1).min()
        assert gain < model.penalty_
        counts.append(model.partial_fit(X).n_clusters_)
    assert counts[0] == 3
    assert counts[-1] == 4
    assert_allclose(model.cluster_centers_[-1], CENTRES[3], atol=0.3)


def test_one_row_at_a_time_finds_what_all_rows_show():
    (X,) = blob_batches([300])
    model = DPMeans("5%", random_state=0).partial_fit(X[:20])
    for row in X[20:]:
        model.partial_fit(row[None])
    assert_allclose(model.objective_, DPMeans("5%", random_state=0).fit(X).objective_)


def test_with_decay_a_drifting_stream_forgets_and_finds():
    model = DPMeans("5%", decay=0.8, random_state=0)
    for X in blob_batches([100] * 15):
        model.partial_fit(X)
    for X in blob_batches([100] * 60, centres=ELSEWHERE):
        model.partial_fit(X)
    assert model.n_clusters_ == 4
    found = model.cluster_centers_[model.predict(ELSEWHERE)]
    assert_allclose(found, ELSEWHERE, atol=0.5)
    exact = DPMeans("5%", random_state=0)
    for X in blob_batches([100] * 15) + blob_batches([100] * 15, centres=ELSEWHERE):
        exact.partial_fit(X)
    assert exact.cluster_centers_[:, 2].min() < 10 < exact.cluster_centers_[:, 2].max()


def test_groups_that_come_near_become_one_and_keep_the_name_of_the_larger():
    """Merging them costs 12 * 10 / 22 * 9 = 49 at first, and 72 * 10 / 82 * 3.06 = 27 with the rows between them."""
    model = DPMeans(45.0, random_state=0).fit([[0.0]] * 12 + [[3.0]] * 10 + [[100.0]] * 30)
    model.rename({0: "far", 1: "first", 2: "second"})
    model.partial_fit([[1.5]] * 60)
    assert model.group_names_ == ["far", "first"]
    assert model.search_info_["became"] == [0, 1, 1]
    assert_allclose(model.cluster_centers_[:, 0], [100, (30 + 90) / 82])


def test_new_groups_come_last_and_have_free_names():
    model = DPMeans(50.0, random_state=0).fit([[0.0]] * 20 + [[50.0]] * 10).rename({0: "group 2"})
    model.partial_fit([[100.0]] * 40)
    assert model.group_names_ == ["group 2", "group 1", "group 3"]
    assert_allclose(model.cluster_centers_[:, 0], [0, 50, 100])


@pytest.mark.parametrize(("K", "seed"), [(3, 0), (4, 1), (5, 2)])
def test_streams_of_features_find_them(K, seed):
    batches = feature_batches(10, 200, K, seed)
    model = BPMeans(random_state=0)
    for X in batches:
        model.partial_fit(X)
    whole = BPMeans(model.penalty_, random_state=0).fit(np.vstack(batches))
    assert model.n_components_ == whole.n_components_
    assert 1 - 1e-9 <= model.sse_ / whole.sse_ < 1.001  # at most 1.0001 when it was written


def test_k_features_stay_k():
    model = KFeatures(3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="2 components leave nothing to explain"):
        model.partial_fit(np.eye(12)[:2])
    for X in feature_batches(6, 60):
        model.partial_fit(X)
        assert model.n_components_ == 3
        assert model.penalty_ == 0


def test_a_cap_holds():
    model = DPMeans("1%", max_clusters=2, random_state=0)
    for X in blob_batches([50] * 5):
        assert model.partial_fit(X).n_clusters_ == 2
    for penalty in ("1%", 0):
        model = BPMeans(penalty, max_components=2, random_state=0)
        for X in feature_batches(4, 60):
            assert model.partial_fit(X).n_components_ <= 2


def test_streaming_k_means_is_near_k_means():
    batches = blob_batches([100] * 10)
    model = DPMeans(0, max_clusters=4, random_state=0)
    for X in batches:
        model.partial_fit(X)
    assert_allclose(model.sse_, DPMeans(0, max_clusters=4, random_state=0).fit(np.vstack(batches)).sse_, rtol=1e-3)


def test_weights_are_copies(streamer):
    first, second, *_ = batches_for(streamer)
    weights = np.random.default_rng(0).integers(0, 4, size=len(second))
    weighted = clone(streamer).partial_fit(first).partial_fit(second, sample_weight=weights)
    copied = streamer.partial_fit(first).partial_fit(np.repeat(second, weights, axis=0))
    assert_allclose(weighted.objective_, copied.objective_)
    assert_allclose(weighted._groups(), copied._groups(), atol=1e-9)
    assert len(weighted.transform(second)) == len(second)
    assigned = weighted.labels_ if isinstance(streamer, DPMeans) else weighted.allocations_
    assert len(assigned) == len(second)


def test_column_statistics_are_those_of_all_rows(streamer):
    batches = batches_for(streamer)
    for X in batches:
        streamer.partial_fit(X)
    X = np.vstack(batches)
    assert_allclose(streamer._column_means, X.mean(axis=0))
    assert_allclose(streamer._column_scales, X.std(axis=0))


@pytest.mark.parametrize("detour", ["file", "pickle"])
def test_a_detour_through_a_file_changes_no_bit(streamer, detour, tmp_path):
    batches = batches_for(streamer)
    for X in batches[:3]:
        streamer.partial_fit(X)
    streamer.rename({0: "mine"})
    if detour == "file":
        streamer.save(tmp_path / "model.madbayes")
        other = madbayes.load(tmp_path / "model.madbayes")
    else:
        other = pickle.loads(pickle.dumps(streamer))
    for X in batches[3:]:
        streamer.partial_fit(X)
        other.partial_fit(X)
    assert other.objective_ == streamer.objective_
    assert other.group_names_ == streamer.group_names_
    assert "mine" in other.group_names_
    assert_array_equal(other._groups(), streamer._groups())


def test_threads_change_no_bit(streamer):
    batches = [np.vstack([X, X]) for X in batches_for(streamer)]
    other = clone(streamer).set_params(n_jobs=2)
    for X in batches:
        streamer.partial_fit(X)
        other.partial_fit(X)
    assert other.objective_ == streamer.objective_
    assert_array_equal(other._groups(), streamer._groups())


@pytest.mark.parametrize(
    ("batch", "options", "words"),
    [
        (np.ones((4, 2)), {}, "features"),
        ([[1.0, np.nan, 1.0]] * 4, {}, "NaN"),
        (np.full((4, 3), 1e200), {}, "rescale"),
        (np.ones((4, 3)), {"sample_weight": [-1.0] * 4}, "sample_weight"),
        (np.ones((4, 3)), {"sample_weight": [0.0] * 4}, "zero for all rows"),
    ],
)
def test_a_batch_that_is_refused_changes_nothing(streamer, batch, options, words):
    first = batches_for(streamer)[0][:, :3]
    before = pickle.dumps(streamer.partial_fit(first))
    with pytest.raises(ValueError, match=words):
        streamer.partial_fit(batch, **options)
    assert pickle.dumps(streamer) == before


def test_an_interrupt_changes_nothing(streamer, monkeypatch):
    first, second, *_ = batches_for(streamer)
    before = pickle.dumps(streamer.partial_fit(first))

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(streamer), "_learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            streamer.partial_fit(second)
    assert pickle.dumps(streamer) == before
    assert np.isfinite(streamer.partial_fit(second).objective_)


@pytest.mark.parametrize("decay", [0, 1.1, -1, "x", None, True])
def test_strange_decays(decay):
    with pytest.raises(ValueError, match=r"decay=.*at most 1"):
        DPMeans(5.0, decay=decay).partial_fit([[0.0], [1.0]])


def test_columns_have_names(streamer):
    batches = [pd.DataFrame(X, columns=[f"c{d}" for d in range(X.shape[1])]) for X in batches_for(streamer)[:2]]
    streamer.partial_fit(batches[0])
    with pytest.raises(ValueError, match=r"(?s)feature names.*order"):
        streamer.partial_fit(batches[1][batches[1].columns[::-1]])
    assert streamer.partial_fit(batches[1]).describe(1)[0]["columns"][0][0].startswith("c")


def test_single_precision_stays(streamer):
    for X in batches_for(streamer)[:3]:
        streamer.partial_fit(X.astype(np.float32))
    assert streamer._seen[1].dtype == np.float64
    groups = streamer.cluster_centers_ if isinstance(streamer, DPMeans) else streamer.components_
    assert groups.dtype == np.float32


def test_a_file_without_statistics_has_no_stream_to_go_on_with(streamer):
    streamer.fit(batches_for(streamer)[0])
    del streamer._seen
    with pytest.raises(ValueError, match="fit it anew"):
        streamer.partial_fit(batches_for(streamer)[1])


def test_identical_rows():
    model = DPMeans(random_state=0).partial_fit(np.ones((5, 2)))
    model.partial_fit(np.ones((5, 2)))
    assert model.n_clusters_ == 1
    assert model.objective_ == 0
    features = BPMeans("5%", random_state=0).partial_fit(np.ones((5, 2))).partial_fit(np.ones((5, 2)))
    assert_allclose(features.sse_, 0, atol=1e-20)


@pytest.mark.parametrize("change", [lambda part: part[:0], lambda part: part[..., None], lambda part: part.astype("U")])
def test_files_with_impossible_statistics_are_refused(streamer, change, tmp_path):
    streamer.partial_fit(batches_for(streamer)[0])
    good = streamer._seen
    for name, part in good._asdict().items():
        if isinstance(part, np.ndarray):
            streamer._seen = good._replace(**{name: change(part)})
            streamer.save(tmp_path / "model.madbayes")
            with pytest.raises(madbayes.io.ModelFileError):
                madbayes.load(tmp_path / "model.madbayes")


def test_batches_may_be_in_files(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0, 0], [9, 9]], 30, axis=0)
    np.save(tmp_path / "batch.npy", rows)
    here, there = (DPMeans(50.0, random_state=0).fit(rows) for _ in range(2))
    here.partial_fit(rows)
    for batch in (str(tmp_path / "batch.npy"), iter(np.array_split(rows, 3))):
        there.fit(rows).partial_fit(batch)
        assert there.objective_ == here.objective_
        assert_array_equal(there.labels_, here.labels_)
    with pytest.raises(ValueError, match="expecting 2 features"):
        there.partial_fit([rows[:, :1]])
