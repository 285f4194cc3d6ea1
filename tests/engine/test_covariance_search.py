"""The search of clusters with covariances: its descent, its moves, what they reach, and its paths."""

from functools import cache, partial
from itertools import count, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from madbayes.engine.blocks import Workers
from madbayes.engine.climb import Effort, solve_path
from madbayes.engine.cluster_search import ClusterLandscape, relabelled
from madbayes.engine.covariance import covariance_dp_means
from madbayes.engine.covariance_search import CovarianceLandscape, covariance_moves
from madbayes.engine.kernels import covariance_search as parts
from madbayes.engine.path_search import Kind, find_path
from madbayes.engine.search import Search, search
from madbayes.model import CRP, FullCovarianceGaussian, KnownCovarianceGaussian, Objective
from madbayes.model.likelihoods import mahalanobis
from madbayes.model.priors import one_hot
from madbayes.paper import partitions

KINDS = ("learned", "shared", "slots")
by_kind = pytest.mark.parametrize("kind", KINDS)
tables = st.integers(2, 9).flatmap(
    lambda N: arrays(np.float64, (N, 2), elements=st.integers(-6, 6).map(lambda i: i / 2))
)
penalties = st.sampled_from([0.0, 0.1, 0.5, 2.0, 8.0, 1e6])
seeds = st.integers(0, 2**16)


def random_shape(rng, D):
    """A covariance that is longer in some direction than in others."""
    B = rng.normal(size=(D, D))
    return B @ B.T + 0.2 * np.eye(D)


def random_likelihood(kind, rng, D=2):
    if kind == "learned":
        return FullCovarianceGaussian(random_shape(rng, D) * np.exp(rng.normal()), float(np.exp(rng.normal())))
    if kind == "shared":
        return KnownCovarianceGaussian(random_shape(rng, D))
    return KnownCovarianceGaussian(np.stack([random_shape(rng, D) for _ in range(3)]))


def subset_losses(X, w, likelihood):
    """The loss of every set of rows as a cluster, for each shape it may have: the slow and obvious way."""
    losses = np.zeros((2 ** len(X), max(1, likelihood.n_slots)))
    for code in range(1, 2 ** len(X)):
        rows = (code >> np.arange(len(X))) & 1 > 0
        losses[code] = cluster_loss(X[rows], w[rows], likelihood)
    return losses


def cluster_loss(X, w, likelihood):
    """What some rows cost as a cluster, for each shape it may have."""
    R = X - np.average(X, axis=0, weights=w)
    S = (R.T * w) @ R
    if isinstance(likelihood, FullCovarianceGaussian):
        Phi, c = np.asarray(likelihood.prior_covariance), likelihood.covariance_penalty
        return [c * np.linalg.slogdet(np.eye(len(Phi)) + np.linalg.solve(Phi, S))[1]]
    n_shapes = max(1, likelihood.n_slots)
    return [np.trace(np.linalg.solve(likelihood.initial_covariance(k), S)) for k in range(n_shapes)]


def loss_of(X, labels, likelihood, weights=None):
    """The loss of these clusters, each in the slot that is best for all."""
    w = np.ones(len(X)) if weights is None else weights
    costs = np.array([cluster_loss(X[labels == k], w[labels == k], likelihood) for k in np.unique(labels)])
    if not likelihood.n_slots:
        return costs.sum()
    return min(
        sum(costs[k, slot] for k, slot in enumerate(slots)) for slots in permutations(range(len(costs[0])), len(costs))
    )


def objective_of(X, landscape, solution, weights=None):
    """By the definition, at the parameters that the landscape gives."""
    objective = Objective(landscape.likelihood, CRP(), landscape.penalty)
    return objective(X, one_hot(solution.groups, solution.K), landscape.parameters(solution), weights)


def random_labels(rng, N, K):
    return rng.permutation(np.concatenate([np.arange(K), rng.integers(K, size=N - K)]))


def random_weights(rng, N):
    return None if rng.random() < 0.3 else 10.0 ** rng.uniform(-2, 2, size=N)


def best_of(landscape, seed=0, options=None, workers=None):
    seeds = (int(np.random.default_rng([seed, i]).integers(2**31)) for i in count())
    return search(landscape, covariance_moves, options or Search(), seeds, workers or Workers(1))[0].best


def mixture(N, D, K, sep, stretch, seed):
    """Gaussian clusters of different shapes, and which row comes from which."""
    g = np.random.default_rng(seed)
    mu, z, F = g.normal(size=(K, D)) * sep / np.sqrt(2), g.integers(K, size=N), np.empty((K, D, D))
    for k in range(K):
        F[k] = np.linalg.qr(g.normal(size=(D, D)))[0] * np.exp(g.uniform(-1, 1, size=D) * np.log(stretch))
    return mu[z] + np.einsum("nde,ne->nd", F[z], g.normal(size=(N, D))), z


def default_likelihood(X, share=1.0):
    """The scatter of the whole table, column by column, as the estimator has it."""
    return FullCovarianceGaussian(share * np.diag(((X - X.mean(axis=0)) ** 2).sum(axis=0)))


@by_kind
@given(tables, penalties, seeds)
def test_polish_never_raises_the_objective_and_says_what_it_is(kind, X, penalty, seed):
    rng = np.random.default_rng(seed)
    likelihood, weights = random_likelihood(kind, rng), random_weights(rng, len(X))
    K = int(rng.integers(1, min(len(X), likelihood.n_slots or len(X)) + 1))
    labels = random_labels(rng, len(X), K)
    landscape = CovarianceLandscape.of(X, penalty, weights, likelihood=likelihood)
    found = landscape.polish(labels)
    assert_array_equal(np.unique(found.groups), np.arange(found.K))
    scale = max(1.0, loss_of(X, np.zeros(len(X)), likelihood, weights))
    assert found.value == pytest.approx(objective_of(X, landscape, found, weights), rel=1e-9, abs=1e-9 * scale)
    after = loss_of(X, found.groups, likelihood, weights) + penalty * (found.K - 1)
    assert found.value == pytest.approx(after, rel=1e-9, abs=1e-9 * scale)
    assert found.value <= loss_of(X, labels, likelihood, weights) + penalty * (K - 1) + 1e-9 * scale


@pytest.mark.parametrize("kind", ["learned", "shared"])
@given(tables, penalties, seeds)
def test_no_single_change_improves_on_a_polish(kind, X, penalty, seed):
    """Neither a row elsewhere, nor one alone, nor two clusters in one: each fitted from scratch."""
    rng = np.random.default_rng(seed)
    likelihood = random_likelihood(kind, rng)
    landscape = CovarianceLandscape.of(X, penalty, likelihood=likelihood)
    found = landscape.polish(random_labels(rng, len(X), int(rng.integers(1, len(X) + 1))))
    changes = [relabelled(found.groups, [n], k) for n in range(len(X)) for k in range(found.K + 1)]
    changes += [relabelled(found.groups, found.groups == k, j) for k in range(found.K) for j in range(k)]
    values = [loss_of(X, labels, likelihood) + penalty * (len(np.unique(labels)) - 1) for labels in changes]
    assert min(values) >= found.value * (1 - 1e-9) - 1e-9


@by_kind
@given(tables, penalties, seeds)
def test_rows_are_in_their_nearest_cluster_after_a_polish(kind, X, penalty, seed):
    """As the paper's step would have it, so that nothing is left for it to do."""
    rng = np.random.default_rng(seed)
    likelihood, weights = random_likelihood(kind, rng), random_weights(rng, len(X))
    landscape = CovarianceLandscape.of(X, penalty, weights, likelihood=likelihood)
    found = landscape.polish(random_labels(rng, len(X), int(rng.integers(1, len(X) + 1))))
    distances = mahalanobis(X, *landscape.parameters(found))
    own = distances[np.arange(len(X)), found.groups]
    assert_allclose(own, distances.min(axis=1), rtol=1e-7, atol=1e-9)


@by_kind
@given(tables, seeds)
def test_polish_keeps_the_number_of_clusters_that_is_given(kind, X, seed):
    rng = np.random.default_rng(seed)
    likelihood = random_likelihood(kind, rng)
    K, before = (int(number) for number in rng.integers(1, len(X) + 1, size=2))
    landscape = CovarianceLandscape.of(X, 3.0, likelihood=likelihood, K=K)
    found = landscape.polish(random_labels(rng, len(X), before))
    assert min(K, len(np.unique(X, axis=0)), likelihood.n_slots or K) == found.K
    assert found.value == pytest.approx(objective_of(X, landscape, found), rel=1e-9, abs=1e-9)


@by_kind
@given(tables, penalties, seeds, st.sampled_from([None, "K", "cap"]))
def test_moves_propose_labels_that_a_polish_takes(kind, X, penalty, seed, limit):
    rng = np.random.default_rng(seed)
    K, weights = int(rng.integers(1, len(X) + 1)), random_weights(rng, len(X))
    limits = {limit: K} if limit else {}
    landscape = CovarianceLandscape.of(X, penalty, weights, likelihood=random_likelihood(kind, rng), **limits)
    solution = landscape.start(rng)
    kept = solution.groups.copy()
    for move in covariance_moves.values():
        for _ in range(3):
            labels = move(landscape, solution, rng)
            assert_array_equal(solution.groups, kept)
            if labels is not None:
                assert labels.shape == (len(X),)
                assert labels.min() >= 0
                found = landscape.polish(labels)
                assert landscape.most >= found.K
                assert found.value == pytest.approx(objective_of(X, landscape, found, weights), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("name", covariance_moves)
def test_each_move_improves_something(name):
    """From everything in one cluster, every row alone, or two clusters in one beside one in two."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 2)) + centre for centre in ([0, 0], [30, 0], [0, 30])])
    likelihood, truth = default_likelihood(X), np.repeat([0, 1, 2], 20)
    landscape = CovarianceLandscape.of(X, 0.1, likelihood=likelihood)
    starts = [np.zeros(60), np.arange(60), np.repeat([0, 0, 1, 2], [20, 20, 10, 10]), np.repeat([0, 0, 1], 20)]
    values = []
    for start in starts:
        labels = start.astype(np.int64)
        means = np.array([X[labels == k].mean(axis=0) for k in np.unique(labels)])
        solution = landscape.simplest()._replace(groups=labels, A=means, value=np.inf)
        proposals = [covariance_moves[name](landscape, solution, rng) for _ in range(40)]
        values += [landscape.polish(labels).value for labels in proposals if labels is not None]
    assert min(values) == pytest.approx(loss_of(X, truth, likelihood) + 0.2)


@by_kind
@given(tables, seeds)
def test_merge_costs_are_what_merging_costs(kind, X, seed):
    rng = np.random.default_rng(seed)
    likelihood, weights = random_likelihood(kind, rng), 10.0 ** rng.uniform(-1, 1, size=len(X))
    K = int(rng.integers(2, min(len(X), likelihood.n_slots or len(X)) + 1))
    landscape = CovarianceLandscape.of(X, 1.0, weights, likelihood=likelihood)
    labels = random_labels(rng, len(X), K)
    solution = landscape.simplest()._replace(groups=labels, A=np.zeros((K, 2)))
    before = loss_of(X, labels, likelihood, weights)
    costs = landscape.merge_costs(solution, 0)
    assert costs[0] == np.inf
    for j in range(1, K):
        exact = loss_of(X, relabelled(labels, labels == j, 0), likelihood, weights) - before
        # A slot that becomes free may suit another cluster: the cost is an upper bound then.
        assert costs[j] >= exact - 1e-8
        if kind != "slots":
            assert costs[j] == pytest.approx(exact, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("kind", ["learned", "shared"])
def test_the_best_cut_along_an_order_is_found(kind):
    rng = np.random.default_rng(3)
    X, w, likelihood = rng.normal(size=(15, 2)), rng.uniform(0.1, 3, size=15), random_likelihood(kind, rng)
    landscape, order = CovarianceLandscape.of(X, 0.0, w, likelihood=likelihood), rng.permutation(15)
    side, cost = landscape.cut(order)
    losses = [loss_of(X, np.isin(np.arange(15), order[:first]), likelihood, w) for first in range(1, 15)]
    assert cost == pytest.approx(min(losses))
    assert_array_equal(np.flatnonzero(side == 0), np.sort(order[: 1 + int(np.argmin(losses))]))


@by_kind
@given(tables, seeds)
def test_a_cluster_is_cut_where_its_halves_say(kind, X, seed):
    rng = np.random.default_rng(seed)
    likelihood = random_likelihood(kind, rng)
    rows, gain = CovarianceLandscape.of(X, 1.0, likelihood=likelihood).bisect(np.arange(len(X)), rng)
    assert 0 < len(rows) < len(X) or gain == 0 == len(rows)
    if kind != "slots":
        halves = loss_of(X, np.isin(np.arange(len(X)), rows), likelihood)
        assert gain == pytest.approx(loss_of(X, np.zeros(len(X)), likelihood) - halves, rel=1e-8, abs=1e-8)
        assert gain >= 0


@by_kind
def test_distances_are_those_of_the_definition(kind):
    """Where covariances are learned they are (S + Phi) / c, and kernels leave out the c."""
    rng = np.random.default_rng(1)
    X, likelihood = rng.normal(size=(30, 3)) + 5, random_likelihood(kind, rng, D=3)
    landscape = CovarianceLandscape.of(X, 1.0, likelihood=likelihood, K=3)
    solution = landscape.start(rng)
    exact = mahalanobis(X, *landscape.parameters(solution))[np.arange(30), solution.groups]
    assert_allclose(landscape.unit * landscape.distances(solution), exact, rtol=1e-9)


@pytest.mark.parametrize("share", [1e-13, 1.0, 1e9])
def test_log_determinants_and_inverses(share):
    """Against an independent formula: the eigenvalues, whose logarithms lose no digits near one."""
    rng = np.random.default_rng(0)
    S, L, P = share * random_shape(rng, 4), np.empty((4, 4)), np.empty((4, 4))
    assert parts.log_det(S, L) == pytest.approx(np.log1p(np.linalg.eigvalsh(S)).sum(), rel=1e-12)
    parts.invert(L, P)
    assert_allclose(P @ (np.eye(4) + S), np.eye(4), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_precisions_follow_rows_that_move(seed):
    """After a pass in which rows moved, clusters are what fitting them from scratch makes of them."""
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(40, 3)), rng.integers(4, size=40)
    landscape = CovarianceLandscape.of(X, 0.0, likelihood=FullCovarianceGaussian(0.01 * np.eye(3)), K=4)
    state = landscape.fitted(labels)
    state.stamps[:], state.seen[:] = 1, 0
    moved = parts.transfer_rows(landscape.X, landscape.weights, state, 4, True, 1e-12, np.ones(1, dtype=np.int64))
    afresh = landscape.fitted(state.labels)
    assert moved > 0
    assert loss_of(X, state.labels, landscape.likelihood) < loss_of(X, labels, landscape.likelihood)
    assert_allclose(state.means, afresh.means, atol=1e-9)
    assert_allclose(state.P, afresh.P, rtol=1e-7, atol=1e-9)
    assert (np.linalg.eigvalsh(afresh.P)[:, 0] >= state.lows * (1 - 1e-9)).all()


@cache
def all_partitions(N):
    """For every partition the sets of rows in it, as codes."""
    powers = 2 ** np.arange(N)
    return [powers @ Z.astype(np.int64) for Z in partitions(N)]


def enumerated(X, w, likelihood):
    """The loss and the number of clusters of every partition."""
    losses = subset_losses(X, w, likelihood)
    if not likelihood.n_slots:
        return np.array([[losses[codes, 0].sum(), len(codes)] for codes in all_partitions(len(X))]).T
    values = []
    for codes in all_partitions(len(X)):
        if len(codes) <= likelihood.n_slots:
            orders = permutations(range(likelihood.n_slots), len(codes))
            values.append([min(losses[codes, list(slots)].sum() for slots in orders), len(codes)])
    return np.array(values).T


@pytest.mark.parametrize("instance", range(50))
def test_tiny_instances_end_at_the_optimum(instance):
    """Against every partition; shapes, weights and penalties from small to large."""
    rng, kind = np.random.default_rng(instance), ("learned", "learned", "shared", "learned", "slots")[instance % 5]
    N, D = 6 + instance % 3, 1 + instance % 2
    X = rng.normal(size=(N, D)) if instance % 4 < 2 else rng.integers(-3, 4, size=(N, D)).astype(float)
    w = np.ones(N) if instance % 3 else rng.exponential(size=N) + 0.05
    likelihood = random_likelihood(kind, rng, D)
    losses, numbers = enumerated(X, w, likelihood)
    penalty, K = losses[numbers == 1].min() * np.exp(rng.uniform(np.log(0.01), 0)), 2 + instance % 2
    landscape = partial(CovarianceLandscape.of, sample_weight=w, likelihood=likelihood)
    found = best_of(landscape(X, penalty), seed=instance)
    assert found.value == pytest.approx((losses + penalty * (numbers - 1)).min(), rel=1e-9, abs=1e-9)
    found = best_of(landscape(X, 0.0, K=K), seed=instance)
    assert found.value == pytest.approx(losses[numbers <= K].min(), rel=1e-9, abs=1e-9)
    found = best_of(landscape(X, penalty, cap=K), seed=instance)
    assert found.value == pytest.approx((losses + penalty * (numbers - 1))[numbers <= K].min(), rel=1e-9, abs=1e-9)


def test_many_small_clusters_are_found_where_two_do_not_pay():
    """Halves of this table cost more than the whole, while three pairs of near rows and a row alone cost less."""
    X = np.array([[0.0, 0.0], [0.1, 0.0], [50.0, 0.0], [50.0, 0.1], [0.0, 50.0], [0.1, 50.0], [50.0, 50.0]])
    likelihood = FullCovarianceGaussian(np.eye(2))
    losses, numbers = enumerated(X, np.ones(7), likelihood)
    penalty = 3.0
    values = losses + penalty * (numbers - 1)
    assert values[numbers == 1].min() < values[numbers == 2].min()
    found = best_of(CovarianceLandscape.of(X, penalty, likelihood=likelihood))
    assert found.value == pytest.approx(values.min())
    assert found.K == 4


@pytest.mark.parametrize("stretch", [1.0, 3.0])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_no_worse_than_restarts_and_the_polished_truth(stretch, share, seed):
    X, z = mixture(300, 3, 4, 6 / stretch, stretch, seed)
    likelihood = default_likelihood(X, share)
    free = CovarianceLandscape.of(X, 0.0, likelihood=likelihood)
    penalty = 0.5 * (free.simplest().value - free.with_K(4).polish(z).value) / 3
    landscape = CovarianceLandscape.of(X, penalty, likelihood=likelihood)
    rng = np.random.default_rng(seed)
    runs = [
        covariance_dp_means(X, penalty, likelihood, means, order=rng.permutation(300), workers=Workers(1))
        for means in [None] * 20 + [X[rng.choice(300, 4, replace=False)] for _ in range(20)]
    ]
    found = best_of(landscape, seed)
    assert found.value <= min(run.value for run in runs) * (1 + 1e-9)
    assert found.value <= landscape.polish(z).value * (1 + 1e-9)


def test_one_known_covariance_is_k_means_in_its_metric():
    rng = np.random.default_rng(2)
    X, shape = rng.normal(size=(30, 2)) * [5, 1], random_shape(rng, 2)
    landscape = CovarianceLandscape.of(X, 4.0, likelihood=KnownCovarianceGaussian(shape))
    round_table = np.linalg.solve(np.linalg.cholesky(shape), X.T).T
    assert best_of(landscape).value == pytest.approx(best_of_means(round_table, 4.0), rel=1e-9)


def best_of_means(X, penalty):
    from madbayes.engine.cluster_search import cluster_moves

    lineages = search(ClusterLandscape.of(X, penalty), cluster_moves, Search(), count(), Workers(1))
    return lineages[0].value


@by_kind
@pytest.mark.parametrize("limit", [{}, {"K": 3}, {"cap": 3}])
def test_weights_are_repeated_rows(kind, limit):
    rng = np.random.default_rng(0)
    X, times, likelihood = rng.normal(size=(10, 2)), rng.integers(1, 5, size=10), random_likelihood(kind, rng)
    once = best_of(CovarianceLandscape.of(X, 0.5, times.astype(float), likelihood=likelihood, **limit))
    repeated = best_of(CovarianceLandscape.of(np.repeat(X, times, axis=0), 0.5, likelihood=likelihood, **limit))
    assert once.value == pytest.approx(repeated.value)
    assert once.K == repeated.K


@by_kind
def test_the_same_bits_for_any_number_of_threads(kind):
    X, _ = mixture(200, 3, 4, 3, 2.0, 0)
    likelihood = default_likelihood(X) if kind == "learned" else random_likelihood(kind, np.random.default_rng(0), 3)
    answers = []
    for n_jobs in (1, 2):
        with Workers(n_jobs) as workers:
            landscape = CovarianceLandscape.of(X, 0.05 if kind == "learned" else 50.0, likelihood=likelihood)
            answers.append(best_of(landscape, options=Search(max_moves=300), workers=workers))
    assert answers[0].value == answers[1].value
    assert answers[0].groups.tobytes() == answers[1].groups.tobytes()
    assert answers[0].A.tobytes() == answers[1].A.tobytes()


@by_kind
def test_units_and_offsets_do_not_matter(kind):
    """The objective is the same if the table and all covariances are transformed together."""
    rng = np.random.default_rng(0)
    X, _ = mixture(150, 2, 3, 4, 2.0, 1)
    B = np.array([[30.0, 0.0], [7.0, 0.01]])
    likelihood = random_likelihood(kind, rng)
    if kind == "learned":
        Phi = 100 * likelihood.prior_covariance
        likelihood, other = FullCovarianceGaussian(Phi, 2.0), FullCovarianceGaussian(B @ Phi @ B.T, 2.0)
    else:
        other = KnownCovarianceGaussian(B @ likelihood.covariances @ B.T)
    penalty = 0.1 * CovarianceLandscape.of(X, 0.0, likelihood=likelihood).simplest().value
    here, there = (
        best_of(CovarianceLandscape.of(table, penalty, likelihood=model), options=Search(max_moves=300))
        for table, model in [(X, likelihood), (X @ B.T + 1e4, other)]
    )
    assert there.value == pytest.approx(here.value, rel=1e-6)
    assert_array_equal(here.groups, there.groups)


@by_kind
def test_parameters_are_those_of_the_likelihood(kind):
    rng = np.random.default_rng(0)
    X, likelihood = rng.normal(size=(30, 2)) + 3, random_likelihood(kind, rng)
    landscape = CovarianceLandscape.of(X, 0.0, likelihood=likelihood, K=3)
    solution = best_of(landscape, options=Search(max_moves=50))
    A = landscape.parameters(solution)
    assert A.means.shape == (3, 2)
    assert A.covariances.shape == (3, 2, 2)
    expected = likelihood.fit(X, one_hot(solution.groups, 3))
    assert_allclose(A.means, expected.means, atol=1e-9)
    if kind == "slots":  # each once, in the order that costs least
        order = [int(np.abs(likelihood.covariances - covariance).sum(axis=(1, 2)).argmin()) for covariance in A[1]]
        assert_array_equal(np.sort(order), np.arange(3))
    else:
        assert_allclose(A.covariances, expected.covariances, rtol=1e-9)


@pytest.mark.parametrize("penalty", [1e12, 1e300])
def test_a_huge_price_leaves_one_cluster(penalty):
    X, _ = mixture(60, 2, 3, 9, 1.0, 0)
    landscape = CovarianceLandscape.of(X, penalty, likelihood=default_likelihood(X))
    assert best_of(landscape, options=Search(max_moves=50)).K == 1
    assert landscape.polish(np.arange(60)).K == 1


def test_without_a_price_every_distinct_row_is_a_cluster():
    X = np.random.default_rng(0).normal(size=(40, 2))[np.arange(50) % 40]
    landscape = CovarianceLandscape.of(X, 0.0, likelihood=default_likelihood(X))
    found = landscape.polish(np.zeros(50, dtype=np.int64))
    assert found.K == 40
    assert found.value == pytest.approx(0.0, abs=1e-20)
    assert landscape.is_exact(found)


@by_kind
def test_a_single_row(kind):
    likelihood = random_likelihood(kind, np.random.default_rng(0))
    for limit in ({}, {"K": 1}, {"K": 3}, {"cap": 2}):
        found = best_of(CovarianceLandscape.of(np.array([[3.0, 4.0]]), 1.0, likelihood=likelihood, **limit))
        assert_array_equal(found.groups, [0])
        assert_array_equal(found.A, [[3.0, 4.0]])
        assert found.value == 0


@by_kind
def test_the_stronger_polish_is_never_worse(kind, seed):
    X, _ = mixture(80, 2, 5, 3, 2.0, seed)
    likelihood = random_likelihood(kind, np.random.default_rng(seed))
    for limit in ({}, {"K": 3}):
        landscape = CovarianceLandscape.of(X, 2.0, likelihood=likelihood, **limit)
        solution = landscape.polish(np.random.default_rng(seed).integers(3, size=80))
        harder = landscape.look_around(solution, np.random.default_rng(seed))
        assert harder.value <= solution.value
        assert harder.value == pytest.approx(objective_of(X, landscape, harder))


def solve(X, likelihood, most, weights=None, n_jobs=1):
    landscape = CovarianceLandscape.of(X, 0.0, weights, likelihood=likelihood)
    with Workers(n_jobs) as workers:
        return solve_path(
            landscape, covariance_moves, most, effort=Effort(), rng=np.random.default_rng(0), workers=workers
        )


@by_kind
@settings(max_examples=15)
@given(tables, st.integers(1, 5), seeds)
def test_paths_are_consecutive_and_their_losses_fall(kind, X, most, seed):
    rng = np.random.default_rng(seed)
    likelihood, weights = random_likelihood(kind, rng), random_weights(rng, len(X))
    solutions = solve(X, likelihood, most, weights)
    assert [solution.K for solution in solutions] == list(range(1, len(solutions) + 1))
    scale = solutions[0].value
    for solution in solutions:
        exact = loss_of(X, solution.groups, likelihood, weights)
        assert solution.value == pytest.approx(exact, rel=1e-8, abs=1e-9 * scale)
    assert all(after.value <= before.value + 1e-9 * scale for before, after in pairwise(solutions))
    # It goes on as long as it may, unless every cluster consists of equal rows.
    last = min(most, len(np.unique(X, axis=0)), likelihood.n_slots or most)
    assert last == solutions[-1].K or solutions[-1].value <= 1e-12 * scale


def test_paths_are_the_same_for_any_number_of_threads():
    X, _ = mixture(100, 2, 3, 4, 2.0, 0)
    one, two = (solve(X, default_likelihood(X), 5, n_jobs=n_jobs) for n_jobs in (1, 2))
    for here, there in zip(one, two, strict=True):
        assert here.value == there.value
        assert here.groups.tobytes() == there.groups.tobytes()


def test_a_path_shows_the_groups_that_are_there():
    rng = np.random.default_rng(0)
    X = np.repeat(12 * np.eye(3, 4), 40, axis=0) + rng.normal(size=(120, 4))
    kind = Kind(partial(CovarianceLandscape.of, likelihood=default_likelihood(X)), covariance_moves)
    with Workers(1) as workers:
        path = find_path(
            kind, X, None, cap=None, limit=6, min_weight=3.0, effort=Effort(n_null=2),
            rng=np.random.default_rng(0), workers=workers,
        )  # fmt: skip
    assert path.best == 3
    counts = [np.bincount(path.for_k(3).groups[40 * k : 40 * k + 40], minlength=3).max() for k in range(3)]
    assert counts == [40, 40, 40]
