"""BP-means and K-features on parts of a table, against the serial pass, brute force and the paper's runs."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from madbayes import paper
from madbayes.engine import feature_passes, homes
from madbayes.engine.blocks import Workers
from madbayes.engine.feature_passes import Follower, descend
from madbayes.engine.homes import LocalHome, Moments
from madbayes.paper.features import all_codes, independent_columns, sweep_row
from madbayes.paper.result import RELATIVE_GAIN, rounding_error

ALONE = Workers(1)
UNLIMITED = 10**9
# Fixtures set the sizes of parts once; examples do not change them.
examples = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def parts_of(size):
    return lambda n_rows, _: [slice(begin, min(begin + size, n_rows)) for begin in range(0, n_rows, size)]


@pytest.fixture
def small(monkeypatch):
    """Sets how many rows are in a part, how many of them propose at a time, and how many are in a block."""

    def change(rows=7, proposals=2, block=4):
        monkeypatch.setattr(homes, "part_rows", parts_of(rows))
        monkeypatch.setattr(feature_passes, "PROPOSALS", proposals)
        monkeypatch.setattr(feature_passes, "row_blocks", parts_of(block))

    change()
    return change


def mixed(seed, N=60, D=5, K=4, noise=0.5, dtype=np.float64):
    """Rows made of a few features and noise."""
    rng = np.random.default_rng(seed)
    X = (rng.random((N, K)) < 0.5) @ rng.normal(size=(K, D)) + noise * rng.normal(size=(N, D))
    return X.astype(dtype)


def weights_for(weighted, N):
    return np.random.default_rng(N).random(N) + 0.2 if weighted else None


def ones_for(weight, N):
    return np.ones(N) if weight is None else weight


def opening_threshold(penalty):
    return (1 + RELATIVE_GAIN) * penalty


def follower_of(X, weight=None, workers=ALONE):
    home = LocalHome(X, weight, workers)
    return Follower(home, Moments.of(home))


def codes_of(rows):
    return np.concatenate(list(rows.codes()))


def serial_order(X, weights, Z, A, penalty, parts, n_proposals, cap):
    """The order of the serial pass: rows that leave little, the first proposals, rows that then leave little, ..."""
    threshold, negligible, opened = opening_threshold(penalty), rounding_error(X), []
    R = np.stack([sweep_row(x - z @ A, z.astype(float), A, (A**2).sum(axis=1)) for x, z in zip(X, Z, strict=True)])

    def leaves_much(n):
        return weights[n] * (R[n] @ R[n]) > threshold and R[n] @ R[n] > negligible

    def go_on(n, features):
        """The row takes those of the new features by which its residual gets shorter."""
        for a in features:
            if a @ a - 2 * (R[n] @ a) < -RELATIVE_GAIN * (a @ a):
                R[n] -= a

    waiting = np.array([leaves_much(n) for n in range(len(X))]) & (len(A) < cap)
    order = list(np.flatnonzero(~waiting))
    while waiting.any():
        before = len(opened)
        for n in np.concatenate([rows.start + np.flatnonzero(waiting[rows])[:n_proposals] for rows in parts]):
            go_on(n, opened[before:])
            order.append(n)
            waiting[n] = False
            if leaves_much(n) and len(A) + len(opened) < cap:
                opened.append(R[n].copy())
        joins = []
        for n in np.flatnonzero(waiting):
            go_on(n, opened[before:])
            if not leaves_much(n) or len(A) + len(opened) >= cap:
                joins.append(n)
        order += joins
        waiting[joins] = False
    assert sorted(order) == list(range(len(X)))
    return np.array(order)


def serial_pass(X, weight, Z, A, penalty, parts, n_proposals, cap=UNLIMITED):
    """Z and A after the paper's pass in the order that corresponds, redundant features dropped."""
    X = X.astype(np.float64)
    order = serial_order(X, ones_for(weight, len(X)), Z, A, penalty, parts, n_proposals, cap)
    options = {"max_components": cap, "sample_weight": None if weight is None else weight[order], "max_iter": 1}
    result = paper.bp_means(X[order], penalty, Z[order], A, **options)
    after = np.empty_like(result.Z)
    after[order] = result.Z
    return after, result.A


def assert_sums(rows, X, weight, Z):
    """Z'Z exactly, Z'WZ and Z'WX."""
    X, weights = X.astype(np.float64), ones_for(weight, len(X))
    Z = Z.astype(np.float64)
    assert_array_equal(rows.sums.pairs, Z.T @ Z)
    if weight is not None:
        assert_allclose(rows.sums.weighted, (Z.T * weights) @ Z, rtol=1e-12, atol=1e-12)
    assert_allclose(rows.sums.products, (Z.T * weights) @ X, rtol=1e-11, atol=1e-11)


def squared_error(X, weight, Z, A):
    return ones_for(weight, len(X)) @ ((X.astype(np.float64) - Z @ A) ** 2).sum(axis=1)


@pytest.mark.parametrize("n_proposals", [1, 2, 3, 256])
@pytest.mark.parametrize("size", [1, 4, 50])
@pytest.mark.parametrize(
    ("penalty", "cap"), [(0.5, UNLIMITED), (3.0, UNLIMITED), (20.0, UNLIMITED), (1.0, 4), (0.5, 7)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_pass_is_a_serial_pass(small, n_proposals, size, penalty, cap, weighted, seed):
    small(size, n_proposals)
    threshold = opening_threshold(penalty)
    for case in range(4):
        X = mixed(10 * seed + case, D=3 + 2 * case, dtype=[np.float64, np.float32][case % 2])
        weight = weights_for(weighted, len(X))
        rows = follower_of(X, weight)
        rows.look(X[:2], exact=True)
        rows.refit()
        changes = True
        while changes:
            before, A = codes_of(rows), rows.A
            expected, features = serial_pass(X, weight, before, A, penalty, rows.home.parts, n_proposals, cap)
            rows.look(A, threshold if cap > len(A) else np.inf)
            opened = rows.open_features(threshold, cap)
            assert_sums(rows, X, weight, codes_of(rows))
            assert opened == len(rows.A) - len(A)
            sse, Z = rows.refit(), codes_of(rows)
            assert_array_equal(Z, expected)
            assert_allclose(rows.A, features, rtol=1e-9, atol=1e-9)
            assert_sums(rows, X, weight, Z)
            assert sse == pytest.approx(squared_error(X, weight, Z, rows.A), rel=1e-9, abs=1e-9)
            assert (rows.changed > 0) == (Z.shape != before.shape or (before != Z).any())
            changes = rows.changed > 0


whole = st.integers(-3, 3)


@examples
@given(data=st.data(), D=st.integers(1, 4), N=st.integers(1, 12), weighted=st.booleans())
def test_rows_that_tie_and_features_that_are_redundant(small, data, D, N, weighted):
    """Small whole numbers: flips that change nothing, residuals on the threshold, more features than rows."""
    n_proposals = data.draw(st.sampled_from([1, 2, 256]))
    small(data.draw(st.sampled_from([1, 3, 12])), n_proposals)
    X = data.draw(arrays(np.int64, (N, D), elements=whole)).astype(np.float64)
    A = data.draw(arrays(np.int64, (data.draw(st.integers(0, 4)), D), elements=whole)).astype(np.float64)
    penalty, cap = data.draw(st.integers(0, 9)), data.draw(st.sampled_from([4, 6, UNLIMITED]))
    weight = 0.5 * 2.0 ** np.random.default_rng(N).integers(3, size=N) if weighted else None
    threshold, rows = opening_threshold(penalty), follower_of(X, weight)
    rows.look(A, exact=True)
    assert_array_equal(codes_of(rows), brute_force_codes(X, A))
    before = codes_of(rows)
    whole_A = data.draw(arrays(np.int64, A.shape, elements=whole)).astype(np.float64)
    rows.look(whole_A, threshold if cap > len(A) else np.inf)
    rows.open_features(threshold, cap)
    Z = codes_of(rows)
    expected = pass_by_hand(X, weight, before, whole_A, penalty, rows.home.parts, n_proposals, cap)
    assert_array_equal(Z, expected)
    sse = rows.refit()
    kept = Z[:, independent_columns(Z)]
    assert_array_equal(codes_of(rows), kept)
    assert_sums(rows, X, weight, kept)
    root = np.sqrt(ones_for(weight, N))[:, None]
    best = root * X - (root * kept) @ np.linalg.lstsq(root * kept, root * X, rcond=None)[0]
    assert sse == pytest.approx((best**2).sum(), abs=1e-9)


def brute_force_codes(X, A):
    """The code of least error, the first of those with the fewest ones."""
    codes = all_codes(len(A))
    errors = ((X[:, None] - codes @ A) ** 2).sum(axis=2)
    return codes[errors.argmin(axis=1)]


def pass_by_hand(X, weight, Z, A, penalty, parts, n_proposals, cap):
    """The serial pass row by row, nothing refitted or dropped."""
    weights, threshold = ones_for(weight, len(X)), opening_threshold(penalty)
    codes, A = [None] * len(X), list(A)
    for n in serial_order(X, weights, Z, np.array(A).reshape(-1, X.shape[1]), penalty, parts, n_proposals, cap):
        z = np.append(Z[n].astype(float), np.zeros(len(A) - Z.shape[1]))
        r = sweep_row(X[n] - z @ np.array(A).reshape(-1, X.shape[1]), z, A, np.array([a @ a for a in A]))
        if weights[n] * (r @ r) > threshold and r @ r > rounding_error(X) and len(A) < cap:
            A, z = [*A, r], np.append(z, 1.0)
        codes[n] = z
    return np.stack([np.append(z, np.zeros(len(A) - len(z))) for z in codes])


def test_features_may_be_arranged_twice_before_the_next_pass():
    """And rows that were decided elsewhere have the columns of before."""
    X = np.array([[1.0, 0, 0], [0, 1.0, 0], [1.0, 1.0, 0], [0, 0, 5.0]])
    rows = follower_of(X)
    rows.look(X[:2], exact=True)
    rows.look(X[:2], 4.0)
    assert rows.open_features(4.0, UNLIMITED) == 1
    rows.arrange(np.array([2, 0, 1]))
    rows.arrange(np.array([1, 0]))
    assert_array_equal(codes_of(rows), [[1, 0], [0, 0], [1, 0], [0, 1]])
    assert_array_equal(rows.A, [[1, 0, 0], [0, 0, 5]])
    rows.look(rows.A)
    assert rows.changed == 0
    assert_array_equal(codes_of(rows), [[1, 0], [0, 0], [1, 0], [0, 1]])
    rows.arrange(np.array([], dtype=int))
    rows.look(rows.A)
    assert codes_of(rows).shape == (4, 0)
    assert rows.refit() == pytest.approx((X**2).sum())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_the_best_codes_and_their_error(small, dtype, offset, seed):
    X = (mixed(seed) + offset).astype(dtype)
    A, weight = X[:4].astype(np.float64) - X[4:8], weights_for(True, len(X))
    A[0] = X.mean(axis=0)
    rows = follower_of(X, weight)
    rows.look(A, exact=True)
    Z = brute_force_codes(X.astype(np.float64), A)
    assert_array_equal(codes_of(rows), Z)
    assert rows.error == pytest.approx(squared_error(X, weight, Z, A), rel=1e-12)
    rows.look(A, exact=True)
    assert rows.changed == 0


@examples
@given(data=st.data())
def test_a_run_never_rises_and_ends_where_nothing_changes(small, data):
    small(data.draw(st.integers(1, 40)), data.draw(st.sampled_from([1, 3, 256])))
    seed, penalty = data.draw(st.integers(0, 10**6)), data.draw(st.floats(2.0, 50.0))
    cap, weighted = data.draw(st.sampled_from([None, 3])), data.draw(st.booleans())
    X, heard = mixed(seed, dtype=data.draw(st.sampled_from([np.float32, np.float64]))), []
    weight = weights_for(weighted, len(X))
    home = LocalHome(X, weight, ALONE)
    run = descend(home, Moments.of(home), penalty, X[:2], max_components=cap, watch=heard.append)
    assert run.converged
    assert all(after <= before + 1e-12 * run.trace[0] for before, after in pairwise(run.trace))
    assert heard[-1] is run
    assert len(heard) == len(run.trace) == run.iterations + 1
    assert cap is None or cap >= run.K
    if run.K <= 8:  # codes that a sweep has reached are no better than the best of all
        Z = brute_force_codes(X.astype(np.float64), run.A)
        assert squared_error(X, weight, Z, run.A) + penalty * run.K <= run.value * (1 + 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_end_of_a_run_is_a_fixed_point_of_the_papers(small, weighted, dtype, seed):
    for case in range(10):
        X, penalty = mixed(10 * seed + case, dtype=dtype), 2.0
        weight = weights_for(weighted, len(X))
        rows, before = follower_of(X, weight), None
        rows.look(X[:2], exact=True)
        value = rows.refit() + penalty * len(rows.A)
        while value != before:
            rows.look(rows.A, opening_threshold(penalty))
            rows.open_features(opening_threshold(penalty), UNLIMITED)
            value, before = rows.refit() + penalty * len(rows.A), value
        Z = codes_of(rows)
        result = paper.bp_means(X.astype(np.float64), penalty, Z, rows.A, sample_weight=weight)
        assert result.converged
        assert result.iterations == 1
        assert result.value == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("K", "penalty"), [(None, 2.0), (6, 0.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_for_any_number_of_threads(small, dtype, K, penalty, seed):
    small(30, 3, 16)
    X, found = mixed(seed, N=600, dtype=dtype), []
    for n_jobs in (1, 2, 4):
        with Workers(n_jobs) as workers:
            home = LocalHome(X, weights_for(True, 600), workers)
            run = descend(home, Moments.of(home), penalty, X[:2], K=K, max_iter=20)
            found.append((run.A.tobytes(), run.trace))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_k_features_is_the_papers_run(small, weighted, dtype, seed):
    """From the best codes of two features, and more that are made of the rows of largest error."""
    for case in range(10):
        X, K = mixed(10 * seed + case, dtype=dtype), 5
        weight, double = weights_for(weighted, len(X)), X.astype(np.float64)
        home = LocalHome(X, weight, ALONE)
        run = descend(home, Moments.of(home), 0.0, X[:2], K=K)
        start = paper.features.refit(double, brute_force_codes(double, double[:2]), weight)
        start = paper.features.reseed(double, *start, K, weight)
        expected = paper.k_features(double, K, *start, sample_weight=weight)
        assert run.K == K
        assert run.converged
        assert_allclose(run.trace, expected.trace, rtol=1e-9)
        assert_allclose(run.A, expected.A, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("largest", [None, 0.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distinct", [1, 3])
def test_no_more_features_than_there_is_to_explain(small, dtype, distinct, largest, seed):
    """Also where rounding errors are not known as such: features made of them are redundant, and it ends."""
    values = np.random.default_rng(seed).normal(size=(distinct, 4)) + 0.1
    X = values[np.arange(40) % distinct].astype(dtype)
    home = LocalHome(X, None, ALONE)
    moments = Moments.of(home)
    run = descend(home, moments if largest is None else moments._replace(largest=largest), 0.0, X[:1], K=5)
    assert distinct >= run.K
    assert run.converged
    assert run.iterations < 5
    assert run.value <= 1e-13 * home.shape[0] * moments.largest


def test_a_table_of_zeros_has_no_features(small):
    home = LocalHome(np.zeros((20, 3)), None, ALONE)
    for K, penalty in ((3, 0.0), (None, 1.0)):
        run = descend(home, Moments.of(home), penalty, np.ones((2, 3)), K=K)
        assert (run.K, run.value, run.converged) == (0, 0.0, True)


def test_many_proposals_need_little_room(small, monkeypatch):
    """Room grows with the features that are opened, not with the rows that propose one."""
    small(500, 256)
    rooms, state_of = [], feature_passes.State.of
    monkeypatch.setattr(feature_passes.State, "of", lambda start, room: rooms.append(room) or state_of(start, room))
    X = np.repeat(np.diag([10.0, 20.0, 30.0]), 500, axis=0)
    rows = follower_of(X)
    rows.look(np.empty((0, 3)), exact=True)
    rows.look(rows.A, 50.0)
    assert rows.open_features(50.0, UNLIMITED) == 3
    assert_array_equal(codes_of(rows), np.repeat(np.eye(3), 500, axis=0))
    assert max(rooms) < 20


def test_sizes_are_the_weights_of_the_rows_with_each_feature(small, seed):
    X = mixed(seed)
    for weight in (None, weights_for(True, len(X))):
        rows = follower_of(X, weight)
        rows.look(X[:3], exact=True)
        assert_allclose(rows.sizes, ones_for(weight, len(X)) @ codes_of(rows), rtol=1e-12)


def test_features_beyond_the_cap_stay():
    X = np.diag([3.0, 4.0, 5.0])
    rows = follower_of(X)
    rows.look(X[:2], exact=True)
    rows.look(X[:2], 4.0)
    assert rows.open_features(4.0, 1) == 0
    assert_array_equal(codes_of(rows), [[1, 0], [0, 1], [0, 0]])
