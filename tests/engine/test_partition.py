"""Passes over the rows: nearest centres, new clusters, what is skipped, and sums that follow moves."""

from functools import partial
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from madbayes import paper
from madbayes.engine import centres, partition
from madbayes.engine.blocks import Workers
from madbayes.paper.clusters import assign_or_open, squared_distances

ALONE = Workers(1)
nearest = partial(centres.nearest, workers=ALONE)
columns = st.sampled_from([1, 2, 3, 4, 5, 8])  # with a matrix product or without
whole = st.integers(-3, 3)


def numbers(n_rows, n_columns):
    """A few whole numbers: many rows tie, or are equal."""
    return arrays(np.int64, (n_rows, n_columns), elements=whole)


@given(
    tables=columns.flatmap(lambda D: st.tuples(numbers(6, D), st.integers(1, 5).flatmap(lambda K: numbers(K, D)))),
    offset=st.sampled_from([0, 10**8]),
)
def test_nearest_is_the_first_of_the_nearest(tables, offset):
    X, A = tables
    squares = ((X[:, None] - A) ** 2).sum(axis=2)
    labels = nearest(X + float(offset), A + float(offset))
    assert_array_equal(labels, [row.tolist().index(row.min()) for row in squares])


@pytest.mark.parametrize("D", [1, 3, 4, 5, 20])
def test_blocks_of_rows_do_not_change_the_clusters(monkeypatch, seed, D):
    rng = np.random.default_rng(seed)
    X, A = rng.normal(size=(1500, D)), rng.normal(size=(4, D))
    whole_table = nearest(X, A)
    assert_array_equal(whole_table, squared_distances(X, A).argmin(axis=1))
    monkeypatch.setattr(centres, "row_blocks", lambda n_rows, _: [slice(i, i + 4) for i in range(0, n_rows, 4)])
    assert_array_equal(nearest(X, A), whole_table)


@pytest.mark.parametrize("D", [2, 20])
@pytest.mark.parametrize("scale", [1e-38, 1e-25, 1e15, 1e25, 1e37])
def test_squares_may_leave_the_range_of_single_precision(scale, seed, D):
    rng = np.random.default_rng(seed)
    X, A = (rng.normal(size=(n, D)).astype(np.float32) * np.float32(scale) for n in (200, 5))
    assert_array_equal(nearest(X, A), nearest(X.astype(np.float64), A))


@pytest.mark.parametrize("D", [2, 20])
def test_squares_that_just_overflow(D, seed):
    """Rows and centres of nearly the same length, on both sides of the largest number."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(40, D))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    longest = float(np.finfo(np.float32).max)
    X = np.concatenate([np.sqrt(share * longest) * directions for share in (0.1, 0.3, 0.6, 0.9, 1.1)])
    A = np.concatenate([X[3::7], X[5::7] * 1.1])
    X = X.astype(np.float32)
    assert_array_equal(nearest(X, A), squared_distances(X.astype(np.float64), A).argmin(axis=1))


@given(data=st.data(), D=columns, step=st.sampled_from([0.0, 1e-9, 0.25, 1.0]))
def test_nearest_remembers_nothing_that_is_not_so(data, D, step):
    """Called with other centres, moved a little or not, in another order, more of them: always the first of several."""
    X, A = data.draw(numbers(20, D)).astype(np.float64), data.draw(numbers(4, D)).astype(np.float64)
    known = centres.Nearest(X)
    orders = data.draw(st.lists(st.permutations(range(4)), min_size=1, max_size=3))
    for order in orders:
        A = A[list(order)] + step * data.draw(numbers(4, D))
        assert_array_equal(known(A, ALONE), nearest(X, A))
    more = np.vstack([A, X[:1]])
    assert_array_equal(known(more, ALONE), nearest(X, more))


def test_nearest_looks_only_at_rows_in_doubt(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    X, A = rng.normal(size=(500, 6)), rng.normal(size=(4, 6))
    known = centres.Nearest(X)
    known(A, ALONE)
    looked = []
    compare = centres.compare
    monkeypatch.setattr(centres, "compare", lambda *all: (looked.append(len(all[3])), compare(*all)))
    expected = nearest(X, A[::-1] + 1e-6)
    assert_array_equal(known(A[::-1] + 1e-6, ALONE), expected)
    assert looked[0] == 500
    assert sum(looked[1:]) < 10


def table_of(X, weighted=False):
    return partition.Table.of(X, np.random.default_rng(0).integers(1, 4, size=len(X)) if weighted else None)


def one_pass(table, A, labels, penalty, order, cap):
    """Labels after a pass that looks at all rows."""
    before = partition.Assignment(labels, np.zeros(len(labels)))
    threshold = partition.opening_threshold(penalty) if len(A) < cap else np.inf
    state = partition.assign(table, A, before, np.zeros(len(A)), threshold, ALONE)
    return partition.open_pass(table, A, state, penalty, order, cap, ALONE)


@given(data=st.data(), D=columns, weighted=st.booleans(), shuffled=st.booleans(), single=st.booleans())
def test_a_pass_is_the_serial_pass_when_rows_tie(data, D, weighted, shuffled, single):
    """Whole numbers, so that the paper's pass makes no rounding error, and penalties that are distances."""
    X, A = data.draw(numbers(30, D)), data.draw(numbers(3, D))
    offset, penalty = data.draw(st.sampled_from([0, 100, 10**4])), data.draw(st.integers(0, 20))
    cap = data.draw(st.sampled_from([3, 5, np.inf]))
    X, A = (X + offset).astype(np.float32 if single else np.float64), (A + offset).astype(np.float64)
    table, double = table_of(X, weighted), X.astype(np.float64)
    order = np.random.default_rng(0).permutation(30) if shuffled else np.arange(30)
    before = data.draw(arrays(np.int64, 30, elements=st.integers(0, 2)))
    expected = assign_or_open(
        before,
        squared_distances(double, A),
        lambda n, _: squared_distances(double, double[n : n + 1])[:, 0],
        penalty,
        weights=table.weights if weighted else np.ones(30),
        negligible=0.0,
        order=order,
        free=iter(range(3, int(min(cap, 100)))),
    )
    state, opened = one_pass(table, A, before, penalty, order if shuffled else None, cap)
    assert_array_equal(state.labels, expected)
    assert len(opened) == len(set(expected) - {0, 1, 2})


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("D", [1, 9])
def test_a_row_just_beyond_the_threshold_opens_and_one_on_it_does_not(offset, D):
    """The product in single precision cannot tell them apart."""
    X = np.zeros((600, D), dtype=np.float32)
    X[:, 0] = 2.0
    X[400, 0] = np.nextafter(np.float32(offset + 2.0), np.float32(np.inf)) - np.float32(offset)
    X += np.float32(offset)
    _, opened = one_pass(table_of(X), np.full((1, D), offset), np.zeros(600, dtype=np.int64), 4.0, None, np.inf)
    assert_array_equal(opened, [400])


def overlapping(seed, N=3000, D=3, K=12):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, D)) + 1.5 * rng.normal(size=(K, D))[rng.integers(K, size=N)]


def passes(table, penalty, cap=np.inf, K=12):
    """The runs after each pass of DP-means."""
    run = partition.start(table, paper.seed_clusters(table.X, K, random_state=0), penalty, ALONE)
    run = partition.forgetful(run)
    for _ in count():
        state = partition.assign(table, run.A, run.assignment, run.shifts, partition.opening_threshold(penalty), ALONE)
        yield run, state
        state, opened = partition.open_pass(table, run.A, state, penalty, None, cap, ALONE)
        if not len(opened) and (state.labels == run.labels).all():
            return
        run = partition.fit(table, state, np.concatenate([run.A, table.X[opened]]), penalty, ALONE, run)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("D", "penalty"), [(2, 1e9), (2, 12.0), (6, 1e9), (6, 30.0)])
def test_rows_that_are_skipped_would_have_kept_their_label(D, penalty, dtype, seed):
    table, skipped = table_of(overlapping(seed, D=D).astype(dtype), weighted=True), 0
    for run, state in passes(table, penalty):
        fresh = partition.forgetful(run)
        full = partition.assign(table, run.A, fresh.assignment, run.shifts, partition.opening_threshold(penalty), ALONE)
        assert_array_equal(state.labels, full.labels)
        assert_array_equal(state.slack == -np.inf, full.slack == -np.inf)
        skipped += (run.slack - run.shifts[run.labels] > 0).sum()
    assert skipped > len(table.X)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_sums_that_follow_moves_are_those_of_the_rows(offset, seed):
    table = table_of(overlapping(seed) + offset, weighted=True)
    ages = []
    for run, _ in passes(table, 12.0):
        fresh = partition.fresh_sums(table, run.labels, run.A, ALONE)
        assert_array_equal(run.sums.counts, fresh.counts)
        assert_allclose(run.sums.sizes, fresh.sizes, rtol=1e-13)
        assert_allclose(partition.means_of(table, run.sums), run.A)
        assert_allclose(run.A, partition.means_of(table, fresh), rtol=1e-12)
        assert_allclose(run.sse, fresh.error, rtol=1e-11)
        ages.append(run.sums.age)
    assert max(ages) == partition.FRESH_PASSES


def test_rounding_errors_of_a_large_row_do_not_stay():
    """A row of 1e8 comes and goes; what is left is taken from the rows again at the end."""
    X = np.concatenate([np.linspace(0, 1e-3, 50), [1e8, 1.1e8]])[:, None]
    run = partition.k_means(table_of(X), np.array([[0.0], [2e8]]), workers=ALONE)
    expected = paper.k_means(X, np.array([[0.0], [2e8]]))
    assert_array_equal(run.labels, expected.labels)
    assert run.sums.age == 0
    assert run.sse == pytest.approx(partition.squared_error(table_of(X), run.A, run.labels, ALONE), rel=1e-12)


def test_an_error_that_falls_by_orders_of_magnitude_keeps_its_digits(seed):
    """Ten tight clusters: the last values are a millionth of the first."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(10, 2)), 30, axis=0) + 1e-4 * rng.normal(size=(300, 2))
    for order in (None, rng.permutation(300)):
        run = partition.dp_means(table_of(X), 0.01, order=order, workers=ALONE)
        expected = paper.dp_means(X, 0.01, order=order)
        assert_allclose(run.trace, expected.trace, rtol=1e-9)
        assert run.sse == pytest.approx(((X - run.A[run.labels]) ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize("penalty", [3.0, 12.0, 40.0])
def test_the_trace_never_rises(penalty, seed):
    run = partition.dp_means(table_of(overlapping(seed, N=6000)), penalty, workers=ALONE)
    trace = np.array(run.trace)
    assert run.converged
    assert (np.diff(trace) <= 1e-12 * trace[0]).all()


@pytest.mark.parametrize("shuffled", [False, True])
def test_clusters_opened_far_apart_in_the_order(shuffled, seed):
    """A first chunk, long stretches that open nothing, and rows far on that do."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9000, 2)) * 0.1
    rare = [700, 701, 2000, 5300, 5301, 8999]
    X[rare] += 10 * (1 + np.arange(6))[:, None]
    order = rng.permutation(9000) if shuffled else None
    expected = paper.dp_means(X, 20.0, order=order)
    run = partition.dp_means(table_of(X), 20.0, order=order, workers=ALONE)
    assert_array_equal(run.labels, expected.labels)
    assert run.K == 7


def test_a_cluster_that_is_lost_makes_room_for_another(seed):
    """With a cap, rows are compared with the threshold again once there are fewer clusters."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(50, 2)), [[30.0, 0.0], [60.0, 0.0]]])
    A = np.array([[0.0, 0.0], [0.1, 500.0]])
    expected = paper.dp_means(X, 20.0, A, max_clusters=3)
    run = partition.dp_means(table_of(X), 20.0, A, max_clusters=3, workers=ALONE)
    assert_array_equal(run.labels, expected.labels)
