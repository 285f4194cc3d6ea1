"""Rows on the workers of a real Dask cluster: the same bits as in this process, whatever happens there."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from threading import Event, Timer

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, wait

from madbayes.backends import dask as dask_backend
from madbayes.backends import is_dask
from madbayes.backends.dask import DaskHome, lazy_rows
from madbayes.engine import cluster_passes, feature_passes
from madbayes.engine.blocks import Workers
from madbayes.engine.homes import LocalHome, Moments


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster, set_as_default=False) as client:
        yield client


def blobs(N=900, D=6, seed=0, dtype=np.float64):
    """Clusters that are also sums of a few features."""
    rng = np.random.default_rng(seed)
    Z, A = rng.random((N, 3)) < 0.5, 3 * rng.normal(size=(3, D))
    return (Z @ A + 0.3 * rng.normal(size=(N, D)) + 1.0).astype(dtype)


def cut(N, lengths):
    """The slices of parts of these lengths."""
    ends = np.cumsum(lengths)
    assert ends[-1] == N
    return [slice(int(end - n), int(end)) for end, n in zip(ends, lengths, strict=True) if n]


def local_home(X, weights, lengths):
    """The same parts in this process."""
    home = LocalHome(X, weights, Workers(1))
    home.parts = cut(len(X), lengths)
    return home


def kept(home, ledger):
    """What is kept of every row, as one array: labels of clusters, or bits of features."""

    def read(part, kept, order, note):  # travels by value: workers cannot import tests
        return kept, kept[0]

    return np.concatenate(list(home.go_over(read, ledger, None, {})))


PASSES = {"clusters": (cluster_passes, 12.0), "features": (feature_passes, 30.0)}


def answer(home, kind, watch=lambda run: None, **options):
    """Where the run ends, to the last bit, and what is kept of the rows."""
    passes, penalty = PASSES[kind]
    moments, ledgers, make = Moments.of(home), [], home.ledger
    home.ledger = lambda: ledgers.append(make()) or ledgers[-1]
    try:
        run = passes.descend(home, moments, penalty, moments.mean[None], watch=watch, **options)
    finally:
        home.ledger = make
    assert run.iterations >= 2
    assert run.K >= 3
    return run.trace, run.A.tobytes(), kept(home, ledgers[-1]).tobytes()


def even(N, n_parts):
    return [N // n_parts] * n_parts


@pytest.mark.parametrize("kind", PASSES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "lengths",
    [even(900, 1), even(900, 2), even(900, 9), [1, 500, 2, 397], [0, 450, 0, 0, 450, 0]],
    ids=["whole", "halves", "even", "uneven", "empty"],
)
def test_the_same_bits_as_in_this_process(client, seed, kind, weighted, dtype, lengths):
    X = blobs(seed=seed, dtype=dtype)
    weights = np.random.default_rng(seed).integers(1, 4, size=len(X)).astype(float) if weighted else None
    table = da.from_array(X, chunks=(tuple(lengths), 4))
    home = DaskHome(table, None if weights is None else da.from_array(weights, chunks=70), client)
    assert home.shape == X.shape
    assert home.dtype == dtype
    assert home.weighted == weighted
    assert home.lengths == tuple(lengths)
    assert answer(home, kind) == answer(local_home(X, weights, lengths), kind)


@pytest.mark.parametrize("kind", PASSES)
def test_groups_of_a_given_number(client, kind):
    """K-means and K-features fill up with the worst row of all parts."""
    X, lengths = blobs(), even(900, 6)
    home = DaskHome(da.from_array(X, chunks=(150, -1)), client=client)
    passes, _ = PASSES[kind]
    runs = []
    for place in (home, local_home(X, None, lengths)):
        moments = Moments.of(place)
        runs.append(passes.descend(place, moments, 0.0, moments.mean[None], K=5))
    assert runs[0].trace == runs[1].trace
    assert runs[0].K == 5


def test_more_parts_than_fit_in_a_window(client, monkeypatch):
    monkeypatch.setattr(dask_backend, "WINDOW", 8)
    X = blobs(N=60)
    home = DaskHome(da.from_array(X, chunks=(3, -1)), client=client)
    assert answer(home, "clusters") == answer(local_home(X, None, even(60, 20)), "clusters")


def test_few_tasks_however_many_parts(client):
    """A message costs more than a small part: parts of one worker go together."""
    home = DaskHome(da.from_array(blobs(), chunks=(10, -1)), client=client)
    assert len(home.parts) == 90
    assert len(home.groups) == 2
    assert sorted(p for parts in home.groups for p in parts) == list(range(90))


def test_threads_of_a_worker_share_its_parts():
    X = blobs()
    with (
        LocalCluster(n_workers=1, threads_per_worker=3, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        home = DaskHome(da.from_array(X, chunks=(100, -1)), client=client)
        assert home.groups == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
        assert answer(home, "features") == answer(local_home(X, None, even(900, 9)), "features")


def test_taking_rows(client):
    X, rng = blobs(), np.random.default_rng(0)
    weights, rows = rng.random(len(X)), rng.integers(len(X), size=50)
    home = DaskHome(da.from_array(X, chunks=((400, 0, 500), -1)), weights, client)
    found, own = home.take(rows)
    np.testing.assert_array_equal(found, X[rows])
    np.testing.assert_array_equal(own, weights[rows])
    found, own = DaskHome(da.from_array(X, chunks=100), client=client).take(rows)
    np.testing.assert_array_equal(found, X[rows])
    assert not own.size


def test_unknown_chunks(client):
    """A table of rows that were chosen: their number is known to the workers only."""
    X = blobs()
    chosen = X[:, 0] > np.median(X[:, 0])
    table = da.from_array(X, chunks=(200, -1))
    some = table[table[:, 0] > np.median(X[:, 0])]
    assert np.isnan(some.shape[0])
    home = DaskHome(some, client=client)
    home.weigh(some[:, 1] ** 2)
    assert home.shape == (chosen.sum(), X.shape[1])
    assert home.lengths == tuple(chosen[begin : begin + 200].sum() for begin in range(0, 900, 200))
    local = local_home(X[chosen], X[chosen][:, 1] ** 2, home.lengths)
    assert answer(home, "clusters") == answer(local, "clusters")


def test_a_data_frame(client):
    X = pd.DataFrame(blobs(), columns=list("abcdef"))
    X["flag"] = X["a"] > 0
    X["number"] = pd.array(1 + np.arange(len(X)) % 3, dtype="Int64")
    frame = dd.from_pandas(X, npartitions=4)
    home = DaskHome(frame[frame["b"] < 4], frame[frame["b"] < 4]["number"], client)
    left = X[X["b"] < 4]
    assert home.columns == [*"abcdef", "flag", "number"]
    assert home.dtype == np.float64
    values = np.ascontiguousarray(left.to_numpy(dtype=float))
    np.testing.assert_array_equal(home.take(np.arange(len(left)))[0], values)
    local = local_home(values, left["number"].to_numpy(dtype=float), home.lengths)
    assert answer(home, "clusters") == answer(local, "clusters")


@pytest.mark.parametrize(
    ("given", "used"), [("float32", "float32"), ("float16", "float64"), ("int32", "float64"), ("bool", "float64")]
)
def test_number_types(client, given, used):
    X = blobs(N=40).astype(given)
    for table in (da.from_array(X, chunks=10), dd.from_pandas(pd.DataFrame(X), npartitions=3)):
        home = DaskHome(table, client=client)
        rows, _ = home.take(np.arange(40))
        assert home.dtype == rows.dtype == used
        np.testing.assert_array_equal(rows, X.astype(used))


def test_rows_stay_as_they_are_on_the_workers(client):
    """Blocks are read once: what a random generator of the workers gives does not change between passes."""
    drawn = da.random.default_rng().normal(size=(300, 4), chunks=(100, 2))
    home = DaskHome(drawn, client=client)
    np.testing.assert_array_equal(home.take(np.arange(300))[0], home.take(np.arange(300))[0])


def test_missing_values_name_their_partition(client):
    X = blobs()
    X[[310, 320], 2], X[330, 1] = np.nan, np.inf
    complaint = r"partition 3: X contains 2 NaN and 1 inf .*in column 1: 0 NaN, 1 inf; 2: 2 NaN, 0 inf"
    with pytest.raises(ValueError, match=complaint):
        DaskHome(da.from_array(X, chunks=(100, 2)), client=client)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")), npartitions=9, sort=False)
    with pytest.raises(ValueError, match=r"partition 3: .*in column 'b': 0 NaN, 1 inf; 'c': 2 NaN, 0 inf"):
        DaskHome(frame, client=client)
    X[::100, 0] = np.nan
    with pytest.raises(ValueError, match=r"partition 0: .* partition 1: .* partition 2: .*; and 6 more partitions"):
        DaskHome(da.from_array(X, chunks=(100, 2)), client=client)


def test_tables_that_are_refused(client):
    text = pd.DataFrame({"a": [1.0, 2.0], "name": ["x", "y"], "day": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    with pytest.raises(ValueError, match="leave out column 'name', 'day'"):
        DaskHome(dd.from_pandas(text, npartitions=1), client=client)
    with pytest.raises(ValueError, match="complex128"):
        DaskHome(da.ones((4, 2), dtype=complex), client=client)
    for odd in (da.ones(4), da.ones((4, 2, 3)), dd.from_pandas(text, npartitions=1)["a"]):
        with pytest.raises(ValueError, match="give a Dask array of 2 dimensions, or a data frame"):
            DaskHome(odd, client=client)
    with pytest.raises(ValueError, match="0 rows"):
        DaskHome(da.ones((0, 2)), client=client)
    with pytest.raises(ValueError, match="rescale"):
        DaskHome(1e200 * da.ones((4, 2), chunks=2), client=client)
    # Each part is constant, and so are the differences within it: the range is that of all.
    with pytest.raises(ValueError, match="rescale"):
        DaskHome(da.from_array(np.array([[0.0], [1e-200]]), chunks=1), client=client)


def test_weights_that_are_refused(client):
    X = da.from_array(blobs(N=40), chunks=10)
    for weights, complaint in [
        (np.ones(39), r"shape \(39,\), but X has 40 rows"),
        (da.ones(41, chunks=20), r"shape \(41,\), but X has 40 rows"),
        (np.r_[-1.0, np.ones(39)], "-1 as its lowest"),
        (da.zeros(40), "zero for all rows"),
        (da.from_array(np.r_[0.0, np.ones(38), 0.0], chunks=7), "zero for 2 rows"),
        (da.from_array(np.r_[np.ones(39), np.nan]), "contains NaN"),
        (da.from_array(np.r_[np.ones(39), np.inf]), "contains infinity"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            DaskHome(X, weights, client)
    assert not DaskHome(X, da.ones(40, chunks=7), client).weighted


class Slow:
    """A home whose steps take their time, on all workers or on one; something may happen in a pass."""

    def __init__(self, home, pause, process=None, passes=(), event=lambda: None):
        self.home, self.pause, self.process, self.passes, self.event = home, pause, process, passes, event
        self.shape, self.dtype, self.parts, self.weighted = home.shape, home.dtype, home.parts, home.weighted
        self.ledger, self.take, self.count = home.ledger, home.take, 0

    def go_over(self, step, ledger, order, notes):
        pause, process = self.pause, self.process

        def slow(part, kept, order, note):
            if process is None or os.getpid() == process:
                time.sleep(pause)
            return step(part, kept, order, note)

        self.count += 1
        if self.count in self.passes:
            Timer(pause, self.event).start()
        return self.home.go_over(slow, ledger, order, notes)


@pytest.mark.parametrize("kind", PASSES)
def test_a_slow_worker_changes_nothing(client, kind):
    X, lengths = blobs(), even(900, 4)
    home = DaskHome(da.from_array(X, chunks=(225, -1)), client=client)
    process = next(iter(client.run(os.getpid).values()))
    assert answer(Slow(home, 0.02, process), kind) == answer(local_home(X, None, lengths), kind)


@pytest.mark.parametrize("kind", PASSES)
def test_a_worker_that_is_killed_changes_nothing(client, seconds, kind):
    """It dies in the middle of the fifth pass: its rows and what was kept of them are made again elsewhere."""
    client.wait_for_workers(2, timeout=60)
    X, lengths = blobs(), even(900, 4)
    home = DaskHome(da.from_array(X, chunks=(225, -1)), client=client)
    processes = client.run(os.getpid)
    with client.as_current():
        wait(home.held)
    holder = client.who_has(home.held)[home.held[0].key][0]
    dead = Event()

    def kill():
        os.kill(processes[holder], signal.SIGKILL)
        dead.set()

    slow = Slow(home, 0.1, passes=(5,), event=kill)
    with seconds(60):
        found = answer(slow, kind)
    assert slow.count > 5
    assert dead.is_set()
    assert found == answer(local_home(X, None, lengths), kind)
    client.wait_for_workers(2, timeout=60)
    assert processes[holder] not in client.run(os.getpid).values()


def test_a_lost_scheduler_is_named(lonely_scheduler, seconds):
    scheduler, place = lonely_scheduler
    with seconds(60), Client(scheduler_file=place, timeout=20, set_as_default=False) as client:
        client._timeout = 1  # how long it tries to connect again
        home = DaskHome(da.from_array(blobs(), chunks=(225, -1)), client=client)
        slow = Slow(home, 0.1, passes=(4,), event=scheduler.kill)
        begin = time.monotonic()
        with pytest.raises(ConnectionError, match=r"scheduler was lost.*checkpoint"):
            answer(slow, "clusters")
        assert time.monotonic() - begin < 20
        with pytest.raises(ConnectionError, match="scheduler was lost"):
            home.take(np.arange(3))


def test_no_client():
    with pytest.raises(ValueError, match=r"client = dask.distributed.Client\(\)"):
        DaskHome(da.ones((4, 2)))


def test_a_client_that_is_asynchronous():
    async def fit():
        async with Client(asynchronous=True, processes=False, n_workers=1, dashboard_address=None):
            DaskHome(da.ones((4, 2)))

    with pytest.raises(ValueError, match="the Dask client in use is asynchronous"):
        asyncio.run(fit())


def test_what_is_a_dask_collection():
    X = np.ones((4, 2))
    assert is_dask(da.from_array(X))
    assert is_dask(dd.from_pandas(pd.DataFrame(X), npartitions=1))
    assert not is_dask(X)
    assert not is_dask(pd.DataFrame(X))
    code = "import sys, numpy; from madbayes.backends.dask import is_dask; assert not is_dask(numpy.ones(3)); " + (
        "assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lazy_rows():
    """Nothing is computed before it is asked for; chunks are those of the rows, without calls for none."""
    X, calls = blobs(N=90), []

    def two(rows):
        assert rows.flags.c_contiguous
        calls.append(len(rows))
        return rows[:, :2] > 0

    table = da.from_array(X, chunks=((40, 0, 50), 4))
    lazy = lazy_rows(table, two, np.uint8, width=2)
    assert not calls
    assert lazy.chunks == ((40, 0, 50), (2,))
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), X[:, :2] > 0)
    assert calls == [40, 50]
    assert lazy.dtype == lazy.compute(scheduler="sync").dtype == np.uint8
    frame = dd.from_pandas(pd.DataFrame(X.astype(np.float32)), npartitions=2)
    labels = lazy_rows(frame, lambda rows: rows.argmax(axis=1), np.int32, lengths=(45, 45))
    assert labels.chunks == ((45, 45),)
    np.testing.assert_array_equal(labels.compute(scheduler="sync"), X.astype(np.float32).argmax(axis=1))
    unknown = lazy_rows(frame[frame[0] > 0], lambda rows: rows.sum(axis=1), np.float32)
    assert np.isnan(unknown.shape[0])
    assert unknown.compute(scheduler="sync").shape == ((X[:, 0] > 0).sum(),)


def test_lazy_results_name_the_partition_that_fails():
    def fussy(rows):
        if (rows > 3.5).any():
            raise ValueError("too much")
        return rows

    X = np.arange(6.0)[:, None]
    with pytest.raises(ValueError, match=r"^partition 2: too much"):
        lazy_rows(da.from_array(X, chunks=2), fussy, None, width=1).compute(scheduler="sync")


def test_rows_of_a_home_and_lazy_results_have_keys_of_their_own(client):
    """Dask puts tasks together in another way for each graph: under the same keys it warns of failures."""
    X = da.from_array(blobs(), chunks=(300, 2))
    home = DaskHome(X, client=client)
    lazy = lazy_rows(X, lambda rows: rows.sum(axis=1), None)

    def known(dask_scheduler):
        return {str(key) for key in dask_scheduler.tasks}

    held = {key for key in client.run_on_scheduler(known) if "madbayes-rows" in key}
    assert len(held) >= len(home.parts)
    assert not held & {str(key) for key in lazy.__dask_graph__()}
