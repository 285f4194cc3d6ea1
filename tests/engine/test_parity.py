"""The engine against the paper's algorithms: the same discrete result, the same value, the same way there."""

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from madbayes import paper
from madbayes.engine import allocation, centres, covariance, partition
from madbayes.engine.blocks import Workers, row_blocks
from madbayes.engine.seeding import seed_clusters, seed_features
from madbayes.model import CRP, FullCovarianceGaussian, KnownCovarianceGaussian, MeansCovariances, Objective
from madbayes.model.likelihoods import cluster_scatters, least_squares, mahalanobis
from madbayes.model.priors import one_hot

ALONE = Workers(1)


def table(seed, N=40, D=5, K=4, noise=0.5):
    """Rows made of a few features and noise."""
    rng = np.random.default_rng(seed)
    Z, A = rng.random((N, K)) < 0.5, rng.normal(size=(K, D))
    return Z @ A + noise * rng.normal(size=(N, D))


def weights_for(weighted, N):
    return np.random.default_rng(N).random(N) + 0.2 if weighted else None


def assert_same_features(result, expected):
    np.testing.assert_array_equal(result.Z, expected.Z)
    np.testing.assert_allclose(result.A, expected.A, rtol=1e-7, atol=1e-9)
    assert result.value == pytest.approx(expected.value, rel=1e-9)
    assert (result.iterations, result.converged) == (expected.iterations, expected.converged)
    np.testing.assert_allclose(result.trace, expected.trace, rtol=1e-9)


def assert_same_clusters(run, expected):
    np.testing.assert_array_equal(run.labels, expected.labels)
    np.testing.assert_allclose(run.A, expected.A, rtol=1e-9, atol=1e-9)
    assert (run.iterations, run.converged) == (expected.iterations, expected.converged)
    np.testing.assert_allclose(run.trace, expected.trace, rtol=1e-9)


seeds = given(seed=st.integers(0, 10**6))
weighted = pytest.mark.parametrize("weighted", [False, True])


@pytest.fixture(params=[None, 7], ids=["one block", "small blocks"])
def blocks(request, monkeypatch):
    """The same tests on a single block and on many."""
    if request.param is not None:
        small = partial(small_blocks, size=request.param)
        monkeypatch.setattr(allocation, "row_blocks", small)
        monkeypatch.setattr(centres, "row_blocks", small)
        monkeypatch.setattr(covariance, "row_blocks", small)
        monkeypatch.setattr(covariance, "CHUNK", request.param)


def small_blocks(n_rows, n_columns, size):
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


@weighted
@pytest.mark.parametrize("K", [1, 4, 12])
@pytest.mark.parametrize("seed", range(6))
def test_k_features(K, weighted, seed, blocks):
    X = table(seed)
    weight = weights_for(weighted, len(X))
    starts = [paper.seed_features(X, K, random_state=s, sample_weight=weight) for s in range(5)]
    results = allocation.k_features(X, K, starts, sample_weight=weight, workers=ALONE)
    for start, result in zip(starts, results, strict=True):
        assert_same_features(result, paper.k_features(X, K, *start, sample_weight=weight))


@weighted
@pytest.mark.parametrize(("penalty", "cap"), [(0.5, None), (3.0, None), (30.0, None), (3.0, 3)])
@pytest.mark.parametrize("seed", range(6))
def test_bp_means(penalty, cap, weighted, seed, blocks):
    X = table(seed)
    weight = weights_for(weighted, len(X))
    starts = [paper.seed_features(X, penalty=penalty, random_state=s, sample_weight=weight) for s in range(5)]
    starts = [(Z[:, :cap], A[:cap]) for Z, A in starts]
    options = {"max_components": cap, "sample_weight": weight}
    results = allocation.bp_means(X, penalty, starts, workers=ALONE, **options)
    for start, result in zip(starts, results, strict=True):
        assert_same_features(result, paper.bp_means(X, penalty, *start, **options))


@weighted
@pytest.mark.parametrize(("penalty", "cap"), [(0.5, None), (3.0, None), (30.0, None), (3.0, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_collapsed_bp_means(penalty, cap, weighted, seed):
    X = table(seed, N=25)
    weight = weights_for(weighted, len(X))
    starts = [paper.seed_features(X, penalty=penalty, random_state=s, sample_weight=weight) for s in range(3)]
    starts = [(Z[:, :cap], A[:cap]) for Z, A in starts]
    options = {"max_components": cap, "sample_weight": weight}
    results = allocation.collapsed_bp_means(X, penalty, starts, workers=ALONE, **options)
    for (Z, _), result in zip(starts, results, strict=True):
        assert_same_features(result, paper.collapsed_bp_means(X, penalty, Z, **options))


@weighted
@pytest.mark.parametrize(("K", "penalty"), [(0, None), (5, None), (None, 0.3), (None, 5.0), (None, 1e6)])
def test_feature_seeds(K, penalty, weighted, seed):
    X = table(seed) + 1
    weight = weights_for(weighted, len(X))
    starts = seed_features(X, K, range(20), penalty=penalty, sample_weight=weight, workers=ALONE)
    for s, (Z, A) in enumerate(starts):
        expected = paper.seed_features(X, K, penalty=penalty, random_state=s, sample_weight=weight)
        np.testing.assert_array_equal(Z, expected[0])
        np.testing.assert_allclose(A, expected[1], atol=1e-12)


def test_feature_seeds_up_to_a_cap_are_the_first_ones():
    X = table(0, N=60) + 1
    for most in (1, 3, 20, 500):
        starts = seed_features(X, None, range(10), penalty=0.1, most=most, workers=ALONE)
        for s, (Z, A) in enumerate(starts):
            expected = paper.seed_features(X, penalty=0.1, random_state=s)
            np.testing.assert_array_equal(Z, expected[0][:, :most])
            np.testing.assert_allclose(A, expected[1][:most], atol=1e-12)


@weighted
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("penalty", "cap"), [(0.1, None), (2.0, None), (8.0, None), (2.0, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_dp_means(penalty, cap, shuffled, weighted, seed, blocks):
    X = table(seed, N=120)
    options = {"order": np.random.default_rng(seed).permutation(len(X)) if shuffled else None, "max_clusters": cap}
    weight = weights_for(weighted, len(X))
    expected = paper.dp_means(X, penalty, sample_weight=weight, **options)
    assert_same_clusters(partition.dp_means(partition.Table.of(X, weight), penalty, workers=ALONE, **options), expected)


@weighted
@pytest.mark.parametrize(("penalty", "cap"), [(0.1, None), (2.0, None), (8.0, None), (2.0, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_collapsed_dp_means(penalty, cap, weighted, seed, blocks):
    X = table(seed, N=60)
    order, weight = np.random.default_rng(seed).permutation(len(X)), weights_for(weighted, len(X))
    expected = paper.collapsed_dp_means(X, penalty, order=order, max_clusters=cap, sample_weight=weight)
    run = partition.collapsed_dp_means(
        partition.Table.of(X, weight), penalty, order=order, max_clusters=cap, workers=ALONE
    )
    assert_same_clusters(run, expected)


@weighted
@pytest.mark.parametrize("K", [1, 5, 20])
@pytest.mark.parametrize("seed", range(4))
def test_k_means(K, weighted, seed, blocks):
    X = table(seed, N=60)
    weight = weights_for(weighted, len(X))
    A = seed_clusters(X, K, seed, sample_weight=weight)
    np.testing.assert_array_equal(A, paper.seed_clusters(X, K, random_state=seed, sample_weight=weight))
    expected = paper.k_means(X, A, sample_weight=weight)
    assert_same_clusters(partition.k_means(partition.Table.of(X, weight), A, workers=ALONE), expected)


WIDE = np.array([[4.0, 1.5, 0.0], [1.5, 1.0, 0.2], [0.0, 0.2, 0.5]])
LIKELIHOODS = {
    "learned": FullCovarianceGaussian(40 * WIDE, 50.0),
    "one known": KnownCovarianceGaussian(WIDE),
    "known slots": KnownCovarianceGaussian(np.stack([WIDE, np.eye(3), 3 * np.eye(3), WIDE / 2, WIDE[::-1, ::-1]])),
}
likelihoods = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)


def assert_same_covariance_clusters(run, expected):
    np.testing.assert_array_equal(one_hot(run.labels, run.K), expected.Z)
    for found, part in zip(run.A, expected.A, strict=True):
        np.testing.assert_allclose(found, part, rtol=1e-9, atol=1e-9)
    assert (run.iterations, run.converged) == (expected.iterations, expected.converged)
    assert run.value == pytest.approx(expected.value, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(run.trace, expected.trace, rtol=1e-9, atol=1e-12)


def long_clusters(seed, N=120):
    """Rows of a few clusters that are long in different directions."""
    rng = np.random.default_rng(seed)
    labels, shapes = rng.integers(4, size=N), rng.normal(size=(4, 3, 3)) * [1.5, 0.5, 0.1]
    return (3 * rng.normal(size=(4, 3)))[labels] + np.einsum("nde,ne->nd", shapes[labels], rng.normal(size=(N, 3)))


@weighted
@likelihoods
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("penalty", "cap"), [(0.05, None), (0.4, None), (6.0, None), (0.4, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_covariance_dp_means(likelihood, penalty, cap, shuffled, weighted, seed, blocks):
    X = long_clusters(seed)
    options = {
        "order": np.random.default_rng(seed).permutation(len(X)) if shuffled else None,
        "max_clusters": cap,
        "sample_weight": weights_for(weighted, len(X)),
    }
    expected = paper.covariance_dp_means(X, penalty, likelihood, **options)
    run = covariance.covariance_dp_means(X, penalty, likelihood, workers=ALONE, **options)
    assert_same_covariance_clusters(run, expected)
    assert expected.K > 1 or penalty == 6.0


@likelihoods
@pytest.mark.parametrize("max_iter", [0, 1, 2, 300])
@pytest.mark.parametrize("far", [0.0, 1e3])
def test_covariance_dp_means_from_given_means(likelihood, max_iter, far, blocks):
    X = long_clusters(1)
    start = X[:4] + far
    expected = paper.covariance_dp_means(X, 2.0, likelihood, start, max_iter=max_iter)
    run = covariance.covariance_dp_means(X, 2.0, likelihood, start, max_iter=max_iter, workers=ALONE)
    assert_same_covariance_clusters(run, expected)


def test_known_covariances_that_no_row_uses_keep_their_place(blocks):
    X = np.array([[0.0], [0.1], [50.0], [50.1]])
    likelihood = KnownCovarianceGaussian(np.array([[[1.0]], [[2.0]], [[3.0]]]))
    start = np.array([[0.0], [1e4], [50.0]])
    run = covariance.covariance_dp_means(X, 10.0, likelihood, start, workers=ALONE)
    assert_same_covariance_clusters(run, paper.covariance_dp_means(X, 10.0, likelihood, start))
    np.testing.assert_array_equal(run.labels, [0, 0, 2, 2])
    assert run.K == 3


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), likelihood=st.sampled_from(["learned", "one", "slots"]), penalty=st.integers(0, 9))
def test_covariance_dp_means_on_a_lattice(seed, likelihood, penalty, blocks):
    """Many exact ties, and distances that equal the penalty."""
    likelihood = {
        "learned": FullCovarianceGaussian(4 * np.eye(2), 4.0),
        "one": KnownCovarianceGaussian(np.eye(2)),
        "slots": KnownCovarianceGaussian(np.stack([np.eye(2), 4 * np.eye(2), np.eye(2) / 4])),
    }[likelihood]
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(50, 2)).astype(float)
    options = {"order": rng.permutation(50), "max_iter": 1}
    expected = paper.covariance_dp_means(X, float(penalty), likelihood, X[:2], **options)
    run = covariance.covariance_dp_means(X, float(penalty), likelihood, X[:2], workers=ALONE, **options)
    assert_same_covariance_clusters(run, expected)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), cap=st.sampled_from([None, 130]))
def test_many_covariance_clusters_opened_in_one_pass(seed, cap):
    """More rows that open clusters than are looked at together."""
    X = np.random.default_rng(seed).normal(size=(3000, 2))
    likelihood = KnownCovarianceGaussian(np.array([[1.0, 0.5], [0.5, 1.0]]))
    expected = paper.covariance_dp_means(X, 0.05, likelihood, max_clusters=cap, max_iter=1)
    run = covariance.covariance_dp_means(X, 0.05, likelihood, max_clusters=cap, max_iter=1, workers=ALONE)
    assert_same_covariance_clusters(run, expected)
    assert run.K > 100


@weighted
@likelihoods
def test_covariance_loss_and_fit(likelihood, weighted, blocks):
    """What the engine sums block by block is what the model defines, at an offset too."""
    X, labels = long_clusters(2) + 1e5, np.arange(120) % 3
    Z, weight = one_hot(labels, 3), weights_for(weighted, 120)
    table = covariance.Table.of(X, weight)
    A = covariance.refit(table, labels, X[:3], likelihood, ALONE)
    for found, part in zip(A, likelihood.fit(X, Z, weight), strict=True):
        np.testing.assert_allclose(found, part, rtol=1e-9)
    elsewhere = MeansCovariances(A.means + 0.3, 2 * A.covariances)
    for parameters in (A, elsewhere):
        value = covariance.loss(table, labels, parameters, likelihood, ALONE)
        assert value == pytest.approx(Objective(likelihood, CRP())(X, Z, parameters, weight), rel=1e-9)
    np.testing.assert_array_equal(covariance.nearest(X, A, ALONE), mahalanobis(X, *A).argmin(axis=1))


def test_clusters_without_rows_have_no_price():
    X, likelihood = long_clusters(3), LIKELIHOODS["learned"]
    A = likelihood.fit(X, one_hot(np.arange(120) % 3, 3))
    first = MeansCovariances(A.means[:1], A.covariances[:1])
    table, labels = covariance.Table.of(X, None), np.zeros(120, dtype=np.int64)
    losses = [covariance.loss(table, labels, parameters, likelihood, ALONE) for parameters in (A, first)]
    assert losses[0] == losses[1] == pytest.approx(likelihood.loss(X, np.ones((120, 1)), first), rel=1e-9)


def test_few_rows_need_the_definition(monkeypatch):
    """Distances by products are enough for rows that are not near a border."""
    X, exact = long_clusters(5, N=2000), []
    A = KnownCovarianceGaussian(WIDE).fit(X, one_hot(np.arange(2000) % 3, 3))._replace(means=X[:3])
    monkeypatch.setattr(covariance, "mahalanobis", lambda X, *A: exact.append(len(X)) or mahalanobis(X, *A))
    labels = covariance.nearest(X, A, ALONE)
    np.testing.assert_array_equal(labels, mahalanobis(X, *A).argmin(axis=1))
    assert sum(exact) < 5


@pytest.mark.parametrize("K", [4, 50_000])
def test_rows_by_label(K):
    labels = np.array([3, 1, 3, K - 1, 1])
    found = {k: part.tolist() for k, part in covariance.by_label(labels, K)}
    assert found == {k: np.flatnonzero(labels == k).tolist() for k in set(labels.tolist())}


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_scatters_at_an_offset(offset, blocks):
    """Raw second moments would have no digit left at 1e6."""
    X, labels = np.round(long_clusters(4) * 256) / 256, np.arange(120) % 2
    centres = np.zeros((2, 3)) + offset
    table = covariance.Table.of(X + offset, None)
    means = covariance.cluster_means(table, labels, centres, ALONE)
    np.testing.assert_allclose(means - offset, least_squares(X, one_hot(labels, 2)), atol=1e-9)
    expected = cluster_scatters(X, one_hot(labels, 2), least_squares(X, one_hot(labels, 2)))
    np.testing.assert_allclose(covariance.cluster_scatters(table, labels, means, ALONE), expected, rtol=1e-9, atol=1e-8)


def test_cluster_seeds_of_a_long_table_are_rows_of_it(monkeypatch):
    monkeypatch.setattr("madbayes.engine.seeding.SEED_ROWS", 50)
    X = np.random.default_rng(0).normal(size=(300, 2))
    for weight in (None, np.ones(300)):
        A = seed_clusters(X, 4, 1, sample_weight=weight)
        assert len({tuple(row) for row in A} & {tuple(row) for row in X}) == 4


def test_k_means_refills_an_empty_cluster():
    X = np.array([[0.0], [0.1], [10.0], [20.0]])
    A = np.array([[0.0], [500.0], [10.0]])
    assert_same_clusters(partition.k_means(partition.Table.of(X, None), A, workers=ALONE), paper.k_means(X, A))


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), cap=st.sampled_from([None, 70, 130]))
def test_many_clusters_opened_in_one_pass(seed, cap):
    """More than the first guess of room, and more than a chunk of rows."""
    X = np.random.default_rng(seed).normal(size=(700, 2))
    expected = paper.dp_means(X, 0.02, max_clusters=cap, max_iter=2)
    run = partition.dp_means(partition.Table.of(X, None), 0.02, max_clusters=cap, max_iter=2, workers=ALONE)
    np.testing.assert_array_equal(run.labels, expected.labels)


def test_blocks_cover_the_rows_once_and_depend_on_the_shape_only():
    for shape in ((1, 1), (256, 3), (10_000, 100), (1_000_000, 2)):
        rows = np.concatenate([np.arange(shape[0])[block] for block in row_blocks(*shape)])
        np.testing.assert_array_equal(rows, np.arange(shape[0]))
