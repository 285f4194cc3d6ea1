"""Tables in parts: what is read, what comes back in which order, and what is known of a table before any group is."""

import threading
import time
from itertools import islice, pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from madbayes.engine import cluster_passes, feature_passes, homes
from madbayes.engine.blocks import Workers
from madbayes.engine.homes import LocalHome, Moments, part_rows

ALONE = Workers(1)


class Rows:
    """A table that is somewhere else: it gives slices and rows, and counts what it gave."""

    def __init__(self, X):
        self.values, self.shape, self.dtype = X, X.shape, X.dtype
        self.slices, self.taken, self.expected = [], 0, []

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        self.slices.append(rows)
        return self.values[rows].copy()

    def take(self, rows, axis):
        assert axis == 0
        self.taken += len(rows)
        return self.values.take(rows, axis=0)

    def prefetch(self, rows):
        self.expected.append(rows)


def table(N=600, D=4, dtype=np.float64):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(N, D)) + 4 * rng.normal(size=(6, D))[rng.integers(6, size=N)]).astype(dtype)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(homes, "part_rows", lambda N, _: [slice(i, min(i + 64, N)) for i in range(0, N, 64)])


@pytest.mark.parametrize("shape", [(1, 1), (255, 3), (10**6, 1), (10**6, 16), (10**5, 5000)])
def test_parts_are_consecutive_and_hold_so_many_entries(shape):
    parts = part_rows(*shape)
    assert (parts[0].start, parts[-1].stop) == (0, shape[0])
    assert all(one.stop == two.start for one, two in pairwise(parts))
    assert all(rows.start < rows.stop for rows in parts)
    entries = (parts[0].stop - parts[0].start) * max(shape[1], homes.WIDTH)
    assert entries <= max(homes.PART_ENTRIES, 256 * shape[1])
    assert len(parts) == 1 or entries > homes.PART_ENTRIES - max(shape[1], homes.WIDTH)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("dtype", "offset", "rtol"), [(np.float64, 1e6, 1e-9), (np.float32, 1e4, 1e-9)])
def test_moments_are_those_of_all_rows(weighted, dtype, offset, rtol):
    X = (table() + offset).astype(dtype)
    weight = np.random.default_rng(1).random(len(X)) + 0.1 if weighted else None
    moments = Moments.of(LocalHome(X, weight, ALONE))
    X, weights = X.astype(np.float64), np.ones(len(X)) if weight is None else weight
    mean = np.average(X, axis=0, weights=weights)
    assert_allclose(moments.mean, mean, rtol=1e-13)
    assert_allclose(moments.variance, np.average((X - mean) ** 2, axis=0, weights=weights), rtol=rtol)
    assert moments.weight == pytest.approx(weights.sum(), rel=1e-13)
    assert moments.largest == pytest.approx((X**2).sum(axis=1).max(), rel=1e-13)
    assert moments.scatter == pytest.approx(weights @ ((X - mean) ** 2).sum(axis=1), rel=rtol)


def clusters(home):
    run = cluster_passes.descend(home, Moments.of(home), 9.0, np.zeros((1, home.shape[1])))
    return run.A.tobytes(), run.trace


def k_means(home):
    run = cluster_passes.descend(home, Moments.of(home), 0.0, np.zeros((1, home.shape[1])), K=7)
    return run.A.tobytes(), run.trace


def features(home):
    run = feature_passes.descend(home, Moments.of(home), 100.0, np.ones((1, home.shape[1])))
    return run.A.tobytes(), run.trace


def k_features(home):
    run = feature_passes.descend(home, Moments.of(home), 0.0, np.ones((1, home.shape[1])), K=5)
    return run.A.tobytes(), run.trace


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("answer", [clusters, k_means, features, k_features])
def test_the_same_bits_wherever_the_rows_are(answer, dtype, weighted, tmp_path):
    X = table(dtype=dtype)
    weight = np.random.default_rng(1).random(len(X)) + 0.1 if weighted else None
    np.save(tmp_path / "X.npy", X)
    expected = answer(LocalHome(X, weight, ALONE))
    assert answer(LocalHome(np.load(tmp_path / "X.npy", mmap_mode="r"), weight, ALONE)) == expected
    with Workers(2) as workers:
        assert answer(LocalHome(Rows(X), weight, workers)) == expected
    assert len(expected[1]) > 2


def test_a_pass_in_which_nothing_is_pending_reads_no_rows():
    X = Rows(table())
    home = LocalHome(X, None, ALONE)
    rows = cluster_passes.Follower(home, Moments.of(home))
    A = X.values[:5].copy()
    for _ in range(3):  # the first sums, those after many moves, and those that follow
        X.slices.clear()
        rows.look(A)
    assert X.slices == []
    rows.look(A + 1e-12)
    assert X.slices == []
    rows.look(A + 10.0)
    assert X.slices == home.parts


def test_a_part_is_read_once_in_a_pass_and_the_next_ones_are_announced():
    X = Rows(table())
    with Workers(2) as workers:
        home = LocalHome(X, None, workers)
        rows = feature_passes.Follower(home, Moments.of(home))
        X.slices.clear(), X.expected.clear()
        rows.look(np.ones((2, 4)), exact=True)
    assert sorted(X.slices, key=lambda rows: rows.start) == home.parts
    assert sorted(X.expected, key=lambda rows: rows.start) == home.parts[2:]


def test_rows_and_weights_are_taken_together():
    X, weight, some = table(), np.arange(600.0), np.array([5, 300, 2])
    taken, weights = LocalHome(Rows(X), weight, ALONE).take(some)
    assert_array_equal(taken, X[some])
    assert_array_equal(weights, [5.0, 300.0, 2.0])
    assert LocalHome(X, None, ALONE).take(some)[1].size == 0


def test_steps_see_what_was_kept_their_note_and_the_order():
    home = LocalHome(table(), None, ALONE)
    ledger = home.ledger()

    def step(part, kept, order, note):
        seen = [] if kept is None else kept
        return [*seen, order], (part.rows, len(part), list(seen), note)

    first = list(home.go_over(step, ledger, "one", {}))
    assert [rows for rows, *_ in first] == home.parts
    second = list(home.go_over(step, ledger, "two", {3: "note"}))
    assert [seen for _, _, seen, _ in second] == [["one"]] * len(home.parts)
    assert [note for *_, note in second] == [None] * 3 + ["note"] + [None] * (len(home.parts) - 4)
    assert sum(length for _, length, *_ in second) == 600
    assert ledger == [["one", "two"]] * len(home.parts)


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_a_stream_gives_results_in_order(n_jobs):
    def slow_at_first(i):
        time.sleep(0.02 if i == 0 else 0.0)
        return i * i

    with Workers(n_jobs) as workers:
        assert list(workers.stream(slow_at_first, range(50))) == [i * i for i in range(50)]
        assert list(workers.stream(slow_at_first, [])) == []


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_a_stream_does_not_run_ahead_of_whoever_reads_it(n_jobs):
    begun, taken, ahead = [], 0, []
    with Workers(n_jobs) as workers:
        for _ in workers.stream(begun.append, range(40)):
            time.sleep(0.002)
            ahead.append(len(begun) - taken)
            taken += 1
    assert len(begun) == 40
    assert max(ahead) <= (1 if n_jobs == 1 else 2 * n_jobs)


def wait_for(condition):
    """True once it holds; a thread that waits forever for a failed test would hide the failure."""
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()


def test_an_error_in_a_stream_ends_it():
    """Those under way end before the error is heard; those that wait never begin."""
    begun, ended, gate = [], [], threading.Event()

    def fail_at_two(i):
        begun.append(i)
        if i == 2:
            assert wait_for(lambda: 3 in begun)
            threading.Timer(0.05, gate.set).start()
            raise ZeroDivisionError(i)
        if i > 2:
            gate.wait(30)
        ended.append(i)
        return i

    with Workers(2) as workers:
        stream, found = workers.stream(fail_at_two, range(100)), []
        with pytest.raises(ZeroDivisionError):
            found.extend(stream)
        assert sorted(begun) == sorted([*ended, 2])
        assert len(begun) <= 6
        after = len(begun)
        assert list(workers.stream(abs, [-1, -2])) == [1, 2]  # the threads are still there for others
    assert len(begun) == after


def test_a_stream_that_is_left_leaves_nothing_running():
    threads, begun, ended = threading.active_count(), [], []

    def slow(i):
        begun.append(i)
        time.sleep(0.01)
        ended.append(i)
        return i

    with Workers(3) as workers:
        stream = workers.stream(slow, range(1000))
        assert list(islice(stream, 2)) == [0, 1]
        stream.close()
        assert sorted(begun) == sorted(ended)
        assert len(begun) <= 8
    assert sorted(begun) == sorted(ended)
    assert threading.active_count() == threads
