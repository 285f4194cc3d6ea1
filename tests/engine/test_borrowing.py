"""Features of larger solutions in place of others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from madbayes.engine.borrowing import borrowed, swapped, unlike
from madbayes.engine.climb import ALIKE, differences
from madbayes.engine.feature_search import FeatureLandscape
from madbayes.model import bp_means_objective

columns = st.tuples(st.integers(1, 30), st.integers(0, 8)).flatmap(
    lambda shape: arrays(np.uint8, shape, elements=st.integers(0, 1))
)


@given(columns, st.integers(0, 8))
def test_differences_are_rows_that_differ(Z, n):
    one, other = Z[:, :n].astype(float), Z[:, n:].astype(float)
    counted = np.array([[(a != b).sum() for b in other.T] for a in one.T]).reshape(one.shape[1], other.shape[1])
    assert_array_equal(differences(one, other), counted)


@given(columns)
def test_of_columns_that_are_alike_one_is_left(Z):
    """No two of those that are left are alike, and each of the others is like one of them."""
    left = unlike(Z)
    among = differences(left.astype(float), left.astype(float)) + len(Z) * np.eye(left.shape[1])
    assert (among > ALIKE * len(Z)).all()
    assert all(
        (differences(Z[:, [k]].astype(float), left.astype(float)) <= ALIKE * len(Z)).any() for k in range(Z.shape[1])
    )


def planted(seed, sizes):
    """A table of independent features of these lengths with a little noise, and who has them."""
    rng = np.random.default_rng(seed)
    Z = rng.integers(2, size=(120, len(sizes)), dtype=np.uint8)
    A = np.linalg.qr(rng.normal(size=(20, len(sizes))))[0].T * np.array(sizes)[:, None]
    return FeatureLandscape.of(Z @ A + 0.01 * rng.normal(size=(120, 20)), 0.0), Z


both_ways = pytest.mark.parametrize("take", [borrowed, swapped])


@both_ways
@pytest.mark.parametrize("seed", range(5))
def test_a_long_feature_takes_the_place_of_a_short_one(seed, take):
    """Of four planted features the longest is missing; all four are known of a larger number."""
    landscape, Z = planted(seed, [4.0, 3.0, 3.0, 1.0])
    here = landscape.with_K(3)
    poor = here.descend(Z[:, 1:], max_iter=0)
    found = take(here, poor, [landscape.descend(Z)])
    best = here.polish(Z[:, :3])
    assert found.K == 3
    assert found.value <= (1 + 1e-9) * best.value
    assert best.value < 0.5 * poor.value  # there was something to find
    assert found.value == pytest.approx(bp_means_objective(0.0)(landscape.table.X, found.groups, found.A, None))


@both_ways
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_it_is_never_worse_and_has_as_many_features(take, seed, K):
    rng = np.random.default_rng(seed)
    landscape = FeatureLandscape.of(rng.normal(size=(30, 5)), 0.0)
    here = landscape.with_K(K)
    solution = here.polish(rng.integers(2, size=(30, K)))
    larger = [landscape.with_K(more).polish(rng.integers(2, size=(30, more))) for more in (K + 1, K + 2)]
    found = take(here, solution, larger)
    assert found.K == solution.K
    assert found.value <= solution.value
    assert found.passes >= 1


def test_where_nothing_is_other_nothing_changes():
    """The larger solution has the same features and one that is hardly another."""
    landscape, Z = planted(0, [4.0, 3.0, 2.0])
    again = Z[:, :1].copy()
    again[:3] ^= 1
    solution = landscape.with_K(3).polish(Z)
    other = landscape.descend(np.column_stack([Z, again]), max_iter=0)
    assert other.K == 4
    found = borrowed(landscape.with_K(3), solution, [other])
    assert_array_equal(found.groups, solution.groups)
    assert (found.value, found.passes) == (solution.value, 1)  # nothing was tried
