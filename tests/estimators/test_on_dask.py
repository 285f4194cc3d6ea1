"""Estimators on the workers of a real Dask cluster: the groups of a fit in memory, and nothing but sums in between."""

import copy
import os
import pickle
import signal
from threading import Lock

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from numpy.testing import assert_allclose, assert_array_equal

import madbayes
from madbayes import BPMeans, CovarianceDPMeans, DPMeans, KFeatures, penalty_path
from madbayes.engine import homes
from madbayes.engine.search import Search
from madbayes.estimators.checkpoints import NAME
from madbayes.io import load_record

QUICK = Search(max_moves=20)


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster) as client:
        yield client


@pytest.fixture
def table():
    """Clusters that are also sums of a few features."""
    rng = np.random.default_rng(0)
    return (rng.random((6000, 3)) < 0.5) @ (3 * rng.normal(size=(3, 5))) + 0.3 * rng.normal(size=(6000, 5)) + 1.0


@pytest.fixture(autouse=True)
def parts_of_a_thousand_rows(monkeypatch):
    monkeypatch.setattr(homes, "PART_ENTRIES", 16 * 1000)


MODELS = [
    DPMeans(3000.0, search=QUICK, random_state=0),
    DPMeans(0, max_clusters=4, search=QUICK, random_state=0),
    CovarianceDPMeans(300.0, covariances=np.eye(5), search=QUICK, random_state=0),
    BPMeans(2000.0, search=QUICK, random_state=0),
    KFeatures(4, search=QUICK, random_state=0),
]


def groups(model):
    return model.labels_ if hasattr(model, "labels_") else model.allocations_


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_cluster_gives_the_bits_of_memory(model, table, client):
    here = model.fit(table)
    wanted, value, trace = groups(here), here.objective_, here.objective_trace_
    there = model.fit(da.from_array(table, chunks=(1000, 5)))
    assert isinstance(groups(there), da.Array)
    assert groups(there).chunks[0] == (1000,) * 6
    assert_array_equal(groups(there).compute(), wanted)
    assert there.objective_ == value
    assert_array_equal(there.objective_trace_, trace)


def test_a_table_of_few_rows_that_is_elsewhere(table, client):
    """Small enough to be searched as a whole, and gone over once more all the same: callbacks are told of both."""
    model = DPMeans(300.0, search=QUICK, random_state=0)
    wanted = model.fit(table[:300]).objective_
    assert_allclose(model.fit(da.from_array(table[:300], chunks=(100, 5))).objective_, wanted, rtol=1e-12)


def test_a_model_whose_labels_are_elsewhere_is_pickled(table, client):
    model = DPMeans(3000.0, search=QUICK, random_state=0).fit(da.from_array(table, chunks=(1000, 5)))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_array_equal(other.labels_.compute(), model.labels_.compute())


def test_weights_of_new_rows(table, client):
    model, weights = DPMeans(3000.0, search=QUICK, random_state=0).fit(table), np.linspace(1, 2, len(table))
    wanted = model.score(table, sample_weight=weights)
    frame = dd.from_pandas(pd.DataFrame(table), npartitions=5)
    for given in (weights, da.from_array(weights, chunks=700), dd.from_pandas(pd.Series(weights), npartitions=2)):
        assert_allclose(model.score(frame, sample_weight=given), wanted, rtol=1e-12)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(5999,\), but X has 6000 rows"):
        model.score(frame, sample_weight=weights[1:])
    with pytest.raises(ValueError, match="give weights >= 0"):
        model.score(frame, sample_weight=-weights)


def test_new_rows_that_are_no_table(table, client):
    model = DPMeans(3000.0, search=QUICK, random_state=0).fit(table)
    for X in (da.zeros(5), da.zeros((2, 5, 2)), dask.delayed(table)):
        with pytest.raises(ValueError, match="give a Dask array of 2 dimensions, or a data frame"):
            model.predict(X)
    with pytest.raises(ValueError, match="not those of Dask"):
        model.partial_fit(da.from_array(table))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_other_partitions_give_the_same_groups(model, table, client):
    wanted, value = groups(model.fit(table)), model.objective_
    names = list("abcde")
    frame = dd.from_pandas(pd.DataFrame(table, columns=names), npartitions=5)
    for X in (da.from_array(table, chunks=((1, 2999, 0, 3000), (2, 3))), frame, frame[frame.a > -np.inf]):
        model.fit(X)
        assert_allclose(model.objective_, value, rtol=1e-12)
        assert_array_equal(np.asarray(groups(model)), wanted)
    assert list(model.feature_names_in_) == names


def test_new_rows_are_answered_lazily(table, client):
    X = da.from_array(table, chunks=(2500, 5))
    clusters = DPMeans(3000.0, search=QUICK, random_state=0).fit(table)
    features = BPMeans(2000.0, search=QUICK, random_state=0).fit(table)
    for model, method in (
        (clusters, "predict"),
        (clusters, "transform"),
        (clusters, "score_samples"),
        (features, "transform"),
        (features, "score_samples"),
    ):
        lazy, wanted = getattr(model, method)(X), getattr(model, method)(table)
        assert isinstance(lazy, da.Array)
        assert (lazy.dtype, lazy.shape) == (wanted.dtype, wanted.shape)
        assert_array_equal(lazy.compute(), wanted)
    assert_allclose(clusters.score(X), clusters.score(table), rtol=1e-12)
    shapes = CovarianceDPMeans(0.1, search=QUICK, random_state=0).fit(table)
    assert_allclose(shapes.score(X), shapes.score(table), rtol=1e-12)
    assert isinstance(clusters.fit_predict(X), da.Array)
    with pytest.raises(ValueError, match="X contains 1 NaN"):
        clusters.predict(da.where(X[0, 0] == X, np.nan, X)).compute()
    with pytest.raises(ValueError, match="expecting 5 features"):
        clusters.predict(X[:, :3])


def test_the_price_is_found_on_a_sample(table, client):
    X = da.from_array(table, chunks=(1000, 5))
    model, here = DPMeans(random_state=0, search=QUICK), DPMeans(random_state=0, search=QUICK)
    assert model.fit(X).penalty_ == here.fit(table).penalty_
    path = penalty_path(X, "features", random_state=0)
    assert path.best == penalty_path(table, "features", random_state=0).best == 4


def test_weights(table, client):
    weights = np.random.default_rng(1).integers(1, 4, len(table)).astype(float)
    model = DPMeans(3000.0, search=QUICK, random_state=0)
    value = model.fit(table, sample_weight=weights).objective_
    X = da.from_array(table, chunks=(1000, 5))
    assert model.fit(X, sample_weight=weights).objective_ == value
    assert model.fit(X, sample_weight=da.from_array(weights, chunks=700)).objective_ == value
    weights[5] = 0
    with pytest.raises(ValueError, match="zero for 1 rows"):
        model.fit(X, sample_weight=weights)


def test_the_paper_on_a_cluster_ends_where_its_algorithm_ends(table, client):
    """Passes from one group; at the end a pass in memory, in any order of the rows, changes nothing."""
    model = DPMeans(30.0, search="paper").fit(da.from_array(table, chunks=(1000, 5)))
    result = madbayes.paper.dp_means(table, 30.0, model.cluster_centers_, max_iter=1)
    assert model.n_clusters_ > 1
    assert_allclose(result.value, model.objective_, rtol=1e-12)


def test_what_cannot_be_done_there(table, client):
    X = da.from_array(table, chunks=(1000, 5))
    with pytest.raises(ValueError, match="collapsed=True takes tables in memory"):
        DPMeans(10.0, collapsed=True).fit(X)
    with pytest.raises(ValueError, match="partition 2"):
        DPMeans(10.0).fit(da.where(da.arange(6000, chunks=1000)[:, None] == 2500, np.nan, X))


@pytest.mark.parametrize("rows", [300, 6000])
def test_no_features_are_an_answer(rows, table, client):
    X = da.from_array(table[:rows], chunks=(rows // 3, 5))
    model = BPMeans(1e9, search=QUICK, random_state=0).fit(X)
    assert model.allocations_.compute().shape == model.transform(X).compute().shape == (rows, 0)
    assert_allclose(model.objective_, (table[:rows] ** 2).sum(), rtol=1e-12)
    assert_allclose(model.score(X), -model.objective_, rtol=1e-12)


def test_time_is_limited_for_the_paper_too(table, client):
    model = DPMeans(0, max_clusters=20, search="paper", time_limit=1e-9).fit(da.from_array(table, chunks=(1000, 5)))
    assert model.search_info_["stopped"] == "by the time limit"
    assert len(model.objective_trace_) == 2  # of one group, and where it came to rest


def test_names_of_columns_are_texts(table, client):
    frame = dd.from_pandas(pd.DataFrame(table), npartitions=3)
    model = DPMeans(3000.0, search=QUICK, random_state=0).fit(frame)
    assert not hasattr(model, "feature_names_in_")
    assert_array_equal(model.predict(pd.DataFrame(table)), model.labels_.compute())


class Locked:
    """A callback that cannot be pickled; it counts the parts of the fit."""

    def __init__(self):
        self.lock, self.parts, self.most = Lock(), [], None

    def setup(self, estimator, context):
        self.most = context.max_subtasks

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        if context.parent is not None and context.parent.parent is None:
            self.parts.append(context.task_name)

    def on_fit_task_end(self, estimator, context):
        pass


@pytest.mark.parametrize(
    ("search", "parts"), [(QUICK, ["search", "all rows"]), ("paper", ["all rows"])], ids=["best", "paper"]
)
def test_callbacks_do_not_travel(search, parts, table, client):
    callback, X = Locked(), da.from_array(table[:300], chunks=(100, 5))
    model = DPMeans(300.0, search=search, random_state=0)
    if not hasattr(model, "set_callbacks"):
        pytest.skip("callbacks came with scikit-learn 1.9")
    model.set_callbacks(callback).fit(X)
    assert callback.parts == parts
    assert callback.most == len(parts)
    assert_array_equal(model.labels_.compute(), model.predict(table[:300]))
    assert_array_equal(model.predict(X).compute(), model.predict(table[:300]))


def test_a_model_of_a_cluster_is_saved_without_the_groups_of_its_rows(table, client, tmp_path):
    model = BPMeans(2000.0, search=QUICK, random_state=0).fit(da.from_array(table, chunks=(1000, 5)))
    model.save(tmp_path / "model.madbayes")
    loaded = madbayes.load(tmp_path / "model.madbayes")
    assert loaded.allocations_.shape == (0, model.n_components_)
    assert_array_equal(loaded.transform(table), model.allocations_.compute())


@pytest.mark.parametrize("number", [1, 4])
def test_a_killed_worker_changes_nothing(number, table, client, monkeypatch):
    """It dies after some pass: its rows and what was kept of them are made again elsewhere."""
    model = DPMeans(0, max_clusters=30, search=Search(max_moves=1, max_lineages=1), random_state=0)
    value, wanted = model.fit(table).objective_, model.labels_
    client.wait_for_workers(2, timeout=60)
    victim, passes = next(iter(client.run(os.getpid).values())), []

    def kill(self, problem, run, budget):
        passes.append(run)
        if len(passes) == number:
            os.kill(victim, signal.SIGKILL)

    monkeypatch.setattr(DPMeans, "_say_pass", kill)
    model.fit(da.from_array(table, chunks=(1000, 5)))
    assert len(passes) > number
    assert model.objective_ == value
    assert_array_equal(model.labels_.compute(), wanted)
    client.wait_for_workers(2, timeout=60)
    assert victim not in client.run(os.getpid).values()


def test_a_lost_scheduler_leaves_a_checkpoint(table, client, tmp_path, monkeypatch, lonely_scheduler):
    """The fit fails with words that say so, and another one, on another cluster, goes on where it was."""
    scheduler, place = lonely_scheduler
    model = DPMeans(0, max_clusters=30, search=Search(max_moves=1, max_lineages=1), random_state=0)
    value = model.fit(table).objective_
    model.set_params(checkpoint=tmp_path / "state")
    said, passes = DPMeans._say_pass, []

    def kill(self, problem, run, budget):
        passes.append(run)
        if len(passes) == 3:
            scheduler.kill()
            scheduler.wait()

    monkeypatch.setattr(DPMeans, "_say_pass", kill)
    with Client(scheduler_file=place, timeout=20, set_as_default=False) as lost:
        lost._timeout = 1  # how long it tries to connect again
        with lost.as_current(), pytest.raises(ConnectionError, match=r"scheduler was lost.*checkpoint"):
            model.fit(da.from_array(table, chunks=(1000, 5)))
    monkeypatch.setattr(DPMeans, "_say_pass", said)
    assert len(load_record(tmp_path / "state" / NAME).trace) == 3
    model.fit(da.from_array(table, chunks=(1000, 5)))
    assert model.search_info_["resumed"]
    assert_allclose(model.objective_, value, rtol=1e-9)


def test_a_cluster_takes_tables_that_a_search_could_hold(table, client):
    """Fewer rows than are searched: callbacks hear of the search, and of the pass over all rows as well."""
    few = table[:500]
    there = DPMeans(100.0, search=QUICK, random_state=0).fit(da.from_array(few, chunks=(200, 5)))
    here = DPMeans(100.0, search=QUICK, random_state=0).fit(few)
    assert_array_equal(there.labels_.compute(), here.labels_)
