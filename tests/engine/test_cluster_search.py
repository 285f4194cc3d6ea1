"""The search of clusters: its descent, its moves and what they reach."""

from functools import cache
from itertools import count

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from madbayes.engine import kernels
from madbayes.engine.blocks import Workers
from madbayes.engine.cluster_search import (
    ClusterLandscape,
    cluster_moves,
    relabelled,
)
from madbayes.engine.kernels import cluster_search as parts
from madbayes.engine.search import Search, Solution, search
from madbayes.model import dp_means_objective
from madbayes.model.priors import one_hot
from madbayes.paper import exhaustive, partitions
from madbayes.paper.clusters import k_means


def mixture(N, D, K, sep, seed=1):
    """K Gaussian clusters, their centres ``sep`` standard deviations apart in each column or so."""
    g = np.random.default_rng(seed)
    mu = g.normal(size=(K, D)) * sep / np.sqrt(2)
    z = g.integers(K, size=N)
    X = mu[z] + g.normal(size=(N, D))
    return X - X.mean(0)


def error_of(X, labels, weights=None):
    """Squared error about the means, cluster by cluster: the slow and obvious way."""
    w = np.ones(len(X)) if weights is None else weights
    total = 0.0
    for k in np.unique(labels):
        rows = labels == k
        total += w[rows] @ ((X[rows] - np.average(X[rows], axis=0, weights=w[rows])) ** 2).sum(axis=1)
    return total


def objective_of(X, solution, penalty, weights=None):
    return dp_means_objective(penalty)(X, one_hot(solution.groups, solution.K), solution.A, weights)


def best_of(landscape, seed=0, options=None, workers=None):
    seeds = (int(np.random.default_rng([seed, i]).integers(2**31)) for i in count())
    lineages = search(landscape, cluster_moves, options or Search(), seeds, workers or Workers(1))
    assert lineages[0].best is not None
    return lineages[0].best


def solution_of(landscape, labels):
    """These labels as they are, with their means."""
    X = landscape.X + landscape.origin
    A = np.array(
        [np.average(X[labels == k], axis=0, weights=landscape.weights[labels == k]) for k in np.unique(labels)]
    )
    return Solution(labels, A, error_of(X, labels, landscape.weights) + landscape.penalty * (len(A) - 1))


def state_of(landscape, labels, room=None):
    """The kernels' buffers, with everything in them that belongs to these labels."""
    N, D = landscape.X.shape
    used = labels.max() + 1
    room = room or used
    state = parts.Clustering(
        labels.copy(), np.empty((room, D)), np.empty(room), np.empty(room, dtype=np.int64), np.zeros(room, dtype=bool),
        np.empty(N), np.empty(N),
    )  # fmt: skip
    state.changed[:used] = True
    parts.refit(landscape.X, landscape.weights, state, used)
    state.changed[:] = False
    parts.distances_to(landscape.X, state.A, labels, state.own)
    distances = ((landscape.X[:, None] - state.A[None, :used]) ** 2).sum(axis=2)
    distances[np.arange(N), labels] = np.inf
    state.others[:] = distances.min(axis=1)
    return state, used


tables = st.integers(2, 9).flatmap(
    lambda N: arrays(np.float64, (N, 2), elements=st.integers(-6, 6).map(lambda i: i / 2))
)
penalties = st.sampled_from([0.0, 0.3, 1.0, 4.0, 20.0, 1e6])
seeds = st.integers(0, 2**16)


def random_labels(rng, N, K):
    """Labels of K clusters, none of them empty."""
    return rng.permutation(np.concatenate([np.arange(K), rng.integers(K, size=N - K)]))


def random_weights(rng, N):
    """Very unequal ones, or none."""
    return None if rng.random() < 0.3 else 10.0 ** rng.uniform(-3, 3, size=N)


@given(tables, penalties, seeds)
def test_polish_is_valid_and_no_worse_than_lloyd(X, penalty, seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(1, len(X) + 1))
    labels, weights = random_labels(rng, len(X), K), random_weights(rng, len(X))
    landscape = ClusterLandscape.of(X, penalty, weights)
    found = landscape.polish(labels)
    assert_array_equal(np.unique(found.groups), np.arange(found.K))
    assert found.value == pytest.approx(objective_of(X, found, penalty, weights), rel=1e-9, abs=1e-9)
    assert found.value == pytest.approx(
        error_of(X, found.groups, weights) + penalty * (found.K - 1), rel=1e-9, abs=1e-9
    )
    plain = k_means(X, solution_of(landscape, labels).A, sample_weight=weights)
    assert found.value <= (plain.value + penalty * (plain.K - 1)) * (1 + 1e-9) + 1e-9
    before = error_of(X, labels, weights) + penalty * (K - 1)
    assert found.value <= before * (1 + 1e-9) + 1e-9


@given(tables, penalties, seeds)
def test_no_single_change_improves_on_a_polish(X, penalty, seed):
    """Neither a row elsewhere, nor one alone, nor two clusters in one: each refitted from scratch."""
    rng = np.random.default_rng(seed)
    landscape = ClusterLandscape.of(X, penalty)
    found = landscape.polish(random_labels(rng, len(X), int(rng.integers(1, len(X) + 1))))
    changes = [relabelled(found.groups, [n], k) for n in range(len(X)) for k in range(found.K + 1)]
    changes += [relabelled(found.groups, found.groups == k, j) for k in range(found.K) for j in range(k)]
    values = [error_of(X, labels) + penalty * (len(np.unique(labels)) - 1) for labels in changes]
    assert min(values) >= found.value * (1 - 1e-9) - 1e-9


@given(tables, seeds)
def test_polish_keeps_the_number_of_clusters_that_is_given(X, seed):
    rng = np.random.default_rng(seed)
    K, before = rng.integers(1, len(X) + 1, size=2)
    found = ClusterLandscape.of(X, 3.0, K=int(K)).polish(random_labels(rng, len(X), before))
    assert min(K, len(np.unique(X, axis=0))) == found.K
    assert found.value == pytest.approx(objective_of(X, found, 3.0), abs=1e-9)


@given(tables, penalties, seeds, st.sampled_from([None, "K", "cap"]))
def test_moves_propose_labels_that_a_polish_takes(X, penalty, seed, limit):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(1, len(X) + 1))
    weights = random_weights(rng, len(X))
    landscape = ClusterLandscape.of(X, penalty, weights, **({limit: K} if limit else {}))
    solution = landscape.start(rng)
    kept = solution.groups.copy()
    for move in cluster_moves.values():
        for _ in range(3):
            labels = move(landscape, solution, rng)
            assert_array_equal(solution.groups, kept)
            if labels is not None:
                assert labels.shape == (len(X),)
                assert labels.min() >= 0
                assert labels.max() <= solution.K
                found = landscape.polish(labels)
                assert landscape.most >= found.K
                assert found.value == pytest.approx(objective_of(X, found, penalty, weights), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", cluster_moves)
def test_each_move_improves_something(name):
    """From everything in one cluster, every row alone, or two clusters in one beside one in two."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 2)) + centre for centre in ([0, 0], [30, 0], [0, 30])])
    landscape = ClusterLandscape.of(X, 50.0)
    pieces = [np.zeros(60), np.arange(60), np.repeat([0, 0, 1, 2], [20, 20, 10, 10]), np.repeat([0, 0, 1], 20)]
    starts = [solution_of(landscape, labels.astype(np.int64)) for labels in pieces]
    before = [landscape.polish(start.groups).value for start in starts]
    proposals = [(i, cluster_moves[name](landscape, start, rng)) for i, start in enumerate(starts) for _ in range(40)]
    values = [(i, landscape.polish(labels).value) for i, labels in proposals if labels is not None]
    assert any(value < before[i] - 1 or value == pytest.approx(min(before)) for i, value in values)
    assert min(value for _, value in values) == pytest.approx(error_of(X, np.repeat([0, 1, 2], 20)) + 100)


@given(tables, seeds)
def test_merge_costs_are_what_merging_costs(X, seed):
    rng = np.random.default_rng(seed)
    K, weights = int(rng.integers(2, len(X) + 1)), 10.0 ** rng.uniform(-1, 1, size=len(X))
    landscape = ClusterLandscape.of(X, 1.0, weights)
    solution = solution_of(landscape, random_labels(rng, len(X), K))
    before = error_of(X, solution.groups, weights)
    merged = [
        np.inf if j == 0 else error_of(X, relabelled(solution.groups, solution.groups == j, 0), weights) - before
        for j in range(K)
    ]
    assert_allclose(landscape.merge_costs(solution, 0), merged, rtol=1e-8, atol=1e-8)
    state, used = state_of(landscape, solution.groups)
    price = 1 + min(
        error_of(X, relabelled(solution.groups, solution.groups == j, i), weights) - before
        for j in range(K)
        for i in range(j)
    )
    assert parts.merge_cheapest(state, used, 1, price / landscape.unit, 0.0) == 1
    assert error_of(X, state.labels, weights) == pytest.approx(before + price - 1, rel=1e-8, abs=1e-8)
    assert len(np.unique(state.labels)) == K - 1


@given(tables, penalties, seeds)
def test_crossed_clusters_are_no_worse_than_either(X, penalty, seed):
    """Costs of clusters add up, and where both solutions have the same rows together the cheaper are taken."""
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, len(X))
    landscape = ClusterLandscape.of(X, penalty, weights)
    one, two = (solution_of(landscape, random_labels(rng, len(X), int(rng.integers(1, len(X) + 1)))) for _ in range(2))
    labels = landscape.crossed(one, two)
    assume(labels is not None)
    value = error_of(X, labels, weights) + penalty * (len(np.unique(labels)) - 1)
    objectives = [error_of(X, s.groups, weights) + penalty * (s.K - 1) for s in (one, two)]
    assert value <= min(objectives) + 1e-9 * (1 + max(objectives))
    assert set(labels) == set(range(len(np.unique(labels))))


def test_places_are_taken_from_whoever_is_better_there():
    """Two pairs of rows far from each other: either solution splits one of them well."""
    X = np.array([[0.0], [0.1], [5.0], [5.1], [100.0], [100.1], [105.0], [105.1]])
    landscape = ClusterLandscape.of(X, 1.0)
    one = solution_of(landscape, np.array([0, 0, 1, 1, 2, 3, 2, 3]))
    two = solution_of(landscape, np.array([0, 1, 0, 1, 2, 2, 3, 3]))
    assert_array_equal(landscape.crossed(one, two), [0, 0, 1, 1, 2, 2, 3, 3])
    assert_array_equal(landscape.crossed(two, one), [2, 2, 3, 3, 0, 0, 1, 1])
    best = solution_of(landscape, np.array([0, 0, 1, 1, 2, 2, 3, 3]))
    assert landscape.crossed(best, two) is None


def test_crossing_keeps_the_number_that_is_given():
    """Where the other solution is better it has one cluster more; elsewhere as many, and is worse."""
    X = np.array([[0.0], [0.1], [5.0], [5.1], [100.0], [100.1], [105.0], [105.1]])
    landscape = ClusterLandscape.of(X, 0.0, K=3)
    one = solution_of(landscape, np.array([0, 0, 0, 0, 1, 1, 2, 2]))
    two = solution_of(landscape, np.array([0, 0, 1, 1, 2, 2, 2, 2]))
    assert landscape.crossed(one, two) is None
    worse = solution_of(landscape, np.array([0, 0, 0, 0, 1, 2, 1, 2]))
    assert len(np.unique(landscape.crossed(worse, one))) == 3


@given(tables, seeds)
def test_all_pairs_that_merge_at_once_cost_less_than_the_price_together(X, seed):
    rng = np.random.default_rng(seed)
    landscape = ClusterLandscape.of(X, 1.0)
    labels = random_labels(rng, len(X), len(X))
    state, used = state_of(landscape, labels)
    price = float(rng.exponential(4.0)) + 0.1
    merged = parts.merge_cheapest(state, used, used, price, 0.0)
    assert len(np.unique(state.labels)) == len(X) - merged
    assert error_of(X, state.labels) <= merged * price
    closest = min(((X[i] - X[j]) ** 2).sum() / 2 for i in range(len(X)) for j in range(i))
    assert (merged > 0) == (closest < price)


@given(tables, seeds)
def test_transfers_lower_the_squared_error_until_none_can(X, seed):
    rng = np.random.default_rng(seed)
    K, weights = int(rng.integers(2, len(X) + 1)), 10.0 ** rng.uniform(-1, 1, size=len(X))
    landscape = ClusterLandscape.of(X, 1.0, weights)
    labels = random_labels(rng, len(X), K)
    state, used = state_of(landscape, labels)
    moved = parts.transfer(landscape.X, landscape.weights, state, used, 1e-12)
    before, after = error_of(X, labels, weights), error_of(X, state.labels, weights)
    assert after < before if moved else after == before
    if not moved:  # no row is better off elsewhere, unless it is alone
        counts = np.bincount(labels)
        elsewhere = [
            error_of(X, relabelled(labels, [n], k), weights)
            for n in range(len(X))
            for k in range(K)
            if counts[labels[n]] > 1
        ]
        assert min(elsewhere, default=np.inf) >= before * (1 - 1e-9) - 1e-9


@given(tables, seeds)
def test_rows_open_clusters_where_that_gains_more_than_the_price(X, seed):
    rng = np.random.default_rng(seed)
    K, weights = int(rng.integers(1, len(X))), 10.0 ** rng.uniform(-1, 1, size=len(X))
    landscape = ClusterLandscape.of(X, 1.0, weights)
    labels = random_labels(rng, len(X), K)
    before, counts = error_of(X, labels, weights), np.bincount(labels)
    gains = [
        before - error_of(X, relabelled(labels, [n], K), weights) if counts[labels[n]] > 1 else 0.0
        for n in range(len(X))
    ]
    price = float(rng.choice([0.5, 1.5])) * max(gains)
    assume(price > 1e-6)
    state, used = state_of(landscape, labels, room=len(X))
    after = parts.open_rows(landscape.weights, state, used, K + 1, price / landscape.unit, 0.0)
    assert after == K + (max(gains) > price)
    assert before - error_of(X, state.labels, weights) == pytest.approx(max(gains) if after > K else 0.0, abs=1e-8)


@given(tables, seeds)
def test_a_cluster_is_cut_where_its_halves_say(X, seed):
    rng = np.random.default_rng(seed)
    weights = 10.0 ** rng.uniform(-1, 1, size=len(X))
    rows, gain = ClusterLandscape.of(X, 1.0, weights).bisect(np.arange(len(X)), rng)
    halves = np.isin(np.arange(len(X)), rows).astype(np.int64)
    assert 0 < len(rows) < len(X) or gain == 0 == len(rows)
    together = error_of(X, np.zeros(len(X)), weights)
    assert gain == pytest.approx(together - error_of(X, halves, weights), rel=1e-8, abs=1e-8)
    assert gain > 0 or together < 1e-20


def test_the_best_cut_along_a_line_is_found():
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=15), rng.uniform(0.1, 3, size=15)
    R, order = (x - np.average(x, weights=w))[:, None], x.argsort()
    errors = [error_of(R, np.isin(np.arange(15), order[:cut]), w) for cut in range(1, 15)]
    assert kernels.best_cut(R, w, order) == 1 + int(np.argmin(errors))


def test_scores_along_the_first_principal_direction():
    rng = np.random.default_rng(0)
    R = rng.normal(size=(40, 3)) * [5.0, 1.0, 0.5]
    R -= R.mean(axis=0)
    scores, direction = np.empty(40), rng.normal(size=3)
    kernels.principal_scores(R, np.ones(40), direction, 30, scores)
    first = np.linalg.svd(R)[2][0]
    assert_allclose(np.abs(scores), np.abs(R @ first), rtol=1e-6, atol=1e-6)


def test_what_a_seed_gains():
    rng = np.random.default_rng(0)
    X, w, nearest, rows = rng.normal(size=(30, 4)), rng.uniform(1, 2, size=30), rng.uniform(0, 9, size=30), np.arange(5)
    distances, gains = np.empty((5, 30)), np.empty(5)
    kernels.seed_gains(X, w, nearest, rows, distances, gains)
    expected = ((X[rows, None] - X) ** 2).sum(axis=2)
    assert_allclose(distances, expected)
    assert_allclose(gains, (nearest - np.minimum(nearest, expected)) @ w)


@given(tables, seeds)
def test_bounds_do_not_change_who_is_nearest(X, seed):
    """Some centres move, the others stay: the labels are those of comparing all with all."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, len(X) + 1))
    landscape = ClusterLandscape.of(X, 1.0)
    state, used = state_of(landscape, random_labels(rng, len(X), K))
    for _ in range(4):
        moving = rng.random(K) < 0.5
        state.A[moving] += rng.normal(size=(moving.sum(), 2))
        state.changed[:] = moving
        before = state.labels.copy()
        moved = parts.assign_near(landscape.X, landscape.columns, state, used, 1e-12)
        squares = ((landscape.X[:, None] - state.A) ** 2).sum(axis=2)
        assert_allclose(state.own, squares[np.arange(len(X)), state.labels], rtol=1e-9, atol=1e-12)
        assert_allclose(state.own, squares.min(axis=1), rtol=1e-9, atol=1e-12)
        squares[np.arange(len(X)), state.labels] = np.inf
        assert (state.others <= squares.min(axis=1) * (1 + 1e-9) + 1e-12).all()
        assert moved == (state.labels != before).sum()
        touched = np.unique([before[state.labels != before], state.labels[state.labels != before]])
        assert_array_equal(np.flatnonzero(state.changed), touched)


@cache
def all_partitions(N):
    return list(partitions(N))


@pytest.mark.parametrize("instance", range(30))
def test_tiny_instances_end_at_the_optimum(instance):
    """Against every partition, by the closed form of the squared error; penalties from small to large."""
    rng = np.random.default_rng(instance)
    X = rng.normal(size=(8, 2)) if instance % 2 else rng.integers(-3, 4, size=(8, 2)).astype(float)
    w = np.ones(8) if instance % 3 else rng.exponential(size=8) + 0.05
    penalty = error_of(X, np.zeros(8), w) * np.exp(rng.uniform(np.log(0.01), 0))
    sums = [((Z.T * w) @ X, Z.T @ w, Z.shape[1]) for Z in all_partitions(8)]
    errors = np.array([w @ (X**2).sum(axis=1) - ((S**2).sum(axis=1) / W).sum() for S, W, _ in sums])
    numbers = np.array([K for _, _, K in sums])
    found = best_of(ClusterLandscape.of(X, penalty, w), seed=instance)
    assert found.value == pytest.approx((errors + penalty * (numbers - 1)).min(), rel=1e-9, abs=1e-9)
    K = 2 + instance % 4
    found = best_of(ClusterLandscape.of(X, 0.0, w, K=K), seed=instance)
    assert found.value == pytest.approx(errors[numbers <= K].min(), rel=1e-9, abs=1e-9)
    found = best_of(ClusterLandscape.of(X, penalty, w, cap=K), seed=instance)
    assert found.value == pytest.approx((errors + penalty * (numbers - 1))[numbers <= K].min(), rel=1e-9, abs=1e-9)


def test_a_tiny_instance_against_exhaustive_search():
    X = np.random.default_rng(5).normal(size=(7, 2))
    assert best_of(ClusterLandscape.of(X, 0.7)).value == pytest.approx(exhaustive(X, dp_means_objective(0.7)).value)


@pytest.mark.parametrize(
    ("shape", "penalty", "K", "value"),
    [((2000, 10, 20, 4), 400.0, 20, 27156), ((5000, 16, 40, 3), 600.0, 40, 102403)],
)
def test_mixtures_where_single_rows_never_open_a_cluster(shape, penalty, K, value):
    """To the values that an independent search by splits, merges and transfers reached, rounded up."""
    found = best_of(ClusterLandscape.of(mixture(*shape), penalty), options=Search(max_moves=100))
    assert found.K == K
    assert found.value <= value


def test_a_mixture_whose_clusters_are_worth_splitting():
    """To the value that took other searches 45 seconds; they had neither regrouped by lineages nor crossed any."""
    found = best_of(ClusterLandscape.of(mixture(2000, 10, 20, 4), 60.0), options=Search(max_moves=2000))
    assert found.value <= 19409.2


def test_k_means_is_no_worse_than_the_best_of_many_seedings():
    X = mixture(500, 2, 10, 4)
    rng = np.random.default_rng(0)
    plain = min(k_means(X, X[rng.choice(500, 10, replace=False)]).value for _ in range(30))
    assert best_of(ClusterLandscape.of(X, 0.0, K=10), options=Search(max_moves=300)).value <= plain * (1 + 1e-9)


@pytest.mark.parametrize("limit", [{}, {"K": 3}, {"cap": 3}])
def test_weights_are_repeated_rows(limit):
    rng = np.random.default_rng(0)
    X, times = rng.normal(size=(10, 2)), rng.integers(1, 5, size=10)
    once = best_of(ClusterLandscape.of(X, 2.0, times.astype(float), **limit))
    repeated = best_of(ClusterLandscape.of(np.repeat(X, times, axis=0), 2.0, **limit))
    assert once.value == pytest.approx(repeated.value)
    assert once.K == repeated.K


@pytest.mark.parametrize("limit", [{}, {"K": 5}])
def test_the_same_bits_for_any_number_of_threads(limit):
    X = mixture(300, 3, 6, 3)
    answers = []
    for n_jobs in (1, 2):
        with Workers(n_jobs) as workers:
            landscape = ClusterLandscape.of(X, 20.0, **limit)
            answers.append(best_of(landscape, options=Search(max_moves=400), workers=workers))
    assert answers[0].value == answers[1].value
    assert answers[0].groups.tobytes() == answers[1].groups.tobytes()
    assert answers[0].A.tobytes() == answers[1].A.tobytes()


def test_duplicated_rows_and_constant_columns():
    X = np.repeat([[0.0, 7.0, 0.0], [0.0, 7.0, 1.0], [5.0, 7.0, 5.0]], [4, 3, 2], axis=0)
    for penalty, K, value in [(0.1, 3, 0.2), (3.0, 2, 3.0 + 12 / 7), (1e3, 1, error_of(X, np.zeros(9)))]:
        found = best_of(ClusterLandscape.of(X, penalty))
        assert found.K == K
        assert found.value == pytest.approx(value)


def test_as_many_clusters_as_there_are_distinct_rows():
    X = np.repeat(np.random.default_rng(0).normal(size=(6, 2)), 2, axis=0)
    for K in (6, 9, 12, 40):
        found = best_of(ClusterLandscape.of(X, 0.0, K=K))
        assert found.K == 6
        assert found.value == pytest.approx(0.0, abs=1e-20)


def test_a_single_row():
    for limit in ({}, {"K": 1}, {"K": 3}, {"cap": 2}):
        found = best_of(ClusterLandscape.of(np.array([[3.0, 4.0]]), 1.0, **limit))
        assert_array_equal(found.groups, [0])
        assert_array_equal(found.A, [[3.0, 4.0]])
        assert found.value == 0


def test_without_a_price_every_distinct_row_is_a_cluster():
    X = np.random.default_rng(0).normal(size=(200, 2))[np.arange(250) % 200]
    found = ClusterLandscape.of(X, 0.0).polish(np.zeros(250, dtype=np.int64))
    assert found.K == 200
    assert found.value == pytest.approx(0.0, abs=1e-20)
    assert best_of(ClusterLandscape.of(X, 0.0), options=Search(max_moves=50)).K == 200


@pytest.mark.parametrize("penalty", [1e12, 1e300])
def test_a_huge_price_leaves_one_cluster(penalty):
    X = mixture(100, 2, 3, 9)
    found = best_of(ClusterLandscape.of(X, penalty), options=Search(max_moves=100))
    assert found.K == 1
    assert found.value == pytest.approx((X**2).sum())
    assert ClusterLandscape.of(X, penalty).polish(np.arange(100)).K == 1


def test_offsets_do_not_change_the_clusters():
    X = mixture(300, 3, 5, 4)
    near, far = (ClusterLandscape.of(X + offset, 40.0) for offset in (0.0, 1e6))
    near, far = (best_of(landscape, options=Search(max_moves=200)) for landscape in (near, far))
    assert_array_equal(near.groups, far.groups)
    assert far.value == pytest.approx(near.value, rel=1e-6)
    assert far.value == pytest.approx(objective_of(X + 1e6, far, 40.0), rel=1e-6)


@pytest.mark.parametrize("spread", [3, 12])
def test_very_unequal_weights(spread):
    rng = np.random.default_rng(0)
    X, w = mixture(60, 2, 4, 4), 10.0 ** rng.uniform(-spread, spread, size=60)
    found = best_of(ClusterLandscape.of(X, 1.0, w), options=Search(max_moves=200))
    assert found.value == pytest.approx(objective_of(X, found, 1.0, w), rel=1e-9)
    for k in range(found.K):
        rows = found.groups == k
        assert_allclose(found.A[k], np.average(X[rows], axis=0, weights=w[rows]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1e150, 1e300])
def test_huge_and_tiny_weights(unit):
    """All the same: the same clusters, the value in their unit; no overflow on the way."""
    X, weights = mixture(60, 2, 4, 6), np.random.default_rng(0).uniform(0.1, 1, size=60) / 1e3
    for limit in ({}, {"K": 4}):
        plain = best_of(ClusterLandscape.of(X, 0.02, weights, **limit), options=Search(max_moves=60))
        found = best_of(ClusterLandscape.of(X, 0.02 * unit, weights * unit, **limit), options=Search(max_moves=60))
        assert found.K == plain.K > 1
        assert found.value / unit == pytest.approx(plain.value, rel=1e-9)


def test_the_errors_of_clusters_add_up():
    X = mixture(50, 2, 3, 4)
    landscape = ClusterLandscape.of(X, 10.0)
    solution = landscape.start(np.random.default_rng(0))
    assert landscape.errors(solution).sum() == pytest.approx(error_of(X, solution.groups))


def test_more_clusters_than_allowed_are_merged():
    X = mixture(60, 2, 4, 6)
    for limit in ({"K": 4}, {"cap": 4}):
        found = ClusterLandscape.of(X, 1e-3, **limit).polish(np.arange(60))
        assert found.K == 4
        assert found.value == pytest.approx(objective_of(X, found, 1e-3))


def test_the_stronger_polish_is_never_worse(seed):
    X = mixture(150, 2, 8, 3, seed)
    for limit in ({}, {"K": 8}):
        landscape = ClusterLandscape.of(X, 8.0, **limit)
        solution = landscape.polish(np.random.default_rng(seed).integers(8, size=150))
        harder = landscape.look_around(solution, np.random.default_rng(seed))
        assert harder.value <= solution.value
        assert harder.value == pytest.approx(objective_of(X, harder, 8.0))
