"""Tables without groups: what they keep of a table, and what they do not."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kurtosis, skew

from madbayes.engine.null import groupless

N = 2000
tables = st.tuples(st.integers(2, 12), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-100, 100, allow_subnormal=False))
)


def correlated(rng, N=N):
    return rng.normal(size=(N, 1)) * [3.0, 2.0, -1.0] + rng.normal(size=(N, 3)) + [10.0, 0.0, -5.0]


def weighted_covariance(X, weights):
    R = X - np.average(X, axis=0, weights=weights)
    return (R.T * weights) @ R / weights.sum()


@given(tables, st.integers(0, 2**16), st.booleans())
def test_means_and_variances_are_those_of_the_table(X, seed, weighted):
    """Of the columns that the null varies at all, exactly."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 3, size=len(X)) if weighted else None
    Y = groupless(X, weights, rng)
    mean = np.average(X, axis=0, weights=weights)
    variance = weighted_covariance(X, np.ones(len(X)) if weights is None else weights).diagonal()
    scale = np.abs(X).max(initial=1.0)
    assert Y.shape == X.shape
    assert np.isfinite(Y).all()
    assert_allclose(Y.mean(axis=0), mean, atol=1e-9 * scale)
    assert_allclose(Y.var(axis=0), variance, rtol=1e-6, atol=1e-9 * scale**2)


def test_correlations_are_those_of_a_normal_table():
    """A correlation from 2000 rows has a standard error of at most 1/sqrt(2000) = .022: five of them."""
    X = correlated(np.random.default_rng(0))
    Y = groupless(X, None, np.random.default_rng(1))
    assert_allclose(np.corrcoef(Y.T), np.corrcoef(X.T), atol=0.11)
    # The first column is the longest: covariances as shares of its variance.
    assert_allclose(np.cov(Y.T), np.cov(X.T), atol=0.11 * np.cov(X.T).max())


def test_rows_in_a_plane_stay_near_it():
    """Rows are sums of the table's own, stretched by column: here hardly, for the columns are normal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6))
    spectrum = np.linalg.svd(groupless(X, None, rng) - X.mean(axis=0), compute_uv=False)
    assert spectrum[2] < 0.3 * spectrum[1]


@pytest.mark.parametrize("sign", [1, -1])
def test_skewed_columns_stay_skewed(sign):
    X = sign * np.exp(np.random.default_rng(0).normal(size=(N, 3)))
    Y = groupless(X, None, np.random.default_rng(1))
    assert (sign * skew(Y) > 1).all()


def test_symmetric_columns_stay_symmetric():
    """The skewness of 2000 normal numbers has a standard error of sqrt(6/2000) = .055."""
    X = np.random.default_rng(0).normal(size=(N, 4))
    Y = groupless(X, None, np.random.default_rng(1))
    assert (np.abs(skew(Y)) < 0.4).all()
    assert (np.abs(kurtosis(Y)) < 1).all()


def test_heavy_tails_stay_heavy():
    rng = np.random.default_rng(0)
    Y = groupless(rng.standard_t(3, size=(N, 4)), None, rng)
    assert (kurtosis(Y) > 1).all()
    assert (np.abs(skew(Y)) < np.sqrt(kurtosis(Y))).all()


def test_two_humps_become_one():
    rng = np.random.default_rng(0)
    X = np.repeat([-3.0, 3.0], N // 2)[:, None] + rng.normal(size=(N, 1)) * [1.0, 0.5]
    Y = groupless(X, None, rng)
    near = [(np.abs(table) < 1.0).mean(axis=0) for table in (X, Y)]
    # A uniform column with their standard deviation, about 3.1, has a fifth of its rows there.
    assert (near[0] < 0.03).all()
    assert (near[1] > 0.15).all()


def test_flat_columns_stay_flat():
    """Uniform numbers have an excess kurtosis of -1.2, normal ones of none; 2000 tell them apart."""
    rng = np.random.default_rng(0)
    Y = groupless(rng.uniform(size=(N, 3)), None, rng)
    assert_allclose(kurtosis(Y), -1.2, atol=0.2)
    assert (np.abs(skew(Y)) < 0.2).all()


def test_columns_between_flat_and_normal_stay_there():
    """The sum of two uniform numbers is a triangle: an excess kurtosis of -0.6."""
    rng = np.random.default_rng(1)
    Y = groupless(rng.uniform(size=(N, 3, 2)).sum(axis=2), None, rng)
    assert_allclose(kurtosis(Y), -0.6, atol=0.35)


@pytest.mark.parametrize("sign", [1, -1])
def test_columns_that_are_mostly_zero_stay_so(sign):
    """Their numbers are those of the table, but for a common factor that makes variances equal."""
    X = sign * np.maximum(np.random.default_rng(0).normal(size=(N, 3)) - 0.5, 0.0)
    Y = groupless(X, None, np.random.default_rng(1))
    levels = np.linspace(0.01, 0.99, 50)
    # Quantiles of 2000 such numbers have standard errors of up to .06 at the end.
    assert_allclose(np.quantile(Y, levels, axis=0), np.quantile(X, levels, axis=0), atol=0.25)
    most = [np.unique(np.round(column, 9), return_counts=True)[1].max() / N for column in Y.T]
    assert_allclose(most, (X == 0).mean(axis=0), atol=0.05)


@pytest.mark.parametrize("n_zeros", [200, 201, 300, 398])
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_of_three_numbers_that_are_mostly_one_have_no_others(n_zeros, weighted):
    """And not one alone, even where drawing rows would often give that."""
    x = np.maximum(np.arange(400) - n_zeros + 1, 0.0)
    X = np.minimum(x, 2.0)[:, None] * [1.0, -3.0]
    for seed in range(5):
        weights = np.full(400, 2.0) if weighted else None
        Y = groupless(X, weights, np.random.default_rng(seed), 200)
        assert {len(np.unique(column)) for column in Y.T} <= {2, 3}


def test_columns_of_two_numbers_have_two_humps_which_become_one():
    X = np.repeat([0.0, 1.0], [300, 100])[:, None]
    assert len(np.unique(groupless(X, None, np.random.default_rng(0)))) == 400


@pytest.mark.parametrize("n_rows", [1, 7, 500])
def test_any_number_of_rows(n_rows):
    X = correlated(np.random.default_rng(0), 60)
    Y = groupless(X, None, np.random.default_rng(1), n_rows)
    assert Y.shape == (n_rows, 3)
    assert_allclose(Y.mean(axis=0), X.mean(axis=0), atol=1e-9)
    if n_rows > 1:
        assert_allclose(Y.var(axis=0), X.var(axis=0), rtol=1e-9)


def test_constant_columns_stay_constant():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=50), np.full(50, 7.0), np.zeros(50), np.full(50, 0.1)])
    Y = groupless(X, None, rng)
    assert_allclose(Y[:, 1:], X[:, 1:], rtol=1e-12, atol=1e-12)
    assert Y[:, 0].std() > 0


def test_one_row_is_itself():
    X = np.array([[3.0, -4.0]])
    assert_allclose(groupless(X, None, np.random.default_rng(0)), X)


def test_columns_of_few_values():
    X = np.repeat([[0.0, 1.0], [1.0, 1.0], [1.0, 2.0]], [90, 5, 5], axis=0)
    assert np.isfinite(groupless(X, None, np.random.default_rng(0))).all()


def test_weights_count_as_rows():
    """Half of the rows weigh nothing to speak of: the rest has the mean and the covariance that are kept."""
    rng = np.random.default_rng(0)
    X = np.vstack([correlated(rng, N // 2), rng.normal([50.0, -50.0, 50.0], size=(N // 2, 3))])
    weights = np.repeat([1.0, 1e-9], N // 2)
    Y = groupless(X, weights, rng)
    assert_allclose(Y.mean(axis=0), X[: N // 2].mean(axis=0), atol=1e-3)
    assert_allclose(np.cov(Y.T), np.cov(X[: N // 2].T), atol=0.11 * np.cov(X[: N // 2].T).max())


def test_the_shape_of_columns_heeds_weights():
    """A skewed column whose far rows weigh next to nothing is symmetric."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(N, 1)), 3 + np.exp(2 * rng.normal(size=(N, 1)))])
    Y = groupless(X, np.repeat([1.0, 1e-9], N), np.random.default_rng(1))
    assert np.abs(skew(Y[:, 0])) < 0.5


def test_seeds_reproduce():
    X = correlated(np.random.default_rng(0), 50)
    first, again, other = (groupless(X, None, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_units_do_not_matter(unit):
    X = np.exp(correlated(np.random.default_rng(0), 60) / 5)
    plain, scaled = (groupless(table, None, np.random.default_rng(1)) for table in (X, X * unit))
    assert_allclose(scaled / unit, plain, rtol=1e-9)


def test_memory_grows_with_the_table_and_not_with_the_square_of_its_rows():
    """The table takes 48 kB, the square of its rows 72 MB."""
    X = np.random.default_rng(0).normal(size=(3000, 2))
    tracemalloc.start()
    groupless(X, None, np.random.default_rng(0))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100 * X.nbytes
