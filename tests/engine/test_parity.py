"""The engine against the paper's algorithms: the same discrete result, the same value, the same way there."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from madbayes import paper
from madbayes.engine import allocation, centres, partition
from madbayes.engine.blocks import Workers, row_blocks
from madbayes.engine.seeding import seed_clusters, seed_features

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
