"""DP-means and K-means on parts of a table, against the serial pass, brute force and the paper's runs."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from madbayes import paper
from madbayes.engine import cluster_passes, homes, partition
from madbayes.engine.blocks import Workers
from madbayes.engine.cluster_passes import Follower, descend
from madbayes.engine.homes import LocalHome, Moments
from madbayes.engine.partition import opening_threshold
from madbayes.paper.clusters import assign_or_open, squared_distances
from madbayes.paper.result import rounding_error

ALONE = Workers(1)
# Fixtures set the sizes of parts once; examples do not change them.
examples = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def parts_of(size):
    return lambda n_rows, _: [slice(begin, min(begin + size, n_rows)) for begin in range(0, n_rows, size)]


@pytest.fixture
def small(monkeypatch):
    """Sets how many rows are in a part, how many of them propose at a time, and how many are compared at a time."""

    def change(rows=7, proposals=2, tile=4):
        monkeypatch.setattr(homes, "part_rows", parts_of(rows))
        monkeypatch.setattr(cluster_passes, "PROPOSALS", proposals)
        monkeypatch.setattr(cluster_passes, "tiles", tiles_of(tile))

    change()
    return change


def tiles_of(size):
    def tiles(n_rows, _, pending):
        for begin in range(0, n_rows, size):
            rows = slice(begin, min(begin + size, n_rows))
            yield rows, pending[(pending >= rows.start) & (pending < rows.stop)]

    return tiles


def blobs(seed, N=120, D=3, K=6, spread=2.0, dtype=np.float64, offset=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) + spread * rng.normal(size=(K, D))[rng.integers(K, size=N)]
    return (X + offset).astype(dtype)


def weights_for(weighted, N):
    return np.random.default_rng(N).random(N) + 0.2 if weighted else None


def follower_of(X, weight=None, workers=ALONE):
    home = LocalHome(X, weight, workers)
    return Follower(home, Moments.of(home))


def labels_of(rows):
    return np.concatenate(list(rows.labels()))


def serial_order(X, weights, A, penalty, parts, n_proposals, cap):
    """The order of the serial pass: rows near a centre, the first proposals, rows near those, the next proposals..."""
    threshold, negligible = opening_threshold(penalty), rounding_error(X)
    closest = squared_distances(X, A).min(axis=1)
    far = weights * closest > threshold if len(A) < cap else np.zeros(len(X), dtype=bool)
    order, K = list(np.flatnonzero(~far)), len(A)
    while far.any():
        for n in np.concatenate([rows.start + np.flatnonzero(far[rows])[:n_proposals] for rows in parts]):
            order.append(n)
            far[n] = False
            if weights[n] * closest[n] > threshold and closest[n] > negligible and cap > K:
                closest, K = np.minimum(closest, squared_distances(X, X[n : n + 1])[:, 0]), K + 1
        joins = far & ((weights * closest <= threshold) | (cap <= K))
        order += list(np.flatnonzero(joins))
        far &= ~joins
    assert sorted(order) == list(range(len(X)))
    return np.array(order)


def serial_pass(X, weight, A, before, penalty, parts, n_proposals, cap=np.inf):
    """Labels after the paper's pass in the order that corresponds, and the means with the rows that opened clusters."""
    X, weights = X.astype(np.float64), np.ones(len(X)) if weight is None else weight
    order = serial_order(X, weights, A, penalty, parts, n_proposals, cap)
    opened = []

    def open_at(n, _):
        opened.append(n)
        return squared_distances(X, X[n : n + 1])[:, 0]

    limits = {"penalty": penalty, "weights": weights, "negligible": rounding_error(X)}
    free = iter(range(len(A), int(min(cap, len(A) + len(X)))))
    labels = assign_or_open(before, squared_distances(X, A), open_at, order=order, free=free, **limits)
    return labels, np.concatenate([A, X[opened]])


def assert_sums(rows, X, weight, labels, rtol=1e-11):
    """Counts, weights, means and both errors are those of the rows."""
    X, weights, K = X.astype(np.float64), np.ones(len(X)) if weight is None else weight, len(rows.A)
    Z = np.eye(K)[labels]
    assert_array_equal(rows.sums.counts, Z.sum(axis=0))
    assert_allclose(rows.sums.sizes, weights @ Z, rtol=rtol, atol=1e-12)
    used = rows.sums.counts > 0
    means = ((Z.T * weights) @ X)[used] / (weights @ Z)[used, None]
    assert_allclose(rows.means[used], means, rtol=rtol, atol=1e-10)
    assert_allclose(rows.error, weights @ ((X - rows.A[labels]) ** 2).sum(axis=1), rtol=rtol, atol=1e-10)
    about = np.zeros((K, X.shape[1]))
    about[used] = means
    assert_allclose(rows.sse, weights @ ((X - about[labels]) ** 2).sum(axis=1), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("n_proposals", [1, 2, 3, 256])
@pytest.mark.parametrize("size", [1, 4, 50])
@pytest.mark.parametrize(("penalty", "cap"), [(1.0, np.inf), (6.0, np.inf), (30.0, np.inf), (4.0, 5), (1.0, 9)])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_pass_is_a_serial_pass(small, n_proposals, size, penalty, cap, weighted, seed):
    small(size, n_proposals)
    for case in range(4):
        dtype, offset = [(np.float64, 0.0), (np.float32, 1e3)][case % 2]
        X = blobs(10 * seed + case, D=2 + 2 * case, dtype=dtype, offset=offset)
        weight = weights_for(weighted, len(X))
        rows = follower_of(X, weight)
        rows.look(X[:3])
        changes = True
        while changes:
            rows.drop_empty()
            before, A = labels_of(rows), rows.means
            labels, centres = serial_pass(X, weight, A, before, penalty, rows.home.parts, n_proposals, cap)
            rows.look(A, opening_threshold(penalty) if cap > len(A) else np.inf)
            opened = rows.open_clusters(penalty, cap)
            assert_array_equal(labels_of(rows), labels)
            assert_allclose(rows.A, centres, rtol=1e-12)
            assert_sums(rows, X, weight, labels)
            assert opened == len(centres) - len(A)
            assert (rows.moved > 0) == (labels != before).any()
            changes = rows.moved > 0


def test_the_first_pass_of_a_run_is_the_papers(small, seed):
    """The whole first iteration, empty clusters dropped, from the same means."""
    for case in range(20):
        X, penalty = blobs(20 * seed + case), 8.0
        start = X[:2]
        nearest = squared_distances(X, start).argmin(axis=1)
        means = np.stack([X[nearest == k].mean(axis=0) for k in range(2)])
        home = LocalHome(X, None, ALONE)
        order = serial_order(X, np.ones(len(X)), means, penalty, home.parts, 2, np.inf)
        expected = paper.dp_means(X, penalty, start, order=order, max_iter=1)
        run = descend(home, Moments.of(home), penalty, start, max_iter=1)
        assert_allclose(run.trace, expected.trace, rtol=1e-12)
        assert_allclose(run.A, expected.A, rtol=1e-12)
        assert run.K > 2


whole = st.integers(-3, 3)


@examples
@given(data=st.data(), D=st.sampled_from([1, 2, 5, 8]), single=st.booleans(), weighted=st.booleans())
def test_rows_that_tie_go_where_the_serial_pass_puts_them(small, data, D, single, weighted):
    """Small whole numbers: all distances are exact, many rows tie or lie on the threshold, clusters lose all rows."""
    n_proposals, offset = data.draw(st.sampled_from([1, 2, 256])), data.draw(st.sampled_from([0, 10**4]))
    small(data.draw(st.sampled_from([1, 5, 30])), n_proposals)
    X = data.draw(arrays(np.int64, (30, D), elements=whole)) + offset
    first, second = (data.draw(arrays(np.int64, (4, D), elements=whole)).astype(float) + offset for _ in range(2))
    penalty, cap = data.draw(st.integers(0, 20)), data.draw(st.sampled_from([4, 5, 7, np.inf]))
    weight = 0.5 * 2.0 ** np.random.default_rng(D).integers(3, size=30) if weighted else None
    X = X.astype(np.float32 if single else np.float64)
    rows = follower_of(X, weight)
    rows.look(first)
    before = labels_of(rows)
    assert_array_equal(before, squared_distances(X.astype(float), first).argmin(axis=1))
    rows.look(second, opening_threshold(penalty) if cap > 4 else np.inf)
    rows.open_clusters(penalty, cap)
    labels, centres = serial_pass(X, weight, second, before, penalty, rows.home.parts, n_proposals, cap)
    assert_array_equal(labels_of(rows), labels)
    assert_array_equal(rows.A, centres)
    assert_sums(rows, X, weight, labels)
    rows.look(rows.A, anew=True)
    assert_array_equal(labels_of(rows), squared_distances(X.astype(float), centres).argmin(axis=1))


@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 0.0), (np.float64, 1e6), (np.float32, 1e4)])
def test_sums_that_follow_moves_for_forty_passes(small, dtype, offset, seed):
    """Centres that wander: sums are taken afresh at times, and follow moves in between."""
    small(50, 256, 16)
    rng, weight = np.random.default_rng(seed), weights_for(True, 400)
    X = blobs(seed, N=400, dtype=dtype, offset=offset)
    rows, A, ages = follower_of(X, weight), X[:12].astype(np.float64), []
    for _ in range(40):
        rows.look(A)
        ages.append(rows.age)
        assert_sums(rows, X, weight, labels_of(rows), rtol=1e-10)
        A = A + 0.01 * rng.normal(size=A.shape)
    assert max(ages) == partition.FRESH_PASSES
    assert sorted(set(ages)) == list(range(max(ages) + 1))


@examples
@given(data=st.data(), single=st.booleans(), D=st.sampled_from([2, 6]), threshold=st.sampled_from([np.inf, 9.0]))
def test_rows_that_are_skipped_would_have_kept_their_label(small, data, single, D, threshold):
    """Thirty small moves of the centres, in changing orders: every labelling is that of brute force."""
    small(25, 256, 8)
    seed, step = data.draw(st.integers(0, 10**6)), data.draw(st.sampled_from([0.0, 1e-7, 1e-3, 0.1]))
    rng, offset = np.random.default_rng(seed), 1e4 if single else 0.0
    X = blobs(seed, N=100, D=D, dtype=np.float32 if single else np.float64, offset=offset)
    rows, A, compared = follower_of(X), X[:8].astype(np.float64), 0
    for _ in range(30):
        if rng.random() < 0.2:
            order = rng.permutation(8)
            if len(rows.A):
                rows.arrange(order)
            A = A[order]
        A = A + step * rng.normal(size=A.shape) * (rng.random((8, 1)) < 0.5)
        rows.look(A, threshold, anew=bool(rng.random() < 0.5))
        squares = squared_distances(X.astype(np.float64), A)
        assert_array_equal(labels_of(rows), squares.argmin(axis=1))
        slack = np.concatenate([kept[1] for kept in rows.ledger])
        assert_array_equal(slack == -np.inf, squares.min(axis=1) > threshold)
        compared += (slack <= 0).sum()
    if step < 1e-4 and threshold == np.inf:
        assert compared < 30  # of 3000: most rows were skipped, or this says nothing


def test_a_row_that_ties_stays_unless_it_is_looked_at_anew():
    rows = follower_of(np.array([[0.0], [2.0], [4.0]]))
    rows.look([[0.0], [3.0]])
    assert_array_equal(labels_of(rows), [0, 1, 1])
    rows.look([[0.0], [4.0]])
    assert_array_equal(labels_of(rows), [0, 1, 1])
    rows.look([[0.0], [4.0]], anew=True)
    assert_array_equal(labels_of(rows), [0, 0, 1])


def test_slack_beyond_single_precision_is_no_certainty():
    """In single precision the slack would be infinite, which no move of a centre uses up."""
    X = np.array([[0.0], [1e45], [2e45]])
    rows = follower_of(X)
    for A in ([[0.0], [2e45]], [[0.0], [1.9e45]], [[2e45], [0.0]]):
        rows.look(A, anew=True)
        assert_array_equal(labels_of(rows), squared_distances(X, np.array(A)).argmin(axis=1))


def test_clusters_may_be_dropped_twice_before_the_next_pass():
    """And rows that were decided elsewhere have the numbers of before."""
    X = np.array([[0.0], [1.0], [10.0], [11.0], [30.0]])
    rows = follower_of(X)
    rows.look([[-5.0], [0.5], [500.0], [10.5]], opening_threshold(9.0))
    assert rows.open_clusters(9.0, np.inf) == 1
    assert_array_equal(labels_of(rows), [1, 1, 3, 3, 4])
    rows.arrange(np.array([4, 0, 1, 3]))
    rows.arrange(np.array([3, 0, 2]))
    assert_array_equal(labels_of(rows), [2, 2, 0, 0, 1])
    assert_array_equal(rows.sums.counts, [2, 1, 2])
    rows.look(rows.means)
    assert_array_equal(labels_of(rows), [2, 2, 0, 0, 1])
    assert rows.moved == 0


def test_a_cluster_that_is_lost_makes_room_for_another(small, seed):
    rng = np.random.default_rng(seed)
    X = np.concatenate([0.1 * rng.normal(size=(50, 2)), [[30.0, 0.0], [60.0, 0.0]]])
    home = LocalHome(X, None, ALONE)
    run = descend(home, Moments.of(home), 20.0, np.array([[0.0, 0.0], [0.1, 500.0]]), max_clusters=3)
    assert run.K == 3
    assert run.converged
    assert_allclose(sorted(run.A[:, 0])[1:], [30.0, 60.0])


@examples
@given(data=st.data())
def test_a_run_never_rises_and_ends_where_nothing_changes(small, data):
    small(data.draw(st.integers(1, 40)), data.draw(st.sampled_from([1, 3, 256])))
    seed, penalty = data.draw(st.integers(0, 10**6)), data.draw(st.floats(0.1, 50.0))
    cap, weighted = data.draw(st.sampled_from([None, 4])), data.draw(st.booleans())
    X, heard = blobs(seed, N=80, dtype=data.draw(st.sampled_from([np.float32, np.float64]))), []
    weight = weights_for(weighted, len(X))
    home = LocalHome(X, weight, ALONE)
    run = descend(home, Moments.of(home), penalty, X[:2], max_clusters=cap, watch=heard.append)
    assert run.converged
    assert all(after <= before + 1e-12 * run.trace[0] for before, after in pairwise(run.trace))
    assert heard[-1] is run
    assert len(heard) == len(run.trace) == run.iterations + 1
    assert cap is None or cap >= run.K
    X, weights = X.astype(np.float64), np.ones(len(X)) if weight is None else weight
    squares = squared_distances(X, run.A)
    labels = squares.argmin(axis=1)
    assert run.value == pytest.approx(weights @ squares.min(axis=1) + (run.K - 1) * penalty, rel=1e-10)
    means = [np.average(X[labels == k], axis=0, weights=weights[labels == k]) for k in range(run.K)]
    assert_allclose(run.A, means, rtol=1e-9, atol=1e-9)
    assert cap == run.K or (weights * squares.min(axis=1) <= opening_threshold(penalty)).all()


@pytest.mark.parametrize(("K", "penalty"), [(None, 3.0), (9, 0.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_for_any_number_of_threads(small, dtype, K, penalty, seed):
    small(30, 3, 16)
    X, found = blobs(seed, N=600, dtype=dtype), []
    for n_jobs in (1, 2, 4):
        with Workers(n_jobs) as workers:
            home = LocalHome(X, weights_for(True, 600), workers)
            run = descend(home, Moments.of(home), penalty, X[:9], K=K)
            found.append((run.A.tobytes(), run.trace))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("weighted", [False, True])
def test_k_means_is_the_papers_run(small, weighted, seed):
    """Started with centres that no row is near: they are put on the rows of largest error."""
    for case in range(10):
        X, weight = blobs(10 * seed + case), weights_for(weighted, 120)
        start = np.concatenate([X[:3], 1e3 + X[:4]])
        expected = paper.k_means(X, start, sample_weight=weight)
        home = LocalHome(X, weight, ALONE)
        run = descend(home, Moments.of(home), 0.0, start, K=7)
        assert_allclose(run.trace, expected.trace, rtol=1e-10)
        assert_allclose(run.A, expected.A, rtol=1e-9)
        assert (run.K, run.iterations, run.converged) == (7, expected.iterations, True)


def test_fewer_centres_than_k_means_wants_are_filled_up(small, seed):
    X = blobs(seed)
    home = LocalHome(X, None, ALONE)
    run = descend(home, Moments.of(home), 0.0, X[:1], K=6)
    squares = squared_distances(X, run.A)
    assert run.K == 6
    assert run.value == pytest.approx(squares.min(axis=1).sum(), rel=1e-10)
    assert (np.bincount(squares.argmin(axis=1), minlength=6) > 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distinct", [1, 2, 3])
def test_fewer_distinct_rows_than_clusters(small, dtype, distinct, seed):
    """Clusters share equal rows, as the paper's do; with nothing left to explain there are fewer than K."""
    values = np.random.default_rng(seed).normal(size=(distinct, 4)) + 0.1
    X = values[np.arange(40) % distinct].astype(dtype)
    home, start = LocalHome(X, None, ALONE), np.repeat(X[:1], 5, axis=0)
    run = descend(home, Moments.of(home), 0.0, start, K=5)
    squares = squared_distances(X.astype(np.float64), run.A).min(axis=1)
    assert run.converged
    assert run.value == pytest.approx(squares.sum(), rel=1e-10, abs=1e-12)
    assert run.K == 5 or (squares <= Moments.of(home).negligible).all()
    assert distinct > 1 or run.K == 1


def test_labels_take_as_many_bytes_as_they_need(small):
    """More clusters than one byte can count, opened in the course of a pass; then one again."""
    X = 10.0 * np.arange(600.0)[:, None]
    small(300, 100, 64)
    rows = follower_of(X)
    rows.look(X[:1])
    assert rows.ledger[0][0].dtype == np.uint8
    rows.look(X[:1], opening_threshold(1.0))
    rows.open_clusters(1.0, np.inf)
    assert_array_equal(X[:, 0], rows.A[labels_of(rows), 0])
    rows.look(rows.means)
    assert rows.ledger[0][0].dtype == np.uint16
    assert_array_equal(X[:, 0], rows.A[labels_of(rows), 0])


def test_scatters_change_nothing_and_are_those_of_the_clusters(small, seed):
    """In the middle of things: rows were decided elsewhere, and clusters arranged, since the last pass."""
    X, weight = blobs(seed), weights_for(True, 120)
    rows = follower_of(X, weight)
    rows.look(X[:3], opening_threshold(8.0))
    assert rows.open_clusters(8.0, np.inf) > 0
    rows.drop_empty()
    rows.arrange(np.arange(len(rows.A))[::-1])
    labels = labels_of(rows)
    squares = weight * ((X - rows.means[labels]) ** 2).sum(axis=1)
    for _ in range(2):
        assert_allclose(rows.scatters(), np.bincount(labels, squares), rtol=1e-9, atol=1e-12)
    assert_array_equal(labels_of(rows), labels)


def test_rows_stop_to_propose_once_the_cap_is_reached(small):
    """One pass for those that waited, however many they are."""
    small(100, 1)
    X, passes = np.arange(100.0)[:, None], []
    rows = follower_of(X)
    go_over = rows.home.go_over
    rows.home.go_over = lambda *asked: passes.append(asked) or go_over(*asked)
    rows.look([[0.0]])
    rows.look([[0.0]], opening_threshold(4.0))
    assert rows.open_clusters(4.0, 3) == 2
    assert len(passes) == 4  # two looks, and one for each of the two that were opened
    assert_array_equal(rows.A, [[0.0], [3.0], [6.0]])
    assert_array_equal(labels_of(rows), np.repeat([0, 1, 2], [3, 3, 94]))


def test_clusters_beyond_the_cap_stay(small):
    rows = follower_of(np.array([[0.0], [10.0], [20.0], [30.0]]))
    A = np.array([[0.0], [10.0], [21.0]])
    for _ in range(2):
        rows.look(A, opening_threshold(4.0))
        assert rows.open_clusters(4.0, 2) == 0
        assert_array_equal(labels_of(rows), [0, 1, 2, 2])
    rows.look(A, opening_threshold(4.0))
    assert rows.open_clusters(4.0, 4) == 1
    assert_array_equal(labels_of(rows), [0, 1, 2, 3])
