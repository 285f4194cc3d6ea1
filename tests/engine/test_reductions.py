"""One feature less, by exact least squares."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from madbayes.engine.reductions import reductions


def table(seed, N=40, D=5, K=5):
    rng = np.random.default_rng(seed)
    Z = rng.integers(2, size=(N, K), dtype=np.uint8)
    return Z @ rng.normal(size=(K, D)) + rng.normal(size=(N, D)), rng.uniform(0.1, 2.0, size=N), Z


def error_of(X, weights, Z):
    """Weighted squared error of the best features, by least squares on scaled rows."""
    roots = np.sqrt(weights)[:, None]
    A = np.linalg.lstsq(roots * Z, roots * X, rcond=None)[0]
    return float((weights[:, None] * (X - Z @ A) ** 2).sum())


def every_reduction(Z, gone):
    """Without a feature; its rows with one other, or with two others, in its place."""
    for k in gone:
        others = [j for j in range(Z.shape[1]) if j != k]
        for instead in [(), *combinations(others, 1), *combinations(others, 2)]:
            new = Z.copy()
            for j in instead:
                new[:, j] |= Z[:, k]
            yield np.delete(new, k, axis=1)


@pytest.mark.parametrize("gone", [[0, 1, 2, 3, 4], [3], [4, 1]])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_all_ways_to_do_without_a_feature(seed, gone):
    X, weights, Z = table(seed)
    expected = sorted(error_of(X, weights, new) for new in every_reduction(Z, gone))
    found = reductions(X, weights, Z, np.array(gone), most=1000)
    assert len(found) == len(expected)
    assert_allclose([error_of(X, weights, new) for new in found], expected, rtol=1e-6)
    for few, many in zip(reductions(X, weights, Z, np.array(gone), most=3), found[:3], strict=True):
        assert_array_equal(few, many)


def test_of_many_others_the_best_alone_are_paired():
    X, weights, Z = table(7)
    alone = {}
    for j in range(1, 5):
        new = Z.copy()
        new[:, j] |= Z[:, 0]
        alone[j] = error_of(X, weights, new[:, 1:])
    first, second = sorted(alone, key=lambda j: alone[j])[:2]
    pair = Z.copy()
    pair[:, [first, second]] |= Z[:, [0]]
    found = reductions(X, weights, Z, np.array([0]), most=1000, n_partners=2)
    assert len(found) == 1 + 4 + 1
    assert any(np.array_equal(new, pair[:, 1:]) for new in found)


@pytest.mark.parametrize("K", [1, 2])
def test_few_features(K):
    X, weights, Z = table(0, K=K)
    found = reductions(X, weights, Z, np.arange(K), most=10)
    assert {new.shape for new in found} == {(40, K - 1)}
    assert len(found) == (1 if K == 1 else 4)


def test_columns_that_say_the_same_explain_as_much_as_one():
    """Two features that become the same one, and one that becomes what all rows have, as another does."""
    X, weights, Z = table(1)
    Z[:, 1] = Z[:, 0] & Z[:, 2]
    Z[:, 3], Z[:, 4] = 1, 1 - Z[:, 2]
    expected = sorted(error_of(X, weights, new) for new in every_reduction(Z, [2]))
    found = reductions(X, weights, Z, np.array([2]), most=1000)
    assert_allclose([error_of(X, weights, new) for new in found], expected, rtol=1e-6)
